//! Tests of the matcher; the comparison with `ssh` itself is in tests/ssh.rs.

use super::pattern::glob;
use super::*;
use hmac::{Hmac, KeyInit, Mac};
use proptest::prelude::*;
use sha1::Sha1;

fn key(algorithm: &str, seed: u8) -> HostKey {
    let mut blob = (algorithm.len() as u32).to_be_bytes().to_vec();
    blob.extend_from_slice(algorithm.as_bytes());
    blob.extend_from_slice(&[seed; 32]);
    HostKey::from_blob(&blob).unwrap()
}

fn ed(seed: u8) -> HostKey {
    key("ssh-ed25519", seed)
}

fn hosts(text: &str) -> KnownHosts {
    let mut known = KnownHosts::default();
    known.add_file(Path::new("kh"), text.as_bytes());
    known
}

fn verdict(text: &str, host: &str, port: u16, key: &HostKey) -> Verdict {
    hosts(text).check(host, port, key)
}

fn at(line: usize) -> Place {
    Place {
        file: Arc::from(Path::new("kh")),
        line,
    }
}

fn hashed(name: &str, salt: [u8; 20]) -> String {
    let mut mac = <Hmac<Sha1> as KeyInit>::new_from_slice(&salt).unwrap();
    mac.update(name.as_bytes());
    let hash = BASE64_STANDARD.encode(mac.finalize().into_bytes());
    format!("|1|{}|{hash}", BASE64_STANDARD.encode(salt))
}

#[test]
fn known_unknown_changed_and_other_types() {
    let text = format!("# c\n\nnode1,10.0.0.1 {} comment\n", ed(1).to_line());
    assert_eq!(verdict(&text, "node1", 22, &ed(1)), Verdict::Known(at(3)));
    assert_eq!(verdict(&text, "NODE1", 22, &ed(1)), Verdict::Known(at(3)));
    assert_eq!(
        verdict(&text, "10.0.0.1", 22, &ed(2)),
        Verdict::Changed(at(3))
    );
    assert_eq!(verdict(&text, "node2", 22, &ed(1)), Verdict::Unknown);
    let other = Verdict::OnlyOtherTypes(vec!["ssh-ed25519".into()], at(3));
    assert_eq!(verdict(&text, "node1", 22, &key("ssh-rsa", 1)), other);
    assert_eq!(hosts(&text).algorithms("node1", 22), ["ssh-ed25519"]);
}

#[test]
fn a_later_line_with_the_right_key_wins_over_an_earlier_other_one() {
    let text = format!("n {}\nn {}\n", ed(1).to_line(), ed(2).to_line());
    assert_eq!(verdict(&text, "n", 22, &ed(2)), Verdict::Known(at(2)));
}

#[test]
fn revoked_wins_wherever_it_stands() {
    let text = format!("n {0}\n@revoked * {0}\n", ed(1).to_line());
    assert_eq!(verdict(&text, "n", 22, &ed(1)), Verdict::Revoked(at(2)));
    let bare = format!("@revoked n {}\n", ed(1).to_line());
    assert_eq!(verdict(&bare, "n", 2222, &ed(1)), Verdict::Revoked(at(1)));
    assert_eq!(verdict(&bare, "n", 22, &ed(2)), Verdict::Unknown);
}

#[test]
fn an_authority_alone_vouches_for_nothing_here() {
    let text = format!("@cert-authority *.example {}\n", ed(1).to_line());
    assert_eq!(
        verdict(&text, "a.example", 22, &ed(1)),
        Verdict::OnlyCertAuthority(at(1))
    );
    assert_eq!(verdict(&text, "a.other", 22, &ed(1)), Verdict::Unknown);
}

#[test]
fn wildcards_and_negation() {
    let text = format!("node*,!node9?,10.0.? {}\n", ed(1).to_line());
    assert_eq!(verdict(&text, "node12", 22, &ed(1)), Verdict::Known(at(1)));
    assert_eq!(verdict(&text, "node91", 22, &ed(1)), Verdict::Unknown);
    assert_eq!(verdict(&text, "10.0.7", 22, &ed(1)), Verdict::Known(at(1)));
    assert_eq!(verdict(&text, "10.0.77", 22, &ed(1)), Verdict::Unknown);
}

#[test]
fn ports() {
    let text = format!("[n]:2222 {}\nbare {}\n", ed(1).to_line(), ed(2).to_line());
    assert_eq!(verdict(&text, "n", 2222, &ed(1)), Verdict::Known(at(1)));
    assert_eq!(verdict(&text, "n", 22, &ed(1)), Verdict::Unknown);
    // OpenSSH accepts the bare name's key on any port, and takes another key there as no news.
    assert_eq!(verdict(&text, "bare", 2222, &ed(2)), Verdict::Known(at(2)));
    assert_eq!(verdict(&text, "bare", 2222, &ed(3)), Verdict::Unknown);
}

#[test]
fn hashed_names() {
    let text = format!("{} {}\n", hashed("[n]:2222", [7; 20]), ed(1).to_line());
    assert_eq!(verdict(&text, "n", 2222, &ed(1)), Verdict::Known(at(1)));
    assert_eq!(verdict(&text, "n", 2223, &ed(1)), Verdict::Unknown);
    // A name hashed by ssh-keygen -H, to hold this against OpenSSH and not against ourselves.
    let theirs = "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=";
    let text = format!("{theirs} {}\n", ed(1).to_line());
    assert_eq!(
        verdict(&text, "192.168.1.61", 22, &ed(1)),
        Verdict::Known(at(1))
    );
}

#[test]
fn bad_lines_are_skipped_and_reported() {
    let good = ed(1).to_line();
    let text = format!(
        "n\nn ssh-ed25519\nn ssh-ed25519 !!!\nn ssh-rsa {0}\n@wat n {1}\n@revoked @revoked n {1}\n|1|x|y {1}\nn {1}\r\n",
        good.split(' ').nth(1).unwrap(),
        good
    );
    let known = hosts(&text);
    assert_eq!(known.check("n", 22, &ed(1)), Verdict::Known(at(8)));
    let report: Vec<_> = known
        .bad_lines()
        .iter()
        .map(|b| (b.place.line, b.why))
        .collect();
    assert_eq!(
        report,
        [
            (1, "it ends before the key type"),
            (2, "it ends before the key"),
            (3, "the key is not base64"),
            (4, "the key is of another type than the line says"),
            (5, "the marker is neither @revoked nor @cert-authority"),
            (6, "only one marker is allowed"),
            (7, "the hashed host name is malformed"),
        ]
    );
}

/// The obvious definition of a glob, exponential and easy to trust.
fn slow_glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            slow_glob(&pattern[1..], text) || (!text.is_empty() && slow_glob(pattern, &text[1..]))
        }
        (Some(b'?'), Some(_)) => slow_glob(&pattern[1..], &text[1..]),
        (Some(p), Some(t)) if p == t => slow_glob(&pattern[1..], &text[1..]),
        _ => false,
    }
}

proptest! {
    #[test]
    fn globs_agree_with_their_definition(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
        let (p, t) = (pattern.as_bytes(), text.as_bytes());
        prop_assert_eq!(glob(p, t), slow_glob(p, t));
    }

    #[test]
    fn no_file_panics_and_every_line_is_accounted_for(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut known = KnownHosts::default();
        known.add_file(Path::new("kh"), &text);
        let lines = text.split(|&b| b == b'\n').count();
        prop_assert!(known.bad_lines().len() + known.entries.len() <= lines);
        let _ = known.check("n", 22, &ed(1));
    }

    #[test]
    fn a_recorded_key_is_known_and_no_other(host in "[a-z][a-z0-9.-]{0,20}", port in 1u16.., noise in "[^\n]{0,60}", seed in 0u8..200) {
        let text = format!("{noise}\n{}", new_line(&host, port, &ed(seed)));
        let known = hosts(&text);
        prop_assert!(matches!(known.check(&host, port, &ed(seed)), Verdict::Known(_)));
        prop_assert!(!matches!(known.check(&host, port, &ed(seed + 1)), Verdict::Known(_)));
    }

    #[test]
    fn a_hashed_name_matches_that_name_alone(host in "[a-z]{1,12}", other in "[a-z]{1,12}", salt in any::<[u8; 20]>()) {
        let text = format!("{} {}\n", hashed(&host, salt), ed(1).to_line());
        let known = matches!(verdict(&text, &other, 22, &ed(1)), Verdict::Known(_));
        prop_assert_eq!(known, host == other);
    }

    #[test]
    fn host_key_blobs_never_panic(blob in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = HostKey::from_blob(&blob);
    }
}
