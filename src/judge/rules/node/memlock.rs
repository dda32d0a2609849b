//! A limit on locked memory below what RDMA registers: it fails, or falls back to sockets.

use super::Said;
use crate::judge::NodeView;
use crate::judge::rules::{About, plain};
use crate::model::{Bytes, Evidence, MemlockLimit, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::Memlock,
    means: "Memory that a NIC reads or writes is locked, and the limit on that (RLIMIT_MEMLOCK) is lower than \
            what applications register. Registering fails with \"Cannot allocate memory\", or a library \
            quietly uses sockets.",
    detected: "getrlimit(RLIMIT_MEMLOCK) as the agent has it: what a login gets, and not always what a \
               batch system or a container gives. A fault up to 8 MiB, which is no more than a system's \
               default, a warning below 16 GiB. Who has CAP_IPC_LOCK, such as root, is exempt: then nothing \
               is said.",
    remedy: REMEDY,
};

/// What systems give by default: 64 KiB, and 8 MiB from Linux 5.16 on (MLOCK_LIMIT). Not enough for
/// the buffers and queues of one application.
const NOTHING: Bytes = Bytes(8 << 20);
/// What operators of such clusters ask for at the least.
const ENOUGH: Bytes = Bytes(16 << 30);

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    // Without NICs that count nobody registers memory.
    if node.nics.is_empty() {
        return;
    }
    let facts = node.facts;
    let limit = match (facts.memlock.value(), facts.memlock.why_unknown()) {
        (Some(MemlockLimit::Bytes(limit)), _) if *limit < ENOUGH => *limit,
        (Some(_), _) => return,
        // A copy of a system has no agent with a limit.
        (None, _) if facts.host.user.value().is_none() => return,
        (None, why) => {
            return said.cannot_tell(Rule::Memlock, node.subject(), why.unwrap_or_default());
        }
    };
    match (
        facts.host.memlock_exempt.value(),
        facts.host.memlock_exempt.why_unknown(),
    ) {
        (Some(true), _) => return,
        (Some(false), _) => {}
        (None, why) => {
            let why = format!(
                "the limit is {limit}, and whether it holds for the agent (CAP_IPC_LOCK) is unknown: {}",
                why.unwrap_or_default()
            );
            return said.cannot_tell(Rule::Memlock, node.subject(), why);
        }
    }
    let (severity, cost) = if limit <= NOTHING {
        (Severity::Fault, "RDMA cannot register its buffers")
    } else {
        (
            Severity::Warning,
            "large jobs cannot register their buffers",
        )
    };
    said.findings.push(plain(
        Rule::Memlock,
        severity,
        node.subject(),
        format!(
            "{} lets the agent lock {limit} of memory, so that {cost}.",
            node.name
        ),
        vec![Evidence {
            saw: format!("RLIMIT_MEMLOCK is {limit}, and the agent has no CAP_IPC_LOCK"),
            from: format!(
                "{}: {}",
                node.name,
                facts.memlock.source().unwrap_or_default()
            ),
        }],
        REMEDY,
    ));
}

const REMEDY: &str = "Set `* soft memlock unlimited` and `* hard memlock unlimited` in a file of /etc/security/limits.d, \
                      and LimitMEMLOCK=infinity for the services that start jobs (sshd, slurmd, containerd, docker); \
                      then log in anew.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::node::testing::{all, only};
    use crate::model::testing::{facts, port};
    use crate::model::{Fact, Finding, NodeFacts, SoftwareRdma};

    /// A node with one NIC, the limit in bytes, and whether the agent is exempt.
    fn node(limit: u64, exempt: bool) -> NodeFacts {
        let mut facts = facts(vec![("mlx5_0", "0000:98:00.0", port())]);
        let limit = MemlockLimit::Bytes(Bytes(limit));
        facts.memlock = Fact::known(limit, "getrlimit(RLIMIT_MEMLOCK)");
        facts.host.memlock_exempt = Fact::known(exempt, "/proc/self/status");
        facts
    }

    fn low(facts: &NodeFacts) -> Option<Finding> {
        only(facts, Rule::Memlock)
    }

    #[test]
    fn a_default_limit_is_a_fault_and_a_low_one_a_warning() {
        let finding = low(&node(64 << 10, false)).unwrap();
        assert_eq!(finding.severity, Severity::Fault);
        assert_eq!(
            finding.says,
            "node017 lets the agent lock 64 KiB of memory, so that RDMA cannot register its buffers."
        );
        let severity = |limit| low(&node(limit, false)).map(|finding| finding.severity);
        assert_eq!(severity(8 << 20), Some(Severity::Fault));
        assert_eq!(severity(1 << 30), Some(Severity::Warning));
        assert_eq!(severity(16 << 30), None);
    }

    #[test]
    fn software_rdma_locks_memory_too() {
        let mut facts = node(64 << 10, false);
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value[0].software = Some(SoftwareRdma::Rxe);
        }
        assert!(low(&facts).is_some());
    }

    #[test]
    fn root_and_nodes_without_rdma_are_not_meant() {
        assert!(low(&node(64 << 10, true)).is_none());
        let mut laptop = node(8 << 20, false);
        laptop.rdma = Fact::unknown("/sys/class/infiniband does not exist");
        assert!(low(&laptop).is_none());
        assert!(all(&laptop).cannot_tell.is_empty());
    }

    #[test]
    fn who_may_be_exempt_is_not_accused() {
        let mut facts = node(64 << 10, false);
        facts.host.memlock_exempt = Fact::default();
        assert!(low(&facts).is_none());
        let told = all(&facts).cannot_tell;
        assert!(told.iter().any(|c| c.rule == Rule::Memlock), "{told:?}");
    }

    #[test]
    fn a_copy_of_a_system_has_no_limit() {
        let mut facts = node(64 << 10, false);
        facts.memlock = Fact::unknown("not the live system");
        let told = |facts: &NodeFacts| {
            let told = all(facts).cannot_tell;
            told.iter().any(|c| c.rule == Rule::Memlock)
        };
        assert!(!told(&facts));
        facts.host.user = Fact::known(1000, "geteuid");
        assert!(told(&facts));
    }
}
