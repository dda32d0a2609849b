//! What is saved by not copying, and what by not going through the kernel: two things, each measured with
//! and without the other.

use super::{EndCost, StepCost};
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
    /// Whether `to` takes less than it says, and more is saved: an end of it is hidden in ticks.
    pub at_least: bool,
    /// Nanoseconds per KiB that `to` takes at the least.
    pub to_least: f64,
}

impl Saving {
    /// Between two ways that were measured; `None` where one of them only polls, where an initiator
    /// said nothing, or where all that `from` took is hidden in ticks.
    pub fn between(from: &StepCost<'_>, to: &StepCost<'_>) -> Option<Self> {
        if from.polls || to.polls {
            return None;
        }
        let known = |step: &StepCost<'_>, end: usize| {
            let end = step.ends[end].as_ref();
            end.is_some_and(|end| !end.is_unknown())
        };
        if !known(from, 0) || !known(to, 0) {
            return None;
        }
        let both_ends = known(from, 1) && known(to, 1);
        let ends = if both_ends { 0..2 } else { 0..1 };
        let of = |step| ends.clone().filter_map(move |end| end_of(step, end));
        if of(from).all(EndCost::is_hidden) {
            return None;
        }
        // Of what ticks hide the least that may be saved: none of `from`'s, all of `to`'s.
        let most = |end: &EndCost| match end.is_hidden() {
            true => end.at_most().ns_per_kib(),
            false => end.ns_per_kib(),
        };
        Some(Self {
            from: from.step,
            to: to.step,
            ns_per_kib: [
                of(from).map(EndCost::ns_per_kib).sum(),
                of(to).map(most).sum(),
            ],
            both_ends,
            at_least: of(to).any(EndCost::is_hidden),
            to_least: of(to).map(EndCost::ns_per_kib).sum(),
        })
    }

    /// The share of what `from` takes that `to` does not; below 0 where it takes more. `None` where it
    /// may be either.
    pub fn share(&self) -> Option<f64> {
        let [from, to] = self.ns_per_kib;
        let to = match (to > from, self.to_least > from) {
            (true, false) if self.at_least => return None,
            (true, true) => self.to_least,
            _ => to,
        };
        (from > 0.0).then(|| 1.0 - to / from)
    }
}

fn end_of<'a>(step: &'a StepCost<'_>, end: usize) -> Option<&'a EndCost> {
    step.ends[end].as_ref()
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
