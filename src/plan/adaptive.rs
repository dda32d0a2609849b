//! The next round of an adaptive sweep, from how the run stands: suspects against proved partners,
//! then what tells the causes of confirmed faults apart, then pairs that are low for no end's sake.
//!
//! Without memory: a run that was cut off goes on from what it knows.

use std::collections::{BTreeMap, HashSet};

use super::isolate::{Ask, Culprit, Decision, Setup, decisions};
use crate::model::{
    Direction, Doubt, EndStanding, NicId, NodeName, NodeStanding, Pair, Purpose, RailStanding,
    Standing,
};

/// A node that takes part.
#[derive(Debug, Clone, Copy)]
pub struct Player<'a> {
    /// How its NICs stand.
    pub node: &'a NodeStanding,
    /// Its leaf group, by number.
    pub group: usize,
    /// Whether it answers, and its NICs may be used.
    pub is_there: bool,
}

/// Probes that run at the same time, each with what it is for.
pub type Probes = Vec<(Pair, Purpose)>;

/// A suspect that so many rounds could not confirm stays one; a NIC that so many could not measure
/// cannot be.
const CONFIRMATIONS: u8 = 3;

/// In so many rounds a NIC is confirmed that is full by itself and shares nothing: chance could have
/// made it low in one.
const CONFIRMATIONS_OF_LOAD: u8 = 2;

/// A pair that is low, or failed, is tried in so many rounds in all.
const TRIES: u8 = 2;

/// The probes of the next round; none where nothing more is to be learned. `can` says whether a pair
/// has a route, and at `most` so many nodes have a part in it, two at the least.
pub fn next_round(
    players: &[Player<'_>],
    doubts: &[Doubt],
    setup: Setup,
    most: usize,
    can: &dyn Fn(&NicId, &NicId) -> bool,
) -> Probes {
    let asks: BTreeMap<usize, Vec<Want>> = (0..players.len())
        .filter(|at| players[*at].is_there)
        .map(|at| (at, wants(players[at].node, setup)))
        .filter(|(_, wants)| !wants.is_empty())
        .collect();
    let mut round = Round::new(players, &asks, setup, can);
    for (at, wants) in &asks {
        if !round.used.contains(at) && round.has_room(most) {
            // The first for which partners are free.
            let _ = wants.iter().any(|want| round.seat(*at, want));
        }
    }
    round.doubts_from = round.probes.len();
    for doubt in doubts {
        round.seat_doubt(doubt, most);
    }
    round.probes
}

/// What is to be measured of a node.
#[derive(Debug, Clone)]
enum Want {
    /// All its rails, those in doubt to be confirmed.
    Confirm,
    /// Some of its NICs, the others idle.
    Some { nics: Vec<usize>, purpose: Purpose },
    /// One of its NICs in one direction, the others idle.
    OneWay { nic: usize, direction: Direction },
}

fn wants(node: &NodeStanding, setup: Setup) -> Vec<Want> {
    if !to_confirm(node, setup).is_empty() {
        return vec![Want::Confirm];
    }
    let some = |nics, purpose| Some(Want::Some { nics, purpose });
    let want = |decision| match decision {
        Decision::Next(Ask::Alone(at)) => some(vec![at], Purpose::Alone),
        Decision::Next(Ask::HostMemory(at)) => some(vec![at], Purpose::HostMemory),
        Decision::Next(Ask::OneWay(nic, direction)) => Some(Want::OneWay { nic, direction }),
        Decision::Next(Ask::Wide(at)) => some(vec![at], Purpose::Wide),
        Decision::Next(Ask::Siblings(nics)) => some(nics, Purpose::Siblings),
        Decision::Known(_) | Decision::CannotTell => None,
    };
    let next = decisions(node, setup).into_iter();
    next.filter_map(|(_, decision)| want(decision)).collect()
}

/// The places of the NICs that are to be confirmed: those in doubt, then those that are low for nothing
/// but the load of others, which a second look at least is to show.
fn to_confirm(node: &NodeStanding, setup: Setup) -> Vec<usize> {
    let places = 0..node.nics.len();
    let in_doubt = places.filter(|at| needs_confirmation(&node.nics[*at]));
    let in_doubt: Vec<usize> = in_doubt.collect();
    if !in_doubt.is_empty() {
        return in_doubt;
    }
    let once = |at: &usize| {
        let accused = node.nics[*at].standing.ends().into_iter();
        let mut accused = accused.filter(|end| end.standing == Standing::Accused);
        accused.any(|end| end.confirmations < CONFIRMATIONS_OF_LOAD)
    };
    let decided = decisions(node, setup).into_iter();
    let under_load = decided
        .filter(|(at, decision)| *decision == Decision::Known(Culprit::UnderLoad) && once(at));
    under_load.map(|(at, _)| at).collect()
}

fn needs_confirmation(nic: &RailStanding) -> bool {
    let open = |end: &EndStanding| {
        matches!(end.standing, Standing::Suspect | Standing::Unknown)
            && end.confirmations < CONFIRMATIONS
    };
    nic.standing.ends().iter().any(open)
}

/// A round that is being put together.
struct Round<'a> {
    players: &'a [Player<'a>],
    setup: Setup,
    can: &'a dyn Fn(&NicId, &NicId) -> bool,
    places: BTreeMap<&'a NodeName, usize>,
    /// Nodes with a part in the round.
    used: HashSet<usize>,
    /// Nodes that are in doubt of each other: all their pairs that are have one round.
    met: HashSet<(usize, usize)>,
    /// Where their probes begin among all.
    doubts_from: usize,
    helpers: Helpers,
    probes: Probes,
}

/// Nodes to measure others against, the next one last.
struct Helpers {
    /// All NICs proved and nothing more to be learned of them, by leaf group.
    proved: BTreeMap<usize, Vec<usize>>,
    /// Others with a proved NIC: those that are to be measured themselves come last.
    partly: Vec<usize>,
}

impl<'a> Round<'a> {
    fn new(
        players: &'a [Player<'a>],
        asks: &BTreeMap<usize, Vec<Want>>,
        setup: Setup,
        can: &'a dyn Fn(&NicId, &NicId) -> bool,
    ) -> Self {
        let names = players.iter().enumerate();
        let places = names.map(|(at, player)| (&player.node.node, at)).collect();
        let helpers = Helpers::of(players, asks);
        Self {
            players,
            setup,
            can,
            places,
            used: HashSet::new(),
            met: HashSet::new(),
            doubts_from: 0,
            helpers,
            probes: Probes::new(),
        }
    }

    fn has_room(&self, most: usize) -> bool {
        self.used.is_empty() || self.used.len() + 2 <= most
    }

    fn seat(&mut self, at: usize, want: &Want) -> bool {
        match want {
            Want::Confirm => self.confirm(at),
            Want::Some { nics, purpose } => self.some(at, nics, *purpose, None),
            Want::OneWay { nic, direction } => {
                self.some(at, &[*nic], Purpose::OneWay, Some(*direction))
            }
        }
    }

    /// Every NIC of a node against partners that are proved, so that all of it is loaded.
    fn confirm(&mut self, at: usize) -> bool {
        let node = self.players[at].node;
        let all: Vec<usize> = (0..node.nics.len()).collect();
        let in_doubt = to_confirm(node, self.setup);
        let partners = self.partners(at, &all);
        let served = partners.keys().filter(|nic| in_doubt.contains(nic)).count();
        if served == 0 {
            return false;
        }
        self.used.insert(at);
        for (nic, (helper, other)) in partners {
            self.used.insert(helper);
            let purpose = match in_doubt.contains(&nic) {
                true => Purpose::Confirm,
                false => Purpose::Load,
            };
            let (mine, theirs) = (&node.nics[nic], &self.players[helper].node.nics[other]);
            self.both_ways(mine, theirs, purpose);
        }
        true
    }

    /// Some NICs of a node, each against one that is proved, in one direction or both.
    fn some(
        &mut self,
        at: usize,
        nics: &[usize],
        purpose: Purpose,
        way: Option<Direction>,
    ) -> bool {
        let node = self.players[at].node;
        let partners = self.partners(at, nics);
        if partners.len() < nics.len() {
            return false;
        }
        self.used.insert(at);
        for (nic, (helper, other)) in partners {
            self.used.insert(helper);
            let (mine, theirs) = (&node.nics[nic], &self.players[helper].node.nics[other]);
            match way {
                Some(Direction::Tx) => self.one_way(mine, theirs, purpose),
                Some(Direction::Rx) => self.one_way(theirs, mine, purpose),
                None => self.both_ways(mine, theirs, purpose),
            }
        }
        true
    }

    fn both_ways(&mut self, mine: &RailStanding, theirs: &RailStanding, purpose: Purpose) {
        self.one_way(mine, theirs, purpose);
        self.one_way(theirs, mine, purpose);
    }

    fn one_way(&mut self, from: &RailStanding, to: &RailStanding, purpose: Purpose) {
        let (from, to, rail) = (from.nic.clone(), to.nic.clone(), from.rail);
        self.probes.push((Pair { from, to, rail }, purpose));
    }

    /// For each of a node's NICs that has one a partner: node and place. One node for all where there
    /// is such, of the same leaf group where there is such.
    fn partners(&mut self, at: usize, nics: &[usize]) -> BTreeMap<usize, (usize, usize)> {
        if let Some(found) = self.whole_partner(at, nics) {
            return found;
        }
        let mut found = BTreeMap::new();
        for nic in nics {
            if let Some(partner) = self.single_partner(at, *nic, &found) {
                found.insert(*nic, partner);
            }
        }
        found
    }

    fn whole_partner(
        &mut self,
        at: usize,
        nics: &[usize],
    ) -> Option<BTreeMap<usize, (usize, usize)>> {
        let group = self.players[at].group;
        let others = self
            .helpers
            .proved
            .keys()
            .copied()
            .filter(|other| *other != group);
        let groups: Vec<usize> = std::iter::once(group).chain(others).collect();
        for group in groups {
            let Some(stack) = self.helpers.proved.get(&group) else {
                continue;
            };
            // Most serve; one that lacks a rail serves the next.
            let fit = stack.iter().rev().find_map(|helper| {
                let is_free = *helper != at && !self.used.contains(helper);
                let found = is_free.then(|| self.matched(at, nics, *helper)).flatten()?;
                Some((*helper, found))
            });
            if let Some((helper, found)) = fit {
                if let Some(stack) = self.helpers.proved.get_mut(&group) {
                    stack.retain(|other| *other != helper);
                }
                return Some(found);
            }
        }
        None
    }

    /// A proved NIC of the helper for each of the node's.
    fn matched(
        &self,
        at: usize,
        nics: &[usize],
        helper: usize,
    ) -> Option<BTreeMap<usize, (usize, usize)>> {
        let find = |nic: &usize| {
            let mine = &self.players[at].node.nics[*nic];
            let other = self.proved(mine, helper, &RailStanding::is_proved)?;
            Some((*nic, (helper, other)))
        };
        nics.iter().map(find).collect()
    }

    fn proved(
        &self,
        mine: &RailStanding,
        helper: usize,
        serves: &dyn Fn(&RailStanding) -> bool,
    ) -> Option<usize> {
        let nics = self.players[helper].node.nics.iter();
        let same = |theirs: &&RailStanding| {
            theirs.rail == mine.rail && serves(theirs) && theirs.is_wide_enough_for(mine)
        };
        let reaches = |theirs: &RailStanding| {
            (self.can)(&mine.nic, &theirs.nic) && (self.can)(&theirs.nic, &mine.nic)
        };
        let (other, theirs) = nics.enumerate().find(|(_, theirs)| same(theirs))?;
        reaches(theirs).then_some(other)
    }

    /// Any proved NIC of its rail, of a node that the round has no other use for.
    fn single_partner(
        &self,
        at: usize,
        nic: usize,
        taken: &BTreeMap<usize, (usize, usize)>,
    ) -> Option<(usize, usize)> {
        let mine = &self.players[at].node.nics[nic];
        let is_free = |helper: &usize| *helper != at && !self.used.contains(helper);
        let taken: Vec<usize> = taken.values().map(|(helper, _)| *helper).collect();
        let candidates = || {
            let proved = self.helpers.proved.values().flatten().rev();
            let all = taken.iter().chain(proved).chain(&self.helpers.partly);
            all.copied()
        };
        let needed = |theirs: &RailStanding| serves_one_way(mine, theirs);
        let both: &dyn Fn(&RailStanding) -> bool = &RailStanding::is_proved;
        [both, &needed].into_iter().find_map(|serves| {
            let free = candidates().filter(is_free);
            let mut partners =
                free.filter_map(|helper| Some((helper, self.proved(mine, helper, serves)?)));
            partners.next()
        })
    }

    /// A pair once more, its reverse beside it where the run loads both directions.
    fn seat_doubt(&mut self, doubt: &Doubt, most: usize) {
        let Some(purpose) = again(doubt) else { return };
        let place = |nic: &NicId| self.places.get(&nic.node).copied();
        let (Some(from), Some(to)) = (place(&doubt.pair.from), place(&doubt.pair.to)) else {
            return;
        };
        let is_free = |at: usize| !self.used.contains(&at) && self.players[at].is_there;
        let is_met = self.met.contains(&(from.min(to), from.max(to)));
        let known = |at: usize, nic: &NicId| {
            let mut nics = self.players[at].node.nics.iter();
            nics.any(|mine| mine.nic == *nic && !mine.is_unknown())
        };
        // A NIC that nothing is known of is confirmed or given up by itself.
        let measured = known(from, &doubt.pair.from) && known(to, &doubt.pair.to);
        let has_seats = is_free(from) && is_free(to) && self.has_room(most);
        if !measured || !(is_met || has_seats) {
            return;
        }
        self.used.extend([from, to]);
        self.met.insert((from.min(to), from.max(to)));
        let Pair { from, to, rail } = doubt.pair.clone();
        let back = Pair {
            from: to,
            to: from,
            rail,
        };
        self.put(doubt.pair.clone(), purpose);
        if self.setup.both_ways && purpose == Purpose::Again && (self.can)(&back.from, &back.to) {
            self.put(back, Purpose::Load);
        }
    }

    /// A probe of two nodes in doubt of each other, once: what is asked for goes before what loads.
    fn put(&mut self, pair: Pair, purpose: Purpose) {
        let mut placed = self.probes[self.doubts_from..].iter_mut();
        match placed.find(|(other, _)| *other == pair) {
            Some((_, before)) if *before == Purpose::Load => *before = purpose,
            Some(_) => {}
            None => self.probes.push((pair, purpose)),
        }
    }
}

fn again(doubt: &Doubt) -> Option<Purpose> {
    match doubt {
        doubt if doubt.rounds < TRIES => Some(Purpose::Again),
        doubt if doubt.measured && doubt.wide.is_open() => Some(Purpose::Wide),
        _ => None,
    }
}

/// Whether a partner is proved in what it has to do for the directions that are in doubt.
fn serves_one_way(mine: &RailStanding, theirs: &RailStanding) -> bool {
    let doubted = |end: EndStanding| end.standing != Standing::Good;
    let good = |end: EndStanding| end.standing == Standing::Good;
    let (mine, theirs) = (&mine.standing, &theirs.standing);
    (!doubted(mine.tx) || good(theirs.rx)) && (!doubted(mine.rx) || good(theirs.tx))
}

impl Helpers {
    fn of(players: &[Player<'_>], asks: &BTreeMap<usize, Vec<Want>>) -> Self {
        let mut proved: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let (mut partly, mut asking) = (Vec::new(), Vec::new());
        for (at, player) in players
            .iter()
            .enumerate()
            .filter(|(_, player)| player.is_there)
        {
            let nics = &player.node.nics;
            let any_good = nics.iter().any(|nic| {
                nic.standing
                    .ends()
                    .iter()
                    .any(|end| end.standing == Standing::Good)
            });
            match () {
                () if !any_good => {}
                () if asks.contains_key(&at) => asking.push(at),
                () if nics.iter().all(RailStanding::is_proved) => {
                    proved.entry(player.group).or_default().push(at);
                }
                () => partly.push(at),
            }
        }
        partly.append(&mut asking);
        Self { proved, partly }
    }
}
