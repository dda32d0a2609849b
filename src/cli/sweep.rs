//! What is measured, for every command that runs a sweep: the pattern, the load, the bounds.

use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use jiff::SignedDuration;

use crate::model::{MemoryKind, Rail};

/// The most rails of a node, as in cluster files.
const MAX_RAILS: u16 = 64;

/// The longest time budget, a week.
const MAX_BUDGET: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Which pairs are measured, and under which load; what is not said here, the cluster file says.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(group = ArgGroup::new("which").args(["pattern", "quick", "full", "one", "pairs"]))]
pub struct SweepArgs {
    /// Which pairs: adaptive (a few rounds, then what they left in doubt), quick (the same with one
    /// round), full (every pair), ring (each node with the next) [default: as configured, else adaptive]
    #[arg(long, value_name = "PATTERN", hide_possible_values = true)]
    pub pattern: Option<PatternArg>,

    /// The same as --pattern quick
    #[arg(long)]
    pub quick: bool,

    /// The same as --pattern full
    #[arg(long)]
    pub full: bool,

    /// Only this node, with each of the others
    #[arg(long, value_name = "NODE")]
    pub one: Option<String>,

    /// Only these pairs of nodes, each in both directions
    #[arg(long, value_name = "A:B,C:D", value_delimiter = ',')]
    pub pairs: Vec<PairArg>,

    /// Begin an adaptive sweep with so many rounds, 1 to 16 [default: as configured, else 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    #[arg(conflicts_with_all = ["quick", "full", "one", "pairs"])]
    pub matchings: Option<u32>,

    /// Load one direction of a pair at a time, not both at once
    #[arg(long)]
    pub one_way: bool,

    /// Where the data lies: host, host-huge (in huge pages), gpu (of the GPU nearest to each NIC),
    /// gpu-staged (the same, by way of host memory) [default: as configured, else host]
    #[arg(long, value_name = "KIND", hide_possible_values = true)]
    pub memory: Option<MemoryArg>,

    /// Measure the paths between leaf switches as well; the cluster file tells the leaf groups
    #[arg(long, conflicts_with_all = ["one", "pairs"])]
    pub fabric: bool,

    /// Measure what moving data costs as well, after the rest, as linerate cost does
    #[arg(long)]
    pub cost: bool,

    /// Run nccl-tests at the end, as the cluster file says, and read in their log whether NCCL uses
    /// GPUDirect RDMA
    #[arg(long)]
    pub nccl: bool,

    /// At most this share of the nodes carries traffic at one time, such as 50%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub max_load: Option<f64>,

    /// Begin no round after so long, such as 10m; what is not measured then is said to be that
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub time_budget: Option<Duration>,
}

/// Which of the nodes and rails there are.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct PickArgs {
    /// Leave these nodes out, as host lists
    #[arg(long, value_name = "NODES")]
    pub exclude: Vec<String>,

    /// Only these rails, such as 0,3-5
    #[arg(long, value_name = "RAILS")]
    pub rails: Option<RailsArg>,
}

/// A pattern that needs no more than its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PatternArg {
    /// A few rounds, then what they left in doubt
    Adaptive,
    /// The same with one round
    Quick,
    /// Every pair
    Full,
    /// Each node with the next
    Ring,
}

/// Where the data of a probe lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MemoryArg {
    /// The host's memory
    Host,
    /// The same, in huge pages
    HostHuge,
    /// The memory of the GPU nearest to the NIC
    Gpu,
    /// The same, copied by way of host memory
    GpuStaged,
}

impl MemoryArg {
    /// The kind of memory.
    pub fn kind(self) -> MemoryKind {
        match self {
            Self::Host => MemoryKind::Host,
            Self::HostHuge => MemoryKind::HostHuge,
            Self::Gpu => MemoryKind::Gpu,
            Self::GpuStaged => MemoryKind::GpuStaged,
        }
    }
}

/// Two nodes, `A:B`: no host name has a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairArg {
    /// The one.
    pub a: String,
    /// The other.
    pub b: String,
}

impl FromStr for PairArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = text.split_once(':');
        let named = |(a, b): &(&str, &str)| !a.is_empty() && !b.is_empty() && !b.contains(':');
        let (a, b) = names
            .filter(named)
            .ok_or("two nodes are wanted, like node01:node02")?;
        let [a, b] = [a, b].map(str::to_owned);
        Ok(Self { a, b })
    }
}

/// Rails by their numbers, sorted, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailsArg(pub Vec<Rail>);

impl FromStr for RailsArg {
    type Err = String;

    /// Reads `0`, `0,3-5`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let most = MAX_RAILS - 1;
        let number = |text: &str| text.parse::<u16>().ok().filter(|rail| *rail <= most);
        let span = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        };
        let spans: Option<Vec<_>> = text.split(',').map(span).collect();
        let spans = spans.ok_or_else(|| {
            format!("rails from 0 to {most} are wanted, like 0,3-5 (the first is rail 0)")
        })?;
        let mut rails: Vec<Rail> = spans.into_iter().flatten().map(Rail).collect();
        rails.sort_unstable();
        rails.dedup();
        Ok(Self(rails))
    }
}

/// `50%` or `0.5`: above 0, at most the whole.
fn share(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(text),
    };
    share
        .filter(|share| *share > 0.0 && *share <= 1.0)
        .ok_or_else(|| "a share above 0 and at most 1 is wanted, like 50% or 0.5".to_owned())
}

fn budget(text: &str) -> Result<Duration, String> {
    let time = text.parse::<SignedDuration>().ok();
    let time = time.and_then(|time| Duration::try_from(time).ok());
    time.filter(|time| (Duration::from_secs(1)..=MAX_BUDGET).contains(time))
        .ok_or_else(|| "a time from 1s to 168h is wanted with its unit, like 90s or 10m".to_owned())
}
