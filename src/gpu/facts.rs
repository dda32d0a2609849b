//! What NVIDIA's CUDA driver says of the GPUs that it serves.

use super::cuda::{Cuda, CudaDevice, DMA_BUF, GPU_DIRECT_RDMA, SONAME};
use super::error::CudaError;
use crate::model::{CudaDriver, CudaGpu, Fact};

/// What it says. The driver is started (`cuInit`, some hundred milliseconds), and neither is a context
/// made nor memory of a GPU allocated: a job on it is not disturbed.
pub fn cuda() -> Fact<CudaDriver> {
    answer(SONAME, Cuda::start())
}

/// What became of a library by file name.
pub(super) fn answer(file: &str, started: Result<Cuda, CudaError>) -> Fact<CudaDriver> {
    match started.and_then(|cuda| listed(&cuda)) {
        Ok(driver) => Fact::known(driver, file),
        Err(error @ CudaError::Call { .. }) => Fact::unknown(format!("{file}: {error}")),
        Err(error) => Fact::unknown(error.to_string()),
    }
}

fn listed(cuda: &Cuda) -> Result<CudaDriver, CudaError> {
    let mut found = CudaDriver {
        version: fact("cuDriverGetVersion", cuda.version()),
        ..CudaDriver::default()
    };
    for ordinal in 0..cuda.count()? {
        match cuda.gpu(ordinal) {
            Ok(gpu) => found.gpus.push(gpu.facts()),
            Err(error) => found.unread.push(format!("GPU {ordinal}: {error}")),
        }
    }
    Ok(found)
}

impl CudaDevice {
    /// What the driver says of it.
    pub fn facts(&self) -> CudaGpu {
        CudaGpu {
            address: self.address().clone(),
            name: fact("cuDeviceGetName", self.name()),
            memory: fact("cuDeviceTotalMem", self.memory()),
            gpudirect: fact(GPU_DIRECT_RDMA.1, self.attribute(GPU_DIRECT_RDMA)),
            dma_buf: fact(DMA_BUF.1, self.attribute(DMA_BUF)),
        }
    }
}

fn fact<T>(call: &'static str, answer: Result<T, CudaError>) -> Fact<T> {
    match answer {
        Ok(value) => Fact::known(value, call),
        Err(error) => Fact::unknown(error.to_string()),
    }
}
