//! PCIe surveys of trees like those of real nodes.

use super::config_space::tests::config;
use super::*;
use crate::model::{Bytes, Fact, Iommu};
use crate::survey::tree::Tree;
use crate::survey::{Sources, survey};

const MLX5: &str = "pci0000:97/0000:97:01.0/0000:98:00.0";

/// Attributes of a function below sys/devices, and its link in the bus.
fn function(tree: &Tree, below: &str, attributes: &[(&str, &str)]) {
    let address = below.rsplit('/').next().unwrap();
    for (name, text) in attributes {
        tree.file(&format!("sys/devices/{below}/{name}"), &format!("{text}\n"));
    }
    let target = format!("sys/devices/{below}");
    tree.link(&format!("sys/bus/pci/devices/{address}"), &target);
}

fn link<'a>(now: (&'a str, &'a str), max: (&'a str, &'a str)) -> Vec<(&'a str, &'a str)> {
    vec![
        ("current_link_speed", now.0),
        ("current_link_width", now.1),
        ("max_link_speed", max.0),
        ("max_link_width", max.1),
    ]
}

fn with<'a>(
    ids: [&'a str; 3],
    numa: &'a str,
    link: Vec<(&'a str, &'a str)>,
) -> Vec<(&'a str, &'a str)> {
    let [vendor, device, class] = ids;
    let mut all = vec![
        ("vendor", vendor),
        ("device", device),
        ("class", class),
        ("numa_node", numa),
    ];
    all.extend(link);
    all
}

const PORT: [&str; 3] = ["0x8086", "0x352a", "0x060400"];
const CX7: [&str; 3] = ["0x15b3", "0x1021", "0x020700"];
const H100: [&str; 3] = ["0x10de", "0x2330", "0x030200"];
const GEN5_X16: (&str, &str) = ("32.0 GT/s PCIe", "16");

/// A ConnectX-7 that trained at x8 below a root port, and the VGA of a management controller.
fn narrowed() -> Tree {
    let tree = Tree::new();
    let narrow = || link(("32.0 GT/s PCIe", "8"), GEN5_X16);
    function(&tree, "pci0000:97/0000:97:01.0", &with(PORT, "1", narrow()));
    function(&tree, MLX5, &with(CX7, "1", narrow()));
    let bmc = with(["0x1a03", "0x2000", "0x030000"], "0", vec![]);
    function(&tree, "pci0000:00/0000:00:1c.0/0000:02:00.0", &bmc);
    tree.device("mlx5_3", Some(MLX5), &[]);
    tree
}

fn read(tree: &Tree) -> PcieTree {
    match survey(&tree.root(), &Sources::default()).pcie {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => panic!("{why}"),
    }
}

fn at<'a>(tree: &'a PcieTree, address: &str) -> &'a PciFunction {
    let found = tree.function(&PciAddress(address.into()));
    found.unwrap_or_else(|| panic!("{address} is not in {tree:#?}"))
}

fn why<T: std::fmt::Debug>(tree: &Tree, fact: &Fact<T>) -> String {
    tree.plain(fact.why_unknown().unwrap_or_else(|| panic!("{fact:?}")))
}

#[test]
fn a_nic_below_a_root_port() {
    let files = narrowed();
    files.link(
        &format!("sys/devices/{MLX5}/driver"),
        "sys/bus/pci/drivers/mlx5_core",
    );
    let tree = read(&files);
    let found: Vec<_> = tree
        .functions
        .iter()
        .map(|f| (&*f.address.0, f.role))
        .collect();
    assert_eq!(
        found,
        [
            ("0000:97:01.0", PciRole::Bridge),
            ("0000:98:00.0", PciRole::Nic)
        ]
    );
    assert!(tree.unread.is_empty(), "{:?}", tree.unread);

    let nic = at(&tree, "0000:98:00.0");
    assert_eq!(nic.parent, Some(PciAddress("0000:97:01.0".into())));
    assert_eq!(nic.root.value().unwrap(), "pci0000:97");
    assert_eq!(
        (nic.vendor.value(), nic.device.value()),
        (Some(&0x15b3), Some(&0x1021))
    );
    assert_eq!(nic.driver.value().unwrap(), "mlx5_core");
    assert_eq!(nic.numa_node.value(), Some(&1));
    assert_eq!(nic.link.current().unwrap().to_string(), "Gen5 x8");
    assert_eq!(nic.link.capable().unwrap().to_string(), "Gen5 x16");
    let source = files.plain(nic.link.width.source().unwrap());
    assert_eq!(
        source,
        "/sys/bus/pci/devices/0000:98:00.0/current_link_width"
    );
    assert_eq!(nic.physical_function, None);
    assert_eq!(nic.memory_window, None);
    // A copy of sysfs without the link proves nothing.
    assert!(why(&files, nic.iommu.as_ref().unwrap()).contains("iommu_group"));

    let port = at(&tree, "0000:97:01.0");
    assert_eq!((&port.parent, &port.iommu), (&None, &None));
    assert_eq!(port.link.current(), nic.link.current());
}

#[test]
fn config_space_tells_payload_ordering_and_acs_and_where_it_needs_root() {
    let files = narrowed();
    let path = |below: &str| format!("sys/devices/{below}/config");
    files.bytes(&path(MLX5), &config(0x5030, 0));
    files.bytes(&path("pci0000:97/0000:97:01.0"), &config(0x2930, 0x001d));
    let tree = read(&files);
    let control = at(&tree, "0000:98:00.0").control.value().unwrap();
    assert_eq!((control.max_payload, control.max_read_request), (256, 4096));
    assert!(control.relaxed_ordering);
    let port = at(&tree, "0000:97:01.0");
    assert!(
        port.acs
            .as_ref()
            .unwrap()
            .value()
            .unwrap()
            .unwrap()
            .redirects_peers()
    );

    files.bytes(&path(MLX5), &config(0x5030, 0)[..64]);
    let tree = read(&files);
    assert_eq!(
        why(&files, &at(&tree, "0000:98:00.0").control),
        "/sys/bus/pci/devices/0000:98:00.0/config needs root: config space is cut at 64 bytes"
    );
}

#[test]
fn gpus_are_found_by_vendor_and_class_with_their_window() {
    let files = narrowed();
    let idle = link(("2.5 GT/s PCIe", "16"), GEN5_X16);
    let gpu = "pci0000:97/0000:97:03.0/0000:9a:00.0";
    function(&files, gpu, &with(H100, "1", idle));
    let window = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                  0x0000380000000000 0x0000381fffffffff 0x000000000014220c";
    files.file(&format!("sys/devices/{gpu}/resource"), window);
    for (below, ids) in [
        // NVSwitch, an audio function, an AMD processing accelerator, a host bridge of AMD's.
        ("pci0000:97/0000:97:04.0", ["0x10de", "0x22a3", "0x068000"]),
        ("pci0000:97/0000:97:05.0", ["0x10de", "0x22ba", "0x040300"]),
        ("pci0000:97/0000:97:06.0", ["0x1002", "0x74a1", "0x120000"]),
        ("pci0000:97/0000:97:07.0", ["0x1022", "0x14a4", "0x060000"]),
    ] {
        function(&files, below, &with(ids, "1", vec![]));
    }
    let tree = read(&files);
    let gpus: Vec<_> = tree.gpus().map(|gpu| &*gpu.address.0).collect();
    assert_eq!(gpus, ["0000:97:06.0", "0000:9a:00.0"]);
    let window = at(&tree, "0000:9a:00.0").memory_window.as_ref().unwrap();
    assert_eq!(window.value(), Some(&Bytes(128 << 30)));
    // Idle, on a real machine: known, and for the judge to weigh.
    assert_eq!(
        at(&tree, "0000:9a:00.0")
            .link
            .current()
            .unwrap()
            .to_string(),
        "Gen1 x16"
    );
    assert!(at(&tree, "0000:97:06.0").link.speed.why_unknown().is_some());
    // The port above the GPU has no attributes in this tree, and is there.
    assert_eq!(at(&tree, "0000:97:03.0").role, PciRole::Bridge);
}

#[test]
fn what_sysfs_says_in_place_of_a_link_is_unknown() {
    for (speed, width) in [
        ("Unknown", "0"),
        ("Unknown speed", "255"),
        ("N/A", "N/A"),
        ("", ""),
    ] {
        let files = narrowed();
        files.file(&format!("sys/devices/{MLX5}/current_link_speed"), speed);
        files.file(&format!("sys/devices/{MLX5}/current_link_width"), width);
        let tree = read(&files);
        let link = &at(&tree, "0000:98:00.0").link;
        assert!(link.speed.why_unknown().is_some(), "{speed}");
        assert!(link.width.why_unknown().is_some(), "{width}");
        assert_eq!(link.current(), None);
    }
}

#[test]
fn a_virtual_function_leads_to_its_physical_one() {
    let files = narrowed();
    let vf = "pci0000:97/0000:97:01.0/0000:98:00.2";
    function(
        &files,
        vf,
        &with(CX7, "1", link(("Unknown", "0"), GEN5_X16)),
    );
    files.link(
        &format!("sys/devices/{vf}/physfn"),
        &format!("sys/devices/{MLX5}"),
    );
    std::fs::remove_file(files.root().path("sys/class/infiniband/mlx5_3")).unwrap();
    files.device("mlx5_4", Some(vf), &[]);
    let tree = read(&files);
    let physical = at(&tree, "0000:98:00.2")
        .physical_function
        .as_ref()
        .unwrap();
    assert_eq!(physical.value().unwrap().0, "0000:98:00.0");
    assert_eq!(at(&tree, "0000:98:00.0").role, PciRole::Nic);
}

#[test]
fn iommu_groups_have_a_type() {
    for (kind, expected) in [
        ("identity", Iommu::Identity),
        (
            "DMA-FQ",
            Iommu::Translates {
                kind: "DMA-FQ".into(),
            },
        ),
        ("blocked", Iommu::Other("blocked".into())),
    ] {
        let files = narrowed();
        files.file("sys/kernel/iommu_groups/14/type", kind);
        files.link(
            &format!("sys/devices/{MLX5}/iommu_group"),
            "sys/kernel/iommu_groups/14",
        );
        let tree = read(&files);
        let iommu = at(&tree, "0000:98:00.0").iommu.clone().unwrap();
        assert_eq!(iommu.value(), Some(&expected));
    }
}

#[test]
fn wide_domains_sort_last_and_a_root_may_lie_below_other_devices() {
    let files = Tree::new();
    let wide = "pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0";
    function(&files, wide, &with(H100, "-1", vec![]));
    let vmbus = "LNXSYSTM:00/VMBUS:00/47505500/pci0001:00/0001:00:00.0";
    function(&files, vmbus, &with(H100, "-1", vec![]));
    let tree = read(&files);
    let found: Vec<_> = tree.functions.iter().map(|f| &*f.address.0).collect();
    assert_eq!(found, ["0001:00:00.0", "10000:00:02.0", "10000:01:00.0"]);
    assert_eq!(
        at(&tree, "10000:01:00.0").root.value().unwrap(),
        "pci10000:00"
    );
    assert_eq!(at(&tree, "10000:00:02.0").parent, None);
}

#[test]
fn on_a_machine_with_one_numa_node_everything_is_on_it() {
    let files = narrowed();
    let numa = |tree: &PcieTree| at(tree, "0000:98:00.0").numa_node.clone();
    files.file(&format!("sys/devices/{MLX5}/numa_node"), "-1\n");
    assert!(why(&files, &numa(&read(&files))).contains("states none"));
    files.file("sys/devices/system/node/online", "0-1\n");
    assert!(numa(&read(&files)).why_unknown().is_some());
    files.file("sys/devices/system/node/online", "0\n");
    let only = numa(&read(&files));
    assert_eq!(only.value(), Some(&0));
    assert!(only.source().unwrap().ends_with("node/online"));
}

#[test]
fn a_hypervisors_invented_link_is_hidden_and_not_slow() {
    let lowest = || link(("2.5 GT/s PCIe", "1"), ("2.5 GT/s PCIe", "1"));
    let guest = ("proc/cpuinfo", "flags\t: fpu hypervisor\n");
    let machine = ("proc/cpuinfo", "flags\t: fpu\n");
    let qemu = ["0x1b36", "0x000c", "0x060400"];
    for (cpuinfo, port, hidden) in [
        (guest, PORT, true),
        (machine, qemu, true),
        (machine, PORT, false),
    ] {
        let files = narrowed();
        files.file(cpuinfo.0, cpuinfo.1);
        function(
            &files,
            "pci0000:20/0000:20:01.0",
            &with(port, "0", lowest()),
        );
        function(
            &files,
            "pci0000:20/0000:20:01.0/0000:21:00.0",
            &with(H100, "0", lowest()),
        );
        let tree = read(&files);
        for address in ["0000:20:01.0", "0000:21:00.0"] {
            let link = &at(&tree, address).link;
            assert_eq!(link.current().is_none(), hidden, "{address} below {port:?}");
            if hidden {
                assert!(why(&files, &link.width).contains("hypervisor"));
            }
        }
        // A link that is more than the lowest is told as it is, also in a guest.
        assert!(at(&tree, "0000:98:00.0").link.current().is_some());
    }
}

#[test]
fn a_system_without_pci_says_so_and_holes_are_named() {
    let files = Tree::new();
    files.dir("sys/class");
    let pcie = survey(&files.root(), &Sources::default()).pcie;
    assert!(why(&files, &pcie).starts_with("/sys/bus/pci/devices: "));

    let files = narrowed();
    std::fs::remove_file(files.root().path("sys/bus/pci/devices/0000:98:00.0")).unwrap();
    function(&files, "pci0000:00/0000:00:07.0", &[("vendor", "0xffff")]);
    let unread = read(&files).unread.join("\n");
    assert!(unread.contains("0000:98:00.0: No such file"), "{unread}");
    assert!(unread.contains("does not answer"), "{unread}");
}

#[test]
fn errors_are_counted_by_the_kernels_names_or_left_to_firmware() {
    let files = narrowed();
    let port = "pci0000:97/0000:97:01.0";
    for (name, text) in [
        (
            "aer_dev_correctable",
            "RxErr 0\nBadTLP 12\nTOTAL_ERR_COR 12\n",
        ),
        (
            "aer_dev_nonfatal",
            "Undefined 0\nUnsupReq 1\nTOTAL_ERR_NONFATAL 1\n",
        ),
        ("aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0\n"),
        ("aer_rootport_total_err_cor", "40\n"),
        ("aer_rootport_total_err_nonfatal", "0\n"),
        ("aer_rootport_total_err_fatal", "0\n"),
    ] {
        files.file(&format!("sys/devices/{port}/{name}"), text);
    }
    let tree = read(&files);
    let one = |name: &str, count| [(name.to_owned(), count)].into();
    let errors = at(&tree, "0000:97:01.0").errors.value().unwrap();
    assert_eq!(errors.correctable, one("BadTLP", 12));
    assert_eq!(errors.nonfatal, one("UnsupReq", 1));
    assert!(errors.fatal.is_empty());
    assert_eq!(errors.received, one("correctable", 40));
    let nic = why(&files, &at(&tree, "0000:98:00.0").errors);
    assert!(
        nic.starts_with("/sys/bus/pci/devices/0000:98:00.0/aer_dev_correctable does not exist"),
        "{nic}"
    );

    files.file(&format!("sys/devices/{port}/aer_dev_fatal"), "DLP many\n");
    let tree = read(&files);
    let port = why(&files, &at(&tree, "0000:97:01.0").errors);
    assert!(port.contains("aer_dev_fatal holds `DLP many`"), "{port}");
}
