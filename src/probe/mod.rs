//! Both ends of a probe, over RDMA or TCP.
//!
//! [`prepare`] opens the device and registers memory, or binds a socket; [`Prepared::connect`] joins
//! it to the peer's, [`Connected::run`] moves data on the initiator, [`Connected::verify`] looks at
//! what landed on the target. Everything held is let go by drop, on every path.

mod copies;
mod cpu;
mod cycles;
mod end;
mod error;
mod latency;
mod local;
mod loop_back;
mod memory;
mod meter;
mod pattern;
mod peer;
mod percentiles;
mod pin;
mod rdma;
mod sequential;
mod shape;
mod tcp;
mod transfer;

pub use end::{Connected, Prepared, prepare};
pub use error::ProbeError;
pub use local::try_gpus;
pub use loop_back::loop_back;
