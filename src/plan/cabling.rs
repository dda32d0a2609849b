//! Looks for the switch that a cable is in: a NIC that is far from its neighbours is measured to the
//! NICs of one good neighbour, rail by rail; the nearest tells.

use std::collections::HashSet;

use super::adaptive::{Player, Probes};
use crate::model::{NicId, NodeName, Pair, Purpose, RailStanding, Stray};

/// The probes of the next round, each from a NIC that is far; none where nothing more is to be learned.
/// `can` says whether a pair has a route: many fabrics have none between rails.
pub fn cabling_round(
    players: &[Player<'_>],
    strays: &[Stray],
    most: usize,
    can: &dyn Fn(&NicId, &NicId) -> bool,
) -> Probes {
    let mut probes = Probes::new();
    let mut used: HashSet<&NicId> = HashSet::new();
    let mut busy: HashSet<&NodeName> = HashSet::new();
    let lost: HashSet<&NodeName> = strays.iter().map(|stray| &stray.nic.node).collect();
    for (turn, stray) in strays.iter().enumerate() {
        let Some(helper) = helper(players, stray, &lost, turn) else {
            continue;
        };
        let new: HashSet<&NodeName> = [&stray.nic.node, &helper.node.node].into();
        if busy.union(&new).count() > most.max(2) {
            continue;
        }
        let target = |theirs: &&RailStanding| {
            let asked = !stray.tried.contains(&theirs.rail) && theirs.is_proved();
            asked && !used.contains(&theirs.nic) && can(&stray.nic, &theirs.nic)
        };
        // Two of a node begin with different rails.
        let nics = helper.node.nics.iter();
        let first = |nic: &RailStanding| nic.rail >= stray.rail;
        let (after, before): (Vec<_>, Vec<_>) = nics.partition(|nic| first(nic));
        let mut in_turn = after.into_iter().chain(before);
        if let Some(theirs) = in_turn.find(|theirs| target(theirs)) {
            busy.extend(new);
            used.insert(&theirs.nic);
            let (from, to) = (stray.nic.clone(), theirs.nic.clone());
            let rail = stray.rail;
            probes.push((Pair { from, to, rail }, Purpose::Cabling));
        }
    }
    probes
}

/// The neighbour that a NIC is measured to, the same for all rails: distances to different nodes would
/// not compare.
fn helper<'p, 'a>(
    players: &'p [Player<'a>],
    stray: &Stray,
    lost: &HashSet<&NodeName>,
    turn: usize,
) -> Option<&'p Player<'a>> {
    let group = players
        .iter()
        .find(|player| player.node.node == stray.nic.node)
        .filter(|player| player.is_there)?
        .group;
    let serves = |player: &&Player<'_>| {
        player.is_there && player.group == group && !lost.contains(&player.node.node)
    };
    if let Some(name) = &stray.helper {
        let mut found = players.iter().filter(serves);
        return found.find(|player| player.node.node == *name);
    }
    let own = |player: &&Player<'_>| {
        let mut nics = player.node.nics.iter();
        nics.any(|nic| nic.rail == stray.rail && nic.is_proved())
    };
    let able: Vec<&Player<'_>> = players.iter().filter(serves).filter(own).collect();
    // The more rails it has, the more it tells.
    let rails = |player: &Player<'_>| {
        let proved = player.node.nics.iter().filter(|nic| nic.is_proved());
        proved.count()
    };
    let best = able.iter().map(|player| rails(player)).max()?;
    let best: Vec<&Player<'_>> = able
        .into_iter()
        .filter(|player| rails(player) == best)
        .collect();
    best.get(turn % best.len()).copied()
}
