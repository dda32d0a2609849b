//! From what is known to what is wrong: expectations, localisation, findings, verdict. Pure and
//! deterministic; the screen, the report and the exit code all ask here, so they cannot disagree.

mod cabling;
mod cast;
mod cause;
mod cost;
mod culprit;
mod expectations;
mod expected;
mod fabric;
mod gpu_memory;
mod gpu_of_nic;
mod gpudirect;
mod links;
mod localise;
mod loop_back;
mod nccl;
mod observe;
mod reached;
mod rules;
mod standing;
mod verdict;
mod view;
mod wider;

#[cfg(test)]
pub use cost::testing as cost_testing;
pub use cost::{
    Congestion, CostGap, CostReport, Crossover, EndCost, Incast, Latency, PairCost, Saving,
    Savings, Sign, SizeCost, StepCost, Together, cost_step, is_burst,
};
pub use culprit::setup;
pub use expected::{ceiling, efficiency, expected};
#[cfg(test)]
pub use gpu_memory::testing as gpu_memory_testing;
pub use gpu_memory::{GpuMemory, GpuVerdict, gpu_memory};
pub use gpu_of_nic::gpu_of_nic;
pub use gpudirect::{GpuKind, GpuPair, GpuWay, gpu_kind, gpu_pairs};
pub use localise::{Localised, localise};
#[cfg(test)]
pub use loop_back::testing as loop_back_testing;
pub use loop_back::{LoopPair, LoopVerdict, loop_pairs};
pub use nccl::{NcclProblem, NcclSurvey, NcclTold, nccl_problems, nccl_told};
pub use observe::{Observation, Observed, observe};
pub use reached::{EndReached, NoRate, Reached, Sample, reached};
pub use rules::{About, Said, about};
pub use standing::{Standings, standings, standings_of_nics, strays};
pub use verdict::{Judgement, inspect, judge};
pub use view::{NicView, NodeView};
pub use wider::wider;
