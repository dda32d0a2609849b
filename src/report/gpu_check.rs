//! What GPUs and NICs of this machine did together.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::findings::paragraph;
use super::gpu_memory::STAND_IN;
use super::quiet;
use super::text::Style;
use crate::judge::LoopPair;
use crate::model::{Attempt, Fact, GpuTrial, LoopTransfer, LoopWay, NicAttempts, visible};

/// What came of a check.
pub struct GpuCheck<'a> {
    /// The GPUs that answered.
    pub trials: &'a [GpuTrial],
    /// What did not, each with the reason.
    pub unread: &'a [String],
    /// What was moved; empty where no data was to be.
    pub transfers: &'a [LoopTransfer],
    /// The same by NIC and GPU, with what it comes to.
    pub pairs: Vec<LoopPair<'a>>,
}

impl GpuCheck<'_> {
    fn has_stand_in(&self) -> bool {
        self.trials.iter().any(is_stand_in)
    }
}

/// Writes it for a person.
///
/// # Errors
/// Whatever `out` reports.
pub fn gpu_check_text(check: &GpuCheck<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if check.has_stand_in() {
        writeln!(out, "{STAND_IN}")?;
    }
    for trial in check.trials {
        gpu(trial, style, out)?;
    }
    for transfer in check.transfers.iter().filter(|t| t.gpu.is_none()) {
        let line = format!("{} to itself, {}", nic(transfer), rate(transfer));
        paragraph(out, style, "", "  ", &line)?;
    }
    for pair in &check.pairs {
        moved(pair, style, out)?;
    }
    for line in check.unread {
        paragraph(out, style, "", "  ", &visible(line))?;
    }
    if check.trials.is_empty() {
        writeln!(out, "The CUDA driver serves no GPU that answers.")?;
    }
    Ok(())
}

fn gpu(trial: &GpuTrial, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let gpu = &trial.gpu;
    let name = told(&gpu.name, Clone::clone);
    writeln!(out, "GPU {}  {}", gpu.address, visible(&name))?;
    let yes_or_no = |answer: &bool| if *answer { "yes" } else { "no" }.to_owned();
    let copies = told(&trial.copies, |rates| {
        format!("{} to it, {} from it", rates.to_gpu, rates.from_gpu)
    });
    let says = "as the driver says";
    for line in [
        format!("memory: {}", told(&gpu.memory, ToString::to_string)),
        format!(
            "GPUDirect RDMA, {says}: {}",
            told(&gpu.gpudirect, yes_or_no)
        ),
        format!("dma-buf, {says}: {}", told(&gpu.dma_buf, yes_or_no)),
        format!("copies: {copies}"),
    ] {
        paragraph(out, style, "  ", "    ", &visible(&line))?;
    }
    match &trial.nics {
        Fact::Known { value, .. } => nics(value, style, out),
        Fact::Unknown { why } => {
            let line = format!("NICs: cannot tell: {}", visible(why));
            paragraph(out, style, "  ", "    ", &line)
        }
    }
}

/// A NIC with a GPU: what it comes to, and the rates.
fn moved(pair: &LoopPair<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let path = match &pair.path {
        Ok(class) if pair.is_nearest => format!("{class}, none is nearer"),
        Ok(class) => format!("{class}, another is nearer"),
        Err(why) => format!("path unknown: {why}"),
    };
    let ((device, port), gpu) = (pair.nic, pair.gpu);
    let line = format!(
        "{device} port {port} with GPU {gpu} ({path}): {}",
        pair.verdict
    );
    paragraph(out, style, "", "  ", &visible(&line))?;
    if pair.transfers.iter().all(|t| t.outcome.is_err()) {
        return Ok(());
    }
    let rates: Vec<String> = pair.transfers.iter().map(|t| rate(t)).collect();
    let software = match pair.is_software {
        true => "; software RDMA: its rates are the processor's",
        false => "",
    };
    let line = format!("{}{software}", rates.join(", "));
    paragraph(out, style, "  ", "    ", &line)
}

fn nic(transfer: &LoopTransfer) -> String {
    format!("{} port {}", transfer.device, transfer.port)
}

fn rate(transfer: &LoopTransfer) -> String {
    let way = match transfer.way {
        LoopWay::InOrder => "without relaxed ordering".to_owned(),
        LoopWay::Staged => "staged through host memory".to_owned(),
        way => way.to_string(),
    };
    match &transfer.outcome {
        Ok(moved) if moved.bytes_wrong > 0 => {
            format!("{way} {}, {} bytes WRONG", moved.gbps, moved.bytes_wrong)
        }
        Ok(moved) => format!("{way} {}", moved.gbps),
        Err(why) => format!("{way}: {why}"),
    }
}

fn nics(nics: &[NicAttempts], style: Style, out: &mut dyn Write) -> io::Result<()> {
    if nics.is_empty() {
        writeln!(out, "  no RDMA device")?;
    }
    for nic in nics {
        let ways = [("dma-buf", &nic.dma_buf), ("peer memory", &nic.peer_memory)];
        let words = ways.map(|(way, attempt)| match attempt {
            Attempt::Registered => format!("{way} registered"),
            Attempt::Refused(why) => format!("{way} refused: {why}"),
        });
        let line = format!("{}: {}", nic.device, words.join("; "));
        paragraph(out, style, "  ", "    ", &visible(&line))?;
    }
    Ok(())
}

fn told<T>(fact: &Fact<T>, words: impl Fn(&T) -> String) -> String {
    match fact {
        Fact::Known { value, .. } => words(value),
        Fact::Unknown { why } => format!("unknown: {why}"),
    }
}

fn is_stand_in(trial: &GpuTrial) -> bool {
    let name = trial.gpu.name.value();
    name.is_some_and(|name| crate::model::is_stand_in(name))
}

/// Writes it for programs.
///
/// # Errors
/// Whatever `out` reports.
pub fn gpu_check_json(check: &GpuCheck<'_>, out: &mut dyn Write) -> io::Result<()> {
    let report = json!({
        "linerate": env!("CARGO_PKG_VERSION"),
        "stand_in_gpu": check.has_stand_in(),
        "gpus": check.trials,
        "unread": check.unread,
        "transfers": check.transfers.iter().map(transfer).collect::<Vec<_>>(),
        "pairs": check.pairs.iter().map(pair).collect::<Vec<_>>(),
    });
    quiet::pretty(out, &report)
}

fn transfer(transfer: &LoopTransfer) -> Value {
    let moved = transfer.outcome.as_ref().ok();
    json!({
        "device": transfer.device,
        "port": transfer.port,
        "gpu": transfer.gpu,
        "way": transfer.way,
        "gbps": moved.map(|moved| moved.gbps),
        "bytes_checked": moved.map(|moved| moved.bytes_checked),
        "bytes_wrong": moved.map(|moved| moved.bytes_wrong),
        "from": moved.map(|moved| moved.ways.0),
        "to": moved.map(|moved| moved.ways.1),
        "why": transfer.outcome.as_ref().err(),
    })
}

fn pair(pair: &LoopPair<'_>) -> Value {
    json!({
        "device": pair.nic.0,
        "port": pair.nic.1,
        "gpu": pair.gpu,
        "path": pair.path.as_ref().ok().map(ToString::to_string),
        "path_unknown": pair.path.as_ref().err(),
        "is_nearest": pair.is_nearest,
        "is_software": pair.is_software,
        "verdict": pair.verdict.name(),
        "says": pair.verdict.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::loop_back_testing::transfers;
    use crate::judge::loop_pairs;
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{Bytes, CopyRates, CudaGpu, Gbps, PciAddress};

    fn trial(name: &str) -> GpuTrial {
        let says = |answer| Fact::known(answer, "cuDeviceGetAttribute");
        let nic = |device: &str, dma_buf| NicAttempts {
            device: device.into(),
            dma_buf,
            peer_memory: Attempt::Refused("no peer memory module takes this address".into()),
        };
        let rates = CopyRates {
            to_gpu: Gbps(420.0),
            from_gpu: Gbps(410.0),
        };
        GpuTrial {
            gpu: CudaGpu {
                address: PciAddress("0000:9a:00.0".into()),
                name: Fact::known(name.into(), "cuDeviceGetName"),
                memory: Fact::known(Bytes(80 << 30), "cuDeviceTotalMem"),
                gpudirect: says(true),
                dma_buf: Fact::unknown("this driver does not know it"),
            },
            copies: Fact::known(rates, "cuMemcpy"),
            nics: Fact::known(
                vec![
                    nic("mlx5_0", Attempt::Registered),
                    nic(
                        "bnxt_re0",
                        Attempt::Refused("the driver of bnxt_re0 takes no dma-buf".into()),
                    ),
                ],
                "ibv_reg_mr",
            ),
        }
    }

    fn shown(trials: &[GpuTrial]) -> String {
        let style = Style {
            color: false,
            width: 100,
        };
        let check = GpuCheck {
            trials,
            unread: &["GPU 1: it fell off".to_owned()],
            transfers: &[],
            pairs: Vec::new(),
        };
        let mut out = Vec::new();
        gpu_check_text(&check, style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_was_moved_is_shown_by_nic_and_gpu() {
        let fine = |way| match way {
            LoopWay::Staged => Ok(190.0),
            _ => Ok(380.0),
        };
        let mut transfers = transfers(TwoSockets::GPU0, fine);
        if let Ok(moved) = &mut transfers[0].outcome {
            moved.bytes_wrong = 7;
        }
        transfers[4].outcome = Err("the queue pair broke".to_owned());
        transfers.extend(self::transfers(TwoSockets::GPU2, |way| match way {
            LoopWay::HostToHost => Ok(380.0),
            _ => Err("GPU memory is not registered, of GPU 0 with mlx5_0: no module"),
        }));
        let check = GpuCheck {
            trials: &[],
            unread: &[],
            transfers: &transfers,
            pairs: loop_pairs(&TwoSockets::facts(), &transfers),
        };
        let style = Style {
            color: false,
            width: 100,
        };
        let mut out = Vec::new();
        gpu_check_text(&check, style, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn each_way_of_each_nic_is_shown_with_its_reason() {
        insta::assert_snapshot!(shown(&[trial("NVIDIA H100 80GB HBM3")]));
    }

    #[test]
    fn a_stand_in_is_no_gpu() {
        assert!(shown(&[trial("Stand-in GPU in host memory")]).starts_with("STAND-IN: "));
        let mut none = trial("x");
        none.nics = Fact::unknown("libibverbs.so.1 is not installed");
        assert!(shown(&[none]).contains("NICs: cannot tell: libibverbs.so.1 is not installed"));
        assert!(shown(&[]).contains("serves no GPU that answers"));
    }
}
