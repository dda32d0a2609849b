//! The same for programs: fields are added, not changed, within one `schema`. Rates are in Gb/s, 10^9 bits
//! per second; everything alike is listed one by one, for programs group as they please.

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::ComparedRun;
use crate::compare::{
    Comparison, Counted, CounterChange, FactGroup, FindingChange, Gap, PairChange, Place, Presence,
    RateGroup, Rates, Scope, SettingChange, Thing, Trend, Turn, Way,
};
use crate::judge::Sample;
use crate::model::{End, NicId};
use crate::report::REPORT_SCHEMA;
use crate::report::json::finding;
use crate::report::quiet;

/// Writes the comparison as one JSON document.
///
/// # Errors
/// Whatever `out` reports.
pub fn json(found: &Comparison, runs: [ComparedRun<'_>; 2], out: &mut dyn Write) -> io::Result<()> {
    let outcome = found.outcome();
    let [before, after] = runs.map(run);
    let document = Document {
        schema: REPORT_SCHEMA,
        linerate: env!("CARGO_PKG_VERSION"),
        simulated: runs.iter().any(|run| {
            let settings = run.ledger.settings();
            settings.is_some_and(|settings| settings.simulated)
        }),
        outcome: outcome.name(),
        exit_code: outcome.exit_code(),
        regressions: found.regressions(),
        improvements: found.improvements(),
        before,
        after,
        compared: json!({
            "nodes": found.compared.nodes,
            "of_nodes": found.compared.of_nodes,
            "nic_directions": found.compared.ends,
            "of_nic_directions": found.compared.of_ends,
            "facts": found.compared.facts,
        }),
        rates: rates(&found.rates),
        presence: Each(&found.presence, presence),
        facts: Each(&found.facts, fact),
        counters: Each(&found.counters, counter),
        findings: Each(&found.findings, changed),
        settings: Each(&found.settings, setting),
        cannot_compare: Each(&found.gaps, gap),
        known_to_neither: json!(found.known_to_neither),
    };
    quiet::pretty(out, &document)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    linerate: &'static str,
    simulated: bool,
    outcome: &'static str,
    exit_code: u8,
    regressions: usize,
    improvements: usize,
    before: Value,
    after: Value,
    compared: Value,
    rates: Value,
    presence: Each<'a, Presence>,
    facts: Each<'a, FactGroup>,
    counters: Each<'a, CounterChange>,
    findings: Each<'a, FindingChange>,
    settings: Each<'a, SettingChange>,
    cannot_compare: Each<'a, Gap>,
    known_to_neither: Value,
}

/// Written one by one: all values of thousands of nodes would fill the memory.
struct Each<'a, T>(&'a [T], fn(&T) -> Value);

impl<T> Serialize for Each<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

fn run(run: ComparedRun<'_>) -> Value {
    json!({
        "name": run.name,
        "began": run.began,
        "linerate": run.linerate,
        "verdict": run.verdict,
        "end": run.ledger.end(),
    })
}

fn word(trend: Trend) -> &'static str {
    match trend {
        Trend::Worse => "worse",
        Trend::Better => "better",
        Trend::Other => "other",
    }
}

fn rates(rates: &Rates) -> Value {
    let spread = &rates.spread;
    let share = |d: f64| d.exp() - 1.0;
    json!({
        "compared": rates.compared,
        "of": rates.of,
        "median_change": share(spread.middle),
        "is_shift": spread.is_shift,
        "spread": share(spread.deviation),
        "factor": spread.factor,
        "counts_from": 1.0 - (-spread.counts_from).exp(),
        "changes": rates.groups.iter().map(group).collect::<Vec<_>>(),
        "pairs": rates.pairs.iter().map(pair).collect::<Vec<_>>(),
    })
}

fn group(group: &RateGroup) -> Value {
    let (kind, place) = match &group.scope {
        Scope::Cluster => ("cluster", json!({})),
        Scope::Rail(rail) => ("rail", json!({"rail": rail})),
        Scope::Node(node) => ("node", json!({"node": node})),
        Scope::Nic(rail, nic) => ("nic", nic_at(nic, json!({"rail": rail}))),
        Scope::End(end) => ("nic_direction", end_at(end)),
    };
    let changes = group.changes.iter().map(|change| {
        let values = json!({
            "before": sample(&change.before),
            "after": sample(&change.after),
        });
        with(end_at(&change.end), values)
    });
    let values = json!({
        "of": kind,
        "trend": word(group.trend()),
        "before": group.before,
        "after": group.after,
        "ratio": group.ratio(),
        "nic_directions": group.of,
        "changes": changes.collect::<Vec<_>>(),
    });
    with(values, place)
}

fn sample(sample: &Sample) -> Value {
    json!({"gbps": sample.median(), "best": sample.best(), "probes": sample.probes})
}

fn pair(change: &PairChange) -> Value {
    json!({
        "from": change.pair.from,
        "to": change.pair.to,
        "rail": change.pair.rail,
        "trend": word(change.trend()),
        "before": sample(&change.before),
        "after": sample(&change.after),
    })
}

fn presence(told: &Presence) -> Value {
    let (kind, place) = match &told.thing {
        Thing::Node(node) => ("node", json!({"node": node})),
        Thing::Nic(rail, nic) => ("nic", nic_at(nic, json!({"rail": rail}))),
        Thing::Gpu(node, address) => ("gpu", json!({"node": node, "pci": address})),
    };
    let values = json!({
        "is": kind,
        "way": match told.way {
            Way::Gone => "gone",
            Way::New => "new",
        },
        "trend": word(told.trend()),
        "why": told.why,
    });
    with(values, place)
}

fn fact(group: &FactGroup) -> Value {
    let values = group.values.as_ref();
    let stays = group.stays.iter().map(|(value, places)| {
        json!({"value": value, "places": places.iter().map(place).collect::<Vec<_>>()})
    });
    json!({
        "what": group.what,
        "trend": word(group.trend),
        "before": values.map(|[before, _]| before),
        "after": values.map(|[_, after]| after),
        "count": group.places.len(),
        "of": group.of,
        "places": group.places.iter().map(place).collect::<Vec<_>>(),
        "stays": stays.collect::<Vec<_>>(),
    })
}

fn counter(change: &CounterChange) -> Value {
    let (by, at_its_end) = match change.counted {
        Counted::By(more) => (Some(more), false),
        Counted::ToItsEnd => (None, true),
    };
    let values = json!({
        "name": change.name,
        "by": by,
        "at_its_end": at_its_end,
        "now": change.now,
        "rail": change.rail,
    });
    nic_at(&change.nic, values)
}

fn changed(change: &FindingChange) -> Value {
    let values = json!({
        "turn": match change.turn {
            Turn::Came => "came",
            Turn::Went => "went",
        },
        "trend": word(change.trend()),
        "told_otherwise": change.is_told,
    });
    with(values, json!(finding(&change.finding)))
}

fn setting(change: &SettingChange) -> Value {
    json!({"name": change.name, "before": change.before, "after": change.after})
}

fn gap(gap: &Gap) -> Value {
    let values = json!({"what": gap.what, "why": gap.why, "matters": gap.matters});
    with(values, place(&gap.place))
}

fn place(place: &Place) -> Value {
    match place {
        Place::Run => json!({}),
        Place::Node(node) => json!({"node": node}),
        Place::Nic(rail, nic) => nic_at(nic, json!({"rail": rail})),
        Place::End(rail, nic, direction) => {
            nic_at(nic, json!({"rail": rail, "direction": direction}))
        }
        Place::Pair(pair) => json!({"from": pair.from, "to": pair.to, "rail": pair.rail}),
        Place::Subject(subject) => json!({"subject": subject.to_string()}),
    }
}

fn end_at(end: &End) -> Value {
    let place = json!({"rail": end.rail, "direction": end.direction});
    nic_at(&end.nic, place)
}

/// A NIC as other reports have it: `node`, `nic` and `port`.
fn nic_at(nic: &NicId, values: Value) -> Value {
    let nic = json!({"node": nic.node, "nic": &*nic.device, "port": nic.port});
    with(nic, values)
}

/// The fields of both.
fn with(one: Value, other: Value) -> Value {
    let mut fields = Map::new();
    for value in [one, other] {
        if let Value::Object(more) = value {
            fields.extend(more);
        }
    }
    Value::Object(fields)
}
