//! The probes of a run by number, one after another in memory.

use super::Probe;
use crate::model::ProbeId;

/// In the order of their numbers. A run numbers them without gaps: the place of one is known then, and
/// else it is looked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Probes {
    all: Vec<Probe>,
}

impl Probes {
    /// Takes one in, in place of one that had its number.
    pub(super) fn insert(&mut self, probe: Probe) {
        let id = probe.planned.probe;
        match self.all.last() {
            Some(last) if last.planned.probe >= id => match self.place(id) {
                Ok(at) => self.all[at] = probe,
                Err(at) => self.all.insert(at, probe),
            },
            _ => self.all.push(probe),
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

    pub(super) fn get_mut(&mut self, id: ProbeId) -> Option<&mut Probe> {
        let at = self.place(id).ok()?;
        self.all.get_mut(at)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Probe> {
        self.all.iter()
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Probe) -> bool) {
        self.all.retain(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events, ledger};
    use super::*;

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
            assert_eq!(probes.get_mut(ProbeId(id)).unwrap().round, id as u32);
        }
        for id in [0, 4, 6, 8, 10] {
            assert_eq!(probes.get(ProbeId(id)), None);
        }
    }
}
