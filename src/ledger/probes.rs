//! The probes of a run by number, one after another in memory.

use super::Probe;
use crate::model::{Fact, Gbps, Grown, Outcome, ProbeId, Purpose, Rail, Verification};

/// What is asked of every probe of a run again and again. Beside each other in memory these are a tenth
/// of the probes: to fetch them all would be most of the work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Brief {
    /// The numbers of its sender and receiver ([`super::Ledger::number`]).
    pub ends: [u32; 2],
    /// The round it belongs to.
    pub round: u32,
    /// The rail of its pair.
    pub rail: Rail,
    /// Why it is made.
    pub purpose: Purpose,
    /// Whether its sender's GID maps an IPv4 address.
    pub ipv4: bool,
    /// What came of it.
    pub came: Came,
    /// Path MTU in bytes, where something was measured.
    pub mtu: Option<u32>,
    /// The rate that was measured, where there is one.
    pub rate: Option<Gbps>,
    /// Whether every byte landed as it was sent, and no counter is known to have gone up at either end.
    pub clean: bool,
}

/// What came of a probe, without more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// It runs, or the run was cut off.
    Nothing,
    /// Data moved.
    Measured,
    /// It was tried and went wrong.
    Failed,
    /// It was not tried.
    NotRun,
}

impl Brief {
    /// Whether it is over, whatever came of it.
    pub fn has_ended(&self) -> bool {
        self.came != Came::Nothing
    }

    /// Whether something came of it: a rate, or a failure.
    pub fn was_tried(&self) -> bool {
        matches!(self.came, Came::Measured | Came::Failed)
    }

    fn of(probe: &Probe) -> Self {
        let planned = &probe.planned;
        Self {
            // More NICs than that no memory holds.
            ends: probe.ends.map(|number| number as u32),
            round: probe.round,
            rail: planned.pair.rail,
            purpose: planned.purpose,
            ipv4: planned.route.from.gid.ipv4().is_some(),
            came: match &probe.outcome {
                None => Came::Nothing,
                Some(Outcome::Measured { .. }) => Came::Measured,
                Some(Outcome::Failed { .. }) => Came::Failed,
                Some(Outcome::NotRun { .. }) => Came::NotRun,
            },
            mtu: probe.measurement().map(|measurement| measurement.mtu),
            rate: probe.rate(),
            clean: probe.outcome.as_ref().is_some_and(is_clean),
        }
    }
}

fn is_clean(outcome: &Outcome) -> bool {
    let Outcome::Measured {
        measurement,
        verified,
    } = outcome
    else {
        return false;
    };
    let is_still = |counters: &Fact<Vec<Grown>>| counters.value().is_none_or(Vec::is_empty);
    let landed = |seen: &Verification| seen.bytes_wrong == 0 && is_still(&seen.counters);
    is_still(&measurement.counters) && verified.value().is_some_and(landed)
}

/// In the order of their numbers. A run numbers them without gaps: the place of one is known then, and
/// else it is looked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Probes {
    all: Vec<Probe>,
    /// The same in brief, one for each.
    briefs: Vec<Brief>,
}

impl Probes {
    /// Takes one in, in place of one that had its number.
    pub(super) fn insert(&mut self, probe: Probe) {
        let (id, brief) = (probe.planned.probe, Brief::of(&probe));
        match self.all.last() {
            Some(last) if last.planned.probe >= id => match self.place(id) {
                Ok(at) => (self.all[at], self.briefs[at]) = (probe, brief),
                Err(at) => {
                    self.all.insert(at, probe);
                    self.briefs.insert(at, brief);
                }
            },
            _ => {
                self.all.push(probe);
                self.briefs.push(brief);
            }
        }
    }

    fn place(&self, id: ProbeId) -> Result<usize, usize> {
        let is_of = |at: &usize| self.all.get(*at).is_some_and(|p| p.planned.probe == id);
        let first = self.all.first().map_or(0, |first| first.planned.probe.0);
        let guess = id.0.checked_sub(first).and_then(|at| at.try_into().ok());
        match guess.filter(is_of) {
            Some(at) => Ok(at),
            None => self.all.binary_search_by_key(&id, |p| p.planned.probe),
        }
    }

    pub(super) fn get(&self, id: ProbeId) -> Option<&Probe> {
        self.all.get(self.place(id).ok()?)
    }

    /// Changes one, if it is there; gives what `change` does.
    pub(super) fn change<T>(
        &mut self,
        id: ProbeId,
        change: impl FnOnce(&mut Probe) -> T,
    ) -> Option<T> {
        let at = self.place(id).ok()?;
        let probe = self.all.get_mut(at)?;
        let result = change(probe);
        self.briefs[at] = Brief::of(probe);
        Some(result)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Probe> {
        self.all.iter()
    }

    pub(super) fn in_brief(&self) -> impl Iterator<Item = (&Brief, &Probe)> {
        self.briefs.iter().zip(&self.all)
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Probe) -> bool) {
        self.all.retain(keep);
        self.briefs.clear();
        self.briefs.extend(self.all.iter().map(Brief::of));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events, ledger};
    use super::*;
    use crate::ledger::Ledger;
    use crate::model::Event;

    #[test]
    fn briefs_are_those_of_their_probes_wherever_a_run_is_cut_off() {
        let events = events(4, 2, &|i, j, _| (i != j + 1).then_some(391.0));
        let check = |ledger: &Ledger| {
            assert_eq!(ledger.in_brief().count(), ledger.probes().count());
            for (brief, probe) in ledger.in_brief() {
                assert_eq!(*brief, Brief::of(probe));
                assert_eq!(brief.was_tried(), probe.was_tried());
                assert_eq!(brief.has_ended(), probe.outcome.is_some());
                assert_eq!(
                    brief.clean,
                    probe.rate().is_some(),
                    "nothing was wrong here"
                );
            }
        };
        for cut in 0..=events.len() {
            let mut ledger = ledger(&events[..cut]);
            check(&ledger);
            ledger.apply(&Event::RunResumed {
                linerate: "0.1.0".into(),
            });
            check(&ledger);
            assert!(ledger.probes().all(Probe::was_tried));
        }
    }

    #[test]
    fn a_probe_is_found_by_its_number_whatever_numbers_there_are() {
        let ledger = ledger(&events(3, 1, &|_, _, _| Some(391.0)));
        let one = ledger.probes().next().unwrap();
        let mut probes = Probes::default();
        for id in [5, 9, 7, u64::MAX, 6, 0, 7] {
            let mut probe = one.clone();
            probe.planned.probe = ProbeId(id);
            probe.round = id as u32;
            probes.insert(probe);
        }
        let numbers = |probes: &Probes| -> Vec<u64> {
            let all = probes.iter();
            all.map(|probe| probe.planned.probe.0).collect()
        };
        assert_eq!(numbers(&probes), [0, 5, 6, 7, 9, u64::MAX]);
        probes.retain(|probe| probe.planned.probe.0 % 2 == 1);
        assert_eq!(numbers(&probes), [5, 7, 9, u64::MAX]);
        for id in [5, 7, 9, u64::MAX] {
            assert_eq!(probes.get(ProbeId(id)).unwrap().round, id as u32);
            let round = probes.change(ProbeId(id), |probe| std::mem::take(&mut probe.round));
            assert_eq!(round, Some(id as u32));
        }
        for id in [0, 4, 6, 8, 10] {
            assert_eq!(probes.get(ProbeId(id)), None);
        }
        assert_eq!(probes.in_brief().count(), 4);
        for (brief, probe) in probes.in_brief() {
            assert_eq!((*brief, probe.round), (Brief::of(probe), 0));
        }
    }
}
