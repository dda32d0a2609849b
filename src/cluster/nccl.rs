//! nccl-tests at the end of a run: each node by itself, or all by the operator's launcher.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::conductor::{ConductError, Conductor, Stage, Step, TICK};
use super::fleet::{Fleet, FromNode};
use crate::model::{Event, NcclSettings, NcclTestEnd, NodeFacts, NodeName};
use crate::nccl::{MAX_OF_NODE, NcclLaunch};
use crate::plan::work_on;
use crate::wire::{FromAgent, ToAgent};

/// How much longer than its tests may take a node has to say that they ended.
const GRACE: Duration = Duration::from_secs(30);

/// GPUs that a node needs for NCCL to send anything within it.
const LEAST_ALONE: u32 = 2;

const INTERRUPTED: &str = "the run was interrupted";

/// A node whose GPUs can be tested.
struct Able {
    place: usize,
    name: NodeName,
    gpus: u32,
}

/// A node whose tests run.
struct Running {
    name: NodeName,
    deadline: Instant,
    /// Bytes that are still taken of it.
    room: usize,
    left_out: u64,
}

/// What comes of the launcher.
enum News {
    Said(Vec<String>),
    Ended(NcclTestEnd),
}

impl<F: Fleet, E: std::error::Error + 'static> Conductor<'_, F, E> {
    /// Has nccl-tests run, where that is asked for and they have not.
    pub(super) fn test_nccl(&mut self) -> Step<E> {
        let Some(settings) = self.settings.nccl.clone() else {
            return Ok(());
        };
        self.obey()?;
        if self.stopped()
            || self
                .ledger
                .nccl_test(None)
                .is_some_and(|test| test.is_over())
        {
            return Ok(());
        }
        let able = self.able(settings.launcher.is_empty())?;
        let most =
            (self.settings.nodes.len() as f64 * self.settings.sweep.max_load).max(1.0) as usize;
        match settings.launcher.is_empty() {
            true => self.test_alone(&settings, &able, most),
            false => self.test_together(&settings, able, most),
        }
    }

    /// The nodes whose GPUs can be tested. Of the others it is said why not, except where nodes without a
    /// GPU are beside some that have one.
    fn able(&mut self, alone: bool) -> Result<Vec<Able>, ConductError<E>> {
        let (mut able, mut unable, mut without) = (Vec::new(), Vec::new(), Vec::new());
        for (place, member) in self.members.iter().enumerate() {
            let name = member.name.clone();
            let known = self.ledger.nccl_test(Some(&name));
            if known.is_some_and(|test| test.is_over()) {
                continue;
            }
            let is_there = member.stage == Stage::Ready && !self.asked.excludes_node(&name);
            let node = self.ledger.get_node(&name);
            let facts = node.and_then(|node| node.facts.as_ref());
            match facts
                .filter(|_| is_there)
                .map(|facts| self.gpus_free(facts, alone))
            {
                None => unable.push((name, "the node is not there".to_owned())),
                Some(Ok(0)) => without.push((name, "its survey shows no GPU".to_owned())),
                Some(Ok(gpus)) => able.push(Able { place, name, gpus }),
                Some(Err(why)) => unable.push((name, why)),
            }
        }
        if able.is_empty() {
            unable.append(&mut without);
        }
        for (name, why) in unable {
            self.end_test(Some(name), NcclTestEnd::failed(why))?;
        }
        Ok(able)
    }

    /// How many GPUs of a node can be tested.
    fn gpus_free(&self, facts: &NodeFacts, alone: bool) -> Result<u32, String> {
        let gpus = match (facts.gpu.cuda.value(), facts.pcie.value()) {
            (Some(cuda), _) => cuda.gpus.len(),
            (None, Some(tree)) => tree.gpus().count(),
            (None, None) => {
                let why = facts.pcie.why_unknown().unwrap_or("nobody looked");
                return Err(format!("how many GPUs it has is not known: {why}"));
            }
        };
        let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
        if alone && gpus > 0 && gpus < LEAST_ALONE {
            return Err(
                "a single GPU sends nothing within its node: a launcher ([nccl] in the cluster file) tests \
                 several nodes together"
                    .to_owned(),
            );
        }
        let devices = facts.rdma.value().map_or(&[][..], Vec::as_slice);
        let busy = devices.iter().find_map(|device| {
            let ports = device.ports.iter().map(Some);
            let work = ports.chain([None]).find_map(|port| work_on(device, port))?;
            Some(format!("{} is in use: {work}", device.name))
        });
        match busy.filter(|_| gpus > 0 && !self.settings.force) {
            Some(busy) => Err(format!("{busy} (--force tests it all the same)")),
            None => Ok(gpus),
        }
    }

    fn end_test(&mut self, on: Option<NodeName>, end: NcclTestEnd) -> Step<E> {
        self.tell(Event::NcclTestEnded { on, end })
    }

    /// Each node by itself, no more than `most` at one time.
    fn test_alone(&mut self, settings: &NcclSettings, able: &[Able], most: usize) -> Step<E> {
        for some in able.chunks(most) {
            self.obey()?;
            if self.out_of_time() || self.stopped() {
                for Able { name, .. } in some {
                    let why = if self.stopped() {
                        INTERRUPTED
                    } else {
                        "the time budget was spent"
                    };
                    self.end_test(Some(name.clone()), NcclTestEnd::failed(why))?;
                }
                continue;
            }
            let mut running = BTreeMap::new();
            for node in some {
                running.insert(node.place, self.start_on(settings, node)?);
            }
            self.hear_tests(running)?;
        }
        Ok(())
    }

    fn start_on(
        &mut self,
        settings: &NcclSettings,
        node: &Able,
    ) -> Result<Running, ConductError<E>> {
        let nodes = vec![node.name.clone()];
        let command = settings.arguments(&nodes, node.gpus);
        let timeout = Duration::from_secs(settings.timeout_s.into());
        self.tell(Event::NcclTestStarted {
            on: Some(node.name.clone()),
            nodes,
            command: command.clone(),
        })?;
        let timeout_s = settings.timeout_s;
        self.fleet
            .send(node.place, &ToAgent::NcclTest { command, timeout_s });
        Ok(Running {
            name: node.name.clone(),
            deadline: self.fleet.now() + timeout + GRACE,
            room: MAX_OF_NODE,
            left_out: 0,
        })
    }

    fn hear_tests(&mut self, mut running: BTreeMap<usize, Running>) -> Step<E> {
        while !running.is_empty() {
            if self.stopped() {
                for (_, test) in std::mem::take(&mut running) {
                    self.end_test(Some(test.name), NcclTestEnd::failed(INTERRUPTED))?;
                }
                break;
            }
            if let Some((node, news)) = self.fleet.next(TICK) {
                self.hear_test(&mut running, node, news)?;
            }
            self.lose_the_silent(&mut |_| {})?;
            let now = self.fleet.now();
            let over = |(place, test): (&usize, &Running)| match self.members[*place].stage {
                Stage::Ready if now < test.deadline => None,
                Stage::Ready => Some((*place, "its agent did not say how they ended")),
                _ => Some((*place, "the node was lost")),
            };
            let over: Vec<_> = running.iter().filter_map(over).collect();
            for (place, why) in over {
                if let Some(test) = running.remove(&place) {
                    self.end_test(Some(test.name), NcclTestEnd::failed(why))?;
                }
            }
        }
        Ok(())
    }

    fn hear_test(
        &mut self,
        running: &mut BTreeMap<usize, Running>,
        node: usize,
        news: FromNode,
    ) -> Step<E> {
        match (running.get_mut(&node), news) {
            (Some(test), FromNode::Said(FromAgent::NcclTestSaid { mut lines })) => {
                let all = lines.len();
                lines.retain(|line| {
                    let fits = line.len() < test.room;
                    test.room -= if fits { line.len() + 1 } else { 0 };
                    fits
                });
                test.left_out += (all - lines.len()) as u64;
                let on = Some(test.name.clone());
                self.admit(node, FromNode::Said(FromAgent::Heartbeat))?;
                self.tell(Event::NcclTestSaid { on, lines })
            }
            (Some(_), FromNode::Said(FromAgent::NcclTestEnded { mut end })) => {
                self.admit(node, FromNode::Said(FromAgent::Heartbeat))?;
                let Some(test) = running.remove(&node) else {
                    return Ok(());
                };
                end.left_out = end.left_out.saturating_add(test.left_out);
                end.last.truncate(MOST_LAST);
                self.end_test(Some(test.name), end)
            }
            (_, news) => self.admit(node, news),
        }
    }

    /// All nodes, by the launcher.
    fn test_together(
        &mut self,
        settings: &NcclSettings,
        mut able: Vec<Able>,
        most: usize,
    ) -> Step<E> {
        for kept_out in able.drain(most.min(able.len())..).collect::<Vec<_>>() {
            let why = "no more nodes may carry traffic at one time (max_load)";
            self.end_test(Some(kept_out.name), NcclTestEnd::failed(why))?;
        }
        if able.is_empty() {
            return Ok(());
        }
        if self.out_of_time() {
            return self.end_test(None, NcclTestEnd::failed("the time budget was spent"));
        }
        let nodes: Vec<NodeName> = able.iter().map(|node| node.name.clone()).collect();
        let gpus = able.iter().map(|node| node.gpus).min().unwrap_or_default();
        let command = settings.arguments(&nodes, gpus);
        self.tell(Event::NcclTestStarted {
            on: None,
            nodes,
            command: command.clone(),
        })?;
        let launch = NcclLaunch {
            command,
            is_alone: false,
            timeout: Duration::from_secs(settings.timeout_s.into()),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let end = match launched(launch, &stop) {
            Ok(news) => self.hear_launcher(&news, &stop)?,
            Err(error) => NcclTestEnd::failed(format!("cannot start a thread: {error}")),
        };
        self.end_test(None, end)
    }

    fn hear_launcher(
        &mut self,
        news: &Receiver<News>,
        stop: &AtomicBool,
    ) -> Result<NcclTestEnd, ConductError<E>> {
        loop {
            match news.recv_timeout(TICK / 2) {
                Ok(News::Said(lines)) => self.tell(Event::NcclTestSaid { on: None, lines })?,
                Ok(News::Ended(end)) => return Ok(end),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(NcclTestEnd::failed("its thread ended"));
                }
            }
            if self.stopped() {
                stop.store(true, Ordering::Relaxed);
            }
            while let Some((node, news)) = self.fleet.next(Duration::ZERO) {
                self.admit(node, news)?;
            }
            self.lose_the_silent(&mut |_| {})?;
        }
    }
}

/// The most lines of what went wrong that are taken of a node.
const MOST_LAST: usize = 4;

/// The launcher, on a thread of its own.
fn launched(launch: NcclLaunch, stop: &Arc<AtomicBool>) -> std::io::Result<Receiver<News>> {
    let (sender, receiver): (SyncSender<News>, _) = sync_channel(16);
    let stop = Arc::clone(stop);
    let work = move || {
        // Where nobody hears it any more, the run is over.
        let mut say = |lines| {
            drop(
                sender
                    .send(News::Said(lines))
                    .inspect_err(|_| stop.store(true, Ordering::Relaxed)),
            )
        };
        let end = launch.run(&stop, &mut say);
        drop(sender.send(News::Ended(end)));
    };
    std::thread::Builder::new()
        .name("nccl".into())
        .spawn(work)?;
    Ok(receiver)
}
