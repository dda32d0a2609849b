//! The dashboard: what is known of a run on a terminal, while it runs or from its record.
//!
//! ```text
//! conductor, or a record ──News──► Run (ledger, judgement, grid) ─┐
//! keyboard, mouse, signals ─Msg──► update(&mut View, Msg, &Run) ──┴► draw(&View, &Run)
//! ```
//!
//! Samples of counters go past the ledger to what NICs carry now (`live`).
//!
//! State changes only in [`update`] and in [`Run`]; drawing reads. A thread of its own judges, so that
//! nothing waits for it.

mod blocks;
mod clean;
mod cost;
mod draw;
mod face;
mod grid;
mod input;
mod journal;
mod judging;
mod keymap;
mod live;
mod marks;
mod mouse;
mod msg;
mod pairs;
mod panes;
mod run;
mod states;
mod term;
#[cfg(test)]
mod tests;
mod theme;
mod update;
mod view;
#[cfg(test)]
mod watch_tests;

pub use draw::draw;
pub use face::{Face, Left, show};
pub use judging::Export;
pub use keymap::{Do, Place, table};
pub use msg::{Effect, Msg, News};
pub use run::Run;
pub use theme::{Depth, Ground, Theme};
pub use update::update;
pub use view::View;
