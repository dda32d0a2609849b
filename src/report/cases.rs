//! A run as test cases, for the formats that CI systems read: one for each node and check.
//!
//! What could not be judged is no pass: it is a case that went wrong, and not one that was skipped. So the
//! cases agree with the exit code: all is well only where that is 0.

use std::collections::BTreeMap;

use super::Run;
use super::ends::{End, Ends, Expected, Is, why_not_reached};
use super::text::counted;
use crate::model::{
    Acceptance, CheckOutcome, CheckResult, Evidence, Finding, NodeName, RunEnd, Severity, Subject,
    Weight,
};

/// The cases of one node, or of the whole cluster.
#[derive(Debug)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) cases: Vec<Case>,
    /// Warnings and notes: worth reading, and no case.
    pub(super) notes: Vec<String>,
}

/// One check of one subject.
#[derive(Debug)]
pub(super) struct Case {
    /// What is checked, in a word: `line-rate`, the name of a rule, or of a check of the profile.
    pub(super) check: String,
    /// The case among those of its suite; the same in every run of the same cluster.
    pub(super) name: String,
    pub(super) is: CaseIs,
    /// What was seen, in a sentence.
    pub(super) says: String,
    /// What that rests on, and what to do, a line each.
    pub(super) more: Vec<String>,
}

/// What became of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseIs {
    Passed,
    Failed,
    NotJudged,
    /// It does not hold, and the profile bears that: a should, or an exception.
    Borne,
}

/// The name of the suite of what is about no single node.
const CLUSTER: &str = "cluster";

/// Every case of a run: those of the profile that it was held against, where there was one.
pub(super) fn suites(run: &Run<'_>) -> Vec<Suite> {
    match run.acceptance {
        Some(acceptance) => of_profile(acceptance),
        None => of_run(run),
    }
}

fn of_run(run: &Run<'_>) -> Vec<Suite> {
    let ends = Ends::of(run);
    let mut suites: BTreeMap<Option<&NodeName>, Suite> = BTreeMap::new();
    suites.insert(None, Suite::new(CLUSTER, of_cluster(run)));
    for (name, node) in run.ledger.nodes() {
        let reached = match why_not_reached(&node.state) {
            None => Case::new("reached", "", CaseIs::Passed, "its agent ran"),
            Some(why) => Case::new("reached", "", CaseIs::NotJudged, why),
        };
        suites.insert(Some(name), Suite::new(&name.0, vec![reached]));
    }
    for end in &ends.all {
        let suite = suites.entry(Some(end.node));
        let suite = suite.or_insert_with(|| Suite::new(&end.node.0, Vec::new()));
        suite.cases.push(of_end(end));
    }
    let notes = run.judgement.findings.iter();
    let notes = notes.filter(|f| matches!(f.severity, Severity::Warning | Severity::Note));
    for finding in notes {
        let note = format!("{}: {}", finding.rule, finding.says);
        let suite = suites.entry(node_of(&finding.subject));
        let suite = suite.or_insert_with(|| Suite::new(CLUSTER, Vec::new()));
        suite.notes.push(note);
    }
    for finding in ends.others {
        let suite = suites.entry(node_of(&finding.subject));
        let suite = suite.or_insert_with(|| Suite::new(CLUSTER, Vec::new()));
        suite.cases.push(of_finding(finding));
    }
    suites.into_values().collect()
}

impl Suite {
    fn new(name: &str, cases: Vec<Case>) -> Self {
        Self {
            name: name.to_owned(),
            cases,
            notes: Vec::new(),
        }
    }
}

impl Case {
    fn new(check: &str, subject: &str, is: CaseIs, says: &str) -> Self {
        let space = if subject.is_empty() { "" } else { " " };
        Self {
            check: check.to_owned(),
            name: format!("{check}{space}{subject}"),
            is,
            says: says.to_owned(),
            more: Vec::new(),
        }
    }
}

/// Whether the run came to its end, and measured all that it was to measure.
fn of_cluster(run: &Run<'_>) -> Vec<Case> {
    let coverage = &run.judgement.coverage;
    let (is, says) = match run.ledger.end() {
        Some(RunEnd::Complete) => (CaseIs::Passed, "the run came to its end"),
        Some(RunEnd::Interrupted) => (CaseIs::NotJudged, "the run was interrupted"),
        Some(RunEnd::TimeUp) => (
            CaseIs::NotJudged,
            "the time budget was spent before everything was tried",
        ),
        None => (CaseIs::NotJudged, "the run has not ended, or was cut off"),
    };
    let complete = Case::new("complete", "", is, says);
    let says = format!(
        "{} of {} {} measured",
        coverage.measured,
        coverage.total(),
        counted(coverage.of, 2)
    );
    let is = match coverage.is_complete() {
        true => CaseIs::Passed,
        false => CaseIs::NotJudged,
    };
    let mut covered = Case::new("coverage", "", is, &says);
    let gap = |gap: &crate::ledger::Gap| {
        let tried = if gap.tried { "failed" } else { "not run" };
        format!("{} {tried}: {}", gap.count, gap.why)
    };
    covered.more = coverage.gaps.iter().map(gap).collect();
    vec![complete, covered]
}

fn of_end(end: &End<'_>) -> Case {
    let subject = match end.nic {
        Some(nic) => format!(
            "{} {} ({} port {})",
            end.rail, end.direction, nic.device, nic.port
        ),
        None => format!("{} {}", end.rail, end.direction),
    };
    let check = "line-rate";
    match &end.is {
        Is::AtLineRate => Case::new(check, &subject, CaseIs::Passed, &seen(end)),
        Is::Low(finding) => {
            let case = Case::new(check, &subject, CaseIs::Failed, &finding.says);
            let seen = end.rate.map(|_| seen(end));
            let more = seen.into_iter().chain(proof(finding)).collect();
            Case { more, ..case }
        }
        Is::NotJudged(why, finding) => {
            let case = Case::new(check, &subject, CaseIs::NotJudged, why);
            let seen = end.rate.map(|_| seen(end));
            let proof = finding.map(proof).unwrap_or_default();
            let more = seen.into_iter().chain(proof).collect();
            Case { more, ..case }
        }
    }
}

/// What a direction of a NIC reached, and of what.
fn seen(end: &End<'_>) -> String {
    let rate = end
        .rate
        .map_or_else(|| "nothing".to_owned(), |rate| rate.to_string());
    match &end.expected {
        Some(Expected::Known {
            rate: ceiling,
            from,
        }) => {
            let share = end
                .share()
                .map_or(String::new(), |share| format!("{share:.2} of "));
            format!("{rate} measured, {share}{ceiling} expected ({from})")
        }
        _ => format!("{rate} measured"),
    }
}

fn of_finding(finding: &Finding) -> Case {
    let is = match finding.severity {
        Severity::Fault => CaseIs::Failed,
        _ => CaseIs::NotJudged,
    };
    let subject = finding.subject.to_string();
    let case = Case::new(finding.rule.name(), &subject, is, &finding.says);
    Case {
        more: proof(finding),
        ..case
    }
}

/// What a finding rests on and what to do about it, a line each.
fn proof(finding: &Finding) -> Vec<String> {
    let rule = std::iter::once(format!("finding: {}", finding.rule));
    let evidence = finding.evidence.iter().map(line);
    let remedy = std::iter::once(format!("What to do: {}", finding.remedy));
    rule.chain(evidence).chain(remedy).collect()
}

fn line(evidence: &Evidence) -> String {
    format!("{} ({})", evidence.saw, evidence.from)
}

/// The node that a finding is about, of a pair the sender's.
fn node_of(subject: &Subject) -> Option<&NodeName> {
    match subject {
        Subject::Node(node) | Subject::NodeRail(node, _) | Subject::Device(node, _) => Some(node),
        Subject::Nic(nic, ..) => Some(&nic.node),
        Subject::Pair(pair) => Some(&pair.from.node),
        Subject::Rail(_) | Subject::LeafGroup(..) => None,
    }
}

fn of_profile(acceptance: &Acceptance) -> Vec<Suite> {
    let mut suites: BTreeMap<Option<&NodeName>, Suite> = BTreeMap::new();
    for result in &acceptance.results {
        let node = result.node.as_ref();
        let name = node.map_or(CLUSTER, |node| &node.0);
        let suite = suites.entry(node);
        let suite = suite.or_insert_with(|| Suite::new(name, Vec::new()));
        suite.cases.push(of_result(result));
    }
    if suites.is_empty() {
        let says = "the profile demands nothing of this cluster, which accepts nothing";
        let nothing = Case::new("profile", &acceptance.profile, CaseIs::NotJudged, says);
        suites.insert(None, Suite::new(CLUSTER, vec![nothing]));
    }
    suites.into_values().collect()
}

fn of_result(result: &CheckResult) -> Case {
    let is = match (&result.outcome, result.weight) {
        (CheckOutcome::Passed, _) => CaseIs::Passed,
        (CheckOutcome::Failed, Weight::Must) => CaseIs::Failed,
        (CheckOutcome::NotJudged { .. }, Weight::Must) => CaseIs::NotJudged,
        _ => CaseIs::Borne,
    };
    let saw = result.saw.as_deref().unwrap_or("nothing");
    let seen = format!("saw {saw}, expected {}", result.expected);
    let should = match result.weight {
        Weight::Must => "",
        Weight::Should => "should: ",
    };
    let says = match &result.outcome {
        CheckOutcome::Passed | CheckOutcome::Failed => format!("{should}{seen}"),
        CheckOutcome::NotJudged { why } => {
            let open = if is == CaseIs::Borne {
                "not judged: "
            } else {
                ""
            };
            format!("{should}{open}{why} (expected {})", result.expected)
        }
        CheckOutcome::Excepted { reason, until, why } => {
            let what = match why {
                Some(why) => format!("not judged: {why}"),
                None => seen,
            };
            format!("excepted until {until} ({reason}): {what}")
        }
    };
    let case = Case::new(&result.check, &result.subject, is, &says);
    let from = std::iter::once(format!("expected by {}", result.expected_from));
    Case {
        more: from.chain(result.evidence.iter().map(line)).collect(),
        ..case
    }
}
