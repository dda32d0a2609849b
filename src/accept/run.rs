//! A run as the checks see it: who is there, and who should be.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::ends::Ends;
use super::told::{Told, Who, listed};
use crate::config::{Bounds, Select};
use crate::judge::{CostReport, Judgement, NicView, NodeView, Observed, observe};
use crate::ledger::{Ledger, NodeState};
use crate::model::{Fact, NicId, NodeName, Rail, RunSettings, Weight};

/// A run.
pub(super) struct Run<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) judgement: &'a Judgement,
    pub(super) settings: Option<&'a RunSettings>,
    /// Every node that was asked for, by name, with what its survey found.
    nodes: BTreeMap<&'a NodeName, Option<NodeView<'a>>>,
    pub(super) rails: BTreeSet<Rail>,
    places: HashMap<(&'a NodeName, Rail), &'a Fact<NicId>>,
    pub(super) observed: Observed<'a>,
    pub(super) ends: Ends,
    pub(super) cost: Option<CostReport<'a>>,
}

/// A NIC of a run, or why there is none in its place.
pub(super) type Place<'r, 'a> = Result<(&'r NodeView<'a>, &'r NicView<'a>), (Who, String)>;

impl<'a> Run<'a> {
    pub(super) fn of(ledger: &'a Ledger, judgement: &'a Judgement) -> Self {
        let settings = ledger.settings();
        let mut views: HashMap<&NodeName, NodeView<'a>> = NodeView::of_run(ledger)
            .into_iter()
            .map(|view| (view.name, view))
            .collect();
        let asked = settings.map_or(&[][..], |settings| &settings.nodes[..]);
        let there = ledger.nodes().map(|(name, _)| name);
        let nodes = asked
            .iter()
            .chain(there)
            .map(|name| (name, views.remove(name)));
        let mut by_name = BTreeMap::new();
        for (name, view) in nodes {
            by_name.entry(name).or_insert(view);
        }
        let rail_nics = ledger.rail_nics();
        let places: HashMap<_, _> = rail_nics
            .map(|(rail, node, nic)| ((node, rail), nic))
            .collect();
        let observed = observe(ledger);
        Self {
            ends: Ends::of(ledger, &observed),
            rails: places.keys().map(|(_, rail)| *rail).collect(),
            cost: CostReport::of(ledger),
            nodes: by_name,
            ledger,
            judgement,
            settings,
            places,
            observed,
        }
    }

    fn group_nodes(&self, select: &Select) -> HashSet<&'a NodeName> {
        let groups = self
            .settings
            .map_or(&[][..], |settings| &settings.sweep.groups[..]);
        let mine = groups
            .iter()
            .filter(|group| select.groups.contains(&group.name));
        mine.flat_map(|group| &group.nodes).collect()
    }

    /// The nodes that are asked about.
    pub(super) fn nodes(&self, select: &Select) -> Vec<&'a NodeName> {
        let by_group = self.group_nodes(select);
        let wanted: HashSet<&NodeName> = select.nodes.iter().collect();
        let is_meant = |node: &&'a NodeName| {
            (wanted.is_empty() && select.groups.is_empty())
                || wanted.contains(*node)
                || by_group.contains(*node)
        };
        self.nodes.keys().copied().filter(is_meant).collect()
    }

    /// The rails that are asked about.
    pub(super) fn rails(&self, select: &Select) -> Vec<Rail> {
        let is_meant = |rail: &Rail| select.rails.is_empty() || select.rails.contains(rail);
        self.rails.iter().copied().filter(is_meant).collect()
    }

    /// Whether nobody is asked about: then what is said of that is all.
    pub(super) fn is_nobody(&self, select: &Select) -> bool {
        self.nodes(select).is_empty() || (!select.rails.is_empty() && self.rails(select).is_empty())
    }

    /// Nodes, rails and groups that a check names and the run does not have. Some nodes of a cluster may
    /// have been left out of a run on purpose; a run that has none of them says nothing.
    pub(super) fn strangers(&self, select: &Select) -> Vec<Told> {
        let mut told = Vec::new();
        if self.nodes.is_empty() {
            return vec![Told::unknown(Who::cluster(), "the run has no node")];
        }
        let missing: Vec<&NodeName> = select
            .nodes
            .iter()
            .filter(|node| !self.nodes.contains_key(node))
            .collect();
        let nobody = self.nodes(select).is_empty();
        if !missing.is_empty() {
            let why = format!("{}: not among the nodes of the run", listed(&missing));
            let mut stranger = Told::unknown(Who::cluster(), why);
            stranger.weight = (!nobody).then_some(Weight::Should);
            told.push(stranger);
        }
        let groups = self
            .settings
            .map_or(&[][..], |settings| &settings.sweep.groups[..]);
        let is_known = |name: &&String| groups.iter().any(|group| group.name == **name);
        let unknown: Vec<&String> = select
            .groups
            .iter()
            .filter(|name| !is_known(name))
            .collect();
        if !unknown.is_empty() {
            let why = format!(
                "{}: no leaf group of the run has this name",
                listed(unknown)
            );
            told.push(Told::unknown(Who::cluster(), why));
        }
        let absent: Vec<&Rail> = select
            .rails
            .iter()
            .filter(|rail| !self.rails.contains(rail))
            .collect();
        if !absent.is_empty() {
            let why = format!("{}: not among the rails of the run", listed(absent));
            told.push(Told::unknown(Who::cluster(), why));
        }
        if told.is_empty() && nobody {
            told.push(Told::unknown(
                Who::cluster(),
                "no node of the run is meant by this check",
            ));
        }
        told
    }

    /// What the survey of a node found.
    pub(super) fn view(&self, node: &NodeName) -> Option<&NodeView<'a>> {
        self.nodes.get(node)?.as_ref()
    }

    /// Why a node was not surveyed.
    pub(super) fn why_not_surveyed(&self, node: &NodeName) -> String {
        match self.ledger.get_node(node).map(|node| &node.state) {
            Some(NodeState::Lost { why }) => format!("{node} was lost: {why}"),
            Some(NodeState::Connected { .. }) => format!("{node} was not surveyed"),
            _ => format!("{node} was not reached"),
        }
    }

    /// Asks each node; one that was not surveyed is not judged.
    pub(super) fn each_node(
        &self,
        select: &Select,
        ask: impl Fn(&NodeView<'a>) -> Told,
    ) -> Vec<Told> {
        let told = |node: &'a NodeName| match self.view(node) {
            Some(view) => ask(view),
            None => Told::unknown(Who::node(node), self.why_not_surveyed(node)),
        };
        self.nodes(select).into_iter().map(told).collect()
    }

    /// The NIC of each rail on each node.
    pub(super) fn places(&self, select: &Select) -> Vec<Place<'_, 'a>> {
        let rails = self.rails(select);
        let of_node = |node: &'a NodeName| {
            let rails = rails.clone().into_iter();
            rails.map(move |rail| self.place(node, rail))
        };
        self.nodes(select).into_iter().flat_map(of_node).collect()
    }

    fn place(&self, node: &'a NodeName, rail: Rail) -> Place<'_, 'a> {
        let nobody = |why: String| Err((Who::place(node, rail), why));
        match self.places.get(&(node, rail)) {
            Some(Fact::Known { value, .. }) => {
                let Some(view) = self.view(node) else {
                    return nobody(self.why_not_surveyed(node));
                };
                let nic = view
                    .nics
                    .iter()
                    .find(|nic| nic.rail == Some(rail) && nic.id == *value);
                match nic {
                    Some(nic) => Ok((view, nic)),
                    None => Err((Who::nic(value, rail), format!("{value} was not surveyed"))),
                }
            }
            Some(Fact::Unknown { why }) => nobody(why.to_string()),
            None if self.view(node).is_none() => nobody(self.why_not_surveyed(node)),
            None => nobody(format!("no NIC of {node} was put on {rail}")),
        }
    }

    /// Asks each NIC; a place without one is not judged. A run without rails has none.
    pub(super) fn each_nic(
        &self,
        select: &Select,
        ask: impl Fn(&NodeView<'a>, &NicView<'a>, Who) -> Vec<Told>,
    ) -> Vec<Told> {
        if self.rails.is_empty() {
            return vec![Told::unknown(Who::cluster(), NO_RAILS)];
        }
        let told = |place: Place<'_, 'a>| match place {
            Ok((view, nic)) => {
                let rail = nic.rail.unwrap_or(Rail(0));
                ask(view, nic, Who::nic(&nic.id, rail))
            }
            Err((who, why)) => vec![Told::unknown(who, why)],
        };
        self.places(select).into_iter().flat_map(told).collect()
    }
}

/// Why nothing can be said of any NIC.
pub(super) const NO_RAILS: &str = "no NIC of any node was put on a rail";

/// How many nodes were surveyed.
pub(super) fn nodes(run: &Run<'_>, select: &Select, bounds: &Bounds<u64>) -> Vec<Told> {
    let all = run.nodes(select);
    let missing: Vec<&NodeName> = all
        .iter()
        .copied()
        .filter(|node| run.view(node).is_none())
        .collect();
    let there = (all.len() - missing.len()) as u64;
    let saw = format!("{there} of {} nodes surveyed", all.len());
    let mut told = Told::seen(Who::cluster(), bounds.holds(&there), saw);
    for node in missing.iter().take(8) {
        told = told.evidence(run.why_not_surveyed(node), "the run");
    }
    vec![told]
}

/// How many NICs of each node play a rail.
pub(super) fn nics(run: &Run<'_>, select: &Select, bounds: &Bounds<u64>) -> Vec<Told> {
    run.each_node(select, |view| {
        let who = Who::node(view.name);
        if let Some(why) = view.facts.rdma.why_unknown() {
            return Told::unknown(who, why);
        }
        let count = view.nics.len() as u64;
        let mut told = Told::seen(who, bounds.holds(&count), format!("{count} NICs on rails"));
        for rail in &run.rails {
            if let Some(why) = run
                .places
                .get(&(view.name, *rail))
                .and_then(|nic| nic.why_unknown())
            {
                told = told.evidence(why, rail.to_string());
            }
        }
        told
    })
}
