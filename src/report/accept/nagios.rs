//! An acceptance as a plugin of Nagios says it (Monitoring Plugins Development Guidelines): a line, and a code.

use super::Counts;
use crate::model::{Acceptance, AcceptanceVerdict, CheckOutcome, Weight, visible};

/// 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN. A should that does not hold, or could not be judged, warns.
pub fn nagios_code(acceptance: &Acceptance) -> u8 {
    let should = Counts::weighing(acceptance, Weight::Should);
    match acceptance.verdict() {
        AcceptanceVerdict::Rejected => 2,
        AcceptanceVerdict::CouldNotJudge => 3,
        AcceptanceVerdict::Accepted if should.failed + should.not_judged > 0 => 1,
        AcceptanceVerdict::Accepted => 0,
    }
}

/// The first line: state, words, and after the bar the numbers that are drawn over time.
pub fn nagios_line(acceptance: &Acceptance) -> String {
    let word = ["OK", "WARNING", "CRITICAL", "UNKNOWN"][usize::from(nagios_code(acceptance))];
    let all = Counts::of(&acceptance.results);
    let worst = [
        |outcome: &CheckOutcome| *outcome == CheckOutcome::Failed,
        |outcome: &CheckOutcome| matches!(outcome, CheckOutcome::NotJudged { .. }),
    ];
    let mut by_weight = acceptance.results.iter().collect::<Vec<_>>();
    by_weight.sort_by_key(|result| result.weight);
    let first = worst
        .iter()
        .find_map(|is_it| by_weight.iter().find(|result| is_it(&result.outcome)));
    let first = first.map_or(String::new(), |result| {
        let what = match &result.outcome {
            CheckOutcome::NotJudged { why } => format!("not judged, {why}"),
            _ => format!(
                "{}, expected {}",
                result.saw.as_deref().unwrap_or("nothing"),
                result.expected
            ),
        };
        format!("; {} {}: {what}", result.check, result.subject)
    });
    let words = format!(
        "{}: {} of {} hold, {} failed, {} not judged, {} excepted{first}",
        acceptance.profile,
        all.passed,
        all.total(),
        all.failed,
        all.not_judged,
        all.excepted
    );
    // What follows a bar are numbers.
    let words = visible(&words).replace('|', "/");
    format!(
        "LINERATE {word} - {words} | passed={} failed={} not_judged={} excepted={}",
        all.passed, all.failed, all.not_judged, all.excepted
    )
}
