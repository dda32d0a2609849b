//! What a run measures of the cost of moving data.

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
}
