//! What the libraries of GPU makers know of a node's GPUs, each opened at run time.

mod nvml;
#[cfg(test)]
mod nvml_tests;

pub use nvml::nvml;
