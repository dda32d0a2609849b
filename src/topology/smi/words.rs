//! The words of the matrix: what a cell, a heading and an affinity column may say.

use std::fmt;

use crate::topology::PathClass;

/// What a cell may say, for whoever reads that it says something else.
pub(super) const EXPECTED: &str = "X, PIX, PXB, PHB, NODE, SYS or NV#";

/// What a cell says of two devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopoLink {
    /// `X`: a device and itself.
    Own,
    /// A path over PCIe.
    Path(PathClass),
    /// `NV18`: so many NVLinks, bonded.
    NvLink(u16),
    /// `MT2`: so many of Moore Threads' MTLinks, bonded.
    MtLink(u16),
    /// `INT`: inside a card of Moore Threads that carries several GPUs.
    Internal,
}

/// Words for paths: NVIDIA's, NVIDIA's before driver 390 (`SOC`), and those of `mthreads-gmi topo -m`.
const PATHS: [(&str, PathClass); 9] = [
    ("PIX", PathClass::Pix),
    ("PXB", PathClass::Pxb),
    ("PHB", PathClass::Phb),
    ("NODE", PathClass::Node),
    ("SYS", PathClass::Sys),
    ("SOC", PathClass::Sys),
    ("SPB", PathClass::Pix),
    ("MPB", PathClass::Pxb),
    ("HPB", PathClass::Phb),
];

impl TopoLink {
    /// The class, where it is a path over PCIe.
    pub fn class(self) -> Option<PathClass> {
        match self {
            Self::Path(class) => Some(class),
            _ => None,
        }
    }

    /// What a legend says of it.
    pub fn meaning(self) -> String {
        match self {
            Self::Own => "the device itself".to_owned(),
            Self::Path(class) => class.meaning().to_owned(),
            Self::NvLink(count) => format!("{count} bonded NVLinks"),
            Self::MtLink(count) => format!("{count} bonded MTLinks"),
            Self::Internal => "inside one card".to_owned(),
        }
    }
}

impl fmt::Display for TopoLink {
    /// NVIDIA's word, where it has one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.pad("X"),
            Self::Path(class) => class.fmt(f),
            Self::NvLink(count) => f.pad(&format!("NV{count}")),
            Self::MtLink(count) => f.pad(&format!("MT{count}")),
            Self::Internal => f.pad("INT"),
        }
    }
}

/// What a cell says; `None` for anything else.
pub(super) fn link(word: &str) -> Option<TopoLink> {
    match word {
        "X" => return Some(TopoLink::Own),
        "INT" => return Some(TopoLink::Internal),
        _ => {}
    }
    if let Some((_, class)) = PATHS.iter().find(|(known, _)| *known == word) {
        return Some(TopoLink::Path(*class));
    }
    let nvlinks = word.strip_prefix("NV").and_then(number);
    let mtlinks = || word.strip_prefix("MT").and_then(number);
    nvlinks
        .map(TopoLink::NvLink)
        .or_else(|| mtlinks().map(TopoLink::MtLink))
}

/// Whether a line that begins so and goes on with `=` explains a word of the matrix.
pub(super) fn is_in_legend(word: &str) -> bool {
    link(word).is_some() || matches!(word, "NV#" | "MTx")
}

/// Digits alone, which `parse` would let a sign precede.
fn number(digits: &str) -> Option<u16> {
    let all = digits.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| digits.parse().ok()).flatten()
}

/// The number in `GPU7` or `NIC12`.
pub(super) fn numbered(name: &str, prefix: &str) -> Option<usize> {
    name.strip_prefix(prefix).and_then(number).map(usize::from)
}

/// Whether this can be a device's heading or name: kernel names have a number in them.
pub(super) fn is_name(word: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
    word.len() <= 64
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.chars().all(allowed)
        && word.contains(|c: char| c.is_ascii_digit())
        && link(word).is_none()
}

/// Whether a word opens the columns behind the devices: `CPU Affinity`, `NUMA Affinity`, `GPU NUMA ID`.
pub(super) fn opens_affinity(word: &str) -> bool {
    let first = word.split_whitespace().next();
    matches!(first, Some("CPU" | "NUMA" | "GPU" | "Affinity"))
}

/// Whether a word in a row belongs to those columns, whole or not.
pub(super) fn looks_like_affinity(word: &str) -> bool {
    word == "N/A" || word.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == ',')
}

/// Whether this is a list such as `0-31,64-95`.
pub(super) fn is_list(word: &str) -> bool {
    word.split(',').all(|range| match range.split_once('-') {
        Some((first, last)) => match (number(first), number(last)) {
            (Some(first), Some(last)) => first <= last,
            _ => false,
        },
        None => number(range).is_some(),
    })
}
