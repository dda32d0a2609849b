//! What to probe, in which order: facts → rails → routes → rounds. Pure, and the same for the same seed.

mod adaptive;
mod cabling;
mod circle;
mod cost;
mod fabric;
mod in_use;
mod incast;
mod isolate;
mod leaves;
mod patterns;
mod rails;
mod rounds;
mod route;
mod schedule;

pub use adaptive::{Player, Probes, next_round};
pub use cabling::cabling_round;
pub use circle::circle;
#[cfg(test)]
pub(crate) use cost::tests as cost_tests;
pub use cost::{CostProbe, burst_specs, cost_probes, neighbours, specs};
pub use fabric::{FabricSetup, fabric_round, measures_fabric};
pub use in_use::{in_use, work_on};
pub use incast::{Burst, FEWEST, MOST_SENDERS, bursts};
pub use isolate::{Ask, Culprit, Decision, Setup, decisions};
pub use leaves::{Leaves, group_numbers, leaves};
pub use patterns::{Meeting, named_rounds};
pub use rails::resolve_rails;
pub use rounds::{PlannedRound, all_pairs, pack, shuffled};
pub use route::{NoRoute, carries_traffic, route};
pub use schedule::Schedule;
