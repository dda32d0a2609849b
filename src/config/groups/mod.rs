//! Leaf groups from files that know the fabric: Slurm's topology.conf, or what ibnetdiscover printed.
//! The text comes in; groups of the cluster's own nodes, or problems with their places, go out.

mod ibnetdiscover;
mod names;
mod slurm;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::model::{LeafGroup, NodeName};

use super::hostlist::{MAX_NAMES, fold};
use super::problem::{ConfigErrors, MAX_PROBLEMS, Problem};
use names::Names;

/// A file that tells leaf groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupsFile {
    /// Slurm's topology.conf, for topology/tree or topology/block.
    TopologyConf(PathBuf),
    /// What `ibnetdiscover` printed.
    Ibnetdiscover(PathBuf),
}

impl GroupsFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Self::TopologyConf(path) | Self::Ibnetdiscover(path) => path,
        }
    }

    /// The groups that its text tells, with only these nodes and by these names; none is empty, and
    /// there are none where the file knows none of the nodes.
    ///
    /// # Errors
    /// [`ConfigErrors`] with every problem and its place.
    pub fn read(&self, text: &str, nodes: &[NodeName]) -> Result<Vec<LeafGroup>, ConfigErrors> {
        let names = Names::new(nodes);
        let found = match self {
            Self::TopologyConf(_) => slurm::read(text, &names),
            Self::Ibnetdiscover(_) => ibnetdiscover::read(text, &names),
        };
        found.map_err(|problems| {
            ConfigErrors::new(&self.path().display().to_string(), text, problems)
        })
    }
}

/// Nodes that one place in a text puts into a group.
pub(super) struct Placed {
    pub group: String,
    pub nodes: Vec<String>,
    pub span: Option<Range<usize>>,
}

/// The groups in the order of their first places; a node in two of them is a problem that names both.
pub(super) fn distinct(
    text: &str,
    placed: &[Placed],
    problems: &mut Vec<Problem>,
) -> Vec<LeafGroup> {
    let mut groups: Vec<LeafGroup> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    let mut homes: HashMap<&str, &Placed> = HashMap::new();
    for here in placed {
        let at = *index.entry(&here.group).or_insert_with(|| {
            groups.push(LeafGroup {
                name: here.group.clone(),
                nodes: Vec::new(),
            });
            groups.len() - 1
        });
        for node in clashes(text, here, &mut homes, problems) {
            groups[at].nodes.push(NodeName::from(node.to_owned()));
        }
    }
    if placed.iter().map(|here| here.nodes.len()).sum::<usize>() > MAX_NAMES {
        let message = format!("the groups name more than {MAX_NAMES} nodes");
        problems.push(Problem::new(text, None, message));
    }
    groups
}

/// Tells of the nodes of a place that are in another group already, and gives those that are new.
fn clashes<'a>(
    text: &str,
    here: &'a Placed,
    homes: &mut HashMap<&'a str, &'a Placed>,
    problems: &mut Vec<Problem>,
) -> Vec<&'a str> {
    let mut fresh = Vec::new();
    let mut elsewhere: BTreeMap<&str, (&Placed, Vec<&str>)> = BTreeMap::new();
    for node in here.nodes.iter().map(String::as_str) {
        let there = *homes.entry(node).or_insert_with(|| {
            fresh.push(node);
            here
        });
        if there.group != here.group {
            let both = elsewhere.entry(&there.group);
            both.or_insert((there, Vec::new())).1.push(node);
        }
    }
    let room = MAX_PROBLEMS.saturating_sub(problems.len());
    let found = elsewhere.into_values().take(room);
    problems.extend(found.map(|(there, nodes)| clash(text, here, there, &nodes)));
    fresh
}

fn clash(text: &str, here: &Placed, there: &Placed, nodes: &[&str]) -> Problem {
    let (nodes, are) = match nodes {
        [one] => ((*one).to_owned(), "is"),
        many => (fold(many), "are"),
    };
    let first = Problem::new(text, there.span.clone(), "").place;
    let line = first.map_or(String::new(), |(line, _)| format!(" (line {line})"));
    let message = format!(
        "`{nodes}` {are} in group `{}` and in `{}`{line}",
        here.group, there.group
    );
    let mut problem = Problem::new(text, here.span.clone(), message);
    problem.help("a node is below one leaf switch, or one set of them: take it out of one group");
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_in_two_groups_is_told_with_both_places() {
        let text = "first line\nsecond line\n";
        let placed = |group: &str, list: &[&str], span| Placed {
            group: group.to_owned(),
            nodes: list.iter().map(|node| (*node).to_owned()).collect(),
            span: Some(span),
        };
        let places = [
            placed("leaf1", &["a", "b1", "b2", "a"], 0..5),
            placed("leaf1", &["c"], 6..10),
            placed("leaf2", &["b1", "d", "b2", "c"], 11..17),
        ];
        let mut problems = Vec::new();
        let groups = distinct(text, &places, &mut problems);
        let errors = ConfigErrors::new("file", text, problems);
        insta::assert_snapshot!(errors);
        let found: Vec<_> = groups.iter().map(|g| (&*g.name, g.nodes.len())).collect();
        assert_eq!(found, [("leaf1", 4), ("leaf2", 1)]);
    }
}
