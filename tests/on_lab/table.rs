//! What came of cases that were run several times: a line for each, with what was named in runs that went
//! wrong.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::lock;
use crate::running::Report;

/// How often each case is run.
pub fn runs() -> usize {
    let Ok(text) = std::env::var("LINERATE_LAB_RUNS") else {
        return 1;
    };
    let runs = text.parse().ok().filter(|runs| *runs > 0);
    runs.unwrap_or_else(|| panic!("LINERATE_LAB_RUNS={text} is no number of runs"))
}

/// One case.
struct Line {
    case: &'static str,
    runs: usize,
    right: usize,
    /// What went wrong, and how often.
    wrong: BTreeMap<String, usize>,
}

struct Table {
    lines: Vec<Line>,
    /// What the last report of the run under way named.
    named: Option<Vec<String>>,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    lines: Vec::new(),
    named: None,
});

/// A run of a case begins.
pub fn begin(case: &'static str) {
    let mut table = lock(&TABLE);
    table.named = None;
    if table.lines.last().is_none_or(|line| line.case != case) {
        table.lines.push(Line {
            case,
            runs: 0,
            right: 0,
            wrong: BTreeMap::new(),
        });
    }
}

/// The run under way has a report.
pub fn found(report: &Report) {
    lock(&TABLE).named = Some(report.findings());
}

/// The run is over, with why it failed if it did.
pub fn end(failed: Option<&str>) {
    let mut table = lock(&TABLE);
    let named = table.named.take();
    let Some(line) = table.lines.last_mut() else {
        return;
    };
    line.runs += 1;
    match failed {
        None => line.right += 1,
        Some(why) => {
            let why = why.lines().next().unwrap_or_default();
            let named = match named.as_deref() {
                None => "no report".to_owned(),
                Some([]) => "named nothing".to_owned(),
                Some(names) => format!("named {}", names.join(", ")),
            };
            *line.wrong.entry(format!("{named} ({why})")).or_default() += 1;
        }
    }
}

/// Prints the table, if cases were run more than once.
pub fn print() {
    let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    if table.lines.iter().all(|line| line.runs < 2) {
        return;
    }
    let names = table.lines.iter().map(|line| line.case.len());
    let wide = names.max().unwrap_or(0);
    println!("{:<wide$} runs right  what went wrong", "case");
    for line in &table.lines {
        println!("{:<wide$} {:>4} {:>5}", line.case, line.runs, line.right);
        for (wrong, times) in &line.wrong {
            println!("{times:>0$} x {wrong}", wide + 13);
        }
    }
}
