//! The lab's supervisor, one process: it owns the QEMUs and the rail switches, and ends them with itself.
//!
//! One thread owns all state; requests, nodes that came up and nodes that ended reach it over a channel or
//! are looked for twice a second. That thread starts every QEMU, because they die with it (see `qemu`).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::control::{NodeStatus, Phase, Reply, Request, Status};
use crate::error::{LabError, Result};
use crate::fault::{Direction, Fault, Harm, Link, shared_rate};
use crate::machine::MachineHarm;
use crate::options::{Plan, check_fault};
use crate::qemu;
use crate::share::Share;
use crate::state::{self, StateDir};
use crate::switch::Switch;
use crate::tool;
use crate::watch;

/// How often QEMUs that ended by themselves are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What reaches the thread that owns the state.
enum Event {
    /// A request, and where its answer goes; `None` when nobody waits for it.
    Asked(Request, Option<Sender<Reply>>),
    /// The n-th boot of a node ended well or badly.
    Watched(usize, u64, std::result::Result<(), String>),
}

struct Node {
    child: Option<Child>,
    phase: Phase,
    boots: u64,
    started: Instant,
    boot_s: Option<f64>,
    /// Tells the watcher of the current boot to give up.
    stop: Arc<AtomicBool>,
}

struct Supervisor {
    plan: Plan,
    dir: StateDir,
    switches: Vec<Switch>,
    /// What the rails of each node share.
    shares: Vec<Arc<Share>>,
    nodes: Vec<Node>,
    faults: Vec<Fault>,
    /// When those of the faults end that end by themselves.
    ends: Vec<(Instant, Fault)>,
    events: Sender<Event>,
}

/// Runs the lab planned in a state directory until it is asked to end it.
///
/// # Errors
/// When the plan cannot be read, the directory is taken, or a VM cannot be started.
pub fn serve(dir: &Path) -> Result<()> {
    // A session of its own: the terminal's signals are for the command that started the lab.
    let _ = nix::unistd::setsid();
    let dir = StateDir::new(dir);
    let lock = fs::File::create(dir.lock()).map_err(LabError::file("cannot make", dir.lock()))?;
    lock.try_lock()
        .map_err(|_| LabError::Supervisor("a lab is up in this directory".into()))?;
    let text = fs::read(dir.plan_json()).map_err(LabError::file("cannot read", dir.plan_json()))?;
    let plan: Plan = serde_json::from_slice(&text)
        .map_err(|e| LabError::Supervisor(format!("plan.json: {e}")))?;
    let (events, inbox) = channel();
    let _ = fs::remove_file(dir.control());
    let listener = UnixListener::bind(dir.control())
        .map_err(LabError::file("cannot listen on", dir.control()))?;
    let mut supervisor = Supervisor::new(plan, dir, events.clone());
    spawn("control", move || accept_all(&listener, &events))?;
    (0..supervisor.nodes.len()).try_for_each(|index| supervisor.boot(index))?;
    supervisor.run(&inbox);
    Ok(())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started
        .map(|_| ())
        .map_err(|e| LabError::Supervisor(format!("cannot start a thread: {e}")))
}

/// Gives each connection a thread.
fn accept_all(listener: &UnixListener, events: &Sender<Event>) {
    for stream in listener.incoming().flatten() {
        let events = events.clone();
        let _ = spawn("request", move || answer_all(&stream, &events));
    }
}

/// Answers one connection; its end ends the lab if it held it.
fn answer_all(stream: &UnixStream, events: &Sender<Event>) {
    let mut held = false;
    for line in BufReader::new(stream)
        .lines()
        .map_while(std::result::Result::ok)
    {
        let reply = match serde_json::from_str::<Request>(&line) {
            Err(e) => Reply::Refused(format!("not a request: {e}")),
            Ok(request) => {
                held = (held || request == Request::Hold) && request != Request::Release;
                let (answer, answered) = channel();
                let sent = events.send(Event::Asked(request, Some(answer)));
                match sent.ok().and_then(|()| answered.recv().ok()) {
                    Some(reply) => reply,
                    None => Reply::Refused("the lab is ending".into()),
                }
            }
        };
        let Ok(mut text) = serde_json::to_string(&reply) else {
            break;
        };
        text.push('\n');
        let mut to = stream;
        if to.write_all(text.as_bytes()).is_err() {
            break;
        }
    }
    if held {
        let _ = events.send(Event::Asked(Request::Down, None));
    }
}

fn is_pause(fault: &Fault) -> bool {
    matches!(fault.harm, Harm::Machine(MachineHarm::Pause(_)))
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    let gone = |e: nix::Error| LabError::Supervisor(format!("a QEMU cannot be sent {signal}: {e}"));
    let pid = i32::try_from(child.id()).map_err(|_| gone(nix::Error::ESRCH))?;
    nix::sys::signal::kill(Pid::from_raw(pid), signal).map_err(gone)
}

impl Supervisor {
    fn new(plan: Plan, dir: StateDir, events: Sender<Event>) -> Supervisor {
        let rails = plan.nodes.first().map_or(0, |node| node.rails.len());
        let node = || Node {
            child: None,
            phase: Phase::Stopped,
            boots: 0,
            started: Instant::now(),
            boot_s: None,
            stop: Arc::default(),
        };
        let shares: Vec<_> = plan.nodes.iter().map(|_| Arc::new(Share::new())).collect();
        let supervisor = Supervisor {
            switches: (0..rails).map(|_| Switch::new(&shares)).collect(),
            shares,
            nodes: plan.nodes.iter().map(|_| node()).collect(),
            faults: plan.faults.clone(),
            ends: Vec::new(),
            plan,
            dir,
            events,
        };
        supervisor.set_links();
        supervisor
    }

    /// Serves until the lab is to end.
    fn run(&mut self, inbox: &Receiver<Event>) {
        self.write_lab_json();
        let mut looked = Instant::now();
        loop {
            // Also while requests come in faster than the time-out below.
            if looked.elapsed() >= LOOK_EVERY {
                self.look_for_ended();
                looked = Instant::now();
            }
            self.end_what_is_due();
            match inbox.recv_timeout(self.patience()) {
                Ok(Event::Asked(Request::Down, to)) => {
                    self.end();
                    let _ = to.map(|to| to.send(Reply::Done(Box::new(self.status()))));
                    // The connection's thread still has to write the answer.
                    thread::sleep(Duration::from_millis(50));
                    return;
                }
                Ok(Event::Asked(request, to)) => {
                    let changes = request != Request::Status;
                    let reply = self.answer(request);
                    if changes {
                        self.write_lab_json();
                    }
                    let _ = to.map(|to| to.send(reply));
                }
                Ok(Event::Watched(index, boot, result)) => self.watched(index, boot, result),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.end(),
            }
        }
    }

    fn answer(&mut self, request: Request) -> Reply {
        let result = match request {
            Request::Status | Request::Hold | Request::Release | Request::Down => Ok(()),
            Request::Fault(fault) => self.add_fault(fault),
            Request::Heal(fault) => self.heal(fault.as_ref()),
            Request::Kill(name) => self
                .index(&name)
                .map(|index| self.kill(index, Phase::Stopped)),
            Request::Start(name) => self.index(&name).and_then(|index| self.start(index)),
        };
        match result {
            Ok(()) => Reply::Done(Box::new(self.status())),
            Err(e) => Reply::Refused(e.to_string()),
        }
    }

    fn index(&self, name: &str) -> Result<usize> {
        let found = self.plan.nodes.iter().position(|node| node.name == name);
        found.ok_or_else(|| LabError::Options(format!("no node is called {name}")))
    }

    fn add_fault(&mut self, fault: Fault) -> Result<()> {
        check_fault(
            &fault,
            self.nodes.len(),
            self.switches.len(),
            self.plan.rate,
            &self.plan.pcie,
        )?;
        self.pause(&fault)?;
        self.faults.retain(|other| *other != fault);
        self.ends.retain(|(_, other)| *other != fault);
        if let Some(time) = fault.lasts() {
            self.ends.push((Instant::now() + time, fault.clone()));
        }
        self.faults.push(fault);
        self.set_links();
        Ok(())
    }

    /// Stops the QEMU of a node, if that is the fault.
    fn pause(&self, fault: &Fault) -> Result<()> {
        if !is_pause(fault) {
            return Ok(());
        }
        let index = self.index(&fault.node)?;
        match self.nodes[index].child {
            Some(ref child) => signal(child, Signal::SIGSTOP),
            None => Err(LabError::Options(format!("{} is down", fault.node))),
        }
    }

    /// Lets nodes go on that no fault stops any longer.
    fn go_on(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            let name = &self.plan.nodes[index].name;
            let stopped = |fault: &Fault| is_pause(fault) && fault.node == *name;
            if let Some(child) = &node.child
                && !self.faults.iter().any(stopped)
            {
                // One that ended meanwhile is found by `look_for_ended`.
                let _ = signal(child, Signal::SIGCONT);
            }
        }
    }

    /// Ends the faults whose time is over.
    fn end_what_is_due(&mut self) {
        let now = Instant::now();
        let due: Vec<Fault> = self
            .ends
            .extract_if(.., |(end, _)| *end <= now)
            .map(|(_, fault)| fault)
            .collect();
        if !due.is_empty() {
            self.faults.retain(|fault| !due.contains(fault));
            self.set_links();
            self.go_on();
            self.write_lab_json();
        }
    }

    /// How long there is nothing to do unless something is asked.
    fn patience(&self) -> Duration {
        let now = Instant::now();
        let next = self.ends.iter().map(|(end, _)| *end).min();
        next.map_or(LOOK_EVERY, |end| end.saturating_duration_since(now))
            .min(LOOK_EVERY)
    }

    fn heal(&mut self, fault: Option<&Fault>) -> Result<()> {
        let before = self.faults.len();
        match fault {
            None => self.faults.clear(),
            Some(fault) => self.faults.retain(|other| other != fault),
        }
        if let Some(fault) = fault
            && self.faults.len() == before
        {
            return Err(LabError::Options(format!("no fault {fault} is in effect")));
        }
        self.ends.retain(|(_, fault)| self.faults.contains(fault));
        self.set_links();
        self.go_on();
        Ok(())
    }

    /// Sets every link, and what links share, to what rate and faults make of it.
    fn set_links(&self) {
        for (share, node) in self.shares.iter().zip(&self.plan.nodes) {
            share.set(shared_rate(&self.faults, &node.name));
        }
        for (rail, switch) in self.switches.iter().enumerate() {
            for (port, node) in self.plan.nodes.iter().enumerate() {
                for way in [Direction::Tx, Direction::Rx] {
                    let link =
                        Link::with_faults(self.plan.rate, &self.faults, &node.name, rail, way);
                    switch.set_link(port, way, link);
                }
            }
        }
    }

    fn start(&mut self, index: usize) -> Result<()> {
        if self.nodes[index].child.is_some() {
            let name = &self.plan.nodes[index].name;
            return Err(LabError::Options(format!("{name} is not down")));
        }
        self.boot(index)
    }

    /// Starts a node's QEMU, connects its rails, and has it watched.
    fn boot(&mut self, index: usize) -> Result<()> {
        state::write_settings(&self.plan, index, &self.faults)?;
        let (child, rails) = qemu::start(&self.plan, index + 1, &self.faults)?;
        for (rail, socket) in rails.into_iter().enumerate() {
            self.switches[rail]
                .connect(index, socket)
                .map_err(LabError::file("cannot connect", format!("rail {rail}")))?;
        }
        let node = &mut self.nodes[index];
        let stop = Arc::new(AtomicBool::new(false));
        *node = Node {
            child: Some(child),
            phase: Phase::Booting,
            boots: node.boots + 1,
            started: Instant::now(),
            boot_s: None,
            stop: stop.clone(),
        };
        let (boot, events) = (node.boots, self.events.clone());
        let plan = &self.plan.nodes[index];
        let (console, ports) = (self.dir.console(&plan.name), [plan.port, plan.memlock_port]);
        spawn("watch", move || {
            let result = watch::until_up(&console, &ports, &|| stop.load(Ordering::Relaxed));
            let _ = events.send(Event::Watched(index, boot, result));
        })
    }

    fn watched(&mut self, index: usize, boot: u64, result: std::result::Result<(), String>) {
        let node = &mut self.nodes[index];
        if node.boots != boot || node.phase != Phase::Booting {
            return;
        }
        match result {
            Ok(()) => {
                node.phase = Phase::Up;
                node.boot_s = Some(node.started.elapsed().as_secs_f64());
            }
            Err(why) => self.kill(index, Phase::Failed(why)),
        }
        self.write_lab_json();
    }

    /// Notices QEMUs that ended by themselves.
    fn look_for_ended(&mut self) {
        for index in 0..self.nodes.len() {
            let ended = match &mut self.nodes[index].child {
                Some(child) => child.try_wait().ok().flatten(),
                None => None,
            };
            let Some(status) = ended else { continue };
            let log = self.dir.qemu_log(&self.plan.nodes[index].name);
            let said = tool::tail(&fs::read_to_string(log).unwrap_or_default(), 3);
            self.kill(
                index,
                Phase::Failed(format!("its QEMU ended ({status}) {said}")),
            );
            self.write_lab_json();
        }
    }

    fn kill(&mut self, index: usize, phase: Phase) {
        // What boots next is not paused.
        let name = &self.plan.nodes[index].name;
        self.faults
            .retain(|fault| !is_pause(fault) || fault.node != *name);
        self.ends.retain(|(_, fault)| self.faults.contains(fault));
        let node = &mut self.nodes[index];
        node.stop.store(true, Ordering::Relaxed);
        node.phase = phase;
        if let Some(mut child) = node.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn end(&mut self) {
        (0..self.nodes.len()).for_each(|index| self.kill(index, Phase::Stopped));
        let _ = fs::remove_file(self.dir.control());
        let _ = fs::remove_file(self.dir.lab_json());
    }

    fn status(&self) -> Status {
        let node = |(index, node): (usize, &Node)| {
            let plan = self.plan.nodes[index].clone();
            NodeStatus {
                console: self.dir.console(&plan.name),
                plan,
                phase: node.phase.clone(),
                pid: node.child.as_ref().map(Child::id),
                boot_s: node.boot_s,
                counters: self
                    .switches
                    .iter()
                    .map(|switch| switch.counters(index))
                    .collect(),
            }
        };
        Status {
            schema: 1,
            dir: self.dir.path().to_owned(),
            supervisor_pid: std::process::id(),
            accel: self.plan.accel,
            kernel: self.plan.kernel.clone(),
            rate: self.plan.rate,
            faults: self.faults.clone(),
            nodes: self.nodes.iter().enumerate().map(node).collect(),
        }
    }

    /// Replaces `lab.json` whole, so that a reader never sees half of it.
    fn write_lab_json(&self) {
        let new = self.dir.lab_json().with_extension("json.new");
        if let Ok(text) = serde_json::to_string_pretty(&self.status())
            && fs::write(&new, text).is_ok()
        {
            let _ = fs::rename(&new, self.dir.lab_json());
        }
    }
}
