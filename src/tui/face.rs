//! The loop: hears everything on one channel, changes the state, and draws when something changed.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGTSTP;
use signal_hook::low_level::emulate_default_handler;

use super::draw::draw;
use super::input::listen;
use super::judging::{Export, Judging};
use super::msg::{Effect, Msg, News};
use super::run::Run;
use super::term::Screen;
use super::theme::Theme;
use super::update::update;
use super::view::{Sort, View};
use crate::model::{Command, Event, Record};

/// The least time from one frame to the next.
const FRAME: Duration = Duration::from_millis(33);

/// How often a clock on the screen goes on.
const CLOCK: Duration = Duration::from_secs(1);

/// Where nothing is to happen by itself.
const IDLE: Duration = Duration::from_secs(3600);

/// The longest that news are taken in before a frame is drawn.
const BURST: Duration = Duration::from_millis(20);

/// What a dashboard is about.
pub struct Face {
    /// What is run, in a few words.
    pub title: String,
    /// The looks of the terminal.
    pub theme: Theme,
    /// How many times faster a recorded run is played; unset where it is no recorded one.
    pub pace: Option<f64>,
    /// Whether nothing is probed: then nothing is judged, and what NICs carry is shown at once.
    pub watches: bool,
    /// Whom commands go to.
    pub commands: Sender<Command>,
    /// Writes a report.
    pub export: Export,
}

/// How the dashboard was left.
pub struct Left {
    /// What is known of the run.
    pub run: Run,
}

/// Shows a run until the operator leaves. The terminal is given back then; the run may still go on.
///
/// # Errors
/// Where the terminal cannot be taken or drawn on; it is given back all the same.
pub fn show(face: Face, inbox: &Receiver<News>, news: SyncSender<News>) -> io::Result<Left> {
    let mut screen = Screen::take()?;
    listen(&news)?;
    let mut view = View::new(face.title, face.theme, screen.size()?);
    view.pace = face.pace;
    view.traffic = face.watches;
    if face.watches {
        view.sort = Sort::Name;
    }
    let mut dashboard = Dashboard {
        judging: Judging::start(news, face.export)?,
        run: Run::default(),
        view,
        commands: face.commands,
        watches: face.watches,
        changed: true,
        left: false,
    };
    dashboard.live(&mut screen, inbox)?;
    drop(screen);
    Ok(Left { run: dashboard.run })
}

impl Left {
    /// Takes in what still comes, until the run is over.
    pub fn finish(&mut self, inbox: &Receiver<News>) {
        while !self.run.is_over() || !self.run.is_whole() {
            match inbox.recv() {
                Ok(News::Learned(record)) => self.run.learn(record),
                Ok(News::Judged(judgement)) => self.run.judged(*judgement),
                Ok(News::Over(why)) => self.run.end(why),
                Ok(_) => self.run.catch_up(),
                Err(_) => return,
            }
        }
    }
}

struct Dashboard {
    run: Run,
    view: View,
    judging: Judging,
    commands: Sender<Command>,
    watches: bool,
    changed: bool,
    left: bool,
}

impl Dashboard {
    fn live(&mut self, screen: &mut Screen, inbox: &Receiver<News>) -> io::Result<()> {
        let mut drawn: Option<Instant> = None;
        while !self.left {
            let now = Instant::now();
            let judge_at = match self.watches {
                true => None,
                false => self.judging.tend(&self.run, now),
            };
            let pause = if self.changed { FRAME } else { self.rest() };
            let frame = drawn.map_or(now, |drawn| drawn + pause);
            if now >= frame {
                self.paint(screen)?;
                drawn = Some(now);
                continue;
            }
            let until = judge_at.map_or(frame, |at| at.min(frame));
            self.hear(screen, inbox, until)?;
        }
        Ok(())
    }

    /// How long nothing changes but a clock, and what NICs carry.
    fn rest(&self) -> Duration {
        if self.run.is_over() { IDLE } else { CLOCK }
    }

    fn paint(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.view.size = screen.size()?;
        self.view.now_ms = now_ms();
        self.view.settle(&self.run);
        self.changed = false;
        let (view, run) = (&self.view, &self.run);
        screen.draw(|frame| draw(view, run, frame))
    }

    /// Waits for news, and takes in what has come.
    fn hear(
        &mut self,
        screen: &mut Screen,
        inbox: &Receiver<News>,
        until: Instant,
    ) -> io::Result<()> {
        let wait = until.saturating_duration_since(Instant::now());
        let first = match inbox.recv_timeout(wait) {
            Ok(news) => news,
            // The clock went on, or it is time to judge.
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                self.left = true;
                return Ok(());
            }
        };
        self.take_in(first, screen)?;
        let begun = Instant::now();
        while begun.elapsed() < BURST && !self.left {
            match inbox.try_recv() {
                Ok(news) => self.take_in(news, screen)?,
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn take_in(&mut self, news: News, screen: &mut Screen) -> io::Result<()> {
        // Samples come at any moment and are shown with the clock: each would be a frame of its own.
        let is_sample = |record: &Record| matches!(record.event, Event::NodeSampled { .. });
        self.changed |= !matches!(&news, News::Learned(record) if is_sample(record));
        match news {
            News::Learned(record) => self.run.learn(record),
            News::Judged(judgement) => {
                self.judging.done(Instant::now());
                self.run.judged(*judgement);
            }
            News::Exported(said) => {
                self.run.catch_up();
                self.view.message = Some(said);
            }
            News::Over(why) => {
                self.view.message.clone_from(&why);
                self.run.end(why);
            }
            News::Input(msg) => return self.operate(msg, screen),
            News::Leave => self.left = true,
            News::Suspend => return suspend(screen),
            News::Continued => return screen.take_again(),
        }
        Ok(())
    }

    fn operate(&mut self, msg: Msg, screen: &mut Screen) -> io::Result<()> {
        for effect in update(&mut self.view, msg, &self.run) {
            match effect {
                Effect::Quit => self.left = true,
                // A run that is over hears nothing: the view said so.
                Effect::Send(command) => drop(self.commands.send(command)),
                Effect::Copy(text) => screen.copy(&text)?,
                Effect::Export => self.judging.export(&self.run),
                Effect::Suspend => suspend(screen)?,
                Effect::Redraw => screen.forget()?,
            }
        }
        Ok(())
    }
}

/// Stops as Ctrl-Z does, and goes on when the shell says so.
fn suspend(screen: &mut Screen) -> io::Result<()> {
    screen.lend();
    emulate_default_handler(SIGTSTP)?;
    screen.take_again()
}

fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}
