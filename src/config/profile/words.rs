//! Demands in words: for a report, and for the list of a profile's checks.

use std::fmt;

use super::Select;
use super::demand::{
    Amount, BandwidthDemand, Bounds, CannotTellIs, CountOf, CpuDemand, CpuEnds, Demand,
    FindingsDemand, GpuDirectWay, LatencyDemand, Memory, NumaDemand, PcieDemand, Percentile,
    TextDemand, TextOf, Ways,
};
use crate::config::hostlist::fold;
use crate::model::{Direction, GidType, LinkLayer, MemlockLimit, Severity};

/// A share as a percentage, without more digits than were typed: `92%`.
pub(super) fn percent(share: f64) -> String {
    let rounded = (share * 1e5).round() / 1e3;
    format!("{rounded}%")
}

/// Times as people say them: `5 µs`, `800 ns`.
pub(super) fn time(ns: u64) -> String {
    match ns {
        ns if ns >= 1_000_000 => format!("{} ms", ns as f64 / 1e6),
        ns if ns >= 1_000 => format!("{} µs", ns as f64 / 1e3),
        ns => format!("{ns} ns"),
    }
}

impl<T: fmt::Display + PartialEq> fmt::Display for Bounds<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.least, &self.most) {
            (Some(least), Some(most)) if least == most => write!(f, "{least}"),
            (Some(least), Some(most)) => write!(f, "{least} to {most}"),
            (Some(least), None) => write!(f, "at least {least}"),
            (None, Some(most)) => write!(f, "at most {most}"),
            (None, None) => f.write_str("any"),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => write!(f, "{rate}"),
            Self::OfCeiling(share) => write!(f, "{} of ceiling", percent(*share)),
            Self::OfMedian(share) => write!(f, "{} of median", percent(*share)),
        }
    }
}

impl fmt::Display for TextDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneOf(known) => f.write_str(&known.join(" or ")),
            Self::AtLeast(version) => write!(f, "at least {version}"),
            Self::Same => f.write_str("the same on all that are alike"),
        }
    }
}

impl fmt::Display for PcieDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capable => f.write_str("every link as fast and wide as its ends are capable of"),
            Self::AtLeast { speed, width } => {
                f.write_str("every link at least")?;
                speed.iter().try_for_each(|speed| write!(f, " {speed}"))?;
                width.iter().try_for_each(|width| write!(f, " x{width}"))
            }
        }
    }
}

impl fmt::Display for NumaDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsGpu => f.write_str("the NUMA node of its nearest GPU"),
            Self::Is(number) => write!(f, "NUMA node {number}"),
        }
    }
}

impl fmt::Display for GpuDirectWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Peermem => "peermem",
            Self::Dmabuf => "dma-buf",
        })
    }
}

impl fmt::Display for BandwidthDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at least {}", self.least)?;
        match self.ways {
            Ways::Each => Ok(()),
            Ways::One(Direction::Tx) => f.write_str(", sent"),
            Ways::One(Direction::Rx) => f.write_str(", received"),
            Ways::Sum => f.write_str(", both ways at once added up"),
        }?;
        match self.memory {
            None => Ok(()),
            Some(Memory::Host) => f.write_str(", from and to host memory"),
            Some(Memory::Gpu) => f.write_str(", from and to GPU memory"),
        }
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Min => "the shortest",
            Self::Median => "the median",
            Self::P99 => "99% of messages",
            Self::P999 => "99.9% of messages",
            Self::Max => "the longest",
        })
    }
}

impl fmt::Display for LatencyDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = time(self.most_ns);
        write!(
            f,
            "at most {most} half way by {}, {}",
            self.step, self.percentile
        )?;
        match self.message {
            Some(bytes) => write!(f, ", messages of {bytes}"),
            None => f.write_str(", the smallest message that was measured"),
        }
    }
}

impl fmt::Display for CpuDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match self.ends {
            CpuEnds::Each => "each end",
            CpuEnds::Sender => "the sender",
            CpuEnds::Receiver => "the receiver",
        };
        let (cores, step) = (self.most_cores, self.step);
        write!(f, "at most {cores} cores of {end} for 100 Gb/s by {step}")
    }
}

impl fmt::Display for FindingsDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severities = self.severities.iter().map(|severity| match severity {
            Severity::Fault => "fault",
            Severity::NotJudged => "not judged",
            Severity::Warning => "warning",
            Severity::Note => "note",
        });
        let severities: Vec<&str> = severities.collect();
        let rules: Vec<&str> = self.rules.iter().map(|rule| rule.name()).collect();
        match (severities.is_empty(), rules.is_empty()) {
            (true, _) => write!(f, "no finding of {}", rules.join(", "))?,
            (false, true) => write!(f, "no {}", severities.join(" or "))?,
            (false, false) => {
                write!(f, "no {} of {}", severities.join(" or "), rules.join(", "))?;
            }
        }
        match self.cannot_tell {
            CannotTellIs::NotJudged => Ok(()),
            CannotTellIs::Borne => f.write_str(", whatever could not be told"),
        }
    }
}

impl fmt::Display for Demand {
    /// What is demanded, without of what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(_, bounds) => bounds.fmt(f),
            Self::Text(_, demand) => demand.fmt(f),
            Self::LinkRate(bounds) => bounds.fmt(f),
            Self::LinkLayer(layer) => layer.fmt(f),
            Self::GidType(kind, layer) => f.write_str(gid_type(*kind, *layer)),
            Self::Pcie(demand) => demand.fmt(f),
            Self::Numa(demand) => demand.fmt(f),
            Self::GpuPath(class) => write!(f, "at most {class} to the nearest"),
            Self::GpuDirect(ways) => {
                let ways: Vec<String> = ways.iter().map(ToString::to_string).collect();
                f.write_str(&ways.join(" or "))
            }
            Self::Memlock(MemlockLimit::Unlimited) => f.write_str("unlimited"),
            Self::Memlock(limit) => write!(f, "at least {limit}"),
            Self::Bandwidth(demand) => demand.fmt(f),
            Self::Latency(demand) => demand.fmt(f),
            Self::Cpu(demand) => demand.fmt(f),
            Self::Spread(share) => {
                write!(
                    f,
                    "at most {} of the median from slowest to fastest",
                    percent(*share)
                )
            }
            Self::RailsTogether(share) => {
                write!(f, "at least {} of what it reaches alone", percent(*share))
            }
            Self::Counters(names) if names.is_empty() => f.write_str("no counter of errors grows"),
            Self::Counters(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                write!(f, "{} must not grow", names.join(", "))
            }
            Self::Findings(demand) => demand.fmt(f),
            Self::Coverage(share) => {
                write!(f, "{} of the NICs measured, each way", percent(*share))
            }
        }
    }
}

/// As linerate calls the types of GIDs elsewhere.
pub(super) fn gid_type(kind: GidType, layer: LinkLayer) -> &'static str {
    match (kind, layer) {
        (GidType::RoceV2, _) => "RoCE v2",
        (GidType::IbOrRoceV1, LinkLayer::InfiniBand) => "IB",
        (GidType::IbOrRoceV1, LinkLayer::Ethernet) => "RoCE v1",
    }
}

impl Demand {
    /// What is checked, as a profile calls it, with more where that is not all.
    pub fn of(&self) -> String {
        match self {
            Self::Text(TextOf::Module(name), _) => format!("module {name}"),
            _ => self.kind().to_owned(),
        }
    }

    /// What is checked, as a profile calls it (`of`).
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Count(CountOf::Nodes, _) => "nodes",
            Self::Count(CountOf::Nics, _) => "nics",
            Self::Count(CountOf::Gpus, _) => "gpus",
            Self::Count(CountOf::Mtu, _) => "mtu",
            Self::Count(CountOf::LinkWidth, _) => "link-width",
            Self::Text(of, _) => of.kind(),
            Self::LinkRate(_) => "link-rate",
            Self::LinkLayer(_) => "link-layer",
            Self::GidType(..) => "gid-type",
            Self::Pcie(_) => "pcie",
            Self::Numa(_) => "numa",
            Self::GpuPath(_) => "gpu-path",
            Self::GpuDirect(_) => "gpudirect",
            Self::Memlock(_) => "memlock",
            Self::Bandwidth(_) => "bandwidth",
            Self::Latency(_) => "latency",
            Self::Cpu(_) => "cpu",
            Self::Spread(_) => "spread",
            Self::RailsTogether(_) => "rails-together",
            Self::Counters(_) => "counters",
            Self::Findings(_) => "findings",
            Self::Coverage(_) => "coverage",
        }
    }
}

impl TextOf {
    fn kind(&self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Module(_) => "module",
            Self::GpuDriver => "gpu-driver",
            Self::GpuModel => "gpu-model",
            Self::NicModel => "nic-model",
            Self::NicDriver => "nic-driver",
            Self::Firmware => "firmware",
        }
    }
}

impl fmt::Display for Select {
    /// `node[01-04], rails 0, 1`; nothing where it is everything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.nodes.is_empty() {
            let names: Vec<&str> = self.nodes.iter().map(|node| node.0.as_str()).collect();
            parts.push(fold(&names));
        }
        if !self.groups.is_empty() {
            parts.push(format!("leaf groups {}", self.groups.join(", ")));
        }
        if !self.rails.is_empty() {
            let rails: Vec<String> = self.rails.iter().map(|rail| rail.0.to_string()).collect();
            parts.push(format!("rails {}", rails.join(", ")));
        }
        f.write_str(&parts.join(", "))
    }
}
