//! Leads a run from the first connection to the last retest.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::commands::Asked;
use super::fleet::{Fleet, FromNode};
use super::gpus::Gpus;
use super::planning;
use super::round::{Action, Round, Seat};
use crate::judge::{ceiling, wider};
use crate::ledger::Ledger;
use crate::model::{
    Event, MemoryKind, NodeName, Outcome, Pair, Pattern, PciAddress, PlannedPair, ProbeId,
    ProbeSpec, Purpose, Route, RunEnd, RunSettings, SCHEMA, StopAt,
};
use crate::plan::{PlannedRound, Probes};

/// How long the conductor waits for things that have no deadline of their own.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A node on its way to a surveyed agent that takes no step for so long is lost.
    pub step: Duration,
    /// An agent that says nothing for so long is lost. Agents send a heartbeat every few seconds.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            step: Duration::from_secs(120),
            silence: Duration::from_secs(30),
        }
    }
}

/// Why a run stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum ConductError<E: std::error::Error + 'static> {
    /// What was learned could not be passed on; probing without a record would lose it.
    #[error("the run was stopped, because what it learns cannot be kept")]
    Emit(#[source] E),
}

/// Where a node is, beside what the ledger knows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stage {
    Starting,
    Greeted,
    Ready,
    Lost,
}

pub(super) struct Member {
    pub(super) name: NodeName,
    pub(super) stage: Stage,
    pub(super) heard: Instant,
    /// When it was lost that had been ready, until it is asked whether it is back.
    pub(super) lost: Option<Instant>,
}

/// The run: its nodes, its books, and where its events go.
pub struct Conductor<'a, F, E> {
    pub(super) fleet: F,
    pub(super) settings: RunSettings,
    pub(super) limits: Limits,
    pub(super) members: Vec<Member>,
    places: HashMap<NodeName, usize>,
    pub(super) ledger: Ledger,
    emit: &'a mut dyn FnMut(Event) -> Result<(), E>,
    stop: &'a AtomicBool,
    /// What is asked of it while it runs.
    pub(super) asked: Asked<'a>,
    next_probe: u64,
    next_round: u32,
    /// Which GPU belongs to a NIC.
    gpus: Gpus,
    /// When deadlines were looked at last.
    pub(super) looked: Instant,
    /// When no round may begin any more.
    ends: Option<Instant>,
    /// Whether a round did not begin for it.
    is_time_up: bool,
}

/// How often a round is played that follows up on the pattern.
const TIMES: usize = 2;

/// How often deadlines are looked at.
pub(super) const TICK: Duration = Duration::from_millis(200);

pub(super) type Step<E> = Result<(), ConductError<E>>;

impl<'a, F: Fleet, E: std::error::Error + 'static> Conductor<'a, F, E> {
    /// A run over `fleet`, whose members are `settings.nodes` in that order. `emit` gets every event
    /// as it happens; `stop` ends the run early.
    pub fn new(
        fleet: F,
        settings: RunSettings,
        limits: Limits,
        stop: &'a AtomicBool,
        emit: &'a mut dyn FnMut(Event) -> Result<(), E>,
    ) -> Self {
        let now = fleet.now();
        let member = |name: &NodeName| Member {
            name: name.clone(),
            stage: Stage::Starting,
            heard: now,
            lost: None,
        };
        let members: Vec<Member> = settings.nodes.iter().map(member).collect();
        let places = members
            .iter()
            .enumerate()
            .map(|(place, m)| (m.name.clone(), place))
            .collect();
        let ledger = Ledger::default();
        Self {
            fleet,
            settings,
            limits,
            members,
            places,
            ledger,
            emit,
            stop,
            asked: Asked::default(),
            next_probe: 0,
            next_round: 0,
            gpus: Gpus::default(),
            looked: now,
            ends: None,
            is_time_up: false,
        }
    }

    /// Goes on after what an earlier part of the run learned: that is not measured again. An empty
    /// ledger is a new run.
    pub fn after(mut self, so_far: Ledger) -> Self {
        (self.next_probe, self.next_round) = (so_far.next_probe(), so_far.next_round());
        self.ledger = so_far;
        self
    }

    /// Runs to the end: the pairs of the pattern, then whatever is left in doubt. Gives the books of the
    /// run, which are what its events add up to.
    ///
    /// # Errors
    /// [`ConductError::Emit`] with the first error of `emit`. Whatever happens to nodes is no error
    /// but an event.
    pub fn run(mut self) -> Result<Ledger, ConductError<E>> {
        let result = self.lead();
        self.fleet.close();
        result.map(|()| self.ledger)
    }

    fn lead(&mut self) -> Step<E> {
        self.tell(self.first())?;
        let budget = self.settings.sweep.time_budget_s.map(Duration::from_secs);
        self.ends = budget.and_then(|budget| self.fleet.now().checked_add(budget));
        self.gather()?;
        self.measure()?;
        if self.bring_back()? {
            self.measure()?;
        }
        self.test_nccl()?;
        let end = match (self.stopped(), self.is_time_up) {
            (true, _) => RunEnd::Interrupted,
            (_, true) => RunEnd::TimeUp,
            _ => RunEnd::Complete,
        };
        self.tell(Event::RunFinished { end })
    }

    /// The rounds of the pattern that are still to be played, then what they leave in doubt, then what
    /// moving data costs.
    fn measure(&mut self) -> Step<E> {
        self.gpus = Gpus::default();
        for pairs in self.plan()? {
            self.obey()?;
            if self.out_of_time() {
                break;
            }
            let round = self.begin_round();
            let of_pattern = |pair| (pair, Purpose::Pattern);
            self.play(round, pairs.into_iter().map(of_pattern).collect())?;
        }
        self.follow_up()?;
        self.weigh()
    }

    fn first(&self) -> Event {
        let linerate = env!("CARGO_PKG_VERSION").to_owned();
        match self.ledger.settings() {
            Some(_) => Event::RunResumed { linerate },
            None => Event::RunStarted {
                schema: SCHEMA,
                linerate,
                settings: self.settings.clone(),
            },
        }
    }

    /// Whether the time budget is spent; asked where there is something left to do.
    pub(super) fn out_of_time(&mut self) -> bool {
        self.is_time_up |= self.ends.is_some_and(|end| self.fleet.now() >= end);
        self.is_time_up
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn tell(&mut self, event: Event) -> Step<E> {
        self.ledger.apply(&event);
        (self.emit)(event).map_err(ConductError::Emit)
    }

    /// Lays out the rounds of what was not tried yet; pairs that have no route are said to be skipped.
    fn plan(&mut self) -> Result<Vec<PlannedRound>, ConductError<E>> {
        let nics = planning::rail_nics(&self.ledger, &self.settings);
        self.tell(Event::RailsResolved { nics: nics.clone() })?;
        let plan = planning::rounds(&self.ledger, &nics, &self.settings);
        let skipped = self.ledger.skipped().iter();
        let known: HashSet<_> = skipped
            .map(|s| (s.rail, s.from.clone(), s.to.clone()))
            .collect();
        for (pair, why) in plan.skipped {
            if !known.contains(&(pair.rail, pair.from.node.clone(), pair.to.node.clone())) {
                self.skip(pair, why)?;
            }
        }
        Ok(plan.rounds)
    }

    pub(super) fn skip(&mut self, pair: Pair, why: String) -> Step<E> {
        let Pair { from, to, rail } = pair;
        self.tell(Event::PairSkipped {
            from: from.node,
            to: to.node,
            rail,
            why,
        })
    }

    /// Confirms what is suspected, takes apart what is confirmed, and at last measures the ways between
    /// leaf groups. A round that is about NICs is played twice and the better counts: something may come
    /// in between once.
    fn follow_up(&mut self) -> Step<E> {
        while !self.stopped() {
            self.obey()?;
            let probes = planning::follow_up(&self.ledger, &self.settings);
            if probes.is_empty() || self.out_of_time() {
                return Ok(());
            }
            let round = self.begin_round();
            let between = |(_, purpose): &(Pair, Purpose)| *purpose == Purpose::Fabric;
            let times = if probes.iter().all(between) { 1 } else { TIMES };
            for _ in 0..times {
                if !self.stopped() {
                    self.play(round, probes.clone())?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn begin_round(&mut self) -> u32 {
        let round = self.next_round;
        self.next_round = self.next_round.saturating_add(1);
        round
    }

    pub(super) fn play(&mut self, round: u32, probes: Probes) -> Step<E> {
        self.play_as(round, probes, None)
    }

    /// The same; `spec` is what the probes do, where that does not follow from what they are for.
    pub(super) fn play_as(
        &mut self,
        round: u32,
        probes: Probes,
        spec: Option<&ProbeSpec>,
    ) -> Step<E> {
        let planned = self.announce(round, probes, spec)?;
        let seats = self.seat(planned)?;
        self.play_round(seats)
    }

    fn announce(
        &mut self,
        round: u32,
        probes: Probes,
        spec: Option<&ProbeSpec>,
    ) -> Result<Vec<PlannedPair>, ConductError<E>> {
        let mut planned = Vec::new();
        for (pair, purpose) in probes {
            if let Ok(route) = planning::route_of(&self.ledger, &pair) {
                let own = || self.spec(&pair, &route, purpose);
                planned.push(PlannedPair {
                    probe: ProbeId(self.next_probe),
                    spec: spec.cloned().or_else(own),
                    pair,
                    route,
                    purpose,
                });
                self.next_probe = self.next_probe.saturating_add(1);
            }
        }
        self.tell(Event::RoundPlanned {
            round,
            pairs: planned.clone(),
        })?;
        Ok(planned)
    }

    /// What a probe does, where that is not what the settings say.
    ///
    /// Where all pairs are measured, most of the time is spent on those that are plainly good: their
    /// transfers end once they are. What follows up takes its time, so that what is quoted was measured.
    fn spec(&self, pair: &Pair, route: &Route, purpose: Purpose) -> Option<ProbeSpec> {
        let sweep = &self.settings.sweep;
        match purpose {
            Purpose::Pattern if sweep.pattern == Pattern::Full => Some(ProbeSpec {
                stop_at: Some(StopAt::ceiling(ceiling(&self.ledger, pair, route)?)?),
                ..self.settings.probe.clone()
            }),
            Purpose::Wide => wider(&self.ledger, pair),
            Purpose::HostMemory => Some(ProbeSpec {
                memory: MemoryKind::Host,
                ..self.settings.probe.clone()
            }),
            _ => None,
        }
    }

    /// The probes of a round whose nodes are both there; the others end here, not run.
    fn seat(&mut self, planned: Vec<PlannedPair>) -> Result<Vec<Seat>, ConductError<E>> {
        let mut seats = Vec::new();
        for planned in planned {
            let (from, to) = (&planned.pair.from.node, &planned.pair.to.node);
            match (self.ready(from), self.ready(to)) {
                _ if self.stopped() => self.not_run(&planned, "the run was interrupted")?,
                _ if self.asked.excludes(&planned.pair) => {
                    self.not_run(&planned, "the operator excluded its node")?;
                }
                (Some(initiator), Some(target)) => match self.gpus_of(&planned) {
                    Ok(gpus) => seats.push(Seat {
                        planned,
                        initiator,
                        target,
                        nonce: rand::random(),
                        gpus,
                    }),
                    Err(why) => self.not_run(&planned, &why)?,
                },
                (None, _) => self.not_run(&planned, &format!("{from} was lost"))?,
                (_, None) => self.not_run(&planned, &format!("{to} was lost"))?,
            }
        }
        Ok(seats)
    }

    /// The GPUs whose memory a probe uses, the initiator's first; none where it uses the host's.
    fn gpus_of(&mut self, planned: &PlannedPair) -> Result<[Option<PciAddress>; 2], String> {
        let spec = planned.spec.as_ref().unwrap_or(&self.settings.probe);
        if !spec.memory.is_gpu() {
            return Ok([None, None]);
        }
        let mut of = |nic| self.gpus.of(&self.ledger, nic).map(Some);
        Ok([of(&planned.pair.from)?, of(&planned.pair.to)?])
    }

    fn ready(&self, node: &NodeName) -> Option<usize> {
        let place = *self.places.get(node)?;
        (self.members[place].stage == Stage::Ready).then_some(place)
    }

    fn not_run(&mut self, planned: &PlannedPair, why: &str) -> Step<E> {
        let outcome = Outcome::NotRun {
            why: why.to_owned(),
        };
        self.tell(Event::ProbeEnded {
            probe: planned.probe,
            outcome,
        })
    }

    fn play_round(&mut self, seats: Vec<Seat>) -> Step<E> {
        let (spec, clocks) = (&self.settings.probe, self.fleet.is_real_time());
        let force = self.settings.force;
        let mut round = Round::begin(seats, spec, clocks, force, self.fleet.now());
        let mut abandoned = false;
        loop {
            self.act(&mut round)?;
            if round.is_over() {
                return Ok(());
            }
            if self.stopped() && !abandoned {
                abandoned = true;
                round.abandon("the run was interrupted", self.fleet.now());
                continue;
            }
            if let Some((node, news)) = self.fleet.next(TICK) {
                self.during(&mut round, node, news)?;
            }
            let now = self.fleet.now();
            if now.duration_since(self.looked) >= TICK {
                self.looked = now;
                self.lose_the_silent(&mut |node| round.lost(node, now))?;
                round.tick(now);
            }
        }
    }

    fn during(&mut self, round: &mut Round, node: usize, news: FromNode) -> Step<E> {
        let lost_before = self
            .members
            .get(node)
            .is_none_or(|m| m.stage == Stage::Lost);
        match news {
            FromNode::Said(message) if !lost_before => {
                round.heard(node, message.clone(), self.fleet.now());
                self.admit(node, FromNode::Said(message))?;
            }
            news => self.admit(node, news)?,
        }
        let lost_now = self
            .members
            .get(node)
            .is_some_and(|m| m.stage == Stage::Lost);
        if lost_now && !lost_before {
            round.lost(node, self.fleet.now());
        }
        Ok(())
    }

    fn act(&mut self, round: &mut Round) -> Step<E> {
        for action in round.actions() {
            match action {
                Action::Send(node, message) => self.fleet.send(node, &message),
                Action::Emit(event) => self.tell(event)?,
            }
        }
        Ok(())
    }
}
