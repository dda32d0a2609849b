//! Acceptance: a profile held against a run. Pure and deterministic: the same profile, run and day give the
//! same results.
//!
//! One file for each group of checks. Each of them looks at everybody that it is asked about, and says of each
//! whether the demand holds, does not hold, or cannot be judged: who is not there is not judged, and never left
//! out.

mod bandwidth;
mod cost;
mod counters;
mod coverage;
mod ends;
mod findings;
mod gpus;
mod init;
mod links;
mod run;
mod since;
mod text;
mod told;

#[cfg(test)]
mod silent_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use init::{NotHealthy, init};

use jiff::civil::Date;

use crate::config::{Check, CountOf, Demand, Exception, Profile};
use crate::judge::Judgement;
use crate::ledger::Ledger;
use crate::model::{Acceptance, CheckOutcome, CheckResult, Evidence};
use run::Run;
use told::{Is, Told};

/// A run that another one is held against.
#[derive(Debug, Clone, Copy)]
pub struct Before<'a> {
    /// What it learned.
    pub ledger: &'a Ledger,
    /// What reports call it: the file of its record.
    pub name: &'a str,
}

/// Holds a profile against a run, as of a day. With a run from before, what has become worse since then does
/// not hold either.
pub fn accept(
    profile: &Profile,
    ledger: &Ledger,
    judgement: &Judgement,
    before: Option<Before<'_>>,
    today: Date,
) -> Acceptance {
    let run = Run::of(ledger, judgement);
    let mut results = Vec::new();
    for check in &profile.checks {
        let told = told(&run, check);
        let told = told.into_iter().map(|told| result(profile, check, told));
        results.extend(told);
    }
    if let Some(before) = before {
        results.extend(since::since(&run, before));
    }
    for result in &mut results {
        except(profile, result, today);
    }
    Acceptance {
        profile: profile.name.clone(),
        results,
    }
}

/// What is to be said of a check, by node and rail.
fn told(run: &Run<'_>, check: &Check) -> Vec<Told> {
    let select = &check.select;
    let mut told = run.strangers(select);
    if run.is_nobody(select) {
        return told;
    }
    told.extend(match &check.demand {
        Demand::Count(CountOf::Nodes, bounds) => run::nodes(run, select, bounds),
        Demand::Count(CountOf::Nics, bounds) => run::nics(run, select, bounds),
        Demand::Count(CountOf::Gpus, bounds) => gpus::count(run, select, bounds),
        Demand::Count(CountOf::Mtu, bounds) => links::mtu(run, select, bounds),
        Demand::Count(CountOf::LinkWidth, bounds) => links::width(run, select, bounds),
        Demand::Text(of, demand) => text::text(run, select, of, demand),
        Demand::LinkRate(bounds) => links::rate(run, select, bounds),
        Demand::LinkLayer(layer) => links::layer(run, select, *layer),
        Demand::GidType(kind, layer) => links::gid_type(run, select, *kind, *layer),
        Demand::Pcie(demand) => links::pcie(run, select, *demand),
        Demand::Numa(demand) => gpus::numa(run, select, *demand),
        Demand::GpuPath(most) => gpus::path(run, select, *most),
        Demand::GpuDirect(ways) => gpus::direct(run, select, ways),
        Demand::Memlock(least) => links::memlock(run, select, *least),
        Demand::Bandwidth(demand) => bandwidth::bandwidth(run, select, demand),
        Demand::Spread(most) => bandwidth::spread(run, select, *most),
        Demand::RailsTogether(least) => bandwidth::together(run, select, *least),
        Demand::Latency(demand) => cost::latency(run, select, demand),
        Demand::Cpu(demand) => cost::cpu(run, select, demand),
        Demand::Counters(names) => counters::counters(run, select, names),
        Demand::Findings(demand) => findings::findings(run, select, demand),
        Demand::Coverage(share) => coverage::coverage(run, select, *share),
    });
    if told.is_empty() {
        // No check passes by saying nothing.
        told.push(Told::unknown(
            told::Who::cluster(),
            "there was nobody to check",
        ));
    }
    told
}

fn result(profile: &Profile, check: &Check, told: Told) -> CheckResult {
    let expected = told.expected.unwrap_or_else(|| check.demand.to_string());
    CheckResult {
        check: check.name.clone(),
        // The lighter of the two.
        weight: check.weight.max(told.weight.unwrap_or(check.weight)),
        node: told.who.node,
        rail: told.who.rail,
        subject: told.who.words,
        outcome: outcome(told.is),
        saw: told.saw,
        expected,
        expected_from: profile.place(check.line),
        evidence: told.evidence,
    }
}

fn outcome(is: Is) -> CheckOutcome {
    match is {
        Is::Holds => CheckOutcome::Passed,
        Is::Fails => CheckOutcome::Failed,
        Is::Unknown(why) => CheckOutcome::NotJudged { why },
    }
}

/// Bears what the profile bears of the subject. An exception that is over is said to be that.
fn except(profile: &Profile, result: &mut CheckResult, today: Date) {
    let why = match &result.outcome {
        CheckOutcome::Failed => None,
        CheckOutcome::NotJudged { why } => Some(why.clone()),
        CheckOutcome::Passed | CheckOutcome::Excepted { .. } => return,
    };
    let mine = || {
        profile
            .exceptions
            .iter()
            .filter(|exception| is_of(exception, result))
    };
    // The one that lasts longest.
    let Some(last) = mine().max_by_key(|exception| exception.until) else {
        return;
    };
    if last.until >= today {
        result.outcome = CheckOutcome::Excepted {
            reason: last.reason.clone(),
            until: last.until.to_string(),
            why,
        };
        return;
    }
    let (until, reason) = (last.until, &last.reason);
    result.evidence.push(Evidence {
        saw: format!("the exception ({reason}) ended on {until} and does not count any more"),
        from: profile.place(Some(last.line)),
    });
}

fn is_of(exception: &Exception, result: &CheckResult) -> bool {
    let of_node = result
        .node
        .as_ref()
        .is_some_and(|node| exception.nodes.contains(node));
    let of_check = exception.checks.is_empty() || exception.checks.contains(&result.check);
    let rails = &exception.rails;
    let of_rail = rails.is_empty() || result.rail.is_some_and(|rail| rails.contains(&rail));
    of_node && of_check && of_rail
}
