//! The initramfs of the guests: busybox, the modules in loading order, and `guest/init`. Kept in the cache
//! under the digest of what it is made of.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cpio::newc::{Builder, ModeFileType, trailer};
use sha2::{Digest, Sha256};

use crate::error::{LabError, Result};
use crate::kernel::Kernel;
use crate::modules::{Load, Modules, Need, WANTED, name_of};
use crate::tool;

const INIT: &str = include_str!("../guest/init");

/// The initramfs for this kernel, from the cache or made now.
///
/// # Errors
/// When the kernel lacks a module that the lab needs, or a file cannot be read or written.
pub fn obtain(cache: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let loads = loads(kernel)?;
    let path = cache.join(format!("initramfs-{}.cpio", digest(kernel, &loads)));
    if path.exists() {
        return Ok(path);
    }
    let new = path.with_extension(format!("new.{}", std::process::id()));
    let file = fs::File::create(&new).map_err(LabError::file("cannot make", &new))?;
    write_archive(io::BufWriter::new(file), kernel, &loads)?;
    fs::rename(&new, &path).map_err(LabError::file("cannot make", &path))?;
    Ok(path)
}

fn loads(kernel: &Kernel) -> Result<Vec<Load>> {
    let dep = read(&kernel.modules.join("modules.dep"))?;
    let builtin = read(&kernel.modules.join("modules.builtin"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Modules::parse(&text(&dep), &text(&builtin))
        .closure(&WANTED)
        .map_err(|missing| {
            LabError::Kernel(format!(
                "kernel {} has no module {}",
                kernel.release,
                missing.join(", ")
            ))
        })
}

/// Sixteen digits that change with anything that goes in.
fn digest(kernel: &Kernel, loads: &[Load]) -> String {
    let mut hash = Sha256::new();
    hash.update(INIT);
    hash.update(format!("{kernel:?} {loads:?}"));
    hash.finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(LabError::file("cannot read", path))
}

/// A module's bytes, decompressed as its name says.
fn module_bytes(path: &Path) -> Result<Vec<u8>> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => tool::output(tool::command("xz").arg("-dc").arg(path)),
        Some("zst") => tool::output(tool::command("zstd").arg("-qdc").arg(path)),
        Some("gz") => tool::output(tool::command("gzip").arg("-dc").arg(path)),
        _ => read(path),
    }
}

fn write_archive(mut to: impl Write, kernel: &Kernel, loads: &[Load]) -> Result<()> {
    let mut archive = Archive {
        to: &mut to,
        inode: 0,
    };
    for dir in ["bin", "modules", "dev", "proc"] {
        archive.add(dir, ModeFileType::Directory, 0o755, &[])?;
    }
    archive.add("init", ModeFileType::Regular, 0o755, INIT.as_bytes())?;
    archive.add(
        "bin/busybox",
        ModeFileType::Regular,
        0o755,
        &read(&kernel.busybox)?,
    )?;
    let mut order = String::new();
    for load in loads {
        let name = format!("{}.ko", name_of(&load.file));
        let bytes = module_bytes(&kernel.modules.join(&load.file))?;
        archive.add(
            &format!("modules/{name}"),
            ModeFileType::Regular,
            0o644,
            &bytes,
        )?;
        let need = if load.need == Need::Must {
            "need"
        } else {
            "want"
        };
        order.push_str(&format!("{need} {name}\n"));
    }
    archive.add(
        "modules/order",
        ModeFileType::Regular,
        0o644,
        order.as_bytes(),
    )?;
    trailer(&mut to)
        .and_then(|to| to.flush())
        .map_err(LabError::file("cannot write", "initramfs"))
}

struct Archive<'a, W: Write> {
    to: &'a mut W,
    inode: u32,
}

impl<W: Write> Archive<'_, W> {
    fn add(&mut self, name: &str, kind: ModeFileType, mode: u32, bytes: &[u8]) -> Result<()> {
        self.inode += 1;
        let size = u32::try_from(bytes.len())
            .map_err(|_| LabError::Kernel(format!("{name} is too large for an initramfs")))?;
        let builder = Builder::new(name)
            .ino(self.inode)
            .mode(mode)
            .set_mode_file_type(kind);
        let mut entry = builder.write(&mut *self.to, size);
        entry
            .write_all(bytes)
            .and_then(|()| entry.finish().map(|_| ()))
            .map_err(LabError::file("cannot write", name))
    }
}
