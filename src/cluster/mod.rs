//! The conductor: connect → survey → plan → rounds → retests. One thread owns all state; a thread for
//! each node carries its bytes; everything that is learned leaves as an event. A watch needs less: connect,
//! then samples.

mod believe;
mod commands;
mod conductor;
mod cost;
mod fleet;
mod gpus;
mod incast;
#[cfg(test)]
mod interrupt_tests;
mod link;
mod muster;
mod nccl;
#[cfg(test)]
mod nccl_tests;
mod planning;
#[cfg(test)]
mod resume_tests;
mod round;
#[cfg(test)]
mod tests;
mod watch;
#[cfg(test)]
mod watch_tests;

pub use conductor::{ConductError, Conductor, Limits};
pub use fleet::{Fleet, FromNode};
pub use link::{CarrierFleet, Member};
pub use planning::{Plan, follow_up, rail_nics, rounds};
pub use watch::{Onlooker, watch};
