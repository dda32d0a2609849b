//! What a run measures of the cost of moving data.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Bytes;

/// How the cost of moving data is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostSettings {
    /// How long each way of moving data is tried, in milliseconds, warm-up included.
    pub duration_ms: u32,
    /// TCP connections where one is not enough.
    pub tcp_streams: u32,
    /// Bytes of one send on a TCP connection.
    pub tcp_message: Bytes,
    /// Message sizes at which TCP and RDMA are held against each other.
    pub sizes: Vec<Bytes>,
    /// Message sizes whose latency is measured.
    pub latency_sizes: Vec<Bytes>,
    /// Only these steps; empty is all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<CostStep>,
}

/// How the reason begins why an end has no memory in huge pages: hosts may do without, so that it is no
/// failure unless it was asked for by name.
pub const NO_HUGE_PAGES: &str = "too few huge pages are reserved";

/// Each step once: its doc comment, its variant and the name by which it is asked for.
macro_rules! steps {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A way of moving data whose cost is measured. Its name is stable.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        pub enum CostStep {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant,)+
        }

        impl CostStep {
            /// Every step, in the order in which they are made.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name by which it is asked for.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

steps! {
    /// One TCP connection.
    Tcp = "tcp",
    /// Several TCP connections.
    TcpStreams = "tcp-streams",
    /// One TCP connection, with MSG_ZEROCOPY at the sender.
    TcpZeroCopy = "tcp-zerocopy",
    /// RDMA writes whose completions are waited for: what they cost.
    Write = "write",
    /// RDMA writes whose completions are polled for: what they reach.
    WritePoll = "write-poll",
    /// RDMA writes of data that is copied into registered memory first.
    WriteCopied = "write-copied",
    /// RDMA reads.
    Read = "read",
    /// RDMA sends.
    Send = "send",
    /// RDMA writes with immediate data.
    WriteImm = "write-imm",
    /// RDMA writes from and to huge pages.
    WriteHuge = "write-huge",
    /// TCP messages to and fro.
    LatencyTcp = "latency-tcp",
    /// RDMA writes to and fro.
    LatencyWrite = "latency-write",
    /// RDMA sends to and fro.
    LatencySend = "latency-send",
    /// One TCP connection, by message size.
    SizeTcp = "size-tcp",
    /// RDMA writes, by message size.
    SizeWrite = "size-write",
    /// RDMA writes of several NICs to one at once.
    IncastWrite = "incast-write",
    /// One TCP connection from each of several NICs to one at once.
    IncastTcp = "incast-tcp",
}

impl CostStep {
    /// Whether it is made at each of several message sizes.
    pub fn is_by_size(self) -> bool {
        self.is_latency() || matches!(self, Self::SizeTcp | Self::SizeWrite)
    }

    /// Whether several NICs send to one: no pair is measured, but what holds senders back.
    pub fn is_incast(self) -> bool {
        matches!(self, Self::IncastWrite | Self::IncastTcp)
    }

    /// Whether messages go to and fro.
    pub fn is_latency(self) -> bool {
        matches!(
            self,
            Self::LatencyTcp | Self::LatencyWrite | Self::LatencySend
        )
    }
}

impl fmt::Display for CostStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no step `{0}`: there are {known}, and `latency`, `size` and `incast` for all of theirs", known = known())]
pub struct NoSuchStep(pub String);

fn known() -> String {
    let names: Vec<&str> = CostStep::ALL.iter().map(|step| step.name()).collect();
    names.join(", ")
}

/// Steps by a name, or by the first word of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostSteps(pub Vec<CostStep>);

impl FromStr for CostSteps {
    type Err = NoSuchStep;

    /// Reads `tcp`, `latency-write`, `latency`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_meant = |step: &&CostStep| {
            let is_grouped = step.is_by_size() || step.is_incast();
            let group = is_grouped.then(|| step.name().split('-').next());
            step.name() == text || group.flatten() == Some(text)
        };
        let steps: Vec<CostStep> = CostStep::ALL.iter().filter(is_meant).copied().collect();
        match steps.is_empty() {
            true => Err(NoSuchStep(text.to_owned())),
            false => Ok(Self(steps)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_asked_for_by_name_and_by_group() {
        let read = |text: &str| text.parse::<CostSteps>().map(|steps| steps.0);
        for step in CostStep::ALL {
            assert_eq!(read(step.name()), Ok(vec![*step]));
            let text = serde_json::to_string(step).unwrap();
            assert_eq!(text, format!("\"{step}\""));
        }
        use CostStep::{IncastTcp, IncastWrite, LatencySend, LatencyTcp, LatencyWrite};
        use CostStep::{SizeTcp, SizeWrite};
        assert_eq!(
            read("latency"),
            Ok(vec![LatencyTcp, LatencyWrite, LatencySend])
        );
        assert_eq!(read("size"), Ok(vec![SizeTcp, SizeWrite]));
        assert_eq!(read("incast"), Ok(vec![IncastWrite, IncastTcp]));
        let said = read("tpc").unwrap_err().to_string();
        assert!(
            said.starts_with("there is no step `tpc`: there are tcp, tcp-streams,"),
            "{said}"
        );
    }
}
