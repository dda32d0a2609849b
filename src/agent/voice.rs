//! What the agent says: numbered frames, from any of its threads, one at a time.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use crate::wire::{FromAgent, encode};

struct Mouth {
    seq: u64,
    output: Box<dyn Write + Send>,
    broken: bool,
}

/// The agent's way to its controller; clones share it.
#[derive(Clone)]
pub(super) struct Voice {
    mouth: Arc<Mutex<Mouth>>,
}

impl Voice {
    pub(super) fn new(output: impl Write + Send + 'static) -> Self {
        let mouth = Mouth {
            seq: 0,
            output: Box::new(output),
            broken: false,
        };
        Self {
            mouth: Arc::new(Mutex::new(mouth)),
        }
    }

    /// Says it. Returns whether anyone can still hear.
    pub(super) fn say(&self, message: &FromAgent) -> bool {
        let mut mouth = self.mouth.lock().unwrap_or_else(PoisonError::into_inner);
        if mouth.broken {
            return false;
        }
        let frame = match encode(mouth.seq, message) {
            Ok(frame) => frame,
            Err(error) => {
                let refused = FromAgent::Refused {
                    why: error.to_string(),
                };
                encode(mouth.seq, &refused).unwrap_or_default()
            }
        };
        mouth.seq += 1;
        let sent = mouth
            .output
            .write_all(&frame)
            .and_then(|()| mouth.output.flush());
        mouth.broken = sent.is_err();
        !mouth.broken
    }
}
