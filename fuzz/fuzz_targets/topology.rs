//! What `nvidia-smi topo -m` printed: it is read, or refused with the place.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = linerate::topology::read(text) {
        assert!(!error.to_string().is_empty());
    }
});
