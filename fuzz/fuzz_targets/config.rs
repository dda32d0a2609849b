//! Cluster files, scenarios and profiles: they are read, or every problem is told.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::config::{Operator, read, read_profile, read_scenario};

fuzz_target!(|text: &str| {
    if let Err(errors) = read(text, "cluster.toml", &Operator::default()) {
        assert!(!errors.to_string().is_empty());
    }
    if let Err(errors) = read_scenario(text, "scenario.toml") {
        assert!(!errors.to_string().is_empty());
    }
    if let Err(errors) = read_profile(text, "profile.toml") {
        assert!(!errors.to_string().is_empty());
    }
});
