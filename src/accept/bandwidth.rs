//! What NICs move: each way and both at once, beside each other, and with all rails loaded beside alone.

use std::collections::{BTreeMap, HashMap};

use super::ends::why_not;
use super::run::Run;
use super::told::{Is, Told, Who, listed};
use crate::config::{Amount, BandwidthDemand, Memory, Select, Ways};
use crate::judge::{NicView, Observation};
use crate::model::{CostStep, Direction, Gbps, NicId, Purpose, Rail};

/// The fewest NICs that have a median which says something of each.
const FEWEST: usize = 3;

/// What a NIC, or a pair, was seen to move, beside what is demanded of it.
struct Held {
    rate: Gbps,
    least: Gbps,
    /// What the demand comes to, where it is a share of something.
    of: Option<String>,
    from: String,
}

impl Held {
    fn holds(&self) -> bool {
        self.rate >= self.least
    }

    fn told(&self, who: Who) -> Told {
        let mut told = Told::seen(who, self.holds(), self.rate.to_string());
        if let Some(of) = &self.of {
            told = told.expected(of.clone());
        }
        told.from(self.from.clone())
    }
}

/// A demand, with what the cluster shows of the median.
struct Asked<'d> {
    demand: &'d BandwidthDemand,
    median: BTreeMap<&'static str, Option<Gbps>>,
}

impl Asked<'_> {
    /// What a rate is held against; why that is not known.
    fn least(
        &self,
        way: Direction,
        seen: &Observation<'_>,
    ) -> Result<(Gbps, Option<String>), String> {
        match self.demand.least {
            Amount::Rate(rate) => Ok((rate, None)),
            Amount::OfCeiling(share) => match seen.expected.value() {
                Some(ceiling) => {
                    let least = Gbps(ceiling.0 * share);
                    let from = seen.expected.source().unwrap_or_default();
                    let of = format!("{}: {least} of {ceiling}, {from}", self.demand);
                    Ok((least, Some(of)))
                }
                None => {
                    let why = seen.expected.why_unknown().unwrap_or_default();
                    Err(format!("no ceiling is known: {why}"))
                }
            },
            Amount::OfMedian(share) => match self.median.get(word(way)).copied().flatten() {
                Some(median) => {
                    let least = Gbps(median.0 * share);
                    Ok((least, Some(format!("{}: {least} of {median}", self.demand))))
                }
                None => Err(format!(
                    "a median says something of {FEWEST} NICs or more, and fewer were measured"
                )),
            },
        }
    }

    fn held(&self, way: Direction, seen: &Observation<'_>) -> Result<Held, String> {
        let (least, of) = self.least(way, seen)?;
        Ok(Held {
            rate: seen.rate,
            least,
            of,
            from: source(seen),
        })
    }
}

fn word(way: Direction) -> &'static str {
    match way {
        Direction::Tx => "tx",
        Direction::Rx => "rx",
    }
}

fn side(way: Direction) -> usize {
    match way {
        Direction::Tx => 0,
        Direction::Rx => 1,
    }
}

/// The probe that a rate is from.
fn source(seen: &Observation<'_>) -> String {
    let (id, pair) = (seen.probe.planned.probe, seen.pair);
    let best = match seen.samples {
        0 | 1 => String::new(),
        samples => format!(", the best of {samples}"),
    };
    format!("{id}, {} → {}{best}", pair.from, pair.to)
}

/// Whether a probe used the memory that is asked for.
fn uses(run: &Run<'_>, seen: &Observation<'_>, memory: Option<Memory>) -> bool {
    let spec = seen.probe.planned.spec.as_ref();
    let spec = spec.or(run.settings.map(|settings| &settings.probe));
    memory.is_none_or(|memory| spec.is_some_and(|spec| memory.is(spec.memory)))
}

/// What counts for an end: where the whole node was loaded, only that.
fn seen<'r, 'a>(
    run: &'r Run<'a>,
    nic: &NicId,
    way: Direction,
    memory: Option<Memory>,
) -> Vec<&'r Observation<'a>> {
    let mut all = run.ends.seen(&run.observed, nic, way);
    all.retain(|seen| uses(run, seen, memory));
    let is_loaded = |seen: &&Observation<'_>| seen.loaded[side(way)];
    if all.iter().any(is_loaded) {
        all.retain(is_loaded);
    }
    all
}

/// The best of an end: its partner may be the slower one.
fn best<'r, 'a>(
    run: &'r Run<'a>,
    nic: &NicId,
    way: Direction,
    memory: Option<Memory>,
) -> Option<&'r Observation<'a>> {
    let all = seen(run, nic, way, memory).into_iter();
    all.max_by(|a, b| a.rate.0.total_cmp(&b.rate.0))
}

/// Why an end has no rate that counts.
fn why_none(run: &Run<'_>, nic: &NicId, way: Direction, memory: Option<Memory>) -> String {
    let measured = !run.ends.seen(&run.observed, nic, way).is_empty();
    match (memory, measured) {
        (Some(Memory::Gpu), true) => "the run did not measure from and to GPU memory".to_owned(),
        (Some(Memory::Host), true) => "the run did not measure from and to host memory".to_owned(),
        _ => match run.ends.why_none(nic, way) {
            Some(why) => why.to_owned(),
            None => format!("{nic} was not measured that way"),
        },
    }
}

/// Each NIC, then pairs that are slow although both of their ends are not.
pub(super) fn bandwidth(run: &Run<'_>, select: &Select, demand: &BandwidthDemand) -> Vec<Told> {
    let asked = Asked {
        demand,
        median: medians(run, demand),
    };
    if demand.ways == Ways::Sum {
        return run.each_nic(select, |_, nic, who| vec![sum(run, &asked, nic, who)]);
    }
    let mut told = run.each_nic(select, |_, nic, who| {
        let ways = demand.ways.directions().iter();
        ways.map(|way| end(run, &asked, nic, who.clone(), *way))
            .collect()
    });
    told.extend(slow_pairs(run, select, &asked));
    told
}

/// What an end is seen to reach, in the light in which it looks best; why there is nothing to hold.
fn reached(run: &Run<'_>, asked: &Asked<'_>, nic: &NicId, way: Direction) -> Result<Held, String> {
    let memory = asked.demand.memory;
    let all = seen(run, nic, way, memory);
    if all.is_empty() {
        return Err(why_none(run, nic, way, memory));
    }
    let mut held: Vec<Result<Held, String>> =
        all.into_iter().map(|seen| asked.held(way, seen)).collect();
    let share = |held: &Result<Held, String>| match held {
        Ok(held) => held.rate.share_of(held.least).unwrap_or(f64::INFINITY),
        Err(_) => f64::NEG_INFINITY,
    };
    held.sort_by(|a, b| share(a).total_cmp(&share(b)));
    held.pop().unwrap_or_else(|| Err(String::new()))
}

fn end(run: &Run<'_>, asked: &Asked<'_>, nic: &NicView<'_>, who: Who, way: Direction) -> Told {
    let who = who.towards(Some(way));
    match reached(run, asked, &nic.id, way) {
        Ok(held) => held.told(who),
        Err(why) => Told::unknown(who, why),
    }
}

/// Both directions of a NIC in a round that loads both.
fn sum(run: &Run<'_>, asked: &Asked<'_>, nic: &NicView<'_>, who: Who) -> Told {
    let memory = asked.demand.memory;
    let [sent, received] =
        [Direction::Tx, Direction::Rx].map(|way| seen(run, &nic.id, way, memory));
    let both = sent.iter().flat_map(|sent| {
        let same = received
            .iter()
            .filter(|received| received.round == sent.round);
        same.map(move |received| (*sent, *received))
    });
    let best = both.max_by(|a, b| {
        let sum =
            |(sent, received): &(&Observation<'_>, &Observation<'_>)| sent.rate.0 + received.rate.0;
        sum(a).total_cmp(&sum(b))
    });
    let Some((sent, received)) = best else {
        return Told::unknown(
            who,
            "no round of the run loaded both directions of it at once",
        );
    };
    let rate = Gbps(sent.rate.0 + received.rate.0);
    let ways = [
        asked.least(Direction::Tx, sent),
        asked.least(Direction::Rx, received),
    ];
    // An absolute rate is one of both; a share is one of each.
    let least = match (asked.demand.least, ways) {
        (Amount::Rate(rate), _) => rate,
        (_, [Ok((one, _)), Ok((other, _))]) => Gbps(one.0 + other.0),
        (_, [Err(why), _] | [_, Err(why)]) => return Told::unknown(who, why),
    };
    let told = Told::seen(
        who,
        rate >= least,
        format!("{rate}: {} sent, {} received", sent.rate, received.rate),
    );
    let told = told.expected(format!("{}: {least}", asked.demand));
    told.from(format!("round {}", sent.round))
}

/// Pairs below what is demanded whose ends both reach it with others: the best of a NIC must not hide the worst.
fn slow_pairs(run: &Run<'_>, select: &Select, asked: &Asked<'_>) -> Vec<Told> {
    let (nodes, rails) = (run.nodes(select), run.rails(select));
    let is_meant = |nic: &NicId| nodes.binary_search(&&nic.node).is_ok();
    let ways = asked.demand.ways.directions();
    let (mut told, mut good) = (Vec::new(), HashMap::new());
    let mut is_good = |end: (&NicId, Direction)| -> bool {
        let reach = || reached(run, asked, end.0, end.1).is_ok_and(|held| held.holds());
        *good.entry((end.0.clone(), end.1)).or_insert_with(reach)
    };
    for seen in run.observed.best_of_pairs() {
        let pair = seen.pair;
        let meant = is_meant(&pair.from) || is_meant(&pair.to);
        if !meant || !rails.contains(&seen.rail) || !uses(run, seen, asked.demand.memory) {
            continue;
        }
        if why_not(run.ledger, seen).is_some() {
            continue;
        }
        let Ok(held) = asked.held(ways[0], seen) else {
            continue;
        };
        let ends = [(&pair.from, Direction::Tx), (&pair.to, Direction::Rx)];
        if held.holds() || !ends.into_iter().all(&mut is_good) {
            continue;
        }
        let mut who = Who::nic(&pair.from, seen.rail);
        who.words = format!("{} → {}", pair.from, pair.to);
        let slow = held.told(who);
        told.push(slow.evidence("both of them reach what is demanded with others", "the run"));
    }
    told
}

/// The median NIC of the cluster, each way.
fn medians(run: &Run<'_>, demand: &BandwidthDemand) -> BTreeMap<&'static str, Option<Gbps>> {
    let Amount::OfMedian(_) = demand.least else {
        return BTreeMap::new();
    };
    let of = |way: Direction| {
        let nics = run.ledger.players();
        let rates = nics.filter_map(|(_, nic, _)| Some(best(run, nic, way, demand.memory)?.rate.0));
        (
            word(way),
            median(rates.collect())
                .filter(|(count, _)| *count >= FEWEST)
                .map(|(_, rate)| Gbps(rate)),
        )
    };
    [Direction::Tx, Direction::Rx].map(of).into()
}

/// How many there are, and the one in the middle.
pub(super) fn median(mut all: Vec<f64>) -> Option<(usize, f64)> {
    all.sort_by(f64::total_cmp);
    let upper = *all.get(all.len() / 2)?;
    let lower = all[(all.len() - 1) / 2];
    Some((all.len(), f64::midpoint(lower, upper)))
}

/// How far apart the NICs of a rail are, each way.
pub(super) fn spread(run: &Run<'_>, select: &Select, most: f64) -> Vec<Told> {
    if run.rails.is_empty() {
        return vec![Told::unknown(Who::cluster(), super::run::NO_RAILS)];
    }
    let rails = run.rails(select).into_iter();
    let ways = |rail| [(rail, Direction::Tx), (rail, Direction::Rx)];
    rails
        .flat_map(ways)
        .map(|(rail, way)| spread_of(run, select, rail, way, most))
        .collect()
}

fn spread_of(run: &Run<'_>, select: &Select, rail: Rail, way: Direction, most: f64) -> Told {
    let who = Who::rail(rail).towards(Some(way));
    let only = Select {
        rails: vec![rail],
        ..select.clone()
    };
    let (mut rates, mut missing) = (Vec::new(), Vec::new());
    for place in run.places(&only) {
        match place {
            Ok((_, nic)) => match best(run, &nic.id, way, None) {
                Some(seen) => rates.push((seen.rate.0, nic.id.to_string())),
                None => missing.push(nic.id.to_string()),
            },
            Err((who, _)) => missing.push(who.words),
        }
    }
    let by_rate = |a: &&(f64, String), b: &&(f64, String)| a.0.total_cmp(&b.0);
    let middle = median(rates.iter().map(|(rate, _)| *rate).collect());
    let (Some(slow), Some(fast), Some((2.., middle))) = (
        rates.iter().min_by(by_rate),
        rates.iter().max_by(by_rate),
        middle,
    ) else {
        return Told::unknown(who, "fewer than two NICs of it were measured");
    };
    if middle <= 0.0 {
        return Told::unknown(who, "the median NIC of it moved nothing");
    }
    let share = (fast.0 - slow.0) / middle;
    let saw = format!(
        "{:.1}%: {} to {}",
        share * 100.0,
        Gbps(slow.0),
        Gbps(fast.0)
    );
    let mut told = Told::seen(who, share <= most, saw);
    if told.holds() && !missing.is_empty() {
        told.is = Is::Unknown(format!("not measured: {}", listed(missing)));
    }
    told.evidence(
        format!("the slowest is {}, the fastest {}", slow.1, fast.1),
        "the run",
    )
}

/// What a NIC reaches with all rails loaded, beside alone.
pub(super) fn together(run: &Run<'_>, select: &Select, least: f64) -> Vec<Told> {
    let alone = alone(run);
    run.each_nic(select, |_, nic, who| {
        let told = |way: Direction| {
            let who = who.clone().towards(Some(way));
            if run.rails.len() < 2 {
                return Told::unknown(who, "the run has one rail");
            }
            let loaded = seen(run, &nic.id, way, None)
                .into_iter()
                .filter(|seen| seen.loaded[side(way)]);
            let Some(loaded) = loaded.max_by(|a, b| a.rate.0.total_cmp(&b.rate.0)) else {
                return Told::unknown(who, "no round of the run loaded all rails of its node");
            };
            let Some((single, from)) = alone.get(&(nic.id.clone(), word(way))) else {
                let why = "it was not measured alone (the cost of `write-poll` tells: --cost)";
                return Told::unknown(who, why);
            };
            let Some(share) = loaded.rate.share_of(*single) else {
                return Told::unknown(who, "alone it moved nothing");
            };
            let saw = format!("{:.1}%: {} of {single}", share * 100.0, loaded.rate);
            Told::seen(who, share >= least, saw).from(format!("{}; alone {from}", source(loaded)))
        };
        vec![told(Direction::Tx), told(Direction::Rx)]
    })
}

/// The most that each NIC reached alone, each way, with the probe.
fn alone(run: &Run<'_>) -> BTreeMap<(NicId, &'static str), (Gbps, String)> {
    let mut all: BTreeMap<(NicId, &'static str), (Gbps, String)> = BTreeMap::new();
    let mut add = |nic: &NicId, way: Direction, rate: Gbps, from: String| {
        let known = all
            .entry((nic.clone(), word(way)))
            .or_insert((rate, from.clone()));
        if rate > known.0 {
            *known = (rate, from);
        }
    };
    let pairs = run.cost.iter().flat_map(|cost| &cost.pairs);
    for (pair, step) in pairs.filter_map(|pair| Some((pair.pair, pair.step(CostStep::WritePoll)?)))
    {
        let from = step.probe.planned.probe.to_string();
        add(&pair.from, Direction::Tx, step.rate, from.clone());
        add(&pair.to, Direction::Rx, step.rate, from);
    }
    let isolated = run
        .observed
        .isolating
        .iter()
        .filter(|seen| seen.purpose == Purpose::Alone);
    for seen in isolated.filter(|seen| why_not(run.ledger, seen).is_none()) {
        add(&seen.pair.from, Direction::Tx, seen.rate, source(seen));
        add(&seen.pair.to, Direction::Rx, seen.rate, source(seen));
    }
    all
}
