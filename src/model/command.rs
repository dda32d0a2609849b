//! Commands: what whoever watches a run may ask of it.

use super::{NodeName, Pair};

/// Something that is asked of a run while it runs. It is heard between two rounds.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Begin no round until [`Command::GoOn`].
    Pause,
    /// Begin rounds again.
    GoOn,
    /// Probe these pairs once more, one after another.
    Probe(Vec<Pair>),
    /// Probe a node no more.
    Exclude(NodeName),
    /// Play a recorded run so many times faster than it was.
    Pace(f64),
}
