//! A tick of a watch as one JSON document on a line. Fields are added, not changed, within one
//! `schema`; counts are those since the tick before.

use std::io::{self, Write};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{in_words, no_device};
use crate::ledger::{Ledger, NodeState, NodeWatch, PortRates};
use crate::model::{Fact, NodeName, Quantity, QueuePairHolder, QueuePairs};
use crate::report::json::REPORT_SCHEMA;
use crate::report::quiet;

/// The JSON document of a tick, on one line.
///
/// # Errors
/// Whatever `out` reports.
pub fn json(ledger: &Ledger, at: Timestamp, out: &mut dyn Write) -> io::Result<()> {
    let nodes: Vec<Value> = ledger.watched().map(node).collect();
    let document = json!({
        "schema": REPORT_SCHEMA,
        "time": at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        "nodes": nodes,
        "readings_dropped": ledger.readings_dropped(),
    });
    quiet::copy(out, &serde_json::to_string(&document)?)?;
    out.write_all(b"\n")
}

fn node((name, state, watch): (&NodeName, &NodeState, Option<&NodeWatch>)) -> Value {
    let lost = matches!(state, NodeState::Lost { .. });
    let watch = watch.filter(|_| !lost);
    let none = watch.and_then(no_device);
    let (word, why) = match (watch, none) {
        (_, Some(why)) => ("nothing_to_watch", Some(why)),
        (Some(_), None) => ("watched", None),
        (None, None) => match state {
            NodeState::Lost { why } => ("lost", Some(why.clone())),
            other => ("connecting", Some(in_words(other))),
        },
    };
    let fresh = watch.filter(|watch| watch.quiet() == 0);
    let ports: Vec<Value> = fresh.map_or_else(Vec::new, |watch| {
        let port = |rates: &PortRates<'_>| port(rates, watch.queue_pairs());
        watch.rates().iter().map(port).collect()
    });
    let left_out = watch.map_or(0, |watch| watch.layout().left_out);
    json!({"node": name, "state": word, "why": why, "nics": ports, "not_watched": left_out})
}

fn port(rates: &PortRates<'_>, holders: &Fact<QueuePairs>) -> Value {
    let mut counts = Map::new();
    let mut unknown = Map::new();
    let mut at_least = Map::new();
    for quantity in Quantity::ALL {
        let name = serde_json::to_value(quantity).unwrap_or_default();
        let name = name.as_str().unwrap_or_default().to_owned();
        match rates.tally(*quantity) {
            Fact::Known { value, .. } => {
                counts.insert(name.clone(), value.count.into());
                if !value.missing.is_empty() {
                    at_least.insert(name, json!(value.missing));
                }
            }
            Fact::Unknown { why } => {
                unknown.insert(name, why.as_str().into());
            }
        }
    }
    let of_device = |all: &QueuePairs| -> Vec<QueuePairHolder> {
        all.get(&rates.layout.device).cloned().unwrap_or_default()
    };
    if let Fact::Unknown { why } = holders {
        unknown.insert("queue_pairs".into(), why.as_str().into());
    }
    json!({
        "device": rates.layout.device,
        "port": rates.layout.port,
        "software": rates.layout.software,
        "elapsed_us": rates.elapsed_us,
        "tx_gbps": rates.tx().value(),
        "rx_gbps": rates.rx().value(),
        "counts": counts,
        "at_least": at_least,
        "unknown": unknown,
        "queue_pairs": holders.value().map(of_device),
    })
}
