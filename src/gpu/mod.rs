//! What the libraries of GPU makers know of a node's GPUs, each opened at run time.

mod cuda;
#[cfg(test)]
mod cuda_tests;
mod driver;
mod error;
mod nvml;
#[cfg(test)]
mod nvml_tests;

pub use cuda::cuda;
pub use nvml::nvml;
