//! A matrix that nvidia-smi printed elsewhere: who is near whom, and what the text does not tell.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Page, pcie};
use crate::report::REPORT_SCHEMA;
use crate::report::quiet;
use crate::topology::{Nearest, TopoDevice, TopoLink, TopoMatrix};

/// Writes the GPUs with their nearest NICs, the matrix, and what is to be said of the text.
///
/// # Errors
/// Those of `out`.
pub fn topo_text(matrix: &TopoMatrix, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page { out };
    for (at, device) in matrix.devices.iter().enumerate().filter(|(_, d)| d.is_gpu) {
        gpu(&mut page, matrix, at, device)?;
    }
    for nic in &matrix.devices {
        // With old drivers the heading is the name; where the legend is missing, a note says so.
        if let Some(rdma) = nic.rdma.as_ref().filter(|rdma| **rdma != nic.name) {
            page.field(&nic.name, rdma)?;
        }
    }
    let names: Vec<_> = matrix.devices.iter().map(|device| &*device.name).collect();
    let cell = |row, column| match matrix.link(row, column) {
        Some(Ok(link)) => link.to_string(),
        _ => "?".to_owned(),
    };
    pcie::grid(&mut page, &names, cell)?;
    legend(&mut page, matrix)?;
    notes(&mut page, matrix)
}

fn gpu(page: &mut Page<'_>, matrix: &TopoMatrix, at: usize, gpu: &TopoDevice) -> io::Result<()> {
    let nearest = match matrix.nearest(at) {
        Some(nearest) => nearest_text(matrix, &nearest),
        None if matrix.devices.iter().all(|device| device.is_gpu) => "no NIC".to_owned(),
        None => "NIC unknown: the text has no path to any".to_owned(),
    };
    let near = |what: &str, value: &Option<String>| match value {
        Some(value) => format!("; {what} {value}"),
        None => String::new(),
    };
    let numa = near("NUMA node", &gpu.numa);
    let cpus = near("CPUs", &gpu.cpus);
    page.field(&gpu.name, format!("nearest: {nearest}{numa}{cpus}"))
}

fn nearest_text(matrix: &TopoMatrix, nearest: &Nearest) -> String {
    let titles: Vec<_> = nearest
        .nics
        .iter()
        .map(|nic| matrix.devices[*nic].title())
        .collect();
    let more = match nearest.unknown {
        0 => String::new(),
        1 => "; 1 NIC of unknown path may be nearer".to_owned(),
        unknown => format!("; {unknown} NICs of unknown path may be nearer"),
    };
    format!("{} ({}){more}", titles.join(", "), nearest.class)
}

/// Each word of the matrix once: paths from the nearest, then links that are none.
fn legend(page: &mut Page<'_>, matrix: &TopoMatrix) -> io::Result<()> {
    let mut links: Vec<TopoLink> = Vec::new();
    let mut reasons: Vec<&str> = Vec::new();
    for link in matrix.links.iter().flatten() {
        match link {
            Ok(TopoLink::Own) => {}
            Ok(link) if !links.contains(link) => links.push(*link),
            Err(why) if !reasons.contains(&why.as_str()) => reasons.push(why),
            _ => {}
        }
    }
    links.sort_by_key(|link| (link.class().is_none(), link.class()));
    for link in links {
        page.line("    ", &link.to_string(), &link.meaning())?;
    }
    reasons
        .iter()
        .try_for_each(|why| page.line("    ", "?", &format!("unknown: {why}")))
}

fn notes(page: &mut Page<'_>, matrix: &TopoMatrix) -> io::Result<()> {
    if !matrix.notes.is_empty() {
        writeln!(page.out)?;
    }
    for (at, note) in matrix.notes.iter().enumerate() {
        page.field(if at == 0 { "text" } else { "" }, note)?;
    }
    match matrix.more_notes {
        0 => Ok(()),
        more => page.field("", format!("and {more} more such places")),
    }
}

/// Writes the same as one JSON document.
///
/// # Errors
/// Those of `out`.
pub fn topo_json(matrix: &TopoMatrix, out: &mut dyn Write) -> io::Result<()> {
    let devices = matrix.devices.iter().enumerate();
    let document = Document {
        schema: REPORT_SCHEMA,
        linerate: env!("CARGO_PKG_VERSION"),
        devices: devices.map(|(at, d)| device(matrix, at, d)).collect(),
        paths: paths(matrix),
        notes: matrix.notes.iter().map(ToString::to_string).collect(),
        more_notes: matrix.more_notes,
    };
    quiet::pretty(out, &document)
}

#[derive(Serialize)]
struct Document {
    schema: u32,
    linerate: &'static str,
    devices: Vec<Value>,
    /// What lies between each GPU or NIC and each other.
    paths: Vec<Value>,
    notes: Vec<String>,
    more_notes: usize,
}

fn device(matrix: &TopoMatrix, at: usize, device: &TopoDevice) -> Value {
    let mut value = json!({"name": device.name, "gpu": device.is_gpu});
    if !device.is_gpu {
        value["rdma"] = json!(device.rdma);
        return value;
    }
    value["cpus"] = json!(device.cpus);
    value["numa"] = json!(device.numa);
    value["nearest"] = match matrix.nearest(at) {
        None => Value::Null,
        Some(nearest) => {
            let name = |nic: &usize| &matrix.devices[*nic].name;
            json!({
                "class": nearest.class.to_string(),
                "nics": nearest.nics.iter().map(name).collect::<Vec<_>>(),
                "unknown": nearest.unknown,
            })
        }
    };
    value
}

fn paths(matrix: &TopoMatrix) -> Vec<Value> {
    let mut paths = Vec::new();
    for (a, from) in matrix.devices.iter().enumerate() {
        for (b, to) in matrix.devices.iter().enumerate().skip(a + 1) {
            let mut path = json!({"from": from.name, "to": to.name});
            match &matrix.links[a][b] {
                Ok(link) => path["class"] = json!(link.to_string()),
                Err(why) => path["unknown"] = json!(why),
            }
            paths.push(path);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::read;

    const CUT: &str = "\
$ nvidia-smi topo -m
\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\x1b[0m
GPU0\t X \tNV2\tPIX\tSYS\t0-15\t0
GPU1\tNV2\t X \tSYS\tN
NIC0\tPIX\tSYS\t X \tSYS

NIC Legend:

  NIC0: mlx5_0
";

    fn written(write: impl Fn(&TopoMatrix, &mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&read(CUT).unwrap(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_matrix_that_is_cut_off() {
        insta::assert_snapshot!(written(topo_text));
    }

    #[test]
    fn the_same_for_programs() {
        let json: Value = serde_json::from_str(&written(topo_json)).unwrap();
        assert_eq!(
            json["devices"][0],
            json!({
                "name": "GPU0", "gpu": true, "cpus": "0-15", "numa": "0",
                "nearest": {"class": "PIX", "nics": ["NIC0"], "unknown": 0},
            })
        );
        assert_eq!(json["devices"][2]["rdma"], "mlx5_0");
        assert_eq!(json["devices"][3]["rdma"], Value::Null);
        let paths = json["paths"].as_array().unwrap();
        assert_eq!(paths.len(), 6);
        assert_eq!(
            paths[0],
            json!({"from": "GPU0", "to": "GPU1", "class": "NV2"})
        );
        let unknown = json!({"from": "GPU1", "to": "NIC1", "unknown": "the text does not have it"});
        assert_eq!(paths[4], unknown);
        assert_eq!(json["notes"].as_array().map(Vec::len), Some(5));
    }
}
