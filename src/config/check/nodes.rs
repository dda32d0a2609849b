//! `nodes`, `exclude` and `[node.NAME]`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use toml::Spanned;

use crate::model::NodeName;

use super::super::cluster::{CarrierConfig, NodeConfig, SshConfig};
use super::super::hostlist::{MAX_NAMES, expand, fold, is_host_name};
use super::super::problem::{MAX_PROBLEMS, nearest_node};
use super::super::typed::{Table, TypedList, TypedNode};
use super::ssh::{Login, check_port, check_user};
use super::{Checker, Value, items};

/// What was typed about nodes.
pub(super) struct Lists {
    pub nodes: TypedList,
    pub exclude: TypedList,
    pub overrides: BTreeMap<Spanned<String>, Table<TypedNode>>,
}

/// The nodes; none where a problem was found.
pub(super) fn check(
    checker: &mut Checker,
    lists: Lists,
    login: Option<&Login>,
    ssh: Option<&SshConfig>,
) -> Option<Vec<NodeConfig>> {
    let nodes_span = lists.nodes.as_ref().map(Spanned::span);
    let names = named(checker, lists.nodes);
    let exclude = lists
        .exclude
        .map(|list| items(list, |item| Some(item.span())));
    let excluded = excluded(checker, &exclude.unwrap_or_default(), names.as_deref());
    let overrides = overrides(checker, lists.overrides, names.as_deref());

    let (mut names, login) = (names?, login?);
    names.retain(|name| !excluded.contains(name));
    if names.is_empty() {
        checker.problem(nodes_span, "every node is excluded");
        return None;
    }
    let nodes = names
        .into_iter()
        .map(|name| resolve(name, &overrides, login));
    let nodes: Option<Vec<NodeConfig>> = nodes.collect();
    if nodes.is_none() {
        no_user(checker);
    }
    let nodes = nodes?;
    if ssh.is_some_and(|ssh| ssh.carrier == CarrierConfig::Ssh) {
        refuse_shared_addresses(checker, &nodes, &overrides);
    }
    Some(nodes)
}

fn named(checker: &mut Checker, nodes: TypedList) -> Option<Vec<String>> {
    if nodes.is_none() {
        checker
            .absent(None, "`nodes` is not set: which nodes are there?")
            .help("write: nodes = [\"node[01-16]\"]");
    }
    let lists = checker.some("nodes", nodes, None)?;
    listed(checker, &lists.value)
}

/// The names of a list; none where it cannot be read.
pub(super) fn unfold(checker: &mut Checker, list: &Value<String>) -> Option<Vec<String>> {
    match expand(&list.value) {
        Ok(names) => Some(names),
        Err(error) => {
            let place = checker.place_inside(list, error.at);
            checker.problem(place, error.to_string());
            None
        }
    }
}

/// Every name of the lists, once; none where a list cannot be read.
fn listed(checker: &mut Checker, lists: &[Value<String>]) -> Option<Vec<String>> {
    let (mut names, mut seen, mut whole) = (Vec::new(), HashSet::new(), true);
    for list in lists {
        let Some(more) = unfold(checker, list) else {
            whole = false;
            continue;
        };
        let mut twice = Vec::new();
        for name in more {
            if seen.insert(name.clone()) {
                names.push(name);
            } else {
                twice.push(name);
            }
        }
        if !twice.is_empty() {
            let message = format!("`{}` is listed twice", fold(&twice));
            checker.problem(list.span.clone(), message);
        }
        if names.len() > MAX_NAMES {
            let message = format!("`nodes` lists more than {MAX_NAMES} nodes");
            checker.problem(list.span.clone(), message);
            return None;
        }
    }
    whole.then_some(names)
}

/// The names left out. One that is not listed is a slip that would leave a node in.
fn excluded(
    checker: &mut Checker,
    lists: &[Value<String>],
    names: Option<&[String]>,
) -> HashSet<String> {
    let listed: Option<HashSet<&str>> =
        names.map(|names| names.iter().map(String::as_str).collect());
    let mut excluded = HashSet::new();
    for list in lists {
        let Some(more) = unfold(checker, list) else {
            continue;
        };
        if let Some(listed) = &listed {
            let strange: Vec<&String> = more
                .iter()
                .filter(|name| !listed.contains(name.as_str()))
                .collect();
            if !strange.is_empty() {
                let message = format!("`{}` is excluded, but not in `nodes`", fold(&strange));
                checker.problem(list.span.clone(), message);
            }
        }
        excluded.extend(more);
    }
    excluded
}

/// What differs for a node.
struct Override {
    address: Option<String>,
    port: Option<u16>,
    user: Option<String>,
    span: std::ops::Range<usize>,
}

fn overrides(
    checker: &mut Checker,
    typed: BTreeMap<Spanned<String>, Table<TypedNode>>,
    names: Option<&[String]>,
) -> HashMap<String, Override> {
    let listed: Option<HashSet<&str>> =
        names.map(|names| names.iter().map(String::as_str).collect());
    let mut overrides = HashMap::new();
    for (name, Table(node)) in typed {
        if listed
            .as_ref()
            .is_some_and(|listed| !listed.contains(name.get_ref().as_str()))
        {
            not_listed(checker, &name, names.unwrap_or_default());
        }
        let address = node.address.map(Value::typed);
        let port = node.port.map(Value::typed);
        let user = node.user.map(Value::typed);
        let found = Override {
            address: address.and_then(|address| check_address(checker, address)),
            port: port.and_then(|port| check_port(checker, &port)),
            user: user.and_then(|user| check_user(checker, user)),
            span: name.span(),
        };
        overrides.insert(name.into_inner(), found);
    }
    overrides
}

fn not_listed(checker: &mut Checker, name: &Spanned<String>, names: &[String]) {
    // Looking for the nearest of many names takes its time: not for problems beyond those shown.
    let search = checker.problems.len() < MAX_PROBLEMS;
    let typed = name.get_ref();
    let problem = checker.problem(
        Some(name.span()),
        format!("node {typed:?} is not in `nodes`"),
    );
    let names = names.iter().map(String::as_str);
    if let Some(meant) = search.then(|| nearest_node(typed, names)).flatten() {
        problem.help(format!("did you mean `{meant}`?"));
    }
}

fn check_address(checker: &mut Checker, address: Value<String>) -> Option<String> {
    let Value { value, span } = address;
    if is_host_name(&value) || value.parse::<IpAddr>().is_ok() {
        return Some(value);
    }
    checker
        .problem(
            span,
            format!("{value:?} is neither a host name nor an IP address"),
        )
        .help("the port has a key of its own, `port`; an IPv6 address stands without brackets");
    None
}

/// The node with what is stated for it; none where nobody says as whom to log in.
fn resolve(
    name: String,
    overrides: &HashMap<String, Override>,
    login: &Login,
) -> Option<NodeConfig> {
    let own = overrides.get(&name);
    let address = own.and_then(|own| own.address.clone());
    Some(NodeConfig {
        address: address.unwrap_or_else(|| name.clone()),
        port: own.and_then(|own| own.port).unwrap_or(login.port),
        user: own
            .and_then(|own| own.user.clone())
            .or_else(|| login.user.clone())?,
        name: NodeName::from(name),
    })
}

fn no_user(checker: &mut Checker) {
    let nobody = checker.problem(None, "as whom to log in is not known");
    nobody
        .help("set `user` in [ssh]; without it the local user's name is taken, and there is none");
}

/// Two nodes behind one server are one node under two names, and a probe between them is none.
fn refuse_shared_addresses(
    checker: &mut Checker,
    nodes: &[NodeConfig],
    overrides: &HashMap<String, Override>,
) {
    let mut seen: HashMap<(&str, u16), &NodeName> = HashMap::new();
    for node in nodes {
        let Some(first) = seen.insert((&node.address, node.port), &node.name) else {
            continue;
        };
        let own = [&node.name, first].map(|name| overrides.get(name.0.as_str()));
        let span = own.into_iter().flatten().next().map(|own| own.span.clone());
        let (name, address, port) = (&node.name, &node.address, node.port);
        checker
            .problem(
                span,
                format!("`{name}` has the address and port of `{first}`: {address}, port {port}"),
            )
            .help("a machine under two names would be measured against itself");
    }
}
