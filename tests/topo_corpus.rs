//! Matrices that `nvidia-smi topo -m` printed on real machines, whole and cut off. They are not part of
//! the project: LINERATE_CORPUS names the directory that holds them.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up fails where it stands"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use linerate::topology::{TopoLink, TopoMatrix, read};

/// A file; its GPUs, its NICs, the pairs whose link is known, the notes; for each GPU with a known path
/// to a NIC the nearest ones and their class. The pairs were counted, and compared, by other means.
type File = (&'static str, usize, usize, usize, usize, &'static str);

#[rustfmt::skip]
const FILES: &[File] = &[
    ("1gpu_5bondnic.topo", 1, 5, 15, 0, "0:3=PXB"),
    ("2gpu_nv1_mlx5_phb_oldlegend.topo", 2, 1, 3, 0, "0:mlx5_0=PHB 1:mlx5_0=PHB"),
    ("2gpu_nv2_numaNA.topo", 2, 0, 1, 0, ""),
    ("2gpu_phb_4nic_s114.topo", 2, 4, 15, 0, "0:0+1=PHB 1:2+3=PHB"),
    ("2gpu_phb_4nic_s116.topo", 2, 4, 15, 0, "0:0+1=PHB 1:2+3=PHB"),
    ("2gpu_phb_numaNA.topo", 2, 0, 1, 0, ""),
    ("8gpu_nv18_11nic_bond.topo", 8, 11, 171, 0, "0:0+1=PIX 1:0+1=PIX 2:2+3=PIX 3:2+3=PIX 4:4+5=PIX 5:4+5=PIX 6:6+7+8=PIX 7:6+7+8=PIX"),
    ("8gpu_nv18_8bond_pxb.topo", 8, 8, 120, 0, "0:0=PXB 1:1=PXB 2:2=PXB 3:3=PXB 4:4=PXB 5:5=PXB 6:6=PXB 7:7=PXB"),
    ("8gpu_pcie_nonic_6+2.topo", 8, 0, 28, 0, ""),
    ("a100_8gpu_nonic.topo", 8, 0, 28, 2, ""),
    ("a100sxm_4gpu_rocep49s0.topo", 4, 1, 10, 0, "0:0=SYS 1:0=SYS 2:0=SYS 3:0=SYS"),
    ("a800_8gpu_4nic.topo", 8, 4, 66, 1, "0:0+1=NODE 1:0=PIX 2:0+1=NODE 3:1=PIX 4:2+3=NODE 5:2+3=NODE 6:2+3=NODE 7:2+3=PIX"),
    ("asus-esc8000a-e12_4xRTX6000Ada_4xCX7.topo", 4, 4, 28, 1, "0:0+1=NODE 1:0+1=NODE 2:2+3=NODE 3:2+3=NODE"),
    ("deepep128_8gpu_nonvlink_sys_10nic_partial.topo", 8, 10, 87, 2, "0:0=PIX 1:1=PIX 2:2=PIX 3:3=PIX 4:4=PIX 5:5=PIX"),
    ("deepep60_h800_topo-mp_14nic_partial.topo", 8, 14, 78, 2, "0:0=PIX 1:1=PIX 2:2=PIX 3:7=PIX"),
    ("gb10_dgx_spark.topo", 1, 4, 10, 0, "0:0+1+2+3=NODE"),
    ("glm_h200-class_8gpu_10nic.topo", 8, 10, 153, 0, "0:3=PIX 1:5=PIX 2:4=PIX 3:0+1+2=PIX 4:7=PIX 5:9=PIX 6:8=PIX 7:6=PIX"),
    ("h100_8gpu_208cpu_nonic.topo", 8, 0, 28, 2, ""),
    ("h100_8gpu_nonic.topo", 8, 0, 28, 2, ""),
    ("h100pcie_kvm_1gpu_1nic.topo", 1, 1, 1, 0, "0:0=PHB"),
    ("h800_4gpu_17nic_vm_emptyaffinity.topo", 4, 17, 210, 8, "0:4+13=PIX 1:6+14=PIX 2:7+15=PIX 3:8+16=PIX"),
    ("h800_8gpu_4nic_terminal-cut.topo", 8, 4, 60, 6, "0:0+1=NODE 1:0=PIX 2:0+1=NODE 3:1=PIX 4:2+3=NODE 5:2+3=NODE 6:2+3=NODE 7:2+3=PIX"),
    ("igx-orin_A6000_CX7.topo-mp", 1, 2, 3, 1, "0:0+1=PXB"),
    ("k80_4gpu_mlx4_SOC_legend.topo", 4, 1, 10, 0, "0:mlx4_0=PHB 1:mlx4_0=PHB 2:mlx4_0=PHB 3:mlx4_0=PHB"),
    ("moorethreads_mthreads-gmi_partial.topo", 8, 10, 75, 4, "0:0=PXB 1:0=PXB 2:0+8=SYS 3:2+3=PXB 4:4+5=PXB 5:0+8=SYS 6:6+7=PXB 7:0+8=SYS"),
    ("nccl1435_a100_8gpu_6nic_partial.topo", 8, 6, 70, 2, "0:1=PXB 1:1=PXB 2:0=PXB 3:0=PXB 4:5=PXB 5:5=PXB 6:2=PXB"),
    ("nccl1453_h100_8gpu_9nic_reversed_partial.topo", 8, 9, 133, 2, "0:8=PIX 1:7=PIX 2:6=PIX 3:5=PIX 4:4=PIX 5:3=PIX 6:2=PIX 7:1=PIX"),
    ("nccl1530_8gpu_pcie_sys_2nic.topo", 8, 2, 45, 0, "0:0+1=SYS 1:0+1=SYS 2:0+1=SYS 3:0+1=SYS 4:0+1=SYS 5:0+1=SYS 6:0+1=SYS 7:0+1=SYS"),
    ("nccl2157_a100_18nic_partial.topo", 8, 18, 94, 2, "0:5+6+7+8=PXB 1:5+6+7+8=PXB 2:1+2+3+4=PXB 3:1+2+3+4=PXB"),
    ("nccl243_6gpu_2mlx5_oldstyle.topo", 6, 2, 28, 0, "0:mlx5_0=NODE 1:mlx5_0=NODE 2:mlx5_0=PIX 3:mlx5_1=NODE 4:mlx5_1=NODE 5:mlx5_1=PIX"),
    ("nccl933_a800_9nic_interleaved_partial.topo", 8, 9, 91, 2, "0:2=PIX 1:4=PIX 2:6=PIX 3:8=PIX 4:1=PIX 5:3=PIX 6:5=PIX"),
    ("p40_8gpu_mlx5_SOC_legend.topo", 8, 1, 36, 0, "0:mlx5_0=SYS 1:mlx5_0=SYS 2:mlx5_0=SYS 3:mlx5_0=SYS 4:mlx5_0=SYS 5:mlx5_0=SYS 6:mlx5_0=SYS 7:mlx5_0=SYS"),
    ("v100_4gpu_4mlx5_pix.topo", 4, 4, 28, 0, "0:mlx5_0+mlx5_1=PIX 1:mlx5_0+mlx5_1=PIX 2:mlx5_2+mlx5_3=PIX 3:mlx5_2+mlx5_3=PIX"),
    ("v100_4gpu_5mlx5_pix_partial.topo", 4, 5, 36, 1, "0:mlx5_0+mlx5_1+mlx5_4=PIX 1:mlx5_0+mlx5_1+mlx5_4=PIX 2:mlx5_2+mlx5_3=PIX 3:mlx5_2+mlx5_3=PIX"),
    ("v100_4gpu_mlx5_sys_oldlegend.topo", 4, 1, 10, 0, "0:mlx5_0=SYS 1:mlx5_0=SYS 2:mlx5_0=SYS 3:mlx5_0=SYS"),
    ("v100sxm2_8gpu_1nic_node.topo", 8, 1, 36, 1, "0:0=NODE 1:0=NODE 2:0=NODE 3:0=NODE 4:0=SYS 5:0=SYS 6:0=SYS 7:0=SYS"),
    ("vllm29944_8gpu_10nic_reversed_partial.topo", 8, 10, 75, 2, "0:3=PIX 1:2=PIX 2:1=PIX 3:0=PIX 4:5=PIX"),
];

fn folder(test: &str) -> Option<PathBuf> {
    let found = std::env::var_os("LINERATE_CORPUS").map(PathBuf::from);
    if found.is_none() {
        // Past the capture of a test's output, which hides what passing tests print.
        let skipped = "LINERATE_CORPUS does not name a directory of captures";
        let mut stderr = io::stderr();
        writeln!(stderr, "SKIPPED {test}: {skipped}").unwrap();
    }
    found.map(|corpus| corpus.join("topo"))
}

/// `0:3+4=PIX 1:mlx5_0=SYS`.
fn nearest(matrix: &TopoMatrix) -> String {
    let of = |gpu: usize| {
        let nearest = matrix.nearest(gpu)?;
        let name = |nic: &usize| matrix.devices[*nic].name.replace("NIC", "");
        let nics: Vec<_> = nearest.nics.iter().map(name).collect();
        Some(format!("{gpu}:{}={}", nics.join("+"), nearest.class))
    };
    let found: Vec<_> = (0..gpus(matrix)).filter_map(of).collect();
    found.join(" ")
}

fn gpus(matrix: &TopoMatrix) -> usize {
    matrix.devices.iter().filter(|device| device.is_gpu).count()
}

fn known_pairs(matrix: &TopoMatrix) -> usize {
    let links = matrix.links.iter().flatten();
    let pairs = links.filter(|link| !matches!(link, Err(_) | Ok(TopoLink::Own)));
    pairs.count() / 2
}

#[test]
fn every_file_is_read_and_what_it_lacks_is_said() {
    let Some(folder) = folder("every_file_is_read_and_what_it_lacks_is_said") else {
        return;
    };
    let there: BTreeSet<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let listed: BTreeSet<_> = FILES.iter().map(|file| format!("{}.txt", file.0)).collect();
    assert_eq!(there, listed);
    for (name, gpu_count, nics, pairs, notes, near) in FILES {
        let text = fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
        let matrix = read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let counts = (gpus(&matrix), matrix.devices.len() - gpus(&matrix));
        assert_eq!(counts, (*gpu_count, *nics), "{name}");
        assert_eq!(known_pairs(&matrix), *pairs, "{name}");
        assert_eq!(matrix.notes.len(), *notes, "{name}: {:#?}", matrix.notes);
        assert_eq!(nearest(&matrix), *near, "{name}");
        // Printed as nvidia-smi would today, it is the same.
        let again = read(&matrix.to_string()).unwrap();
        assert_eq!(again.devices, matrix.devices, "{name}");
        assert_eq!(known_pairs(&again), *pairs, "{name}");
    }
}

fn of(name: &str) -> Option<TopoMatrix> {
    let text = fs::read_to_string(folder(name)?.join(format!("{name}.txt"))).unwrap();
    Some(read(&text).unwrap())
}

fn notes(matrix: &TopoMatrix) -> Vec<String> {
    matrix.notes.iter().map(ToString::to_string).collect()
}

#[test]
fn a_terminal_that_cut_the_right_side_off() {
    let Some(matrix) = of("h800_8gpu_4nic_terminal-cut.topo") else {
        return;
    };
    let notes = notes(&matrix);
    assert!(notes[0].starts_with("line 2, column 71: the CPU affinity of GPU0 is `-31,64-95`"));
    assert!(notes[4].starts_with("line 9: GPU7 is near CPUs 2-63,96-127, and GPU4 near 32-63"));
    assert_eq!(
        notes[5],
        "line 30: the text ends without a column of NIC0, NIC1, NIC2, NIC3"
    );
}

#[test]
fn another_vendors_tool_without_its_heading() {
    let Some(matrix) = of("moorethreads_mthreads-gmi_partial.topo") else {
        return;
    };
    assert_eq!(matrix.link(0, 3), Some(&Ok(TopoLink::MtLink(2))));
    assert_eq!(matrix.devices[3].numa.as_deref(), Some("2"));
    // 112-127,240-254 and 7, or 112-127,240-25 and 47: neither is guessed.
    assert_eq!(matrix.devices[4].cpus, None);
    assert!(notes(&matrix)[1].starts_with("line 2: 1 of 2 affinity columns of GPU4"));
}

#[test]
fn legends_number_nics_in_their_own_order() {
    let Some(matrix) = of("8gpu_nv18_11nic_bond.topo") else {
        return;
    };
    let names: Vec<_> = matrix.devices[16..]
        .iter()
        .map(|d| d.rdma.as_deref())
        .collect();
    assert_eq!(
        names,
        [Some("mlx5_8"), Some("mlx5_11"), Some("mlx5_bond_0")]
    );
}
