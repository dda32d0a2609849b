//! What `nvidia-smi topo -m` printed, read back: the matrix of a machine that is not at hand.

mod line;
mod print;
mod read;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;

pub use read::read;
pub use words::TopoLink;

use super::affinity::Nearest;

/// The longest text that is read, in bytes: two hundred times what a node with 26 devices prints.
pub const MAX_TEXT: usize = 1 << 20;

/// The most devices that a matrix may have: more than any node.
pub const MAX_DEVICES: usize = 256;

/// The most notes that are kept; the others are counted.
const MAX_NOTES: usize = 64;

/// The matrix, as far as the text has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopoMatrix {
    /// In the order of the columns, then those that have a row only.
    pub devices: Vec<TopoDevice>,
    /// `links[a][b]`, the same both ways: what lies between them, or why that is unknown.
    pub links: Vec<Vec<Result<TopoLink, String>>>,
    /// What was cut off, unreadable, contradictory or no part of the matrix, in the order of lines.
    pub notes: Vec<TopoNote>,
    /// How many more notes there would be.
    pub more_notes: usize,
}

/// A row or column of the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopoDevice {
    /// The heading: `GPU0`, `NIC0`, or with old drivers `mlx5_0`.
    pub name: String,
    /// Whether it is a GPU.
    pub is_gpu: bool,
    /// The RDMA device's name: from the NIC legend, or the heading itself with old drivers.
    pub rdma: Option<String>,
    /// The CPUs near a GPU, such as `0-31,64-95`.
    pub cpus: Option<String>,
    /// The NUMA node near a GPU, such as `0`; several in a list.
    pub numa: Option<String>,
}

impl TopoDevice {
    /// `NIC0 (mlx5_0)`, `GPU0`, `mlx5_0`.
    pub fn title(&self) -> String {
        match &self.rdma {
            Some(rdma) if *rdma != self.name => format!("{} ({rdma})", self.name),
            _ => self.name.clone(),
        }
    }
}

/// Something that the reader of a matrix should know, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopoNote {
    /// The line, from 1.
    pub line: usize,
    /// The character in it, from 1, terminal escapes not counted; `None` where it is about the whole line.
    pub column: Option<usize>,
    /// What is there.
    pub what: String,
}

impl fmt::Display for TopoNote {
    /// `line 3, column 9: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            Some(column) => write!(f, "line {}, column {column}: {}", self.line, self.what),
            None => write!(f, "line {}: {}", self.line, self.what),
        }
    }
}

/// Why a text is no matrix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopoError {
    /// It is longer than [`MAX_TEXT`].
    #[error("{bytes} bytes: a matrix is expected, which has less than {MAX_TEXT}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Nothing in it looks like a matrix.
    #[error(
        "line {line}: the text ends, and no line of it is a heading (GPU0 GPU1 …) or a row (GPU0 X PIX …) \
         of `nvidia-smi topo -m`"
    )]
    NoMatrix {
        /// The last line.
        line: usize,
    },
    /// There are rows, but no heading says what their cells are about.
    #[error(
        "line {line}: here is the row of {name}, and a heading (GPU0 GPU1 …) was expected above it"
    )]
    NoHeading {
        /// The line of the first row.
        line: usize,
        /// Its device.
        name: String,
    },
    /// No cell tells a path; this is the first that is unreadable.
    #[error(
        "line {line}, column {column}: `{word}` is no path; {} were expected",
        words::EXPECTED
    )]
    NoPath {
        /// The line, from 1.
        line: usize,
        /// The character, from 1.
        column: usize,
        /// What is there.
        word: String,
    },
    /// A device has two columns or two rows.
    #[error("line {line}, column {column}: {name} is here a second time, and once was expected")]
    Twice {
        /// The line, from 1.
        line: usize,
        /// The character, from 1.
        column: usize,
        /// The device.
        name: String,
    },
    /// There are more devices than 256.
    #[error("line {line}: more than {MAX_DEVICES} devices were not expected")]
    TooMany {
        /// The line, from 1.
        line: usize,
    },
}

impl TopoMatrix {
    /// What lies between two devices; `None` where there are no such devices.
    pub fn link(&self, a: usize, b: usize) -> Option<&Result<TopoLink, String>> {
        self.links.get(a)?.get(b)
    }

    /// The NICs nearest to a GPU; `None` where the path to none is known.
    pub fn nearest(&self, gpu: usize) -> Option<Nearest> {
        let class = |nic: &usize| self.link(gpu, *nic)?.as_ref().ok()?.class();
        let nics = || (0..self.devices.len()).filter(|nic| !self.devices[*nic].is_gpu);
        let nearest = nics().filter_map(|nic| class(&nic)).min()?;
        Some(Nearest {
            class: nearest,
            nics: nics().filter(|nic| class(nic) == Some(nearest)).collect(),
            unknown: nics().filter(|nic| class(nic).is_none()).count(),
        })
    }
}
