//! The matrix as nvidia-smi prints it, with tabs.

use std::fmt;

use super::{TopoDevice, TopoMatrix};

impl fmt::Display for TopoMatrix {
    /// What [`super::read`] reads as the same matrix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for device in &self.devices {
            write!(f, "\t{}", device.name)?;
        }
        writeln!(f, "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID")?;
        for (device, links) in self.devices.iter().zip(&self.links) {
            write!(f, "{}", device.name)?;
            for link in links {
                match link {
                    Ok(link) => write!(f, "\t{link:^3}")?,
                    Err(_) => write!(f, "\t")?,
                }
            }
            affinity(f, device)?;
        }
        writeln!(f, "\nNIC Legend:\n")?;
        for device in &self.devices {
            if let Some(rdma) = device.rdma.as_ref().filter(|rdma| **rdma != device.name) {
                writeln!(f, "  {}: {rdma}", device.name)?;
            }
        }
        Ok(())
    }
}

fn affinity(f: &mut fmt::Formatter<'_>, device: &TopoDevice) -> fmt::Result {
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "N/A".to_owned());
    match device.is_gpu {
        true => writeln!(
            f,
            "\t{}\t{}\t\tN/A",
            or_none(&device.cpus),
            or_none(&device.numa)
        ),
        false => writeln!(f),
    }
}
