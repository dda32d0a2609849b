//! The PCIe part of `linerate inspect`: links up to the root, GPUs, and who is near whom.

use std::io;

use serde_json::{Value, json};

use super::{Page, Summary, alone};
use crate::model::{Fact, NodeFacts, PciAddress, PciFunction, PcieTree};
use crate::topology::words::{
    acs_text, errors_text, iommu_text, limit_text, link_text, model, nearest_text,
};
use crate::topology::{Affinity, PathClass, affinity, links_on_path, pcie_limit};

/// The tree, or where none is known a line that says why.
pub(super) fn tree<'a>(
    page: &mut Page<'_>,
    facts: &'a NodeFacts,
) -> io::Result<Option<&'a PcieTree>> {
    let tree = match &facts.pcie {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => {
            page.field("PCIe", format!("unknown: {why}"))?;
            return Ok(None);
        }
    };
    if tree.virtual_machine.value() == Some(&true) {
        page.field("PCIe", "as a hypervisor shows it to this virtual machine")?;
    }
    for why in &tree.unread {
        page.field("PCIe", format!("unread: {why}"))?;
    }
    Ok(Some(tree))
}

/// The way of a NIC up to its root, and what it carries.
pub(super) fn nic(page: &mut Page<'_>, tree: &PcieTree, address: &PciAddress) -> io::Result<()> {
    let Some(function) = tree.function(address) else {
        return Ok(());
    };
    page.part("model", model(function))?;
    way_up(page, tree, function)?;
    let text = match pcie_limit(tree, address) {
        Ok(limit) => limit_text(&limit),
        Err(why) => format!("unknown: {why}"),
    };
    page.part("limit", text)
}

/// The path class of every pair of GPUs and NICs, for programs.
pub(super) fn paths(facts: &NodeFacts) -> Vec<Value> {
    let (Some(tree), Some(rdma)) = (facts.pcie.value(), facts.rdma.value()) else {
        return Vec::new();
    };
    let matrix = affinity(tree, rdma);
    let mut paths = Vec::new();
    for (a, from) in matrix.endpoints.iter().enumerate() {
        for (b, to) in matrix.endpoints.iter().enumerate().skip(a + 1) {
            let mut path = json!({"from": from.name, "to": to.name});
            match &matrix.classes[a][b] {
                Ok(class) => path["class"] = json!(class.to_string()),
                Err(why) => path["unknown"] = json!(why),
            }
            paths.push(path);
        }
    }
    paths
}

/// The GPUs, each with its way up, and the matrix of GPUs and NICs.
pub(super) fn gpus_and_affinity(
    page: &mut Page<'_>,
    facts: &NodeFacts,
    tree: &PcieTree,
) -> io::Result<()> {
    let rdma = facts.rdma.value().map_or(&[][..], Vec::as_slice);
    let affinity = affinity(tree, rdma);
    for (index, function) in tree.gpus().enumerate() {
        gpu(page, tree, function, &affinity, index)?;
        super::gpu::known_to_its_driver(page, facts, &function.address)?;
    }
    match affinity.endpoints.len() {
        0 | 1 => Ok(()),
        _ => matrix(page, &affinity),
    }
}

fn gpu(
    page: &mut Page<'_>,
    tree: &PcieTree,
    function: &PciFunction,
    affinity: &Affinity,
    index: usize,
) -> io::Result<()> {
    writeln!(page.out)?;
    let driver = match &function.driver {
        Fact::Known { value, .. } => format!("driver {value}"),
        Fact::Unknown { why } => format!("driver unknown: {why}"),
    };
    page.field(
        &format!("GPU{index}"),
        format!("{}, {driver}", model(function)),
    )?;
    page.part("PCI", &function.address)?;
    page.part("NUMA node", alone(&function.numa_node))?;
    way_up(page, tree, function)?;
    if let Some(window) = &function.memory_window {
        page.part("BAR", alone(window))?;
    }
    page.part("nearest", nearest_text(affinity, index))
}

/// A line for each link from the device up, then how the device may use them.
fn way_up(page: &mut Page<'_>, tree: &PcieTree, function: &PciFunction) -> io::Result<()> {
    let links = links_on_path(tree, &function.address);
    let texts: Vec<_> = links.iter().map(link_text).collect();
    let width = texts.iter().map(|text| text.chars().count()).max();
    for (index, (link, text)) in links.iter().zip(&texts).enumerate() {
        let root = || alone(&function.root);
        let ends = match &link.above {
            Some(above) if index + 1 == links.len() => {
                format!("{} → {above} → {}", link.below, root())
            }
            Some(above) => format!("{} → {above}", link.below),
            None => format!("{} → {}", link.below, root()),
        };
        let width = width.unwrap_or_default().min(60);
        let label = if index == 0 { "PCIe" } else { "" };
        page.part(label, format!("{text:<width$}  {ends}"))?;
    }
    for link in &links {
        if let Err(why) = &link.current {
            page.line("    ", &link.below.to_string(), &format!("unknown: {why}"))?;
        }
    }
    settings(page, tree, function)?;
    errors(page, tree, function)
}

/// What the functions from the device up counted, a line for each that counted anything.
fn errors(page: &mut Page<'_>, tree: &PcieTree, function: &PciFunction) -> io::Result<()> {
    let chain = tree.chain(&function.address);
    let known = chain
        .iter()
        .filter(|function| function.errors.value().is_some());
    if let (0, Some(why)) = (known.count(), function.errors.why_unknown()) {
        return page.part("errors", format!("unknown: {why}"));
    }
    let mut label = "errors";
    for function in chain {
        if let Some(text) = function.errors.value().and_then(errors_text) {
            page.part(label, format!("{text} at {}", function.address))?;
            label = "";
        }
    }
    match label {
        "" => Ok(()),
        label => page.part(label, "none counted"),
    }
}

fn settings(page: &mut Page<'_>, tree: &PcieTree, function: &PciFunction) -> io::Result<()> {
    let mut summary = Summary::default();
    summary.add("control", &function.control, |control| {
        let ordering = if control.relaxed_ordering {
            "on"
        } else {
            "off"
        };
        format!(
            "MaxPayload {}, MaxReadRequest {}, relaxed ordering {ordering}",
            control.max_payload, control.max_read_request
        )
    });
    if let Some(iommu) = &function.iommu {
        summary.add("IOMMU", iommu, iommu_text);
    }
    if let Some(physical) = &function.physical_function {
        summary.add("physical", physical, |address| {
            format!("virtual function of {address}")
        });
    }
    page.summary("settings", summary)?;
    match acs_text(&tree.chain(&function.address)) {
        Some(text) => page.part("ACS", text),
        None => Ok(()),
    }
}

/// The matrix as `nvidia-smi topo -m` lays it out, then a legend of what is in it.
fn matrix(page: &mut Page<'_>, affinity: &Affinity) -> io::Result<()> {
    let names: Vec<_> = affinity.endpoints.iter().map(|end| &*end.name).collect();
    grid(page, &names, |row, column| {
        let class = affinity.classes[row][column].as_ref();
        class.map_or_else(|_| "?".to_owned(), ToString::to_string)
    })?;
    legend(page, affinity)
}

/// A square of cells below and beside the same names; of a name itself there is no cell.
pub(super) fn grid(
    page: &mut Page<'_>,
    names: &[&str],
    cell: impl Fn(usize, usize) -> String,
) -> io::Result<()> {
    writeln!(page.out)?;
    let longest = names.iter().map(|name| name.len()).max();
    let width = longest.unwrap_or(0).max(4);
    let cells = |cells: Vec<String>| {
        let padded = cells.iter().map(|cell| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ")
    };
    let heads = names.iter().map(|name| (*name).to_owned()).collect();
    page.field("affinity", cells(heads))?;
    for (row, name) in names.iter().enumerate() {
        let cell = |column: usize| match row == column {
            true => "X".to_owned(),
            false => cell(row, column),
        };
        page.part(name, cells((0..names.len()).map(cell).collect()))?;
    }
    Ok(())
}

fn legend(page: &mut Page<'_>, affinity: &Affinity) -> io::Result<()> {
    let size = affinity.endpoints.len();
    let pairs = || (0..size).flat_map(move |row| (row + 1..size).map(move |column| (row, column)));
    let mut reasons: Vec<&String> = Vec::new();
    for (row, column) in pairs() {
        if let Err(why) = &affinity.classes[row][column]
            && !reasons.contains(&why)
        {
            reasons.push(why);
        }
    }
    for class in PathClass::ALL {
        if pairs().any(|(row, column)| affinity.classes[row][column] == Ok(class)) {
            page.line("    ", &class.to_string(), class.meaning())?;
        }
    }
    reasons
        .iter()
        .try_for_each(|why| page.line("    ", "?", &format!("unknown: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::pcie::{TwoSockets, address, flat};
    use crate::model::{AcsControl, Iommu, PciRole, PcieErrors, PcieLink};

    fn print(facts: &NodeFacts) -> String {
        let mut out = Vec::new();
        crate::report::inspect::write_facts(facts, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn with(change: impl FnOnce(&mut PcieTree)) -> NodeFacts {
        let mut facts = TwoSockets::facts();
        if let Fact::Known { value, .. } = &mut facts.pcie {
            change(value);
        }
        facts
    }

    #[test]
    fn two_sockets_with_switches_and_a_narrowed_slot() {
        insta::assert_snapshot!(print(&TwoSockets::facts()));
    }

    #[test]
    fn without_root_and_behind_acs() {
        let facts = with(|tree| {
            let cut = "/sys/bus/pci/devices/0000:c4:00.0/config needs root: \
                       config space is cut at 64 bytes";
            for function in &mut tree.functions {
                function.control = Fact::unknown(cut);
                if let Some(acs) = &mut function.acs {
                    *acs = Fact::unknown(cut);
                }
                if function.address.0 == "0000:12:00.0" {
                    let mut errors = PcieErrors::default();
                    errors.correctable.insert("BadTLP".into(), 12);
                    errors.nonfatal.insert("UnsupReq".into(), 1);
                    function.errors = Fact::known(errors, "aer_dev_correctable");
                }
                if function.address.0 == "0000:12:01.0" {
                    let control = AcsControl {
                        source_validation: true,
                        translation_blocking: false,
                        request_redirect: true,
                        completion_redirect: true,
                        upstream_forwarding: true,
                        egress_control: false,
                        direct_translated: false,
                    };
                    function.acs = Some(Fact::known(Some(control), "config"));
                }
                // The slot of mlx5_1 is a narrow one.
                if function.address.0 == "0000:10:02.0" {
                    function.link.max_width = Fact::known(8, "max_link_width");
                    function.link.width = Fact::known(8, "current_link_width");
                }
            }
        });
        insta::assert_snapshot!(print(&facts));
    }

    #[test]
    fn a_guest_says_what_its_hypervisor_hides() {
        let mut facts = with(|tree| {
            *tree = flat(&[TwoSockets::NIC0, TwoSockets::NIC1]);
            tree.virtual_machine = Fact::known(true, "/proc/cpuinfo");
            for function in &mut tree.functions {
                function.link = PcieLink::unknown("a hypervisor hides the real link");
                function.errors = Fact::unknown("aer_dev_correctable does not exist");
                function.iommu = Some(Fact::known(
                    Iommu::Translates { kind: "DMA".into() },
                    "type",
                ));
            }
            tree.functions[1].role = PciRole::Gpu;
            tree.functions[1].driver = Fact::unknown("no driver is bound");
            tree.functions[1].physical_function = Some(Fact::known(address("0000:00:00.0"), ""));
        });
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value.truncate(1);
        }
        insta::assert_snapshot!(print(&facts));
    }
}
