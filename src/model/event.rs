//! Events: the interface between whoever learns something and everyone who shows, keeps or judges it.
//! A run is its events, in order; a recorded run is the same events read from a file.

use serde::{Deserialize, Serialize};

use super::{
    Fact, Gid, NcclTestEnd, NicId, NodeFacts, NodeName, Outcome, Pair, ProbeId, ProbeSpec, Purpose,
    QueuePairs, Rail, RunSettings, Sample, SampleLayout,
};

/// Version of the event vocabulary; raised when an older reader would misread a newer event.
pub const SCHEMA: u32 = 1;

/// An event with its place in the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Counts from 0 without gaps, so that a torn or edited file shows.
    pub seq: u64,
    /// Milliseconds since 1970-01-01 UTC, by the controller's clock.
    pub at_ms: u64,
    /// What happened.
    pub event: Event,
}

/// When a run was, by the controller's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first event, in milliseconds since 1970-01-01 UTC.
    pub began_ms: u64,
    /// Its last event so far, in the same.
    pub ended_ms: u64,
}

/// A probe that a round will run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedPair {
    /// Its number within the run.
    pub probe: ProbeId,
    /// Who sends to whom.
    pub pair: Pair,
    /// The addresses that they use for it.
    pub route: Route,
    /// Why it is made.
    #[serde(default, skip_serializing_if = "Purpose::is_pattern")]
    pub purpose: Purpose,
    /// What the probe does, where that is not what the run's settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ProbeSpec>,
}

/// The GIDs that the two ends of a probe use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The sender's.
    pub from: PortAddress,
    /// The receiver's.
    pub to: PortAddress,
}

/// An entry of a port's GID table, as a probe uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortAddress {
    /// Its index in the table.
    pub gid_index: u32,
    /// The GID.
    pub gid: Gid,
}

/// The NIC that plays a rail's part on a node, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RailNic {
    /// The node.
    pub node: NodeName,
    /// The rail.
    pub rail: Rail,
    /// The NIC, with the rule that found it.
    pub nic: Fact<NicId>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// Everything planned was tried.
    Complete,
    /// The operator stopped it.
    Interrupted,
    /// Its time budget was spent before everything planned was tried.
    TimeUp,
}

/// Something that was learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Event {
    /// A run begins.
    RunStarted {
        /// [`SCHEMA`] of what follows.
        schema: u32,
        /// Version of linerate that ran.
        linerate: String,
        /// What was asked for.
        settings: RunSettings,
    },
    /// A run that was cut off or interrupted goes on. Every node is reached anew, and what was
    /// planned and neither measured nor failed is as if it had not been.
    RunResumed {
        /// Version of linerate that goes on with it.
        linerate: String,
    },
    /// A node got one step further towards a running agent.
    NodeStage {
        /// The node.
        node: NodeName,
        /// The step, in a word or two.
        stage: String,
    },
    /// A node's agent said hello.
    NodeConnected {
        /// The node.
        node: NodeName,
        /// Version of the agent.
        agent: String,
    },
    /// A node was surveyed.
    NodeSurveyed {
        /// The node.
        node: NodeName,
        /// What was found.
        facts: Box<NodeFacts>,
    },
    /// A node's counters will be sampled, or its ports are others now.
    NodeWatched {
        /// The node.
        node: NodeName,
        /// What the samples that follow are made of.
        layout: Box<SampleLayout>,
    },
    /// A node's counters were read.
    NodeSampled {
        /// The node.
        node: NodeName,
        /// What they stood at.
        sample: Sample,
    },
    /// Readings of a node's counters came faster than they were taken in, and were dropped.
    ReadingsDropped {
        /// The node.
        node: NodeName,
        /// How many, since that was last said.
        count: u64,
    },
    /// Who holds queue pairs on a watched node.
    NodeQueuePairs {
        /// The node.
        node: NodeName,
        /// The holders, for each device.
        queue_pairs: Fact<QueuePairs>,
    },
    /// A node could not be reached, or stopped answering.
    NodeLost {
        /// The node.
        node: NodeName,
        /// Why, for the operator.
        why: String,
    },
    /// NICs were matched to rails.
    RailsResolved {
        /// One entry for each node and rail.
        nics: Vec<RailNic>,
    },
    /// A pair that belongs to the plan and cannot be probed.
    PairSkipped {
        /// The sending node.
        from: NodeName,
        /// The receiving node.
        to: NodeName,
        /// The rail.
        rail: Rail,
        /// Why not.
        why: String,
    },
    /// A round is about to run.
    RoundPlanned {
        /// Its number, from 0. A round whose probes are made twice is planned twice under one number.
        round: u32,
        /// Its probes, which run at the same time.
        pairs: Vec<PlannedPair>,
    },
    /// Both ends of a probe are connected and data begins to move.
    ProbeStarted {
        /// Which probe.
        probe: ProbeId,
    },
    /// A probe is over.
    ProbeEnded {
        /// Which probe.
        probe: ProbeId,
        /// What came of it.
        outcome: Outcome,
    },
    /// nccl-tests are started.
    NcclTestStarted {
        /// The node that starts them by itself; `None` where a launcher starts them on several.
        on: Option<NodeName>,
        /// The nodes they are to run on.
        nodes: Vec<NodeName>,
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// nccl-tests wrote something; only what bears on GPUDirect RDMA or is a result.
    NcclTestSaid {
        /// As when they were started.
        on: Option<NodeName>,
        /// The lines.
        lines: Vec<String>,
    },
    /// nccl-tests have ended, or could not be started.
    NcclTestEnded {
        /// As when they were started.
        on: Option<NodeName>,
        /// How.
        end: NcclTestEnd,
    },
    /// A run is over.
    RunFinished {
        /// How.
        end: RunEnd,
    },
}
