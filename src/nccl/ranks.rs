//! Ranks, and the channels through which they send and receive.

use super::channel::{Channel, Direction, Gdr, Net, Way};
use super::facts::MAX_OF_PROCESS;
use super::line::Member;
use super::reader::{MAX_RANKS, NcclReader, Spoken};
use super::reading::{Process, Rank, Use};
use super::text::hexadecimal;

/// The most rows of a rank, a direction and a device.
pub const MAX_USES: usize = 1 << 19;

/// Ranks and threads of a process among which the speaker of a line is looked for, the newest first.
const MAX_RECENT: usize = 64;

/// Of so many processes of a node it is asked what they say of each other's GPUs.
const MOST_ASKED: usize = 16;

impl NcclReader {
    pub(super) fn member(&mut self, at: usize, thread: Option<u32>, member: Member) {
        let key = (at, member.communicator);
        let known = self.by_communicator.get(&key).copied();
        let is_it = |place: &usize| self.log.ranks[*place].rank == member.rank;
        // Some versions name the communicator only after its channels.
        let nameless = || {
            let mut members = self.log.processes[at].members.iter().rev().copied();
            members.find(|place| is_it(place) && self.log.ranks[*place].communicator.is_none())
        };
        let known = known.filter(is_it).or_else(nameless);
        let Some(place) = known.or_else(|| self.new_rank(at, member.rank)) else {
            return;
        };
        let is_said = member.communicator != 0;
        if is_said && self.by_communicator.len() < MAX_RANKS {
            self.by_communicator.insert(key, place);
        }
        let rank = &mut self.log.ranks[place];
        rank.communicator = is_said.then_some(member.communicator);
        rank.ranks = member.ranks.or(rank.ranks);
        rank.nodes = member.nodes.or(rank.nodes);
        rank.cuda = member.cuda.or(rank.cuda);
        rank.nvml = member.nvml.or(rank.nvml);
        rank.bus = member.bus.or(rank.bus);
        rank.id = member.id.or(rank.id);
        if let Some(thread) = thread {
            let threads = &mut self.log.processes[at].threads;
            threads.retain(|known| *known != (thread, place));
            recent(threads, (thread, place));
        }
    }

    fn new_rank(&mut self, at: usize, rank: u32) -> Option<usize> {
        if self.log.ranks.len() >= MAX_RANKS {
            self.log.left_out.ranks += 1;
            return None;
        }
        let place = self.log.ranks.len();
        self.log.ranks.push(Rank {
            process: at,
            rank,
            ..Rank::default()
        });
        recent(&mut self.log.processes[at].members, place);
        Some(place)
    }

    pub(super) fn channel(&mut self, spoken: &Spoken<'_>, channel: Channel<'_>) {
        let Some(place) = self.speaker(spoken, &channel) else {
            return;
        };
        let rank = &mut self.log.ranks[place];
        // Longer than any number of NVML's: it is a PCI function.
        if rank.bus.is_none()
            && let Some(gpu) = channel.gpu.filter(|gpu| gpu.len() > 3)
        {
            rank.bus = hexadecimal(gpu).map(|(bus, _)| bus);
        }
        match channel.way {
            Way::Local => rank.local += 1,
            Way::Net(net) => self.net(place, &channel, net, spoken.line),
        }
    }

    /// The rank that a line is about: by its communicator, its thread, its process, or a new one.
    fn speaker(&mut self, spoken: &Spoken<'_>, channel: &Channel<'_>) -> Option<usize> {
        let ranks = &self.log.ranks;
        let is_it = |place: &usize| ranks[*place].rank == channel.rank;
        let process = &self.log.processes[spoken.process];
        let communicator = channel.communicator.and_then(|communicator| {
            let key = (spoken.process, communicator);
            self.by_communicator.get(&key).copied().filter(is_it)
        });
        let by_thread = || {
            let mut threads = process.threads.iter().rev();
            let is_own =
                |(thread, place): &&(u32, usize)| Some(*thread) == spoken.thread && is_it(place);
            threads.find(is_own).map(|(_, place)| *place)
        };
        let by_process = || process.members.iter().rev().copied().find(is_it);
        communicator
            .or_else(by_thread)
            .or_else(by_process)
            .or_else(|| self.new_rank(spoken.process, channel.rank))
    }

    fn net(&mut self, place: usize, channel: &Channel<'_>, net: Net<'_>, line: u64) {
        let Some(direction) = channel.direction else {
            return;
        };
        let is_it = |used: &Use| {
            used.device == net.device
                && used.direction == direction
                && used.collective == net.collective
                && used.proxy.is_some() == net.proxy.is_some()
                && used.network.as_bytes() == net.network
        };
        let known = self.log.ranks[place].uses.iter().position(is_it);
        let staged = u64::from(net.gdr == Gdr::No);
        let Some(at) = known.or_else(|| self.new_use(place, direction, net, line)) else {
            self.log.left_out.uses += 1;
            return;
        };
        if staged > 0 && self.log.ranks[place].uses[at].staged == 0 {
            self.log.ranks[place].uses[at].place = self.place(line);
        }
        let used = &mut self.log.ranks[place].uses[at];
        used.staged += staged;
        used.direct += 1 - staged;
        used.pci += u64::from(net.gdr == Gdr::Pci);
    }

    fn new_use(
        &mut self,
        place: usize,
        direction: Direction,
        net: Net<'_>,
        line: u64,
    ) -> Option<usize> {
        let at = self.log.ranks[place].uses.len();
        if self.uses >= MAX_USES || at >= MAX_OF_PROCESS {
            return None;
        }
        let network = self.names.keep(net.network)?;
        self.uses += 1;
        let first = self.place(line);
        self.log.ranks[place].uses.push(Use {
            direction,
            sockets: net.network == b"Socket",
            network,
            collective: net.collective,
            device: net.device,
            proxy: net.proxy,
            direct: 0,
            pci: 0,
            staged: 0,
            place: first,
        });
        Some(at)
    }

    pub(super) fn index_hosts(&mut self) {
        let log = &mut self.log;
        let says = |(_, process): &(usize, &Process)| !process.pairs.is_empty();
        for (at, process) in log.processes.iter().enumerate().filter(says) {
            if let Some(host) = &process.host {
                let of_host = log.by_host.entry(host.clone()).or_default();
                if of_host.len() < MOST_ASKED {
                    of_host.push(at);
                }
            }
        }
    }

    /// GPUs that only the topology or nccl-tests told.
    pub(super) fn name_gpus(&mut self) {
        for rank in self.log.ranks.iter_mut().filter(|rank| rank.bus.is_none()) {
            let process = &self.log.processes[rank.process];
            let of_rank = |(number, _): &&(u32, u64)| *number == rank.rank;
            let topology = process.gpus.iter().find(of_rank).map(|(_, bus)| *bus);
            let host = process.host.as_deref().unwrap_or_default();
            let key = (host.as_bytes().into(), process.pid, rank.rank);
            rank.bus = topology.or_else(|| self.tests.get(&key).copied());
        }
    }
}

/// Keeps the newest.
fn recent<T>(known: &mut Vec<T>, newest: T) {
    if known.len() >= MAX_RECENT {
        known.remove(0);
    }
    known.push(newest);
}
