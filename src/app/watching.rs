//! `linerate watch` on the dashboard: what each NIC carries now, on the grid.

use std::io::IsTerminal;
use std::ops::ControlFlow;

use super::dashboard::{self, Wanted, Wires};
use super::failure::Failure;
use super::live::now;
use super::watch::{NOTHING_TO_WATCH, Source};
use crate::cli::{Color, PlainFormat, WatchArgs};
use crate::cluster::Onlooker;
use crate::ledger::Ledger;
use crate::model::Event;
use crate::report::watch as show;

/// Whether the dashboard is what a person at a terminal wants; who counts readings wants them below
/// each other.
pub(super) fn is_wanted(arguments: &WatchArgs) -> bool {
    let plain = arguments.table || arguments.count.is_some();
    !plain && arguments.format == PlainFormat::Text && std::io::stdout().is_terminal()
}

/// Watches until the operator leaves.
pub(super) fn run(arguments: &WatchArgs) -> Result<u8, Failure> {
    let source = Source::of(arguments, None)?;
    let title = match &arguments.config {
        Some(file) => file.display().to_string(),
        None => "linerate watch".to_owned(),
    };
    let wanted = Wanted {
        title,
        pace: None,
        watches: true,
        face: &arguments.face,
        color: Color::Auto,
    };
    let (_, nothing) = dashboard::run(wanted, |wires| {
        let mut relay = Relay {
            wires,
            known: Ledger::default(),
            seq: 0,
            saw: false,
        };
        source.lead(arguments.interval, &wires.stop, &mut relay)?;
        Ok(!relay.saw && show::is_over(&relay.known))
    })?;
    Ok(if nothing { NOTHING_TO_WATCH } else { 0 })
}

/// Hands on to the dashboard what comes.
struct Relay<'a> {
    wires: &'a Wires,
    /// Which nodes are there; their samples are the dashboard's.
    known: Ledger,
    seq: u64,
    saw: bool,
}

impl Onlooker for Relay<'_> {
    type Error = Failure;

    fn learn(&mut self, event: Event) {
        match &event {
            Event::NodeSampled { .. } => self.saw = true,
            event => self.known.apply(event),
        }
        self.wires.show(now(&mut self.seq, event));
    }

    fn tick(&mut self) -> Result<ControlFlow<()>, Failure> {
        Ok(match show::is_over(&self.known) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }
}
