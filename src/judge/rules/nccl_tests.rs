//! What NCCL itself says: nccl-tests that a run started show GPUs without GPUDirect RDMA, or wrong data.

use super::{About, Context, Said, plain};
use crate::judge::nccl::{NcclProblem, NcclTold};
use crate::model::{Evidence, Finding, NodeName, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::NcclTests,
    means: "NCCL does not use GPUDirect RDMA, although it was started for nothing else: by its own word GPUs send or \
            receive by way of host memory or sockets, transfers failed, or data came out wrong. Jobs on these nodes \
            do the same.",
    detected: "nccl-tests that the run starts at its end ([nccl] in the cluster file, --nccl): on each node by itself, \
               with NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 so that its GPUs use its NICs, or on all together by a \
               launcher. Their log is read as linerate nccl-log reads one and held beside the survey; values that \
               nccl-tests count as wrong are a fault. It cannot be told where they are not installed, fail, or write \
               nothing of NCCL.",
    remedy: "Each finding has its own: linerate nccl-log tells the same of a log of any job.",
};

/// Lines of the log that are quoted.
const QUOTED: usize = 2;
/// Characters of each.
const LONGEST: usize = 200;
/// Ranks that are listed.
const RANKS: usize = 16;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    context.nccl.iter().flat_map(of_test).collect()
}

/// What they do not tell, node by node.
pub(super) fn settle(context: &Context<'_>, said: &mut Said) {
    for (node, why) in context.nccl.iter().flat_map(|told| &told.gaps) {
        said.cannot_tell(Rule::NcclTests, Subject::Node(node.clone()), why);
    }
}

fn of_test(told: &NcclTold<'_>) -> Vec<Finding> {
    let mut groups: Vec<(&NodeName, Vec<&NcclProblem>)> = Vec::new();
    for (node, problem) in &told.problems {
        let Some(node) = node else { continue };
        let kind = (problem.severity, &problem.kind);
        let mut known = groups.iter_mut();
        match known.find(|(of, group)| *of == node && (group[0].severity, &group[0].kind) == kind) {
            Some((_, group)) => group.push(problem),
            None => groups.push((node, vec![problem])),
        }
    }
    let found = groups
        .into_iter()
        .map(|(node, group)| finding(told, node, &group));
    found.chain(wrong(told)).collect()
}

/// Problems of a node that have one cause.
fn finding(told: &NcclTold<'_>, node: &NodeName, group: &[&NcclProblem]) -> Finding {
    let first = group[0];
    let mut ranks: Vec<u32> = group[1..]
        .iter()
        .filter_map(|problem| problem.rank)
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    let more = match ranks.len() {
        0 => String::new(),
        n => {
            let shown: Vec<String> = ranks.iter().take(RANKS).map(ToString::to_string).collect();
            let more = if n > RANKS { ", …" } else { "" };
            format!(" The same of rank {}{more}.", shown.join(", "))
        }
    };
    let evidence = evidence(told, group);
    let says = format!("nccl-tests: {}{more}", first.says);
    let subject = Subject::Node(node.clone());
    plain(
        Rule::NcclTests,
        first.severity,
        subject,
        says,
        evidence,
        first.remedy.as_str(),
    )
}

fn evidence(told: &NcclTold<'_>, group: &[&NcclProblem]) -> Vec<Evidence> {
    let wrote = match told.on {
        Some(node) => format!("what {} wrote on {node}", told.program()),
        None => format!("what {} wrote", told.program()),
    };
    let places = group
        .iter()
        .flat_map(|problem| &problem.places)
        .take(QUOTED);
    let quoted = places.filter_map(|place| {
        let line = usize::try_from(place.line).ok()?.checked_sub(1)?;
        let line = told.test.text.lines().nth(line)?;
        let saw = line.trim().chars().take(LONGEST).collect();
        let from = wrote.clone();
        Some(Evidence { saw, from })
    });
    quoted.collect()
}

/// Values that came out wrong.
fn wrong(told: &NcclTold<'_>) -> Option<Finding> {
    let count = told.results.wrong.filter(|count| *count > 0)?;
    let node = told.on.or(told.test.nodes.first())?;
    let at = match told.on {
        Some(node) => format!("on {node}"),
        None => format!("on {} nodes", told.test.nodes.len()),
    };
    let line = told
        .test
        .text
        .lines()
        .find(|line| line.contains("# Out of bounds values"));
    let evidence = line.map(|line| Evidence {
        saw: line.trim().chars().take(LONGEST).collect(),
        from: format!("what {} wrote", told.program()),
    });
    Some(plain(
        Rule::NcclTests,
        Severity::Fault,
        Subject::Node(node.clone()),
        format!(
            "nccl-tests {at} counted {count} values that came out wrong: data is damaged on its way."
        ),
        evidence.into_iter().collect(),
        "Take the nodes out of service; run nccl-tests on halves of them until the GPU or NIC is found, and look for \
         errors of its memory (nvidia-smi -q -d ECC) and link.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Judgement, judge};
    use crate::ledger::testing::{events, ledger};
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{CannotTell, Event, NcclTestEnd, NcclTestExit, Verdict};

    const EXITED: NcclTestExit = NcclTestExit::Exited { code: 0 };

    /// A rank of a node, whose GPU sends and receives through NIC 0.
    fn rank(host: &str, rank: u32, bus: &str, way: &str) -> String {
        let head = format!("{host}:31{rank}:322 [{rank}] NCCL INFO");
        format!(
            "{head} NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n\
             {head} comm 0x1 rank {rank} nranks 4 cudaDev 2 nvmlDev 2 busId {bus} commId 0x9 - Init START\n\
             {head} Channel 00/0 : 0[2] -> {rank}[2] [receive] via {way}\n\
             {head} Channel 00/0 : {rank}[2] -> 0[2] [send] via {way}\n"
        )
    }

    /// A run whose probes are well, on two servers, with tests that wrote this.
    fn judged(on: Option<&str>, text: &str, how: NcclTestExit) -> Judgement {
        let mut events = events(2, 1, &|_, _, _| Some(391.0));
        for event in &mut events {
            if let Event::NodeSurveyed { node, facts } = event {
                let name = crate::model::Fact::known(node.0.to_string(), "test");
                **facts = TwoSockets::facts();
                facts.hostname = name;
            }
        }
        let on: Option<NodeName> = on.map(NodeName::from);
        let all = ["node01", "node02"].map(NodeName::from).to_vec();
        let end = events.pop();
        events.push(Event::NcclTestStarted {
            nodes: on.clone().map_or(all, |on| vec![on]),
            on: on.clone(),
            command: vec!["/opt/bin/all_reduce_perf".into()],
        });
        let lines = text.lines().map(str::to_owned).collect();
        events.push(Event::NcclTestSaid {
            on: on.clone(),
            lines,
        });
        let last =
            vec!["Test CUDA failure common.cu:891 'no CUDA-capable device is detected'".into()];
        let last = if how == EXITED { Vec::new() } else { last };
        let left_out = 0;
        events.push(Event::NcclTestEnded {
            on,
            end: NcclTestEnd {
                how,
                last,
                left_out,
            },
        });
        events.extend(end);
        judge(&ledger(&events))
    }

    fn found(judgement: &Judgement) -> Vec<&Finding> {
        let all = judgement.findings.iter();
        all.filter(|finding| finding.rule == Rule::NcclTests)
            .collect()
    }

    fn untold(judgement: &Judgement) -> Vec<String> {
        let all = judgement.cannot_tell.iter();
        let own = all.filter(|entry| entry.rule == Rule::NcclTests);
        own.map(|CannotTell { subject, why, .. }| format!("{subject}: {why}"))
            .collect()
    }

    const NEAR: &str = "14000";
    const FAR: &str = "c5000";

    #[test]
    fn ranks_without_gpudirect_are_named_with_what_the_survey_knows() {
        let text = rank("node01", 0, NEAR, "NET/IB/0/GDRDMA") + &rank("node01", 1, FAR, "NET/IB/0");
        let judgement = judged(Some("node01"), &text, EXITED);
        let [finding] = found(&judgement)[..] else {
            panic!("{:#?}", judgement.findings)
        };
        assert_eq!(judgement.verdict, Verdict::Faults);
        insta::assert_debug_snapshot!(finding);
        assert_eq!(untold(&judgement), [""; 0]);
    }

    #[test]
    fn ranks_that_are_alike_are_one_finding_of_their_node() {
        let texts = (0..4).map(|n| {
            rank(
                if n < 3 { "node01" } else { "node02" },
                n,
                FAR,
                "NET/Socket/0",
            )
        });
        let judgement = judged(None, &texts.collect::<String>(), EXITED);
        let found = found(&judgement);
        let subjects: Vec<_> = found
            .iter()
            .map(|finding| finding.subject.to_string())
            .collect();
        assert_eq!(subjects, ["node01", "node02"]);
        assert!(
            found[0].says.ends_with("The same of rank 1, 2."),
            "{}",
            found[0].says
        );
    }

    #[test]
    fn all_with_gpudirect_is_well_and_a_node_that_is_not_in_the_log_is_a_gap() {
        let one = rank("node01", 0, NEAR, "NET/IB/0/GDRDMA");
        let both = one.clone() + &rank("node02", 1, NEAR, "NET/IB/0/GDRDMA");
        let judgement = judged(None, &both, EXITED);
        assert_eq!(judgement.verdict, Verdict::AtLineRate);
        assert!(found(&judgement).is_empty() && untold(&judgement).is_empty());
        let judgement = judged(None, &one, EXITED);
        assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
        assert_eq!(
            untold(&judgement),
            ["node02: no rank on it is in the log of nccl-tests"]
        );
    }

    #[test]
    fn what_cannot_be_told_has_its_reason() {
        let code = |code| NcclTestExit::Exited { code };
        let failed = |why: &str| NcclTestExit::Failed { why: why.into() };
        let well = rank("node01", 0, NEAR, "NET/IB/0/GDRDMA");
        for (text, how, why) in [
            (
                "",
                EXITED,
                "there is no line of NCCL in what nccl-tests wrote",
            ),
            (
                &*well,
                code(1),
                "all_reduce_perf ended with exit code 1, and said last: Test CUDA failure common.cu:891 'no \
                 CUDA-capable device is detected'",
            ),
            (
                "",
                failed("it is not installed"),
                "nccl-tests failed: it is not installed, and said last: Test",
            ),
            (
                "node01:1:2 [0] NCCL INFO Using network IB",
                EXITED,
                "no channel through a network is in the log of nccl-tests",
            ),
        ] {
            let judgement = judged(Some("node01"), text, how);
            assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
            let untold = untold(&judgement);
            assert_eq!(untold.len(), 1);
            assert!(
                untold[0].starts_with(&format!("node01: {why}")),
                "{untold:?}"
            );
        }
        let judgement = judged(None, "", EXITED);
        assert_eq!(untold(&judgement).len(), 2);
        assert!(
            untold(&judgement)[0].contains("-x NCCL_DEBUG"),
            "{judgement:?}"
        );
    }

    #[test]
    fn values_that_came_out_wrong_are_a_fault() {
        let text = rank("node01", 0, NEAR, "NET/IB/0/GDRDMA") + "# Out of bounds values : 7 FAILED";
        let judgement = judged(Some("node01"), &text, EXITED);
        let [finding] = found(&judgement)[..] else {
            panic!("{:#?}", judgement.findings)
        };
        assert_eq!(finding.severity, Severity::Fault);
        assert!(
            finding.says.contains("counted 7 values"),
            "{}",
            finding.says
        );
        assert_eq!(finding.evidence[0].saw, "# Out of bounds values : 7 FAILED");
    }

    #[test]
    fn a_node_speaks_for_itself_whatever_host_it_names() {
        let text = rank("node02", 1, FAR, "NET/IB/0");
        let judgement = judged(Some("node01"), &text, EXITED);
        assert_eq!(found(&judgement)[0].subject, Subject::Node("node01".into()));
    }
}
