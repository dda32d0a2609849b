//! linerate: which NIC in this cluster is not running at line rate, and why.

pub mod config;
pub mod model;
pub mod wire;
