//! A sweep on the dashboard, as an operator sees it: what is slow stands out and leads to its cause.

use std::path::Path;
use std::time::Duration;

use crate::bench::Bench;
use crate::terminal::Terminal;

/// No run of three nodes takes so long.
const RUN: Duration = Duration::from_secs(240);

/// The line of the grid that a node has.
fn line_of(node: &str, terminal: &Terminal) -> String {
    let text = terminal.text();
    let line = text.lines().find(|line| line.contains(node));
    line.unwrap_or_default().to_owned()
}

pub fn a_slow_nic_stands_out_and_leads_to_its_finding(bench: &mut Bench) {
    let fault = "half:node02:1:tx".parse().expect("a fault");
    bench.lab.fault(&fault).expect("the lab takes it");
    let (config, record) = (bench.strict_config(|_| ()), bench.path("run.jsonl"));
    let [config, record] = [config, record].map(|path| path.display().to_string());
    let arguments = ["sweep", "--config", &config, "--record", &record];
    let mut terminal = Terminal::start_as(Path::new("."), &arguments, (120, 30), &[]);
    terminal.within(RUN, "end of the run", |terminal| {
        terminal.text().contains(" over ")
    });
    // The last judgement comes a moment after: node, rail 0, rail 1, and what that makes of the node.
    terminal.until("half in the grid", |terminal| {
        let line = line_of("node02", terminal);
        line.starts_with('½') && line.contains(" half ") && line.matches('½').count() == 2
    });
    let others = ["node01", "node03"].map(|node| line_of(node, &terminal));
    assert!(
        others.iter().all(|line| line.starts_with('✓')),
        "{others:?}"
    );
    // The worst node is the first; its second NIC is the one.
    let line = line_of("node02", &terminal);
    let (rail_0, rail_1) = (line.find('✓'), line.rfind('½'));
    assert!(rail_0.is_some() && rail_0 < rail_1, "{line}");
    terminal.press("l\r");
    for words in ["half-bandwidth", "rxe1 of node02", "Evidence", "esc"] {
        terminal.shows(words);
    }
    terminal.press("\x1b");
    terminal.until("the grid", |terminal| {
        line_of("node02", terminal).starts_with('½')
    });
    terminal.press("q");
    assert_eq!(terminal.exit_code(), 1, "{}", terminal.text());
    terminal.shows("1 FAULT FOUND");
    terminal.assert_given_back();
}
