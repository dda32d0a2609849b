//! One round as a state machine: Prepare at both ends, cross the endpoints, Run all at once, Verify,
//! Release. Pure: messages and time come in, messages and events come out.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::believe::{believable, same_clock, verified};
use crate::model::{
    Endpoint, Event, Fact, LocalPort, Measurement, NODE_LOST, NicId, Outcome, PciAddress,
    PlannedPair, ProbeId, ProbeSpec, ProbeStage, Role, left_alone,
};
use crate::wire::{FromAgent, ToAgent};

/// How long an end may take for one step beside the transfer itself. Emulated nodes need seconds,
/// registering gigabytes of untouched memory tens of them.
pub(super) const STEP: Duration = Duration::from_secs(60);

/// How long letting go may take; nothing waits for it longer.
const RELEASE: Duration = Duration::from_secs(20);

/// What a round wants done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Say this to the node at this place in the list.
    Send(usize, ToAgent),
    /// This was learned.
    Emit(Event),
}

/// A probe to run: the pair, and the places of its two nodes in the list.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    pub(super) planned: PlannedPair,
    pub(super) initiator: usize,
    pub(super) target: usize,
    /// Seeds the bytes that are sent.
    pub(super) nonce: u64,
    /// The GPUs whose memory is used, the initiator's first.
    pub(super) gpus: [Option<PciAddress>; 2],
}

/// Where a probe is. Arrays hold the initiator's part first, the target's second.
#[derive(Debug)]
enum Step {
    Prepare([Option<Endpoint>; 2]),
    Connect([bool; 2]),
    /// Both ends are ready to send and wait for the others of the round.
    Ready,
    /// Data moves since then.
    Run(Instant),
    Verify(Measurement),
    Release(Outcome, [bool; 2]),
    Over,
}

#[derive(Debug)]
struct Live {
    seat: Seat,
    step: Step,
    deadline: Instant,
}

/// A round in progress.
#[derive(Debug)]
pub(super) struct Round {
    spec: ProbeSpec,
    compare_clocks: bool,
    probes: Vec<Live>,
    places: HashMap<ProbeId, usize>,
    /// Probes that have not come to their connection yet.
    waiting: usize,
    /// Probes that have ended and let go.
    over: usize,
    /// Whether data moves.
    has_begun: bool,
    out: Vec<Action>,
}

impl Round {
    /// Begins a round: both ends of every probe are asked to prepare.
    ///
    /// Where nodes live in real time, `compare_clocks` doubts one whose second is shorter than ours.
    /// `force` has NICs probed that somebody works with.
    pub(super) fn begin(
        seats: Vec<Seat>,
        spec: &ProbeSpec,
        compare_clocks: bool,
        force: bool,
        now: Instant,
    ) -> Self {
        let live = |seat| Live {
            seat,
            step: Step::Prepare([None, None]),
            deadline: now + STEP,
        };
        let probes: Vec<Live> = seats.into_iter().map(live).collect();
        let places = probes.iter().enumerate();
        let mut round = Self {
            spec: spec.clone(),
            compare_clocks,
            places: places
                .map(|(at, live)| (live.seat.planned.probe, at))
                .collect(),
            waiting: probes.len(),
            over: 0,
            has_begun: false,
            probes,
            out: Vec::new(),
        };
        for probe in &round.probes {
            for role in [Role::Initiator, Role::Target] {
                let message = prepare(&probe.seat, role, spec, force);
                round
                    .out
                    .push(Action::Send(place(&probe.seat, role), message));
            }
        }
        round
    }

    /// What a probe does.
    fn spec(&self, at: usize) -> &ProbeSpec {
        let own = self.probes[at].seat.planned.spec.as_ref();
        own.unwrap_or(&self.spec)
    }

    /// What there is to do, once.
    pub(super) fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }

    /// Whether every probe has ended and let go.
    pub(super) fn is_over(&self) -> bool {
        self.over == self.probes.len()
    }

    /// Takes a probe to its next step; gives the one before.
    fn set(&mut self, at: usize, step: Step) -> Step {
        let before = std::mem::replace(&mut self.probes[at].step, step);
        let now = &self.probes[at].step;
        let count = |step: &Step| match step {
            Step::Prepare(_) | Step::Connect(_) => (1, 0),
            Step::Over => (0, 1),
            _ => (0, 0),
        };
        let ((waiting, over), (waits, is_over)) = (count(&before), count(now));
        self.waiting = self.waiting + waits - waiting;
        self.over = self.over + is_over - over;
        before
    }

    /// Takes in what a node's agent said. Answers that do not fit are late ones, and are dropped.
    pub(super) fn heard(&mut self, node: usize, message: FromAgent, now: Instant) {
        let Some(id) = probe_of(&message) else { return };
        let Some(at) = self.places.get(&id).copied() else {
            return;
        };
        for role in [Role::Initiator, Role::Target] {
            if place(&self.probes[at].seat, role) == node {
                self.answer(at, role, message, now);
                break;
            }
        }
        self.start_when_all_are_ready(now);
    }

    fn answer(&mut self, at: usize, role: Role, message: FromAgent, now: Instant) {
        let spec_duration = Duration::from_millis(self.spec(at).duration_ms.into());
        let probe = &mut self.probes[at];
        let end = index(role);
        match (&mut probe.step, message) {
            (Step::Prepare(endpoints), FromAgent::Prepared { endpoint, .. }) => {
                endpoints[end] = Some(endpoint);
                self.cross(at, now);
            }
            (Step::Prepare(_), FromAgent::ProbeDeclined { why, .. }) => {
                let why = left_alone(nic(&probe.seat, role), &why);
                self.end(at, Outcome::NotRun { why }, now);
            }
            (Step::Connect(connected), FromAgent::Connected { .. }) => {
                connected[end] = true;
                if *connected == [true, true] {
                    // Waits for the slowest of the round, whose own deadlines bound it.
                    probe.deadline = now + 4 * STEP + spec_duration;
                    self.set(at, Step::Ready);
                }
            }
            (Step::Run(since), FromAgent::Done { measurement, .. }) if role == Role::Initiator => {
                let took = now.duration_since(*since);
                self.measured(at, measurement, took, now);
            }
            (Step::Verify(measurement), FromAgent::Verified { verification, .. })
                if role == Role::Target =>
            {
                let measurement = measurement.clone();
                let kind = self.spec(at).kind;
                let verified = verified(kind, &measurement, verification);
                self.end(
                    at,
                    Outcome::Measured {
                        measurement,
                        verified,
                    },
                    now,
                );
            }
            (
                Step::Release(_, released),
                FromAgent::Released { .. }
                | FromAgent::ProbeFailed { .. }
                | FromAgent::ProbeDeclined { .. },
            ) => {
                released[end] = true;
                self.finish_if_released(at);
            }
            (Step::Over, _) => {}
            (_, FromAgent::ProbeFailed { stage, why, .. }) => {
                self.failed(at, role, stage, why, now)
            }
            _ => {}
        }
    }

    /// Gives each end the other's endpoint, once both are there.
    fn cross(&mut self, at: usize, now: Instant) {
        let probe = &mut self.probes[at];
        let Step::Prepare([Some(initiator), Some(target)]) = &probe.step else {
            return;
        };
        let id = probe.seat.planned.probe;
        let connect = |peer: &Endpoint| ToAgent::Connect {
            probe: id,
            peer: peer.clone(),
        };
        self.out
            .push(Action::Send(probe.seat.initiator, connect(target)));
        self.out
            .push(Action::Send(probe.seat.target, connect(initiator)));
        probe.deadline = now + STEP;
        self.set(at, Step::Connect([false, false]));
    }

    /// All rails and pairs of a round load the fabric together, so none starts before the others.
    fn start_when_all_are_ready(&mut self, now: Instant) {
        if self.waiting > 0 || self.has_begun {
            return;
        }
        self.has_begun = true;
        let usual = &self.spec;
        for probe in self
            .probes
            .iter_mut()
            .filter(|probe| matches!(probe.step, Step::Ready))
        {
            let id = probe.seat.planned.probe;
            self.out.push(Action::Send(
                probe.seat.initiator,
                ToAgent::Run { probe: id },
            ));
            self.out
                .push(Action::Emit(Event::ProbeStarted { probe: id }));
            let spec = probe.seat.planned.spec.as_ref().unwrap_or(usual);
            probe.step = Step::Run(now);
            probe.deadline = now + Duration::from_millis(spec.duration_ms.into()) + STEP;
        }
    }

    fn measured(&mut self, at: usize, measurement: Measurement, took: Duration, now: Instant) {
        let clock = || match self.compare_clocks {
            true => same_clock(&measurement, took),
            false => Ok(()),
        };
        if let Err(why) = believable(&measurement, self.spec(at)).and_then(|()| clock()) {
            return self.failed(at, Role::Initiator, ProbeStage::Run, why, now);
        }
        let probe = &mut self.probes[at];
        let id = probe.seat.planned.probe;
        self.out.push(Action::Send(
            probe.seat.target,
            ToAgent::Verify { probe: id },
        ));
        probe.deadline = now + STEP;
        self.set(at, Step::Verify(measurement));
    }

    fn failed(&mut self, at: usize, role: Role, stage: ProbeStage, why: String, now: Instant) {
        let node = nic(&self.probes[at].seat, role).node.clone();
        let outcome = match self.set(at, Step::Over) {
            // Data moved; only the look at it afterwards went wrong.
            Step::Verify(measurement) => Outcome::Measured {
                measurement,
                verified: Fact::unknown(format!("{node}: {why}")),
            },
            _ => Outcome::Failed {
                stage,
                node: Some(node),
                why,
            },
        };
        self.end(at, outcome, now);
    }

    fn end(&mut self, at: usize, outcome: Outcome, now: Instant) {
        let probe = &mut self.probes[at];
        let id = probe.seat.planned.probe;
        for role in [Role::Initiator, Role::Target] {
            self.out.push(Action::Send(
                place(&probe.seat, role),
                ToAgent::Release { probe: id },
            ));
        }
        probe.deadline = now + RELEASE;
        self.set(at, Step::Release(outcome, [false, false]));
    }

    fn finish_if_released(&mut self, at: usize) {
        if matches!(self.probes[at].step, Step::Release(_, [true, true])) {
            self.finish(at);
        }
    }

    fn finish(&mut self, at: usize) {
        let probe = self.probes[at].seat.planned.probe;
        if let Step::Release(outcome, _) = self.set(at, Step::Over) {
            self.out
                .push(Action::Emit(Event::ProbeEnded { probe, outcome }));
        }
    }

    /// A node is gone: its probes end, with nobody but it accused.
    pub(super) fn lost(&mut self, node: usize, now: Instant) {
        for at in 0..self.probes.len() {
            for role in [Role::Initiator, Role::Target] {
                if place(&self.probes[at].seat, role) == node {
                    self.lost_end(at, role, now);
                }
            }
        }
        self.start_when_all_are_ready(now);
    }

    fn lost_end(&mut self, at: usize, role: Role, now: Instant) {
        let stage = stage_of(&self.probes[at].step);
        if let Some(stage) = stage {
            self.failed(at, role, stage, NODE_LOST.to_owned(), now);
        }
        if let Step::Release(_, released) = &mut self.probes[at].step {
            released[index(role)] = true;
            self.finish_if_released(at);
        }
    }

    /// Ends every probe that is past its deadline.
    pub(super) fn tick(&mut self, now: Instant) {
        for at in 0..self.probes.len() {
            if now < self.probes[at].deadline {
                continue;
            }
            let (role, stage) = match &self.probes[at].step {
                Step::Prepare([None, _]) => (Role::Initiator, ProbeStage::Prepare),
                Step::Prepare(_) => (Role::Target, ProbeStage::Prepare),
                Step::Connect([false, _]) => (Role::Initiator, ProbeStage::Connect),
                Step::Connect(_) => (Role::Target, ProbeStage::Connect),
                Step::Ready | Step::Run(_) => (Role::Initiator, ProbeStage::Run),
                Step::Verify(_) => (Role::Target, ProbeStage::Verify),
                Step::Release(..) => {
                    self.finish(at);
                    continue;
                }
                Step::Over => continue,
            };
            let why = format!("no answer to {stage} within the time allowed");
            self.failed(at, role, stage, why, now);
        }
        self.start_when_all_are_ready(now);
    }

    /// Gives up every probe that has not ended.
    pub(super) fn abandon(&mut self, why: &str, now: Instant) {
        for at in 0..self.probes.len() {
            if stage_of(&self.probes[at].step).is_some() {
                self.end(
                    at,
                    Outcome::NotRun {
                        why: why.to_owned(),
                    },
                    now,
                );
            }
        }
    }
}

fn index(role: Role) -> usize {
    match role {
        Role::Initiator => 0,
        Role::Target => 1,
    }
}

fn place(seat: &Seat, role: Role) -> usize {
    match role {
        Role::Initiator => seat.initiator,
        Role::Target => seat.target,
    }
}

fn nic(seat: &Seat, role: Role) -> &NicId {
    match role {
        Role::Initiator => &seat.planned.pair.from,
        Role::Target => &seat.planned.pair.to,
    }
}

fn prepare(seat: &Seat, role: Role, spec: &ProbeSpec, force: bool) -> ToAgent {
    let route = &seat.planned.route;
    let address = match role {
        Role::Initiator => &route.from,
        Role::Target => &route.to,
    };
    let nic = nic(seat, role);
    let port = LocalPort {
        device: nic.device.to_string(),
        port: nic.port,
        gid_index: address.gid_index,
        gpu: seat.gpus[index(role)].clone(),
    };
    ToAgent::Prepare {
        probe: seat.planned.probe,
        role,
        spec: seat.planned.spec.as_ref().unwrap_or(spec).clone(),
        port,
        nonce: seat.nonce,
        force,
    }
}

/// The step of a probe that has not ended.
fn stage_of(step: &Step) -> Option<ProbeStage> {
    match step {
        Step::Prepare(_) => Some(ProbeStage::Prepare),
        Step::Connect(_) | Step::Ready => Some(ProbeStage::Connect),
        Step::Run(_) => Some(ProbeStage::Run),
        Step::Verify(_) => Some(ProbeStage::Verify),
        Step::Release(..) | Step::Over => None,
    }
}

fn probe_of(message: &FromAgent) -> Option<ProbeId> {
    match message {
        FromAgent::Prepared { probe, .. }
        | FromAgent::Connected { probe }
        | FromAgent::Done { probe, .. }
        | FromAgent::Verified { probe, .. }
        | FromAgent::Released { probe }
        | FromAgent::ProbeDeclined { probe, .. }
        | FromAgent::ProbeFailed { probe, .. } => Some(*probe),
        FromAgent::Hello { .. }
        | FromAgent::Heartbeat
        | FromAgent::Facts { .. }
        | FromAgent::Watching { .. }
        | FromAgent::Sampled { .. }
        | FromAgent::QueuePairs { .. }
        | FromAgent::NcclTestSaid { .. }
        | FromAgent::NcclTestEnded { .. }
        | FromAgent::Refused { .. } => None,
    }
}
