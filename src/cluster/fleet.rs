//! The seam between the conductor and the nodes: agents over SSH, or a test's own.

use std::time::{Duration, Instant};

use crate::wire::{FromAgent, ToAgent};

/// What is heard of a node.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all is what agents said")]
pub enum FromNode {
    /// It is one step further towards a running agent.
    Stage(String),
    /// Its agent said something.
    Said(FromAgent),
    /// So many readings of its counters came faster than they were taken, and were dropped.
    Dropped(u64),
    /// Nothing more will come of it; why.
    Gone(String),
}

/// The agents of a run, by the nodes' places in the list.
pub trait Fleet {
    /// Hands a message to a node's agent. A node that is gone says so through [`Fleet::next`], once.
    fn send(&mut self, node: usize, message: &ToAgent);

    /// The next thing heard of any node; `None` where nothing is within the time.
    fn next(&mut self, timeout: Duration) -> Option<(usize, FromNode)>;

    /// Begins anew with a node of which nothing more will come: a new hello may follow, and nothing
    /// that was said before is heard any more. `false` where there is no way to it now: its
    /// connection has not ended yet, or cannot be begun.
    fn reconnect(&mut self, _node: usize) -> bool {
        false
    }

    /// The time that deadlines are held against. Simulated nodes have a time of their own.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Whether its nodes live in real time: then one whose clock runs too fast is not believed.
    fn is_real_time(&self) -> bool {
        true
    }

    /// Ends every agent and waits, for a bounded time, until all are gone.
    fn close(&mut self);
}
