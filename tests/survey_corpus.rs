//! Surveys of what real machines showed. The captures are not part of the project:
//! LINERATE_CORPUS names the directory that holds them.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up fails where it stands"
)]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate::judge::inspect;
use linerate::model::{
    Counters, Fact, Gbps, LinkLayer, NodeFacts, NodeName, NodeType, PortState, RdmaDevice, Rule,
    Severity,
};
use linerate::survey::{Root, Sources, survey};

/// The corpus; `None`, loudly, where the variable is not set.
fn corpus(test: &str) -> Option<PathBuf> {
    let found = std::env::var_os("LINERATE_CORPUS").map(PathBuf::from);
    if found.is_none() {
        // Past the capture of a test's output, which hides what passing tests print.
        let mut stderr = io::stderr();
        let skipped = "LINERATE_CORPUS does not name a directory of captures";
        writeln!(stderr, "SKIPPED {test}: {skipped}").unwrap();
    }
    found
}

fn unpack(archive: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let tar = Command::new("tar")
        // Thousands of files on processors and interrupts.
        .args(["--exclude=*/sys/devices/system", "--exclude=*/proc"])
        .arg("-xf")
        .arg(archive)
        .arg("-C")
        .arg(dir.path())
        .status();
    assert!(
        tar.unwrap().success(),
        "tar failed on {}",
        archive.display()
    );
    dir
}

/// Unpacks the text archives of Prometheus exporters: `Path:`, `Lines: N`, N lines; `SymlinkTo:`.
fn unpack_ttar(archive: &Path, to: &Path) {
    let text = fs::read_to_string(archive).unwrap();
    let mut lines = text.lines();
    let mut path = PathBuf::new();
    while let Some(line) = lines.next() {
        if let Some(dir) = line.strip_prefix("Directory: ") {
            fs::create_dir_all(to.join(dir)).unwrap();
        } else if let Some(file) = line.strip_prefix("Path: ") {
            path = to.join(file);
        } else if let Some(count) = line.strip_prefix("Lines: ") {
            let body: Vec<_> = lines.by_ref().take(count.parse().unwrap()).collect();
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, body.join("\n") + "\n").unwrap();
        }
    }
}

fn read(root: &Path) -> NodeFacts {
    survey(&Root::at(root), &Sources::default())
}

fn devices(facts: &NodeFacts) -> &[RdmaDevice] {
    facts.rdma.value().unwrap_or_else(|| panic!("{facts:?}"))
}

/// A root with the /sys/class/infiniband of an H100 node, and nothing else.
fn h100(corpus: &Path) -> tempfile::TempDir {
    let capture = unpack(&corpus.join("sysfs/gpud_h100_class-infiniband.tar.gz"));
    let class =
        "components/accelerator/nvidia/infiniband/class/testdata/sys-class-infiniband-h100.0";
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("sys/class")).unwrap();
    fs::rename(
        capture.path().join(class),
        root.path().join("sys/class/infiniband"),
    )
    .unwrap();
    root
}

#[test]
fn an_h100_node() {
    let Some(corpus) = corpus("an_h100_node") else {
        return;
    };
    let root = h100(&corpus);
    let facts = read(root.path());
    let names: Vec<_> = devices(&facts).iter().map(|d| d.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "mlx5_0",
            "mlx5_1",
            "mlx5_4",
            "mlx5_5",
            "mlx5_6",
            "mlx5_7",
            "mlx5_8",
            "mlx5_9",
            "mlx5_bond_0"
        ]
    );
    for device in devices(&facts) {
        let (layer, gbps) = match device.name.as_str() {
            "mlx5_bond_0" => (LinkLayer::Ethernet, 200.0),
            _ => (LinkLayer::InfiniBand, 400.0),
        };
        assert_eq!(device.ports.len(), 1, "{}", device.name);
        let port = &device.ports[0];
        assert_eq!(port.state.value(), Some(&PortState::Active));
        assert_eq!(port.physical_state.value().unwrap(), "LinkUp");
        assert_eq!(port.link_layer.value(), Some(&layer));
        assert_eq!(port.rate.value(), Some(&Gbps(gbps)));
        let identity = &device.identity;
        let (chip, board, lanes) = match layer {
            LinkLayer::Ethernet => ("MT41692", "MT_0000000884", "2X NDR"),
            LinkLayer::InfiniBand => ("MT4129", "MT_0000000838", "4X NDR"),
        };
        assert_eq!(identity.hca_type.value().unwrap(), chip);
        assert_eq!(identity.board_id.value().unwrap(), board);
        assert_eq!(port.lanes.value().unwrap().to_string(), lanes);
        // The capture has neither: unknown, and not none.
        assert!(device.pci.why_unknown().is_some());
        assert_eq!(port.unread.len(), 1);
    }
    assert_eq!(devices(&facts)[8].firmware.value().unwrap(), "32.38.3056");

    // A healthy node: of all rules only the notes on the bond, which goes by its name, and on a
    // counter that stands at its end.
    let said = inspect(&NodeName::from("h100"), &facts);
    let told: Vec<_> = said.findings.iter().map(|f| (f.rule, f.severity)).collect();
    let notes = [Rule::CounterSaturated, Rule::Bond].map(|rule| (rule, Severity::Note));
    assert_eq!(told, notes, "{:#?}", said.findings);
}

#[test]
fn cards_subnets_and_conventional_nics() {
    let Some(corpus) = corpus("cards_subnets_and_conventional_nics") else {
        return;
    };
    for (archive, top, name, board, guid, other, model) in [
        (
            "32em64t-2n8c+dax+nvme+mic+dimms",
            "32em64t-2n8c+1mic",
            "mlx4_0",
            "DEL0A30000019",
            "0002:c903:00f9:bfa0",
            "igb",
            0x1521,
        ),
        (
            "40intel64-2g2n4c+pcilocality",
            "40intel64-2g2n4c+pci",
            "qib0",
            "InfiniPath_QLE7340",
            "0011:7500:0077:cfc8",
            "bnx2",
            0x1639,
        ),
    ] {
        let dir = unpack(&corpus.join(format!("sysfs/hwloc/{archive}.tar.bz2")));
        let facts = read(&dir.path().join(top));
        let device = devices(&facts).iter().find(|d| d.name == name).unwrap();
        let identity = &device.identity;
        assert_eq!(identity.board_id.value().unwrap(), board);
        assert_eq!(identity.node_guid.value().unwrap().to_string(), guid);
        assert_eq!(identity.node_type.value(), Some(&NodeType::ChannelAdapter));
        let subnet = &device.ports[0].subnet;
        assert_eq!(subnet.manager_lid.value(), Some(&1), "{archive}");
        assert_eq!(subnet.partitions.value().unwrap(), &[0xffff], "{archive}");

        let interfaces = facts.interfaces.value().unwrap();
        let by_name = |wanted: &str| interfaces.iter().find(|i| i.name == wanted).unwrap();
        assert_eq!(by_name("ib0").rdma.as_deref(), Some(name));
        let eth0 = by_name("eth0");
        assert_eq!(
            (eth0.rdma.as_deref(), eth0.speed.value()),
            (None, Some(&1000))
        );
        assert_eq!(eth0.driver.value().unwrap(), other);
        assert_eq!(eth0.device.value(), Some(&model), "{archive}");
        // Speed -1 of a port without a cable is not a speed.
        assert!(by_name("eth1").speed.value().is_none(), "{archive}");
    }
}

/// Each device's port counters, taken from the facts of its first port.
fn counters(device: &RdmaDevice) -> (&Counters, &Counters) {
    let port = &device.ports[0];
    (
        port.counters.value().unwrap(),
        port.hw_counters.value().unwrap(),
    )
}

#[test]
fn the_counters_of_an_h100_node() {
    let Some(corpus) = corpus("the_counters_of_an_h100_node") else {
        return;
    };
    let root = h100(&corpus);
    let facts = read(root.path());
    for device in devices(&facts) {
        let (port, driver) = counters(device);
        assert_eq!((port.values.len(), driver.values.len()), (21, 25));
        assert!(port.unread.is_empty() && driver.unread.is_empty());
        let value = |name| port.get(name).unwrap().value;
        // Wider than the 32 bits of the classic field, so not one that stops there.
        assert_eq!(value("port_xmit_data"), 230_442_669_431_839);
        assert_eq!(port.get("port_xmit_data").unwrap().saturates_at, None);
        assert_eq!(value("port_xmit_wait"), 2_489_603_687);
        let overrun = port.get("excessive_buffer_overrun_errors").unwrap();
        assert!(overrun.is_saturated(), "{overrun:?}");
        let downed = port.get("link_downed").unwrap();
        assert_eq!(downed.is_saturated(), device.name == "mlx5_1");
        assert_eq!(driver.get("roce_adp_retrans").unwrap().value, 3);
        assert_eq!(driver.get("lifespan"), None);
    }
}

#[test]
fn the_counters_of_prometheus_fixtures() {
    let Some(corpus) = corpus("the_counters_of_prometheus_fixtures") else {
        return;
    };
    let read_ttar = |archive: &str, top: &str| {
        let dir = tempfile::tempdir().unwrap();
        unpack_ttar(&corpus.join("sysfs").join(archive), dir.path());
        read(&dir.path().join(top))
    };
    let facts = read_ttar("node_exporter_class-infiniband.ttar", "");
    let [silent, old] = devices(&facts) else {
        panic!("{facts:?}");
    };
    // i40iw has the files and answers none of them.
    let silent = silent.ports[0].counters.value().unwrap();
    assert!(silent.values.is_empty());
    assert_eq!(silent.unread.len(), 1);
    assert_eq!(silent.unread[0].names.len(), 17);
    assert!(silent.unread[0].why.contains("N/A (no PMA)"));
    let old = old.ports[0].counters.value().unwrap();
    assert!(old.get("port_xmit_data_64").is_some(), "{old:?}");

    let facts = read_ttar("procfs_class-infiniband.ttar", "fixtures");
    let counted = |device: &RdmaDevice, port: usize| {
        let counters = device.ports[port].counters.value().unwrap();
        (counters.values.len(), counters.unread.len())
    };
    let [opa, mlx4, mlx5] = devices(&facts) else {
        panic!("{facts:?}");
    };
    assert_eq!(counted(opa, 0), (17, 0));
    assert_eq!((counted(mlx4, 0), counted(mlx4, 1)), ((17, 0), (17, 0)));
    assert_eq!(counted(mlx5, 0), (21, 0));
}

/// hwloc's captures: archive, directory in it, device, driver, PCI function, NUMA node, rate, LID.
type Hwloc<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str, u32, f64, u16);

#[test]
fn whole_sysfs_trees_with_an_infiniband_card() {
    let Some(corpus) = corpus("whole_sysfs_trees_with_an_infiniband_card") else {
        return;
    };
    let captures: [Hwloc; 3] = [
        (
            "32em64t-2n8c+dax+nvme+mic+dimms",
            "32em64t-2n8c+1mic",
            "mlx4_0",
            "mlx4_core",
            "0000:82:00.0",
            1,
            56.0,
            932,
        ),
        (
            "40intel64-2g2n4c+pcilocality",
            "40intel64-2g2n4c+pci",
            "qib0",
            "ib_qib",
            "0000:43:00.0",
            2,
            40.0,
            298,
        ),
        (
            "fakepcilocalities",
            "fakepcilocalities",
            "qib0",
            "ib_qib",
            "0000:43:00.0",
            1,
            40.0,
            298,
        ),
    ];
    for (archive, top, name, driver, pci, numa, gbps, lid) in captures {
        let dir = unpack(&corpus.join(format!("sysfs/hwloc/{archive}.tar.bz2")));
        let facts = read(&dir.path().join(top));
        let device = devices(&facts).iter().find(|d| d.name == name).unwrap();
        assert_eq!(device.driver.value().unwrap(), driver, "{archive}");
        assert_eq!(device.pci.value().unwrap().0, pci, "{archive}");
        assert_eq!(device.numa_node.value(), Some(&numa), "{archive}");
        let port = &device.ports[0];
        assert_eq!(port.rate.value(), Some(&Gbps(gbps)), "{archive}");
        assert_eq!(port.lid.value(), Some(&lid), "{archive}");
        let netdev = port.netdev.value().unwrap();
        assert_eq!(
            (netdev.name.as_str(), netdev.mtu.value()),
            ("ib0", Some(&2044))
        );
        // Only slot 0 of the table is in use; the others hold the subnet prefix alone.
        let used: Vec<_> = port.gids.iter().map(|entry| entry.index).collect();
        assert_eq!(used, [0], "{archive}");
        assert!(port.unread.is_empty(), "{archive}: {:?}", port.unread);
    }
}

#[test]
fn the_fixtures_of_prometheus_exporters() {
    let Some(corpus) = corpus("the_fixtures_of_prometheus_exporters") else {
        return;
    };
    for (archive, top, expected) in [
        (
            "procfs_class-infiniband.ttar",
            "fixtures",
            vec![
                ("hfi1_0", 1, 100.0),
                ("mlx4_0", 2, 40.0),
                ("mlx5_0", 1, 25.0),
            ],
        ),
        (
            "node_exporter_class-infiniband.ttar",
            "",
            vec![("i40iw0", 1, 10.0), ("mlx4_0", 2, 40.0)],
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        unpack_ttar(&corpus.join("sysfs").join(archive), dir.path());
        let facts = read(&dir.path().join(top));
        let seen: Vec<_> = devices(&facts)
            .iter()
            .map(|d| (d.name.as_str(), d.ports.len(), rate(d)))
            .collect();
        assert_eq!(seen, expected, "{archive}");
    }
}

/// The rate of the first port in Gb/s.
fn rate(device: &RdmaDevice) -> f64 {
    match &device.ports[0].rate {
        Fact::Known { value, .. } => value.0,
        Fact::Unknown { why } => panic!("{}: {why}", device.name),
    }
}

#[test]
fn machines_without_rdma_say_so() {
    let Some(corpus) = corpus("machines_without_rdma_say_so") else {
        return;
    };
    for (archive, top) in [
        ("256ppc-8n8s4t", "256ppc-8n8s4t"),
        ("nvidia-dgx-gb10", "nvidia-dgx-gb10"),
        ("2pa-pcidomain32bits", "2pa-pcidomain32bits"),
    ] {
        let dir = unpack(&corpus.join(format!("sysfs/hwloc/{archive}.tar.bz2")));
        assert!(dir.path().join(top).is_dir(), "{archive}");
        let facts = read(&dir.path().join(top));
        let why = facts
            .rdma
            .why_unknown()
            .unwrap_or_else(|| panic!("{facts:?}"));
        assert!(why.contains("sys/class/infiniband"), "{why}");
    }
}

/// Of a copy of /sys nothing is said that only the system could tell, and of healthy machines nothing.
fn assert_silent(archive: &str, facts: &NodeFacts) {
    let said = inspect(&NodeName::from("node"), facts);
    assert!(said.findings.is_empty(), "{archive}: {:#?}", said.findings);
    assert!(
        said.cannot_tell.is_empty(),
        "{archive}: {:#?}",
        said.cannot_tell
    );
}

#[test]
fn the_processors_of_a_gb10_and_a_desktop_with_an_amd_gpu() {
    let Some(corpus) = corpus("the_processors_of_a_gb10_and_a_desktop_with_an_amd_gpu") else {
        return;
    };
    let whole = |archive: &str| {
        let dir = tempfile::tempdir().unwrap();
        let tar = Command::new("tar")
            .arg("-xf")
            .arg(corpus.join("sysfs").join(archive))
            .arg("-C")
            .arg(dir.path())
            .status();
        assert!(tar.unwrap().success(), "{archive}");
        dir
    };
    let dir = whole("hwloc/nvidia-dgx-gb10.tar.bz2");
    let facts = read(&dir.path().join("nvidia-dgx-gb10"));
    let host = &facts.host;
    assert_eq!(host.cpus_online.value(), Some(&20));
    let scaling = host.scaling.value().unwrap();
    assert_eq!(scaling.driver.value().unwrap(), "cppc_cpufreq");
    assert_eq!(scaling.governors["performance"], 20);
    let numa = facts.numa.value().unwrap();
    assert_eq!(numa[0].cpus.value().unwrap(), "0-19");
    let arguments = host.kernel_arguments.value().unwrap();
    assert_eq!(arguments, &["iommu.passthrough=0", "pci=pcie_bus_safe"]);
    // What the copy lacks is unknown, and not none.
    assert!(host.modules.why_unknown().is_some());
    assert!(facts.gpudirect.peer_clients.why_unknown().is_some());
    assert_silent("gb10", &facts);

    let dir = whole("ghw_amd_desktop.tar.gz");
    let facts = read(dir.path());
    let gpus = facts.gpu.amd.value().unwrap();
    assert_eq!(gpus[0].address.0, "0000:0a:00.0");
    assert!(!facts.gpu.nvml.was_asked());
    let cpu = facts.host.cpu.value().unwrap();
    assert_eq!(cpu, "AMD Ryzen 5 1600 Six-Core Processor");
    assert_silent("ghw_amd_desktop", &facts);
}
