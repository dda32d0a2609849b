//! What `ibnetdiscover` printed: nodes below the same leaf switches by the links of the fabric.
//! The format is told by ibnetdiscover(8), "Topology file format": a block for each switch and each
//! channel adapter, its first line with GUID and description, then a line for each linked port.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use crate::model::{LeafGroup, NodeName, visible};

use super::super::hostlist::{fold, is_host_name};
use super::super::problem::{MAX_PROBLEMS, Problem};
use super::names::Names;

/// The longest name of a group of several switches; a longer one is cut and counts the rest.
const MAX_NAME: usize = 80;

type Guid = u64;

/// The switches that the ports of a node are linked to.
type Leaves = BTreeSet<Guid>;

/// The groups that the file tells of these nodes, or what is wrong with it.
pub(super) fn read(text: &str, names: &Names) -> Result<Vec<LeafGroup>, Vec<Problem>> {
    let fabric = Fabric::read(text)?;
    let mut leaves: HashMap<NodeName, Leaves> = HashMap::new();
    for (adapter, switch) in &fabric.links {
        let node = fabric.adapters.get(adapter).and_then(|what| node_of(what));
        if let Some(node) = node.and_then(|name| names.find(name)) {
            leaves.entry(node).or_default().insert(*switch);
        }
    }
    let mut crowds: BTreeMap<Leaves, Vec<NodeName>> = BTreeMap::new();
    for node in names.nodes {
        // A node that the cluster lists twice is taken once.
        if let Some(leaves) = leaves.remove(node) {
            crowds.entry(leaves).or_default().push(node.clone());
        }
    }
    Ok(groups(&fabric, joined(crowds), names.nodes))
}

/// What an adapter's description says of its node: rdma-ndd(8) writes the host's name first.
fn node_of(description: &str) -> Option<&str> {
    let name = description.split_whitespace().next()?;
    let name = name.trim_matches('\'');
    is_host_name(name).then_some(name)
}

/// A node whose port is down is linked to fewer switches than its neighbours. So few nodes join more
/// nodes that have all their switches and others, where there is one such group; but many never join
/// few, which may be one node with a cable in the wrong switch.
fn joined(crowds: BTreeMap<Leaves, Vec<NodeName>>) -> Vec<(Leaves, Vec<NodeName>)> {
    let all: Vec<(&Leaves, usize)> = crowds.iter().map(|(l, nodes)| (l, nodes.len())).collect();
    let takes = |(more, many): &(&Leaves, usize), (few, count): &(&Leaves, usize)| {
        many > count && more.len() > few.len() && few.is_subset(more)
    };
    let roots: Vec<&(&Leaves, usize)> = all
        .iter()
        .filter(|own| !all.iter().any(|other| takes(other, own)))
        .collect();
    let mut homes: BTreeMap<&Leaves, Vec<NodeName>> = BTreeMap::new();
    for own in &all {
        let mut takers = roots.iter().filter(|root| takes(root, own));
        let home = match (takers.next(), takers.next()) {
            (Some(only), None) => only.0,
            _ => own.0,
        };
        let nodes = crowds.get(own.0).into_iter().flatten().cloned();
        homes.entry(home).or_default().extend(nodes);
    }
    let homes = homes.into_iter();
    homes
        .map(|(leaves, nodes)| (leaves.clone(), nodes))
        .collect()
}

/// Groups and their nodes in the operator's order, with the names of their switches.
fn groups(
    fabric: &Fabric,
    crowds: Vec<(Leaves, Vec<NodeName>)>,
    order: &[NodeName],
) -> Vec<LeafGroup> {
    let place: HashMap<&NodeName, usize> = order.iter().enumerate().map(|(n, o)| (o, n)).collect();
    let labels = fabric.labels();
    let mut groups: Vec<LeafGroup> = Vec::new();
    for (leaves, mut nodes) in crowds {
        nodes.sort_by_key(|node| place.get(node));
        let name = name(&leaves, &labels);
        groups.push(LeafGroup { name, nodes });
    }
    groups.sort_by_key(|group| group.nodes.first().and_then(|node| place.get(node)));
    groups
}

fn name(leaves: &Leaves, labels: &HashMap<Guid, String>) -> String {
    let label = |guid| labels.get(guid).map_or("", String::as_str);
    let mut names: Vec<&str> = leaves.iter().map(label).collect();
    names.sort_unstable();
    let plain = names.iter().all(|name| is_host_name(name));
    let whole = if plain {
        fold(&names)
    } else {
        names.join(", ")
    };
    match names.as_slice() {
        [first, rest @ ..] if !rest.is_empty() && whole.chars().count() > MAX_NAME => {
            format!("{first} and {} more", rest.len())
        }
        _ => whole,
    }
}

/// What is linked to what.
#[derive(Default)]
struct Fabric {
    /// Switches and what they are called.
    switches: BTreeMap<Guid, String>,
    /// Channel adapters and what they are called.
    adapters: HashMap<Guid, String>,
    /// Adapter and switch.
    links: BTreeSet<(Guid, Guid)>,
}

/// Whose block it is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Switch,
    Adapter,
    /// A router, or what could not be read.
    Other,
}

impl Fabric {
    fn read(text: &str) -> Result<Self, Vec<Problem>> {
        let (mut fabric, mut problems) = (Self::default(), Vec::new());
        let mut block = (Kind::Other, 0);
        let mut at = 0;
        for whole in text.split_inclusive('\n') {
            let line = whole.trim_end();
            let trimmed = line.trim_start();
            if let Some(word) = header(trimmed) {
                block = fabric.header(trimmed).unwrap_or_else(|| {
                    let start = at + line.len() - trimmed.len();
                    problems.push(unreadable(text, start..at + line.len(), word));
                    (Kind::Other, 0)
                });
            } else if trimmed.starts_with('[') {
                fabric.link(block, trimmed);
            }
            if problems.len() > MAX_PROBLEMS {
                break;
            }
            at += whole.len();
        }
        if fabric.links.is_empty() && problems.is_empty() {
            let message = "no link of an adapter to a switch is here";
            let mut problem = Problem::new(text, None, message);
            problem.help("write the file with `ibnetdiscover > FILE`, without options such as -p and -l, on a node of the fabric");
            problems.push(problem);
        }
        match problems.is_empty() {
            true => Ok(fabric),
            false => Err(problems),
        }
    }

    /// Takes the first line of a block: `Switch 41 "S-0ff08c43213b3f30" # "description" …`.
    fn header(&mut self, line: &str) -> Option<(Kind, Guid)> {
        let (kind, guid, rest) = peer(line)?;
        let description = quoted_after_hash(rest).map(visible).unwrap_or_default();
        match kind {
            Kind::Switch => drop(self.switches.insert(guid, description)),
            Kind::Adapter => drop(self.adapters.insert(guid, description)),
            Kind::Other => {}
        }
        Some((kind, guid))
    }

    /// Takes a port of a block: `[1] "H-0ff08c4321664e96"[1](…) # "description" lid …`. Either end of
    /// a link tells of it; what is no such line is none.
    fn link(&mut self, (own, guid): (Kind, Guid), line: &str) {
        let Some((kind, other, rest)) = peer(line) else {
            return;
        };
        let description = quoted_after_hash(rest).map(visible).unwrap_or_default();
        match (own, kind) {
            (Kind::Switch, Kind::Adapter) => {
                self.adapters.entry(other).or_insert(description);
                self.links.insert((other, guid));
            }
            (Kind::Adapter, Kind::Switch) => {
                self.switches.entry(other).or_insert(description);
                self.links.insert((guid, other));
            }
            _ => {}
        }
    }

    /// What each switch is called: its name where it has one of its own, else its description where
    /// it is the only one of it, else its GUID.
    fn labels(&self) -> HashMap<Guid, String> {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for description in self.switches.values() {
            let short = switch_name(description);
            *seen.entry(short).or_default() += 1;
            if short != description {
                *seen.entry(description).or_default() += 1;
            }
        }
        let own = |name: &&str| !name.is_empty() && seen.get(name) == Some(&1);
        let label = |(guid, description): (&Guid, &String)| {
            let names = [switch_name(description), description.as_str()];
            let label = names.into_iter().find(|name| own(name));
            let label = label.map_or_else(|| format!("S-{guid:016x}"), str::to_owned);
            (*guid, label)
        };
        self.switches.iter().map(label).collect()
    }
}

/// A managed switch describes itself as `MF0;NAME:MODEL/U1`.
fn switch_name(description: &str) -> &str {
    let named = description.strip_prefix("MF0;");
    let name = named.and_then(|rest| rest.split_once(':'));
    name.map_or(description, |(name, _)| name)
}

/// The word that begins a block.
fn header(line: &str) -> Option<&str> {
    let word = line.split_whitespace().next()?;
    ["Switch", "Ca", "Rt"].contains(&word).then_some(word)
}

/// The first `"S-GUID"`, `"H-GUID"` or `"R-GUID"` of a line, and what follows it.
fn peer(line: &str) -> Option<(Kind, Guid, &str)> {
    let (_, rest) = line.split_once('"')?;
    let (id, rest) = rest.split_once('"')?;
    let (kind, guid) = id.split_once('-')?;
    let kind = match kind {
        "S" => Kind::Switch,
        "H" => Kind::Adapter,
        _ => Kind::Other,
    };
    let digits = guid.strip_prefix("0x").unwrap_or(guid);
    Some((kind, Guid::from_str_radix(digits, 16).ok()?, rest))
}

/// The first text in quotes behind the `#`.
fn quoted_after_hash(rest: &str) -> Option<&str> {
    let (_, comment) = rest.split_once('#')?;
    let (_, text) = comment.split_once('"')?;
    let (text, _) = text.split_once('"')?;
    Some(text.trim())
}

fn unreadable(text: &str, span: Range<usize>, word: &str) -> Problem {
    let message = format!("this line of a `{word}` has no GUID that can be read");
    let mut problem = Problem::new(text, Some(span), message);
    problem.help("ibnetdiscover writes: Switch 41 \"S-0123456789abcdef\" # \"description\" …");
    problem
}

#[cfg(test)]
mod tests {
    use super::super::GroupsFile;
    use crate::model::NodeName;
    use proptest::prelude::*;

    fn read(text: &str, nodes: &[&str]) -> Result<Vec<String>, String> {
        let file = GroupsFile::Ibnetdiscover("fabric.txt".into());
        let nodes: Vec<NodeName> = nodes.iter().copied().map(NodeName::from).collect();
        let groups = file.read(text, &nodes).map_err(|e| e.to_string())?;
        let shown = groups.iter().map(|group| {
            let nodes: Vec<&str> = group.nodes.iter().map(|node| node.0.as_str()).collect();
            format!("{}: {}", group.name, nodes.join(" "))
        });
        Ok(shown.collect())
    }

    /// A switch's block with these adapters, each a GUID and a description.
    fn switch(guid: u64, name: &str, adapters: &[(u64, &str)]) -> String {
        let mut block = format!(
            "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x{guid:x}\nswitchguid=0x{guid:x}({guid:x})\n\
             Switch\t65 \"S-{guid:016x}\"\t\t# \"{name}\" enhanced port 0 lid 73 lmc 0\n"
        );
        for (port, (adapter, what)) in adapters.iter().enumerate() {
            block += &format!(
                "[{}]\t\"H-{adapter:016x}\"[1]({adapter:x}) \t\t# \"{what}\" lid 4 4xNDR\n",
                port + 1
            );
        }
        block + "[64]\t\"S-00000000000000ff\"[3]\t\t# \"MF0;spine1:MQM9700/U1\" lid 9 4xNDR\n\n"
    }

    #[test]
    fn nodes_of_one_switch_are_a_group() {
        let text = "# Topology file: generated\n\n".to_owned()
            + &switch(
                1,
                "MF0;leaf2:MQM9700/U1",
                &[(17, "n3 mlx5_0"), (18, "n4 mlx5_0")],
            )
            + &switch(
                2,
                "MF0;leaf1:MQM9700/U1",
                &[(19, "n1 HCA-1"), (20, "n2.hpc HCA-1")],
            )
            + &switch(
                255,
                "MF0;spine1:MQM9700/U1",
                &[(33, "Mellanox Technologies Aggregation Node")],
            );
        let wanted = ["leaf1: n1 n2", "leaf2: n3 n4"];
        assert_eq!(
            read(&text, &["n1", "n2", "n3", "n4", "n5"]).unwrap(),
            wanted
        );
        assert!(read(&text, &["m1"]).unwrap().is_empty());
    }

    #[test]
    fn the_block_of_an_adapter_will_do() {
        let text = "Ca\t1 \"H-0000000000000011\"\t\t# \"n1 mlx5_0\"\n\
                    [1](11) \t\"S-0000000000000001\"[5]\t\t# lid 4 lmc 0 \"leaf one\" lid 7 4xNDR\n";
        assert_eq!(read(text, &["n1"]).unwrap(), ["leaf one: n1"]);
    }

    /// Rail r of nodes 1 to 4 is below leaf r, of nodes 5 to 8 below leaf 2 + r.
    fn rails(skip: &[(u64, u64)], more: &[(u64, u64)]) -> String {
        let leaf = |leaf: u64| {
            let rail = leaf % 2;
            let first = 1 + 4 * (leaf / 2);
            let own = (first..first + 4).map(|node| (node, leaf));
            let ports = own.filter(|port| !skip.contains(port));
            let ports = ports.chain(more.iter().copied().filter(|(_, to)| *to == leaf));
            let ports: Vec<(u64, String)> = ports
                .map(|(node, to)| (node * 256 + to, format!("n{node} mlx5_{rail}")))
                .collect();
            let ports: Vec<(u64, &str)> = ports.iter().map(|(g, w)| (*g, w.as_str())).collect();
            switch(leaf + 1, &format!("MF0;leaf{leaf}:MQM9700/U1"), &ports)
        };
        (0..4).map(leaf).collect()
    }

    const EIGHT: [&str; 8] = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"];

    #[test]
    fn nodes_with_the_same_switches_are_a_group() {
        let wanted = ["leaf[0-1]: n1 n2 n3 n4", "leaf[2-3]: n5 n6 n7 n8"];
        assert_eq!(read(&rails(&[], &[]), &EIGHT).unwrap(), wanted);
    }

    #[test]
    fn a_node_with_a_port_down_stays_with_its_neighbours() {
        let wanted = ["leaf[0-1]: n1 n2 n3 n4", "leaf[2-3]: n5 n6 n7 n8"];
        let text = rails(&[(2, 1), (7, 2)], &[]);
        assert_eq!(read(&text, &EIGHT).unwrap(), wanted);
    }

    #[test]
    fn a_node_that_is_cabled_otherwise_does_not_make_two_groups_one() {
        let text = rails(&[], &[(1, 2), (1, 3)]);
        let wanted = [
            "leaf[0-3]: n1",
            "leaf[0-1]: n2 n3 n4",
            "leaf[2-3]: n5 n6 n7 n8",
        ];
        assert_eq!(read(&text, &EIGHT).unwrap(), wanted);
    }

    #[test]
    fn switches_without_a_name_of_their_own_have_their_guid() {
        let text = switch(1, "Quantum Mellanox Technologies", &[(17, "n1 mlx5_0")])
            + &switch(2, "Quantum Mellanox Technologies", &[(18, "n2 mlx5_0")]);
        let wanted = ["S-0000000000000001: n1", "S-0000000000000002: n2"];
        assert_eq!(read(&text, &["n1", "n2"]).unwrap(), wanted);
    }

    #[test]
    fn mistakes_are_placed() {
        let said: Vec<String> = [
            "",
            "CA 12 1 0x0002c903000d7aad 4x QDR - SW 2 33 0x0002c9020046c588 ( 'n1' - 'x' )\n",
            "Switch\t36 \"S-1\"\t# \"leaf1\"\n[1]\t\"H-2\"[1](2) # \"n1 mlx5_0\"\n\nCa\t1 \"H-zz\" # \"n2\"\n",
        ]
        .iter()
        .map(|text| read(text, &["n1"]).unwrap_err())
        .collect();
        insta::assert_snapshot!(said.join("\n\n"));
    }

    proptest! {
        #[test]
        fn any_text_is_groups_or_has_problems(
            text in "(?s).{0,80}|(Switch |Ca |\\[1\\]|\"S-1\"|\"H-2\"|\"n1 mlx5_0\"|[#\"\n()]|é){0,30}"
        ) {
            match read(&text, &["n1", "n2"]) {
                Ok(groups) => prop_assert!(groups.len() <= 2),
                Err(said) => prop_assert!(!said.is_empty()),
            }
        }
    }
}
