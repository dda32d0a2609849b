//! What is saved by not copying, and what by not going through the kernel: two things, each measured with
//! and without the other.

use super::StepCost;
use crate::model::CostStep;

/// CPU time for each KiB by one way of moving data and by another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saving {
    /// The way that costs more, if anything is saved.
    pub from: CostStep,
    /// The way that is held against it.
    pub to: CostStep,
    /// Nanoseconds per KiB by each.
    pub ns_per_kib: [f64; 2],
    /// Whether that is of both ends; else it is of the initiator alone.
    pub both_ends: bool,
}

impl Saving {
    /// Between two ways that were measured; `None` where one of them only polls.
    pub fn between(from: &StepCost<'_>, to: &StepCost<'_>) -> Option<Self> {
        if from.polls || to.polls {
            return None;
        }
        let mine = [from, to].map(|step| step.ends[0].as_ref().map(|end| end.ns_per_kib()));
        let theirs = [from, to].map(|step| step.ends[1].as_ref().map(|end| end.ns_per_kib()));
        let [Some(a), Some(b)] = mine else {
            return None;
        };
        let (ns_per_kib, both_ends) = match theirs {
            [Some(c), Some(d)] => ([a + c, b + d], true),
            _ => ([a, b], false),
        };
        Some(Self {
            from: from.step,
            to: to.step,
            ns_per_kib,
            both_ends,
        })
    }

    /// The share of what `from` takes that `to` does not; below 0 where it takes more.
    pub fn share(&self) -> Option<f64> {
        let [from, to] = self.ns_per_kib;
        (from > 0.0).then(|| 1.0 - to / from)
    }
}

/// The two savings, and both together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Savings {
    /// Of zero copy, on the kernel's path.
    pub zero_copy_in_kernel: Option<Saving>,
    /// Of zero copy, past the kernel.
    pub zero_copy_past_kernel: Option<Saving>,
    /// Of kernel bypass, where data is copied.
    pub bypass_with_copy: Option<Saving>,
    /// Of kernel bypass, where it is not.
    pub bypass_without_copy: Option<Saving>,
    /// Of RDMA beside TCP: both.
    pub together: Option<Saving>,
}

impl Savings {
    /// Of what was measured of a pair. Where the kernel copied all the same, there was no zero copy.
    pub fn of(steps: &[StepCost<'_>]) -> Self {
        let step = |wanted| steps.iter().find(|step| step.step == wanted);
        let zero = || step(CostStep::TcpZeroCopy).filter(|step| !step.copied_all_the_same());
        let between =
            |from: Option<&StepCost<'_>>, to: Option<&StepCost<'_>>| Saving::between(from?, to?);
        let tcp = || step(CostStep::Tcp);
        let (copied, write) = (|| step(CostStep::WriteCopied), || step(CostStep::Write));
        Self {
            zero_copy_in_kernel: between(tcp(), zero()),
            zero_copy_past_kernel: between(copied(), write()),
            bypass_with_copy: between(tcp(), copied()),
            bypass_without_copy: between(zero(), write()),
            together: between(tcp(), write()),
        }
    }

    /// Each with its name, those that are known.
    pub fn named(&self) -> Vec<(&'static str, Saving)> {
        let all = [
            ("zero copy on the kernel's path", self.zero_copy_in_kernel),
            ("zero copy past the kernel", self.zero_copy_past_kernel),
            ("kernel bypass with a copy", self.bypass_with_copy),
            ("kernel bypass without copies", self.bypass_without_copy),
        ];
        let known = all.into_iter();
        known
            .filter_map(|(name, saving)| Some((name, saving?)))
            .collect()
    }
}
