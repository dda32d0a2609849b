//! nccl-tests of a run: their logs beside the survey, what they say is wrong, and what they do not tell.

use std::collections::BTreeSet;

use super::{NcclProblem, NcclSurvey, nccl_problems};
use crate::ledger::{Ledger, NcclTest};
use crate::model::{NcclTestExit, NodeName};
use crate::nccl::{DEBUG, Missing, NcclLog, NcclReader, TestResults, Verdict};

/// What nccl-tests told, those of one node or of a launcher.
#[derive(Debug)]
pub struct NcclTold<'a> {
    /// The node that ran them by itself; `None` stands for the launcher.
    pub on: Option<&'a NodeName>,
    /// What they were, and wrote.
    pub test: &'a NcclTest,
    /// That, read.
    pub log: NcclLog,
    /// What they measured.
    pub results: TestResults,
    /// What is wrong by the log, each with its node where it is of one.
    pub problems: Vec<(Option<NodeName>, NcclProblem)>,
    /// Nodes of which they do not tell whether GPUDirect RDMA is used, or not of all, each with the reason.
    pub gaps: Vec<(NodeName, String)>,
}

/// What all nccl-tests of a run told.
pub fn nccl_told(ledger: &Ledger) -> Vec<NcclTold<'_>> {
    if ledger.nccl_tests().next().is_none() {
        return Vec::new();
    }
    let survey = NcclSurvey::of(ledger);
    let told = |(on, test)| NcclTold::of(ledger, &survey, on, test);
    ledger.nccl_tests().map(told).collect()
}

impl<'a> NcclTold<'a> {
    fn of(
        ledger: &'a Ledger,
        survey: &NcclSurvey<'a>,
        on: Option<&'a NodeName>,
        test: &'a NcclTest,
    ) -> Self {
        let mut reader = NcclReader::default();
        // Reading from memory does not fail.
        let _ = reader.read("nccl-tests", &mut test.text.as_bytes());
        let log = reader.finish();
        // What a node writes is of itself, whatever host it names.
        let facts = on.and_then(|name| ledger.get_node(name)?.facts.as_ref());
        let own = on
            .zip(facts)
            .map(|(name, facts)| NcclSurvey::of_node(name, facts));
        let problems = nccl_problems(&log, Some(own.as_ref().unwrap_or(survey)));
        let with_node = |problem: NcclProblem| {
            let node = match (on, &problem.node) {
                (Some(on), _) => Some(on.clone()),
                (None, None) => test.nodes.first().cloned(),
                (None, Some(host)) => {
                    let known = survey.name(host).cloned();
                    Some(known.unwrap_or_else(|| host.to_string().into()))
                }
            };
            (node, problem)
        };
        let problems = problems.into_iter().map(with_node).collect();
        let gaps = gaps(on, test, &log, survey);
        Self {
            on,
            test,
            results: TestResults::of(test.text.lines()),
            log,
            problems,
            gaps,
        }
    }

    /// What ran: the file of the program, without its folder.
    pub fn program(&self) -> &'a str {
        program(self.test)
    }
}

fn program(test: &NcclTest) -> &str {
    let program = test.command.first().map_or("nccl-tests", String::as_str);
    program.rsplit('/').next().unwrap_or(program)
}

fn gaps(
    on: Option<&NodeName>,
    test: &NcclTest,
    log: &NcclLog,
    survey: &NcclSurvey<'_>,
) -> Vec<(NodeName, String)> {
    let of_all = |why: String| -> Vec<(NodeName, String)> {
        let nodes = test.nodes.iter();
        nodes.map(|node| (node.clone(), why.clone())).collect()
    };
    if let Some(why) = why_not(on, test, log) {
        return of_all(why);
    }
    if on.is_some() {
        return Vec::new();
    }
    let hosts = log
        .processes
        .iter()
        .filter_map(|process| process.host.as_deref());
    let spoke: BTreeSet<&NodeName> = hosts.filter_map(|host| survey.name(host)).collect();
    let silent = test.nodes.iter().filter(|node| !spoke.contains(node));
    let why = || "no rank on it is in the log of nccl-tests".to_owned();
    silent.map(|node| (node.clone(), why())).collect()
}

/// Why tests as a whole do not tell, or not all.
fn why_not(on: Option<&NodeName>, test: &NcclTest, log: &NcclLog) -> Option<String> {
    let Some(end) = &test.end else {
        return Some("nccl-tests have not ended".to_owned());
    };
    let said = match end.last.last() {
        Some(last) => format!(", and said last: {last}"),
        None => String::new(),
    };
    match &end.how {
        NcclTestExit::Failed { why } if test.command.is_empty() => {
            Some(format!("nccl-tests were not run: {why}"))
        }
        NcclTestExit::Failed { why } => Some(format!("nccl-tests failed: {why}{said}")),
        NcclTestExit::Exited { code } if *code != 0 => Some(format!(
            "{} ended with exit code {code}{said}",
            program(test)
        )),
        NcclTestExit::Exited { .. } if end.left_out > 0 => Some(format!(
            "{} lines of the log of nccl-tests were not kept",
            end.left_out
        )),
        NcclTestExit::Exited { .. } => unknown(on, test, log),
    }
}

/// Why a log that is whole does not tell.
fn unknown(on: Option<&NodeName>, test: &NcclTest, log: &NcclLog) -> Option<String> {
    let what = match log.verdict() {
        Verdict::Unknown(Missing::Lines) if on.is_none() => format!(
            "there is no line of NCCL in what nccl-tests wrote: the launcher has to pass {DEBUG} on (mpirun: \
             -x NCCL_DEBUG -x NCCL_DEBUG_SUBSYS)"
        ),
        Verdict::Unknown(Missing::Lines) => {
            "there is no line of NCCL in what nccl-tests wrote".to_owned()
        }
        Verdict::Unknown(Missing::Channels) => {
            "no channel through a network is in the log of nccl-tests".to_owned()
        }
        Verdict::Unknown(Missing::Torn) => {
            "every line of a channel through a network is torn in the log of nccl-tests".to_owned()
        }
        Verdict::OneNode if on.is_some() => {
            "NCCL sent nothing through NICs in nccl-tests".to_owned()
        }
        Verdict::OneNode if test.nodes.len() > 1 => {
            "all ranks of nccl-tests were on one node".to_owned()
        }
        Verdict::OneNode | Verdict::Channels(_) | Verdict::Said(..) => return None,
    };
    Some(what)
}
