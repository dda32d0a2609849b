//! A NIC that sends to itself: data leaves one memory of this machine through it and comes back into another.

use std::sync::atomic::AtomicBool;

use crate::model::{
    Bytes, Completion, LocalPort, LoopMoved, LoopTransfer, LoopWay, Measure, MemoryKind,
    MemoryUsed, MemoryWay, PciAddress, ProbeKind, ProbeSpec, Role,
};

use super::error::ProbeError;
use super::rdma::{self, Ordering};

/// How long each transfer is, the first 50 ms of which its rate leaves out.
const DURATION_MS: u32 = 250;
/// Bytes of a message, and how many are in flight: as in a sweep.
const MESSAGE: Bytes = Bytes(64 << 10);
const DEPTH: u32 = 64;

/// Moves data through `port` once for each way: between the host's memory, and between that and each of
/// the GPUs. One after the other, so that none takes from another.
pub fn loop_back(port: &LocalPort, gpus: &[PciAddress]) -> Vec<LoopTransfer> {
    let host = [(None, LoopWay::HostToHost)].into_iter();
    let of_gpu = |gpu| LoopWay::OF_A_GPU.map(|way| (Some(gpu), way));
    host.chain(gpus.iter().flat_map(of_gpu))
        .map(|(gpu, way)| LoopTransfer {
            device: port.device.clone(),
            port: port.port,
            gpu: gpu.cloned(),
            way,
            outcome: transfer(port, gpu, way).map_err(|error| error.to_string()),
        })
        .collect()
}

fn transfer(
    port: &LocalPort,
    gpu: Option<&PciAddress>,
    way: LoopWay,
) -> Result<LoopMoved, ProbeError> {
    let port = LocalPort {
        gpu: gpu.cloned(),
        ..port.clone()
    };
    let ordering = match way {
        LoopWay::InOrder => Ordering::Strict,
        _ => Ordering::Relaxed,
    };
    let nonce = rand::random();
    let prepare = |memory, role| rdma::prepare(&spec(memory), role, &port, nonce, ordering);
    let (from, to) = way.ends();
    let source = prepare(from, Role::Initiator)?;
    let sink = prepare(to, Role::Target)?;
    let (there, back) = (source.endpoint().clone(), sink.endpoint().clone());
    let stop = AtomicBool::new(false);
    let mut sink = sink.connect(&there, Vec::new(), &stop)?;
    let mut source = source.connect(&back, Vec::new(), &stop)?;
    let measured = source.run(&stop)?;
    let landed = sink.verify(&stop)?;
    let nothing = || ProbeError::Spec {
        why: "nothing was moved in its time".to_owned(),
    };
    Ok(LoopMoved {
        gbps: measured.rate().ok_or_else(nothing)?,
        bytes_checked: landed.bytes_checked,
        bytes_wrong: landed.bytes_wrong,
        ways: (
            way_of(measured.memory.as_deref()),
            way_of(landed.memory.as_deref()),
        ),
    })
}

fn way_of(used: Option<&MemoryUsed>) -> MemoryWay {
    used.map_or(MemoryWay::Host, |used| used.way)
}

fn spec(memory: MemoryKind) -> ProbeSpec {
    ProbeSpec {
        kind: ProbeKind::RdmaWrite,
        message_size: MESSAGE,
        depth: DEPTH,
        queue_pairs: 1,
        duration_ms: DURATION_MS,
        completion: Completion::Event,
        memory,
        stop_at: None,
        measure: Measure::Rate,
        account: false,
    }
}
