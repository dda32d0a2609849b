//! TCP on the NIC's own address: prepare, connect, run, verify, as for RDMA.
//!
//! The target listens, and takes exactly the connections that open with its token and come from the
//! initiator's address. Each connection has a thread at both ends. The receiver tells every 20 ms, on
//! the same connection, how much it has: the rate is of what arrived. What it holds last is compared.

mod address;
mod echo;
mod options;
mod receive;
mod send;
mod target;
#[cfg(test)]
mod tests;
mod transfer;
mod welcome;
mod zero_copy;

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::model::{
    Endpoint, Gid, Measure, Measurement, PortPlace, ProbeKind, ProbeSpec, RemoteMemory, Role,
    TcpAddress, Verification,
};

use super::error::ProbeError;
use super::pattern::Pattern;
use super::pin::Pinned;
use super::shape::Shape;
use address::Local;
use target::Serving;
use welcome::Token;

/// More connections, each a thread, than any NIC needs for line rate.
const MOST_CONNECTIONS: u32 = 128;
/// The longest message: more than any buffer of a socket.
const LONGEST_MESSAGE: u64 = 64 << 20;
/// Bytes that a connection sends over and over, where one message is not more: beyond the caches
/// nearest to a core, it would measure how fast those are refilled.
const RING: usize = 256 << 10;
/// The longest that a thread is in one call before it looks whether to go on.
const SLICE: Duration = Duration::from_millis(100);

/// What both ends know of the transfer.
#[derive(Debug, Clone)]
struct Plan {
    shape: Shape,
    zero_copy: bool,
    ping_pong: bool,
    account: bool,
    nonce: u64,
    place: PortPlace,
}

impl Plan {
    fn message(&self) -> usize {
        self.shape.message as usize
    }

    /// Bytes of a connection's ring: whole messages.
    fn ring(&self) -> usize {
        self.message() * (RING / self.message()).max(1)
    }

    fn connections(&self) -> usize {
        self.shape.queue_pairs as usize
    }

    /// What the `index`-th connection carries over and over.
    fn pattern(&self, index: usize) -> Pattern {
        Pattern::new(self.nonce.wrapping_add(index as u64))
    }

    /// The calling thread on one processor, where the cost of one stream is measured.
    fn pinned(&self) -> Option<Pinned> {
        let near = self.place.cpus.value().map_or(&[][..], Vec::as_slice);
        let alone = self.account && self.connections() == 1;
        alone.then(|| Pinned::to_one_of(near, self.nonce)).flatten()
    }
}

/// One end, ready to be connected.
pub(super) struct Prepared {
    plan: Plan,
    local: Local,
    /// Of the target.
    door: Option<(TcpListener, Token)>,
    endpoint: Endpoint,
}

/// Binds to the NIC's address; the target listens there.
pub(super) fn prepare(
    spec: &ProbeSpec,
    role: Role,
    place: &PortPlace,
    nonce: u64,
) -> Result<Prepared, ProbeError> {
    let shape = Shape::new(spec)?;
    let refused = |why: String| Err(ProbeError::Spec { why });
    if shape.queue_pairs > MOST_CONNECTIONS {
        return refused(format!("more than {MOST_CONNECTIONS} TCP connections"));
    }
    if spec.message_size.0 > LONGEST_MESSAGE {
        return refused("messages of more than 64 MiB on TCP".to_owned());
    }
    let plan = Plan {
        shape,
        zero_copy: spec.kind == ProbeKind::TcpZeroCopy,
        ping_pong: spec.measure == Measure::PingPong,
        account: spec.account,
        nonce,
        place: place.clone(),
    };
    if plan.ping_pong && (plan.zero_copy || plan.connections() != 1) {
        return refused("a ping-pong needs one plain TCP connection".to_owned());
    }
    let local = Local::of(place)?;
    let door = match role {
        Role::Target => Some((local.listen(plan.connections())?, Token::new())),
        Role::Initiator => None,
    };
    let endpoint = endpoint(&local, door.as_ref())?;
    Ok(Prepared {
        plan,
        local,
        door,
        endpoint,
    })
}

/// What the peer needs to know: of RDMA there is nothing.
fn endpoint(local: &Local, door: Option<&(TcpListener, Token)>) -> Result<Endpoint, ProbeError> {
    let port = match door {
        Some((listener, _)) => listener.local_addr().map_err(ProbeError::Tcp)?.port(),
        None => 0,
    };
    let gid = match local.ip {
        std::net::IpAddr::V4(ip) => Gid::from(ip.to_ipv6_mapped()),
        std::net::IpAddr::V6(ip) => Gid::from(ip),
    };
    Ok(Endpoint {
        lid: 0,
        gid,
        mtu: 0,
        queue_pairs: Vec::new(),
        memory: RemoteMemory {
            address: 0,
            rkey: 0,
            length: 0,
        },
        registration_us: 0,
        tcp: Some(TcpAddress {
            address: local.ip,
            port,
            token: door.map_or_else(String::new, |(_, token)| token.text().to_owned()),
        }),
        reads: 0,
    })
}

impl Prepared {
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Opens the connections, or takes them: both ends at the same time.
    pub fn connect(self, peer: &Endpoint, stop: &AtomicBool) -> Result<Connected, ProbeError> {
        let peer = address::checked(peer, &self.local, self.door.is_none())?;
        let plan = self.plan;
        match self.door {
            Some((listener, token)) => {
                let streams =
                    welcome::take(&listener, &token, peer.ip(), plan.connections(), stop)?;
                Ok(Connected::Target(Serving::start(plan, streams, stop)?))
            }
            None => {
                let token = Token::read(&peer.token)?;
                let streams = welcome::open(&self.local, &peer, &token, plan.connections(), stop)?;
                Ok(Connected::Initiator(Sending { plan, streams }))
            }
        }
    }
}

/// One end, connected to the other.
pub(in crate::probe) enum Connected {
    Initiator(Sending),
    Target(Serving),
}

/// The sending end.
pub(in crate::probe) struct Sending {
    plan: Plan,
    streams: Vec<TcpStream>,
}

impl Connected {
    /// Sends for the duration, or plays ping-pong.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<Measurement, ProbeError> {
        match self {
            Self::Initiator(sending) if sending.plan.ping_pong => {
                echo::play(&sending.plan, &sending.streams, stop)
            }
            Self::Initiator(sending) => transfer::run(&sending.plan, &sending.streams, stop),
            Self::Target(_) => Err(ProbeError::WrongRole {
                step: "run",
                owner: "initiator",
            }),
        }
    }

    /// Compares what each connection brought last with what was sent.
    pub fn verify(&mut self, stop: &AtomicBool) -> Result<Verification, ProbeError> {
        match self {
            Self::Target(serving) => serving.verify(stop),
            Self::Initiator(_) => Err(ProbeError::WrongRole {
                step: "verify",
                owner: "target",
            }),
        }
    }
}

/// Whether a call on a socket only ran out of its time.
fn is_pause(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}
