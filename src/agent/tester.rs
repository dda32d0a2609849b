//! nccl-tests on this node, on a thread of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::voice::Voice;
use crate::nccl::NcclLaunch;
use crate::wire::FromAgent;

/// The thread, from outside. Dropping it ends the tests.
pub(super) struct Tester {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tester {
    /// Starts them.
    pub(super) fn start(launch: NcclLaunch, voice: Voice) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("nccl".into())
            .spawn(move || {
                let mut say = |lines| {
                    if !voice.say(&FromAgent::NcclTestSaid { lines }) {
                        is_over.store(true, Ordering::Relaxed);
                    }
                };
                let end = launch.run(&is_over, &mut say);
                voice.say(&FromAgent::NcclTestEnded { end });
            })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Tester {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::model::NcclTestExit;
    use crate::wire::Decoder;

    fn launch(script: &str) -> NcclLaunch {
        NcclLaunch {
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            is_alone: true,
            timeout: Duration::from_secs(60),
        }
    }

    #[test]
    fn what_they_write_and_how_they_end_is_said() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let said = "n1:5:6 [0] NCCL INFO Using network IB";
        let tester = Tester::start(
            launch(&format!("echo '{said}'; exit 2")),
            Voice::new(writer),
        )
        .unwrap();
        let (mut decoder, mut heard) = (Decoder::default(), Vec::new());
        let mut buffer = [0; 4096];
        while !matches!(heard.last(), Some(FromAgent::NcclTestEnded { .. })) {
            let length = reader.read(&mut buffer).unwrap();
            decoder.feed(&buffer[..length]);
            heard.extend(std::iter::from_fn(|| decoder.message().unwrap()));
        }
        let lines = vec![said.to_owned()];
        assert_eq!(heard[0], FromAgent::NcclTestSaid { lines });
        let FromAgent::NcclTestEnded { end } = &heard[1] else {
            panic!("{heard:?}")
        };
        assert_eq!(end.how, NcclTestExit::Exited { code: 2 });
        drop(tester);
    }

    #[test]
    fn they_end_with_the_agent() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let tester = Tester::start(launch("sleep 600"), Voice::new(writer)).unwrap();
        let start = Instant::now();
        drop(tester);
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
