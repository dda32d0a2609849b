//! How every NIC of a run stands: what an adaptive sweep decides by what to measure next.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;

use super::cabling::far;
use super::fabric::{self, fabric};
use super::localise::is_low;
use super::observe::{Observation, Observed};
use super::{Localised, localise, observe};
use crate::ledger::{Brief, Ledger};
use crate::model::{
    Direction, Doubt, FabricStanding, Gbps, NicId, NicStanding, NodeFacts, NodeStanding, Pair,
    PciAddress, Purpose, RailStanding, RunSettings, Stray, Trial,
};

/// How a run stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standings {
    /// Every node that has a NIC on a rail, by name.
    pub nodes: Vec<NodeStanding>,
    /// Pairs whose last word is not spoken, though neither end is accused; by rail, sender and receiver.
    pub doubts: Vec<Doubt>,
    /// NICs whose cable is looked for, by rail and name.
    pub strays: Vec<Stray>,
    /// The ways between leaf groups, where the run measures them.
    pub fabric: FabricStanding,
}

/// How NICs and pairs of a run stand as far as it has come: neither whose cable is looked for, nor the
/// ways between leaf groups, which matter only once nothing of these is in doubt.
pub fn standings_of_nics(ledger: &Ledger) -> Standings {
    let Some(settings) = ledger.settings() else {
        return Standings::default();
    };
    let observed = observe(ledger);
    let localised = localise(&observed, settings);
    stand(ledger, &observed, &localised, settings)
}

/// NICs whose cable is looked for, by rail and name.
pub fn strays(ledger: &Ledger) -> Vec<Stray> {
    let settings = ledger.settings();
    let far = settings.map(|settings| far(ledger, settings));
    let far = far.into_iter().flatten();
    far.map(|far| far.stray).collect()
}

/// How a run stands as far as it has come.
pub fn standings(ledger: &Ledger) -> Standings {
    let Some(settings) = ledger.settings() else {
        return Standings::default();
    };
    let observed = observe(ledger);
    let localised = localise(&observed, settings);
    let between = fabric(&observed, &localised, settings);
    Standings {
        strays: strays(ledger),
        fabric: fabric::standing(ledger, &between, settings),
        ..stand(ledger, &observed, &localised, settings)
    }
}

/// How NICs and pairs stand, of what was localised before.
pub(super) fn stand(
    ledger: &Ledger,
    observed: &Observed<'_>,
    localised: &Localised<'_>,
    settings: &RunSettings,
) -> Standings {
    let mut nics: Vec<NicStanding> = vec![NicStanding::default(); observed.cast.parts.len()];
    for (number, nic) in nics.iter_mut().enumerate() {
        nic.tx.standing = localised.standing(number, Direction::Tx);
        nic.rx.standing = localised.standing(number, Direction::Rx);
    }
    let rounds = rounds(ledger, observed);
    count_confirmations(&rounds, &mut nics);
    let verdicts = Verdicts {
        observed,
        localised,
        settings,
    };
    for ((number, purpose), tries) in rounds.trials() {
        let nic = &mut nics[number];
        let accused = nic.accused();
        match purpose {
            _ if accused.is_empty() => {}
            Purpose::OneWay => {
                let one = |way| verdicts.trial(number, purpose, tries, &[way]);
                nic.one_way = [one(Direction::Tx), one(Direction::Rx)];
            }
            _ => set(
                nic,
                purpose,
                verdicts.trial(number, purpose, tries, &accused),
            ),
        }
    }
    Standings {
        nodes: nodes(ledger, observed, &nics),
        doubts: doubts(ledger, observed, localised, &verdicts),
        ..Standings::default()
    }
}

/// The rounds in which each NIC was to be measured, for each purpose.
#[derive(Default)]
struct Rounds {
    of: BTreeMap<(usize, Purpose), BTreeSet<u32>>,
}

impl Rounds {
    fn trials(&self) -> impl Iterator<Item = ((usize, Purpose), u8)> {
        let isolating = self
            .of
            .iter()
            .filter(|((_, purpose), _)| purpose.isolates());
        isolating.map(|(key, rounds)| (*key, clamp(rounds.len())))
    }
}

fn clamp(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

fn rounds(ledger: &Ledger, observed: &Observed<'_>) -> Rounds {
    let mut rounds = Rounds::default();
    for (brief, _) in ledger.in_brief() {
        let purpose = brief.purpose;
        if !brief.has_ended() || !(purpose.isolates() || purpose == Purpose::Confirm) {
            continue;
        }
        for number in observed.cast.ends(brief).into_iter().flatten() {
            let rounds = rounds.of.entry((number, purpose));
            rounds.or_default().insert(brief.round);
        }
    }
    rounds
}

fn count_confirmations(rounds: &Rounds, nics: &mut [NicStanding]) {
    let confirm = rounds
        .of
        .iter()
        .filter(|((_, purpose), _)| *purpose == Purpose::Confirm);
    for ((number, _), rounds) in confirm {
        nics[*number].tx.confirmations = clamp(rounds.len());
        nics[*number].rx.confirmations = clamp(rounds.len());
    }
}

fn set(nic: &mut NicStanding, purpose: Purpose, trial: Trial) {
    match purpose {
        Purpose::Alone => nic.alone = trial,
        Purpose::HostMemory => nic.host_memory = trial,
        Purpose::Wide => nic.wide = trial,
        Purpose::Siblings => nic.siblings = trial,
        _ => {}
    }
}

struct Verdicts<'a> {
    observed: &'a Observed<'a>,
    localised: &'a Localised<'a>,
    settings: &'a RunSettings,
}

impl Verdicts<'_> {
    /// What the isolating probes of a NIC say of it in these directions.
    fn trial(&self, number: usize, purpose: Purpose, tries: u8, ways: &[Direction]) -> Trial {
        let mine = ways
            .iter()
            .flat_map(|way| self.observed.isolating_of_end(number, *way));
        let mine = mine.filter(|seen| seen.purpose == purpose);
        let lows: Vec<bool> = mine.map(|seen| self.is_low(seen)).collect();
        match lows.iter().any(|low| *low) {
            _ if lows.is_empty() => Trial::Failed(tries),
            true => Trial::Low,
            false => Trial::Full,
        }
    }

    fn is_low(&self, seen: &Observation<'_>) -> bool {
        is_low(seen, &self.localised.low_rails, &self.settings.expect)
    }
}

fn nodes(ledger: &Ledger, observed: &Observed<'_>, nics: &[NicStanding]) -> Vec<NodeStanding> {
    let parts = &observed.cast.parts;
    let mut places: Vec<Option<usize>> = vec![None; observed.cast.nodes()];
    let mut nodes: Vec<NodeStanding> = Vec::new();
    // In this order they were numbered, but for those that play a second rail.
    let mut next = 0;
    for (rail, nic, _) in ledger.players() {
        let is_next = parts.get(next).is_some_and(|part| ptr::eq(part.nic, nic));
        let number = match is_next {
            true => Some(next),
            false => observed.cast.number(nic),
        };
        let Some(number) = number else { continue };
        next = number + 1;
        let part = &parts[number];
        let at = *places[part.node].get_or_insert(nodes.len());
        if at == nodes.len() {
            nodes.push(NodeStanding {
                node: nic.node.clone(),
                nics: Vec::new(),
            });
        }
        nodes[at].nics.push(RailStanding {
            rail,
            nic: nic.clone(),
            root_port: None,
            numa: None,
            line: part.line.value().copied().map(in_mbps),
            asks: part.asks.map(in_mbps),
            standing: nics[number],
        });
    }
    nodes.sort_by(|a, b| a.node.cmp(&b.node));
    // Where its NICs sit matters of a node that is to be taken apart.
    let is_accused = |nic: &RailStanding| nic.standing.is_accused();
    let accused = nodes
        .iter_mut()
        .filter(|node| node.nics.iter().any(is_accused));
    for node in accused {
        let facts = ledger
            .get_node(&node.node)
            .and_then(|node| node.facts.as_ref());
        for nic in &mut node.nics {
            (nic.root_port, nic.numa) = facts.map_or((None, None), |facts| place(facts, &nic.nic));
        }
    }
    nodes
}

/// Saturates: a node may state anything.
fn in_mbps(rate: Gbps) -> u64 {
    (rate.0 * 1e3) as u64
}

/// The root port above a NIC, and its NUMA node.
fn place(facts: &NodeFacts, nic: &NicId) -> (Option<PciAddress>, Option<u32>) {
    let devices = facts.rdma.value().map(Vec::as_slice).unwrap_or_default();
    let device = devices.iter().find(|device| device.name == nic.device);
    let pci = device.and_then(|device| device.pci.value());
    let chain = pci
        .zip(facts.pcie.value())
        .map(|(pci, tree)| tree.chain(pci));
    let root = chain.as_ref().filter(|chain| chain.len() > 1);
    let root = root
        .and_then(|chain| chain.last())
        .map(|root| root.address.clone());
    let function = chain.as_ref().and_then(|chain| chain.first());
    let numa = function.and_then(|function| function.numa_node.value().copied());
    (root, numa)
}

/// Low pairs that neither end is accused of, and pairs of which nothing was measured.
fn doubts(
    ledger: &Ledger,
    observed: &Observed<'_>,
    localised: &Localised<'_>,
    verdicts: &Verdicts<'_>,
) -> Vec<Doubt> {
    let mut rounds: BTreeMap<(usize, usize), Tries<'_>> = BTreeMap::new();
    for seen in localised.ambiguous.iter().chain(&localised.paths) {
        let [from, to] = seen.ends;
        let tries = Tries {
            pair: Some(seen.pair),
            measured: true,
            ..Tries::default()
        };
        rounds.insert((from, to), tries);
    }
    let is_measured = |ends: [usize; 2]| {
        let found = observed.usual.binary_search_by_key(&ends, |seen| seen.ends);
        found.is_ok()
    };
    // Most have a rate, and a sender that is in no doubt.
    let mut doubted = vec![false; observed.cast.parts.len()];
    rounds.keys().for_each(|(from, _)| doubted[*from] = true);
    let counts = |brief: &Brief| brief.has_ended() && brief.purpose != Purpose::Cost;
    for (brief, probe) in ledger.in_brief().filter(|(brief, _)| counts(brief)) {
        let Some([from, to]) = observed.cast.ends(brief) else {
            continue;
        };
        if brief.rate.is_none()
            && brief.was_tried()
            && brief.purpose.is_usual()
            && !is_measured([from, to])
        {
            rounds.entry((from, to)).or_default().pair = Some(&probe.planned.pair);
            doubted[from] = true;
        }
        if !doubted[from] {
            continue;
        }
        if let Some(tries) = rounds.get_mut(&(from, to)) {
            let of = match brief.purpose {
                Purpose::Wide => &mut tries.wide,
                _ => &mut tries.rounds,
            };
            of.insert(brief.round);
        }
    }
    let doubt =
        |((from, to), tries): ((usize, usize), Tries<'_>)| tries.doubt([from, to], verdicts);
    rounds.into_iter().filter_map(doubt).collect()
}

/// The rounds of a pair in doubt.
#[derive(Default)]
struct Tries<'a> {
    pair: Option<&'a Pair>,
    measured: bool,
    rounds: BTreeSet<u32>,
    wide: BTreeSet<u32>,
}

impl Tries<'_> {
    fn doubt(self, ends: [usize; 2], verdicts: &Verdicts<'_>) -> Option<Doubt> {
        let wide = verdicts.observed.isolating_of_end(ends[0], Direction::Tx);
        let wide = wide.filter(|seen| seen.ends == ends && seen.purpose == Purpose::Wide);
        let lows: Vec<bool> = wide.map(|seen| verdicts.is_low(seen)).collect();
        let wide = match (self.wide.len(), lows.as_slice()) {
            (0, _) => Trial::Open,
            (tries, []) => Trial::Failed(clamp(tries)),
            (_, lows) if lows.iter().any(|low| !low) => Trial::Full,
            _ => Trial::Low,
        };
        Some(Doubt {
            pair: self.pair?.clone(),
            rounds: clamp(self.rounds.len()),
            measured: self.measured,
            wide,
        })
    }
}
