//! linerate.

pub mod remote;
