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

use linerate::judge;
use linerate::model::{Fact, Gbps, LinkLayer, NodeFacts, NodeName, PortState, RdmaDevice};
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

#[test]
fn an_h100_node() {
    let Some(corpus) = corpus("an_h100_node") else {
        return;
    };
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
        // The capture has neither: unknown, and not none.
        assert!(device.pci.why_unknown().is_some());
        assert_eq!(port.unread.len(), 1);
    }
    assert_eq!(devices(&facts)[8].firmware.value().unwrap(), "32.38.3056");
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
    let said = judge::inspect(&NodeName::from("node"), facts);
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
    let numa = host.numa.value().unwrap();
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
