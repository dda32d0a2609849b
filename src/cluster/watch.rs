//! Leads a watch: connect, ask every agent for samples, pass on what comes. Nothing is probed.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::conductor::Limits;
use super::fleet::{Fleet, FromNode};
use super::muster::versions_differ;
use crate::model::{Event, NodeName};
use crate::wire::{FromAgent, PROTOCOL, ToAgent};

/// Who watches.
pub trait Onlooker {
    /// Why it cannot go on.
    type Error;

    /// Hears what happened.
    fn learn(&mut self, event: Event);

    /// An interval is over; whether to go on.
    ///
    /// # Errors
    /// Where it cannot show what it knows.
    fn tick(&mut self) -> Result<ControlFlow<()>, Self::Error>;
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Starting,
    Greeted,
    Watched,
    Lost,
}

struct Member {
    name: NodeName,
    stage: Stage,
    heard: Instant,
}

/// How long to wait before looking whether to stop.
const PATIENCE: Duration = Duration::from_millis(100);

/// A watch over `fleet`, whose members are `nodes` in that order, until `stop` or the onlooker ends
/// it. Agents end with it.
///
/// # Errors
/// The onlooker's. Whatever happens to nodes is no error but an event.
pub fn watch<O: Onlooker>(
    mut fleet: impl Fleet,
    nodes: &[NodeName],
    interval: Duration,
    limits: Limits,
    stop: &AtomicBool,
    onlooker: &mut O,
) -> Result<(), O::Error> {
    let now = Instant::now();
    let member = |name: &NodeName| Member {
        name: name.clone(),
        stage: Stage::Starting,
        heard: now,
    };
    let mut watch = Watch {
        fleet: &mut fleet,
        members: nodes.iter().map(member).collect(),
        interval,
        limits,
        onlooker,
    };
    let result = watch.lead(stop);
    fleet.close();
    result
}

struct Watch<'a, F, O> {
    fleet: &'a mut F,
    members: Vec<Member>,
    interval: Duration,
    limits: Limits,
    onlooker: &'a mut O,
}

impl<F: Fleet, O: Onlooker> Watch<'_, F, O> {
    fn lead(&mut self, stop: &AtomicBool) -> Result<(), O::Error> {
        let mut due = Instant::now() + self.interval;
        while !stop.load(Ordering::Relaxed) {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.lose_the_silent();
                if self.onlooker.tick()?.is_break() {
                    break;
                }
                due = (due + self.interval).max(Instant::now());
                continue;
            }
            if let Some((node, news)) = self.fleet.next(left.min(PATIENCE)) {
                self.hear(node, news);
            }
        }
        Ok(())
    }

    fn hear(&mut self, node: usize, news: FromNode) {
        let Some(member) = self.members.get_mut(node) else {
            return;
        };
        let name = member.name.clone();
        let event = match (member.stage, news) {
            (Stage::Lost, _) => return,
            (_, FromNode::Gone(why)) => return self.lose(node, why),
            (_, FromNode::Said(FromAgent::Refused { why })) => {
                return self.lose(node, format!("its agent ended: {why}"));
            }
            (_, FromNode::Dropped(count)) => Event::ReadingsDropped { node: name, count },
            (Stage::Starting, FromNode::Stage(stage)) => Event::NodeStage { node: name, stage },
            (Stage::Starting, FromNode::Said(hello)) => return self.greet(node, hello),
            (Stage::Greeted | Stage::Watched, FromNode::Said(FromAgent::Watching { layout })) => {
                member.stage = Stage::Watched;
                Event::NodeWatched { node: name, layout }
            }
            (Stage::Watched, FromNode::Said(FromAgent::Sampled { sample })) => {
                Event::NodeSampled { node: name, sample }
            }
            (Stage::Watched, FromNode::Said(FromAgent::QueuePairs { queue_pairs })) => {
                Event::NodeQueuePairs {
                    node: name,
                    queue_pairs,
                }
            }
            // A heartbeat says that the agent lives, which is not yet an answer.
            (Stage::Watched, FromNode::Said(_)) => return member.heard = Instant::now(),
            _ => return,
        };
        member.heard = Instant::now();
        self.onlooker.learn(event);
    }

    fn greet(&mut self, node: usize, hello: FromAgent) {
        let FromAgent::Hello {
            protocol, linerate, ..
        } = hello
        else {
            return self.lose(node, "its agent spoke before it said hello".into());
        };
        if protocol != PROTOCOL {
            return self.lose(node, versions_differ(protocol, &linerate));
        }
        let member = &mut self.members[node];
        member.stage = Stage::Greeted;
        member.heard = Instant::now();
        let name = member.name.clone();
        let interval_ms = u32::try_from(self.interval.as_millis()).unwrap_or(u32::MAX);
        self.fleet.send(node, &ToAgent::Watch { interval_ms });
        self.onlooker.learn(Event::NodeConnected {
            node: name,
            agent: linerate,
        });
    }

    fn lose(&mut self, node: usize, why: String) {
        self.members[node].stage = Stage::Lost;
        let name = self.members[node].name.clone();
        self.fleet.send(node, &ToAgent::Bye);
        self.onlooker.learn(Event::NodeLost { node: name, why });
    }

    fn lose_the_silent(&mut self) {
        let now = Instant::now();
        for node in 0..self.members.len() {
            let member = &self.members[node];
            let limit = match member.stage {
                Stage::Lost => continue,
                Stage::Watched => self.limits.silence,
                Stage::Starting | Stage::Greeted => self.limits.step,
            };
            if now.duration_since(member.heard) > limit {
                let why = format!("nothing was heard of it for {} s", limit.as_secs());
                self.lose(node, why);
            }
        }
    }
}
