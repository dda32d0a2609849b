//! Where RDMA stops being worth it: TCP and RDMA writes by message size.

use super::{Saving, StepCost};
use crate::model::Bytes;

/// What was measured at one message size.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeCost<'a> {
    /// The size.
    pub size: Bytes,
    /// By one TCP connection.
    pub tcp: Option<StepCost<'a>>,
    /// By RDMA writes.
    pub write: Option<StepCost<'a>>,
}

impl SizeCost<'_> {
    /// What RDMA saves of CPU time at this size.
    pub fn saving(&self) -> Option<Saving> {
        Saving::between(self.tcp.as_ref()?, self.write.as_ref()?)
    }
}

/// From which message size on RDMA takes less CPU time for each byte than TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossover {
    /// At every size that was measured.
    Everywhere,
    /// From this size on, up to the largest.
    From(Bytes),
    /// Not at the largest either.
    Nowhere,
    /// Too little was measured.
    Unknown,
}

impl Crossover {
    /// Of what was measured at sizes that go up.
    pub fn of(sizes: &[SizeCost<'_>]) -> Self {
        let known = sizes.iter().filter_map(|size| {
            let saving = size.saving()?;
            saving.share().map(|share| (size.size, share > 0.0))
        });
        let known: Vec<(Bytes, bool)> = known.collect();
        if known.len() < 2 {
            return Self::Unknown;
        }
        let worse = known.iter().rposition(|(_, is_better)| !is_better);
        match worse.map(|at| known.get(at + 1)) {
            None => Self::Everywhere,
            Some(Some((size, _))) => Self::From(*size),
            Some(None) => Self::Nowhere,
        }
    }
}
