//! One node: where its NICs and GPUs sit, what is between them, and what is known of each NIC.

use std::collections::HashMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::counters;
use super::page::Page;
use crate::ledger::NodeWatch;
use crate::model::{Counters, Fact, NodeFacts, PciAddress, PciFunction, PciRole, PcieTree, Port};
use crate::model::{QueuePairHolder, QueuePairs, RdmaDevice, SoftwareRdma};
use crate::topology::words::{errors_text, limit_text, link_text, model, nearest_text};
use crate::topology::{LinkOnPath, affinity, links_on_path, pcie_limit};
use crate::tui::clean::{clock, fit, pad};
use crate::tui::draw::put_all;
use crate::tui::grid::Row;
use crate::tui::marks::Mark;
use crate::tui::run::Run;
use crate::tui::theme::{Role, Theme};
use crate::tui::view::View;

/// More than any server has: of what is more, only that it is said.
const MOST_FUNCTIONS: usize = 2048;
const MOST_ENDS: usize = 64;
const MOST_LINES: usize = 64;

/// Deeper than PCIe trees are.
const MOST_DEEP: usize = 32;

/// Columns of the tree before its links: at least, and at most.
const TREE: (usize, usize) = (46, 90);

/// Lines of the selected node.
pub(in crate::tui) fn line_count(view: &View, run: &Run) -> usize {
    lines(view, run, usize::from(view.size.0)).len()
}

/// Draws it.
pub(in crate::tui) fn draw(view: &View, run: &Run, area: Rect, buffer: &mut Buffer) {
    let lines = lines(view, run, usize::from(area.width));
    put_all(buffer, area, &lines, view.node_top);
}

fn lines(view: &View, run: &Run, width: usize) -> Vec<Line<'static>> {
    let mut page = Page {
        lines: Vec::new(),
        theme: view.theme,
        width,
    };
    let Some(row) = view.row(run) else {
        page.say("", "no node is known yet");
        return page.lines;
    };
    page.lines.push(heading(row, &view.theme));
    let node = run.ledger().get_node(&row.name);
    for why in node.into_iter().flat_map(|node| node.losses.last()) {
        let style = view.theme.style(Role::Dead);
        page.say_as("lost", why, style);
    }
    let Some(facts) = node.and_then(|node| node.facts.as_ref()) else {
        unsurveyed(&mut page, view, run, row);
        return page.lines;
    };
    host(&mut page, facts);
    page.blank();
    match &facts.pcie {
        Fact::Unknown { why } => page.say("PCIe", format!("unknown: {why}")),
        Fact::Known { value, .. } if value.functions.len() > MOST_FUNCTIONS => {
            let more = value.functions.len();
            page.say("PCIe", format!("{more} functions: too many to be drawn"));
        }
        Fact::Known { value, .. } => {
            tree(&mut page, row, facts, value);
            paths(&mut page, facts, value);
        }
    }
    let devices = facts.rdma.value().map_or(&[][..], Vec::as_slice);
    if let Some(why) = facts.rdma.why_unknown() {
        page.say("RDMA", format!("unknown: {why}"));
    }
    if let Some(why) = counters::why_none(view, run).filter(|_| !devices.is_empty()) {
        page.say("counters", why);
    }
    for nic in devices.iter().take(MOST_ENDS) {
        device(&mut page, (view, run), row, facts, nic);
    }
    page.lines
}

/// What is known of a node that is only watched, or was not surveyed yet: its counters, and who holds
/// queue pairs.
fn unsurveyed(page: &mut Page, view: &View, run: &Run, row: &Row) {
    match run.is_watch() {
        true => page.say(
            "",
            "what is in it is not looked at by a watch: linerate inspect shows that",
        ),
        false => page.say("", "it was not surveyed yet"),
    }
    let watch = run.ledger().get_node(&row.name);
    let watch = watch.and_then(|node| node.watch.as_ref());
    let held = watch.map(NodeWatch::queue_pairs);
    for lane in run.live().lanes(&row.name).iter().take(MOST_ENDS) {
        page.blank();
        page.title(&format!("{} port {}", fit(&lane.device, 64), lane.port));
        let width = page.width;
        page.lines
            .extend(counters::lines(view, run, Some(lane), width));
        let of_device = |mut all: QueuePairs| all.remove(&lane.device).unwrap_or_default();
        if let Some(held) = held {
            holders(page, &held.clone().map(of_device));
        }
    }
}

fn heading(row: &Row, theme: &Theme) -> Line<'static> {
    let leaf = row.leaf.as_ref().map(|leaf| format!(", {leaf}"));
    let mark = theme.style(row.mark.role());
    let says = format!("  {}{}", row.mark.words(), leaf.unwrap_or_default());
    Line::from(vec![
        Span::styled(format!(" {} ", row.mark.sign(theme)), mark),
        Span::styled(fit(&row.name.0, 64), theme.style(Role::Title)),
        Span::raw(fit(&says, 64)),
    ])
}

fn host(page: &mut Page, facts: &NodeFacts) {
    page.fact("host", &facts.hostname);
    match (&facts.kernel, &facts.arch) {
        (Fact::Known { value: kernel, .. }, Fact::Known { value: arch, .. }) => {
            page.say("kernel", format!("Linux {kernel}, {arch}"));
        }
        (kernel, _) => page.fact("kernel", kernel),
    }
    if let Some(seconds) = facts.uptime_s.value() {
        page.say("up", clock(seconds.saturating_mul(1000)));
    }
    let exempt = match facts.host.memlock_exempt.value() {
        Some(true) => ", from which the agent is exempt (CAP_IPC_LOCK)",
        _ => "",
    };
    match &facts.memlock {
        Fact::Known { value, .. } => page.say("memlock", format!("{value}{exempt}")),
        unknown => page.fact("memlock", unknown),
    }
    page.fact("libibverbs", &facts.libibverbs);
}

/// Every function in its place, those of a root below it.
fn tree(page: &mut Page, row: &Row, facts: &NodeFacts, tree: &PcieTree) {
    page.title("PCIe");
    if tree.virtual_machine.value() == Some(&true) {
        page.say("", "as a hypervisor shows it to this virtual machine");
    }
    for why in tree.unread.iter().take(MOST_LINES) {
        page.say("unread", why);
    }
    let mut below: HashMap<&PciAddress, Vec<&PciFunction>> = HashMap::new();
    let mut roots = Vec::new();
    for function in &tree.functions {
        match function
            .parent
            .as_ref()
            .filter(|up| tree.function(up).is_some())
        {
            Some(parent) => below.entry(parent).or_default().push(function),
            None => roots.push(function),
        }
    }
    let ends = tree.functions.iter().filter(|f| f.role != PciRole::Bridge);
    let links = ends
        .take(MOST_ENDS * 2)
        .flat_map(|end| links_on_path(tree, &end.address));
    let branches = Branches {
        names: names(row, facts, tree),
        links: links.map(|link| (link.below.clone(), link)).collect(),
        below,
    };
    let mut root = None;
    for function in roots {
        let at = function.root.value().map_or("root unknown", String::as_str);
        if root != Some(at) {
            root = Some(at);
            let numa = function
                .numa_node
                .value()
                .map(|node| format!(", NUMA node {node}"));
            page.say("", format!("{at}{}", numa.unwrap_or_default()));
        }
        branches.draw(page, function, &mut Vec::new());
    }
}

struct Branches<'a> {
    below: HashMap<&'a PciAddress, Vec<&'a PciFunction>>,
    links: HashMap<PciAddress, LinkOnPath>,
    names: HashMap<&'a PciAddress, String>,
}

impl Branches<'_> {
    /// A function and what is below it; `last` says of each level above whether it was the last there.
    fn draw(&self, page: &mut Page, function: &PciFunction, last: &mut Vec<bool>) {
        let (theme, dim) = (page.theme, page.theme.style(Role::Dim));
        let mut stem = "   ".to_owned();
        for (level, is_last) in last.iter().enumerate() {
            let is_end = level + 1 == last.len();
            stem.push_str(match (is_end, is_last, theme.unicode) {
                (true, true, true) => "└─ ",
                (true, false, true) => "├─ ",
                (true, _, false) => "|- ",
                (false, true, _) => "   ",
                (false, false, true) => "│  ",
                (false, false, false) => "|  ",
            });
        }
        let name = self
            .names
            .get(&function.address)
            .map_or("bridge", String::as_str);
        let tree = (page.width / 2).clamp(TREE.0, TREE.1);
        let room = tree.saturating_sub(stem.chars().count());
        let text = pad(&format!("{} {name}", function.address), room);
        let style = match function.role {
            PciRole::Bridge => dim,
            _ => Style::new(),
        };
        let mut spans = vec![Span::styled(stem, dim), Span::styled(text, style)];
        if let Some(link) = self.links.get(&function.address) {
            spans.extend(link_spans(link, &theme));
        }
        page.lines.push(Line::from(spans));
        let below = self
            .below
            .get(&function.address)
            .map_or(&[][..], Vec::as_slice);
        if last.len() >= MOST_DEEP {
            return;
        }
        for (n, function) in below.iter().enumerate() {
            last.push(n + 1 == below.len());
            self.draw(page, function, last);
            last.pop();
        }
    }
}

/// The link above a function: a mark where it is below what both its ends are capable of.
fn link_spans(link: &LinkOnPath, theme: &Theme) -> Vec<Span<'static>> {
    let text = match &link.current {
        Ok(_) => link_text(link),
        Err(why) => format!("link unknown: {why}"),
    };
    let (sign, style) = match (link.is_degraded(), &link.current) {
        (true, _) => (Mark::Degraded.sign(theme), theme.style(Role::Degraded)),
        (_, Err(_)) => ("?", theme.style(Role::Dim)),
        _ => (" ", Style::new()),
    };
    let text = fit(&text, 200);
    vec![Span::styled(format!(" {sign} {text}"), style)]
}

/// GPUs by their number, NICs by their devices and rails.
fn names<'a>(
    row: &Row,
    facts: &'a NodeFacts,
    tree: &'a PcieTree,
) -> HashMap<&'a PciAddress, String> {
    let mut names: HashMap<&PciAddress, String> = HashMap::new();
    for function in &tree.functions {
        if function.role == PciRole::Nic {
            names.insert(&function.address, model(function));
        }
    }
    for (index, gpu) in tree.gpus().enumerate() {
        names.insert(&gpu.address, format!("GPU{index} {}", model(gpu)));
    }
    let mut devices: HashMap<&PciAddress, String> = HashMap::new();
    for device in facts.rdma.value().into_iter().flatten().take(MOST_ENDS) {
        let Some(address) = device.pci.value() else {
            continue;
        };
        let name = devices.entry(address).or_default();
        if !name.is_empty() {
            name.push_str(", ");
        }
        name.push_str(&device.name);
        if let Some(rail) = rail_of(row, &device.name) {
            name.push_str(&format!(" (rail {rail})"));
        }
    }
    names.extend(devices);
    names
}

/// The place of the rail that a device plays.
fn rail_of(row: &Row, device: &str) -> Option<usize> {
    let plays = |nic: &crate::model::NicId| nic.device == device;
    row.cells
        .iter()
        .position(|cell| cell.nic.as_ref().is_some_and(plays))
}

/// The path class of each GPU to each NIC, and which are the nearest.
fn paths(page: &mut Page, facts: &NodeFacts, tree: &PcieTree) {
    let rdma = facts.rdma.value().map_or(&[][..], Vec::as_slice);
    if tree.gpus().count() == 0 || rdma.is_empty() {
        return;
    }
    page.blank();
    page.title("From GPU to NIC");
    if tree.gpus().count() + rdma.len() > MOST_ENDS {
        page.say("", "too many GPUs and NICs for a table");
        return;
    }
    let matrix = affinity(tree, rdma);
    let is_nic = |n: &usize| !matrix.endpoints[*n].is_gpu;
    let nics: Vec<usize> = (0..matrix.endpoints.len()).filter(is_nic).collect();
    let width = |n: &usize| matrix.endpoints[*n].name.chars().count().clamp(4, 16) + 1;
    let head = nics
        .iter()
        .map(|n| pad(&matrix.endpoints[*n].name, width(n)));
    let head = format!("   {}{}", pad("", 7), head.collect::<String>());
    let dim = page.theme.style(Role::Dim);
    page.lines.push(Line::styled(head, dim));
    for gpu in 0..matrix.endpoints.len() - nics.len() {
        let cell = |n: &usize| {
            let class = matrix.classes[gpu][*n].as_ref();
            pad(
                &class.map_or_else(|_| "?".to_owned(), ToString::to_string),
                width(n),
            )
        };
        let cells: String = nics.iter().map(cell).collect();
        let nearest = nearest_text(&matrix, gpu);
        page.lines.push(Line::from(vec![
            Span::styled(format!("   {}", pad(&matrix.endpoints[gpu].name, 7)), dim),
            Span::raw(format!("{cells} ")),
            Span::styled(fit(&format!("nearest: {nearest}"), 120), dim),
        ]));
    }
}

fn device(
    page: &mut Page,
    (view, run): (&View, &Run),
    row: &Row,
    facts: &NodeFacts,
    device: &RdmaDevice,
) {
    page.blank();
    let rail = rail_of(row, &device.name);
    let mark = rail
        .and_then(|rail| row.cells.get(rail))
        .map(|cell| cell.mark());
    let plays = match (rail, mark) {
        (Some(rail), Some(mark)) => format!(
            ", rail {rail}{}: {} {}",
            if rail == view.rail { " (selected)" } else { "" },
            mark.sign(&view.theme),
            mark.words()
        ),
        _ => String::new(),
    };
    page.title(&format!("{}{plays}", device.name));
    if let Some(kind) = device.software {
        let kind = match kind {
            SoftwareRdma::Rxe => "rxe",
            SoftwareRdma::Siw => "siw",
        };
        page.say(
            "software",
            format!("software RDMA ({kind}): its rate and CPU cost mean nothing"),
        );
    }
    page.fact("driver", &device.driver);
    page.fact("firmware", &device.firmware);
    page.fact("NUMA node", &device.numa_node);
    if let (Some(tree), Some(address)) = (facts.pcie.value(), device.pci.value()) {
        match pcie_limit(tree, address) {
            Ok(limit) => page.say("limit", limit_text(&limit)),
            Err(why) => page.say("limit", format!("unknown: {why}")),
        }
        let chain = tree.chain(address).into_iter().take(MOST_DEEP);
        for function in chain {
            if let Some(text) = function.errors.value().and_then(errors_text) {
                page.say("PCIe errors", format!("{text} at {}", function.address));
            }
        }
    }
    for each in device.ports.iter().take(8) {
        port(page, each);
        let lane = run.live().lane(&row.name, &device.name, each.number);
        let width = page.width;
        page.lines.extend(counters::lines(view, run, lane, width));
    }
    holders(page, &device.queue_pairs);
}

fn port(page: &mut Page, port: &Port) {
    let known = [
        port.state.value().map(ToString::to_string),
        port.physical_state.value().cloned(),
        port.rate.value().map(ToString::to_string),
        port.link_layer.value().map(ToString::to_string),
        port.active_mtu.value().map(|mtu| format!("RDMA MTU {mtu}")),
        port.netdev.value().map(|netdev| match netdev.mtu.value() {
            Some(mtu) => format!("{} MTU {mtu}", netdev.name),
            None => netdev.name.clone(),
        }),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    page.say(&format!("port {}", port.number), known.join(", "));
    for (label, why) in [
        ("state", port.state.why_unknown()),
        ("rate", port.rate.why_unknown()),
        ("RDMA MTU", port.active_mtu.why_unknown()),
    ] {
        if let Some(why) = why {
            page.say(label, format!("unknown: {why}"));
        }
    }
    let rows = port.gids.iter().take(MOST_LINES);
    for entry in rows {
        let [index, kind, address, netdev] = entry.columns(port.link_layer.value());
        page.say(&index, format!("{kind} {address} {netdev}"));
    }
    if let Some(more @ 1..) = port.gids.len().checked_sub(MOST_LINES) {
        page.say("", format!("and {more} more GIDs"));
    }
    errors(page, port);
}

/// Counters of errors that are not zero, or that there are none, or why that is unknown.
fn errors(page: &mut Page, port: &Port) {
    let sets = [&port.counters, &port.hw_counters];
    let counted = sets.into_iter().filter_map(Fact::value);
    let errors: Vec<String> = counted
        .clone()
        .flat_map(Counters::errors)
        .take(MOST_LINES)
        .map(ToString::to_string)
        .collect();
    match (errors.is_empty(), counted.count(), &port.counters) {
        (false, ..) => {
            let style = page.theme.style(Role::Doubt);
            page.say_as("errors", errors.join(", "), style);
        }
        (true, 1.., _) => page.say("errors", "none counted"),
        (true, 0, Fact::Unknown { why }) if port.counters.was_asked() => {
            page.say("errors", format!("unknown: {why}"));
        }
        _ => {}
    }
}

/// Who holds queue pairs.
fn holders(page: &mut Page, queue_pairs: &Fact<Vec<QueuePairHolder>>) {
    match queue_pairs {
        Fact::Known { value, .. } if value.is_empty() => page.say("QPs", "nobody holds any"),
        Fact::Known { value, .. } => {
            for holder in value.iter().take(MOST_LINES) {
                page.say("QPs", holder);
            }
            if let Some(more @ 1..) = value.len().checked_sub(MOST_LINES) {
                page.say("", format!("and {more} more holders"));
            }
        }
        unknown => page.fact("QPs", &unknown.clone().map(|_| "")),
    }
}
