//! From what is known to what is wrong: expectations, localisation, findings, verdict. Pure and
//! deterministic; the screen, the report and the exit code all ask here, so they cannot disagree.

mod cause;
mod expected;
mod gpudirect;
mod localise;
mod observe;
mod retest;
mod rules;
mod verdict;
mod view;

pub use expected::{efficiency, expected};
pub use gpudirect::{GpuKind, GpuPair, GpuWay, gpu_kind, gpu_pairs};
pub use localise::{Localised, Status, localise};
pub use observe::{Observation, observe};
pub use retest::{retests, wider};
pub use rules::{About, Said, about};
pub use verdict::{Judgement, inspect, judge};
pub use view::{NicView, NodeView};
