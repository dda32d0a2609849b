//! Frames: a line of JSON with a sequence number, no longer than [`MAX_FRAME`].

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::clean::clean_value;

/// The longest frame in bytes, its line break included. The largest real one, the survey of a node
/// with many NICs and full GID tables, is a tenth of it.
pub const MAX_FRAME: usize = 4 << 20;

/// What can be wrong with a frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// It does not end.
    #[error("a frame of more than {MAX_FRAME} bytes")]
    TooLong,
    /// It is not what this version of linerate says.
    #[error("frame {seq} cannot be read: {source} (it begins {begins:?})")]
    Malformed {
        /// Its place in the stream.
        seq: u64,
        /// Its first bytes.
        begins: String,
        /// The reason.
        source: serde_json::Error,
    },
    /// One is missing or came twice.
    #[error("frame {got} arrived where {expected} was due")]
    OutOfOrder {
        /// The number that was due.
        expected: u64,
        /// The number that came.
        got: u64,
    },
    /// It could not be written as JSON.
    #[error("a message cannot be encoded: {0}")]
    Encode(#[source] serde_json::Error),
}

#[derive(Serialize)]
struct Outgoing<'a, T> {
    seq: u64,
    #[serde(flatten)]
    message: &'a T,
}

#[derive(Deserialize)]
struct Sequence {
    seq: u64,
}

/// The message as a frame, line break included.
///
/// # Errors
/// [`FrameError::TooLong`] where it exceeds [`MAX_FRAME`], [`FrameError::Encode`] where it is no JSON.
pub fn encode<T: Serialize>(seq: u64, message: &T) -> Result<Vec<u8>, FrameError> {
    let mut line = serde_json::to_vec(&Outgoing { seq, message }).map_err(FrameError::Encode)?;
    line.push(b'\n');
    if line.len() > MAX_FRAME {
        return Err(FrameError::TooLong);
    }
    Ok(line)
}

/// Makes messages of a stream of bytes that arrive in pieces of any size.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    /// Bytes of `pending` that are known to hold no line break.
    scanned: usize,
    next_seq: u64,
}

impl Decoder {
    /// Takes the next bytes of the stream; call [`Decoder::message`] until it has nothing more.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole message; `None` until more bytes have come.
    ///
    /// # Errors
    /// Any [`FrameError`] but Encode; the stream cannot be read on after one.
    pub fn message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(end) = self.pending[self.scanned..]
            .iter()
            .position(|b| *b == b'\n')
        else {
            self.scanned = self.pending.len();
            return if self.scanned >= MAX_FRAME {
                Err(FrameError::TooLong)
            } else {
                Ok(None)
            };
        };
        let line: Vec<u8> = self.pending.drain(..=self.scanned + end).collect();
        self.scanned = 0;
        if line.len() > MAX_FRAME {
            return Err(FrameError::TooLong);
        }
        self.parse(&line).map(Some)
    }

    fn parse<T: DeserializeOwned>(&mut self, line: &[u8]) -> Result<T, FrameError> {
        let expected = self.next_seq;
        let malformed = |source| FrameError::Malformed {
            seq: expected,
            begins: super::clean_text(&String::from_utf8_lossy(&line[..line.len().min(80)])),
            source,
        };
        let mut value: serde_json::Value = serde_json::from_slice(line).map_err(malformed)?;
        let Sequence { seq } = Sequence::deserialize(&value).map_err(malformed)?;
        if seq != expected {
            return Err(FrameError::OutOfOrder { expected, got: seq });
        }
        self.next_seq += 1;
        clean_value(&mut value);
        T::deserialize(value).map_err(malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProbeId;
    use crate::wire::{FromAgent, PROTOCOL, ToAgent};
    use proptest::prelude::*;

    fn hello() -> FromAgent {
        FromAgent::Hello {
            protocol: PROTOCOL,
            linerate: "0.1.0".into(),
            pid: 7,
        }
    }

    #[test]
    fn a_message_survives_the_journey() {
        let mut decoder = Decoder::default();
        decoder.feed(&encode(0, &hello()).unwrap());
        decoder.feed(&encode(1, &FromAgent::Released { probe: ProbeId(3) }).unwrap());
        assert_eq!(decoder.message::<FromAgent>().unwrap(), Some(hello()));
        assert_eq!(
            decoder.message::<FromAgent>().unwrap(),
            Some(FromAgent::Released { probe: ProbeId(3) })
        );
        assert_eq!(decoder.message::<FromAgent>().unwrap(), None);
    }

    #[test]
    fn a_gap_is_noticed() {
        let mut decoder = Decoder::default();
        decoder.feed(&encode(1, &hello()).unwrap());
        let error = decoder.message::<FromAgent>().unwrap_err();
        assert!(
            matches!(
                error,
                FrameError::OutOfOrder {
                    expected: 0,
                    got: 1
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut decoder = Decoder::default();
        decoder.feed(&vec![b'x'; MAX_FRAME]);
        assert!(matches!(
            decoder.message::<FromAgent>(),
            Err(FrameError::TooLong)
        ));
    }

    #[test]
    fn an_error_shows_what_came_without_its_escapes() {
        let mut decoder = Decoder::default();
        decoder.feed(b"\x1b[2Jnonsense\n");
        let text = decoder.message::<FromAgent>().unwrap_err().to_string();
        assert!(
            text.contains("[2Jnonsense") && !text.contains('\u{1b}'),
            "{text}"
        );
    }

    #[test]
    fn escapes_inside_messages_are_gone() {
        let mut decoder = Decoder::default();
        let refused = FromAgent::Refused {
            why: "no\u{1b}[31m device".into(),
        };
        decoder.feed(&encode(0, &refused).unwrap());
        let got = decoder.message::<FromAgent>().unwrap();
        assert_eq!(
            got,
            Some(FromAgent::Refused {
                why: "no[31m device".into()
            })
        );
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_do(cuts in proptest::collection::vec(1usize..40, 1..40)) {
            let mut stream = Vec::new();
            for seq in 0..5 {
                stream.extend(encode(seq, &ToAgent::Run { probe: ProbeId(seq) }).unwrap());
            }
            let mut decoder = Decoder::default();
            let (mut got, mut at) = (Vec::new(), 0);
            for cut in cuts.into_iter().cycle() {
                if at == stream.len() { break; }
                let end = (at + cut).min(stream.len());
                decoder.feed(&stream[at..end]);
                at = end;
                while let Some(message) = decoder.message::<ToAgent>().unwrap() {
                    got.push(message);
                }
            }
            let expected: Vec<_> = (0..5).map(|n| ToAgent::Run { probe: ProbeId(n) }).collect();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn junk_never_panics(junk in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut decoder = Decoder::default();
            decoder.feed(&junk);
            while let Ok(Some(_)) = decoder.message::<FromAgent>() {}
        }
    }
}
