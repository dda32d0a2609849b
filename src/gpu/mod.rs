//! What the libraries of GPU makers know of a node's GPUs, each opened at run time, and memory of GPUs.

mod cuda;
#[cfg(test)]
mod cuda_tests;
mod driver;
mod error;
mod facts;
mod foreign;
mod memory;
mod nvml;
#[cfg(test)]
mod nvml_tests;

pub use cuda::{Cuda, CudaDevice, leave_if_hung};
pub use error::CudaError;
pub use facts::cuda;
pub use memory::{GpuMemory, PinnedMemory};
pub use nvml::nvml;
