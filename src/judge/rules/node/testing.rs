//! Nodes for the tests of these rules.

use crate::judge::inspect;
use crate::judge::rules::Said;
use crate::model::testing::pcie::TwoSockets;
use crate::model::{
    Fact, Finding, KernelModule, NodeFacts, NodeName, NvidiaDriver, PciFunction, PcieTree, Rule,
};

/// Everything said of a node by itself, apart from its PCIe links.
pub(in crate::judge) fn all(facts: &NodeFacts) -> Said {
    let mut said = inspect(&name(), facts);
    said.findings.retain(|f| f.rule != Rule::PcieLink);
    said
}

/// The only finding of a rule, if there is one.
pub(in crate::judge) fn only(facts: &NodeFacts, rule: Rule) -> Option<Finding> {
    let mut found = inspect(&name(), facts).findings;
    found.retain(|finding| finding.rule == rule);
    assert!(found.len() < 2, "{found:#?}");
    found.pop()
}

/// Its name.
pub(in crate::judge) fn name() -> NodeName {
    NodeName::from("node017")
}

/// Three GPUs and five NICs, without peer memory and with NVIDIA's proprietary driver.
pub(in crate::judge) fn without_gpudirect() -> NodeFacts {
    let mut facts = TwoSockets::facts();
    facts.gpudirect.peer_clients = Fact::known(vec![], "memory_peers does not exist");
    facts.host.modules = Fact::known(vec![module("nvidia")], "/sys/module");
    let driver = NvidiaDriver {
        version: "550.54.15".into(),
        open: false,
    };
    facts.gpu.nvidia = Fact::known(driver, "/proc/driver/nvidia/version");
    facts
}

/// A loaded module.
pub(in crate::judge) fn module(name: &str) -> KernelModule {
    KernelModule {
        name: name.into(),
        version: Fact::unknown("it states none"),
    }
}

/// What `rule` says of a node called `node02` by itself.
pub(in crate::judge) fn said(rule: Rule, facts: &NodeFacts) -> Said {
    let mut said = inspect(&"node02".into(), facts);
    said.findings.retain(|finding| finding.rule == rule);
    said.cannot_tell.retain(|line| line.rule == rule);
    said
}

/// The function at an address that the tree has.
pub(in crate::judge) fn at<'t>(tree: &'t mut PcieTree, address: &str) -> &'t mut PciFunction {
    let mut functions = tree.functions.iter_mut();
    let found = functions.find(|function| function.address.0 == address);
    found.unwrap_or_else(|| panic!("no {address}"))
}
