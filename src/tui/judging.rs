//! A thread that judges the run as it goes, and writes reports of it: neither keeps the screen waiting.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::time::{Duration, Instant};

use super::msg::News;
use super::run::Run;
use crate::judge::{Judgement, judge};
use crate::ledger::Ledger;

/// The least time from one judgement to the next.
const PAUSE: Duration = Duration::from_millis(500);

/// At most the tenth part of the time is spent on judging.
const SHARE: u32 = 9;

/// Writes a report of a run, and says where, or why it could not.
pub type Export = Box<dyn Fn(&Ledger, &Judgement) -> Result<String, String> + Send>;

enum Job {
    Judge(Arc<Ledger>),
    Export(Arc<Ledger>),
}

/// The thread, as seen by who gives it work.
pub(super) struct Judging {
    jobs: Sender<Job>,
    begun: Option<Instant>,
    not_before: Instant,
    seen: Option<u64>,
    final_word: bool,
}

impl Judging {
    /// Starts the thread. It ends with this.
    pub(super) fn start(news: SyncSender<News>, export: Export) -> std::io::Result<Self> {
        let (jobs, work) = channel();
        std::thread::Builder::new()
            .name("judge".into())
            .spawn(move || labour(&work, &news, &export))?;
        Ok(Self {
            jobs,
            begun: None,
            not_before: Instant::now(),
            seen: None,
            final_word: false,
        })
    }

    /// Has the run judged if something changed and it is time; when to ask again.
    pub(super) fn tend(&mut self, run: &Run, now: Instant) -> Option<Instant> {
        let learned = run.learned();
        let last_time = run.is_over() && !self.final_word;
        if self.begun.is_some() || (self.seen == Some(learned) && !last_time) {
            return None;
        }
        if now < self.not_before && !last_time {
            return Some(self.not_before);
        }
        (self.seen, self.begun) = (Some(learned), Some(now));
        self.final_word = run.is_over();
        // A thread that is gone panicked, and the screen is about to be left.
        let _ = self.jobs.send(Job::Judge(run.lend()));
        None
    }

    /// A judgement has come.
    pub(super) fn done(&mut self, now: Instant) {
        if let Some(begun) = self.begun.take() {
            self.not_before = now + PAUSE.max((now - begun) * SHARE);
        }
    }

    /// Has a report written.
    pub(super) fn export(&self, run: &Run) {
        let _ = self.jobs.send(Job::Export(run.lend()));
    }
}

fn labour(work: &Receiver<Job>, news: &SyncSender<News>, export: &Export) {
    for job in work {
        let done = match job {
            Job::Judge(ledger) => {
                let judgement = judge(&ledger);
                // Whoever hears of it may change the ledger at once.
                drop(ledger);
                News::Judged(Box::new(judgement))
            }
            Job::Export(ledger) => {
                let said = export(&ledger, &judge(&ledger));
                drop(ledger);
                News::Exported(said.unwrap_or_else(|why| why))
            }
        };
        if news.send(done).is_err() {
            return;
        }
    }
}
