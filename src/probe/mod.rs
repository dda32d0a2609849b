//! Both ends of a bandwidth probe.
//!
//! [`prepare`] opens the device and registers memory, [`Prepared::connect`] joins the queue pairs
//! to the peer's, [`Connected::run`] moves data on the initiator, [`Connected::verify`] looks at
//! what landed on the target. Everything held is let go by drop, on every path.

mod cpu;
mod error;
mod latency;
mod meter;
mod pattern;
mod peer;
mod rdma;
mod sequential;
mod shape;
mod transfer;

pub use error::ProbeError;
pub use rdma::{Connected, Prepared, prepare};
