//! Real agents: a thread for each node carries its bytes, and its messages meet in one channel.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::fleet::{Fleet, FromNode};
use crate::remote::{
    Carrier, Ended, Outbox, OutboxSender, Payload, RemoteError, Sink, Stage, Target,
};
use crate::wire::{Decoder, FromAgent, PROTOCOL, ToAgent, clean_text, encode};

/// How often an agent hears that its controller lives.
const HEARTBEAT: Duration = Duration::from_millis(2_500);

/// How long an agent lives without hearing anything. Six heartbeats: a busy login node delays some.
const LEASE_MS: u32 = 15_000;

/// Bytes that may wait for one node. The largest message is a few KiB.
const OUTBOX: usize = 1 << 20;

/// Messages that may wait for the conductor before the nodes' threads wait for it. Readings of
/// counters are dropped instead: the next says more than one that is late.
const INBOX: usize = 4096;

/// What is kept of an agent's standard error, for the message about its end.
const LAST_WORDS: usize = 2048;

/// libssh2 is content with 256 KiB, a survey's nested JSON in an unoptimised build is not. This is
/// address space: a thread touches what it uses.
const STACK: usize = 1 << 20;

/// How long agents get to end by themselves.
const FAREWELL: Duration = Duration::from_secs(10);

/// A node of the run, and the way to it.
pub struct Member {
    /// Where it is.
    pub target: Target,
    /// How to get there.
    pub carrier: Arc<dyn Carrier>,
}

/// The way to one agent: messages are numbered in the order in which they are queued.
struct Line {
    outbox: OutboxSender,
    seq: u64,
    open: bool,
    /// Counts the connections to this node.
    life: u32,
    /// Nothing is carried any more.
    over: bool,
}

impl Line {
    fn new(outbox: OutboxSender, life: u32) -> Self {
        Self {
            outbox,
            seq: 0,
            open: false,
            life,
            over: false,
        }
    }

    fn say(&mut self, message: &ToAgent) {
        let Ok(frame) = encode(self.seq, message) else {
            return;
        };
        // A full outbox means that the node takes nothing any more; its silence is noticed.
        if self.outbox.send(frame).is_ok() {
            self.seq += 1;
        }
    }
}

/// What a node's threads need, in every life of its connection.
struct Post {
    members: Vec<Member>,
    lines: Vec<Mutex<Line>>,
    payload: Payload,
    inbox: SyncSender<News>,
}

impl Post {
    /// A new line to a node whose last one is over, with the end that is to be carried.
    fn begin_anew(&self, node: usize) -> Option<(u32, Outbox)> {
        let mut line = lock(self.lines.get(node)?);
        if !line.over {
            return None;
        }
        let (sender, outbox) = Outbox::bounded(OUTBOX).ok()?;
        *line = Line::new(sender, line.life.wrapping_add(1));
        Some((line.life, outbox))
    }
}

/// What was heard of a node, in which life of its connection.
struct News {
    node: usize,
    life: u32,
    what: FromNode,
}

/// Agents that run on nodes, reached by carriers.
pub struct CarrierFleet {
    post: Arc<Post>,
    inbox: Receiver<News>,
    threads: Vec<JoinHandle<()>>,
    heart: Arc<(Mutex<bool>, Condvar)>,
}

impl CarrierFleet {
    /// Starts on the way to every member at once; the carriers bound how many connect together.
    ///
    /// # Errors
    /// Where this machine has no thread or file descriptor left.
    pub fn start(members: Vec<Member>, payload: &Payload) -> std::io::Result<Self> {
        Self::with_inbox(members, payload, INBOX)
    }

    fn with_inbox(members: Vec<Member>, payload: &Payload, room: usize) -> std::io::Result<Self> {
        let (sender, inbox) = sync_channel(room);
        let mut lines = Vec::with_capacity(members.len());
        let mut outboxes = Vec::with_capacity(members.len());
        for _ in &members {
            let (outbox, end) = Outbox::bounded(OUTBOX)?;
            lines.push(Mutex::new(Line::new(outbox, 0)));
            outboxes.push(end);
        }
        let post = Arc::new(Post {
            members,
            lines,
            payload: payload.clone(),
            inbox: sender,
        });
        let mut threads = Vec::with_capacity(outboxes.len() + 1);
        for (node, outbox) in outboxes.into_iter().enumerate() {
            threads.push(carry_on_thread(&post, node, 0, outbox)?);
        }
        let heart = Arc::new((Mutex::new(true), Condvar::new()));
        let (beats, lines) = (Arc::clone(&heart), Arc::clone(&post));
        threads.push(
            std::thread::Builder::new()
                .name("heartbeat".into())
                .spawn(move || beat(&beats, &lines.lines))?,
        );
        Ok(Self {
            post,
            inbox,
            threads,
            heart,
        })
    }

    /// Whether this was heard in the present life of a node's connection.
    fn is_of_now(&self, news: &News) -> bool {
        let line = self.post.lines.get(news.node);
        line.is_some_and(|line| lock(line).life == news.life)
    }

    fn stop_heart(&self) {
        *lock(&self.heart.0) = false;
        self.heart.1.notify_all();
    }
}

impl Fleet for CarrierFleet {
    fn send(&mut self, node: usize, message: &ToAgent) {
        if let Some(line) = self.post.lines.get(node) {
            let mut line = lock(line);
            line.say(message);
            if matches!(message, ToAgent::Bye) {
                line.open = false;
                line.outbox.close();
            }
        }
    }

    fn next(&mut self, timeout: Duration) -> Option<(usize, FromNode)> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let news = self.inbox.recv_timeout(left).ok()?;
            if self.is_of_now(&news) {
                return Some((news.node, news.what));
            }
        }
    }

    fn reconnect(&mut self, node: usize) -> bool {
        if !*lock(&self.heart.0) {
            return false;
        }
        let Some((life, outbox)) = self.post.begin_anew(node) else {
            return false;
        };
        self.threads.retain(|thread| !thread.is_finished());
        match carry_on_thread(&self.post, node, life, outbox) {
            Ok(thread) => self.threads.push(thread),
            Err(_) => {
                lock(&self.post.lines[node]).over = true;
                return false;
            }
        }
        true
    }

    fn close(&mut self) {
        for node in 0..self.post.lines.len() {
            self.send(node, &ToAgent::Bye);
        }
        self.stop_heart();
        let deadline = Instant::now() + FAREWELL;
        while self.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < deadline {
            // Threads may wait to report into a full inbox.
            let _ = self.inbox.recv_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for CarrierFleet {
    fn drop(&mut self) {
        self.stop_heart();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data is whole at every step, so a panic elsewhere leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the lease of every running agent.
fn beat(heart: &(Mutex<bool>, Condvar), lines: &[Mutex<Line>]) {
    let mut alive = lock(&heart.0);
    while *alive {
        (alive, _) = heart
            .1
            .wait_timeout(alive, HEARTBEAT)
            .unwrap_or_else(PoisonError::into_inner);
        for line in lines {
            let mut line = lock(line);
            if line.open {
                line.say(&ToAgent::Heartbeat);
            }
        }
    }
}

/// Starts the thread of one life of a node's connection.
fn carry_on_thread(
    post: &Arc<Post>,
    node: usize,
    life: u32,
    outbox: Outbox,
) -> std::io::Result<JoinHandle<()>> {
    let post = Arc::clone(post);
    std::thread::Builder::new()
        .name(post.members[node].target.node.clone())
        .stack_size(STACK)
        .spawn(move || carry(&post, node, life, outbox))
}

/// One life of a node's connection.
fn carry(post: &Post, node: usize, life: u32, outbox: Outbox) {
    let member = &post.members[node];
    let mut ear = Ear {
        node,
        life,
        line: &post.lines[node],
        inbox: &post.inbox,
        decoder: Decoder::default(),
        last_words: Vec::new(),
        dropped: 0,
        gone: false,
    };
    let ended = member
        .carrier
        .carry(&member.target, &post.payload, outbox, &mut ear);
    let why = farewell(&member.target.node, ended, &ear.last_words);
    // Before the word of it: whoever hears that may reconnect at once.
    lock(ear.line).over = true;
    ear.gone(why);
}

/// Why nothing more comes of a node, in words.
fn farewell(node: &str, ended: Result<Ended, RemoteError>, last_words: &[u8]) -> String {
    let said = clean_text(String::from_utf8_lossy(last_words).trim());
    let said = if said.is_empty() {
        said
    } else {
        format!("; it said: {said}")
    };
    match ended {
        Ok(Ended::ClosedByUs) => "the connection was closed".into(),
        Ok(Ended::Exit(status)) => format!("its agent exited with status {status}{said}"),
        Ok(Ended::Signal(signal)) => format!("its agent was killed by SIG{signal}{said}"),
        Err(error) => {
            // Findings name the node themselves.
            let text = error.to_string();
            text.strip_prefix(&format!("{node}: "))
                .unwrap_or(&text)
                .to_owned()
        }
    }
}

/// Hears one node.
struct Ear<'a> {
    node: usize,
    life: u32,
    line: &'a Mutex<Line>,
    inbox: &'a SyncSender<News>,
    decoder: Decoder,
    last_words: Vec<u8>,
    /// Readings that were dropped and not told of yet.
    dropped: u64,
    gone: bool,
}

impl Ear<'_> {
    fn news(&self, what: FromNode) -> News {
        News {
            node: self.node,
            life: self.life,
            what,
        }
    }

    /// Passes it on. Readings are dropped where there is no room, all else waits for it.
    fn pass(&mut self, what: FromNode) {
        let is_reading = matches!(what, FromNode::Said(FromAgent::Sampled { .. }));
        if is_reading {
            return self.pass_reading(what);
        }
        // The conductor may have left; then nobody needs the news.
        if self.dropped > 0 {
            let dropped = FromNode::Dropped(std::mem::take(&mut self.dropped));
            let _ = self.inbox.send(self.news(dropped));
        }
        let _ = self.inbox.send(self.news(what));
    }

    fn pass_reading(&mut self, reading: FromNode) {
        if self.dropped > 0 {
            let told = self
                .inbox
                .try_send(self.news(FromNode::Dropped(self.dropped)));
            if told.is_ok() {
                self.dropped = 0;
            }
        }
        if self.inbox.try_send(self.news(reading)).is_err() {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    fn gone(&mut self, why: String) {
        if !std::mem::replace(&mut self.gone, true) {
            self.pass(FromNode::Gone(why));
        }
    }
}

impl Sink for Ear<'_> {
    fn stage(&mut self, stage: Stage) {
        self.pass(FromNode::Stage(stage_in_words(stage)));
        if matches!(stage, Stage::Running) {
            let mut line = lock(self.line);
            line.say(&ToAgent::Hello {
                protocol: PROTOCOL,
                linerate: env!("CARGO_PKG_VERSION").to_owned(),
                lease_ms: LEASE_MS,
            });
            line.open = true;
        }
    }

    fn stdout(&mut self, bytes: &[u8]) {
        if self.gone {
            return;
        }
        self.decoder.feed(bytes);
        loop {
            match self.decoder.message::<FromAgent>() {
                Ok(Some(message)) => self.pass(FromNode::Said(message)),
                Ok(None) => return,
                Err(error) => {
                    self.gone(format!("its agent sent what cannot be read: {error}"));
                    return lock(self.line).outbox.close();
                }
            }
        }
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.last_words.extend_from_slice(bytes);
        let surplus = self.last_words.len().saturating_sub(LAST_WORDS);
        self.last_words.drain(..surplus);
    }
}

fn stage_in_words(stage: Stage) -> String {
    match stage {
        Stage::Connecting => "connecting".into(),
        Stage::HostKey => "checking its host key".into(),
        Stage::Authenticating => "authenticating".into(),
        Stage::Bootstrapping => "looking for its copy of linerate".into(),
        Stage::Deploying { bytes } => format!("copying linerate ({} KiB)", bytes.div_ceil(1024)),
        Stage::Running => "starting its agent".into(),
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
