//! Whom known_hosts files vouch for, decided as OpenSSH decides it (hostfile.c, match.c).
//!
//! libssh2's own reader ignores `@revoked`, wildcards and negation and stops at a bad line, so it
//! is not used. Where this differs from OpenSSH it refuses more: a key of another type than the
//! known ones and a host known only by a certificate authority are never accepted as new, and a key
//! revoked for the bare host name is also refused on another port.

mod line;
mod pattern;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use sha2::{Digest, Sha256};

use line::{Entry, Marker, parse_line};

/// A public key as it is sent: SSH wire format (RFC 4253, section 6.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKey {
    algorithm: String,
    blob: Vec<u8>,
}

impl HostKey {
    /// The key in `blob`, which begins with the name of its own algorithm; `None` where it does not.
    pub fn from_blob(blob: &[u8]) -> Option<HostKey> {
        let length = u32::from_be_bytes(*blob.first_chunk::<4>()?) as usize;
        let name = blob.get(4..4usize.checked_add(length)?)?;
        let plain = |b: &u8| b.is_ascii_graphic();
        if name.is_empty()
            || name.len() > 128
            || !name.iter().all(plain)
            || blob.len() == 4 + length
        {
            return None;
        }
        let algorithm = String::from_utf8(name.to_vec()).ok()?;
        Some(HostKey {
            algorithm,
            blob: blob.to_vec(),
        })
    }

    /// Its algorithm, such as `ssh-ed25519`.
    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    /// `SHA256:…` as `ssh-keygen -l` prints it.
    pub fn fingerprint(&self) -> String {
        format!(
            "SHA256:{}",
            BASE64_STANDARD_NO_PAD.encode(Sha256::digest(&self.blob))
        )
    }

    /// Kind and fingerprint: `ED25519 SHA256:…`.
    pub fn describe(&self) -> String {
        format!("{} {}", kind(&self.algorithm), self.fingerprint())
    }

    /// Algorithm and key as in an `authorized_keys` or known_hosts line.
    pub fn to_line(&self) -> String {
        format!("{} {}", self.algorithm, BASE64_STANDARD.encode(&self.blob))
    }
}

/// What people call a key algorithm: `ED25519`, `ECDSA`, `RSA`.
pub fn kind(algorithm: &str) -> &str {
    match algorithm {
        "ssh-ed25519" => "ED25519",
        "ssh-rsa" => "RSA",
        "ssh-dss" => "DSA",
        other if other.starts_with("ecdsa-sha2-") => "ECDSA",
        other => other,
    }
}

/// A line of a known_hosts file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<Path>,
    /// Line number, from 1.
    pub line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// A line that was skipped, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Where it is.
    pub place: Place,
    /// What is wrong with it.
    pub why: &'static str,
}

/// What the files say about a key that a server shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This very key is listed for the host.
    Known(Place),
    /// Nothing is listed for the host.
    Unknown,
    /// Another key of this type is listed.
    Changed(Place),
    /// The key is marked `@revoked` for the host.
    Revoked(Place),
    /// Only keys of other types are listed: their algorithms, and where the first is.
    OnlyOtherTypes(Vec<String>, Place),
    /// Only `@cert-authority` lines are listed.
    OnlyCertAuthority(Place),
}

/// The lines of any number of known_hosts files, in order.
#[derive(Clone, Debug, Default)]
pub struct KnownHosts {
    entries: Vec<(Place, Entry)>,
    bad: Vec<BadLine>,
}

impl KnownHosts {
    /// Adds the text of one file. A line that cannot be read is skipped and remembered.
    pub fn add_file(&mut self, file: &Path, text: &[u8]) {
        let file: Arc<Path> = Arc::from(file);
        for (index, line) in text.split(|&b| b == b'\n').enumerate() {
            let place = Place {
                file: Arc::clone(&file),
                line: index + 1,
            };
            self.add_line(place, &String::from_utf8_lossy(line));
        }
    }

    /// Adds one line.
    pub(super) fn add_line(&mut self, place: Place, line: &str) {
        match parse_line(line) {
            Ok(Some(entry)) => self.entries.push((place, entry)),
            Ok(None) => {}
            Err(why) => self.bad.push(BadLine { place, why }),
        }
    }

    /// The lines that were skipped.
    pub fn bad_lines(&self) -> &[BadLine] {
        &self.bad
    }

    /// What is known of `key` for `host` on `port`. On another port than 22 the name is
    /// `[host]:port`; a key that is unknown under it but listed for the bare host is known too.
    pub fn check(&self, host: &str, port: u16, key: &HostKey) -> Verdict {
        let verdict = self.check_name(&lookup_name(host, port), key);
        if port == 22 || verdict != Verdict::Unknown {
            return verdict;
        }
        match self.check_name(&lookup_name(host, 22), key) {
            found @ (Verdict::Known(_) | Verdict::Revoked(_) | Verdict::OnlyCertAuthority(_)) => {
                found
            }
            _ => Verdict::Unknown,
        }
    }

    /// Key algorithms listed for the host, in file order: what to ask the server for first.
    pub fn algorithms(&self, host: &str, port: u16) -> Vec<String> {
        let mut algorithms: Vec<String> = Vec::new();
        for name in [lookup_name(host, port), lookup_name(host, 22)] {
            let listed = self
                .matching(&name)
                .filter(|(_, entry)| entry.marker == Marker::None);
            for (_, entry) in listed {
                if !algorithms
                    .iter()
                    .any(|known| known == entry.key.algorithm())
                {
                    algorithms.push(entry.key.algorithm().to_string());
                }
            }
            if !algorithms.is_empty() {
                break;
            }
        }
        algorithms
    }

    fn matching<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a (Place, Entry)> {
        self.entries
            .iter()
            .filter(move |(_, entry)| entry.hosts.matches(name))
    }

    fn check_name(&self, name: &str, key: &HostKey) -> Verdict {
        let entries: Vec<_> = self.matching(name).collect();
        let find = |marker: Marker, wanted: &dyn Fn(&HostKey) -> bool| {
            let hit = entries
                .iter()
                .find(|(_, e)| e.marker == marker && wanted(&e.key));
            hit.map(|(place, _)| place.clone())
        };
        if let Some(place) = find(Marker::Revoked, &|listed| listed == key) {
            return Verdict::Revoked(place);
        }
        if let Some(place) = find(Marker::None, &|listed| listed == key) {
            return Verdict::Known(place);
        }
        if let Some(place) = find(Marker::None, &|listed| listed.algorithm == key.algorithm) {
            return Verdict::Changed(place);
        }
        if let Some(place) = find(Marker::None, &|_| true) {
            let plain = entries.iter().filter(|(_, e)| e.marker == Marker::None);
            let mut types: Vec<String> = plain.map(|(_, e)| e.key.algorithm.clone()).collect();
            types.dedup();
            return Verdict::OnlyOtherTypes(types, place);
        }
        find(Marker::CertAuthority, &|_| true).map_or(Verdict::Unknown, Verdict::OnlyCertAuthority)
    }
}

/// The name under which a host stands in known_hosts: `host`, or `[host]:port` where the port is
/// not 22; in lower case, as OpenSSH looks it up.
pub fn lookup_name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == 22 {
        host
    } else {
        format!("[{host}]:{port}")
    }
}

/// The line that records a new key.
pub fn new_line(host: &str, port: u16, key: &HostKey) -> String {
    format!("{} {}\n", lookup_name(host, port), key.to_line())
}

/// The files OpenSSH reads when nothing else is configured: the user's, then the machine's.
pub fn default_files(home: &Path) -> Vec<PathBuf> {
    vec![
        home.join(".ssh/known_hosts"),
        home.join(".ssh/known_hosts2"),
        PathBuf::from("/etc/ssh/ssh_known_hosts"),
        PathBuf::from("/etc/ssh/ssh_known_hosts2"),
    ]
}

#[cfg(test)]
mod tests;
