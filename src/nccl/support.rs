//! The lines that say why GPUDirect RDMA is used or not: for a device, and for a GPU with a device.

use memchr::memmem;

use super::line::Line;
use super::text::{behind, small, until, word};

/// `NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'` (from 2.13.4, subsystem NET).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HcaSupport<'a> {
    /// `IB`, `Socket`.
    pub network: &'a [u8],
    /// Whether it can be used.
    pub enabled: bool,
    /// The device's number.
    pub device: u32,
    /// Its name.
    pub name: &'a [u8],
}

/// `GPU Direct RDMA Disabled for GPU 1c000 / HCA 2 (distance 7 > 5), read 0 mode Default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuSupport<'a> {
    /// Whether it is used.
    pub enabled: bool,
    /// The GPU: a CUDA device (2.4), a PCI bus id in hexadecimal (2.5 to 2.23) or a rank (from 2.24.3).
    pub gpu: &'a [u8],
    /// The device: a number, in hexadecimal from 2.21.5 on.
    pub device: &'a [u8],
    /// How far they are from each other, in the numbers of this version.
    pub distance: u32,
    /// How far they may be: `NCCL_NET_GDR_LEVEL`.
    pub limit: u32,
}

/// `NET/IB : GPU Direct RDMA Disabled for GPU 0[0] / HCA 0 'mlx5_0' (no module or not supported by GPU)`,
/// up to 2.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// The device's number, where it was said as one.
    pub device: Option<u32>,
    /// Its name, where it was said.
    pub name: Option<&'a [u8]>,
    /// What is in parentheses.
    pub why: &'a [u8],
}

const WORDS: &[u8] = b"GPU Direct RDMA ";

/// Reads a message that begins with `NET/`.
pub(super) fn read(text: &[u8]) -> Option<Line<'_>> {
    let at = memmem::find(text, WORDS)?;
    let network = text[..at].strip_prefix(b"NET/")?.trim_ascii_end();
    let network = network.strip_suffix(b":")?.trim_ascii_end();
    let (enabled, rest) = word_of(&text[at + WORDS.len()..])?;
    if let Some(hca) = rest.strip_prefix(b"HCA ") {
        let (device, rest) = small(hca)?;
        let name = quoted(rest.trim_ascii_start())?;
        // 2.5.6 has `(no module)` behind it.
        return Some(match parenthesis(rest) {
            Some(why) => Line::Refused(Refusal {
                device: Some(device),
                name: Some(name),
                why,
            }),
            None => Line::Hca(HcaSupport {
                network,
                enabled,
                device,
                name,
            }),
        });
    }
    match gpu(&text[at..]) {
        Some(support) => Some(Line::Gpu(support)),
        None => refusal(rest).map(Line::Refused),
    }
}

/// `Enabled for ` or `Disabled for `.
fn word_of(rest: &[u8]) -> Option<(bool, &[u8])> {
    match rest.strip_prefix(b"Enabled for ") {
        Some(rest) => Some((true, rest)),
        None => Some((false, rest.strip_prefix(b"Disabled for ")?)),
    }
}

/// Reads a message that begins with `GPU Direct RDMA`.
pub(super) fn gpu(text: &[u8]) -> Option<GpuSupport<'_>> {
    let (enabled, rest) = word_of(text.strip_prefix(WORDS)?)?;
    let (gpu, rest) = until(rest.strip_prefix(b"GPU ")?, b" / HCA ")?;
    let gpu = until(gpu, b"[").map_or(gpu, |(gpu, _)| gpu);
    let device = word(rest);
    let rest = behind(rest, b"(distance ")?;
    let (distance, rest) = small(rest)?;
    let (limit, rest) = small(behind_sign(rest))?;
    rest.starts_with(b")").then_some(GpuSupport {
        enabled,
        gpu,
        device,
        distance,
        limit,
    })
}

/// What is behind ` <= `, ` < `, ` > ` or ` >= `.
fn behind_sign(text: &[u8]) -> &[u8] {
    let is_sign = |byte: &u8| matches!(byte, b'<' | b'>' | b'=' | b' ');
    &text[text.iter().take_while(|byte| is_sign(byte)).count()..]
}

/// `GPU 0[0] / HCA 0 'mlx5_0' (no module or not supported by GPU)`; up to 2.3 the name alone.
fn refusal(rest: &[u8]) -> Option<Refusal<'_>> {
    let (_, rest) = until(rest.strip_prefix(b"GPU ")?, b" / HCA ")?;
    let (device, name) = match small(rest) {
        Some((device, after)) if !after.starts_with(b"_") => {
            (Some(device), quoted(after.trim_ascii_start()))
        }
        _ => (None, Some(word(rest))),
    };
    Some(Refusal {
        device,
        name,
        why: parenthesis(rest)?,
    })
}

fn quoted(text: &[u8]) -> Option<&[u8]> {
    Some(until(text.strip_prefix(b"'")?, b"'")?.0)
}

fn parenthesis(text: &[u8]) -> Option<&[u8]> {
    Some(until(behind(text, b"(")?, b")")?.0)
}
