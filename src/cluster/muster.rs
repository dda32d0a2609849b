//! Who is there: nodes on their way to an agent, surveyed, lost, and back.

use std::time::Duration;

use super::conductor::{ConductError, Conductor, Member, Stage, Step, TICK};
use super::fleet::{Fleet, FromNode};
use crate::model::Event;
use crate::wire::{FromAgent, PROTOCOL, ToAgent};

/// An agent whose connection broke may hold its queue pairs for as long as its lease: until then a new
/// one would take them for a job's.
const LEASE: Duration = Duration::from_secs(16);

impl<F: Fleet, E: std::error::Error + 'static> Conductor<'_, F, E> {
    /// Waits until every node is surveyed or lost.
    pub(super) fn gather(&mut self) -> Step<E> {
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

    pub(super) fn admit(&mut self, node: usize, news: FromNode) -> Step<E> {
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
                self.sample(node);
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
            (_, FromNode::Dropped(count)) => {
                self.tell(Event::ReadingsDropped { node: name, count })
            }
            // A heartbeat says that the agent lives, not that it gets on: while a node is surveyed it
            // does not extend the deadline.
            (Stage::Ready, FromNode::Said(said)) => {
                member.heard = now;
                let reading = self.reading(&name, said);
                reading.map_or(Ok(()), |reading| self.tell(reading))
            }
            _ => Ok(()),
        }
    }

    fn lose(&mut self, node: usize, why: &str) -> Step<E> {
        let now = self.fleet.now();
        let member = &mut self.members[node];
        let before = std::mem::replace(&mut member.stage, Stage::Lost);
        member.lost = (before == Stage::Ready).then_some(now);
        let node_name = member.name.clone();
        self.fleet.send(node, &ToAgent::Bye);
        self.tell(Event::NodeLost {
            node: node_name,
            why: why.to_owned(),
        })
    }

    /// Gives up nodes that say nothing; `on_loss` hears their place.
    pub(super) fn lose_the_silent(&mut self, on_loss: &mut dyn FnMut(usize)) -> Step<E> {
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

    /// Asks the nodes that were lost on the way, each once, whether they are back; whether one is.
    pub(super) fn bring_back(&mut self) -> Result<bool, ConductError<E>> {
        let mut asked = Vec::new();
        for node in 0..self.members.len() {
            let Some(lost) = self.members[node].lost.take() else {
                continue;
            };
            while self.fleet.now() < lost + LEASE && !self.stopped() && !self.out_of_time() {
                if let Some((node, news)) = self.fleet.next(TICK) {
                    self.admit(node, news)?;
                }
            }
            if self.stopped() || self.out_of_time() || !self.fleet.reconnect(node) {
                continue;
            }
            let now = self.fleet.now();
            let member = &mut self.members[node];
            (member.stage, member.heard) = (Stage::Starting, now);
            let (name, stage) = (member.name.clone(), "connecting again".to_owned());
            self.tell(Event::NodeStage { node: name, stage })?;
            asked.push(node);
        }
        self.gather()?;
        let is_back = |node: &usize| self.members[*node].stage == Stage::Ready;
        Ok(asked.iter().any(is_back))
    }
}

pub(super) fn versions_differ(protocol: u32, linerate: &str) -> String {
    format!(
        "its agent is linerate {linerate} with protocol {protocol}, this is linerate {} with protocol \
         {PROTOCOL}: remove ~/.cache/linerate on the node and run again",
        env!("CARGO_PKG_VERSION")
    )
}
