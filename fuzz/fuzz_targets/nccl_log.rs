//! Logs of NCCL and RCCL: whatever they hold, they are read, judged, and told without harm.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::judge::nccl_problems;
use linerate::nccl::NcclReader;
use linerate::report::nccl::json;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = NcclReader::default();
    let mut source = bytes;
    reader.read("log", &mut source).expect("memory is always read");
    let log = reader.finish();
    let problems = nccl_problems(&log, None);
    let mut out = Vec::new();
    json(&log, &problems, &mut out).expect("memory is always written");
    let told: serde_json::Value = serde_json::from_slice(&out).expect("it is JSON");
    assert!(told.is_object());
});
