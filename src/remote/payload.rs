//! What is started on a node: the binary's bytes, its digest, its architecture, its arguments.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// The binary to run on nodes and how to call it. Clones share the bytes.
#[derive(Clone)]
pub struct Payload {
    binary: Arc<Binary>,
    arguments: Vec<String>,
    directory: Option<String>,
}

struct Binary {
    bytes: Vec<u8>,
    gzip: OnceLock<Vec<u8>>,
    digest: String,
    architecture: Option<&'static str>,
}

impl Payload {
    /// This program itself, called with `arguments` on the node.
    ///
    /// # Errors
    /// When the running executable cannot be read.
    pub fn from_current_exe(arguments: &[&str]) -> io::Result<Payload> {
        // The link still leads to the running file when a newer build has replaced its name.
        Payload::from_file(Path::new("/proc/self/exe"), arguments)
    }

    /// The program in `path`, called with `arguments` on the node.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn from_file(path: &Path, arguments: &[&str]) -> io::Result<Payload> {
        let bytes = std::fs::read(path)?;
        let binary = Binary {
            digest: hex(&Sha256::digest(&bytes)),
            architecture: architecture(&bytes),
            gzip: OnceLock::new(),
            bytes,
        };
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Ok(Payload {
            binary: Arc::new(binary),
            arguments,
            directory: None,
        })
    }

    /// Tries this directory on the node before the usual ones.
    #[must_use]
    pub fn in_directory(mut self, directory: &Path) -> Payload {
        self.directory = Some(PathBuf::from(directory).to_string_lossy().into_owned());
        self
    }

    /// SHA-256 of the binary, as 64 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.binary.digest
    }

    /// What `uname -m` prints where the binary runs; `None` where it is no ELF file of a known
    /// machine (a script runs anywhere).
    pub fn architecture(&self) -> Option<&'static str> {
        self.binary.architecture
    }

    /// Arguments after the binary's name.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The directory to try first.
    pub(super) fn directory(&self) -> Option<&str> {
        self.directory.as_deref()
    }

    /// The binary as it is.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.binary.bytes
    }

    /// The binary for the wire, compressed once on first use.
    pub(super) fn gzip(&self) -> &[u8] {
        self.binary
            .gzip
            .get_or_init(|| compress(&self.binary.bytes))
    }
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::default());
    // Writing to memory cannot fail; if it did, the digest on the node would not match.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `uname -m` for an ELF file's machine field (`e_machine`, ELF specification and elf.h).
fn architecture(bytes: &[u8]) -> Option<&'static str> {
    let header = bytes.get(..20)?;
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    let field = [header[18], header[19]];
    let big_endian = header[5] == 2;
    let machine = if big_endian {
        u16::from_be_bytes(field)
    } else {
        u16::from_le_bytes(field)
    };
    match (machine, big_endian) {
        (62, false) => Some("x86_64"),
        (183, false) => Some("aarch64"),
        (243, false) => Some("riscv64"),
        (21, false) => Some("ppc64le"),
        (22, true) => Some("s390x"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn this_test_program_is_an_elf_file_of_this_machine() {
        let payload = Payload::from_current_exe(&["agent"]).unwrap();
        assert_eq!(payload.architecture(), Some(std::env::consts::ARCH));
        assert_eq!(payload.digest().len(), 64);
    }

    #[test]
    fn the_wire_form_unpacks_to_the_binary_with_the_known_digest() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let payload = Payload::from_file(file.path(), &[]).unwrap();
        // FIPS 180-2, appendix B.1.
        assert!(
            payload
                .digest()
                .starts_with("ba7816bf8f01cfea414140de5dae2223b00361a3")
        );
        assert_eq!(payload.architecture(), None);
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(payload.gzip())
            .read_to_end(&mut unpacked)
            .unwrap();
        assert_eq!(unpacked, b"abc");
    }

    #[test]
    fn short_and_foreign_headers_have_no_architecture() {
        assert_eq!(architecture(b"\x7fELF"), None);
        let mut arm = [0u8; 20];
        arm[..6].copy_from_slice(b"\x7fELF\x02\x01");
        arm[18] = 183;
        assert_eq!(architecture(&arm), Some("aarch64"));
    }
}
