//! Sends samples of the node's counters at a steady pace, on a thread of its own.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::voice::Voice;
use crate::survey::{Root, Sampler, queue_pairs};
use crate::wire::FromAgent;

/// The bounds of the pace that a controller may ask for.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);

/// How often devices that came or went are looked for, and who holds queue pairs.
const REFRESH: Duration = Duration::from_secs(10);

/// The thread, from outside. It ends when this is dropped, or when nobody hears it any more.
pub(super) struct Watcher {
    paces: Sender<Duration>,
}

impl Watcher {
    /// Starts sampling what lies below `root`, once in each `interval`.
    pub(super) fn start(root: Root, interval: Duration, voice: Voice) -> std::io::Result<Self> {
        let (paces, inbox) = channel();
        std::thread::Builder::new()
            .name("watch".into())
            .spawn(move || watch(&root, interval, &voice, &inbox))?;
        Ok(Self { paces })
    }

    /// Goes on at another pace.
    pub(super) fn set_interval(&self, interval: Duration) {
        // A thread that has ended has nobody to talk to.
        let _ = self.paces.send(interval);
    }
}

fn watch(root: &Root, interval: Duration, voice: &Voice, paces: &Receiver<Duration>) {
    let mut interval = interval.clamp(SHORTEST, LONGEST);
    let mut sampler = Sampler::open(root);
    let layout = |sampler: &Sampler| FromAgent::Watching {
        layout: Box::new(sampler.layout().clone()),
    };
    let mut audible = voice.say(&layout(&sampler));
    let mut due = Instant::now();
    let mut refreshed: Option<Instant> = None;
    while audible {
        let sample = sampler.sample();
        audible = voice.say(&FromAgent::Sampled { sample });
        if refreshed.is_none_or(|at| at.elapsed() >= REFRESH) {
            if refreshed.is_some() && sampler.refresh() {
                voice.say(&layout(&sampler));
            }
            voice.say(&FromAgent::QueuePairs {
                queue_pairs: queue_pairs(root),
            });
            refreshed = Some(Instant::now());
        }
        // One that is late does not hurry: samples in a burst would say nothing more.
        due = (due + interval).max(Instant::now());
        match paces.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(other) => interval = other.clamp(SHORTEST, LONGEST),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::wire::Decoder;

    /// What an agent wrote.
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<u8>>>);

    impl Write for Heard {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Heard {
        fn messages(&self) -> Vec<FromAgent> {
            let mut decoder = Decoder::default();
            decoder.feed(&self.0.lock().unwrap());
            std::iter::from_fn(|| decoder.message().unwrap()).collect()
        }

        /// Waits until so many messages came.
        fn wait(&self, count: usize) -> Vec<FromAgent> {
            let deadline = Instant::now() + Duration::from_secs(20);
            loop {
                let messages = self.messages();
                if messages.len() >= count {
                    return messages;
                }
                assert!(Instant::now() < deadline, "{messages:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    #[test]
    fn the_layout_comes_first_and_samples_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let counters = dir
            .path()
            .join("sys/class/infiniband/mlx5_0/ports/1/counters");
        std::fs::create_dir_all(&counters).unwrap();
        std::fs::write(counters.join("port_xmit_data"), "42\n").unwrap();
        let heard = Heard::default();
        let root = Root::at(dir.path());
        let voice = Voice::new(heard.clone());
        // Below the shortest interval: asked for by a controller that is not ours.
        let watcher = Watcher::start(root, Duration::ZERO, voice).unwrap();
        let messages = heard.wait(4)[..4].to_vec();
        let FromAgent::Watching { layout } = &messages[0] else {
            panic!("{messages:?}");
        };
        assert_eq!(layout.ports.value().unwrap()[0].device, "mlx5_0");
        let samples = messages.iter().filter_map(|message| match message {
            FromAgent::Sampled { sample } => Some(&sample.ports[0].values),
            _ => None,
        });
        assert_eq!(samples.collect::<Vec<_>>(), [&[Some(42)], &[Some(42)]]);
        assert!(matches!(&messages[2], FromAgent::QueuePairs { .. }));
        drop(watcher);
        std::thread::sleep(Duration::from_millis(300));
        let after = heard.messages().len();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(heard.messages().len(), after);
    }
}
