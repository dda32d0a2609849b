//! RDMA devices that the kernel has and the agent cannot open: libraries fall back to sockets.

use super::Said;
use crate::judge::rules::{About, in_a_row, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{Access, Evidence, HostFacts, Rule, Severity, VerbsNode};

pub(super) const ABOUT: About = About {
    rule: Rule::DeviceAccess,
    means: "The kernel has RDMA devices, and the agent cannot open the character devices that applications reach them \
            by. NCCL and others then use sockets, at a fraction of the rate, and say so only in their debug output.",
    detected: "Opens /dev/infiniband/uverbs* for reading and writing, as libibverbs does; which device is whose is in \
               /sys/class/infiniband_verbs. A fault where there is no such file or it does not open, a warning where \
               only this user is refused. In a container that was given some of the NICs, the others are not meant. \
               Cannot be told of a copy of a system.",
    remedy: "Load ib_uverbs; give containers /dev/infiniband (docker: --device, Kubernetes: the RDMA device plugin); \
             elsewhere let rdma-core's udev rules make /dev/infiniband/uverbs* writable for all.",
};

/// A NIC that counts and does not open, with what is known of its device.
struct Closed<'a> {
    name: &'a str,
    node: Option<&'a VerbsNode>,
}

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let host = &node.facts.host;
    let nodes = match (host.verbs_access.value(), host.verbs_access.why_unknown()) {
        (Some(nodes), _) => nodes,
        // A copy of a system has nobody who could be refused.
        (None, _) if node.nics.is_empty() || host.user.value().is_none() => return,
        (None, why) => {
            return said.cannot_tell(Rule::DeviceAccess, node.subject(), why.unwrap_or_default());
        }
    };
    let of = |nic: &NicView<'_>| nodes.iter().find(|n| n.device == nic.id.device);
    let closed: Vec<_> = node
        .nics
        .iter()
        .map(|nic| Closed {
            name: &nic.device.name,
            node: of(nic),
        })
        .filter(|closed| closed.node.is_none_or(|node| node.access != Access::Usable))
        .collect();
    let some_open = closed.len() < node.nics.len();
    // What a container was not given is nothing that it misses.
    let in_container = host.container.value().is_some_and(Option::is_some);
    let by_rail = node.nics.iter().any(|nic| nic.rail.is_some());
    if closed.is_empty() || (some_open && in_container && !by_rail) {
        return;
    }
    let names = in_a_row(closed.iter().map(|closed| closed.name));
    let (severity, reason, remedy) = reason(host, &closed[0], nodes.is_empty());
    said.findings.push(plain(
        Rule::DeviceAccess,
        severity,
        node.subject(),
        format!(
            "The agent on {} cannot open {names}: {reason}. RDMA falls back to sockets.",
            node.name
        ),
        evidence(node, &closed),
        remedy,
    ));
}

/// How bad, why, and what to do, by what the first of them says.
fn reason(
    host: &HostFacts,
    first: &Closed<'_>,
    no_class: bool,
) -> (Severity, String, &'static str) {
    if no_class {
        let why = "the kernel module ib_uverbs is not loaded".to_owned();
        return (
            Severity::Fault,
            why,
            "Load ib_uverbs (modprobe ib_uverbs), and have it loaded at boot.",
        );
    }
    let Some(node) = first.node else {
        let why = "the kernel has no character device for it".to_owned();
        return (Severity::Fault, why, ABOUT.remedy);
    };
    let path = &node.path;
    let is_root = host.user.value() == Some(&0);
    match &node.access {
        Access::Denied if !is_root => (
            Severity::Warning,
            format!("{path} may not be opened by this user"),
            "Make /dev/infiniband/uverbs* writable for those who run jobs: rdma-core's udev rules do so for all \
             (mode 0666); or add the user to the group that owns them.",
        ),
        Access::Denied => (
            Severity::Fault,
            format!("opening {path} is refused even to root, as a container's device rules do"),
            "Give the container the device: docker --device=/dev/infiniband/…, Kubernetes by the RDMA device plugin.",
        ),
        Access::Absent => (
            Severity::Fault,
            format!("{path} does not exist"),
            "Give a container /dev/infiniband (docker: --device, Kubernetes: the RDMA device plugin); on a host let \
             udev make it (udevadm trigger).",
        ),
        Access::Usable | Access::Fails(_) => (
            Severity::Fault,
            format!("{path}: {}", node.access),
            ABOUT.remedy,
        ),
    }
}

fn evidence(node: &NodeView<'_>, closed: &[Closed<'_>]) -> Vec<Evidence> {
    let source = node.facts.host.verbs_access.source().unwrap_or_default();
    let one = |closed: &Closed<'_>| match closed.node {
        Some(found) => Evidence {
            saw: format!("{}: {}", closed.name, found.access),
            from: format!("{}: {}", node.name, found.path),
        },
        None => Evidence {
            saw: format!("{} has no character device", closed.name),
            from: format!("{}: {source}", node.name),
        },
    };
    closed.iter().take(4).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::node::testing::{all, only};
    use crate::model::testing::{facts, port};
    use crate::model::{Fact, Finding, NodeFacts};

    /// Two NICs whose devices answer so.
    fn node(user: u32, access: &[Access]) -> NodeFacts {
        let mut facts = facts(vec![
            ("mlx5_0", "0000:98:00.0", port()),
            ("mlx5_1", "0000:99:00.0", port()),
        ]);
        let verbs = |(index, access): (usize, &Access)| VerbsNode {
            device: format!("mlx5_{index}"),
            path: format!("/dev/infiniband/uverbs{index}"),
            access: access.clone(),
        };
        let nodes = access.iter().enumerate().map(verbs).collect();
        facts.host.verbs_access = Fact::known(nodes, "/sys/class/infiniband_verbs");
        facts.host.user = Fact::known(user, "geteuid");
        facts.host.container = Fact::known(None, "no mark");
        facts
    }

    fn of(facts: &NodeFacts) -> Option<Finding> {
        only(facts, Rule::DeviceAccess)
    }

    use Access::{Absent, Denied, Usable};

    #[test]
    fn each_way_of_being_shut_out_has_its_reason() {
        let finding = of(&node(1000, &[Denied, Denied])).unwrap();
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.says,
            "The agent on node017 cannot open mlx5_0, mlx5_1: /dev/infiniband/uverbs0 may not be opened by this \
             user. RDMA falls back to sockets."
        );
        for (user, access, part) in [
            (0, vec![Denied, Denied], "refused even to root"),
            (1000, vec![Absent, Absent], "uverbs0 does not exist"),
            (0, vec![], "ib_uverbs is not loaded"),
            (0, vec![Usable], "no character device for it"),
            (
                0,
                vec![Usable, Access::Fails("I/O error".into())],
                "I/O error",
            ),
        ] {
            let finding = of(&node(user, &access)).unwrap();
            assert_eq!(finding.severity, Severity::Fault, "{access:?}");
            assert!(finding.says.contains(part), "{}", finding.says);
        }
    }

    #[test]
    fn what_opens_or_was_not_given_to_a_container_is_no_finding() {
        assert!(of(&node(0, &[Usable, Usable])).is_none());
        let mut pod = node(0, &[Usable, Absent]);
        assert!(of(&pod).is_some());
        pod.host.container = Fact::known(Some("kubernetes".into()), "/proc/1/cgroup");
        assert!(of(&pod).is_none());
        // Given none at all, it is one.
        let mut pod = node(0, &[Absent, Absent]);
        pod.host.container = Fact::known(Some("docker".into()), "/.dockerenv");
        assert!(of(&pod).is_some());
    }

    #[test]
    fn a_copy_of_a_system_is_not_asked() {
        let mut copy = node(0, &[]);
        copy.host.verbs_access = Fact::unknown("not the live system");
        copy.host.user = Fact::unknown("not the live system");
        assert!(of(&copy).is_none());
        let told = |facts: &NodeFacts| {
            let told = all(facts).cannot_tell;
            told.iter().any(|c| c.rule == Rule::DeviceAccess)
        };
        assert!(!told(&copy));
        copy.host.user = Fact::known(0, "geteuid");
        assert!(told(&copy));
    }
}
