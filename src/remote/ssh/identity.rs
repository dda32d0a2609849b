//! A private key file as it lies on disk: what can be told of it without its passphrase.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::remote::known_hosts::HostKey;

/// Longest key file that is read, in bytes; a 16384-bit RSA key has 13 KiB.
const LONGEST: u64 = 64 * 1024;

/// A key file that could be read.
pub(super) struct KeyFile {
    /// Where it is.
    pub(super) path: PathBuf,
    /// The file's text, for libssh2.
    pub(super) text: String,
    /// Its public half, where that can be told.
    pub(super) public: Option<HostKey>,
    /// Whether a passphrase is needed.
    pub(super) locked: bool,
}

impl KeyFile {
    /// Reads and recognises a key; the error is a few words for a list.
    pub(super) fn read(path: &Path) -> Result<KeyFile, String> {
        let text = read_text(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => "not found".to_string(),
            _ => e.to_string(),
        })?;
        let beside = || public_beside(path);
        let (public, locked) = if let Some(body) = openssh_body(&text) {
            let (public, locked) = read_openssh(&body).ok_or("the key file is damaged")?;
            (public.or_else(beside), locked)
        } else if text.contains("PRIVATE KEY-----") {
            let locked = text.contains("ENCRYPTED");
            (beside(), locked)
        } else {
            return Err("not a private key".to_string());
        };
        Ok(KeyFile {
            path: path.to_path_buf(),
            text,
            public,
            locked,
        })
    }

    /// For the list of what was tried.
    pub(super) fn describe(&self) -> String {
        match &self.public {
            Some(public) => format!("file {} ({})", self.path.display(), public.describe()),
            None => format!("file {}", self.path.display()),
        }
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// The public key in `path.pub`.
fn public_beside(path: &Path) -> Option<HostKey> {
    let mut name = path.as_os_str().to_os_string();
    name.push(".pub");
    let text = read_text(Path::new(&name)).ok()?;
    let blob = BASE64_STANDARD
        .decode(text.split_whitespace().nth(1)?)
        .ok()?;
    HostKey::from_blob(&blob)
}

/// The decoded body of an OpenSSH private key.
fn openssh_body(text: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once("-----BEGIN OPENSSH PRIVATE KEY-----")?;
    let (body, _) = rest.split_once("-----END")?;
    let body: String = body.split_whitespace().collect();
    Some(BASE64_STANDARD.decode(body).unwrap_or_default())
}

/// Public key and whether it is locked, from OpenSSH's PROTOCOL.key: magic, cipher, KDF, KDF
/// options, number of keys, first public key.
fn read_openssh(body: &[u8]) -> Option<(Option<HostKey>, bool)> {
    let rest = body.strip_prefix(b"openssh-key-v1\0")?;
    let (cipher, rest) = take_string(rest)?;
    let (_kdf, rest) = take_string(rest)?;
    let (_options, rest) = take_string(rest)?;
    let (public, _) = take_string(rest.get(4..)?)?;
    Some((HostKey::from_blob(public), cipher != b"none"))
}

fn take_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_be_bytes(*bytes.first_chunk::<4>()?) as usize;
    bytes.get(4..)?.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn generate(dir: &Path, name: &str, arguments: &[&str]) -> PathBuf {
        let path = dir.join(name);
        let mut command = Command::new("ssh-keygen");
        command.arg("-q").arg("-f").arg(&path).args(arguments);
        assert!(command.status().expect("ssh-keygen is installed").success());
        path
    }

    #[test]
    fn keys_made_by_ssh_keygen_are_recognised() {
        let dir = tempfile::tempdir().unwrap();
        for (name, arguments, locked, kind) in [
            ("a", &["-t", "ed25519", "-N", ""][..], false, "ED25519 "),
            (
                "b",
                &["-t", "ed25519", "-N", "secret"][..],
                true,
                "ED25519 ",
            ),
            (
                "c",
                &["-t", "ecdsa", "-N", "secret", "-m", "PEM"][..],
                true,
                "ECDSA ",
            ),
            (
                "d",
                &["-t", "rsa", "-b", "2048", "-N", "", "-m", "PKCS8"][..],
                false,
                "RSA ",
            ),
        ] {
            let key = KeyFile::read(&generate(dir.path(), name, arguments)).unwrap();
            assert_eq!(key.locked, locked, "{name}");
            assert!(key.public.unwrap().describe().starts_with(kind), "{name}");
        }
    }

    #[test]
    fn what_is_no_key_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        let why = || KeyFile::read(&path).err().unwrap();
        assert_eq!(why(), "not found");
        std::fs::write(&path, "ssh-ed25519 AAAA").unwrap();
        assert_eq!(why(), "not a private key");
        let damaged =
            "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----";
        std::fs::write(&path, damaged).unwrap();
        assert_eq!(why(), "the key file is damaged");
    }

    proptest! {
        #[test]
        fn no_body_panics(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut with_magic = b"openssh-key-v1\0".to_vec();
            with_magic.extend(&body);
            let _ = read_openssh(&body);
            let _ = read_openssh(&with_magic);
        }
    }
}
