//! The messages, in the order in which a probe needs them.

use serde::{Deserialize, Serialize};

use crate::model::{
    Endpoint, Fact, LocalPort, Measurement, NcclTestEnd, NodeFacts, ProbeId, ProbeSpec, ProbeStage,
    QueuePairs, Role, Sample, SampleLayout, Verification,
};

/// Version of this vocabulary. Controller and agent must have the same one.
pub const PROTOCOL: u32 = 5;

/// What the controller says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum ToAgent {
    /// The first message.
    Hello {
        /// [`PROTOCOL`] of the controller.
        protocol: u32,
        /// Its version, for messages about a mismatch.
        linerate: String,
        /// How long the agent lives without hearing anything, in milliseconds.
        lease_ms: u32,
    },
    /// Still here.
    Heartbeat,
    /// Look at the node.
    Survey,
    /// Send samples of the node's counters until the end, or at another pace from now on.
    Watch {
        /// The time from one sample to the next, in milliseconds.
        interval_ms: u32,
    },
    /// Open the device, register memory, make queue pairs.
    Prepare {
        /// Which probe.
        probe: ProbeId,
        /// Which end to play.
        role: Role,
        /// What the probe does.
        spec: ProbeSpec,
        /// Which port to use.
        port: LocalPort,
        /// Seeds the bytes that are sent, so that those of another probe are told apart.
        nonce: u64,
        /// Whether to use the port even where somebody works with it.
        force: bool,
    },
    /// Take the queue pairs to ready to send, towards this peer.
    Connect {
        /// Which probe.
        probe: ProbeId,
        /// The other end.
        peer: Endpoint,
    },
    /// Move data (initiator only).
    Run {
        /// Which probe.
        probe: ProbeId,
    },
    /// Compare what landed (target only).
    Verify {
        /// Which probe.
        probe: ProbeId,
    },
    /// Let go of everything that the probe holds, wherever it is.
    Release {
        /// Which probe.
        probe: ProbeId,
    },
    /// Run nccl-tests on this node alone, and say what they write.
    NcclTest {
        /// The program and its arguments.
        command: Vec<String>,
        /// End them after so many seconds.
        timeout_s: u32,
    },
    /// End now.
    Bye,
}

/// What an agent says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum FromAgent {
    /// The first message.
    Hello {
        /// [`PROTOCOL`] of the agent.
        protocol: u32,
        /// Its version.
        linerate: String,
        /// Its process id on the node.
        pid: u32,
    },
    /// Still here.
    Heartbeat,
    /// The answer to Survey.
    Facts {
        /// What was found.
        facts: Box<NodeFacts>,
    },
    /// The answer to Watch, again whenever the node's ports are others.
    Watching {
        /// What the samples that follow are made of.
        layout: Box<SampleLayout>,
    },
    /// What the counters stood at.
    Sampled {
        /// As the last Watching has it.
        sample: Sample,
    },
    /// Who holds queue pairs, now and then while samples are sent.
    QueuePairs {
        /// The holders, for each device.
        queue_pairs: Fact<QueuePairs>,
    },
    /// The answer to Prepare.
    Prepared {
        /// Which probe.
        probe: ProbeId,
        /// What the peer needs to know.
        endpoint: Endpoint,
    },
    /// The answer to Connect.
    Connected {
        /// Which probe.
        probe: ProbeId,
    },
    /// The answer to Run, once the transfer is over.
    Done {
        /// Which probe.
        probe: ProbeId,
        /// What was measured.
        measurement: Measurement,
    },
    /// The answer to Verify.
    Verified {
        /// Which probe.
        probe: ProbeId,
        /// What was found.
        verification: Verification,
    },
    /// The answer to Release.
    Released {
        /// Which probe.
        probe: ProbeId,
    },
    /// Lines of nccl-tests that bear on GPUDirect RDMA, and results.
    NcclTestSaid {
        /// The lines.
        lines: Vec<String>,
    },
    /// The answer to NcclTest, once they have ended.
    NcclTestEnded {
        /// How.
        end: NcclTestEnd,
    },
    /// Instead of the answer to Prepare: somebody works with the port, and nothing is held.
    ProbeDeclined {
        /// Which probe.
        probe: ProbeId,
        /// Who works with it, or how much it carries.
        why: String,
    },
    /// Instead of any answer about a probe: it went wrong, and everything it held is let go.
    ProbeFailed {
        /// Which probe.
        probe: ProbeId,
        /// In which step.
        stage: ProbeStage,
        /// Why, for the operator.
        why: String,
    },
    /// The agent cannot go on, and ends.
    Refused {
        /// Why, for the operator.
        why: String,
    },
}
