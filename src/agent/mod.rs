//! The part of linerate that runs on a node: messages in, survey and probes, messages out. It ends
//! when its input ends or its lease runs out, and leaves nothing behind.

mod lease;
mod serve;
mod tester;
mod voice;
mod watcher;
mod worker;

pub use serve::{AgentError, Surveyor, serve};
