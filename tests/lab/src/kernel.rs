//! The guest's kernel, modules and busybox: from the distribution's packages, downloaded and unpacked into
//! the cache directory. Nothing is installed into the running system.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{LabError, Result};
use crate::{tool, vmlinux};

/// Packages that depend on the newest kernel: Debian's, then Ubuntu's.
const META_PACKAGES: [&str; 3] = [
    "linux-image-amd64",
    "linux-image-virtual",
    "linux-image-generic",
];

/// An unpacked kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its release, as `uname -r` says it in the guest.
    pub release: String,
    /// The image that QEMU boots: an ELF file where one could be had, else the bzImage.
    pub image: PathBuf,
    /// `lib/modules/RELEASE`, with a `modules.dep`.
    pub modules: PathBuf,
    /// A statically linked busybox.
    pub busybox: PathBuf,
}

impl Kernel {
    /// The cached kernel, or one fetched now; `say` tells the person who waits.
    ///
    /// # Errors
    /// When the packages cannot be found, fetched or unpacked.
    pub fn obtain(cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Kernel> {
        fs::create_dir_all(cache).map_err(LabError::file("cannot make", cache))?;
        let lock_path = cache.join("lock");
        let lock =
            fs::File::create(&lock_path).map_err(LabError::file("cannot make", &lock_path))?;
        // Labs that start at the same time fetch once.
        lock.lock()
            .map_err(LabError::file("cannot lock", &lock_path))?;
        let root = cache.join("kernel");
        if let Some(kernel) = Kernel::in_root(&root) {
            return Ok(kernel);
        }
        say("fetching a kernel and busybox from the distribution (once)");
        let staging = cache.join("kernel.new");
        remove(&staging)?;
        remove(&root)?;
        fetch(&staging)?;
        fs::rename(&staging, &root).map_err(LabError::file("cannot make", &root))?;
        Kernel::in_root(&root).ok_or_else(|| {
            LabError::Kernel(format!(
                "the packages unpacked in {} lack an image, modules.dep or busybox",
                root.display()
            ))
        })
    }

    /// The kernel unpacked in a directory, if it is whole.
    fn in_root(root: &Path) -> Option<Kernel> {
        let mut images: Vec<_> = fs::read_dir(root.join("boot"))
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with("vmlinuz-"))
            .collect();
        images.sort();
        let image = images.pop()?;
        let release = image.strip_prefix("vmlinuz-")?.to_owned();
        let modules = root.join("lib/modules").join(&release);
        let busybox = ["bin/busybox", "usr/bin/busybox"]
            .iter()
            .map(|p| root.join(p))
            .find(|p| p.exists())?;
        let boot = root.join("boot");
        let images = [boot.join(format!("vmlinux-{release}")), boot.join(image)];
        let image = images.into_iter().find(|path| path.exists())?;
        modules.join("modules.dep").exists().then_some(Kernel {
            release,
            image,
            modules,
            busybox,
        })
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::file("cannot remove", path)(e))
        }
        _ => Ok(()),
    }
}

/// Downloads and unpacks everything below `root`.
fn fetch(root: &Path) -> Result<()> {
    let debs = root.join("debs");
    fs::create_dir_all(&debs).map_err(LabError::file("cannot make", &debs))?;
    let release = newest_release()?;
    let mut packages = vec![
        format!("linux-image-{release}"),
        "busybox-static".to_owned(),
    ];
    // Ubuntu keeps modules apart, and rdma_rxe among the extra ones.
    for prefix in ["linux-modules-", "linux-modules-extra-"] {
        let package = format!("{prefix}{release}");
        if !show_depends(&package)?.is_empty() {
            packages.push(package);
        }
    }
    let mut get = tool::command("apt-get");
    get.args(["-q", "download"])
        .args(&packages)
        .current_dir(&debs);
    tool::output(&mut get).map_err(|e| {
        LabError::Kernel(format!(
            "{e}\nIf the package lists are old, run `apt-get update` as root."
        ))
    })?;
    let files = fs::read_dir(&debs).map_err(LabError::file("cannot read", &debs))?;
    for file in files.filter_map(|entry| Some(entry.ok()?.path())) {
        tool::output(tool::command("dpkg-deb").arg("-x").arg(&file).arg(root))?;
    }
    remove(&debs)?;
    // Newer packages ship usr/lib/modules alone; depmod looks in lib/modules.
    if !root.join("lib").exists() {
        let link = root.join("lib");
        std::os::unix::fs::symlink("usr/lib", &link)
            .map_err(LabError::file("cannot make", link))?;
    }
    tool::output(tool::command("depmod").arg("-b").arg(root).arg(&release))?;
    let boot = root.join("boot");
    let (packed, plain) = (format!("vmlinuz-{release}"), format!("vmlinux-{release}"));
    vmlinux::extract(&boot.join(packed), &boot.join(plain))?;
    Ok(())
}

/// The release of the newest kernel that apt knows.
fn newest_release() -> Result<String> {
    for meta in META_PACKAGES {
        if let Some(release) = release_in(&show_depends(meta)?) {
            return Ok(release);
        }
    }
    Err(LabError::Kernel(format!(
        "apt knows none of {}: run `apt-get update` as root, on Debian or Ubuntu for x86-64",
        META_PACKAGES.join(", ")
    )))
}

/// What `apt-cache depends` says; empty for a package that apt does not know.
fn show_depends(package: &str) -> Result<String> {
    match tool::output(tool::command("apt-cache").args(["depends", package])) {
        Ok(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Err(LabError::Program { .. }) => Ok(String::new()),
        Err(other) => Err(other),
    }
}

/// `6.1.0-57-amd64` out of a line `  Depends: linux-image-6.1.0-57-amd64`.
fn release_in(depends: &str) -> Option<String> {
    depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .filter_map(|package| package.strip_prefix("linux-image-"))
        .find(|release| release.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_found_in_debians_and_ubuntus_answers() {
        let debian = "linux-image-amd64\n  Depends: linux-image-6.1.0-57-amd64\n";
        assert_eq!(release_in(debian).unwrap(), "6.1.0-57-amd64");
        let ubuntu = "linux-image-virtual\n  Depends: linux-base\n  \
                      Depends: linux-image-6.8.0-60-generic\n  Recommends: linux-image-9\n";
        assert_eq!(release_in(ubuntu).unwrap(), "6.8.0-60-generic");
        assert_eq!(
            release_in("linux-image-amd64\n  Depends: linux-image-amd64-signed\n"),
            None
        );
    }

    #[test]
    fn a_root_without_modules_dep_is_not_whole() {
        let root = tempfile::tempdir().unwrap();
        for dir in ["boot", "lib/modules/6.1", "bin"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        fs::write(root.path().join("boot/vmlinuz-6.1"), "").unwrap();
        fs::write(root.path().join("bin/busybox"), "").unwrap();
        assert_eq!(Kernel::in_root(root.path()), None);
        fs::write(root.path().join("lib/modules/6.1/modules.dep"), "").unwrap();
        assert_eq!(Kernel::in_root(root.path()).unwrap().release, "6.1");
    }
}
