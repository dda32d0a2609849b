//! The NUMA nodes and how far apart they are: /sys/devices/system/node.

use super::host::cpu;
use super::parse;
use super::root::Root;
use crate::model::{Fact, NumaNode};

/// Each node tells the distance to each, so that their number counts twice. The largest machines
/// have a few dozen.
const MOST: usize = 256;

/// All of them, by number.
pub(super) fn nodes(root: &Root) -> Fact<Vec<NumaNode>> {
    let dir = root.path("sys/devices/system/node");
    let names = match root.list(&dir) {
        Ok(names) => names,
        Err(error) => return Fact::unknown(error.to_string()),
    };
    let number = |name: &String| parse::whole(name.strip_prefix("node")?).ok();
    let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    if numbers.is_empty() || numbers.len() > MOST {
        let count = numbers.len();
        return Fact::unknown(format!("{} has {count} NUMA nodes", dir.display()));
    }
    let mut nodes = Vec::new();
    for number in numbers {
        let home = dir.join(format!("node{number}"));
        let distances = match root.fact(&home.join("distance"), distances) {
            Fact::Known { value, .. } => value,
            Fact::Unknown { why } => return Fact::Unknown { why },
        };
        nodes.push(NumaNode {
            number,
            distances,
            cpus: cpu::of_numa_node(root, &home),
            memory: cpu::memory_of_numa_node(root, &home),
        });
    }
    let size = nodes.len();
    match nodes.iter().find(|node| node.distances.len() != size) {
        // Nodes without memory or processors may be there, and not online.
        Some(odd) => Fact::unknown(format!(
            "{} has {size} NUMA nodes, and node{} distances to {}",
            dir.display(),
            odd.number,
            odd.distances.len()
        )),
        None => Fact::known(nodes, dir.display().to_string()),
    }
}

/// `10 21`.
fn distances(text: &str) -> Result<Vec<u32>, &'static str> {
    let numbers: Result<Vec<u32>, _> = text.split_whitespace().map(parse::whole).collect();
    numbers
        .ok()
        .filter(|numbers| numbers.len() <= MOST)
        .ok_or("not distances such as `10 21`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::tree::Tree;

    fn of(files: &[(&str, &str)]) -> Result<Vec<(u32, Vec<u32>)>, String> {
        let tree = Tree::new();
        tree.dir("sys/devices/system/node/power");
        for (node, text) in files {
            tree.file(&format!("sys/devices/system/node/{node}/distance"), text);
        }
        match nodes(&tree.root()) {
            Fact::Known { value, .. } => Ok(value
                .into_iter()
                .map(|node| (node.number, node.distances))
                .collect()),
            Fact::Unknown { why } => Err(tree.plain(&why)),
        }
    }

    #[test]
    fn distances_in_the_order_of_numbers() {
        let two = of(&[("node10", "21 10\n"), ("node2", "10 21\n")]);
        assert_eq!(two.unwrap(), [(2, vec![10, 21]), (10, vec![21, 10])]);
    }

    #[test]
    fn what_does_not_fit_together_is_unknown() {
        let dir = "/sys/devices/system/node";
        assert_eq!(of(&[]), Err(format!("{dir} has 0 NUMA nodes")));
        let short = of(&[("node0", "10"), ("node1", "21 10")]);
        let why = format!("{dir} has 2 NUMA nodes, and node0 distances to 1");
        assert_eq!(short, Err(why));
        let why = of(&[("node0", "10 near")]).unwrap_err();
        assert!(why.contains("not distances such as `10 21`"), "{why}");
    }
}
