//! nccl-tests at the end of a run, on nodes that answer in memory and by launchers that are scripts.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::tests::{LIMITS, settings};
use super::{Conductor, Fleet, FromNode};
use crate::judge::judge;
use crate::ledger::Ledger;
use crate::ledger::testing::ledger;
use crate::model::testing::pcie::TwoSockets;
use crate::model::*;
use crate::wire::{FromAgent, PROTOCOL, ToAgent};

const DIRECT: &str = "n1:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA";

/// What a node does when it is told to run nccl-tests.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Well,
    NotInstalled,
    /// Its connection breaks.
    Dies,
    /// Says more than anybody takes.
    Floods,
    WithoutGpu,
    /// It has one, and a job uses a NIC.
    Busy,
}

struct Nodes {
    kinds: Vec<Kind>,
    inbox: VecDeque<(usize, FromNode)>,
    told: Vec<(usize, Vec<String>)>,
}

impl Nodes {
    fn facts(kind: Kind) -> NodeFacts {
        let mut facts = match kind {
            Kind::WithoutGpu => TwoSockets::with(|tree| {
                let functions = tree.functions.iter().filter(|f| f.role != PciRole::Gpu);
                tree.functions = functions.cloned().collect::<Vec<_>>().into();
            }),
            _ => TwoSockets::facts(),
        };
        if let (Kind::Busy, Fact::Known { value, .. }) = (kind, &mut facts.rdma) {
            let holder = QueuePairHolder {
                pid: Some(4711),
                name: "python3".into(),
                rc: 8,
                ud: 0,
                other: 0,
            };
            value[0].queue_pairs = Fact::known(vec![holder], "RDMA netlink");
        }
        facts
    }

    fn says(&mut self, node: usize, message: FromAgent) {
        self.inbox.push_back((node, FromNode::Said(message)));
    }

    fn test(&mut self, node: usize) {
        let mut how = NcclTestExit::Exited { code: 0 };
        match self.kinds[node] {
            Kind::Dies => {
                let gone = FromNode::Gone("the connection broke".into());
                return self.inbox.push_back((node, gone));
            }
            Kind::NotInstalled => {
                let why = "all_reduce_perf is not installed: it is in no folder of PATH".to_owned();
                how = NcclTestExit::Failed { why };
            }
            Kind::Floods => {
                for _ in 0..4 {
                    let lines = vec![DIRECT.to_owned(); 4096];
                    self.says(node, FromAgent::NcclTestSaid { lines });
                }
            }
            _ => self.says(
                node,
                FromAgent::NcclTestSaid {
                    lines: vec![DIRECT.to_owned()],
                },
            ),
        }
        let end = NcclTestEnd {
            how,
            ..NcclTestEnd::failed("")
        };
        self.says(node, FromAgent::NcclTestEnded { end });
        // Nobody asked for it.
        self.says(
            node,
            FromAgent::NcclTestSaid {
                lines: vec!["late".into()],
            },
        );
    }
}

impl Fleet for Nodes {
    fn send(&mut self, node: usize, message: &ToAgent) {
        match message {
            ToAgent::Survey => {
                let facts = Box::new(Self::facts(self.kinds[node]));
                self.says(node, FromAgent::Facts { facts });
            }
            ToAgent::NcclTest { command, .. } => {
                self.told.push((node, command.clone()));
                self.test(node);
            }
            _ => {}
        }
    }

    fn next(&mut self, timeout: Duration) -> Option<(usize, FromNode)> {
        let news = self.inbox.pop_front();
        if news.is_none() && !timeout.is_zero() {
            std::thread::sleep(timeout.min(Duration::from_millis(5)));
            let is_there = |node: &usize| self.kinds[*node] != Kind::Dies;
            let there: Vec<usize> = (0..self.kinds.len()).filter(is_there).collect();
            there
                .into_iter()
                .for_each(|node| self.says(node, FromAgent::Heartbeat));
        }
        news
    }

    fn close(&mut self) {}
}

fn asked(nodes: usize, launcher: &[&str]) -> RunSettings {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let mut settings = settings(nodes);
    settings.sweep.pattern = Pattern::Nothing;
    settings.nccl = Some(NcclSettings {
        command: words(&["all_reduce_perf", "-g", "{gpus}"]),
        launcher: words(launcher),
        timeout_s: 60,
    });
    settings
}

fn run(kinds: &[Kind], settings: RunSettings, so_far: &[Event]) -> Vec<Event> {
    let hello = |node| {
        let hello = FromAgent::Hello {
            protocol: PROTOCOL,
            linerate: "0.1.0".into(),
            pid: 1,
        };
        (node, FromNode::Said(hello))
    };
    let fleet = Nodes {
        kinds: kinds.to_vec(),
        inbox: (0..kinds.len()).map(hello).collect(),
        told: Vec::new(),
    };
    let (stop, mut events) = (AtomicBool::new(false), so_far.to_vec());
    let mut emit = |event: Event| -> Result<(), Infallible> {
        let end = matches!(event, Event::NcclTestEnded { .. });
        stop.store(end && settings.seed == STOPPED, Ordering::Relaxed);
        events.push(event);
        Ok(())
    };
    Conductor::new(fleet, settings.clone(), LIMITS, &stop, &mut emit)
        .after(ledger(so_far))
        .run()
        .unwrap();
    events
}

/// The seed of a run that is interrupted once tests have ended.
const STOPPED: u64 = 99;

fn why(ledger: &Ledger, node: &str) -> String {
    let test = ledger.nccl_test(Some(&node.into())).unwrap();
    match &test.end.as_ref().unwrap().how {
        NcclTestExit::Failed { why } => why.clone(),
        NcclTestExit::Exited { code } => format!("exit code {code}"),
    }
}

#[test]
fn each_node_runs_them_by_itself_and_says_what_came_of_it() {
    use Kind::*;
    let kinds = [Well, NotInstalled, Dies, Floods, WithoutGpu, Busy];
    let events = run(&kinds, asked(6, &[]), &[]);
    let ledger = ledger(&events);
    let test = |node: &str| ledger.nccl_test(Some(&node.into()));
    let well = test("node01").unwrap();
    assert_eq!(well.command, ["all_reduce_perf", "-g", "3"]);
    assert_eq!(well.text, format!("{DIRECT}\n"));
    assert!(why(&ledger, "node02").contains("is not installed"));
    assert_eq!(why(&ledger, "node03"), "the node was lost");
    let flood = test("node04").unwrap();
    let left_out = flood.end.as_ref().unwrap().left_out;
    assert!(flood.text.len() <= 1 << 20 && left_out > 0, "{left_out}");
    assert_eq!(flood.text.lines().count() as u64 + left_out, 4 * 4096);
    // It has no GPU, and others have.
    assert_eq!(test("node05"), None);
    assert!(why(&ledger, "node06").starts_with("mlx5_0 is in use: 8 RC queue pairs of python3"));
    let judgement = judge(&ledger);
    assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
    let untold = judgement
        .cannot_tell
        .iter()
        .filter(|c| c.rule == Rule::NcclTests);
    assert_eq!(untold.count(), 4);
}

#[test]
fn where_nobody_has_a_gpu_that_is_said() {
    let events = run(&[Kind::WithoutGpu; 2], asked(2, &[]), &[]);
    let ledger = ledger(&events);
    for node in ["node01", "node02"] {
        assert_eq!(why(&ledger, node), "its survey shows no GPU");
    }
}

#[test]
fn a_launcher_gets_the_nodes_and_its_log_is_read() {
    let script = format!("echo \"$0 $*\" >&2; echo '{DIRECT}'; echo '# Avg bus bandwidth : 42.5'");
    let launcher = ["/bin/sh", "-c", &script, "{hosts}", "{ranks}"];
    let kinds = [Kind::Well, Kind::WithoutGpu, Kind::Well];
    let events = run(&kinds, asked(3, &launcher), &[]);
    let ledger = ledger(&events);
    let test = ledger.nccl_test(None).unwrap();
    assert_eq!(test.nodes, ["node01", "node03"].map(NodeName::from));
    let end = test.end.as_ref().unwrap();
    assert_eq!(end.how, NcclTestExit::Exited { code: 0 });
    assert_eq!(end.last, ["node01,node03 6 all_reduce_perf -g 3"]);
    assert_eq!(test.text, format!("{DIRECT}\n# Avg bus bandwidth : 42.5\n"));
    // No more of its nodes than may carry traffic.
    let mut settings = asked(3, &launcher);
    settings.sweep.max_load = 0.5;
    let ledger = crate::ledger::testing::ledger(&run(&[Kind::Well; 3], settings, &[]));
    assert_eq!(ledger.nccl_test(None).unwrap().nodes.len(), 1);
    assert!(why(&ledger, "node02").contains("max_load"));
}

#[test]
fn what_ended_well_is_not_run_again() {
    let mut stopped = asked(2, &[]);
    stopped.seed = STOPPED;
    stopped.sweep.max_load = 0.5;
    let cut = run(&[Kind::Well; 2], stopped.clone(), &[]);
    let first = ledger(&cut);
    assert!(first.nccl_test(Some(&"node01".into())).unwrap().is_over());
    assert_eq!(why(&first, "node02"), "the run was interrupted");
    stopped.seed = 1;
    let all = run(&[Kind::Well; 2], stopped, &cut);
    let began = |event: &&Event| matches!(event, Event::NcclTestStarted { .. });
    assert_eq!(all.iter().filter(began).count(), 2);
    let ledger = ledger(&all);
    assert!(ledger.nccl_tests().all(|(_, test)| test.is_over()));
}

#[test]
fn without_being_asked_nobody_runs_anything() {
    let mut settings = asked(2, &[]);
    settings.nccl = None;
    let events = run(&[Kind::Well; 2], settings, &[]);
    assert_eq!(ledger(&events).nccl_tests().count(), 0);
}
