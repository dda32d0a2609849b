//! Whether a pattern that names nodes can be played with those of a run.

use crate::model::{NodeName, Pattern};

use super::problem::nearest_node;

/// What is wrong with the nodes that a pattern names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A node that the run has not.
    #[error("`{node}` is not among the nodes of the run{}", suggest(.meant.as_deref()))]
    NotThere {
        /// As it was typed.
        node: String,
        /// A node of the run of nearly that name.
        meant: Option<String>,
    },
    /// A pair of one node.
    #[error("`{node}` cannot be paired with itself")]
    Itself {
        /// The node.
        node: NodeName,
    },
    /// One node and nobody to meet.
    #[error("`{node}` is the only node of the run: there is nobody to measure it with")]
    Alone {
        /// The node.
        node: NodeName,
    },
}

fn suggest(meant: Option<&str>) -> String {
    meant.map_or(String::new(), |name| format!(": did you mean `{name}`?"))
}

/// Checks the nodes that a pattern names against those of the run.
///
/// # Errors
/// [`PatternError`] for the first that cannot be: such a run would measure less than was asked for,
/// and say nothing of it.
pub fn check_pattern(pattern: &Pattern, nodes: &[NodeName]) -> Result<(), PatternError> {
    let there = |node: &NodeName| match nodes.contains(node) {
        true => Ok(()),
        false => Err(PatternError::NotThere {
            node: node.to_string(),
            meant: nearest_node(&node.0, nodes.iter().map(|node| node.0.as_str()))
                .map(str::to_owned),
        }),
    };
    match pattern {
        Pattern::Adaptive | Pattern::Quick | Pattern::Full | Pattern::Ring | Pattern::Nothing => {
            Ok(())
        }
        Pattern::One { node } => {
            there(node)?;
            match nodes.iter().any(|other| other != node) {
                true => Ok(()),
                false => Err(PatternError::Alone { node: node.clone() }),
            }
        }
        Pattern::Pairs { pairs } => pairs.iter().try_for_each(|(a, b)| {
            there(a)?;
            there(b)?;
            match a == b {
                true => Err(PatternError::Itself { node: a.clone() }),
                false => Ok(()),
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_of_the_run_can_be_named() {
        let nodes = ["node01", "node02", "node-a.x"].map(NodeName::from);
        let one = |node: &str| Pattern::One { node: node.into() };
        let pairs = |pairs: &[(&str, &str)]| Pattern::Pairs {
            pairs: pairs
                .iter()
                .map(|(a, b)| ((*a).into(), (*b).into()))
                .collect(),
        };
        let said = |pattern: Pattern| match check_pattern(&pattern, &nodes) {
            Ok(()) => "good".to_owned(),
            Err(error) => error.to_string(),
        };
        for (pattern, wanted) in [
            (Pattern::Ring, "good"),
            (one("node-a.x"), "good"),
            (
                one("node1"),
                "`node1` is not among the nodes of the run: did you mean `node01`?",
            ),
            (one("gpu7"), "`gpu7` is not among the nodes of the run"),
            (pairs(&[("node01", "node02")]), "good"),
            (
                pairs(&[("node01", "node02"), ("node02", "node2")]),
                "`node2` is not among the nodes of the run: did you mean `node02`?",
            ),
            (
                pairs(&[("node01", "node01")]),
                "`node01` cannot be paired with itself",
            ),
        ] {
            assert_eq!(said(pattern), wanted);
        }
        let alone = check_pattern(&one("node01"), &nodes[..1]).unwrap_err();
        assert!(alone.to_string().contains("only node"), "{alone}");
    }
}
