//! One function of /sys/bus/pci/devices.

use std::path::{Path, PathBuf};

use super::config_space::{self, Unreadable};
use super::{errors, parse};
use crate::model::{
    AcsControl, Bytes, DeviceControl, Fact, Iommu, PciAddress, PciFunction, PciRole, PcieLink,
    VENDOR_AMD_GPU,
};
use crate::survey::parse as common;
use crate::survey::root::{Root, quote};

/// Config space of PCI Express; conventional PCI ends at 256 bytes.
const CONFIG_SPACE: usize = 4096;

/// Where a function is.
pub(super) struct Place<'a> {
    pub root: &'a Root,
    /// /sys/bus/pci/devices/ADDRESS.
    pub dir: PathBuf,
    pub address: &'a PciAddress,
    pub role: PciRole,
    pub parent: Option<&'a PciAddress>,
    /// The root bus with its directory, or why there is none.
    pub hung_from: &'a Result<(String, PathBuf), String>,
    /// The NUMA node of a system that has only one.
    pub only_numa_node: Option<&'a Fact<u32>>,
}

/// Reads what there is to know.
pub(super) fn read(place: &Place<'_>) -> PciFunction {
    let bridge = place.role == PciRole::Bridge;
    let (control, acs) = config(place);
    let vendor = place.fact("vendor", parse::id);
    PciFunction {
        address: place.address.clone(),
        role: place.role,
        parent: place.parent.cloned(),
        root: match place.hung_from {
            Ok((name, dir)) => Fact::known(name.clone(), dir.display().to_string()),
            Err(why) => Fact::unknown(why),
        },
        device: place.fact("device", parse::id),
        driver: driver(place),
        numa_node: numa_node(place),
        link: PcieLink {
            speed: place.fact("current_link_speed", parse::speed),
            max_speed: place.fact("max_link_speed", parse::speed),
            width: place.fact("current_link_width", parse::width),
            max_width: place.fact("max_link_width", parse::width),
        },
        control,
        acs: bridge.then_some(acs),
        iommu: (!bridge).then(|| iommu(place)),
        physical_function: physical_function(place),
        errors: errors::read(place),
        memory_window: (place.role == PciRole::Gpu)
            .then(|| memory_window(place, vendor.value().copied())),
        vendor,
    }
}

impl Place<'_> {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(super) fn fact<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Fact<T> {
        self.root.fact(&self.file(name), parse)
    }
}

fn driver(place: &Place<'_>) -> Fact<String> {
    let link = place.file("driver");
    match place.root.link_name(&link) {
        Ok(name) => Fact::known(name, link.display().to_string()),
        Err(error) if error.is_absent() => Fact::unknown(format!(
            "{} does not exist: no driver is bound",
            link.display()
        )),
        Err(error) => Fact::unknown(error.to_string()),
    }
}

fn numa_node(place: &Place<'_>) -> Fact<u32> {
    let stated = place.fact("numa_node", common::numa_node);
    match (stated, place.only_numa_node) {
        (Fact::Unknown { .. }, Some(only)) => only.clone(),
        (stated, _) => stated,
    }
}

/// What is read from config space. The kernel wakes a sleeping function for that, as for lspci.
fn config(place: &Place<'_>) -> (Fact<DeviceControl>, Fact<Option<AcsControl>>) {
    let path = place.file("config");
    match place.root.read_start(&path, CONFIG_SPACE) {
        Ok(bytes) => (
            of_config(&path, config_space::device_control(&bytes)),
            of_config(&path, config_space::acs(&bytes)),
        ),
        Err(error) => (
            Fact::unknown(error.to_string()),
            Fact::unknown(error.to_string()),
        ),
    }
}

fn of_config<T>(path: &Path, result: Result<T, Unreadable>) -> Fact<T> {
    match result {
        Ok(value) => Fact::known(value, path.display().to_string()),
        Err(error) => Fact::unknown(format!("{} {}", path.display(), error.why())),
    }
}

fn iommu(place: &Place<'_>) -> Fact<Iommu> {
    let link = place.file("iommu_group");
    let group = match place.root.link_name(&link) {
        Ok(group) => group,
        // A copy of sysfs may have left the link out.
        Err(error) if error.is_absent() && place.root.is_live() => {
            return Fact::known(Iommu::Off, format!("{} does not exist", link.display()));
        }
        Err(error) => return Fact::unknown(error.to_string()),
    };
    match group.parse::<u32>() {
        Ok(number) => {
            let groups = place.root.path("sys/kernel/iommu_groups");
            let path = groups.join(number.to_string()).join("type");
            place.root.fact(&path, parse::iommu)
        }
        Err(_) => Fact::unknown(format!(
            "{} is {}, not the number of an IOMMU group",
            link.display(),
            quote(&group)
        )),
    }
}

fn physical_function(place: &Place<'_>) -> Option<Fact<PciAddress>> {
    let link = place.file("physfn");
    match place.root.link_name(&link) {
        Ok(name) if common::is_pci_address(&name) => {
            Some(Fact::known(PciAddress(name), link.display().to_string()))
        }
        Ok(name) => Some(Fact::unknown(format!(
            "{} is {}, not an address",
            link.display(),
            quote(&name)
        ))),
        Err(error) if error.is_absent() => None,
        Err(error) => Some(Fact::unknown(error.to_string())),
    }
}

/// Base address register 1 of NVIDIA (nvidia-smi's BAR1), 0 of AMD (amdgpu_device.c).
fn memory_window(place: &Place<'_>, vendor: Option<u16>) -> Fact<Bytes> {
    let index = if vendor == Some(VENDOR_AMD_GPU) { 0 } else { 1 };
    place.fact("resource", |text| parse::region(text, index))
}
