//! The VM lab of linerate: real verbs, real sshd and real sysfs without hardware.
//!
//! Small VMs under QEMU share the host's root read-only; their rail NICs meet in switches of the lab's own,
//! which shape links and inject faults, and carry soft-RoCE devices. Nothing needs root, and nothing
//! outlives the lab. The command `linerate-lab` starts, changes and ends a lab; [`Lab`] is the same for
//! tests.
//!
//! ```text
//! options ─► plan ─► state directory ─► supervisor ─► qemu (a process for each node)
//!              ▲                            └───────► switch (one for each rail) ◄─ faults
//!   kernel, initramfs (cache), pcie, accel
//! ```

mod accel;
mod bucket;
pub mod check;
pub mod control;
mod error;
mod fault;
mod frame;
mod guest;
mod initramfs;
pub mod judge;
mod kernel;
mod lab;
mod lane;
mod machine;
mod modules;
mod options;
mod pcie;
mod qemu;
mod rate;
mod share;
mod state;
mod supervisor;
mod switch;
mod tool;
mod vmlinux;
mod watch;

pub use error::{LabError, Result};
pub use fault::{Direction, Fault, FaultError, Harm, LinkFault, LinkHarm};
pub use guest::GuestHarm;
pub use lab::{BINARY_VARIABLE, Lab, down};
pub use machine::MachineHarm;
pub use options::{Accel, NodePlan, Options, RailPlan, cache_dir, default_dir, tree_for};
pub use pcie::{FarSeat, PcieTree, Seat};
pub use rate::{Rate, RateError};
pub use state::StateDir;
pub use supervisor::serve;
pub use switch::Counters;
