//! Pictures of nodes' PCIe trees: from the roots down over switches to NICs and GPUs, with the link above
//! each. Nodes that look alike share a picture.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use askama::Template;

use crate::judge::Judgement;
use crate::ledger::Ledger;
use crate::model::{
    Fact, NodeFacts, NodeName, PciAddress, PciFunction, PciRole, PcieTree, RdmaDevice, Severity,
    Subject,
};
use crate::topology::words::{limit_text, link_text, model};
use crate::topology::{LinkOnPath, links_on_path, pcie_limit};

/// Pictures on a page.
const MOST: usize = 48;

/// Pictures that are seen without a click, of nodes with a fault.
const OPEN: usize = 4;

/// Nodes that a picture names.
const MOST_NAMED: usize = 12;

/// More GPUs and NICs, and more functions, than a server has: of such a tree there is no picture.
const MOST_ENDS: usize = 128;
const MOST_FUNCTIONS: usize = 2048;

/// A part of a picture in the order in which it is drawn.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    Open(Part),
    Close,
}

/// A root, a switch, a NIC or a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Part {
    kind: &'static str,
    name: String,
    more: String,
    link: Option<Link>,
    /// What the links let a NIC send and receive, where one of them is not as it could be.
    limit: Option<String>,
}

/// The link above a part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Link {
    says: String,
    /// What is wrong with it.
    wrong: Option<&'static str>,
    is_unknown: bool,
}

/// A picture of nodes that look alike.
struct Picture<'a> {
    number: usize,
    steps: Vec<Step>,
    nodes: Vec<&'a NodeName>,
    /// The nodes of it that a finding is about, with the worst severity.
    found: Vec<&'a NodeName>,
    worst: Option<Severity>,
    is_open: bool,
}

impl Picture<'_> {
    fn wrong(&self) -> usize {
        let wrong = |step: &&Step| {
            let Step::Open(Part { link, .. }) = step else {
                return false;
            };
            link.as_ref().is_some_and(|link| link.wrong.is_some())
        };
        self.steps.iter().filter(wrong).count()
    }

    fn title(&self) -> String {
        let first = self.found.first().or(self.nodes.first());
        let first = first.map(ToString::to_string).unwrap_or_default();
        match self.nodes.len() {
            0 | 1 => first,
            2 => format!("{first} and one more like it"),
            more => format!("{first} and {} more like it", more - 1),
        }
    }

    fn names(&self) -> String {
        let of = |all: &[&NodeName]| {
            let names: Vec<&str> = all.iter().take(MOST_NAMED).map(|n| n.0.as_str()).collect();
            match all.len().saturating_sub(MOST_NAMED) {
                0 => names.join(", "),
                more => format!("{} and {more} more", names.join(", ")),
            }
        };
        match (self.nodes.len(), self.found.len()) {
            (1, _) => String::new(),
            (_, 0) => of(&self.nodes),
            (all, found) if found < all => {
                format!("{}. With findings: {}", of(&self.nodes), of(&self.found))
            }
            _ => of(&self.nodes),
        }
    }
}

/// The section of the pictures.
#[derive(Template)]
#[template(path = "pcie.html")]
pub(super) struct Pcie<'a> {
    pictures: Vec<Picture<'a>>,
    /// Pictures that there was no room for.
    more: usize,
    /// Why nodes have none, with their number.
    unknown: Vec<(String, usize)>,
}

impl<'a> Pcie<'a> {
    /// Of a run.
    pub(super) fn of(ledger: &'a Ledger, judgement: &Judgement) -> Self {
        let (mut pictures, unknown) = drawn(ledger, &worst(judgement));
        let rank = |picture: &Picture<'_>| {
            let worst = picture.worst.map_or(usize::MAX, |worst| worst as usize);
            (picture.wrong() == 0, worst, Reverse(picture.nodes.len()))
        };
        pictures.sort_by(|a, b| rank(a).cmp(&rank(b)).then(a.nodes.cmp(&b.nodes)));
        let more = pictures.len().saturating_sub(MOST);
        pictures.truncate(MOST);
        for (number, picture) in pictures.iter_mut().enumerate() {
            picture.number = number;
            picture.is_open = number < OPEN && (picture.wrong() > 0 || number == 0);
        }
        Self {
            pictures,
            more,
            unknown: unknown.into_iter().collect(),
        }
    }

    /// The number of each node's picture.
    pub(super) fn numbers(&self, nodes: &[&NodeName]) -> Vec<Option<usize>> {
        let pictures = self.pictures.iter();
        let all = pictures.flat_map(|p| p.nodes.iter().map(|node| (*node, p.number)));
        let numbers: HashMap<&NodeName, usize> = all.collect();
        nodes
            .iter()
            .map(|node| numbers.get(node).copied())
            .collect()
    }

    /// How many pictures there are.
    pub(super) fn count(&self) -> usize {
        self.pictures.len()
    }
}

impl Picture<'_> {
    fn of(steps: &[Step]) -> Self {
        Self {
            number: 0,
            steps: steps.to_vec(),
            nodes: Vec::new(),
            found: Vec::new(),
            worst: None,
            is_open: false,
        }
    }
}

/// A picture for each kind of node, and why nodes have none, with their number.
fn drawn<'a>(
    ledger: &'a Ledger,
    worst: &HashMap<&NodeName, Severity>,
) -> (Vec<Picture<'a>>, BTreeMap<String, usize>) {
    let mut by_look: HashMap<Vec<Step>, Picture<'_>> = HashMap::new();
    let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
    for (name, node) in ledger.nodes() {
        let Some(facts) = &node.facts else { continue };
        let steps = match steps(facts) {
            Ok(steps) => steps,
            Err(why) => {
                *unknown.entry(why).or_default() += 1;
                continue;
            }
        };
        let picture = by_look.entry(steps);
        let picture = picture.or_insert_with_key(|steps| Picture::of(steps));
        picture.nodes.push(name);
        if let Some(severity) = worst.get(name) {
            picture.found.push(name);
            let known = picture.worst.unwrap_or(*severity);
            picture.worst = Some(known.min(*severity));
        }
    }
    (by_look.into_values().collect(), unknown)
}

/// The worst finding about each node.
fn worst(judgement: &Judgement) -> HashMap<&NodeName, Severity> {
    let mut worst: HashMap<&NodeName, Severity> = HashMap::new();
    for finding in &judgement.findings {
        let node = match &finding.subject {
            Subject::Node(node) | Subject::NodeRail(node, _) | Subject::Device(node, _) => node,
            Subject::Nic(nic, ..) => &nic.node,
            Subject::Pair(_) | Subject::Rail(_) | Subject::LeafGroup(..) => continue,
        };
        let known = worst.entry(node).or_insert(finding.severity);
        *known = (*known).min(finding.severity);
    }
    worst
}

/// The picture of a node, or why there is none.
fn steps(facts: &NodeFacts) -> Result<Vec<Step>, String> {
    let tree = match &facts.pcie {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => return Err(why.to_string()),
    };
    let devices = facts.rdma.value().map_or(&[][..], Vec::as_slice);
    let ends = ends(tree, devices);
    if tree.functions.len() > MOST_FUNCTIONS || ends.len() > MOST_ENDS {
        return Err("the tree is larger than that of any server".to_owned());
    }
    if ends.is_empty() {
        return Err("the tree has no NIC and no GPU".to_owned());
    }
    let mut drawing = Drawing {
        tree,
        parts: BTreeMap::new(),
        below: BTreeMap::new(),
    };
    for end in ends {
        drawing.add(end, devices);
    }
    Ok(drawing.steps())
}

/// The functions that are no bridges; virtual functions only where a device sits on them.
fn ends<'a>(tree: &'a PcieTree, devices: &[RdmaDevice]) -> Vec<&'a PciFunction> {
    let used: BTreeSet<&PciAddress> = devices.iter().filter_map(|d| d.pci.value()).collect();
    let functions = tree.functions.iter();
    let counts = |function: &&PciFunction| match function.role {
        PciRole::Gpu => true,
        PciRole::Nic => function.physical_function.is_none() || used.contains(&function.address),
        PciRole::Bridge => false,
    };
    functions.filter(counts).collect()
}

/// A tree that is being put together: what hangs below what, by the address of the lower end of each
/// link, roots by their names.
struct Drawing<'a> {
    tree: &'a PcieTree,
    parts: BTreeMap<String, Part>,
    below: BTreeMap<String, Vec<String>>,
}

/// Roots come first: no address and no name begins with it.
const ROOT: &str = "";

impl Drawing<'_> {
    fn add(&mut self, end: &PciFunction, devices: &[RdmaDevice]) {
        let links = links_on_path(self.tree, &end.address);
        let mut above = self.root(end);
        for link in links.iter().rev() {
            let key = link.below.to_string();
            if !self.parts.contains_key(&key) {
                let is_end = link.below == end.address;
                let part = match is_end {
                    true => self.end(end, devices, link, &links),
                    false => self.switch(link),
                };
                self.parts.insert(key.clone(), part);
                self.below.entry(above).or_default().push(key.clone());
            }
            above = key;
        }
    }

    fn root(&mut self, end: &PciFunction) -> String {
        let chain = self.tree.chain(&end.address);
        let root = chain.last().map_or(&end.root, |last| &last.root);
        let name = root.to_string();
        let numa = match &end.numa_node {
            Fact::Known { value, .. } => format!("NUMA node {value}"),
            Fact::Unknown { .. } => "NUMA node unknown".to_owned(),
        };
        let key = format!("{numa} {name}");
        if !self.parts.contains_key(&key) {
            let part = Part {
                kind: "root",
                name: numa,
                more: name,
                link: None,
                limit: None,
            };
            self.parts.insert(key.clone(), part);
            self.below
                .entry(ROOT.to_owned())
                .or_default()
                .push(key.clone());
        }
        key
    }

    fn switch(&self, link: &LinkOnPath) -> Part {
        let function = self.tree.function(&link.below);
        Part {
            kind: "switch",
            name: "switch".to_owned(),
            more: match function {
                Some(function) => format!("{} {}", model(function), link.below),
                None => link.below.to_string(),
            },
            link: Some(Link::of(link)),
            limit: None,
        }
    }

    fn end(
        &self,
        end: &PciFunction,
        devices: &[RdmaDevice],
        link: &LinkOnPath,
        links: &[LinkOnPath],
    ) -> Part {
        let is_gpu = end.role == PciRole::Gpu;
        let name = match is_gpu {
            true => self.gpu(end),
            false => nic(end, devices),
        };
        let is_degraded = links.iter().any(LinkOnPath::is_degraded);
        let limit = (!is_gpu && is_degraded).then(|| pcie_limit(self.tree, &end.address));
        Part {
            kind: if is_gpu { "gpu" } else { "nic" },
            name,
            more: format!("{} {}", model(end), end.address),
            link: Some(Link::of(link)),
            limit: limit.map(|limit| match limit {
                Ok(limit) => limit_text(&limit),
                Err(why) => format!("unknown: {why}"),
            }),
        }
    }

    /// A GPU as nvidia-smi numbers it.
    fn gpu(&self, end: &PciFunction) -> String {
        let mut gpus = self.tree.gpus();
        let index = gpus.position(|gpu| gpu.address == end.address);
        index.map_or("GPU".to_owned(), |index| format!("GPU{index}"))
    }

    fn steps(mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.draw(ROOT, &mut steps);
        steps
    }

    /// No part is above itself: each was hung below one that was there before.
    fn draw(&mut self, above: &str, steps: &mut Vec<Step>) {
        for key in self.below.remove(above).unwrap_or_default() {
            if let Some(part) = self.parts.remove(&key) {
                steps.push(Step::Open(part));
                self.draw(&key, steps);
                steps.push(Step::Close);
            }
        }
    }
}

/// The RDMA devices on a function.
fn nic(end: &PciFunction, devices: &[RdmaDevice]) -> String {
    let mine = devices.iter();
    let mine = mine.filter(|device| device.pci.value() == Some(&end.address));
    let names: Vec<&str> = mine.map(|device| device.name.as_str()).collect();
    match names.is_empty() {
        true => "NIC".to_owned(),
        false => names.join(", "),
    }
}

impl Link {
    fn of(link: &LinkOnPath) -> Self {
        let wrong = match (link.is_narrowed(), link.is_slowed() && !link.is_gpu) {
            (true, true) => Some("too narrow and too slow"),
            (true, false) => Some("too narrow"),
            (false, true) => Some("too slow"),
            (false, false) => None,
        };
        Self {
            says: match &link.current {
                Ok(_) => link_text(link),
                Err(why) => format!("link unknown: {why}"),
            },
            wrong,
            is_unknown: link.current.is_err(),
        }
    }
}
