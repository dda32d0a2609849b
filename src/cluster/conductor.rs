//! Leads a run from the first connection to the last retest.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::fleet::{Fleet, FromNode};
use super::planning;
use super::round::{Action, Round, Seat};
use crate::judge::wider;
use crate::ledger::Ledger;
use crate::model::{
    Event, MemoryKind, NodeName, Outcome, Pair, PlannedPair, ProbeId, ProbeSpec, Purpose, RunEnd,
    RunSettings, SCHEMA,
};
use crate::plan::{PlannedRound, Probes};
use crate::wire::{FromAgent, PROTOCOL, ToAgent};

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
enum Stage {
    Starting,
    Greeted,
    Ready,
    Lost,
}

struct Member {
    name: NodeName,
    stage: Stage,
    heard: Instant,
}

/// The run: its nodes, its books, and where its events go.
pub struct Conductor<'a, F, E> {
    fleet: F,
    settings: RunSettings,
    limits: Limits,
    members: Vec<Member>,
    places: HashMap<NodeName, usize>,
    ledger: Ledger,
    emit: &'a mut dyn FnMut(Event) -> Result<(), E>,
    stop: &'a AtomicBool,
    next_probe: u64,
    next_round: u32,
    /// When deadlines were looked at last.
    looked: Instant,
}

/// How often a round is played that follows up on the pattern.
const TIMES: usize = 2;

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(200);

type Step<E> = Result<(), ConductError<E>>;

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
            next_probe: 0,
            next_round: 0,
            looked: now,
        }
    }

    /// Goes on after what an earlier part of the run learned: that is not measured again. An empty
    /// ledger is a new run.
    pub fn after(mut self, so_far: Ledger) -> Self {
        (self.next_probe, self.next_round) = (so_far.next_probe(), so_far.next_round());
        self.ledger = so_far;
        self
    }

    /// Runs to the end: the pairs of the pattern, then whatever is left in doubt.
    ///
    /// # Errors
    /// [`ConductError::Emit`] with the first error of `emit`. Whatever happens to nodes is no error
    /// but an event.
    pub fn run(mut self) -> Step<E> {
        let result = self.lead();
        self.fleet.close();
        result
    }

    fn lead(&mut self) -> Step<E> {
        self.tell(self.first())?;
        self.gather()?;
        let rounds = self.plan()?;
        for pairs in rounds {
            let round = self.begin_round();
            let of_pattern = |pair| (pair, Purpose::Pattern);
            self.play(round, pairs.into_iter().map(of_pattern).collect())?;
        }
        self.follow_up()?;
        let end = if self.stopped() {
            RunEnd::Interrupted
        } else {
            RunEnd::Complete
        };
        self.tell(Event::RunFinished { end })
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

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn tell(&mut self, event: Event) -> Step<E> {
        self.ledger.apply(&event);
        (self.emit)(event).map_err(ConductError::Emit)
    }

    /// Waits until every node is surveyed or lost.
    fn gather(&mut self) -> Step<E> {
        let waiting = |m: &Member| matches!(m.stage, Stage::Starting | Stage::Greeted);
        while self.members.iter().any(waiting) && !self.stopped() {
            if let Some((node, news)) = self.fleet.next(TICK) {
                self.admit(node, news)?;
            }
            let now = self.fleet.now();
            if now.duration_since(self.looked) >= TICK {
                self.looked = now;
                self.lose_the_silent(&mut |_| {})?;
            }
        }
        Ok(())
    }

    fn admit(&mut self, node: usize, news: FromNode) -> Step<E> {
        let Some(member) = self.members.get_mut(node) else {
            return Ok(());
        };
        let name = member.name.clone();
        let now = self.fleet.now();
        match (member.stage, news) {
            (Stage::Lost, _) => Ok(()),
            (Stage::Starting, FromNode::Stage(stage)) => {
                member.heard = now;
                self.tell(Event::NodeStage { node: name, stage })
            }
            (
                Stage::Starting,
                FromNode::Said(FromAgent::Hello {
                    protocol, linerate, ..
                }),
            ) => {
                if protocol != PROTOCOL {
                    return self.lose(node, &versions_differ(protocol, &linerate));
                }
                member.stage = Stage::Greeted;
                member.heard = now;
                self.fleet.send(node, &ToAgent::Survey);
                self.tell(Event::NodeConnected {
                    node: name,
                    agent: linerate,
                })
            }
            (Stage::Greeted, FromNode::Said(FromAgent::Facts { facts })) => {
                member.stage = Stage::Ready;
                member.heard = now;
                self.tell(Event::NodeSurveyed { node: name, facts })
            }
            (Stage::Starting, FromNode::Said(message))
                if !matches!(message, FromAgent::Refused { .. }) =>
            {
                self.lose(node, "its agent spoke before it said hello")
            }
            (_, FromNode::Said(FromAgent::Refused { why })) => {
                self.lose(node, &format!("its agent ended: {why}"))
            }
            (_, FromNode::Gone(why)) => self.lose(node, &why),
            // A heartbeat says that the agent lives, not that it gets on: while a node is surveyed it
            // does not extend the deadline.
            (Stage::Ready, FromNode::Said(_)) => {
                member.heard = now;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn lose(&mut self, node: usize, why: &str) -> Step<E> {
        self.members[node].stage = Stage::Lost;
        let node_name = self.members[node].name.clone();
        self.fleet.send(node, &ToAgent::Bye);
        self.tell(Event::NodeLost {
            node: node_name,
            why: why.to_owned(),
        })
    }

    /// Gives up nodes that say nothing; `on_loss` hears their place.
    fn lose_the_silent(&mut self, on_loss: &mut dyn FnMut(usize)) -> Step<E> {
        let now = self.fleet.now();
        for node in 0..self.members.len() {
            let member = &self.members[node];
            let limit = match member.stage {
                Stage::Lost => continue,
                Stage::Ready => self.limits.silence,
                Stage::Starting | Stage::Greeted => self.limits.step,
            };
            if now.duration_since(member.heard) > limit {
                let why = format!("nothing was heard of it for {} s", limit.as_secs());
                on_loss(node);
                self.lose(node, &why)?;
            }
        }
        Ok(())
    }

    /// Lays out the rounds of what was not tried yet; pairs that have no route are said to be skipped.
    fn plan(&mut self) -> Result<Vec<PlannedRound>, ConductError<E>> {
        let nics = planning::rail_nics(&self.ledger, &self.settings);
        self.tell(Event::RailsResolved { nics: nics.clone() })?;
        let plan = planning::rounds(&self.ledger, &nics, &self.settings);
        for (pair, why) in plan.skipped {
            self.skip(pair, why)?;
        }
        Ok(plan.rounds)
    }

    fn skip(&mut self, pair: Pair, why: String) -> Step<E> {
        let Pair { from, to, rail } = pair;
        self.tell(Event::PairSkipped {
            from: from.node,
            to: to.node,
            rail,
            why,
        })
    }

    /// Confirms what is suspected and takes apart what is confirmed. Each such round is played twice and
    /// the better counts: something may come in between once.
    fn follow_up(&mut self) -> Step<E> {
        while !self.stopped() {
            let probes = planning::follow_up(&self.ledger, &self.settings);
            if probes.is_empty() {
                return Ok(());
            }
            let round = self.begin_round();
            for _ in 0..TIMES {
                if !self.stopped() {
                    self.play(round, probes.clone())?;
                }
            }
        }
        Ok(())
    }

    fn begin_round(&mut self) -> u32 {
        let round = self.next_round;
        self.next_round = self.next_round.saturating_add(1);
        round
    }

    fn play(&mut self, round: u32, probes: Probes) -> Step<E> {
        let planned = self.announce(round, probes)?;
        let seats = self.seat(planned)?;
        self.play_round(seats)
    }

    fn announce(
        &mut self,
        round: u32,
        probes: Probes,
    ) -> Result<Vec<PlannedPair>, ConductError<E>> {
        let mut planned = Vec::new();
        for (pair, purpose) in probes {
            if let Ok(route) = planning::route_of(&self.ledger, &pair) {
                planned.push(PlannedPair {
                    probe: ProbeId(self.next_probe),
                    spec: self.spec(&pair, purpose),
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
    fn spec(&self, pair: &Pair, purpose: Purpose) -> Option<ProbeSpec> {
        match purpose {
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
                (Some(initiator), Some(target)) => {
                    seats.push(Seat {
                        planned,
                        initiator,
                        target,
                        nonce: rand::random(),
                    });
                }
                (None, _) => self.not_run(&planned, &format!("{from} was lost"))?,
                (_, None) => self.not_run(&planned, &format!("{to} was lost"))?,
            }
        }
        Ok(seats)
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
        let mut round = Round::begin(seats, spec, clocks, self.fleet.now());
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

pub(super) fn versions_differ(protocol: u32, linerate: &str) -> String {
    format!(
        "its agent is linerate {linerate} with protocol {protocol}, this is linerate {} with protocol \
         {PROTOCOL}: remove ~/.cache/linerate on the node and run again",
        env!("CARGO_PKG_VERSION")
    )
}
