//! `linerate gpu-check`: memory of this machine's GPUs, given to its NICs.

use super::failure::Failure;
use super::output::Output;
use crate::cli::{Format, GpuCheckArgs};
use crate::model::GpuTrial;
use crate::probe::try_gpus;
use crate::report::{gpu_check_json, gpu_check_text};

/// Could not tell.
const UNKNOWN: u8 = 3;

/// Tries and prints.
pub(super) fn run(arguments: &GpuCheckArgs) -> Result<u8, Failure> {
    let (trials, unread) = try_gpus().map_err(Failure::work)?;
    let mut output = Output::standard();
    let style = output.style(arguments.color);
    match arguments.format {
        Format::Text => gpu_check_text(&trials, &unread, style, output.writer()),
        Format::Json => gpu_check_json(&trials, &unread, output.writer()),
    }
    .map_err(|error| Failure::work(format!("cannot write to standard output: {error}")))?;
    output.finish()?;
    Ok(code(&trials, &unread))
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

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::model::{Attempt, CudaGpu, Fact, NicAttempts, PciAddress};

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
        assert_eq!(code(slice::from_ref(&good), &[]), 0);
        assert_eq!(code(&[good.clone(), bad], &["GPU 2: lost".into()]), 1);
        assert_eq!(code(slice::from_ref(&good), &["GPU 1: lost".into()]), 3);
        assert_eq!(code(&[good, of(vec![])], &[]), 3);
        assert_eq!(code(&[trial(Fact::unknown("no libibverbs"))], &[]), 3);
        assert_eq!(code(&[], &[]), 3);
    }
}
