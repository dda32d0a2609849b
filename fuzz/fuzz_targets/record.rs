//! Records of runs: what events they hold can be applied, judged and written, in any order.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use linerate::judge::judge;
use linerate::ledger::Ledger;
use linerate::record::Reader;

fuzz_target!(|bytes: &[u8]| {
    let mut ledger = Ledger::default();
    for record in Reader::new(bytes, Path::new("run.jsonl")).map_while(Result::ok) {
        ledger.apply(&record.event);
    }
    let judgement = judge(&ledger);
    assert!(judgement.coverage.measured <= judgement.coverage.total());
});
