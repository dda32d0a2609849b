//! The SSH carrier against a real OpenSSH server.

#[path = "support/client.rs"]
mod client;
#[path = "support/sshd.rs"]
mod sshd;

use client::{Session, script, target};
use linerate::remote::{Ended, SshCarrier, SshOptions, Stage, Target};
use sshd::Sshd;

fn options(sshd: &Sshd) -> SshOptions {
    let mut options = SshOptions::for_home(sshd.dir.path());
    options.identity_files = vec![sshd.key()];
    options.use_agent = false;
    options.known_hosts = vec![sshd.true_known_hosts()];
    options
}

fn at(sshd: &Sshd) -> Target {
    target(&sshd.host, sshd.port, &sshd.user)
}

fn carrier(options: SshOptions) -> SshCarrier {
    SshCarrier::new(options).unwrap()
}

#[test]
fn deploys_once_and_carries_bytes_both_ways() {
    let sshd = Sshd::start();
    let payload = script(sshd.dir.path(), "echo hello $1; echo warn >&2; exec cat");
    for deployed in [true, false] {
        let mut session = Session::start(carrier(options(&sshd)), at(&sshd), payload.clone());
        session.until_out("hello agent\n");
        session.outbox.send(b"ping\n".to_vec()).unwrap();
        session.until_out("ping\n");
        session.outbox.close();
        let (result, rest) = session.end();
        assert_eq!(result.unwrap(), Ended::ClosedByUs);
        assert_eq!(
            (rest.out.as_str(), rest.err.as_str()),
            ("hello agent\nping\n", "warn\n")
        );
        let sent = rest
            .stages
            .iter()
            .any(|s| matches!(s, Stage::Deploying { .. }));
        assert_eq!(sent, deployed);
    }
    let files: Vec<_> = std::fs::read_dir(sshd.cache().join("linerate"))
        .unwrap()
        .collect();
    assert_eq!(files.len(), 1, "only the binary is left: {files:?}");
}
