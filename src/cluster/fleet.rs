//! The seam between the conductor and the nodes: agents over SSH, or a test's own.

use std::time::{Duration, Instant};

use crate::wire::{FromAgent, ToAgent};

/// What is heard of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum FromNode {
    /// It is one step further towards a running agent.
    Stage(String),
    /// Its agent said something.
    Said(FromAgent),
    /// Nothing more will come of it; why.
    Gone(String),
}

/// The agents of a run, by the nodes' places in the list.
pub trait Fleet {
    /// Hands a message to a node's agent. A node that is gone says so through [`Fleet::next`], once.
    fn send(&mut self, node: usize, message: &ToAgent);

    /// The next thing heard of any node; `None` where nothing is within the time.
    fn next(&mut self, timeout: Duration) -> Option<(usize, FromNode)>;

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
