//! A cluster that is made up: a [`crate::cluster::Fleet`] in this process whose nodes answer at once and
//! in a time of their own, so that the conductor plays a whole run without SSH, threads or waiting.
//! What is wrong with it, a scenario says. The same seed gives the same answers, in whatever order
//! nodes are listed and asked.

#[cfg(test)]
mod adaptive_tests;
mod answers;
#[cfg(test)]
mod compare_tests;
mod cost;
mod fabric;
#[cfg(test)]
mod fabric_tests;
mod fleet;
mod limits;
mod load;
mod mix;
mod pcie;
mod plant;
#[cfg(test)]
mod property_tests;
mod rates;
#[cfg(test)]
mod round_tests;
mod server;
#[cfg(test)]
mod tests;

pub use fleet::SimulatedFleet;
pub use plant::{FaultKind, plant, slow_ends};
