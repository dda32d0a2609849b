//! TCP far below the line where RDMA between the same NICs is not: the network is well.

use super::{About, Context, plain};
use crate::judge::cost::{PairCost, StepCost, pair_costs};
use crate::judge::expected;
use crate::ledger::Ledger;
use crate::model::{Evidence, Finding, Gbps, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::TcpLimit,
    means: "TCP carries far less between these NICs than RDMA does. What limits it is the CPU time that the \
            kernel's path and its copies take, and not the network.",
    detected: "The best of the TCP probes of a pair, whether of one connection, of several or without copies, \
               is below half of what its links can carry, and the best of its RDMA probes is not below \
               `degraded_below`. Only where the cost of moving data is measured; not looked at for software \
               RDMA, nor where no line rate is known.",
    remedy: REMEDY,
};

const REMEDY: &str = "Nothing is wrong with the network. Traffic that is large goes over RDMA; where it has to be \
                      TCP, use more connections, larger segments (MTU 9000), and a core near the NIC for each.";

/// Below this share of what the links can carry, TCP is far from it.
const FAR: f64 = 0.5;

/// Pairs that are shown as evidence.
const SHOWN: usize = 4;

/// TCP's and RDMA's best of a pair, and TCP's share of what is expected.
struct Seen<'a> {
    pair: &'a PairCost<'a>,
    tcp: &'a StepCost<'a>,
    rdma: &'a StepCost<'a>,
    expected: Gbps,
    share: f64,
}

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let Some(pairs) = pair_costs(context.ledger) else {
        return Vec::new();
    };
    let seen = pairs.iter().filter_map(|pair| {
        let seen = look(context.ledger, pair)?;
        let is_well = seen.rdma.rate.share_of(seen.expected)? >= context.expect.degraded_below;
        (is_well && seen.share < FAR).then_some(seen)
    });
    let mut seen: Vec<Seen<'_>> = seen.collect();
    seen.sort_by(|a, b| a.share.total_cmp(&b.share));
    finding(&seen, pairs.len()).into_iter().collect()
}

fn look<'a>(ledger: &Ledger, pair: &'a PairCost<'a>) -> Option<Seen<'a>> {
    if pair.is_software {
        return None;
    }
    let best = |is_tcp: bool| {
        let steps = pair.steps.iter().filter(|step| step.is_tcp() == is_tcp);
        steps.max_by(|a: &&StepCost<'_>, b| a.rate.0.total_cmp(&b.rate.0))
    };
    let (tcp, rdma) = (best(true)?, best(false)?);
    let expected = *expected(ledger, rdma.probe).value()?;
    Some(Seen {
        pair,
        tcp,
        rdma,
        expected,
        share: tcp.rate.share_of(expected)?,
    })
}

/// One for all pairs: TCP is mostly the same on all of them.
fn finding(seen: &[Seen<'_>], many: usize) -> Option<Finding> {
    let worst = seen.first()?;
    let others = match seen.len() {
        1 => String::new(),
        of => format!(" {of} of {many} pairs of NICs are like that."),
    };
    let says = format!(
        "{} reaches {} by TCP and {} by RDMA: this looks like a TCP limit, not the network.{others}",
        worst.pair.pair, worst.tcp.rate, worst.rdma.rate
    );
    let evidence = seen.iter().take(SHOWN).map(|seen| {
        let Seen { tcp, rdma, .. } = seen;
        Evidence {
            saw: format!(
                "{}: {} {}, {} {}",
                seen.pair.pair, tcp.step, tcp.rate, rdma.step, rdma.rate
            ),
            from: format!(
                "{} and {}",
                tcp.probe.planned.probe, rdma.probe.planned.probe
            ),
        }
    });
    let subject = Subject::Pair(worst.pair.pair.clone());
    let kind = plain(
        Rule::TcpLimit,
        Severity::Note,
        subject,
        says,
        evidence.collect(),
        REMEDY,
    );
    Some(Finding {
        measured: Some(worst.tcp.rate),
        expected: Some(worst.expected),
        expected_from: Some("what the links can carry by RDMA".to_owned()),
        ratio: Some(worst.share),
        ..kind
    })
}
