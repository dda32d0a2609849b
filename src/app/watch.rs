//! `linerate watch`: what each NIC carries now, here or on the nodes of a cluster.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use jiff::Timestamp;

use super::failure::Failure;
use super::{carriers, config, start};
use crate::cli::{PlainFormat, WatchArgs};
use crate::cluster::{CarrierFleet, Limits, Member, Onlooker, watch};
use crate::config::Cluster;
use crate::ledger::Ledger;
use crate::model::{Event, NodeName};
use crate::report::watch as show;
use crate::survey::{Root, Sampler, queue_pairs};

/// Watches until the count is reached, nothing is left to watch, or somebody stops it.
pub(super) fn run(arguments: &WatchArgs) -> Result<u8, Failure> {
    let mut screen = Screen::new(arguments);
    let source = Source::of(arguments, Some(ProgressBar::hidden()))?;
    let stop = start::stop_on_signal()?;
    source.lead(arguments.interval, &stop, &mut screen)?;
    let nothing = !screen.saw && show::is_over(&screen.ledger);
    Ok(if nothing { NOTHING_TO_WATCH } else { 0 })
}

pub(super) const NOTHING_TO_WATCH: u8 = 3;

/// What is watched.
pub(super) enum Source {
    /// The nodes of a cluster, and the way to each.
    Nodes(Box<Cluster>, Vec<Member>),
    /// This machine, or what lies below a folder.
    Here(Root),
}

impl Source {
    /// What is asked for; whatever has to be asked of the operator is asked here.
    pub(super) fn of(arguments: &WatchArgs, asks: Option<ProgressBar>) -> Result<Self, Failure> {
        let WatchArgs {
            config: file,
            nodes,
            accept_new,
            ..
        } = arguments;
        if file.is_none() && nodes.is_empty() {
            return root(arguments.root.as_deref()).map(Self::Here);
        }
        let cluster = config::cluster(file.as_deref(), nodes, *accept_new)?;
        let members = carriers::members(&cluster, &config::operator(), asks)?;
        Ok(Self::Nodes(Box::new(cluster), members))
    }

    /// Watches until `stop`, or until the onlooker ends it.
    pub(super) fn lead<O: Onlooker<Error = Failure>>(
        self,
        interval: Duration,
        stop: &AtomicBool,
        onlooker: &mut O,
    ) -> Result<(), Failure> {
        match self {
            Self::Nodes(cluster, members) => there(&cluster, members, interval, stop, onlooker),
            Self::Here(root) => here(&root, interval, stop, onlooker),
        }
    }
}

fn root(path: Option<&Path>) -> Result<Root, Failure> {
    match path {
        Some(path) if !path.is_dir() => Err(Failure::usage(format!(
            "--root {}: not a directory",
            path.display()
        ))),
        Some(path) => Ok(Root::at(path)),
        None => Ok(Root::live()),
    }
}

/// The nodes of a cluster.
fn there<O: Onlooker<Error = Failure>>(
    cluster: &Cluster,
    members: Vec<Member>,
    interval: Duration,
    stop: &AtomicBool,
    onlooker: &mut O,
) -> Result<(), Failure> {
    let nodes: Vec<NodeName> = cluster.nodes.iter().map(|node| node.name.clone()).collect();
    for node in &nodes {
        onlooker.learn(Event::NodeStage {
            node: node.clone(),
            stage: "connecting".into(),
        });
    }
    let payload = start::payload(cluster)?;
    start::raise_descriptor_limit();
    let fleet = CarrierFleet::start(members, &payload)
        .map_err(|error| Failure::work(format!("cannot start a thread for each node: {error}")))?;
    watch(fleet, &nodes, interval, Limits::default(), stop, onlooker)
}

/// This machine, without an agent.
fn here<O: Onlooker<Error = Failure>>(
    root: &Root,
    interval: Duration,
    stop: &AtomicBool,
    onlooker: &mut O,
) -> Result<(), Failure> {
    let node = this_node();
    let mut sampler = Sampler::open(root);
    let mut due = Instant::now();
    let mut refreshed: Option<Instant> = None;
    onlooker.learn(watched(&node, &sampler));
    loop {
        let sample = sampler.sample();
        onlooker.learn(Event::NodeSampled {
            node: node.clone(),
            sample,
        });
        // The first sample begins an interval and ends none.
        if refreshed.is_some() && onlooker.tick()?.is_break() {
            return Ok(());
        }
        if refreshed.is_none_or(|at| at.elapsed() >= REFRESH) {
            if refreshed.is_some() && sampler.refresh() {
                onlooker.learn(watched(&node, &sampler));
            }
            onlooker.learn(Event::NodeQueuePairs {
                node: node.clone(),
                queue_pairs: queue_pairs(root),
            });
            refreshed = Some(Instant::now());
        }
        due = (due + interval).max(Instant::now());
        if !sleep_until(due, stop) {
            return Ok(());
        }
    }
}

/// How often devices that came or went are looked for, and who holds queue pairs.
const REFRESH: Duration = Duration::from_secs(10);

fn watched(node: &NodeName, sampler: &Sampler) -> Event {
    Event::NodeWatched {
        node: node.clone(),
        layout: Box::new(sampler.layout().clone()),
    }
}

fn this_node() -> NodeName {
    let name = nix::unistd::gethostname().ok();
    let name = name.and_then(|name| name.into_string().ok());
    NodeName::from(name.unwrap_or_else(|| "localhost".to_owned()))
}

/// Whether the time came; not where somebody stops the wait.
fn sleep_until(due: Instant, stop: &AtomicBool) -> bool {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}

/// How what is known is shown.
enum Face {
    /// A table, drawn over the one before; its lines.
    Table(usize),
    /// Rows below each other; what was told once and does not change.
    Rows(BTreeSet<String>),
    /// A document for each tick.
    Documents,
}

/// What is known, and where it is shown.
struct Screen {
    ledger: Ledger,
    face: Face,
    left: Option<u64>,
    /// Whether anything was seen.
    saw: bool,
}

impl Screen {
    fn new(arguments: &WatchArgs) -> Self {
        let face = match arguments.format {
            PlainFormat::Json => Face::Documents,
            PlainFormat::Text if std::io::stdout().is_terminal() => Face::Table(0),
            PlainFormat::Text => Face::Rows(BTreeSet::new()),
        };
        Self {
            ledger: Ledger::default(),
            face,
            left: arguments.count,
            saw: false,
        }
    }

    fn draw(&mut self, news: bool) -> std::io::Result<()> {
        let mut out = Vec::new();
        let now = Timestamp::now();
        match &mut self.face {
            Face::Table(drawn) => {
                if *drawn > 0 {
                    // Up to the first line of the last table, and away with it.
                    write!(out, "\x1b[{drawn}A\x1b[J")?;
                }
                let (width, height) = terminal();
                *drawn = show::table(&self.ledger, width, height, &mut out)?;
            }
            Face::Rows(told) => {
                if told.is_empty() {
                    let header = show::rows_header();
                    writeln!(out, "{header}")?;
                    told.insert(header);
                }
                show::rows(&self.ledger, now, told, &mut out)?;
            }
            Face::Documents if news || show::is_over(&self.ledger) => {
                show::json(&self.ledger, now, &mut out)?;
            }
            Face::Documents => {}
        }
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&out)?;
        stdout.flush()
    }
}

impl Onlooker for Screen {
    type Error = Failure;

    fn learn(&mut self, event: Event) {
        self.ledger.apply(&event);
    }

    fn tick(&mut self) -> Result<ControlFlow<()>, Failure> {
        self.ledger.turn();
        let news = show::is_news(&self.ledger);
        self.draw(news)
            .map_err(|error| Failure::work(format!("cannot write to standard output: {error}")))?;
        self.saw |= news;
        if news {
            self.left = self.left.map(|left| left.saturating_sub(1));
        }
        let done = self.left == Some(0) || show::is_over(&self.ledger);
        Ok(match done {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }
}

/// Columns, and lines less the one that the cursor waits on.
fn terminal() -> (usize, usize) {
    match terminal_size::terminal_size() {
        Some((terminal_size::Width(columns), terminal_size::Height(lines))) => {
            (usize::from(columns), usize::from(lines).saturating_sub(1))
        }
        None => (100, 24),
    }
}
