//! Where a report goes: standard output, or a file that appears whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::failure::Failure;
use crate::cli::Color;
use crate::report::Style;

/// Columns of text that goes to a file or a pipe.
const PAGE: usize = 100;

/// A place to write to.
pub(super) enum Output {
    Standard(BufWriter<std::io::Stdout>),
    File {
        path: PathBuf,
        temporary: BufWriter<NamedTempFile>,
    },
    /// A pipe or a device: it is written to as it is, for a file in its place would end it.
    Special {
        path: PathBuf,
        out: BufWriter<File>,
    },
}

impl Output {
    pub(super) fn standard() -> Self {
        Self::Standard(BufWriter::new(std::io::stdout()))
    }

    /// A file: written beside its place under another name, and moved there when it is whole. Of a link
    /// that is the place it leads to.
    pub(super) fn file(path: &Path) -> Result<Self, Failure> {
        let place = path.canonicalize();
        let path = place.as_deref().unwrap_or(path);
        match path.metadata() {
            Ok(meta) if meta.is_dir() => {
                let text = format!("cannot write {}: it is a folder", path.display());
                return Err(Failure::usage(text));
            }
            Ok(meta) if !meta.is_file() => return Self::special(path),
            _ => {}
        }
        let folder = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let temporary = NamedTempFile::new_in(folder)
            .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?;
        Ok(Self::File {
            path: path.to_owned(),
            temporary: BufWriter::new(temporary),
        })
    }

    fn special(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().write(true).open(path);
        let file = file
            .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?;
        Ok(Self::Special {
            path: path.to_owned(),
            out: BufWriter::new(file),
        })
    }

    /// Whether a person reads it as it is written.
    fn is_terminal(&self) -> bool {
        matches!(self, Self::Standard(_)) && std::io::stdout().is_terminal()
    }

    /// How text may look there.
    pub(super) fn style(&self, color: Color) -> Style {
        let terminal = self.is_terminal();
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none(),
        };
        let width = terminal.then(terminal_width).flatten().unwrap_or(PAGE);
        Style { color, width }
    }

    pub(super) fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Standard(out) => out,
            Self::File { temporary, .. } => temporary,
            Self::Special { out, .. } => out,
        }
    }

    /// Makes sure that everything arrived.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Standard(mut out) => out.flush().map_err(|error| {
                Failure::work(format!("cannot write to standard output: {error}"))
            }),
            Self::File { path, temporary } => keep(temporary, &path).map_err(|error| {
                Failure::work(format!("cannot write {}: {error}", path.display()))
            }),
            Self::Special { path, mut out } => out.flush().map_err(|error| {
                Failure::work(format!("cannot write {}: {error}", path.display()))
            }),
        }
    }
}

/// Columns of the terminal on standard output.
fn terminal_width() -> Option<usize> {
    let (terminal_size::Width(columns), _) = terminal_size::terminal_size()?;
    (columns > 20).then_some(usize::from(columns))
}

fn keep(temporary: BufWriter<NamedTempFile>, path: &Path) -> std::io::Result<()> {
    let file = temporary.into_inner().map_err(|error| error.into_error())?;
    file.as_file().sync_all()?;
    // A temporary file is private; a report is as readable as the operator's umask has other files.
    let mode = 0o666 & !umask();
    let mut permissions = file.as_file().metadata()?.permissions();
    permissions.set_mode(mode);
    file.as_file().set_permissions(permissions)?;
    file.persist(path).map_err(|error| error.error).map(drop)
}

/// The process's umask, which can be read only by setting it; nothing else runs yet that makes files.
fn umask() -> u32 {
    let mask = nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    nix::sys::stat::umask(mask);
    mask.bits()
}
