//! What controller and agent say to each other, and how it is framed: one JSON document a line,
//! numbered each way, bounded in length. Everything that arrives is cleaned before it is believed.

mod clean;
mod frame;
mod message;

pub use clean::clean_text;
pub use frame::{Decoder, FrameError, MAX_FRAME, encode};
pub use message::{FromAgent, PROTOCOL, ToAgent};
