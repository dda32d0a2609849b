//! Lines into a reading, one after another. Whatever a log holds, what is kept is bounded.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::sync::Arc;

use memchr::memmem::Finder;

use super::line::{self, Line};
use super::lines::{RawLine, each_line};
use super::message::{Head, Message, Messages, is_one};
use super::names::Names;
use super::reading::{NcclLog, Place, Process};

/// The most processes that are told apart: a cluster of 8192 nodes with 8 GPUs each.
pub const MAX_PROCESSES: usize = 1 << 16;

/// The most ranks; a process has one for each communicator.
pub const MAX_RANKS: usize = 1 << 18;

/// Reads logs; several files make one reading.
#[derive(Debug)]
pub struct NcclReader {
    pub(super) log: NcclLog,
    pub(super) names: Names,
    file: Arc<str>,
    /// The process that stands for lines without a head, in this file.
    nobody: Option<usize>,
    /// By `node1:5330`.
    processes: HashMap<Box<[u8]>, usize>,
    pub(super) by_communicator: HashMap<(usize, u64), usize>,
    pub(super) tests: HashMap<(Box<[u8]>, u32, u32), u64>,
    pub(super) uses: usize,
    pub(super) facts: usize,
    /// Who spoke last: most lines are of the same.
    last: Option<usize>,
    /// By [`slot`].
    before: Vec<Before>,
    marks: Marks,
}

/// How a line began that told something, up to the text of its message: many more begin the same.
#[derive(Debug, Clone, Default)]
struct Before {
    /// Empty where there is none.
    start: Vec<u8>,
    process: usize,
    thread: u32,
}

/// How many of them are remembered, a power of two, and how long they may be.
const SLOTS: usize = 1 << 12;
const MAX_START: usize = 256;

/// Where the beginning of a line is remembered; one that takes its place has it forgotten. Who speaks is
/// within the first 24 bytes in most logs.
fn slot(line: &[u8]) -> usize {
    let words = line.as_chunks::<8>().0.iter().take(3);
    let mix = |mixed: u64, word: &[u8; 8]| {
        (mixed ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let mixed = words.fold(0, mix);
    (mixed >> (64 - SLOTS.trailing_zeros())) as usize
}

/// What a line has that may matter.
#[derive(Debug)]
struct Marks {
    rccl: Finder<'static>,
    via: Finder<'static>,
    direct: Finder<'static>,
    test: Finder<'static>,
}

impl Marks {
    fn new() -> Self {
        Self {
            rccl: Finder::new("RCCL version"),
            via: Finder::new(" via "),
            direct: Finder::new("GPU Direct RDMA "),
            test: Finder::new(" Pid "),
        }
    }

    /// Whether it may be an excerpt, without who says it.
    fn may_be_bare(&self, line: &[u8]) -> bool {
        [&self.via, &self.rccl, &self.direct, &self.test]
            .iter()
            .any(|mark| mark.find(line).is_some())
    }
}

/// Where a message is, and who says it.
pub(super) struct Spoken<'a> {
    pub process: usize,
    pub thread: Option<u32>,
    pub line: u64,
    pub said: Line<'a>,
}

impl Default for NcclReader {
    fn default() -> Self {
        Self {
            log: NcclLog::default(),
            names: Names::default(),
            file: "".into(),
            nobody: None,
            processes: HashMap::new(),
            by_communicator: HashMap::new(),
            tests: HashMap::new(),
            uses: 0,
            facts: 0,
            last: None,
            before: Vec::new(),
            marks: Marks::new(),
        }
    }
}

impl NcclReader {
    /// Reads a file to its end; `name` is what it is called.
    ///
    /// # Errors
    /// Those of `source`; what was read before counts.
    pub fn read(&mut self, name: &str, source: &mut dyn BufRead) -> io::Result<()> {
        self.file = name.into();
        self.nobody = None;
        let extent = each_line(source, &mut |line| self.line(line))?;
        self.log.extent.bytes += extent.bytes;
        self.log.extent.lines += extent.lines;
        Ok(())
    }

    /// What all files come to.
    pub fn finish(mut self) -> NcclLog {
        self.name_gpus();
        self.index_hosts();
        self.log.left_out.facts += self.names.left_out;
        self.log
    }

    fn line(&mut self, raw: RawLine<'_>) {
        self.log.left_out.long += u64::from(raw.is_long);
        if !self.begins_as_before(raw) {
            self.begins_anew(raw);
        }
    }

    /// Whether a line begins like one before and is one message, which is then taken in.
    fn begins_as_before(&mut self, raw: RawLine<'_>) -> bool {
        let Some(before) = self
            .before
            .get(slot(raw.text))
            .filter(|b| !b.start.is_empty())
        else {
            return false;
        };
        let rest = raw.text.strip_prefix(&before.start[..]);
        let Some(text) = rest.filter(|text| is_one(text)) else {
            return false;
        };
        if let Some(said) = line::message(text.trim_ascii_end(), raw.is_whole) {
            let who = (before.process, Some(before.thread));
            self.speak(raw.number, said, |_| Some(who));
        }
        true
    }

    fn begins_anew(&mut self, raw: RawLine<'_>) {
        let (mut is_said, messages) = (false, Messages::of(raw.text, raw.is_whole));
        let may_be_bare = messages.has_name || self.marks.may_be_bare(raw.text);
        let start = messages.text_at();
        for message in messages {
            let Message {
                head,
                text,
                is_whole,
            } = message;
            let said = line::message(text, is_whole);
            let by = said
                .and_then(|said| self.speak(raw.number, said, |reader| reader.speaker_of(head)));
            if let (false, Some((process, Some(thread))), Some(start)) = (is_said, by, start) {
                self.remember(&raw.text[..start], raw.text, process, thread);
            }
            is_said = true;
        }
        if !is_said
            && may_be_bare
            && let Some(said) = line::bare(raw.text, raw.is_whole)
        {
            self.speak(raw.number, said, |reader| reader.speaker_of(None));
        }
    }

    fn remember(&mut self, start: &[u8], line: &[u8], process: usize, thread: u32) {
        if start.len() > MAX_START {
            return;
        }
        if self.before.is_empty() {
            self.before.resize(SLOTS, Before::default());
        }
        if let Some(before) = self.before.get_mut(slot(line)) {
            before.start.clear();
            before.start.extend_from_slice(start);
            (before.process, before.thread) = (process, thread);
        }
    }

    /// Takes in what is said; `who` finds out by which process and thread, where that matters, and it is
    /// given back.
    fn speak(
        &mut self,
        line: u64,
        said: Line<'_>,
        who: impl FnOnce(&mut Self) -> Option<(usize, Option<u32>)>,
    ) -> Option<(usize, Option<u32>)> {
        self.log.messages += 1;
        match said {
            Line::Torn => {
                self.log.left_out.torn += 1;
                return None;
            }
            Line::Test(rank) => {
                self.test(rank);
                return None;
            }
            _ => {}
        }
        let Some((process, thread)) = who(self) else {
            self.log.left_out.processes += 1;
            return None;
        };
        self.apply(Spoken {
            process,
            thread,
            line,
            said,
        });
        Some((process, thread))
    }

    fn speaker_of(&mut self, head: Option<Head<'_>>) -> Option<(usize, Option<u32>)> {
        Some((self.process(head)?, head.map(|head| head.thread)))
    }

    fn apply(&mut self, spoken: Spoken<'_>) {
        let at = spoken.process;
        match spoken.said {
            Line::Channel(channel) => self.channel(&spoken, channel),
            Line::Member(member) => self.member(at, spoken.thread, member),
            Line::Version(version) => self.version(at, version),
            Line::Devices { sockets, list } => {
                for (number, name) in line::devices(list) {
                    self.device(at, sockets, number, name);
                }
            }
            Line::Device { device, name } => self.device(at, false, device, name),
            Line::NicGroup { device, address } => self.group(at, device, address),
            Line::Network(name) => {
                self.log.processes[at].network = self.names.keep(name);
            }
            Line::Distances { network } => {
                let network = self.names.keep(network);
                self.log.processes[at]
                    .network
                    .get_or_insert_with(|| network.unwrap_or_default());
            }
            Line::Hca(support) => self.hca(at, support),
            Line::Refused(refusal) => self.refused(at, refusal),
            Line::Gpu(support) => self.pair(at, support),
            Line::Rings { gdr } => self.log.processes[at].rings_without = !gdr,
            Line::Setting { name, value } => self.setting(name, value),
            Line::TopologyGpu { rank, bus } => self.gpu(at, rank, bus),
            Line::Trouble(trouble) => self.trouble(&spoken, trouble),
            Line::NoDevice => self.log.processes[at].lacks.device = true,
            Line::NoPlugin => self.log.processes[at].lacks.plugin = true,
            Line::NoLibrary => self.log.processes[at].lacks.library = true,
            Line::NoPeerMemory => self.log.processes[at].lacks.peer_memory = true,
            Line::DmaBufOff => self.log.processes[at].lacks.dma_buf = true,
            Line::Torn | Line::Test(_) => {}
        }
    }

    /// Who speaks; a new one where nobody of that name was heard. `None` where there are too many.
    fn process(&mut self, head: Option<Head<'_>>) -> Option<usize> {
        let Some(head) = head else {
            if self.nobody.is_none() && self.log.processes.len() < MAX_PROCESSES {
                self.nobody = Some(self.log.processes.len());
                self.log.processes.push(Process::default());
            }
            return self.nobody;
        };
        if let Some(last) = self.last {
            let process = &self.log.processes[last];
            let host = process.host.as_deref().unwrap_or_default().as_bytes();
            if process.pid == head.process && host == head.host {
                return Some(last);
            }
        }
        self.last = self.known(head).or_else(|| self.new_process(head));
        self.last
    }

    /// Within another message its torn end may stand before the name, which then is a known one.
    fn known(&self, head: Head<'_>) -> Option<usize> {
        let starts = match head.is_inside {
            true => head.host.len().max(1),
            false => 1,
        };
        (0..starts).find_map(|start| self.processes.get(&head.key[start..]).copied())
    }

    fn new_process(&mut self, head: Head<'_>) -> Option<usize> {
        if self.log.processes.len() >= MAX_PROCESSES {
            return None;
        }
        let at = self.log.processes.len();
        let host = self.names.keep(head.host)?;
        self.processes.insert(head.key.into(), at);
        self.log.processes.push(Process {
            host: Some(host).filter(|host| !host.is_empty()),
            pid: head.process,
            ..Process::default()
        });
        Some(at)
    }

    pub(super) fn place(&self, line: u64) -> Place {
        Place {
            file: self.file.clone(),
            line,
        }
    }
}
