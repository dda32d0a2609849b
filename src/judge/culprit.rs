//! What the isolating probes say of each accused NIC: where the cause of it is.

use std::collections::BTreeMap;

use super::Standings;
use super::observe::{Observation, Observed};
use crate::model::{Direction, End, Evidence, NicId, NodeName, Purpose, Rail, RunSettings};
use crate::plan::{Culprit, Decision, Setup, decisions};

/// What a run's probes are like.
pub fn setup(settings: &RunSettings) -> Setup {
    Setup {
        gpu_memory: settings.probe.memory.is_gpu(),
        both_ways: settings.sweep.both_ways,
    }
}

/// For each accused NIC where its cause is, or what is still to be measured.
pub(super) fn culprits(standings: &Standings, setup: Setup) -> BTreeMap<NicId, Decision> {
    let of_node = standings.nodes.iter().flat_map(|node| {
        let decided = decisions(node, setup).into_iter();
        decided.map(|(at, decision)| (node.nics[at].nic.clone(), decision))
    });
    of_node.collect()
}

/// The nodes of which several NICs are low for one cause, with the rails that have it together.
pub(super) fn shared(
    culprits: &BTreeMap<NicId, Decision>,
) -> BTreeMap<(&NodeName, Option<&[Rail]>), Vec<&NicId>> {
    let mut shared: BTreeMap<(&NodeName, Option<&[Rail]>), Vec<&NicId>> = BTreeMap::new();
    for (nic, decision) in culprits {
        let rails = match decision {
            Decision::Known(Culprit::Shared(rails)) => Some(rails.as_slice()),
            Decision::Known(Culprit::Node) => None,
            _ => continue,
        };
        shared.entry((&nic.node, rails)).or_default().push(nic);
    }
    shared
}

/// What an end reached in isolating probes, in the order in which they are made.
pub(super) fn isolated<'o, 'a>(observed: &'o Observed<'a>, end: &End) -> Vec<&'o Observation<'a>> {
    let Some(number) = observed.cast.number(&end.nic) else {
        return Vec::new();
    };
    let mut mine: Vec<_> = observed.isolating_of_end(number, end.direction).collect();
    mine.sort_by_key(|seen| (seen.round, seen.purpose));
    mine
}

/// The conditions of a probe, to follow a rate: "alone", "one way".
pub(super) fn conditions(purpose: Purpose) -> Option<&'static str> {
    Some(match purpose {
        Purpose::Pattern => return None,
        Purpose::Confirm => "every NIC of the node loaded",
        Purpose::Load => "beside others",
        Purpose::Again => "measured again",
        Purpose::Alone => "the other rails idle",
        Purpose::HostMemory => "the other rails idle, host memory",
        Purpose::OneWay => "the other rails idle, one direction",
        Purpose::Wide => "the other rails idle, more queue pairs",
        Purpose::Siblings => "together with those of its root port",
        Purpose::Fabric => "between leaf groups, all of them loaded",
        Purpose::Cabling => "the way between rails",
        Purpose::Cost => "nothing else on both nodes",
    })
}

/// The sentence on a cause that is a NIC's own.
pub(super) fn sentence(
    observed: &Observed<'_>,
    end: &End,
    decision: Option<&Decision>,
) -> Option<String> {
    let seen = isolated(observed, end);
    let share = |purpose| {
        let mine = seen.iter().filter(|seen| seen.purpose == purpose);
        mine.map(|seen| seen.ratio).max_by(f64::total_cmp)
    };
    let alone = share(Purpose::Alone).map(|share| format!("{share:.2}"));
    let does = match end.direction {
        Direction::Tx => "sends",
        Direction::Rx => "receives",
    };
    Some(match decision? {
        Decision::Known(Culprit::Nic) => {
            let tried = tried(&seen);
            format!(
                "It is as low {tried}: the cause is in the NIC, its PCIe link, its cable or its switch port."
            )
        }
        Decision::Known(Culprit::BothDirections) => one_way(observed, end)?,
        Decision::Known(Culprit::GpuPath) => format!(
            "From and to host memory it {does} at {:.2}: the cause is on the way to GPU memory.",
            share(Purpose::HostMemory)?
        ),
        Decision::Known(Culprit::UnderLoad) => format!(
            "With the other rails of {} idle it {does} at {}: it is low only while they are loaded, \
             though not for what it shares a root port with.",
            end.nic.node, alone?
        ),
        Decision::CannotTell => "What would tell its cause could not be measured.".to_owned(),
        Decision::Known(Culprit::OneQueuePair | Culprit::Shared(_) | Culprit::Node)
        | Decision::Next(_) => return None,
    })
}

/// Whether an end is low only for what the other direction of its NIC does.
pub(super) fn is_echo(standings: &Standings, end: &End) -> bool {
    let mut nics = standings.nodes.iter().flat_map(|node| &node.nics);
    nics.any(|nic| nic.nic == end.nic && nic.standing.is_echo(end.direction))
}

/// What the other direction of a NIC suffers from this one.
pub(super) fn echo(observed: &Observed<'_>, standings: &Standings, end: &End) -> Option<String> {
    let (direction, does, this) = match end.direction {
        Direction::Tx => (Direction::Rx, "receives", "sends"),
        Direction::Rx => (Direction::Tx, "sends", "receives"),
    };
    let other = End {
        direction,
        ..end.clone()
    };
    if !is_echo(standings, &other) {
        return None;
    }
    let seen = isolated(observed, &other).into_iter();
    let mine = seen.filter(|seen| seen.purpose == Purpose::OneWay);
    let share = mine.map(|seen| seen.ratio).max_by(f64::total_cmp)?;
    Some(format!(
        "What it {does} is low only while it {this}: one way it {does} at {share:.2}."
    ))
}

/// Of a NIC that is low both ways, one direction is tried by itself.
fn one_way(observed: &Observed<'_>, end: &End) -> Option<String> {
    let ways = [(Direction::Tx, "sends"), (Direction::Rx, "receives")];
    ways.into_iter().find_map(|(direction, does)| {
        let end = End {
            direction,
            ..end.clone()
        };
        let seen = isolated(observed, &end).into_iter();
        let mine = seen.filter(|seen| seen.purpose == Purpose::OneWay);
        let share = mine.map(|seen| seen.ratio).max_by(f64::total_cmp)?;
        Some(format!(
            "One way it {does} at {share:.2}: it is low only while it sends and receives at once."
        ))
    })
}

/// `alone, one way and with more queue pairs`
fn tried(seen: &[&Observation<'_>]) -> String {
    let words = [
        (Purpose::Alone, "with the other rails idle"),
        (Purpose::HostMemory, "from host memory"),
        (Purpose::OneWay, "one way"),
        (Purpose::Wide, "with more queue pairs"),
    ];
    let made = |(purpose, _): &(Purpose, &str)| seen.iter().any(|seen| seen.purpose == *purpose);
    let made: Vec<&str> = words
        .iter()
        .filter(|word| made(word))
        .map(|(_, word)| *word)
        .collect();
    match made.split_last() {
        None => "whatever was tried".to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
    }
}

/// The isolating probes of an end as evidence.
pub(super) fn proof(
    observed: &Observed<'_>,
    end: &End,
    evidence: &dyn Fn(&Observation<'_>) -> Evidence,
) -> Vec<Evidence> {
    let seen = isolated(observed, end);
    seen.into_iter().map(evidence).collect()
}
