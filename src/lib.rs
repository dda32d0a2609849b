//! linerate: which NIC in this cluster is not running at line rate, and why.

pub mod model;
pub mod plan;
pub mod probe;
pub mod verbs;
pub mod wire;
