//! What moving data costs, for programs. Rates are in Gb/s, 10^9 bits per second, memory bandwidth in
//! GB/s, 10^9 bytes per second.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::RULES;
use crate::judge::{
    Congestion, CostReport, Crossover, EndCost, Incast, Judgement, PairCost, Saving, SizeCost,
    StepCost,
};
use crate::ledger::Ledger;
use crate::model::{Fact, Gbps, Outcome};
use crate::report::json::{REPORT_SCHEMA, finding};
use crate::report::quiet;

/// Why an end has bounds in the place of numbers.
const HIDDEN: &str = "less was spent than ticks of 10 ms may miss";

/// Why it has neither.
const UNKNOWN: &str = "its threads slept, and what the kernel spent beside them is not known";

/// Writes the report of a run that measured nothing but the cost as one JSON document.
///
/// # Errors
/// Whatever `out` reports.
pub fn cost_json(ledger: &Ledger, judgement: &Judgement, out: &mut dyn Write) -> io::Result<()> {
    let report = CostReport::of(ledger);
    let is_complete = report.as_ref().is_some_and(CostReport::is_complete);
    let told = judgement.findings.iter();
    let told = told.filter(|finding| RULES.contains(&finding.rule));
    let document = json!({
        "schema": REPORT_SCHEMA,
        "linerate": env!("CARGO_PKG_VERSION"),
        "simulated": ledger.settings().is_some_and(|settings| settings.simulated),
        "exit_code": if is_complete { 0 } else { 3 },
        "run": ledger.end(),
        "settings": ledger.settings(),
        "findings": told.map(finding).collect::<Vec<_>>(),
        "cost": report.as_ref().map(value),
    });
    quiet::pretty(out, &document)
}

/// What a run measured of the cost.
pub(in crate::report) fn value(report: &CostReport<'_>) -> Value {
    let gap =
        |gap: &crate::judge::CostGap| json!({"count": gap.count, "of": gap.of, "why": gap.why});
    json!({
        "complete": report.is_complete(),
        "probes": report.measured,
        "gaps": report.gaps.iter().map(gap).collect::<Vec<_>>(),
        "unavailable": report.unavailable.iter().map(gap).collect::<Vec<_>>(),
        "pairs": report.pairs.iter().map(pair).collect::<Vec<_>>(),
        "incasts": report.incasts.iter().map(incast).collect::<Vec<_>>(),
    })
}

/// Several senders to one NIC at once.
fn incast(burst: &Incast<'_>) -> Value {
    let (acted, together) = (burst.acted(), burst.together.value());
    let senders = burst.senders.iter();
    let senders = senders.map(|(nic, rate)| json!({"nic": nic, "gbps": rate}));
    let not_counted = burst.not_counted.value().map(|signs| {
        let names: Vec<&str> = signs.iter().map(|sign| sign.name()).collect();
        names
    });
    json!({
        "step": burst.step,
        "to": burst.to,
        "rail": burst.rail,
        "line_gbps": burst.line.value(),
        "software_rdma": burst.is_software,
        "senders": senders.collect::<Vec<_>>(),
        "failed": burst.failed,
        "gbps": together.map(|all| all.rate),
        "gbps_unknown": burst.together.why_unknown(),
        "any_us": together.map(|all| all.any_us),
        "all_us": together.map(|all| all.all_us),
        "least_to_most": burst.fairness(),
        "held_back_by": burst.held_by,
        "acted": acted.value(),
        "acted_unknown": acted.why_unknown(),
        "at_senders": congestion(&burst.at_senders),
        "at_receiver": congestion(&burst.at_receiver),
        "not_counted": not_counted,
        "not_counted_unknown": burst.not_counted.why_unknown(),
    })
}

/// What was counted, by the names of signs.
fn congestion(counted: &Congestion) -> Value {
    let signs = counted.seen.iter();
    let seen: serde_json::Map<String, Value> = signs
        .map(|(sign, times)| (sign.name().to_owned(), json!(times)))
        .collect();
    json!({
        "seen": seen,
        "read": counted.read,
        "unread": counted.unread,
        "pauses_read": counted.pauses_read,
        "pauses_unknown": counted.pauses_unknown,
    })
}

fn pair(pair: &PairCost<'_>) -> Value {
    let line = pair.line.value().copied();
    let crossover = match pair.crossover() {
        Crossover::Everywhere => json!("everywhere"),
        Crossover::From(size) => json!({"from_bytes": size}),
        Crossover::Nowhere => json!("nowhere"),
        Crossover::Unknown => Value::Null,
    };
    let latency = pair
        .latency
        .iter()
        .map(|latency| json!({"step": latency.step, "half_way": latency.told}));
    json!({
        "from": pair.pair.from,
        "to": pair.pair.to,
        "rail": pair.pair.rail,
        "line_gbps": line,
        "line_unknown": pair.line.why_unknown(),
        "software_rdma": pair.is_software,
        "says": pair.says(),
        "steps": pair.steps.iter().map(|cost| step(cost, line)).collect::<Vec<_>>(),
        "savings": {
            "zero_copy_in_kernel": saving(pair.savings.zero_copy_in_kernel),
            "zero_copy_past_kernel": saving(pair.savings.zero_copy_past_kernel),
            "bypass_with_copy": saving(pair.savings.bypass_with_copy),
            "bypass_without_copy": saving(pair.savings.bypass_without_copy),
            "together": saving(pair.savings.together),
        },
        "sizes": pair.sizes.iter().map(|at| size(at, line)).collect::<Vec<_>>(),
        "worth_it": crossover,
        "latency": latency.collect::<Vec<_>>(),
        "registration": pair.registrations,
        "congestion": congestion(&pair.congestion),
    })
}

fn step(cost: &StepCost<'_>, line: Option<Gbps>) -> Value {
    let [from, to] = &cost.ends;
    let [at_initiator, at_target] = cost.copied_gb_per_s();
    let measurement = cost.probe.measurement();
    let verified = match &cost.probe.outcome {
        Some(Outcome::Measured { verified, .. }) => Some(verified),
        _ => None,
    };
    json!({
        "step": cost.step,
        "probe": cost.probe.planned.probe,
        "spec": cost.probe.planned.spec,
        "gbps": cost.rate,
        "bytes": measurement.map(|m| m.total_bytes),
        "polls": cost.polls,
        "initiator": from.as_ref().map(|cpu| end(cpu, line)),
        "target": to.as_ref().map(|cpu| end(cpu, line)),
        "copied_gb_per_s": {"initiator": at_initiator, "target": at_target},
        "tcp": measurement.and_then(|m| m.tcp.as_ref()),
        "verified": verified,
    })
}

fn end(cpu: &EndCost, line: Option<Gbps>) -> Value {
    let fact = |fact: &Fact<f64>| fact.value().copied();
    let hidden = cpu.is_hidden().then(|| cpu.at_most());
    // What ticks hide is no number, but a bound.
    let told = hidden.is_none() && !cpu.is_unknown();
    json!({
        "user_us": cpu.user_us,
        "system_us": cpu.system_us,
        "beside_us": fact(&cpu.beside_us),
        "beside_unknown": cpu.beside_us.why_unknown(),
        "noise_us": cpu.noise_us,
        "idle_cores": fact(&cpu.idle_cores),
        "busy_before": cpu.is_busy(),
        "ns_per_kib": told.then(|| cpu.ns_per_kib()),
        "gbps_per_core": cpu.per_core().filter(|_| told),
        "cores_per_100_gbps": cpu.cores_for(Gbps(100.0)).filter(|_| told),
        "cores_for_line": line.and_then(|line| cpu.cores_for(line)).filter(|_| told),
        "why_null": match told {
            true => None,
            false if hidden.is_some() => Some(HIDDEN),
            false => Some(UNKNOWN),
        },
        "bounds": hidden.map(|most| json!({
            "ns_per_kib_below": most.ns_per_kib(),
            "gbps_per_core_above": most.per_core(),
            "cores_per_100_gbps_below": most.cores_for(Gbps(100.0)),
            "cores_for_line_below": line.and_then(|line| most.cores_for(line)),
        })),
    })
}

fn saving(saving: Option<Saving>) -> Value {
    let Some(saving) = saving else {
        return Value::Null;
    };
    json!({
        "from": saving.from,
        "to": saving.to,
        "ns_per_kib": saving.ns_per_kib,
        "both_ends": saving.both_ends,
        "share": saving.share(),
        "at_least": saving.at_least,
    })
}

fn size(at: &SizeCost<'_>, line: Option<Gbps>) -> Value {
    json!({
        "bytes": at.size,
        "tcp": at.tcp.as_ref().map(|cost| step(cost, line)),
        "write": at.write.as_ref().map(|cost| step(cost, line)),
        "saving": saving(at.saving()),
    })
}
