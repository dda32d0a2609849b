//! The file system that is surveyed: bounded reads below one directory, and what goes wrong there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::model::Fact;

/// The longest file read; sysfs attributes end at one page.
const MAX_FILE: usize = 64 << 10;
/// What one read asks for first: more than most attributes hold.
const FIRST_READ: usize = 512;
/// The longest directory listed. The largest GID tables known have 256 entries.
const MAX_ENTRIES: usize = 4096;
/// How much of a malformed file is quoted, in characters.
const MAX_QUOTE: usize = 80;

/// Where a survey reads: the running system, or the copy of a node's /sys and /proc.
#[derive(Debug, Clone)]
pub struct Root {
    base: PathBuf,
    live: bool,
}

impl Default for Root {
    fn default() -> Self {
        Self::live()
    }
}

/// Why a file, link or directory was not read. The texts name it.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("{}: {source}", path.display())]
    Os { path: PathBuf, source: io::Error },
    #[error("{} leads outside of the snapshot, to {}", path.display(), target.display())]
    Outside { path: PathBuf, target: PathBuf },
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("{} is longer than {MAX_FILE} bytes", .0.display())]
    TooLong(PathBuf),
    #[error("{} is not text", .0.display())]
    NotText(PathBuf),
    #[error("{} is empty", .0.display())]
    Empty(PathBuf),
    #[error("{} has more than {MAX_ENTRIES} entries", .0.display())]
    TooMany(PathBuf),
}

impl ReadError {
    fn os(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Os { path, source }
    }

    /// Whether the thing is simply not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Os { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl Root {
    /// The running system, `/`.
    pub fn live() -> Self {
        Self {
            base: "/".into(),
            live: true,
        }
    }

    /// The copy of a node below the directory `base` (`base/sys/class/infiniband/…`); `/` is the
    /// running system. A directory that does not exist makes every fact unknown.
    pub fn at(base: impl Into<PathBuf>) -> Self {
        let base = base.into();
        let base = base.canonicalize().unwrap_or(base);
        let live = base == Path::new("/");
        Self { base, live }
    }

    /// Whether this is the running system.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Where `relative` (without a leading slash) lies.
    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.base.join(relative)
    }

    /// `path` as the surveyed node would call it.
    pub(super) fn inside<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.base).unwrap_or(path)
    }

    /// `path` with all links resolved. Links that leave a snapshot would tell of this machine.
    pub(super) fn real(&self, path: &Path) -> Result<PathBuf, ReadError> {
        let target = path.canonicalize().map_err(ReadError::os(path))?;
        if target.starts_with(&self.base) {
            Ok(target)
        } else {
            Err(ReadError::Outside {
                path: path.to_owned(),
                target,
            })
        }
    }

    /// The last component of the link `path`, which may point to nothing.
    pub(super) fn link_name(&self, path: &Path) -> Result<String, ReadError> {
        let target = path.read_link().map_err(ReadError::os(path))?;
        let name = target.file_name().and_then(|name| name.to_str());
        let not_text = || ReadError::NotText(path.to_owned());
        name.map(str::to_owned).ok_or_else(not_text)
    }

    /// The text of a file without the blanks around it.
    pub(super) fn read(&self, path: &Path) -> Result<String, ReadError> {
        let mut file = self.open(path)?;
        let mut bytes = vec![0; FIRST_READ];
        let mut len = 0;
        // Most of a survey is the thousand slots of each GID table: a short read of a regular file
        // is its end, which saves asking a second time.
        while len == 0 || len == bytes.len() {
            bytes.resize((len * 2).clamp(FIRST_READ, MAX_FILE + 1), 0);
            match file.read(&mut bytes[len..]).map_err(ReadError::os(path))? {
                0 => break,
                more => len += more,
            }
        }
        if len > MAX_FILE {
            return Err(ReadError::TooLong(path.to_owned()));
        }
        bytes.truncate(len);
        let text = String::from_utf8(bytes).map_err(|_| ReadError::NotText(path.to_owned()))?;
        match text.trim_matches(|c: char| c.is_whitespace() || c == '\0') {
            "" => Err(ReadError::Empty(path.to_owned())),
            text => Ok(text.to_owned()),
        }
    }

    /// The first bytes of a file, at most `max`, whatever follows them.
    pub(super) fn read_start(&self, path: &Path, max: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::new();
        self.open(path)?
            .take(max as u64)
            .read_to_end(&mut bytes)
            .map_err(ReadError::os(path))?;
        Ok(bytes)
    }

    /// Opens a file; in a snapshot only a regular one that lies in it.
    pub(super) fn open(&self, path: &Path) -> Result<File, ReadError> {
        if self.live {
            return File::open(path).map_err(ReadError::os(path));
        }
        let file = OpenOptions::new()
            .read(true)
            // A pipe must not hold the survey up.
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(self.real(path)?)
            .map_err(ReadError::os(path))?;
        match file.metadata().map_err(ReadError::os(path))?.is_file() {
            true => Ok(file),
            false => Err(ReadError::NotAFile(path.to_owned())),
        }
    }

    /// The fact that `parse` makes of a file; its error says what the text should have been.
    pub(super) fn fact<T>(
        &self,
        path: &Path,
        parse: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Fact<T> {
        let text = match self.read(path) {
            Ok(text) => text,
            Err(error) => return Fact::unknown(error.to_string()),
        };
        match parse(&text) {
            Ok(value) => Fact::known(value, path.display().to_string()),
            Err(why) => Fact::unknown(format!("{} holds {}: {why}", path.display(), quote(&text))),
        }
    }

    /// The names in a directory, sorted as text.
    pub(super) fn list(&self, dir: &Path) -> Result<Vec<String>, ReadError> {
        let target = self.real(dir)?;
        let mut names = Vec::new();
        for entry in target.read_dir().map_err(ReadError::os(dir))? {
            if names.len() == MAX_ENTRIES {
                return Err(ReadError::TooMany(dir.to_owned()));
            }
            let entry = entry.map_err(ReadError::os(dir))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }
}

/// A text from a file, fit to stand in a sentence.
pub(super) fn quote(text: &str) -> String {
    let mut cut: String = text.chars().take(MAX_QUOTE).collect();
    if text.chars().nth(MAX_QUOTE).is_some() {
        cut.push('…');
    }
    format!("`{}`", cut.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_cannot_be_read_is_named_with_its_cause() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let why = |name: &str| root.read(&root.path(name)).unwrap_err().to_string();
        let file = |name: &str| root.path(name).display().to_string();

        assert_eq!(
            why("gone"),
            format!("{}: No such file or directory (os error 2)", file("gone"))
        );
        fs::write(root.path("empty"), " \n").unwrap();
        assert_eq!(why("empty"), format!("{} is empty", file("empty")));
        fs::write(root.path("long"), vec![b'x'; MAX_FILE + 1]).unwrap();
        assert!(why("long").ends_with("longer than 65536 bytes"));
        fs::write(root.path("full"), vec![b'x'; MAX_FILE]).unwrap();
        assert_eq!(root.read(&root.path("full")).unwrap().len(), MAX_FILE);
        fs::write(root.path("binary"), [0xff, 0xfe]).unwrap();
        assert!(why("binary").ends_with("is not text"));
        assert!(why("").ends_with("is not a regular file"));
    }

    #[test]
    fn a_pipe_does_not_hold_the_survey_up() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        nix::unistd::mkfifo(&root.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = root.read(&root.path("pipe")).unwrap_err();
        assert!(matches!(error, ReadError::NotAFile(_)), "{error}");
    }

    #[test]
    fn links_out_of_a_snapshot_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::write(outside.path(), "of another machine").unwrap();
        let root = Root::at(dir.path());
        symlink(outside.path(), root.path("state")).unwrap();
        let error = root.read(&root.path("state")).unwrap_err();
        assert!(matches!(error, ReadError::Outside { .. }), "{error}");
    }

    #[test]
    fn directories_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        for index in 0..=MAX_ENTRIES {
            fs::write(root.path(&index.to_string()), "").unwrap();
        }
        let list = root.list(&root.path(""));
        assert!(matches!(list, Err(ReadError::TooMany(_))));
    }

    #[test]
    fn malformed_text_is_quoted_harmless_and_short() {
        assert_eq!(quote("a\u{1b}[2J"), r"`a\u{1b}[2J`");
        assert_eq!(quote(&"x".repeat(1000)).chars().count(), MAX_QUOTE + 3);
    }

    #[test]
    fn the_file_system_root_is_the_live_system() {
        assert!(Root::at("/").is_live() && Root::at("/tmp/..").is_live());
        assert!(!Root::at("/tmp").is_live() && !Root::at("/no/such").is_live());
    }
}
