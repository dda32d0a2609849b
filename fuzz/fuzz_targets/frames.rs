//! What an agent sends: it is decoded in pieces of any length, or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::wire::{Decoder, FromAgent};

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::default();
    for piece in bytes.chunks(7) {
        decoder.feed(piece);
        while let Ok(Some(_)) = decoder.message::<FromAgent>() {}
    }
});
