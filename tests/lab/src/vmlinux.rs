//! Unpacks a kernel image on the host, where that takes half a second: emulated, a guest needs 13 s for it.
//!
//! QEMU boots the ELF file within by PVH, which needs a kernel with CONFIG_PVH, as Debian's and Ubuntu's are.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::error::{LabError, Result};
use crate::tool;

/// Where the compressed kernel lies in a bzImage, by the kernel's Documentation/arch/x86/boot.rst.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| {
        let bytes = image.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let setup_sectors = match *image.get(0x1f1)? {
        0 => 4,
        n => usize::from(n),
    };
    let start = (setup_sectors + 1) * 512 + word(0x248)?;
    image.get(start..start.checked_add(word(0x24c)?)?)
}

/// The program that unpacks a payload, by its first bytes, and the part of the payload that it takes.
fn unpacker(payload: &[u8]) -> Option<(&'static str, &[u8])> {
    // After all but gzip's stream come four bytes with the unpacked size.
    let stream = payload.get(..payload.len().checked_sub(4)?)?;
    if payload.starts_with(b"\xfd7zXZ\0") {
        Some(("xz", stream))
    } else if payload.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Some(("zstd", stream))
    } else if payload.starts_with(&[0x1f, 0x8b]) {
        Some(("gzip", payload))
    } else {
        None
    }
}

/// Writes the ELF file within `image` to `to`; says whether there was one that QEMU can boot.
///
/// # Errors
/// When files cannot be read or written. A payload that cannot be unpacked is no error: the image boots too.
pub fn extract(image: &Path, to: &Path) -> Result<bool> {
    let bytes = std::fs::read(image).map_err(LabError::file("cannot read", image))?;
    let Some((program, stream)) = payload(&bytes).and_then(unpacker) else {
        return Ok(false);
    };
    let file = File::create(to).map_err(LabError::file("cannot make", to))?;
    let mut command = tool::command(program);
    command
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(file)
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(|source| LabError::Start {
        program: program.to_owned(),
        source,
    })?;
    let fed = child
        .stdin
        .take()
        .is_some_and(|mut stdin| stdin.write_all(stream).is_ok());
    let done = child
        .wait()
        .map_err(LabError::file("cannot unpack", image))?;
    let elf = std::fs::read(to).map_err(LabError::file("cannot read", to))?;
    if fed && done.success() && has_pvh_note(&elf) {
        return Ok(true);
    }
    std::fs::remove_file(to).map_err(LabError::file("cannot remove", to))?;
    Ok(false)
}

/// Whether an ELF file carries the note XEN_ELFNOTE_PHYS32_ENTRY (18) of owner "Xen", by which QEMU knows
/// where to enter it.
fn has_pvh_note(elf: &[u8]) -> bool {
    // Notes are aligned to four bytes; the sizes of owner and value come before the type and the owner.
    let is_entry = |part: &[u8]| part[..4] == 18u32.to_le_bytes() && &part[4..] == b"Xen\0";
    elf.starts_with(b"\x7fELF")
        && (8..=elf.len())
            .step_by(4)
            .any(|end| is_entry(&elf[end - 8..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bzImage in outline: one setup sector, the payload 8 bytes into the protected-mode part.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2 * 512 + 8];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&8u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend_from_slice(payload);
        image
    }

    #[test]
    fn the_payload_is_found_where_the_header_says() {
        assert_eq!(payload(&image(b"kernel")), Some(&b"kernel"[..]));
        let mut cut = image(b"kernel");
        cut.pop();
        assert_eq!(payload(&cut), None);
        assert_eq!(payload(b"MZ"), None);
    }

    #[test]
    fn a_bootable_elf_comes_out_and_anything_else_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("vmlinuz"), dir.path().join("vmlinux"));
        let note = [
            4u32.to_le_bytes(),
            8u32.to_le_bytes(),
            18u32.to_le_bytes(),
            *b"Xen\0",
        ]
        .concat();
        let elf = [b"\x7fELF....".to_vec(), note].concat();
        for (inside, bootable) in [
            (elf.clone(), true),
            (b"\x7fELF but no note".to_vec(), false),
        ] {
            let plain = dir.path().join("plain");
            std::fs::write(&plain, &inside).unwrap();
            let packed = tool::output(tool::command("gzip").arg("-c").arg(&plain)).unwrap();
            std::fs::write(&from, image(&packed)).unwrap();
            assert_eq!(extract(&from, &to).unwrap(), bootable);
            assert_eq!(to.exists(), bootable);
        }
        std::fs::write(&from, image(b"neither packed nor anything")).unwrap();
        assert!(!extract(&from, &to).unwrap());
    }
}
