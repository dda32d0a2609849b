//! Rules that see nothing of a node but its PCIe tree: where one has nothing to say of a server, it has
//! nothing to say of the others that are built alike.

use std::collections::HashSet;

use super::{RULES, Said};
use crate::judge::NodeView;
use crate::judge::links::Kinds;

/// The kinds of servers that were looked at.
#[derive(Default)]
pub(in crate::judge::rules) struct Quiet<'a> {
    kinds: Kinds<'a>,
    /// Kinds, and the places of rules that said nothing of them.
    silent: HashSet<(usize, usize)>,
}

impl<'a> Quiet<'a> {
    /// Everything that the facts of a node by itself say.
    pub(in crate::judge::rules) fn of_node(&mut self, node: &NodeView<'a>, said: &mut Said) {
        let kind = self.kinds.number(node);
        for (place, rule) in RULES.iter().enumerate() {
            let asked = kind.filter(|_| rule.by_tree).map(|kind| (kind, place));
            if asked.is_some_and(|asked| self.silent.contains(&asked)) {
                continue;
            }
            let before = (said.findings.len(), said.cannot_tell.len());
            (rule.check)(node, said);
            let is_silent = before == (said.findings.len(), said.cannot_tell.len());
            self.silent.extend(asked.filter(|_| is_silent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::of_node;
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{Fact, NodeFacts, NodeName, PcieErrors};

    /// Servers with one tree in memory, and every third with errors on one of its functions.
    fn servers() -> Vec<(NodeName, NodeFacts)> {
        let healthy = TwoSockets::facts();
        let server = |number: usize| {
            let mut facts = healthy.clone();
            if let Fact::Known { value, .. } = &mut facts.pcie
                && number % 3 == 2
            {
                let place = number % value.functions.len();
                value.functions[place].errors = Fact::known(
                    PcieErrors {
                        fatal: [("DLP".to_owned(), 7)].into(),
                        ..PcieErrors::default()
                    },
                    "aer_dev_fatal",
                );
            }
            (NodeName::from(format!("node{number:02}")), facts)
        };
        (0..24).map(server).collect()
    }

    #[test]
    fn what_is_not_asked_again_would_have_said_nothing() {
        let servers = servers();
        let (mut quiet, mut some, mut all) = (Quiet::default(), Said::default(), Said::default());
        for (name, facts) in &servers {
            let node = NodeView::alone(name, facts);
            quiet.of_node(&node, &mut some);
            of_node(&node, &mut all);
        }
        assert_eq!(some, all);
        assert!(!all.findings.is_empty() && !quiet.silent.is_empty());
        assert_eq!(quiet.kinds.count(), 9, "one for all that are healthy");
    }
}
