//! One end of a probe, over RDMA or TCP.

use std::sync::atomic::AtomicBool;

use crate::model::{Endpoint, LocalPort, Measurement, PortPlace, ProbeSpec, Role, Verification};

use super::error::ProbeError;
use super::{rdma, tcp};

/// Opens what an end needs: the device, memory and queue pairs, or a socket on the NIC's address.
///
/// `place` is where the port sits: its address is used by TCP, its processors where CPU time is
/// accounted for.
///
/// # Errors
/// The spec is out of bounds, or the device, port, GID, address, memory or queues cannot be had.
pub fn prepare(
    spec: &ProbeSpec,
    role: Role,
    port: &LocalPort,
    place: &PortPlace,
    nonce: u64,
) -> Result<Prepared, ProbeError> {
    let way = match spec.kind.is_tcp() {
        true => PreparedWay::Tcp(Box::new(tcp::prepare(spec, role, place, nonce)?)),
        false => PreparedWay::Rdma(Box::new(rdma::prepare(
            spec,
            role,
            port,
            nonce,
            rdma::Ordering::Relaxed,
        )?)),
    };
    let cpus = place.cpus.value().cloned().unwrap_or_default();
    Ok(Prepared { way, cpus })
}

/// One end, ready to be connected.
pub struct Prepared {
    way: PreparedWay,
    cpus: Vec<u32>,
}

enum PreparedWay {
    Rdma(Box<rdma::Prepared>),
    Tcp(Box<tcp::Prepared>),
}

impl Prepared {
    /// What the peer needs to know.
    pub fn endpoint(&self) -> &Endpoint {
        match &self.way {
            PreparedWay::Rdma(prepared) => prepared.endpoint(),
            PreparedWay::Tcp(prepared) => prepared.endpoint(),
        }
    }

    /// Joins this end to the peer, which does the same at the same time. Where CPU time is accounted
    /// for, the target then watches its host at rest for 400 ms.
    ///
    /// Setting `stop` ends it with [`ProbeError::Stopped`].
    ///
    /// # Errors
    /// What the peer said cannot be, the way to it cannot be resolved, or it does not answer.
    pub fn connect(self, peer: &Endpoint, stop: &AtomicBool) -> Result<Connected, ProbeError> {
        let way = match self.way {
            PreparedWay::Rdma(prepared) => {
                ConnectedWay::Rdma(Box::new(prepared.connect(peer, self.cpus, stop)?))
            }
            PreparedWay::Tcp(prepared) => {
                ConnectedWay::Tcp(Box::new(prepared.connect(peer, stop)?))
            }
        };
        Ok(Connected(way))
    }
}

/// One end, connected to the other.
pub struct Connected(ConnectedWay);

enum ConnectedWay {
    Rdma(Box<rdma::Connected>),
    Tcp(Box<tcp::Connected>),
}

impl Connected {
    /// Moves data for the duration of the probe and waits until all has arrived, or plays ping-pong.
    /// Before RDMA writes, small ones tell the latency. Where CPU time is accounted for, the host is
    /// watched at rest for 400 ms before that.
    ///
    /// Setting `stop` ends it within 200 ms with [`ProbeError::Stopped`].
    ///
    /// # Errors
    /// This end is the target, the peer does not answer, or a work request failed.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<Measurement, ProbeError> {
        match &mut self.0 {
            ConnectedWay::Rdma(connected) => connected.run(stop),
            ConnectedWay::Tcp(connected) => connected.run(stop),
        }
    }

    /// Compares what landed at the target with what was sent, and tells what its host spent.
    ///
    /// To be called after the initiator's transfer is over. Setting `stop` ends it with
    /// [`ProbeError::Stopped`].
    ///
    /// # Errors
    /// This end is the initiator, or something broke meanwhile.
    pub fn verify(&mut self, stop: &AtomicBool) -> Result<Verification, ProbeError> {
        match &mut self.0 {
            ConnectedWay::Rdma(connected) => connected.verify(stop),
            ConnectedWay::Tcp(connected) => connected.verify(stop),
        }
    }
}
