//! Who an RDMA device is: its chip, board and GUIDs, and where its driver is from.

use std::path::PathBuf;

use super::device::DeviceDir;
use super::root::ReadError;
use super::{Survey, nic_parse, parse};
use crate::model::{DriverOrigin, Fact, Identity, SoftwareRdma};

/// What the device says of itself.
pub(super) fn identity(
    survey: &Survey<'_>,
    dir: &DeviceDir,
    software: Option<SoftwareRdma>,
) -> Identity {
    let word = |name: &str| survey.root.fact(&dir.path.join(name), parse::word);
    let guid = |name: &str| survey.root.fact(&dir.path.join(name), |text| text.parse());
    let hardware = |name: &str| match software {
        Some(_) => Fact::unknown("software RDMA is no card"),
        None => word(name),
    };
    let (driver_version, driver_origin) = match software {
        Some(_) => (none_of_its_own(), none_of_its_own()),
        None => driver(survey, dir),
    };
    Identity {
        hca_type: hardware("hca_type"),
        board_id: hardware("board_id"),
        node_type: survey
            .root
            .fact(&dir.path.join("node_type"), nic_parse::node_type),
        node_desc: word("node_desc"),
        node_guid: guid("node_guid"),
        card: guid("sys_image_guid"),
        driver_version,
        driver_origin,
    }
}

fn none_of_its_own<T>() -> Fact<T> {
    Fact::unknown("software RDMA is a part of the kernel")
}

/// Version and origin of the module that drives the function below.
fn driver(survey: &Survey<'_>, dir: &DeviceDir) -> (Fact<String>, Fact<DriverOrigin>) {
    let module = match module(survey, dir) {
        Ok(module) => module,
        Err(why) => return (Fact::unknown(&why), Fact::unknown(why)),
    };
    let version = survey.root.fact(&module.join("version"), parse::word);
    (version, origin(survey, &module))
}

/// /sys/module/NAME of the driver's module.
fn module(survey: &Survey<'_>, dir: &DeviceDir) -> Result<PathBuf, String> {
    let below = dir.below.as_ref().map_err(Clone::clone)?;
    let link = below.join("driver/module");
    let name = survey.root.link_name(&link).map_err(|e| e.to_string())?;
    Ok(survey.root.path("sys/module").join(name))
}

/// The kernel marks what was built outside its tree with `O` (Documentation/admin-guide/tainted-kernels.rst).
fn origin(survey: &Survey<'_>, module: &std::path::Path) -> Fact<DriverOrigin> {
    let path = module.join("taint");
    let from = path.display().to_string();
    match survey.root.read(&path) {
        Err(ReadError::Empty(_)) => Fact::known(DriverOrigin::Kernel, from),
        Err(error) => Fact::unknown(error.to_string()),
        Ok(marks) if !marks.contains('O') => Fact::known(DriverOrigin::Kernel, from),
        Ok(_) if survey.root.path("sys/module/mlx_compat").exists() => {
            Fact::known(DriverOrigin::Ofed, format!("{from} and mlx_compat beside"))
        }
        Ok(_) => Fact::known(DriverOrigin::OutOfTree, from),
    }
}
