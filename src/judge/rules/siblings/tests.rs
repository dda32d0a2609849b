//! Who differs, and who does not.

use proptest::prelude::*;

use super::RULES;
use crate::judge::rules::Said;
use crate::judge::{Judgement, NodeView, judge};
use crate::ledger::testing::{events, ledger};
use crate::model::testing::pcie::{TwoSockets, link};
use crate::model::*;

/// One NIC on each socket.
const SEATS: [&str; 2] = [TwoSockets::NIC0, TwoSockets::NIC4];

/// A run of `nodes` alike with two rails, all at line rate; `change` alters the facts of a node by
/// its number from 0.
fn run(nodes: usize, change: impl Fn(usize, &mut NodeFacts)) -> Vec<Event> {
    let mut events = events(nodes, 2, &|_, _, _| Some(391.0));
    let mut number = 0;
    for event in &mut events {
        if let Event::NodeSurveyed { facts, .. } = event {
            let mut tree = TwoSockets::tree();
            for function in &mut tree.functions {
                function.link = link((LinkSpeed::Gen5, 16), (LinkSpeed::Gen5, 16));
            }
            facts.pcie = Fact::known(tree, "/sys/bus/pci/devices");
            facts.numa = TwoSockets::facts().numa;
            for (device, at) in rdma(facts).iter_mut().zip(SEATS) {
                device.pci = Fact::known(PciAddress(at.into()), "device");
            }
            change(number, facts);
            number += 1;
        }
    }
    events
}

fn rdma(facts: &mut NodeFacts) -> &mut Vec<RdmaDevice> {
    match &mut facts.rdma {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => panic!("{why}"),
    }
}

fn functions(facts: &mut NodeFacts) -> &mut Vec<PciFunction> {
    match &mut facts.pcie {
        Fact::Known { value, .. } => &mut value.functions,
        Fact::Unknown { why } => panic!("{why}"),
    }
}

fn judged(nodes: usize, change: impl Fn(usize, &mut NodeFacts)) -> Judgement {
    judge(&ledger(&run(nodes, change)))
}

fn differences(judgement: &Judgement) -> Vec<&Finding> {
    let is_one = |finding: &&Finding| finding.rule == Rule::DiffersFromSiblings;
    judgement.findings.iter().filter(is_one).collect()
}

#[test]
fn a_port_without_a_link_has_no_rate_that_differs() {
    let judgement = judged(4, |number, facts| {
        if number == 2 {
            let port = &mut rdma(facts)[0].ports[0];
            port.state = Fact::known(PortState::Down, "state");
            port.rate = Fact::known(Gbps(10.0), "rate");
        }
    });
    assert_eq!(differences(&judgement), Vec::<&Finding>::new());
    let told = |finding: &Finding| finding.rule == Rule::PortDown;
    assert!(judgement.findings.iter().any(told));
}

fn mtu(facts: &mut NodeFacts, rail: usize, netdev: u32, rdma_mtu: u32) {
    let port = &mut rdma(facts)[rail].ports[0];
    port.active_mtu = Fact::known(rdma_mtu, "ibv_query_port");
    port.netdev = Fact::known(
        Netdev {
            name: format!("eth{rail}"),
            mtu: Fact::known(netdev, format!("/sys/class/net/eth{rail}/mtu")),
            ..Netdev::default()
        },
        "gid_attrs/ndevs",
    );
}

/// What is to be found of a node that is odd: what it is called, and how its facts are changed.
type Change = (&'static str, Severity, fn(&mut NodeFacts));

const CHANGES: &[Change] = &[
    ("interface MTU", Severity::Warning, |facts| {
        mtu(facts, 1, 4200, 4096)
    }),
    ("kernel", Severity::Note, |facts| {
        facts.kernel = Fact::known("5.4".into(), "uname")
    }),
    ("limit of locked memory", Severity::Warning, |facts| {
        facts.memlock = Fact::known(MemlockLimit::Bytes(Bytes(65536)), "getrlimit");
    }),
    ("firmware", Severity::Note, |facts| {
        rdma(facts)[0].firmware = Fact::known("28.1".into(), "fw_ver");
    }),
    ("driver", Severity::Note, |facts| {
        rdma(facts)[0].driver = Fact::known("mlx4_core".into(), "driver");
    }),
    ("port rate", Severity::Warning, |facts| {
        rdma(facts)[0].ports[0].rate = Fact::known(Gbps(200.0), "rate");
    }),
    ("number of GPUs", Severity::Warning, |facts| {
        functions(facts).retain(|f| f.address.0 != TwoSockets::GPU1);
    }),
    ("number of RDMA devices", Severity::Warning, |facts| {
        let more = RdmaDevice {
            name: "mlx5_7".into(),
            ..RdmaDevice::default()
        };
        rdma(facts).push(more);
    }),
    ("PCIe link", Severity::Warning, |facts| {
        for function in functions(facts) {
            function.link.max_speed = Fact::known(LinkSpeed::Gen4, "max_link_speed");
            function.link.speed = Fact::known(LinkSpeed::Gen4, "current_link_speed");
        }
        for device in rdma(facts) {
            device.ports[0].rate = Fact::known(Gbps(200.0), "rate");
        }
    }),
];

fn healthy(_: usize, facts: &mut NodeFacts) {
    mtu(facts, 0, 9000, 4096);
    mtu(facts, 1, 9000, 4096);
}

#[test]
fn nodes_that_are_alike_are_not_mentioned() {
    let judgement = judged(5, healthy);
    assert!(judgement.findings.is_empty(), "{:#?}", judgement.findings);
    let siblings = |entry: &&CannotTell| entry.rule == Rule::DiffersFromSiblings;
    assert_eq!(judgement.cannot_tell.iter().find(siblings), None);
}

#[test]
fn each_difference_is_named_and_nobody_else() {
    for (what, severity, change) in CHANGES {
        let judgement = judged(5, |number, facts| {
            healthy(number, facts);
            if number == 2 {
                change(facts);
            }
        });
        let found = differences(&judgement);
        let this: Vec<_> = found
            .iter()
            .filter(|f| f.says.starts_with(&format!("The {what} of ")))
            .collect();
        assert_eq!(this.len(), 1, "{what}: {found:#?}");
        assert_eq!(this[0].severity, *severity, "{what}");
        for finding in found {
            assert!(finding.says.contains("node03"), "{}", finding.says);
            assert!(
                finding.evidence[1].saw.starts_with("4 of 5 nodes have "),
                "{finding:#?}"
            );
        }
    }
}

#[test]
fn one_nic_is_named_and_rails_that_differ_alike_are_one_finding() {
    let one = judged(5, |number, facts| {
        healthy(number, facts);
        if number == 1 {
            mtu(facts, 0, 4200, 4096);
        }
    });
    let [finding] = differences(&one)[..] else {
        panic!("{:#?}", one.findings)
    };
    assert_eq!(finding.subject.to_string(), "mlx5_0 of node02");
    assert_eq!(
        finding.says,
        "The interface MTU of NIC mlx5_0 of node02 (rail 0) is 4200; 4 of 5 nodes have 9000."
    );
    let from: Vec<_> = finding.evidence.iter().map(|e| &*e.from).collect();
    assert_eq!(
        from,
        [
            "node02: /sys/class/net/eth0/mtu",
            "node01: /sys/class/net/eth0/mtu"
        ]
    );

    let both = judged(5, |number, facts| {
        healthy(number, facts);
        if number == 1 {
            mtu(facts, 0, 4200, 4096);
            mtu(facts, 1, 4200, 4096);
        }
    });
    let [finding] = differences(&both)[..] else {
        panic!("{:#?}", both.findings)
    };
    assert_eq!(finding.subject, Subject::Node("node02".into()));
    assert_eq!(
        finding.says,
        "The interface MTU of node02 is 4200 on rail 0, rail 1; 4 of 5 nodes have 9000."
    );
    assert_eq!(both.verdict, Verdict::AtLineRate);
}

#[test]
fn what_a_rule_of_one_node_tells_gets_the_comparison_as_evidence() {
    let judgement = judged(5, |number, facts| {
        healthy(number, facts);
        if number == 1 {
            mtu(facts, 0, 1500, 1024);
        }
    });
    let [finding] = &judgement.findings[..] else {
        panic!("{:#?}", judgement.findings)
    };
    assert_eq!(
        (finding.rule, finding.severity),
        (Rule::Mtu, Severity::Fault)
    );
    let saw: Vec<_> = finding.evidence.iter().map(|e| &*e.saw).collect();
    assert!(saw.contains(&"4 of 5 nodes have 4096"), "{saw:?}");
}

#[test]
fn without_a_majority_nothing_is_said() {
    let half = |nodes, odd| {
        judged(nodes, move |number, facts| {
            healthy(number, facts);
            if number < odd {
                facts.kernel = Fact::known("5.4".into(), "uname");
            }
        })
    };
    assert!(differences(&half(4, 2)).is_empty());
    assert!(differences(&half(2, 1)).is_empty());
    // Two of five differ alike: each is told.
    assert_eq!(differences(&half(5, 2)).len(), 2);
    // Of three that know, two agree.
    let unknown = judged(4, |number, facts| {
        healthy(number, facts);
        facts.kernel = match number {
            0 => Fact::unknown("Permission denied"),
            1 => Fact::known("5.4".into(), "uname"),
            _ => Fact::known("6.8".into(), "uname"),
        };
    });
    let [finding] = differences(&unknown)[..] else {
        panic!("{:#?}", unknown.findings)
    };
    assert_eq!(
        finding.says,
        "The kernel of node02 is 5.4; 2 of 3 nodes have 6.8."
    );
}

#[test]
fn what_is_told_of_one_nic_is_not_told_of_another() {
    let judgement = judged(5, |number, facts| {
        healthy(number, facts);
        if number == 1 {
            let five = (LinkSpeed::Gen5, 16);
            for function in functions(facts) {
                match &*function.address.0 {
                    // Trained down: another rule names it, and gets the comparison.
                    TwoSockets::NIC4 => function.link = link((LinkSpeed::Gen5, 8), five),
                    // A lesser card: nothing is wrong with its link.
                    TwoSockets::NIC0 => {
                        function.link = link((LinkSpeed::Gen4, 16), (LinkSpeed::Gen4, 16));
                    }
                    _ => {}
                }
            }
            for device in rdma(facts) {
                device.ports[0].rate = Fact::known(Gbps(200.0), "rate");
            }
        }
    });
    let links: Vec<_> = judgement
        .findings
        .iter()
        .filter(|f| f.says.contains("PCIe link"))
        .map(|f| (f.rule, f.subject.to_string(), f.evidence.len()))
        .collect();
    let expected = [
        (Rule::PcieLink, "mlx5_1 of node02".to_owned(), 2),
        (Rule::DiffersFromSiblings, "mlx5_0 of node02".to_owned(), 2),
    ];
    assert_eq!(links, expected);
}

/// Only socket 0 has NICs, which is odd where the siblings have one on each.
fn wrong_socket(facts: &mut NodeFacts) {
    rdma(facts)[1].pci = Fact::known(PciAddress(TwoSockets::NIC1.into()), "device");
}

#[test]
fn a_nic_on_the_wrong_socket_is_a_fault_where_siblings_have_it_better() {
    let judgement = judged(3, |number, facts| {
        healthy(number, facts);
        if number == 1 {
            wrong_socket(facts);
        }
    });
    let paths: Vec<_> = judgement
        .findings
        .iter()
        .filter(|f| f.rule == Rule::GpuNicPath)
        .collect();
    let [finding] = paths[..] else {
        panic!("{:#?}", judgement.findings)
    };
    assert_eq!(finding.severity, Severity::Fault);
    assert_eq!(finding.subject.to_string(), "mlx5_1 of node02");
    let last = &finding.evidence.last().unwrap().saw;
    assert_eq!(last, "2 of 3 nodes have PIX to 1, SYS to 2");
    let ways = differences(&judgement);
    assert!(
        !ways.iter().any(|f| f.says.contains("way to the GPUs")),
        "{ways:#?}"
    );

    let all = judged(3, |number, facts| {
        healthy(number, facts);
        wrong_socket(facts);
    });
    assert!(
        all.findings.iter().all(|f| f.severity == Severity::Warning),
        "{:#?}",
        all.findings
    );
    assert_eq!(all.findings.len(), 3);
}

#[test]
fn a_tree_larger_than_any_machines_is_left_alone() {
    let judgement = judged(3, |number, facts| {
        healthy(number, facts);
        if number == 1 {
            let gpu = functions(facts).iter().find(|f| f.role == PciRole::Gpu);
            let gpu = gpu.unwrap().clone();
            functions(facts).extend(std::iter::repeat_n(gpu, 65));
        }
    });
    assert!(judgement.findings.is_empty(), "{:#?}", judgement.findings);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_order_of_nodes_does_not_matter_and_only_the_odd_one_is_named(
        nodes in 3usize..9,
        odd in 0usize..9,
        which in 0usize..CHANGES.len(),
        by in 0usize..9,
    ) {
        let odd = odd % nodes;
        let ledger = ledger(&run(nodes, |number, facts| {
            healthy(number, facts);
            if number == odd {
                (CHANGES[which].2)(facts);
            }
        }));
        let said = |turn: usize| {
            let mut said = Said::default();
            let mut views = NodeView::of_run(&ledger);
            views.rotate_left(turn % nodes);
            for rule in RULES {
                (rule.check)(&views, &mut said);
            }
            said
        };
        let first = said(0);
        prop_assert_eq!(&first, &said(by));
        let name = format!("node{:02}", odd + 1);
        prop_assert!(!first.findings.is_empty());
        prop_assert!(first.findings.iter().all(|f| f.says.contains(&name)), "{:#?}", first);
    }

    #[test]
    fn whatever_nodes_say_nothing_breaks(
        texts in proptest::collection::vec("\\PC{0,200}", 3..6),
        numbers in proptest::collection::vec(any::<u32>(), 3..6),
    ) {
        let judgement = judged(5, |number, facts| {
            let text = texts[number % texts.len()].clone();
            facts.kernel = Fact::known(text.clone(), "uname");
            rdma(facts)[0].firmware = Fact::known(text.clone(), text);
            let value = numbers[number % numbers.len()];
            mtu(facts, 1, value, value);
            for function in functions(facts) {
                function.numa_node = Fact::known(value, "numa_node");
            }
            facts.numa = Fact::known(vec![NumaNode { number: value, distances: numbers.clone(), ..NumaNode::default() }], "");
        });
        for finding in differences(&judgement) {
            prop_assert!(finding.says.chars().count() < 500);
        }
    }
}
