//! linerate: which NIC in this cluster is not running at line rate, and why.

pub mod cli;
pub mod config;
pub mod model;
pub mod record;
pub mod wire;
