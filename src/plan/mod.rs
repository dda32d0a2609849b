//! What to probe, in which order: facts → rails → routes → rounds. Pure, and the same for the same seed.

mod adaptive;
mod circle;
mod in_use;
mod isolate;
mod rails;
mod rounds;
mod route;

pub use adaptive::{Player, Probes, next_round};
pub use circle::circle;
pub use in_use::in_use;
pub use isolate::{Ask, Culprit, Decision, Setup, decisions};
pub use rails::resolve_rails;
pub use rounds::{PlannedRound, all_pairs, pack, shuffled};
pub use route::{NoRoute, route};
