//! The server's key held against known_hosts; fails closed.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ssh2::{MethodType, Session};

use super::Stop;
use crate::remote::Target;
use crate::remote::error::Failure;
use crate::remote::known_hosts::{
    BadLine, HostKey, KnownHosts, Place, Verdict, kind, lookup_name, new_line,
};

/// Signature algorithms for host keys, best first. Certificates are left out because libssh2
/// cannot check them, ssh-rsa because it signs with SHA-1 (as OpenSSH since 8.8).
const ALGORITHMS: [(&str, &str); 6] = [
    ("ssh-ed25519", "ssh-ed25519"),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256"),
    ("ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384"),
    ("ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521"),
    ("rsa-sha2-512", "ssh-rsa"),
    ("rsa-sha2-256", "ssh-rsa"),
];

/// The known host keys, shared by all nodes.
pub(super) struct HostKeys {
    known: Mutex<KnownHosts>,
    files: Vec<PathBuf>,
    accept_new: bool,
}

impl HostKeys {
    /// Reads the files; a missing one is empty.
    pub(super) fn read(files: &[PathBuf], accept_new: bool) -> Result<HostKeys, Failure> {
        let mut known = KnownHosts::default();
        for file in files {
            match std::fs::read(file) {
                Ok(text) => known.add_file(file, &text),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(Failure::KnownHostsFile {
                        action: "read",
                        file: file.clone(),
                        source,
                    });
                }
            }
        }
        Ok(HostKeys {
            known: Mutex::new(known),
            files: files.to_vec(),
            accept_new,
        })
    }

    fn lock(&self) -> MutexGuard<'_, KnownHosts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bad_lines(&self) -> Vec<BadLine> {
        self.lock().bad_lines().to_vec()
    }

    /// Asks the server for a key of a known type first, as OpenSSH does: a host known by its RSA
    /// key must not look changed because it also has an ed25519 one.
    pub(super) fn prefer_known(
        &self,
        session: &Session,
        target: &Target,
    ) -> Result<(), ssh2::Error> {
        let listed = self.lock().algorithms(&target.host, target.port);
        let is_listed = |key: &str| listed.iter().any(|l| l == key);
        let (mut first, rest): (Vec<&(&str, &str)>, Vec<_>) =
            ALGORITHMS.iter().partition(|(_, key)| is_listed(key));
        first.extend(rest);
        let names: Vec<&str> = first.iter().map(|pair| pair.0).collect();
        session.method_pref(MethodType::HostKey, &names.join(","))
    }

    /// Holds the server's key against what is known; records it where new ones are accepted.
    pub(super) fn check(
        &self,
        session: &Session,
        target: &Target,
        stop: &Stop<'_>,
    ) -> Result<(), Failure> {
        let key = session
            .host_key()
            .and_then(|(blob, _)| HostKey::from_blob(blob));
        let key = key.ok_or_else(|| Failure::Handshake {
            address: stop.address.to_string(),
            source: ssh2::Error::new(ssh2::ErrorCode::Session(-5), "no usable host key"),
        })?;
        let mut known = self.lock();
        let verdict = known.check(&target.host, target.port, &key);
        match verdict {
            Verdict::Known(_) => Ok(()),
            Verdict::Unknown if self.accept_new => self.record(&mut known, target, &key),
            other => Err(self.refuse(other, &known, target, &key)),
        }
    }

    fn record(
        &self,
        known: &mut KnownHosts,
        target: &Target,
        key: &HostKey,
    ) -> Result<(), Failure> {
        let line = new_line(&target.host, target.port, key);
        let file = self.files.first().cloned().unwrap_or_default();
        let number = append(&file, &line).map_err(|source| Failure::KnownHostsFile {
            action: "add a key to",
            file: file.clone(),
            source,
        })?;
        known.add_line(
            Place {
                file: Arc::from(file),
                line: number,
            },
            line.trim_end(),
        );
        Ok(())
    }

    fn refuse(&self, why: Verdict, known: &KnownHosts, target: &Target, key: &HostKey) -> Failure {
        let name = lookup_name(&target.host, target.port);
        let key = key.describe();
        match why {
            Verdict::Changed(at) => Failure::HostKeyChanged {
                name,
                key,
                place: at.to_string(),
                file: at.file.to_path_buf(),
            },
            Verdict::Revoked(at) => Failure::HostKeyRevoked {
                name,
                key,
                place: at.to_string(),
            },
            Verdict::OnlyOtherTypes(types, at) => Failure::HostKeyOtherTypes {
                name,
                key,
                known: types.iter().map(|t| kind(t)).collect::<Vec<_>>().join(", "),
                place: at.to_string(),
                file: at.file.to_path_buf(),
            },
            Verdict::OnlyCertAuthority(at) => Failure::HostKeyCertificate {
                name,
                key,
                place: at.to_string(),
            },
            Verdict::Known(_) | Verdict::Unknown => Failure::HostKeyUnknown {
                name,
                key,
                file: self.files.first().cloned().unwrap_or_default(),
                skipped: known
                    .bad_lines()
                    .iter()
                    .map(|bad| bad.place.to_string())
                    .collect(),
            },
        }
    }
}

/// Adds a line at the end, also where the last line has no newline, and tells its number. Creates
/// the file (0600) and its directory (0700).
fn append(path: &Path, line: &str) -> io::Result<usize> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let newline = if text.last().is_none_or(|&b| b == b'\n') {
        ""
    } else {
        "\n"
    };
    file.write_all(format!("{newline}{line}").as_bytes())?;
    Ok(text.iter().filter(|&&b| b == b'\n').count() + newline.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_line_is_added_after_a_file_without_a_last_newline() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".ssh/known_hosts");
        assert_eq!(append(&path, "a\n").unwrap(), 1);
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        std::fs::write(&path, "a").unwrap();
        assert_eq!(append(&path, "b\n").unwrap(), 2);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\nb\n");
    }

    #[test]
    fn a_known_hosts_file_that_cannot_be_read_is_an_error_and_a_missing_one_is_not() {
        let home = tempfile::tempdir().unwrap();
        assert!(HostKeys::read(&[home.path().join("none")], false).is_ok());
        assert!(HostKeys::read(&[home.path().to_path_buf()], false).is_err());
    }
}
