//! `linerate inspect`.

use std::path::PathBuf;

use clap::Args;

use super::{Color, PlainFormat};

/// `linerate inspect`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct InspectArgs {
    /// What to write: text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    #[arg(hide_possible_values = true)]
    pub format: PlainFormat,

    /// Look for sys/ and proc/ below this folder, such as a copy taken from another machine
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// Read what `nvidia-smi topo -m` printed on another machine from this file, or with - from
    /// standard input, and show which NICs are nearest to each GPU there
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub topo: Option<PathBuf>,

    /// Colour: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,
}
