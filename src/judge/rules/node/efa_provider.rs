//! An EFA device, and no libfabric that could use it.

use super::Said;
use crate::judge::NodeView;
use crate::judge::rules::{About, plain};
use crate::model::{Evidence, Fact, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::EfaProvider,
    means: "The node has an AWS Elastic Fabric Adapter, and the library that NCCL and MPI use it through is not \
            installed. They fall back to TCP sockets without an error.",
    detected: "A device with the driver efa, and libfabric.so.1 in the places where AWS's installer and \
               distributions put it. A library elsewhere, or in a container only, is not seen.",
    remedy: "Install the EFA software (libfabric with its efa provider, and the aws-ofi-nccl plugin) on the node or \
             in the container; `fi_info -p efa` shows whether it works, NCCL_DEBUG=INFO whether it is used.",
};

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(Fact::Unknown { why }) = &node.facts.efa_provider else {
        return;
    };
    let devices = node.facts.rdma.value().into_iter().flatten();
    let efa = devices.filter(|device| device.driver.value().is_some_and(|name| name == "efa"));
    let names: Vec<_> = efa.map(|device| device.name.as_str()).collect();
    let seen = Evidence {
        saw: why.to_string(),
        from: "the file system".into(),
    };
    said.findings.push(plain(
        Rule::EfaProvider,
        Severity::Warning,
        node.subject(),
        format!(
            "{} has {} EFA devices, and no libfabric to use them through: NCCL and MPI fall back to sockets.",
            node.name,
            names.len()
        ),
        vec![seen],
        ABOUT.remedy,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::inspect;
    use crate::model::testing::{facts, port};
    use crate::model::{Finding, NodeName};

    fn told(provider: Option<Fact<String>>) -> Vec<Finding> {
        let mut facts = facts(vec![("rdmap0s6", "0000:01:00.0", port())]);
        facts.efa_provider = provider;
        let mut said = inspect(&NodeName::from("node01"), &facts);
        said.findings.retain(|f| f.rule == Rule::EfaProvider);
        said.findings
    }

    #[test]
    fn a_missing_library_is_warned_of_where_it_was_looked_for() {
        let found = told(Some(Fact::unknown("no libfabric.so.1 in /usr/lib64")));
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(found[0].evidence[0].saw, "no libfabric.so.1 in /usr/lib64");
        assert!(told(Some(Fact::known("/usr/lib64/libfabric.so.1".into(), ""))).is_empty());
        assert!(told(None).is_empty());
    }
}
