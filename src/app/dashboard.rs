//! The dashboard and who works behind it: one thread draws, another learns, and two channels lie between.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::failure::Failure;
use super::output::Output;
use super::reports::is_only_cost;
use crate::cli::{Color, FaceArgs, ThemeArg};
use crate::judge::Judgement;
use crate::ledger::Ledger;
use crate::model::{Command, Record};
use crate::report::{Style, cost_json, cost_text, json, text};
use crate::tui::{Depth, Face, Ground, Left, News, Run, Theme, show};

/// News that may wait for the dashboard; who learns faster waits.
const WAITING: usize = 1024;

/// What a dashboard is about, and how it looks.
pub(super) struct Wanted<'a> {
    /// What is run, in a few words.
    pub(super) title: String,
    /// How many times faster a recorded run is played.
    pub(super) pace: Option<f64>,
    /// Whether nothing is probed, and only watched.
    pub(super) watches: bool,
    pub(super) face: &'a FaceArgs,
    pub(super) color: Color,
}

/// The ends of the channels that whoever learns something holds.
pub(super) struct Wires {
    news: SyncSender<News>,
    /// What the operator asks for.
    pub(super) commands: Receiver<Command>,
    /// Whether to come to an end.
    pub(super) stop: Arc<AtomicBool>,
}

impl Wires {
    /// Shows what happened. Nobody may look any more: that stops nothing.
    pub(super) fn show(&self, record: Record) {
        let _ = self.news.send(News::Learned(Box::new(record)));
    }

    /// Shows a reading where there is room: another comes soon, and nothing may wait for it.
    pub(super) fn show_reading(&self, record: Record) {
        let _ = self.news.try_send(News::Learned(Box::new(record)));
    }

    /// Waits, unless it is to stop; whether the time passed.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
}

/// A dashboard without a terminal would show nothing and wait for ever.
pub(super) fn needs_terminal() -> Result<(), Failure> {
    match std::io::stdout().is_terminal() {
        true => Ok(()),
        false => Err(Failure::usage(
            "standard output is no terminal, which the dashboard needs: `linerate report` writes text or \
             JSON instead",
        )),
    }
}

/// Shows what `work` learns, until the operator leaves and the work is over.
pub(super) fn run<T: Send>(
    wanted: Wanted<'_>,
    work: impl FnOnce(&Wires) -> Result<T, Failure> + Send,
) -> Result<(Run, T), Failure> {
    let (news, inbox) = sync_channel(WAITING);
    let (commands, heard) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let wires = Wires {
        news: news.clone(),
        commands: heard,
        stop: Arc::clone(&stop),
    };
    let face = Face {
        title: wanted.title,
        theme: theme(wanted.face, wanted.color),
        pace: wanted.pace,
        watches: wanted.watches,
        commands,
        export: Box::new(export),
    };
    // Once the terminal is given back, a further signal ends the process at once.
    let away = ends_at_once()?;
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let mut over = Over(&wires, Some("linerate itself failed".to_owned()));
            let done = work(&wires);
            over.1 = done.as_ref().err().map(ToString::to_string);
            drop(over);
            done
        });
        let stop = Stop(stop);
        let shown = show(face, &inbox, news);
        away.store(true, Ordering::SeqCst);
        drop(stop);
        let left = shown.map(|left| finish(left, &inbox));
        // Whoever still has something to say must not wait for somebody to hear it.
        drop(inbox);
        let done = worker.join();
        let run =
            left.map_err(|error| Failure::work(format!("cannot use the terminal: {error}")))?;
        match done {
            Ok(done) => Ok((run, done?)),
            Err(_) => Err(Failure::work("linerate itself failed: this is a bug")),
        }
    })
}

fn finish(mut left: Left, inbox: &Receiver<News>) -> Run {
    if !left.run.is_over() && !left.run.is_watch() {
        eprintln!("stopping; Ctrl-C ends it at once");
    }
    left.finish(inbox);
    left.run
}

/// Stops the work when it goes, also where the dashboard panicked: the scope waits for the work.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Says that nothing more will come, also where the work panicked.
struct Over<'a>(&'a Wires, Option<String>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let _ = self.0.news.send(News::Over(self.1.take()));
    }
}

/// A flag: once it is set, SIGINT, SIGTERM and SIGHUP end the process.
fn ends_at_once() -> Result<Arc<AtomicBool>, Failure> {
    let away = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 3, Arc::clone(&away))
            .map_err(|error| Failure::work(format!("cannot listen for signals: {error}")))?;
    }
    Ok(away)
}

fn theme(face: &FaceArgs, color: Color) -> Theme {
    let mut theme = Theme::of(&|name| std::env::var(name).ok());
    match face.theme {
        ThemeArg::Auto => {}
        ThemeArg::Dark => theme.ground = Ground::Dark,
        ThemeArg::Light => theme.ground = Ground::Light,
    }
    match color {
        Color::Never => theme.depth = Depth::None,
        Color::Always if theme.depth == Depth::None => theme.depth = Depth::Ansi,
        _ => {}
    }
    theme.unicode &= !face.ascii;
    theme
}

/// Writes the run as text and JSON into the current directory.
fn export(ledger: &Ledger, judgement: &Judgement) -> Result<String, String> {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H-%M-%SZ");
    let stem = format!("linerate-{now}");
    for form in ["txt", "json"] {
        let path = format!("{stem}.{form}");
        let mut output = Output::file(path.as_ref()).map_err(|failure| failure.to_string())?;
        let style = Style {
            color: false,
            width: 100,
        };
        let written = match (form, is_only_cost(ledger)) {
            ("txt", false) => text(ledger, judgement, style, output.writer()),
            ("txt", true) => cost_text(ledger, judgement, style, output.writer()),
            (_, false) => json(ledger, judgement, output.writer()),
            (_, true) => cost_json(ledger, judgement, output.writer()),
        };
        written.map_err(|error| format!("cannot write {path}: {error}"))?;
        output.finish().map_err(|failure| failure.to_string())?;
    }
    Ok(format!("written: {stem}.txt and {stem}.json"))
}
