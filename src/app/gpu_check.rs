//! `linerate gpu-check`: memory of this machine's GPUs, given to its NICs.

use super::failure::Failure;
use super::output::Output;
use super::surveyor;
use crate::cli::{GpuCheckArgs, PlainFormat};
use crate::judge::{LoopPair, LoopVerdict, loop_pairs};
use crate::model::{Fact, GpuTrial, LocalPort, LoopTransfer, NodeFacts, PciAddress, RdmaDevice};
use crate::plan::route;
use crate::probe::{loop_back, try_gpus};
use crate::report::{GpuCheck, gpu_check_json, gpu_check_text};

/// Could not tell.
const UNKNOWN: u8 = 3;

/// Tries and prints.
pub(super) fn run(arguments: &GpuCheckArgs) -> Result<u8, Failure> {
    let (trials, mut unread) = try_gpus().map_err(Failure::work)?;
    let facts = match arguments.transfer {
        true => surveyor::this_machine(),
        false => NodeFacts::default(),
    };
    let transfers = match arguments.transfer {
        true => move_data(&facts, &trials, &mut unread),
        false => Vec::new(),
    };
    let check = GpuCheck {
        trials: &trials,
        unread: &unread,
        transfers: &transfers,
        pairs: loop_pairs(&facts, &transfers),
    };
    let mut output = Output::standard();
    let style = output.style(arguments.color);
    match arguments.format {
        PlainFormat::Text => gpu_check_text(&check, style, output.writer()),
        PlainFormat::Json => gpu_check_json(&check, output.writer()),
    }
    .map_err(|error| Failure::work(format!("cannot write to standard output: {error}")))?;
    output.finish()?;
    let moved = worse(code_of_host(&transfers), code_of_pairs(&check.pairs));
    Ok(worse(code(&trials, &unread), moved))
}

/// Has each NIC that can send to itself; what cannot is named in `unread`.
fn move_data(
    facts: &NodeFacts,
    trials: &[GpuTrial],
    unread: &mut Vec<String>,
) -> Vec<LoopTransfer> {
    let gpus: Vec<PciAddress> = trials.iter().map(|t| t.gpu.address.clone()).collect();
    let devices = match &facts.rdma {
        Fact::Known { value, .. } => value.as_slice(),
        Fact::Unknown { why } => {
            unread.push(format!("no data was moved: {why}"));
            &[]
        }
    };
    let mut transfers = Vec::new();
    for device in devices {
        match ports(device) {
            Ok(ports) => transfers.extend(ports.iter().flat_map(|port| loop_back(port, &gpus))),
            Err(why) => unread.push(format!("{}: no data was moved: {why}", device.name)),
        }
    }
    transfers
}

/// The ports of a device through which data can be moved, or why there is none.
fn ports(device: &RdmaDevice) -> Result<Vec<LocalPort>, String> {
    let mut why = "it has no port".to_owned();
    let mut found = Vec::new();
    for port in &device.ports {
        match route(port, port) {
            Ok(route) => found.push(LocalPort {
                device: device.name.clone(),
                port: port.number,
                gid_index: route.from.gid_index,
                gpu: None,
            }),
            Err(error) => why = error.to_string(),
        }
    }
    match found.is_empty() {
        true => Err(why),
        false => Ok(found),
    }
}

fn code(trials: &[GpuTrial], unread: &[String]) -> u8 {
    let nics = || {
        trials
            .iter()
            .filter_map(|trial| trial.nics.value())
            .flatten()
    };
    let is_known = |trial: &GpuTrial| trial.nics.value().is_some_and(|nics| !nics.is_empty());
    match () {
        () if nics().any(|nic| !nic.is_direct()) => 1,
        () if trials.is_empty() || !unread.is_empty() || !trials.iter().all(is_known) => UNKNOWN,
        () => 0,
    }
}

/// What came of NICs without a GPU: where that fails, a GPU is not to blame.
fn code_of_host(transfers: &[LoopTransfer]) -> u8 {
    let of = |transfer: &LoopTransfer| match &transfer.outcome {
        Ok(moved) if moved.bytes_wrong > 0 => 1,
        Ok(_) => 0,
        Err(_) => UNKNOWN,
    };
    let host = transfers.iter().filter(|t| t.gpu.is_none());
    host.map(of).fold(0, worse)
}

/// What moving data came to. NICs that another is nearer than are shown, not judged by their rates.
fn code_of_pairs(pairs: &[LoopPair<'_>]) -> u8 {
    let of = |pair: &LoopPair<'_>| match &pair.verdict {
        LoopVerdict::Corrupt(_) => 1,
        _ if !pair.is_nearest => 0,
        LoopVerdict::Direct(_) => 0,
        LoopVerdict::CannotTell(_) => UNKNOWN,
        _ => 1,
    };
    pairs.iter().map(of).fold(0, worse)
}

/// A fault outweighs what is unknown.
fn worse(a: u8, b: u8) -> u8 {
    match a == 1 || b == 1 {
        true => 1,
        false => a.max(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Attempt, CudaGpu, NicAttempts};

    fn trial(nics: Fact<Vec<NicAttempts>>) -> GpuTrial {
        GpuTrial {
            gpu: CudaGpu {
                address: PciAddress("0000:9a:00.0".into()),
                name: Fact::default(),
                memory: Fact::default(),
                gpudirect: Fact::default(),
                dma_buf: Fact::default(),
            },
            copies: Fact::default(),
            nics,
        }
    }

    #[test]
    fn what_was_not_tried_never_passes() {
        let nic = |peer_memory| NicAttempts {
            device: "mlx5_0".into(),
            dma_buf: Attempt::Refused("no".into()),
            peer_memory,
        };
        let of = |nics| trial(Fact::known(nics, "test"));
        let good = of(vec![nic(Attempt::Registered)]);
        let bad = of(vec![
            nic(Attempt::Registered),
            nic(Attempt::Refused("no".into())),
        ]);
        assert_eq!(code(std::slice::from_ref(&good), &[]), 0);
        assert_eq!(code(&[good.clone(), bad], &["GPU 2: lost".into()]), 1);
        assert_eq!(
            code(std::slice::from_ref(&good), &["GPU 1: lost".into()]),
            3
        );
        assert_eq!(code(&[good, of(vec![])], &[]), 3);
        assert_eq!(code(&[trial(Fact::unknown("no libibverbs"))], &[]), 3);
        assert_eq!(code(&[], &[]), 3);
    }

    #[test]
    fn only_the_nearest_nics_are_judged_by_what_they_move() {
        use crate::judge::loop_back_testing::transfers;
        use crate::model::LoopWay;
        let of = |staged: f64| {
            transfers("0000:9a:00.0", move |way| match way {
                LoopWay::Staged => Ok(staged),
                _ => Ok(200.0),
            })
        };
        let (direct, slow) = (of(100.0), of(300.0));
        let gone = transfers("0000:9a:00.0", |_| Err("the port is down"));
        let judged = |transfers: &[LoopTransfer], is_nearest| {
            let mut pairs = loop_pairs(&NodeFacts::default(), transfers);
            pairs[0].is_nearest = is_nearest;
            code_of_pairs(&pairs)
        };
        assert_eq!(judged(&direct, true), 0);
        assert_eq!(judged(&slow, true), 1);
        assert_eq!(judged(&slow, false), 0);
        assert_eq!(judged(&gone, true), 3);
        let mut corrupt = of(100.0);
        assert_eq!(code_of_host(&corrupt), 0);
        for transfer in corrupt.iter_mut().filter(|t| t.gpu.is_none()) {
            if let Ok(moved) = &mut transfer.outcome {
                moved.bytes_wrong = 1;
            }
        }
        assert_eq!((code_of_host(&corrupt), code_of_host(&gone)), (1, 3));
        let mut unread = Vec::new();
        let facts = NodeFacts {
            rdma: Fact::unknown("no such folder"),
            ..NodeFacts::default()
        };
        assert_eq!(move_data(&facts, &[], &mut unread), []);
        assert_eq!(unread, ["no data was moved: no such folder"]);
        assert_eq!((worse(1, 3), worse(3, 0), worse(0, 0)), (1, 3, 0));
    }
}
