//! How many recorded runs are kept, and for how long.

/// What of the recorded runs is kept; without bounds, all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// At most so many, the newest.
    pub keep_runs: Option<u32>,
    /// None that was last written more than so many days ago.
    pub keep_days: Option<u32>,
}

impl Retention {
    /// Whether everything is kept.
    pub fn keeps_all(self) -> bool {
        self == Self::default()
    }
}
