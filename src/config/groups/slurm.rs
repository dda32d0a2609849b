//! Slurm's topology.conf: switches that have nodes (topology/tree), and blocks (topology/block).
//! Its grammar is that of topology.conf(5): `Key=Value` pairs of any case, `#` before a comment, `\` at
//! the end of a line that goes on with the next.

use std::ops::Range;

use crate::model::{LeafGroup, visible};

use super::super::hostlist::{MAX_NAMES, expand};
use super::super::problem::{MAX_PROBLEMS, Problem, nearest};
use super::names::Names;
use super::{Placed, distinct};

/// What a line of a switch or a block may say besides its name.
const KEYS: [&str; 3] = ["Nodes", "Switches", "LinkSpeed"];

/// The groups of the file, or what is wrong with it.
pub(super) fn read(text: &str, names: &Names) -> Result<Vec<LeafGroup>, Vec<Problem>> {
    let mut reader = Reader {
        text,
        placed: Vec::new(),
        named: 0,
        problems: Vec::new(),
    };
    for line in lines(text) {
        reader.line(&line);
        if reader.problems.len() > MAX_PROBLEMS || reader.named > MAX_NAMES {
            break;
        }
    }
    let Reader {
        placed,
        mut problems,
        ..
    } = reader;
    let groups = distinct(text, &placed, &mut problems);
    if groups.is_empty() && problems.is_empty() {
        let mut problem = Problem::new(text, None, "no switch or block has nodes here");
        problem.help(
            "a leaf switch of Slurm's topology.conf reads: SwitchName=leaf1 Nodes=node[01-16]",
        );
        problems.push(problem);
    }
    match problems.is_empty() {
        true => Ok(names.adopt(groups)),
        false => Err(problems),
    }
}

/// A line with those it goes on with, without comments.
struct Line {
    text: String,
    /// Where in `text` each part begins, and where in the file.
    parts: Vec<(usize, usize)>,
}

impl Line {
    fn place(&self, at: usize) -> usize {
        let part = self.parts.iter().rfind(|(start, _)| *start <= at);
        part.map_or(at, |(start, place)| place + (at - start))
    }

    /// A range of the text in the file, from its first byte to its last.
    fn span(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let last = range.end.max(range.start + 1) - 1;
        Some(self.place(range.start)..self.place(last) + 1)
    }
}

fn lines(text: &str) -> Vec<Line> {
    let (mut lines, mut at, mut goes_on) = (Vec::<Line>::new(), 0, false);
    for whole in text.split_inclusive('\n') {
        let code = whole.trim_end_matches(['\n', '\r']);
        let code = comment(code).map_or(code, |start| &code[..start]);
        let (code, more) = match code.strip_suffix('\\') {
            Some(code) => (code, true),
            None => (code, false),
        };
        let line = match lines.last_mut().filter(|_| goes_on) {
            Some(line) => line,
            None => {
                lines.push(Line {
                    text: String::new(),
                    parts: Vec::new(),
                });
                let last = lines.len() - 1;
                &mut lines[last]
            }
        };
        line.parts.push((line.text.len(), at));
        line.text.push_str(code);
        (at, goes_on) = (at + whole.len(), more);
    }
    lines
}

/// Where a comment begins: at a `#` that no backslash stands before.
fn comment(line: &str) -> Option<usize> {
    let mut hashes = line.match_indices('#').map(|(at, _)| at);
    hashes.find(|at| !line[..*at].ends_with('\\'))
}

/// `Key=Value`, with their places in the line.
struct Entry<'a> {
    key: &'a str,
    key_at: Range<usize>,
    value: &'a str,
    value_at: Range<usize>,
}

/// The entries of a line; an error is the place of something else.
fn entries(line: &str) -> Result<Vec<Entry<'_>>, Range<usize>> {
    let (mut entries, mut at) = (Vec::new(), skip(line, 0));
    while at < line.len() {
        let key_end = end(line, at, |c| c == '=' || c.is_whitespace());
        let equals = skip(line, key_end);
        if key_end == at || !line[equals..].starts_with('=') {
            return Err(at..key_end.max(at + 1));
        }
        let start = skip(line, equals + 1);
        let (value_at, next) = match line[start..].strip_prefix('"').and_then(|s| s.find('"')) {
            Some(length) => (start + 1..start + 1 + length, start + length + 2),
            None => {
                let end = end(line, start, char::is_whitespace);
                (start..end, end)
            }
        };
        entries.push(Entry {
            key: &line[at..key_end],
            key_at: at..key_end,
            value: &line[value_at.clone()],
            value_at,
        });
        at = skip(line, next);
    }
    Ok(entries)
}

fn skip(line: &str, at: usize) -> usize {
    end(line, at, |c| !c.is_whitespace())
}

fn end(line: &str, at: usize, stop: impl Fn(char) -> bool) -> usize {
    line[at..].find(stop).map_or(line.len(), |more| at + more)
}

struct Reader<'a> {
    text: &'a str,
    placed: Vec<Placed>,
    /// How many nodes these are.
    named: usize,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, span: Option<Range<usize>>, message: String, help: &str) {
        let mut problem = Problem::new(self.text, span, message);
        problem.help(help);
        self.problems.push(problem);
    }

    fn line(&mut self, line: &Line) {
        let entries = match entries(&line.text) {
            Ok(entries) => entries,
            Err(place) => {
                let message = "this is no `Key=Value`".to_owned();
                let help = "linerate reads topology.conf as Slurm does, but not topology.yaml";
                return self.problem(line.span(&place), message, help);
            }
        };
        let Some((first, rest)) = entries.split_first() else {
            return;
        };
        let named = ["SwitchName", "BlockName"];
        if named.iter().any(|key| first.key.eq_ignore_ascii_case(key)) {
            self.group(line, first, rest);
        } else if !first.key.eq_ignore_ascii_case("BlockSizes") {
            let message = format!("a line cannot begin with `{}`", visible(first.key));
            let help = "known here: `SwitchName`, `BlockName`, `BlockSizes`";
            self.problem(line.span(&first.key_at), message, help);
        }
    }

    fn group(&mut self, line: &Line, name: &Entry, rest: &[Entry]) {
        if name.value.is_empty() {
            let message = format!("`{}` has no name", name.key);
            let help = "write it like SwitchName=leaf1";
            return self.problem(line.span(&name.key_at), message, help);
        }
        for entry in rest {
            if !KEYS.iter().any(|key| key.eq_ignore_ascii_case(entry.key)) {
                let meant = nearest(entry.key, KEYS);
                let help = match meant {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("known here: `{}`", KEYS.join("`, `")),
                };
                let message = format!("unknown key `{}`", visible(entry.key));
                self.problem(line.span(&entry.key_at), message, &help);
            }
        }
        // A switch of switches only is no leaf.
        let nodes = rest.iter().find(|e| e.key.eq_ignore_ascii_case("Nodes"));
        if let Some(nodes) = nodes {
            self.nodes(line, name, nodes);
        }
    }

    fn nodes(&mut self, line: &Line, name: &Entry, nodes: &Entry) {
        match expand(nodes.value) {
            Ok(expanded) => {
                self.named += expanded.len();
                self.placed.push(Placed {
                    group: visible(name.value),
                    nodes: expanded,
                    span: line.span(&nodes.value_at),
                });
            }
            Err(error) => {
                let at = nodes.value_at.start + error.at;
                let place = line.span(&(at..at + 1));
                self.problems
                    .push(Problem::new(self.text, place, error.to_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::GroupsFile;
    use crate::model::NodeName;
    use proptest::prelude::*;

    fn cluster() -> Vec<NodeName> {
        (1..=8).map(|n| NodeName::from(format!("n{n}"))).collect()
    }

    fn read(text: &str) -> Result<Vec<String>, String> {
        let file = GroupsFile::TopologyConf("topology.conf".into());
        let groups = file.read(text, &cluster()).map_err(|e| e.to_string())?;
        let shown = groups.iter().map(|group| {
            let nodes: Vec<&str> = group.nodes.iter().map(|node| node.0.as_str()).collect();
            format!("{}: {}", group.name, nodes.join(" "))
        });
        Ok(shown.collect())
    }

    #[test]
    fn leaf_switches_are_groups() {
        let text = "# two leaves below a spine
SwitchName=s0 Nodes=n[1-2],n4  # the first
switchname = s1 LINKSPEED=100 NODES=\"n[5-6]\"
SwitchName=s2 Nodes=n7,\\
n8,m[1-3] LinkSpeed=1
SwitchName=s3 Nodes=elsewhere[1-4]
\t\r
SwitchName=spine Switches=s[0-2]";
        let wanted = ["s0: n1 n2 n4", "s1: n5 n6", "s2: n7 n8"];
        assert_eq!(read(text).unwrap(), wanted);
    }

    #[test]
    fn blocks_are_groups() {
        let text = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n";
        assert_eq!(read(text).unwrap(), ["b1: n1 n2 n3 n4", "b2: n5 n6 n7 n8"]);
    }

    #[test]
    fn a_file_of_other_nodes_has_no_groups() {
        let none: [&str; 0] = [];
        assert_eq!(read("SwitchName=s0 Nodes=m[1-4]").unwrap(), none);
    }

    #[test]
    fn mistakes_are_placed() {
        let said: Vec<String> = [
            "",
            "SwitchName=spine Switches=s[0-1]",
            "SwitchName=s0 Nodes=n[1-2]\nSwitchName=s1 Nodes=n[2-3]",
            "SwitchName=s0 Nodes=n[1-2",
            "SwitchName=s0 Nodes=n1,\\\n  n2",
            "SwitchName=s0 Nodes=n1,\\\nn[2-1]",
            "SwitchName=s0 Node=n1",
            "SwitchName= Nodes=n1",
            "Include /etc/slurm/other.conf",
            "NodeName=n[1-8] Sockets=2",
            "- topology: default\n",
            "=\u{1b}[31m",
        ]
        .iter()
        .map(|text| read(text).unwrap_err())
        .collect();
        insta::assert_snapshot!(said.join("\n\n"));
    }

    #[test]
    fn a_flood_of_mistakes_ends() {
        let error = read(&"Node=x\n".repeat(100_000)).unwrap_err();
        assert!(error.ends_with("more problems"), "{error}");
        let line = |n| format!("SwitchName=s{n} Nodes=m{n}x[1-60000]\n");
        let many: String = (0..10_000).map(line).collect();
        let error = read(&many).unwrap_err();
        assert!(error.contains("more than 100000 nodes"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_groups_or_has_problems(
            text in "(?s).{0,80}|(SwitchName|BlockName|Nodes|=|n\\[1-4\\]|[\\\\#\", \n]|é|Switches){0,24}"
        ) {
            if let Err(said) = read(&text) {
                prop_assert!(!said.is_empty());
            }
        }
    }
}
