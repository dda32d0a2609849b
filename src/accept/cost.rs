//! What moving data costs: how long messages take, and CPU time.

use super::run::Run;
use super::told::{Told, Who};
use crate::config::{CpuDemand, CpuEnds, LatencyDemand, Percentile, Select};
use crate::judge::{EndCost, PairCost};
use crate::model::{Gbps, NicId, PingPong};

/// The rate that CPU time is told for.
const RATE: Gbps = Gbps(100.0);

/// Why nothing is known of what moving data costs.
const NOT_ASKED: &str = "the run did not measure what moving data costs (--cost)";

/// The pairs of NICs of which one is this.
fn pairs<'r, 'a>(run: &'r Run<'a>, nic: &NicId) -> Result<Vec<&'r PairCost<'a>>, String> {
    let Some(cost) = &run.cost else {
        return Err(NOT_ASKED.to_owned());
    };
    let mine = cost
        .pairs
        .iter()
        .filter(|pair| pair.pair.from == *nic || pair.pair.to == *nic);
    let mine: Vec<_> = mine.collect();
    match mine.is_empty() {
        true => Err(format!("what moving data costs was not measured of {nic}")),
        false => Ok(mine),
    }
}

fn of(told: &PingPong, percentile: Percentile) -> u64 {
    match percentile {
        Percentile::Min => told.min_ns,
        Percentile::Median => told.median_ns,
        Percentile::P99 => told.p99_ns,
        Percentile::P999 => told.p999_ns,
        Percentile::Max => told.max_ns,
    }
}

/// How many messages there have to be for one of so many to be told.
fn fewest(percentile: Percentile) -> u64 {
    match percentile {
        Percentile::P99 => 100,
        Percentile::P999 => 1000,
        Percentile::Min | Percentile::Median | Percentile::Max => 1,
    }
}

/// Of each NIC the slowest that was measured with a neighbour's.
pub(super) fn latency(run: &Run<'_>, select: &Select, demand: &LatencyDemand) -> Vec<Told> {
    run.each_nic(select, |_, nic, who| {
        vec![latency_of(run, &nic.id, who, demand)]
    })
}

fn latency_of(run: &Run<'_>, nic: &NicId, who: Who, demand: &LatencyDemand) -> Told {
    let pairs = match pairs(run, nic) {
        Ok(pairs) => pairs,
        Err(why) => return Told::unknown(who, why),
    };
    let mine = pairs.into_iter().filter_map(|pair| {
        let by_way = pair
            .latency
            .iter()
            .filter(|latency| latency.step == demand.step);
        let of_size = by_way.filter(|latency| {
            demand
                .message
                .is_none_or(|size| latency.told.bytes == size.0)
        });
        let told = of_size
            .map(|latency| latency.told)
            .min_by_key(|told| told.bytes)?;
        Some((pair, told))
    });
    let Some((pair, told)) = mine.max_by_key(|(_, told)| of(told, demand.percentile)) else {
        let size = demand
            .message
            .map_or(String::new(), |size| format!(" of {size}"));
        return Told::unknown(
            who,
            format!(
                "no latency of messages{size} by {} was measured",
                demand.step
            ),
        );
    };
    let least = fewest(demand.percentile);
    if told.samples < least {
        return Told::unknown(
            who,
            format!(
                "it takes {least} messages to tell, and {} were sent",
                told.samples
            ),
        );
    }
    let took = of(&told, demand.percentile);
    let saw = format!("{:.2} µs", took as f64 / 1e3);
    let told_of = format!(
        "{} messages of {} bytes, {} ⇄ {}",
        told.samples, told.bytes, pair.pair.from, pair.pair.to
    );
    Told::seen(who, took <= demand.most_ns, saw).from(told_of)
}

/// CPU time of each NIC's node: as the sender, and as the receiver.
pub(super) fn cpu(run: &Run<'_>, select: &Select, demand: &CpuDemand) -> Vec<Told> {
    run.each_nic(select, |_, nic, who| {
        let told = |sends: bool| {
            let end = if sends {
                "as the sender"
            } else {
                "as the receiver"
            };
            let mut who = who.clone();
            who.words = format!("{} {end}", who.words);
            cpu_of(run, &nic.id, sends, who, demand)
        };
        match demand.ends {
            CpuEnds::Each => vec![told(true), told(false)],
            CpuEnds::Sender => vec![told(true)],
            CpuEnds::Receiver => vec![told(false)],
        }
    })
}

fn cpu_of(run: &Run<'_>, nic: &NicId, sends: bool, who: Who, demand: &CpuDemand) -> Told {
    let pairs = match pairs(run, nic) {
        Ok(pairs) => pairs,
        Err(why) => return Told::unknown(who, why),
    };
    let is_mine = |pair: &&PairCost<'_>| match sends {
        true => pair.pair.from == *nic,
        false => pair.pair.to == *nic,
    };
    let mut mine = pairs.into_iter().filter(is_mine);
    let Some((pair, step)) = mine.find_map(|pair| Some((pair, pair.step(demand.step)?))) else {
        return Told::unknown(
            who,
            format!("what {} costs was not measured of it", demand.step),
        );
    };
    if pair.is_software {
        return Told::unknown(who, "it is software RDMA, whose CPU time means nothing");
    }
    let Some(cost) = &step.ends[usize::from(!sends)] else {
        return Told::unknown(who, "the node did not say what it spent");
    };
    let id = step.probe.planned.probe;
    match cores(cost, demand.most_cores) {
        Ok((holds, saw)) => Told::seen(who, holds, saw).from(id.to_string()),
        Err(why) => Told::unknown(who, why),
    }
}

/// Whether an end takes at most so many cores; what is known only from below may be too much, and never
/// enough.
fn cores(cost: &EndCost, most: f64) -> Result<(bool, String), String> {
    let Some(cores) = cost.cores_for(RATE) else {
        return Err("no rate was measured".to_owned());
    };
    let saw = format!("{cores:.2} cores");
    if cost.is_busy() {
        return Err("the host carried other load meanwhile".to_owned());
    }
    if !cost.is_whole() {
        let why = cost.beside_us.why_unknown().unwrap_or_default();
        return match cores > most {
            true => Ok((false, format!("{saw} or more"))),
            false => Err(format!("{saw} or more: {why}")),
        };
    }
    let spent = cost.spent_us();
    let per_us = if spent > 0.0 {
        cores / spent
    } else {
        RATE.0 * 1e3 / (cost.bytes as f64 * 8.0)
    };
    let noise = cost.noise_us * per_us;
    match (cores + noise <= most, cores - noise > most) {
        (true, _) => Ok((true, saw)),
        (_, true) => Ok((false, saw)),
        _ => Err(format!(
            "{saw}, and {noise:.2} more or less is within what ticks of 10 ms tell"
        )),
    }
}
