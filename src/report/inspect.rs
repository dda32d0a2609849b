//! The facts of one node as text for a person: what is known on aligned lines, what is not with
//! its reason below.

mod counts;
mod gpu;
mod host;
mod nic;
mod pcie;
mod topo;

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

pub use topo::{topo_json, topo_text};

use super::json::{CannotTellFields, FindingFields, REPORT_SCHEMA, cannot_tell, finding};
use super::quiet;
use super::text::Style;
use crate::judge::Said;
use crate::model::{
    Fact, GidType, LinkLayer, NodeFacts, PcieTree, Port, RdmaDevice, SoftwareRdma, visible,
};

/// Writes what `linerate inspect` prints: the facts, then what the rules say of them.
///
/// # Errors
/// Those of `out`.
pub fn text(facts: &NodeFacts, said: &Said, style: Style, out: &mut dyn Write) -> io::Result<()> {
    write_facts(facts, out)?;
    super::findings::findings(&said.findings, style, out)?;
    super::findings::cannot_tell(&said.cannot_tell, style, out)
}

/// Writes the same as one JSON document.
///
/// # Errors
/// Those of `out`.
pub fn json(facts: &NodeFacts, said: &Said, out: &mut dyn Write) -> io::Result<()> {
    let document = Document {
        schema: REPORT_SCHEMA,
        linerate: env!("CARGO_PKG_VERSION"),
        facts,
        paths: pcie::paths(facts),
        gpudirect_paths: gpu::paths(facts),
        findings: said.findings.iter().map(finding).collect(),
        cannot_tell: said.cannot_tell.iter().map(cannot_tell).collect(),
    };
    quiet::pretty(out, &document)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    linerate: &'static str,
    #[serde(flatten)]
    facts: &'a NodeFacts,
    /// What lies between each GPU or NIC and each other.
    paths: Vec<Value>,
    /// How each NIC reaches the memory of each GPU that is made for it.
    gpudirect_paths: Vec<Value>,
    findings: Vec<FindingFields<'a>>,
    cannot_tell: Vec<CannotTellFields<'a>>,
}

pub(super) fn write_facts(facts: &NodeFacts, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page { out };
    node(&mut page, facts)?;
    let tree = pcie::tree(&mut page, facts)?;
    match &facts.rdma {
        Fact::Unknown { why } => page.field("RDMA", format!("unknown: {why}"))?,
        Fact::Known { value, from } if value.is_empty() => {
            page.field("RDMA", format!("no device in {from}"))?;
        }
        Fact::Known { value, .. } => value
            .iter()
            .try_for_each(|d| device(&mut page, facts, d, tree))?,
    }
    nic::others(&mut page, facts)?;
    let Some(tree) = tree else {
        return Ok(());
    };
    pcie::gpus_and_affinity(&mut page, facts, tree)?;
    gpu::gpudirect(&mut page, facts, tree)
}

/// Lines of a label and a text, with nothing in them that steers a terminal.
struct Page<'a> {
    out: &'a mut dyn Write,
}

impl Page<'_> {
    fn line(&mut self, indent: &str, label: &str, text: &str) -> io::Result<()> {
        // Labels end in column 13 at every depth.
        let width = 12usize.saturating_sub(indent.len());
        let line = format!("{indent}{label:<width$} {text}");
        writeln!(self.out, "{}", visible(line.trim_end()))
    }

    fn field(&mut self, label: &str, text: impl Display) -> io::Result<()> {
        self.line("", label, &text.to_string())
    }

    fn part(&mut self, label: &str, text: impl Display) -> io::Result<()> {
        self.line("  ", label, &text.to_string())
    }

    /// What is known of `summary` on one line, then a line for each thing unknown.
    fn summary(&mut self, label: &str, summary: Summary) -> io::Result<()> {
        let known = summary.known.join(", ");
        self.part(
            label,
            if known.is_empty() {
                "nothing known"
            } else {
                &known
            },
        )?;
        for (label, why) in summary.unknown {
            self.line("    ", label, &format!("unknown: {why}"))?;
        }
        Ok(())
    }
}

/// Facts that share a line.
#[derive(Default)]
struct Summary {
    known: Vec<String>,
    unknown: Vec<(&'static str, String)>,
}

impl Summary {
    /// Adds a fact in the words of `say`; `label` names it where it is unknown.
    fn add<T>(
        &mut self,
        label: &'static str,
        fact: &Fact<T>,
        say: impl FnOnce(&T) -> String,
    ) -> &mut Self {
        match fact {
            Fact::Known { value, .. } => self.known.push(say(value)),
            Fact::Unknown { why } => self.unknown.push((label, why.to_string())),
        }
        self
    }
}

/// A fact on a line of its own.
fn alone<T: Display>(fact: &Fact<T>) -> String {
    match fact {
        Fact::Known { value, .. } => value.to_string(),
        Fact::Unknown { why } => format!("unknown: {why}"),
    }
}

fn node(page: &mut Page<'_>, facts: &NodeFacts) -> io::Result<()> {
    page.field("host", alone(&facts.hostname))?;
    match (&facts.kernel, &facts.arch) {
        (Fact::Known { value: kernel, .. }, Fact::Known { value: arch, .. }) => {
            page.field("kernel", format!("Linux {kernel}, {arch}"))?;
        }
        (kernel, arch) => {
            page.field("kernel", alone(kernel))?;
            page.field("machine", alone(arch))?;
        }
    }
    host::memlock(page, facts)?;
    page.field("libibverbs", alone(&facts.libibverbs))?;
    host::host(page, facts)?;
    gpu::drivers(page, &facts.gpu)
}

fn device(
    page: &mut Page<'_>,
    facts: &NodeFacts,
    device: &RdmaDevice,
    tree: Option<&PcieTree>,
) -> io::Result<()> {
    writeln!(page.out)?;
    let mut title = Summary::default();
    title.add("driver", &nic::driver(device), Clone::clone);
    if device.software.is_none() {
        title.add("firmware", &device.firmware, |version| {
            format!("firmware {version}")
        });
    }
    page.field(&device.name, title.known.join(", "))?;
    for (label, why) in title.unknown {
        page.part(label, format!("unknown: {why}"))?;
    }
    if let Some(kind) = device.software {
        let name = match kind {
            SoftwareRdma::Rxe => "rxe",
            SoftwareRdma::Siw => "siw",
        };
        page.part(
            "software",
            format!("software RDMA ({name}): its rate and CPU cost mean nothing"),
        )?;
    }
    nic::card(page, facts, device)?;
    page.part("PCI", alone(&device.pci))?;
    page.part("NUMA node", alone(&device.numa_node))?;
    if let (Some(tree), Some(address)) = (tree, device.pci.value()) {
        pcie::nic(page, tree, address)?;
    }
    device
        .ports
        .iter()
        .try_for_each(|p| port(page, device, p))?;
    counts::queue_pairs(page, device)?;
    device
        .unread
        .iter()
        .try_for_each(|why| page.part("unread", why))
}

fn port(page: &mut Page<'_>, device: &RdmaDevice, port: &Port) -> io::Result<()> {
    let mut summary = Summary::default();
    summary
        .add("state", &port.state, ToString::to_string)
        .add("physical", &port.physical_state, Clone::clone)
        .add("rate", &port.rate, |rate| match port.lanes.value() {
            Some(lanes) => format!("{rate} ({lanes})"),
            None => rate.to_string(),
        })
        .add("link", &port.link_layer, ToString::to_string)
        .add("RDMA MTU", &port.active_mtu, |mtu| {
            format!("RDMA MTU {mtu}")
        });
    if port.link_layer.value() != Some(&LinkLayer::Ethernet) {
        summary.add("LID", &port.lid, |lid| format!("LID {lid}"));
    }
    page.summary(&format!("port {}", port.number), summary)?;
    counts::traffic(page, port)?;
    counts::errors(page, port)?;
    nic::subnet(page, port)?;
    netdev(page, device, port)?;
    gids(page, port)?;
    port.unread
        .iter()
        .try_for_each(|why| page.part("unread", why))
}

fn netdev(page: &mut Page<'_>, device: &RdmaDevice, port: &Port) -> io::Result<()> {
    let netdev = match &port.netdev {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => return page.part("netdev", format!("unknown: {why}")),
    };
    let mut summary = Summary::default();
    summary.known.push(netdev.name.clone());
    summary
        .add("state", &netdev.operstate, Clone::clone)
        .add("MTU", &netdev.mtu, |mtu| format!("MTU {mtu}"));
    summary.known.extend(nic::link(&netdev.settings));
    page.summary("netdev", summary)?;
    nic::ethernet(page, device, port, netdev)
}

fn gids(page: &mut Page<'_>, port: &Port) -> io::Result<()> {
    let link_layer = port.link_layer.value();
    let rows: Vec<_> = port
        .gids
        .iter()
        .map(|entry| entry.columns(link_layer))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (kinds, addresses) = (width(1), width(2));
    for [index, kind, address, netdev] in &rows {
        page.part(
            index,
            format!("{kind:<kinds$}  {address:<addresses$}  {netdev}"),
        )?;
    }
    for (what, why, indexes) in unknown_of_gids(port) {
        page.line(
            "    ",
            "",
            &format!("{what} of GID {indexes} unknown: {why}"),
        )?;
    }
    Ok(())
}

/// What is unknown of the GIDs: each reason once, with the indexes that it is about.
fn unknown_of_gids(port: &Port) -> Vec<(&'static str, &str, String)> {
    let on_infiniband = port.link_layer.value() == Some(&LinkLayer::InfiniBand);
    let mut found: Vec<(&'static str, &str, String)> = Vec::new();
    for entry in &port.gids {
        let prefix = (entry.kind.value() == Some(&GidType::RoceV2)
            && entry.netdev.value().is_some())
        .then(|| entry.prefix_len.why_unknown());
        let netdev = (!on_infiniband).then(|| entry.netdev.why_unknown());
        for (what, why) in [
            ("type", entry.kind.why_unknown()),
            ("netdev", netdev.flatten()),
            ("prefix", prefix.flatten()),
        ] {
            let Some(why) = why else { continue };
            match found
                .iter_mut()
                .find(|(w, reason, _)| (*w, *reason) == (what, why))
            {
                Some((_, _, indexes)) => indexes.push_str(&format!(", {}", entry.index)),
                None => found.push((what, why, entry.index.to_string())),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        Bytes, Counter, Counters, Gbps, GidEntry, MemlockLimit, Netdev, PciAddress, PortState,
        QueuePairHolder,
    };

    fn known<T>(value: T) -> Fact<T> {
        Fact::known(value, "/sys/…")
    }

    fn print(facts: &NodeFacts) -> String {
        let mut out = Vec::new();
        write_facts(facts, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn node(rdma: Fact<Vec<RdmaDevice>>) -> NodeFacts {
        NodeFacts {
            hostname: known("node017".into()),
            kernel: known("6.8.0-45-generic".into()),
            arch: known("x86_64".into()),
            memlock: known(MemlockLimit::Unlimited),
            libibverbs: known("/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.39.0".into()),
            rdma,
            pcie: Fact::unknown("/sys/bus/pci/devices: No such file or directory (os error 2)"),
            ..NodeFacts::default()
        }
    }

    fn infiniband() -> RdmaDevice {
        RdmaDevice {
            name: "mlx5_3".into(),
            driver: known("mlx5_core".into()),
            software: None,
            firmware: known("28.41.1000".into()),
            pci: known(PciAddress("0000:98:00.0".into())),
            numa_node: known(1),
            dmabuf: known(true),
            efa_peer: None,
            ports: vec![Port {
                number: 1,
                state: known(PortState::Active),
                physical_state: known("LinkUp".into()),
                link_layer: known(LinkLayer::InfiniBand),
                rate: known(Gbps(400.0)),
                active_mtu: known(4096),
                lid: known(868),
                netdev: known(Netdev {
                    name: "ib3".into(),
                    mtu: known(2044),
                    operstate: known("up".into()),
                    ..Netdev::default()
                }),
                gids: vec![gid(0, "fe80::1070:fd03:e5:b1e2", GidType::IbOrRoceV1)],
                ..Port::default()
            }],
            ..RdmaDevice::default()
        }
    }

    fn gid(index: u32, address: &str, kind: GidType) -> GidEntry {
        GidEntry {
            index,
            gid: address.parse().unwrap(),
            kind: known(kind),
            netdev: Fact::unknown("a GID on InfiniBand belongs to no network interface"),
            prefix_len: Fact::unknown("only a RoCEv2 GID is an IP address"),
        }
    }

    fn on_eth1(entry: GidEntry, prefix_len: Option<u8>) -> GidEntry {
        let why = || {
            Fact::unknown(format!(
                "eth1 has no address {} (getifaddrs)",
                entry.gid.ip()
            ))
        };
        GidEntry {
            netdev: known("eth1".into()),
            prefix_len: prefix_len.map_or_else(why, known),
            ..entry
        }
    }

    fn soft_roce() -> RdmaDevice {
        let mut device = infiniband();
        device.name = "rxe0".into();
        device.driver = known("virtio_net".into());
        device.software = Some(SoftwareRdma::Rxe);
        device.firmware = Fact::unknown("software RDMA has no firmware");
        device.pci = known(PciAddress("0000:00:03.0".into()));
        device.numa_node = Fact::unknown(
            "/sys/devices/pci0000:00/0000:00:03.0/numa_node holds `-1`: the platform states none",
        );
        let port = &mut device.ports[0];
        port.link_layer = known(LinkLayer::Ethernet);
        port.lid = Fact::unknown("an Ethernet port has no LID");
        port.rate = known(Gbps(2.5));
        port.active_mtu = Fact::unknown("sysfs has no RDMA MTU, and libibverbs was not asked");
        port.netdev = known(Netdev {
            name: "eth1".into(),
            mtu: known(4200),
            operstate: known("up".into()),
            ..Netdev::default()
        });
        port.gids = vec![
            on_eth1(gid(0, "fe80::5054:ff:fe12:3456", GidType::RoceV2), Some(64)),
            on_eth1(gid(1, "::ffff:10.101.0.1", GidType::RoceV2), Some(24)),
            on_eth1(gid(12, "::ffff:10.101.0.9", GidType::IbOrRoceV1), None),
            on_eth1(gid(13, "fd00::9", GidType::RoceV2), None),
        ];
        device
    }

    #[test]
    fn infiniband_and_software_rdma() {
        insta::assert_snapshot!(print(&node(known(vec![infiniband(), soft_roce()]))));
    }

    #[test]
    fn everything_unknown_says_why() {
        let mut device = infiniband();
        let why = |name: &str| format!("/sys/class/infiniband/mlx5_3/{name}: Permission denied");
        device.driver = Fact::unknown(why("device"));
        device.firmware = Fact::unknown(why("fw_ver"));
        device.pci = Fact::unknown(why("device"));
        device.numa_node = Fact::unknown(why("device"));
        device.unread = vec![why("ports/x")];
        let port = &mut device.ports[0];
        port.state = Fact::unknown(why("ports/1/state"));
        port.physical_state = Fact::unknown(why("ports/1/phys_state"));
        port.link_layer = Fact::unknown(why("ports/1/link_layer"));
        port.rate = Fact::unknown(why("ports/1/rate"));
        port.active_mtu = Fact::unknown("not the live system");
        port.lid = Fact::unknown(why("ports/1/lid"));
        port.netdev = Fact::unknown("no network interface of this namespace");
        port.unread = vec![why("ports/1/gids/3")];
        for index in [1, 2] {
            let mut entry = gid(index, "fd00::1", GidType::RoceV2);
            entry.kind = Fact::unknown("the kernel does not say");
            port.gids.push(entry);
        }
        let mut facts = node(known(vec![device]));
        facts.hostname = Fact::unknown("uname: Function not implemented");
        facts.kernel = Fact::unknown("uname: Function not implemented");
        facts.arch = Fact::unknown("uname: Function not implemented");
        facts.memlock = known(MemlockLimit::Bytes(Bytes(65536)));
        facts.libibverbs = Fact::unknown("libibverbs.so.1 is not installed");
        insta::assert_snapshot!(print(&facts));
    }

    #[test]
    fn a_node_without_rdma() {
        let none = Fact::unknown(
            "/sys/class/infiniband does not exist: no RDMA driver is loaded (ib_core)",
        );
        let none = print(&node(none));
        let empty = print(&node(Fact::known(vec![], "/sys/class/infiniband")));
        insta::assert_snapshot!(format!("{none}---\n{empty}"));
    }

    #[test]
    fn errors_that_were_counted_are_told_on_one_line() {
        let counter = |name: &str, value, saturates_at| Counter {
            name: name.into(),
            value,
            saturates_at,
        };
        let mut device = infiniband();
        device.ports[0].counters = known(Counters {
            values: vec![
                counter("link_downed", 255, Some(255)),
                counter("port_xmit_data", 9, Some(u64::from(u32::MAX))),
                counter("symbol_error", 0, Some(65_535)),
            ],
            unread: Vec::new(),
        });
        device.ports[0].hw_counters = known(Counters {
            values: vec![counter("out_of_sequence", 3, None)],
            unread: Vec::new(),
        });
        let printed = print(&node(known(vec![device])));
        let line = printed.lines().find(|line| line.contains("errors"));
        assert_eq!(
            line,
            Some("  errors     link_downed 255 or more (saturated), out_of_sequence 3")
        );
    }

    #[test]
    fn holders_of_queue_pairs_are_told_on_one_line() {
        let holder = |pid, name: &str, rc, ud| QueuePairHolder {
            pid,
            name: name.into(),
            rc,
            ud,
            other: 0,
        };
        let mut device = infiniband();
        device.queue_pairs = known(vec![
            holder(Some(4711), "python3", 128, 1),
            holder(None, "ib_ipoib", 0, 1),
            holder(None, QueuePairHolder::UNSEEN, 2, 0),
        ]);
        let printed = print(&node(known(vec![device])));
        let line = printed.lines().find(|line| line.contains("QPs"));
        assert_eq!(
            line,
            Some(
                "  QPs        128 RC + 1 UD of python3 (pid 4711), 1 UD of ib_ipoib (kernel), \
                 2 RC of a process not seen from here"
            )
        );
    }

    #[test]
    fn nothing_read_from_a_node_steers_the_terminal() {
        let mut device = infiniband();
        device.name = "mlx5\u{1b}[2J\n".into();
        device.unread = vec!["\u{9b}31m\r".into()];
        let printed = print(&node(known(vec![device])));
        assert!(!printed.contains(|c: char| c.is_control() && c != '\n'));
        assert_eq!(printed.matches("mlx5").count(), 2, "{printed}");
        assert!(printed.contains("mlx5\u{fffd}[2J\u{fffd}"), "{printed}");
    }
}
