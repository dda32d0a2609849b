//! What GPUs and NICs of this machine did together, without traffic.

use std::io::{self, Write};

use serde_json::json;

use super::findings::paragraph;
use super::gpu_memory::STAND_IN;
use super::text::Style;
use crate::model::{Attempt, Fact, GpuTrial, NicAttempts, visible};

/// Writes it for a person.
///
/// # Errors
/// Whatever `out` reports.
pub fn gpu_check_text(
    trials: &[GpuTrial],
    unread: &[String],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    if trials.iter().any(is_stand_in) {
        writeln!(out, "{STAND_IN}")?;
    }
    for trial in trials {
        let gpu = &trial.gpu;
        let name = told(&gpu.name, Clone::clone);
        writeln!(out, "GPU {}  {}", gpu.address, visible(&name))?;
        let yes_or_no = |answer: &bool| if *answer { "yes" } else { "no" }.to_owned();
        let lines = [
            ("memory", told(&gpu.memory, ToString::to_string)),
            (
                "GPUDirect RDMA, as the driver says",
                told(&gpu.gpudirect, yes_or_no),
            ),
            ("dma-buf, as the driver says", told(&gpu.dma_buf, yes_or_no)),
            (
                "copies",
                told(&trial.copies, |rates| {
                    format!("{} to it, {} from it", rates.to_gpu, rates.from_gpu)
                }),
            ),
        ];
        for (what, words) in lines {
            paragraph(
                out,
                style,
                "  ",
                "    ",
                &format!("{what}: {}", visible(&words)),
            )?;
        }
        match &trial.nics {
            Fact::Known { value, .. } => nics(value, style, out)?,
            Fact::Unknown { why } => {
                paragraph(
                    out,
                    style,
                    "  ",
                    "    ",
                    &format!("NICs: cannot tell: {}", visible(why)),
                )?;
            }
        }
    }
    for line in unread {
        paragraph(out, style, "", "  ", &visible(line))?;
    }
    if trials.is_empty() {
        writeln!(out, "The CUDA driver serves no GPU that answers.")?;
    }
    Ok(())
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
pub fn gpu_check_json(
    trials: &[GpuTrial],
    unread: &[String],
    out: &mut dyn Write,
) -> io::Result<()> {
    let report = json!({
        "linerate": env!("CARGO_PKG_VERSION"),
        "stand_in_gpu": trials.iter().any(is_stand_in),
        "gpus": trials,
        "unread": unread,
    });
    serde_json::to_writer_pretty(&mut *out, &report)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut out = Vec::new();
        gpu_check_text(trials, &["GPU 1: it fell off".to_owned()], style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
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
