//! Matrices whole, old, cut, contradictory; texts that are none; printing and reading back.

use proptest::prelude::*;

use super::*;
use crate::topology::PathClass;

fn link(matrix: &TopoMatrix, a: &str, b: &str) -> String {
    let place = |name| matrix.devices.iter().position(|d| d.name == name).unwrap();
    match matrix.link(place(a), place(b)).unwrap() {
        Ok(link) => link.to_string(),
        Err(why) => why.clone(),
    }
}

fn notes(matrix: &TopoMatrix) -> Vec<String> {
    matrix.notes.iter().map(ToString::to_string).collect()
}

#[test]
fn a_whole_matrix_has_no_notes() {
    let text = "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n\
                GPU0\t X \tNV18\tPIX\t0-15,32-47\t0\t\tN/A\n\
                GPU1\tNV18\t X \tSYS\t16-31,48-63\t1\t\tN/A\n\
                NIC0\tPIX\tSYS\t X \t\t\t\t\n\n\
                Legend:\n\n  X    = Self\n  NV#  = Connection traversing NVLinks\n\n\
                NIC Legend:\n\n  NIC0: mlx5_7\n";
    let matrix = read(text).unwrap();
    assert_eq!(notes(&matrix), [""; 0]);
    assert_eq!(link(&matrix, "GPU0", "GPU1"), "NV18");
    assert_eq!(link(&matrix, "NIC0", "GPU1"), "SYS");
    let [gpu0, _, nic] = &matrix.devices[..] else {
        panic!("{matrix:?}")
    };
    assert_eq!(gpu0.cpus.as_deref(), Some("0-15,32-47"));
    assert_eq!(gpu0.numa.as_deref(), Some("0"));
    assert_eq!(nic.title(), "NIC0 (mlx5_7)");
    let nearest = matrix.nearest(0).unwrap();
    assert_eq!(
        (nearest.class, nearest.nics, nearest.unknown),
        (PathClass::Pix, vec![2], 0)
    );
    assert_eq!(matrix.nearest(99), None);
}

#[test]
fn old_words_and_old_headings() {
    let text = "        GPU0    GPU1    mlx4_0  CPU Affinity\n\
                GPU0     X      PHB     SOC     0-11\n\
                GPU1    PHB      X      SOC     0-11\n\
                mlx4_0  SOC     SOC      X\n";
    let matrix = read(text).unwrap();
    assert_eq!(notes(&matrix), [""; 0]);
    assert_eq!(link(&matrix, "GPU1", "mlx4_0"), "SYS");
    assert_eq!(matrix.devices[2].title(), "mlx4_0");
    assert_eq!(matrix.devices[1].cpus.as_deref(), Some("0-11"));
}

#[test]
fn what_is_cut_off_is_said_and_the_other_direction_is_used() {
    let text = "      GPU0 NIC0 NIC1 CPU Affi\n\
                GPU0  X    PIX  SY\n\
                NIC0  PIX  X    NODE\n";
    let matrix = read(text).unwrap();
    assert_eq!(link(&matrix, "NIC1", "NIC0"), "NODE");
    assert_eq!(link(&matrix, "GPU0", "NIC1"), "the text does not have it");
    assert_eq!(
        notes(&matrix),
        [
            "line 2, column 17: `SY` is no path; X, PIX, PXB, PHB, NODE, SYS or NV# were expected",
            "line 3: the text ends without a row of NIC1",
            "line 3: the text ends without a NIC legend that names NIC0, NIC1",
        ]
    );
    let matrix = read("\tGPU0\tNIC0\tNI\nGPU0\t X \t\nNIC0\tPIX\n").unwrap();
    assert_eq!(link(&matrix, "GPU0", "NIC0"), "PIX");
    assert_eq!(
        notes(&matrix)[..3],
        [
            "line 1, column 12: the heading is cut off at `NI`",
            "line 2, column 10: the cell for NIC0 is empty",
            "line 3: the row of NIC0 is cut off before NIC0",
        ]
    );
}

#[test]
fn contradictions_are_believed_in_neither_direction() {
    let text = "\tGPU0\tGPU1\tmlx5_0\nGPU0\tX\tNV1\tPIX\nGPU1\tNV1\tPHB\tX\nmlx5_0\tSYS\tPIX\tX\n";
    let matrix = read(text).unwrap();
    assert_eq!(
        link(&matrix, "GPU0", "mlx5_0"),
        "line 2 says PIX, line 4 SYS"
    );
    assert_eq!(link(&matrix, "GPU1", "mlx5_0"), "PIX");
    assert_eq!(
        notes(&matrix),
        [
            "line 3, column 10: GPU1 and GPU1: PHB cannot be",
            "line 3, column 14: GPU1 and mlx5_0: X cannot be",
            "line 4, column 8: GPU0 and mlx5_0: line 2 says PIX, line 4 SYS",
        ]
    );
    assert_eq!(matrix.nearest(0), None);
}

#[test]
fn affinity_that_has_lost_characters_is_not_believed() {
    let heading = "      GPU0 GPU1 CPU Affinity NUMA Affinity\n";
    let of = |rows: &str| read(&format!("{heading}{rows}")).unwrap();
    let matrix = of("GPU0 X NV1 -15,32-47 0\nGPU1 NV1 X 16-31,48-632\n");
    assert!(
        matrix.devices.iter().all(|gpu| gpu.cpus.is_none()),
        "{matrix:?}"
    );
    assert_eq!(
        notes(&matrix),
        [
            "line 2, column 12: the CPU affinity of GPU0 is `-15,32-47`; a list such as 0-31,64-95 was expected",
            "line 3: 1 of 2 affinity columns of GPU1: which is unclear",
        ]
    );
    let matrix = of("GPU0 X NV1 16-31 1\nGPU1 NV1 X 6-31 1\n");
    assert!(notes(&matrix)[0].ends_with("of the same NUMA node 1: one is cut off"));
}

#[test]
fn without_a_heading_the_columns_follow_from_the_diagonal() {
    let text = "GPU1 MT2 X SPB SYS 0-15 0\nNIC1 SYS SYS MPB X\n";
    let matrix = read(text).unwrap();
    assert_eq!(matrix.devices.len(), 4);
    assert_eq!(link(&matrix, "GPU0", "GPU1"), "MT2");
    assert_eq!(link(&matrix, "GPU1", "NIC0"), "PIX");
    assert_eq!(link(&matrix, "NIC1", "NIC0"), "PXB");
    assert!(notes(&matrix)[0].starts_with("line 1: no heading is above"));
    // Two rows that cannot both be right, and one that alone says too little.
    for text in ["GPU0 X PIX\nNIC1 PIX X\nNIC0 SYS X\n", "GPU0 X PIX\n"] {
        let error = read(text).unwrap_err();
        assert_eq!(
            error,
            TopoError::NoHeading {
                line: 1,
                name: "GPU0".into()
            }
        );
    }
}

#[test]
fn texts_that_are_no_matrix_are_refused_with_the_place() {
    for (text, error) in [
        ("", "line 1: the text ends, and no line"),
        (
            "GPUs are fine\nall of them\n",
            "line 2: the text ends, and no line",
        ),
        (
            "\tGPU0\tGPU1\tGPU0\nGPU0\tX\n",
            "line 1, column 12: GPU0 is here a second time",
        ),
        (
            "\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU0\tX\tPIX\n",
            "line 3, column 1: GPU0 is here",
        ),
        // `nvidia-smi topo -p2p r` has the same form.
        (
            " GPU0 GPU1\nGPU0 X OK\nGPU1 OK X\n",
            "line 2, column 8: `OK` is no path",
        ),
    ] {
        let told = read(text).unwrap_err().to_string();
        assert!(told.starts_with(error), "{text:?}: {told}");
    }
    let long = "x".repeat(MAX_TEXT + 1);
    assert_eq!(
        read(&long),
        Err(TopoError::TooLong {
            bytes: MAX_TEXT + 1
        })
    );
    let many: String = (0..=MAX_DEVICES).map(|gpu| format!("\tGPU{gpu}")).collect();
    assert_eq!(read(&many), Err(TopoError::TooMany { line: 1 }));
}

#[test]
fn only_the_first_matrix_is_read_and_notes_are_bounded() {
    let one = "\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU1\tPIX\tX\n";
    let matrix = read(&format!("{one}{one}")).unwrap();
    assert_eq!(
        notes(&matrix),
        ["line 4: a second matrix begins here: only the first is read"]
    );
    let prose = "word\n".repeat(MAX_NOTES + 7);
    let matrix = read(&format!("{prose}{one}")).unwrap();
    assert_eq!((matrix.notes.len(), matrix.more_notes), (MAX_NOTES, 7));
}

fn any_link() -> impl Strategy<Value = Option<TopoLink>> {
    let path = prop::sample::select(PathClass::ALL.to_vec()).prop_map(TopoLink::Path);
    let other = prop_oneof![
        path,
        any::<u16>().prop_map(TopoLink::NvLink),
        any::<u16>().prop_map(TopoLink::MtLink),
        Just(TopoLink::Internal),
    ];
    prop_oneof![1 => Just(None), 9 => other.prop_map(Some)]
}

prop_compose! {
    fn matrix()(gpus in 1usize..6, nics in 0usize..6, numbered in any::<bool>())(
        links in prop::collection::vec(any_link(), 144),
        cpus in prop::collection::vec(prop::option::of("[1-9]{1,2}(,[1-9]{1,2}){0,2}"), 6),
        gpus in Just(gpus), nics in Just(nics), numbered in Just(numbered),
    ) -> TopoMatrix {
        let nic_name = |n: usize| if numbered { format!("NIC{n}") } else { format!("mlx5_{n}") };
        let device = |name: String, rdma: Option<String>, cpus: Option<&String>| TopoDevice {
            is_gpu: rdma.is_none(),
            rdma,
            numa: cpus.map(|_| name.trim_start_matches("GPU").to_owned()),
            cpus: cpus.cloned(),
            name,
        };
        let gpu = |n: usize| device(format!("GPU{n}"), None, cpus[n].as_ref());
        let nic = |n: usize| device(nic_name(n), Some(format!("mlx5_{n}")), None);
        let devices: Vec<_> = (0..gpus).map(gpu).chain((0..nics).map(nic)).collect();
        let size = devices.len();
        let link = |a: usize, b: usize| match a == b {
            true => Ok(TopoLink::Own),
            false => links[a.min(b) * 12 + a.max(b)].ok_or_else(|| "not printed".to_owned()),
        };
        let links = (0..size).map(|a| (0..size).map(|b| link(a, b)).collect()).collect();
        TopoMatrix { devices, links, notes: Vec::new(), more_notes: 0 }
    }
}

proptest! {
    #[test]
    fn a_printed_matrix_reads_as_the_same(matrix in matrix()) {
        let again = read(&matrix.to_string()).unwrap();
        prop_assert_eq!(&again.devices, &matrix.devices);
        let known = |matrix: &TopoMatrix| -> Vec<_> {
            matrix.links.iter().flatten().map(|link| link.clone().ok()).collect()
        };
        prop_assert_eq!(known(&again), known(&matrix));
    }

    #[test]
    fn any_text_is_a_matrix_or_an_error(
        text in "(?s).{0,200}|(GPU[0-3]|NIC[0-3]| X |PIX|SYS|NV2|N/A|0-3|CPU Affinity|\t|  |\n|\u{1b}\\[4m|NIC0: m1|é){0,60}",
    ) {
        if let Ok(matrix) = read(&text) {
            prop_assert!(!matrix.devices.is_empty());
            let size = matrix.devices.len();
            for a in 0..size {
                let _ = matrix.nearest(a);
                for b in 0..size {
                    prop_assert_eq!(matrix.link(a, b), matrix.link(b, a));
                }
            }
        }
    }

    /// A file that was cut somewhere is told from a whole one.
    #[test]
    fn a_cut_matrix_never_gains_a_link(matrix in matrix(), cut in 0.0..1.0) {
        let text = matrix.to_string();
        let end = (text.len() as f64 * cut) as usize;
        if let Ok(part) = read(&text[..end]) {
            for (a, device) in part.devices.iter().enumerate() {
                let whole = matrix.devices.iter().position(|d| d.name == device.name);
                for (b, other) in part.devices.iter().enumerate() {
                    let there = matrix.devices.iter().position(|d| d.name == other.name);
                    if let (Some(Ok(link)), Some(x), Some(y)) = (part.link(a, b), whole, there)
                        && let TopoLink::Path(_) = link
                    {
                        prop_assert_eq!(Some(link), matrix.links[x][y].as_ref().ok());
                    }
                }
            }
        }
    }
}
