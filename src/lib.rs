//! linerate: which NIC in this cluster is not running at line rate, and why.
//!
//! Everything that is learned is an event. Events flow one way: nodes → record on disk → ledger →
//! findings → screen, file, exit code.
//!
//! ```text
//! config → plan → cluster ══Event══► record → ledger → judge ─► report, exit code
//! ```
//!
//! The rooms import downwards only: `model`, the vocabulary; the pure rooms `config`, `plan`,
//! `ledger`, `topology`, `nccl`, `judge`, `compare`, `accept`; the hands `verbs`, `gpu`, `survey`, `probe`, `wire`, `agent`, `remote`,
//! `cluster`, `simulated`, `record`; the faces `report` and `tui`; and `app`, which knows everybody.

pub mod accept;
pub mod agent;
pub mod app;
pub mod cli;
pub mod cluster;
pub mod compare;
pub mod config;
pub mod gpu;
pub mod judge;
pub mod ledger;
pub mod model;
pub mod nccl;
pub mod plan;
pub mod probe;
pub mod record;
pub mod remote;
pub mod report;
pub mod simulated;
pub mod survey;
pub mod topology;
pub mod tui;
pub mod verbs;
pub mod wire;
