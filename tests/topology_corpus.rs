//! Path classes of what real machines showed, against answers that were found by hand. The
//! captures are not part of the project: LINERATE_CORPUS names the directory that holds them.
//!
//! NCCL's topology files leave out root ports and the lower ports of switches, and their class PHB
//! is any path through one CPU: what nvidia-smi calls PHB or NODE.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up fails where it stands"
)]

#[path = "support/lspci.rs"]
mod lspci;
#[path = "support/sysfs.rs"]
mod sysfs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate::judge;
use linerate::model::{NodeFacts, PciAddress, PciRole, PcieTree};
use linerate::survey::{Root, Sources, survey};
use linerate::topology::{PathClass, affinity, links_on_path, path_class, pcie_limit};
use lspci::{lspci_tree, lspci_vvv};
use roxmltree::Node;
use sysfs::{Function, Sysfs, rdma};

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

fn tree(facts: &NodeFacts) -> &PcieTree {
    facts.pcie.value().unwrap_or_else(|| panic!("{facts:?}"))
}

fn address(text: &str) -> PciAddress {
    PciAddress(text.to_owned())
}

/// The rows of a table with tabs, without its first.
fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).unwrap();
    let row = |line: &str| line.split('\t').map(str::to_owned).collect();
    text.lines().skip(1).map(row).collect()
}

fn xml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "xml"))
        .collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

// ---- NCCL's topology files

/// Where a file's devices are GPUs and NICs: their addresses.
#[derive(Default)]
struct Devices {
    bridges: u32,
    switches: BTreeMap<String, String>,
    gpus: BTreeSet<String>,
    nics: BTreeSet<String>,
}

impl Devices {
    /// An address of its own.
    fn bridge(&mut self) -> String {
        self.bridges += 1;
        format!("2{:04x}:00:00.0", self.bridges)
    }
}

/// A sysfs with a root bus and root port above each outermost element, and below each switch a
/// port for each of its devices, as the kernel has them.
fn from_nccl(system: Node<'_, '_>, sysfs: &Sysfs) -> Devices {
    let mut devices = Devices::default();
    for cpu in elements(system, "cpu") {
        let numa = cpu.attribute("numaid").map_or(-1, |id| id.parse().unwrap());
        for pci in elements(cpu, "pci") {
            let port = devices.bridge();
            let root = format!("pci{}", &port[..8]);
            let port = format!("{root}/{port}");
            sysfs.function(&port, &bridge(numa));
            nccl_element(pci, &port, numa, sysfs, &mut devices);
        }
    }
    devices
}

fn elements<'a, 'input>(
    node: Node<'a, 'input>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children()
        .filter(move |child| child.has_tag_name(name))
}

fn bus_id(pci: Node<'_, '_>) -> String {
    pci.attribute("busid").unwrap().to_ascii_lowercase()
}

fn bridge(numa: i32) -> Function {
    Function {
        class: "0x060400".into(),
        vendor: "0x1000".into(),
        device: "0xc030".into(),
        numa: Some(numa),
        link: None,
    }
}

fn nccl_element(pci: Node<'_, '_>, above: &str, numa: i32, sysfs: &Sysfs, devices: &mut Devices) {
    let busid = bus_id(pci);
    let attribute = |name: &str| pci.attribute(name).unwrap_or("0x0000").to_owned();
    let class = attribute("class");
    let is_bridge = class.starts_with("0x0604");
    // Models of machines have an element of the same switch for each pair below it.
    let (path, again) = match devices.switches.get(&busid).filter(|_| is_bridge) {
        Some(path) => (path.clone(), true),
        None if is_bridge => (format!("{above}/{}", devices.bridge()), false),
        None => (format!("{above}/{busid}"), false),
    };
    let function = Function {
        class: class.clone(),
        // Files written by hand for virtual machines leave out the vendor: NVIDIA's GPUs.
        vendor: pci.attribute("vendor").unwrap_or("0x10de").to_owned(),
        device: attribute("device"),
        numa: Some(numa),
        link: None,
    };
    if !again {
        sysfs.function(&path, &function);
    }
    if is_bridge {
        devices.switches.insert(busid, path.clone());
        for child in elements(pci, "pci") {
            let port = format!("{path}/{}", devices.bridge());
            sysfs.function(&port, &bridge(numa));
            nccl_element(child, &port, numa, sysfs, devices);
        }
    } else if class.starts_with("0x03") || class.starts_with("0x12") {
        devices.gpus.insert(busid);
    } else if class.starts_with("0x02") {
        let net = pci.descendants().find_map(|node| node.attribute("name"));
        sysfs.rdma(&format!("{}{busid}", net.unwrap_or("net")), &path);
        devices.nics.insert(busid);
    }
}

#[test]
fn ncclxml_path_classes() {
    let Some(corpus) = corpus("ncclxml_path_classes") else {
        return;
    };
    let folder = corpus.join("ncclxml");
    let mut answers: BTreeMap<(String, String, String), String> = BTreeMap::new();
    for row in rows(&folder.join("ANSWERS.tsv")) {
        if row[1] != "#summary" && row.len() > 5 && !row[5].starts_with("NOT_A_TOPOLOGY") {
            let lower = |cell: &String| cell.to_ascii_lowercase();
            answers.insert(
                (row[0].clone(), lower(&row[2]), lower(&row[4])),
                row[5].clone(),
            );
        }
    }
    let (mut used, mut compared, mut without, mut wrong) = (BTreeSet::new(), 0, vec![], vec![]);
    let mut odd = vec![];
    for file in xml_files(&folder) {
        let text = fs::read_to_string(&file).unwrap();
        let name = name(&file);
        let document = roxmltree::Document::parse(&text).unwrap();
        let system = document.root_element();
        if !system.has_tag_name("system") {
            without.push(name);
            continue;
        }
        let sysfs = Sysfs::new();
        let devices = from_nccl(system, &sysfs);
        if devices.gpus.is_empty() || devices.nics.is_empty() {
            without.push(name);
            continue;
        }
        sysfs.sockets(elements(system, "cpu").count());
        let facts = sysfs.survey();
        odd.extend(
            findings(&facts)
                .into_iter()
                .map(|says| (name.clone(), says)),
        );
        let tree = tree(&facts);
        let found: BTreeSet<_> = tree.gpus().map(|gpu| gpu.address.0.clone()).collect();
        assert_eq!(found, devices.gpus, "{name}");
        for (gpu, nic) in pairs(&devices) {
            let key = (name.clone(), gpu.clone(), nic.clone());
            let expected = answers.get(&key).map_or("SYS", String::as_str);
            used.insert(key);
            let ours = match path_class(tree, &address(gpu), &address(nic)) {
                Ok(PathClass::Node) => "PHB".to_owned(),
                Ok(class) => class.to_string(),
                Err(why) => why,
            };
            compared += 1;
            if ours != expected {
                wrong.push(format!("{name} {gpu} {nic}: {ours}, should be {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
    let unused: Vec<_> = answers.keys().filter(|key| !used.contains(*key)).collect();
    assert!(
        unused.is_empty(),
        "answers that no file asks for: {unused:?}"
    );
    assert!(compared > 1000, "only {compared} pairs");
    assert_eq!(without, NCCL_WITHOUT_PAIRS);
    assert_eq!(odd, []);
}

/// What the rules find on a platform as it is built: nothing.
fn findings(facts: &NodeFacts) -> Vec<String> {
    let said = judge::inspect(&"node".into(), facts);
    said.findings
        .into_iter()
        .map(|finding| finding.says)
        .collect()
}

/// Not compared: a graph, no topology (ncv4-graph); devices without their classes (g5.48xl); and
/// those whose only network is an interface that is on no PCI function.
const NCCL_WITHOUT_PAIRS: [&str; 6] = [
    "aws_g5.48xl_topo.xml",
    "azure_nc48v4_topo.xml",
    "azure_ncv4_graph.xml",
    "azure_ncv4_topo.xml",
    "rccl_topo_8p_90a_1.xml",
    "rccl_topo_8p_rome_vm1.xml",
];

fn pairs(devices: &Devices) -> impl Iterator<Item = (&String, &String)> {
    let nics = || devices.nics.iter();
    devices
        .gpus
        .iter()
        .flat_map(move |gpu| nics().map(move |nic| (gpu, nic)))
}

// ---- hwloc's XML

/// The bits of `0x00000001,,0x3`, most significant word first.
fn only_bit(set: &str) -> Option<i32> {
    let mut found = None;
    for (word, text) in set.rsplit(',').enumerate() {
        let digits = text.trim_start_matches("0x");
        let bits = if digits.is_empty() {
            0
        } else {
            u32::from_str_radix(digits, 16).unwrap()
        };
        for bit in (0..32).filter(|bit| bits & 1 << bit != 0) {
            if found.replace(32 * word as i32 + bit).is_some() {
                return None;
            }
        }
    }
    found
}

fn from_hwloc(document: &roxmltree::Document<'_>, sysfs: &Sysfs) -> BTreeMap<String, String> {
    let mut paths = BTreeMap::new();
    let is = |node: &Node<'_, '_>, kind| node.attribute("type") == Some(kind);
    for bridge in document.descendants().filter(|node| is(node, "Bridge")) {
        if !bridge.attribute("bridge_type").unwrap().starts_with("0-") {
            continue;
        }
        let nodeset = bridge
            .ancestors()
            .find_map(|node| node.attribute("nodeset"));
        let numa = nodeset.and_then(only_bit).unwrap_or(-1);
        // `0000:[00-0c]`.
        let buses = bridge.attribute("bridge_pci").unwrap();
        let (domain, rest) = buses.split_once(":[").unwrap();
        let root = format!("pci{domain}:{}", &rest[..2]);
        hwloc_below(bridge, &root, numa, sysfs, &mut paths);
    }
    paths
}

fn hwloc_below(
    node: Node<'_, '_>,
    above: &str,
    numa: i32,
    sysfs: &Sysfs,
    paths: &mut BTreeMap<String, String>,
) {
    for child in node.children() {
        let Some(busid) = child.attribute("pci_busid") else {
            continue;
        };
        // `0604 [8086:6f08] [1458:1000] 01`.
        let kind = child.attribute("pci_type").unwrap();
        let (class, rest) = kind.split_once(" [").unwrap();
        let path = format!("{above}/{busid}");
        sysfs.function(
            &path,
            &Function {
                class: format!("0x{class}00"),
                vendor: format!("0x{}", &rest[..4]),
                device: format!("0x{}", &rest[5..9]),
                numa: Some(numa),
                link: None,
            },
        );
        paths.insert(busid.to_owned(), path.clone());
        hwloc_below(child, &path, numa, sysfs, paths);
    }
}

/// Not compared: edited by hand, it has two functions at 0000:04:00.0.
const HWLOC_NO_TREE: &str = "32em64t_pci-wholeio_cuda0_mlx5_0.xml";

#[test]
fn hwloc_xml_path_classes() {
    let Some(corpus) = corpus("hwloc_xml_path_classes") else {
        return;
    };
    let folder = corpus.join("sysfs/hwlocxml");
    let answers = rows(&folder.join("ANSWERS.tsv"));
    let (mut wrong, mut compared, mut odd) = (vec![], 0, vec![]);
    for file in xml_files(&folder) {
        let name = name(&file);
        if name == HWLOC_NO_TREE {
            continue;
        }
        let of_file: Vec<_> = answers.iter().filter(|row| row[0] == name).collect();
        let text = fs::read_to_string(&file).unwrap();
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..Default::default()
        };
        let document = roxmltree::Document::parse_with_options(&text, options).unwrap();
        let sysfs = Sysfs::new();
        let paths = from_hwloc(&document, &sysfs);
        for row in &of_file {
            if !sysfs
                .path()
                .join("sys/class/infiniband")
                .join(&row[3])
                .exists()
            {
                sysfs.rdma(&row[3], &paths[&row[4]]);
            }
        }
        sysfs.sockets(2);
        let facts = sysfs.survey();
        odd.extend(
            findings(&facts)
                .into_iter()
                .map(|says| (name.clone(), says)),
        );
        let tree = tree(&facts);
        for row in of_file {
            let (gpu, nic) = (address(&row[2]), address(&row[4]));
            let role = tree.function(&gpu).map(|function| function.role);
            assert_eq!(role, Some(PciRole::Gpu), "{name} {gpu}");
            compared += 1;
            let ours = path_class(tree, &gpu, &nic).map_or_else(|why| why, |c| c.to_string());
            if ours != row[5] {
                wrong.push(format!("{name} {gpu} {nic}: {ours}, should be {}", row[5]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
    assert!(compared > 150, "only {compared} pairs");
    assert_eq!(odd, []);
}

// ---- a whole sysfs

/// Eight vector engines in the place of GPUs, and two InfiniBand cards, behind two switches.
#[test]
fn a_sysfs_with_accelerators_behind_two_switches() {
    let Some(corpus) = corpus("a_sysfs_with_accelerators_behind_two_switches") else {
        return;
    };
    let archive = corpus.join("sysfs/hwloc/32intel64-2p8co2t+8ve.tar.bz2");
    let dir = tempfile::tempdir().unwrap();
    let tar = Command::new("tar")
        .args(["--exclude=*/sys/devices/system/cpu", "-xf"])
        .arg(&archive)
        .arg("-C")
        .arg(dir.path())
        .status();
    assert!(tar.unwrap().success());
    let root = dir.path().join("32intel64-2p8co2t+8ve");
    let bus = root.join("sys/bus/pci/devices");
    let (engines, cards) = (
        ["1b", "1c", "1d", "1e", "3d", "3f", "40", "41"],
        ["1a", "3e"],
    );
    for engine in engines {
        let function = bus.join(format!("0000:{engine}:00.0"));
        for (file, text) in [("vendor", "0x10de"), ("class", "0x030200")] {
            let file = function.join(file);
            assert!(file.exists(), "{}", file.display());
            fs::remove_file(&file).unwrap();
            fs::write(&file, text).unwrap();
        }
    }
    for card in cards {
        rdma(
            &root,
            &format!("mlx5_{card}"),
            &bus.join(format!("0000:{card}:00.0")),
        );
    }
    let facts = survey(&Root::at(&root), &Sources::default());
    let tree = tree(&facts);
    assert_eq!(tree.gpus().count(), 8);
    for engine in engines {
        for card in cards {
            let of = |bus: &str| address(&format!("0000:{bus}:00.0"));
            let class = path_class(tree, &of(engine), &of(card)).unwrap();
            let same = (engine < "20") == (card < "20");
            let expected = if same {
                PathClass::Pix
            } else {
                PathClass::Node
            };
            assert_eq!(class, expected, "{engine} {card}");
        }
    }
    // Gen3 x16 cards with MaxPayload unread: an old kernel's capture without config space.
    let links = links_on_path(tree, &address("0000:1a:00.0"));
    assert!(links.iter().all(|link| link.current.is_ok()), "{links:#?}");
}

// ---- lspci

/// Class and vendor by lspci's words; the device's id does not matter here.
fn from_words(what: &str) -> Function {
    let (class, vendor) = match what {
        _ if what.contains("PCI bridge") => ("0x060400", "0x1000"),
        _ if what.contains("Audio") => ("0x040300", "0x10de"),
        _ if what.contains("Bridge: NVIDIA") => ("0x068000", "0x10de"),
        _ if what.contains("NVIDIA") => ("0x030200", "0x10de"),
        _ if what.contains("Mellanox") => ("0x020000", "0x15b3"),
        _ => ("0x088000", "0x8086"),
    };
    Function {
        class: class.into(),
        vendor: vendor.into(),
        device: "0x0001".into(),
        ..Function::default()
    }
}

/// Eight H100 and eight ConnectX-7, each pair on a switch of its own; idle GPUs and slow lanes of
/// the switches' management endpoints are no faults.
#[test]
fn lspci_of_eight_h100() {
    let Some(corpus) = corpus("lspci_of_eight_h100") else {
        return;
    };
    let file = corpus.join("sysfs/gpud_xe9680_8xH100.lspci-vvv.txt");
    let told = lspci_vvv(&fs::read_to_string(file).unwrap());
    let above: BTreeMap<_, _> = told
        .iter()
        .filter_map(|(address, of)| Some((of.secondary.clone()?, address.clone())))
        .collect();
    let path = |address: &String| {
        let mut path = format!("0000:{address}");
        let mut bus = address[..2].to_owned();
        while let Some(bridge) = above.get(&bus) {
            path = format!("0000:{bridge}/{path}");
            bus = bridge[..2].to_owned();
        }
        format!("pci0000:{bus}/{path}")
    };
    let sysfs = Sysfs::new();
    for (address, of) in &told {
        let mut function = from_words(&of.what);
        function.numa = of.numa;
        function.link = of
            .current
            .clone()
            .zip(of.capable.clone())
            .map(<[_; 2]>::from);
        sysfs.function(&path(address), &function);
    }
    for (address, of) in &told {
        if of.what.contains("ConnectX-7") {
            sysfs.rdma(&format!("mlx5_{}", &address[..2]), &path(address));
        }
    }
    sysfs.sockets(2);
    let facts = sysfs.survey();
    assert_eq!(findings(&facts), Vec::<String>::new());
    let tree = tree(&facts);
    let affinity = affinity(tree, facts.rdma.value().unwrap());
    let gpus = affinity.endpoints.iter().filter(|end| end.is_gpu).count();
    assert_eq!((gpus, affinity.endpoints.len()), (8, 16));
    for gpu in 0..8 {
        // The card is on the bus behind the GPU's, and no other NIC is near.
        let nearest = affinity.nearest(gpu).unwrap();
        assert_eq!((nearest.class, nearest.unknown), (PathClass::Pix, 0));
        let bus = |end: usize| affinity.endpoints[end].address.0[5..7].to_owned();
        let number = |text: String| u8::from_str_radix(&text, 16).unwrap();
        let buses: Vec<_> = nearest.nics.iter().map(|nic| number(bus(*nic))).collect();
        assert_eq!(buses, [number(bus(gpu)) + 1], "GPU{gpu}");
        for (nic, class) in affinity.classes[gpu].iter().enumerate().skip(8) {
            let same = bus(nic) < "80".into();
            let expected = match (nearest.nics.contains(&nic), same == (gpu < 4)) {
                (true, _) => PathClass::Pix,
                (false, true) => PathClass::Node,
                (false, false) => PathClass::Sys,
            };
            assert_eq!(*class, Ok(expected), "GPU{gpu} {}", bus(nic));
        }
        let limit = pcie_limit(tree, &affinity.endpoints[nearest.nics[0]].address).unwrap();
        assert!(!limit.narrowest.is_degraded(), "{limit:?}");
        assert_eq!(limit.receive.0.round(), 461.0);
    }
}

/// A sysfs of `lspci -tv`; `numa` tells the NUMA node of a device by its address.
fn from_tree(tree: &str, numa: impl Fn(&str) -> Option<i32>) -> Sysfs {
    let sysfs = Sysfs::new();
    let mut nics = 0;
    for (path, words) in lspci_tree(tree) {
        let address = path.rsplit('/').next().unwrap();
        let mut function = from_words(if words.is_empty() {
            "PCI bridge"
        } else {
            &words
        });
        function.numa = numa(address);
        sysfs.function(&path, &function);
        if words.contains("Mellanox") {
            sysfs.rdma(&format!("mlx5_{nics}"), &path);
            nics += 1;
        }
    }
    sysfs
}

#[test]
fn lspci_trees() {
    let Some(corpus) = corpus("lspci_trees") else {
        return;
    };
    let classes = |facts: &NodeFacts| -> Vec<Vec<PathClass>> {
        let affinity = affinity(tree(facts), facts.rdma.value().unwrap());
        let gpus = affinity.endpoints.iter().filter(|end| end.is_gpu).count();
        let row = |row: &Vec<Result<PathClass, String>>| {
            row[gpus..]
                .iter()
                .map(|class| class.clone().unwrap())
                .collect()
        };
        affinity.classes[..gpus].iter().map(row).collect()
    };
    // A GPU and a card with two ports below cascaded switches; the domain is not 0000.
    let igx = fs::read_to_string(corpus.join("sysfs/igx-orin.lspci-tree.txt")).unwrap();
    let facts = from_tree(&igx, |_| None).survey();
    assert_eq!(classes(&facts), [[PathClass::Pxb, PathClass::Pxb]]);
    let nics = facts.rdma.value().unwrap();
    let [a, b] = [&nics[0].pci, &nics[1].pci].map(|pci| pci.value().unwrap());
    assert_eq!(path_class(tree(&facts), a, b), Ok(PathClass::Pix));

    // Four GPUs and two cards with two ports, each on a host bridge of its own.
    let file = corpus.join("sysfs/stelline_asus-esc8000a-e12.lspci-tree+vvv.txt");
    let text = fs::read_to_string(file).unwrap();
    let told = lspci_vvv(&text);
    // The capture has the first function of each card alone.
    let numa = |address: &str| told.get(&format!("{}.0", &address[5..10]))?.numa;
    let facts = from_tree(&text, numa).survey();
    use PathClass::{Node, Sys};
    let (first, second) = ([Node, Node, Sys, Sys], [Sys, Sys, Node, Node]);
    assert_eq!(classes(&facts), [first, first, second, second]);
}
