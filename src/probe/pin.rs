//! A thread that keeps to one processor for a while.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The calling thread keeps to one processor until this is dropped.
pub(super) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Pins the calling thread to one of `near` that it may run on; where none is, to any that it
    /// may run on. Processor 0, which most interrupts go to, is the last choice. `None` where the
    /// system does not let it.
    ///
    /// `turn` spreads several probes of a node over its processors.
    pub fn to_one_of(near: &[u32], turn: u64) -> Option<Self> {
        let myself = Pid::from_raw(0);
        let before = sched_getaffinity(myself).ok()?;
        let allowed = |cpu: &usize| before.is_set(*cpu).unwrap_or(false);
        let near = near.iter().map(|cpu| *cpu as usize).filter(allowed);
        let mut choice: Vec<usize> = near.collect();
        if choice.is_empty() {
            choice = (0..CpuSet::count()).filter(allowed).collect();
        }
        if choice.len() > 1 {
            choice.retain(|cpu| *cpu != 0);
        }
        let cpu = *choice.get(usize::try_from(turn % choice.len().max(1) as u64).ok()?)?;
        let mut only = CpuSet::new();
        only.set(cpu).ok()?;
        sched_setaffinity(myself, &only).ok()?;
        Some(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Processors that went offline meanwhile are no reason to fail.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mine() -> Vec<usize> {
        let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
        (0..CpuSet::count())
            .filter(|cpu| set.is_set(*cpu).unwrap())
            .collect()
    }

    #[test]
    fn a_thread_keeps_to_one_processor_and_is_let_go() {
        let before = mine();
        let last = *before.last().unwrap();
        for near in [vec![u32::try_from(last).unwrap()], vec![], vec![9_999_999]] {
            let pinned = Pinned::to_one_of(&near, 7).unwrap();
            let now = mine();
            assert_eq!(now.len(), 1);
            assert!(before.contains(&now[0]));
            assert!(near.is_empty() || near[0] > 9_000 || now == [last]);
            drop(pinned);
            assert_eq!(mine(), before);
        }
    }
}
