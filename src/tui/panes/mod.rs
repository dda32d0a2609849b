//! The panes: one file each, which draws, and says how many lines it has.

pub(super) mod counters;
pub(super) mod cpu;
pub(super) mod findings;
pub(super) mod grid;
pub(super) mod help;
pub(super) mod nic;
pub(super) mod node;
mod page;
pub(super) mod pairs;
pub(super) mod run;
pub(super) mod traffic;
