//! What moving data costs, for a person: of few pairs of NICs each, of many the median and the worst.

mod incast;
mod json;
mod table;

use std::io::{self, Write};

pub use json::cost_json;
pub(super) use json::value;

use super::findings::{findings, paragraph};
use super::text::{SIMULATED, Style};
use crate::judge::{CostGap, CostReport, Judgement, PairCost};
use crate::ledger::Ledger;
use crate::model::{Bytes, CostStep, Rule, RunEnd, visible};
use table::{Row, header, line};

/// Pairs that are shown one by one; of more the median and the worst.
const IN_FULL: usize = 4;

/// Which pairs are measured.
const EACH_ONCE: &str =
    "Each NIC sends to one neighbour on its rail and receives from one, not with every other.";

/// The worst that are shown where there are more.
const WORST: usize = 2;

/// Rules whose findings matter where only the cost was measured.
pub(super) const RULES: [Rule; 7] = [
    Rule::NodeLost,
    Rule::NoNic,
    Rule::PortDown,
    Rule::ProbeFailed,
    Rule::CorruptData,
    Rule::CpuGovernor,
    Rule::TcpLimit,
];

/// The report of a run that measured nothing but what moving data costs.
///
/// # Errors
/// Whatever `out` reports.
pub fn cost_text(
    ledger: &Ledger,
    judgement: &Judgement,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    if ledger.settings().is_some_and(|settings| settings.simulated) {
        writeln!(out, "{SIMULATED}")?;
    }
    let Some(report) = CostReport::of(ledger) else {
        return writeln!(out, "The run did not measure what moving data costs.");
    };
    headline(ledger, &report, style, out)?;
    shown(&report, style, out)?;
    let mut told = judgement.findings.clone();
    told.retain(|finding| RULES.contains(&finding.rule));
    findings(&told, style, out)?;
    match ledger.settings() {
        Some(settings) => writeln!(out, "\nSeed of the schedule: {}", settings.seed),
        None => Ok(()),
    }
}

/// The same behind the report of a run that measured rates, where it measured the cost as well.
pub(super) fn cost(ledger: &Ledger, style: Style, out: &mut dyn Write) -> io::Result<()> {
    match CostReport::of(ledger) {
        Some(report) => shown(&report, style, out),
        None => Ok(()),
    }
}

/// Its first lines: whether everything was measured.
///
/// # Errors
/// Whatever `out` reports.
pub fn cost_headline(ledger: &Ledger, style: Style, out: &mut dyn Write) -> io::Result<()> {
    match CostReport::of(ledger) {
        Some(report) => headline(ledger, &report, style, out),
        None => Ok(()),
    }
}

/// `2 pairs of NICs, 1 burst of many to one, `.
fn measured(report: &CostReport<'_>) -> String {
    let pairs = match report.pairs.len() {
        0 if !report.incasts.is_empty() => String::new(),
        1 => "1 pair of NICs, ".to_owned(),
        many => format!("{many} pairs of NICs, "),
    };
    match report.incasts.len() {
        0 => pairs,
        1 => format!("{pairs}1 burst of many to one, "),
        many => format!("{pairs}{many} bursts of many to one, "),
    }
}

fn headline(
    ledger: &Ledger,
    report: &CostReport<'_>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (code, word) = match report.is_complete() {
        true => ("1;32", "COST MEASURED"),
        false if report.measured == 0 => ("1;33", "COST NOT MEASURED"),
        false => ("1;33", "COST NOT MEASURED EVERYWHERE"),
    };
    let what = measured(report);
    writeln!(
        out,
        "{}: {what}{} probes, {} rounds.",
        style.paint(code, word),
        report.measured,
        ledger.rounds()
    )?;
    match ledger.end() {
        Some(RunEnd::Complete) => Ok(()),
        Some(RunEnd::TimeUp) => writeln!(
            out,
            "The time budget was spent before everything was tried: what follows is a part."
        ),
        _ => writeln!(
            out,
            "The run did not come to its end: what follows is a part."
        ),
    }
}

fn shown(report: &CostReport<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let all: Vec<&PairCost<'_>> = report.pairs.iter().collect();
    if !all.is_empty() {
        writeln!(out, "{EACH_ONCE}")?;
    }
    match all.len() {
        0 => {}
        few if few <= IN_FULL => {
            for pair in &all {
                one(pair, style, out)?;
            }
        }
        _ => many(all, style, out)?,
    }
    if !all_is_known(report) {
        legend(style, out)?;
    }
    incast::incasts(&report.incasts, style, out)?;
    // What a finding tells is told there.
    let missing: Vec<&CostGap> = report.gaps.iter().filter(|gap| !gap.is_finding).collect();
    gaps("Cost not measured:", &missing, style, out)?;
    let unavailable: Vec<&CostGap> = report.unavailable.iter().collect();
    let head = "Not available here, and not asked for by --only:";
    gaps(head, &unavailable, style, out)
}

/// The median of all, then those that are worst.
fn many(mut all: Vec<&PairCost<'_>>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\nWhat moving data costs, the median of {} pairs of NICs:",
        all.len()
    )?;
    header(None, out)?;
    for step in CostStep::ALL {
        let rows = all.iter().filter_map(|pair| Row::of(pair, *step));
        if let Some(median) = Row::median(&rows.collect::<Vec<_>>()) {
            line(&median, out)?;
        }
    }
    all.sort_by(|a, b| badness(b).total_cmp(&badness(a)));
    table::each(&all, out)?;
    writeln!(
        out,
        "\nThe worst {WORST} of them; all are in --format json."
    )?;
    for pair in all.into_iter().take(WORST) {
        one(pair, style, out)?;
    }
    Ok(())
}

/// What an RDMA write takes of CPU time, the initiator's first; a pair without is the worst.
fn badness(pair: &PairCost<'_>) -> f64 {
    let write = pair.step(CostStep::Write);
    let ends = write.and_then(|write| write.ends[0].as_ref());
    ends.map_or(f64::MAX, |end| end.ns_per_kib())
}

fn one(pair: &PairCost<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let line_rate = match pair.line.value() {
        Some(rate) => format!("line rate {rate}"),
        None => "line rate unknown".to_owned(),
    };
    let (from, to) = (pair.pair.from.to_string(), pair.pair.to.to_string());
    writeln!(
        out,
        "\nWhat moving data costs from {} to {} ({}, {line_rate}):",
        visible(&from),
        visible(&to),
        pair.pair.rail
    )?;
    header(pair.line.value().copied(), out)?;
    for step in CostStep::ALL {
        if let Some(row) = Row::of(pair, *step) {
            line(&row, out)?;
        }
    }
    by_size(pair, out)?;
    latency(pair, out)?;
    ways(pair, style, out)?;
    for says in pair.says() {
        paragraph(out, style, "  ", "  ", &says)?;
    }
    registration(pair, style, out)?;
    tcp(pair, style, out)?;
    paragraph(
        out,
        style,
        "  ",
        "  ",
        &visible(&pair.congestion.in_words(pair.layer, pair.is_software)),
    )
}

/// TCP and RDMA writes by message size.
fn by_size(pair: &PairCost<'_>, out: &mut dyn Write) -> io::Result<()> {
    // One way is enough: of the other there is what other steps measured.
    if pair.sizes.iter().all(|at| at.saving().is_none()) {
        return Ok(());
    }
    writeln!(
        out,
        "  {:>9}  {:>11}  {:>11}  {:>12}  {:>12}",
        "message", "tcp", "write", "tcp ns/KiB", "write ns/KiB"
    )?;
    for at in &pair.sizes {
        let rate = |step: &Option<crate::judge::StepCost<'_>>| {
            step.as_ref()
                .map_or("?".to_owned(), |step| step.rate.to_string())
        };
        let [tcp, write] = match at.saving() {
            Some(saving) => {
                let [tcp, write] = saving.ns_per_kib.map(table::number);
                let side = if saving.at_least { "<" } else { "" };
                [tcp, format!("{side}{write}")]
            }
            None => ["?", "?"].map(str::to_owned),
        };
        let (size, a, b) = (at.size, rate(&at.tcp), rate(&at.write));
        writeln!(out, "  {size:>9}  {a:>11}  {b:>11}  {tcp:>12}  {write:>12}")?;
    }
    Ok(())
}

/// Which way that goes which is measured one way only, and what is read.
fn ways(pair: &PairCost<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (from, to) = (&pair.pair.from.node, &pair.pair.to.node);
    let mut text = Vec::new();
    if !pair.latency.is_empty() {
        text.push(format!(
            "Latency is half of a round trip that {from} begins with {to}."
        ));
    }
    if !pair.latency.is_empty() || pair.sizes.iter().any(|at| at.saving().is_some()) {
        text.push(format!(
            "Latency and message sizes are measured from {from} to {to} only."
        ));
    }
    if pair.step(CostStep::Read).is_some() {
        text.push(format!(
            "What `read` moves flows to {from}, which asks for it."
        ));
    }
    match text.is_empty() {
        true => Ok(()),
        false => paragraph(out, style, "  ", "  ", &visible(&text.join(" "))),
    }
}

/// Half of the way to and fro, in microseconds.
fn latency(pair: &PairCost<'_>, out: &mut dyn Write) -> io::Result<()> {
    if pair.latency.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "  {:>9}  {:13}  {:>9}  {:>9}  {:>9}  {:>9}",
        "message", "half trip, µs", "min", "median", "99 %", "99.9 %"
    )?;
    for latency in &pair.latency {
        let told = &latency.told;
        let us = [told.min_ns, told.median_ns, told.p99_ns, told.p999_ns]
            .map(|ns| format!("{:.2}", ns as f64 / 1e3));
        writeln!(
            out,
            "  {:>9}  {:13}  {:>9}  {:>9}  {:>9}  {:>9}",
            Bytes(told.bytes),
            latency.step,
            us[0],
            us[1],
            us[2],
            us[3]
        )?;
    }
    Ok(())
}

/// What registering memory takes: once, before anything is moved.
fn registration(pair: &PairCost<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let told = pair.registrations.iter().map(|told| {
        let mib = told.bytes as f64 / f64::from(1 << 20);
        let each = told.us as f64 / mib;
        format!(
            "{each:.1} µs for each MiB in pages of {}",
            Bytes(told.page_bytes)
        )
    });
    let told: Vec<String> = told.collect();
    match told.is_empty() {
        true => Ok(()),
        false => {
            let text = format!(
                "Registering memory took {}: once, before anything is moved.",
                told.join(", ")
            );
            paragraph(out, style, "  ", "  ", &text)
        }
    }
}

/// How the TCP connections were set up.
fn tcp(pair: &PairCost<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let step = pair
        .step(CostStep::Tcp)
        .or_else(|| pair.step(CostStep::TcpStreams));
    let told = step.and_then(|step| step.probe.measurement()?.tcp.as_ref());
    let Some(told) = told else {
        return Ok(());
    };
    let offloads = match &told.offloads {
        crate::model::Fact::Known { value, .. } if value.is_empty() => "no offload on".to_owned(),
        crate::model::Fact::Known { value, .. } => format!("{} on", value.join(", ")),
        crate::model::Fact::Unknown { why } => format!("offloads unknown ({why})"),
    };
    let text = format!(
        "TCP had segments of {} bytes, {offloads}, and {} as congestion control.",
        told.mss, told.congestion
    );
    paragraph(out, style, "  ", "  ", &visible(&text))?;
    let zero = pair.step(CostStep::TcpZeroCopy);
    match zero.is_some_and(|step| step.copied_all_the_same()) {
        true => paragraph(
            out,
            style,
            "  ",
            "  ",
            "The kernel copied what was sent with MSG_ZEROCOPY all the same, as it does on loopback and \
             where the interface cannot gather: nothing is said of what zero copy saves in the kernel.",
        ),
        false => Ok(()),
    }
}

/// Whether no row needs a mark.
fn all_is_known(report: &CostReport<'_>) -> bool {
    let rows = report.pairs.iter().flat_map(|pair| {
        let rows = CostStep::ALL.iter();
        rows.filter_map(|step| Row::of(pair, *step))
    });
    rows.into_iter().all(|row| !row.is_marked())
}

fn legend(style: Style, out: &mut dyn Write) -> io::Result<()> {
    let text = "≥ what the kernel spent beside the threads is not known; ≤ it polls, and spends a core \
                whatever there is to do; < and > no more was spent than ticks of 10 ms may miss; ~ a tenth or \
                more of it is within them; ! the host \
                carried other load; ? not known; s software RDMA, whose cost means nothing.";
    writeln!(out)?;
    paragraph(out, style, "  ", "  ", text)
}

fn gaps(head: &str, gaps: &[&CostGap], style: Style, out: &mut dyn Write) -> io::Result<()> {
    if gaps.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{head}")?;
    for gap in gaps {
        let s = if gap.count == 1 { "" } else { "s" };
        let text = format!("{} {}{s}: {}", gap.count, gap.of, gap.why);
        paragraph(out, style, "  - ", "    ", &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::cost_testing::{MAIN, run};
    use crate::judge::judge;
    use crate::model::*;

    fn text(ledger: &Ledger) -> String {
        let style = Style {
            color: false,
            width: 100,
        };
        let mut out = Vec::new();
        cost_text(ledger, &judge(ledger), style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_savings_of_a_pair_read_well() {
        let ledger = run(2, &MAIN, &|_, _| {});
        insta::assert_snapshot!(text(&ledger));
        let report = CostReport::of(&ledger).unwrap();
        assert!(report.is_complete());
        let savings = report.pairs[0].savings;
        // 20 Gb/s by 1.5 and 2.5 cores, or by 1.0 and 2.5.
        let share = savings.zero_copy_in_kernel.unwrap().share().unwrap();
        assert!((share - 0.125).abs() < 1e-3, "{share}");
        // Of the target's 0.01 cores ticks may hide 0.08 more.
        assert!(savings.together.unwrap().at_least);
        let share = savings.together.unwrap().share().unwrap();
        assert!(
            (share - (1.0 - 0.49 / 390.0 / (4.0 / 20.0))).abs() < 1e-4,
            "{share}"
        );
        // The copy of a write is its initiator's.
        let copied = report.pairs[0].step(CostStep::WriteCopied).unwrap();
        assert_eq!(copied.copied_gb_per_s().map(f64::round), [20.0, 0.0]);
    }

    #[test]
    fn of_many_pairs_the_median_and_the_worst_are_shown() {
        let said = text(&run(4, &MAIN, &|_, _| {}));
        assert_eq!(
            said.matches("What moving data costs from").count(),
            WORST,
            "{said}"
        );
        assert!(said.contains("the median of 12 pairs of NICs"), "{said}");
    }

    #[test]
    fn what_failed_is_a_gap_with_its_reason() {
        let fail = |step: CostStep, outcome: &mut Outcome| {
            if step == CostStep::WriteCopied {
                *outcome = Outcome::Failed {
                    stage: ProbeStage::Prepare,
                    node: Some("node01".into()),
                    why: "no".into(),
                };
            }
        };
        let ledger = run(2, &MAIN, &fail);
        let report = CostReport::of(&ledger).unwrap();
        assert!(!report.is_complete());
        let said = text(&ledger);
        assert!(
            said.starts_with("COST NOT MEASURED EVERYWHERE: 2 pairs"),
            "{said}"
        );
        assert!(
            said.contains("- 2 probes: write-copied: node01: prepare: no"),
            "{said}"
        );
        let mut out = Vec::new();
        cost_json(&ledger, &judge(&ledger), &mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["exit_code"], 3);
        assert_eq!(
            json["cost"]["pairs"][0]["savings"]["zero_copy_past_kernel"],
            serde_json::Value::Null
        );
    }

    #[test]
    fn what_ticks_hide_is_a_bound_everywhere() {
        let ledger = run(2, &MAIN, &|_, _| {});
        let said = text(&ledger);
        let row = said
            .lines()
            .find(|line| line.contains("  write-poll"))
            .unwrap();
        assert!(!row.contains("~0") && row.contains("<1.68"), "{row}");
        assert!(
            said.contains("less than 0.1 cores at the receiver"),
            "{said}"
        );
        let mut out = Vec::new();
        cost_json(&ledger, &judge(&ledger), &mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let steps = json["cost"]["pairs"][0]["steps"].as_array().unwrap();
        let polled = steps
            .iter()
            .find(|step| step["step"] == "write-poll")
            .unwrap();
        let target = &polled["target"];
        assert!(target["ns_per_kib"].is_null() && target["cores_for_line"].is_null());
        assert!(
            target["bounds"]["ns_per_kib_below"].as_f64() > Some(1.0),
            "{target}"
        );
        assert!(target["why_null"].as_str().unwrap().contains("ticks"));
        let told = &polled["initiator"];
        assert!(
            told["ns_per_kib"].is_number() && told["bounds"].is_null(),
            "{told}"
        );
    }

    #[test]
    fn a_node_that_is_lost_is_told_once() {
        let mut all = crate::judge::cost_testing::events_of(2, &MAIN, &|_, _| {});
        all.retain(|event| matches!(event, Event::RunStarted { .. } | Event::RunFinished { .. }));
        let lost = |node: &str| Event::NodeLost {
            node: node.into(),
            why: "no route to host".into(),
        };
        all.splice(1..1, [lost("node01"), lost("node02")]);
        let ledger = crate::ledger::testing::ledger(&all);
        let said = text(&ledger);
        assert!(said.starts_with("COST NOT MEASURED: 0 pairs"), "{said}");
        assert_eq!(said.matches("no route to host").count(), 2, "{said}");
        assert!(!said.contains("Cost not measured:"), "{said}");
        // For programs all that is missing is in one place.
        assert_eq!(CostReport::of(&ledger).unwrap().gaps.len(), 2);
    }

    #[test]
    fn what_a_host_may_do_without_is_missed_only_where_it_was_asked_for() {
        let none = |step: CostStep, outcome: &mut Outcome| {
            if step == CostStep::WriteHuge {
                *outcome = Outcome::Failed {
                    stage: ProbeStage::Prepare,
                    node: Some("node01".into()),
                    why: format!("{NO_HUGE_PAGES} for 8 bytes"),
                };
            }
        };
        let all = run(2, &[], &none);
        assert!(CostReport::of(&all).unwrap().is_complete());
        let said = text(&all);
        assert!(said.starts_with("COST MEASURED: 2 pairs"), "{said}");
        assert!(
            said.contains("Not available here, and not asked for by --only:"),
            "{said}"
        );
        assert!(
            said.contains("- 2 probes: write-huge: node01: prepare: too few huge pages"),
            "{said}"
        );
        let asked = run(2, &[CostStep::Write, CostStep::WriteHuge], &none);
        assert!(!CostReport::of(&asked).unwrap().is_complete());
        assert!(text(&asked).contains("Cost not measured:"));
        // Huge pages that are there and cannot be registered are no such thing.
        let other = run(2, &[], &|step, outcome| {
            none(step, outcome);
            if let Outcome::Failed { why, .. } = outcome {
                *why = "cannot register".into();
            }
        });
        assert!(!CostReport::of(&other).unwrap().is_complete());
    }

    #[test]
    fn whatever_nodes_say_no_number_is_not_one() {
        let lie = |step: CostStep, outcome: &mut Outcome| {
            if let Outcome::Measured {
                measurement,
                verified,
            } = outcome
            {
                let huge = [u64::MAX, 0, 1][step as usize % 3];
                measurement.total_bytes = huge.max(measurement.bytes);
                measurement.cpu.user_us = u64::MAX - huge;
                measurement.cpu.elapsed_us = Fact::known(huge, "x");
                measurement.registration = Some(Registration {
                    us: u64::MAX,
                    bytes: huge,
                    page_bytes: huge,
                });
                if let Fact::Known { value, .. } = verified {
                    value.cpu = Fact::unknown("\u{1b}[2J");
                }
            }
        };
        for only in [&MAIN[..], &[]] {
            let ledger = run(2, only, &lie);
            let said = text(&ledger);
            for bad in ["NaN", "inf", "\u{1b}"] {
                assert!(!said.contains(bad), "{said}");
            }
            let mut out = Vec::new();
            cost_json(&ledger, &judge(&ledger), &mut out).unwrap();
        }
    }
}
