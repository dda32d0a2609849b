//! Leaf groups of real fabrics, from what `ibnetdiscover` printed there. The captures are not part of
//! the project: LINERATE_CORPUS names the directory that holds them.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up fails where it stands"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use linerate::config::GroupsFile;
use linerate::model::{LeafGroup, NodeName};

/// The file, its nodes (whose names hold `part`), and its groups; `None`, loudly, without a corpus.
fn groups(file: &str, part: &str) -> Option<(Vec<NodeName>, Vec<LeafGroup>)> {
    let Some(corpus) = std::env::var_os("LINERATE_CORPUS").map(PathBuf::from) else {
        // Past the capture of a test's output, which hides what passing tests print.
        let mut stderr = io::stderr();
        let skipped = "LINERATE_CORPUS does not name a directory of captures";
        writeln!(stderr, "SKIPPED {file}: {skipped}").unwrap();
        return None;
    };
    let path = corpus.join("ibtools").join(file);
    let text = fs::read_to_string(&path).unwrap();
    let quoted = text.split('"').skip(1).step_by(2);
    let names = quoted.filter_map(|what| what.split_whitespace().next());
    let nodes: BTreeSet<&str> = names.filter(|name| name.contains(part)).collect();
    let nodes: Vec<NodeName> = nodes.into_iter().map(NodeName::from).collect();
    let file = GroupsFile::Ibnetdiscover(path);
    let groups = file.read(&text, &nodes).unwrap_or_else(|e| panic!("{e}"));
    Some((nodes, groups))
}

/// Four rails, each on a leaf switch of its own for every row of the hall. Many adapters have no name,
/// and some nodes show fewer than four.
#[test]
fn rows_of_a_rail_optimised_fabric() {
    let Some((nodes, groups)) = groups("topograph_ibnetdiscover.txt", "-dgx-") else {
        return;
    };
    let mut sizes: Vec<usize> = groups.iter().map(|group| group.nodes.len()).collect();
    sizes.sort_unstable();
    // Counted by other means.
    assert_eq!(sizes, [10, 11, 14, 15, 16, 17, 18, 18]);
    assert_eq!(nodes.len(), 119);
    for LeafGroup { name, nodes } in &groups {
        let rows: BTreeSet<&str> = nodes.iter().map(|node| &node.0[..13]).collect();
        assert_eq!(rows.len(), 1, "{name}: {rows:?}");
    }
    let named = groups.iter().filter(|group| group.nodes.len() == 18);
    let named: Vec<&str> = named.map(|group| group.name.as_str()).collect();
    let wanted = [
        "B09-P1-IBLEAF-01-05,B09-P1-IBLEAF-02-05,B09-P1-IBLEAF-03-05,B09-P1-IBLEAF-04-05",
        "A09-P1-IBLEAF-01-03,A09-P1-IBLEAF-02-03,A09-P1-IBLEAF-03-03,A09-P1-IBLEAF-04-03",
    ];
    assert_eq!(BTreeSet::from_iter(named), BTreeSet::from(wanted));
}

#[test]
fn a_fabric_of_director_and_edge_switches() {
    let Some((nodes, groups)) = groups("superbench_ibnetdiscover.txt", "RMD7") else {
        return;
    };
    let grouped: usize = groups.iter().map(|group| group.nodes.len()).sum();
    assert_eq!(grouped, nodes.len());
    let first = &groups[0];
    assert_eq!(first.name, "rmd70-0101-0919-01ib0");
    let wanted = ["RMD701091901003", "RMD701091901019"].map(NodeName::from);
    assert_eq!(first.nodes, wanted);
}
