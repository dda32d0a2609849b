//! GPUs and NICs of this machine by themselves: memory of each GPU is given to each NIC, in both ways.

use std::sync::Arc;

use crate::gpu::{Cuda, CudaDevice, CudaError, GpuMemory};
use crate::model::{Attempt, Fact, GpuTrial, NicAttempts};
use crate::verbs::{
    Device, ForeignMemory, ForeignWay, MemoryOptions, MemoryRegion, ProtectionDomain, VerbsError,
    device_names,
};

use super::copies::copy_rates;

/// What is registered: as much as a usual message.
const BYTES: usize = 1 << 20;

/// Allocates memory of each GPU that answers, copies it, and has each RDMA device register it: no data
/// is sent. What GPUs do not answer is left out and named.
///
/// # Errors
/// There is no CUDA driver, or it does not start.
pub fn try_gpus() -> Result<(Vec<GpuTrial>, Vec<String>), CudaError> {
    let cuda = Cuda::start()?;
    let devices = device_names();
    let (mut tried, mut unread) = (Vec::new(), Vec::new());
    for ordinal in 0..cuda.count()? {
        match cuda.gpu(ordinal) {
            Ok(gpu) => tried.push(GpuTrial {
                gpu: gpu.facts(),
                copies: copy_rates(&gpu),
                nics: nics(&gpu, &devices),
            }),
            Err(error) => unread.push(format!("GPU {ordinal}: {error}")),
        }
    }
    Ok((tried, unread))
}

fn nics(gpu: &CudaDevice, devices: &Result<Vec<String>, VerbsError>) -> Fact<Vec<NicAttempts>> {
    let devices = match devices {
        Ok(devices) => devices,
        Err(error) => return Fact::unknown(error.to_string()),
    };
    match GpuMemory::new(gpu, BYTES) {
        Ok(memory) => {
            let memory = Arc::new(memory);
            let nics = devices.iter().map(|device| attempts(device, &memory));
            Fact::known(nics.collect(), "ibv_reg_dmabuf_mr and ibv_reg_mr")
        }
        Err(error) => Fact::unknown(error.to_string()),
    }
}

fn attempts(device: &str, memory: &Arc<GpuMemory>) -> NicAttempts {
    let register = |way: &dyn Fn() -> Result<ForeignWay, CudaError>| {
        let way = match way() {
            Ok(way) => way,
            Err(error) => return Attempt::Refused(error.to_string()),
        };
        match registered(device, memory, &way) {
            Ok(()) => Attempt::Registered,
            Err(error) => Attempt::Refused(error.to_string()),
        }
    };
    NicAttempts {
        device: device.to_owned(),
        dma_buf: register(&|| memory.dma_buf().map(ForeignWay::DmaBuf)),
        peer_memory: register(&|| Ok(ForeignWay::PeerMemory)),
    }
}

fn registered(device: &str, memory: &Arc<GpuMemory>, way: &ForeignWay) -> Result<(), VerbsError> {
    let domain = ProtectionDomain::new(&Device::open(device)?)?;
    let memory: Arc<dyn ForeignMemory> = memory.clone();
    MemoryRegion::of_foreign(&domain, memory, way, MemoryOptions::default()).map(drop)
}
