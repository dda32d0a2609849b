//! What to probe, in which order: facts → rails → routes → rounds. Pure, and the same for the same seed.

mod circle;
mod in_use;
mod rails;
mod rounds;
mod route;

pub use circle::circle;
pub use in_use::in_use;
pub use rails::resolve_rails;
pub use rounds::{PlannedRound, all_pairs, pack, shuffled};
pub use route::{NoRoute, route};
