//! What one rule says of a node, for the tests of the rules.

use crate::judge::{Said, inspect};
use crate::model::{NodeFacts, PciFunction, PcieTree, Rule};

/// What `rule` says of a node called `node02` by itself.
pub fn said(rule: Rule, facts: &NodeFacts) -> Said {
    let mut said = inspect(&"node02".into(), facts);
    said.findings.retain(|finding| finding.rule == rule);
    said.cannot_tell.retain(|line| line.rule == rule);
    said
}

/// The function at an address that the tree has.
pub fn at<'t>(tree: &'t mut PcieTree, address: &str) -> &'t mut PciFunction {
    let mut functions = tree.functions.iter_mut();
    let found = functions.find(|function| function.address.0 == address);
    found.unwrap_or_else(|| panic!("no {address}"))
}
