//! The cluster file.
pub mod hostlist;
