//! What a watch shows at each tick: a table to be drawn again, rows that follow each other, or a
//! JSON document on a line.

mod json;

use std::collections::BTreeSet;
use std::io::{self, Write};

use jiff::Timestamp;

pub use json::json;

use crate::ledger::{Ledger, NodeState, NodeWatch, PortRates, Tally};
use crate::model::{Fact, Gbps, NodeName, Quantity, QueuePairs, is_treacherous};

/// After so many ticks without a sample a node's last rates are no longer shown: one tick may fall
/// just before a sample.
const QUIET: u32 = 2;

/// The columns after node and NIC.
const COLUMNS: [&str; 10] = [
    "tx Gb/s",
    "rx Gb/s",
    "packets/s",
    "errors",
    "discards",
    "resent",
    "pauses",
    "waits",
    "CNPs",
    "QPs",
];

/// One line of a watch.
enum Line<'a> {
    /// What a port did, and who holds queue pairs on its node's devices.
    Port(&'a NodeName, PortRates<'a>, &'a Fact<QueuePairs>),
    /// Why there is nothing to show of a node.
    Word(&'a NodeName, String),
}

/// Whether at least one node has sent what can be shown since the tick before.
pub fn is_news(ledger: &Ledger) -> bool {
    let mut watches = ledger.watched().filter_map(|(_, _, watch)| watch);
    watches.any(|watch| watch.quiet() == 0 && !watch.rates().is_empty())
}

/// Whether nothing will come any more: every node is lost, or has nothing to watch.
pub fn is_over(ledger: &Ledger) -> bool {
    ledger.watched().all(|(_, state, watch)| {
        let lost = matches!(state, NodeState::Lost { .. });
        lost || watch.is_some_and(|watch| no_device(watch).is_some())
    })
}

/// The table of a tick, no wider than `width` columns, at most `height` lines.
///
/// # Errors
/// Whatever `out` reports.
pub fn table(
    ledger: &Ledger,
    width: usize,
    height: usize,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let lines = lines(ledger, QUIET);
    let name = |line: &Line<'_>| match line {
        Line::Port(node, ..) | Line::Word(node, _) => node.0.chars().count(),
    };
    let nodes = lines.iter().map(name).max().unwrap_or(0).clamp(4, 24);
    let mut page = vec![header(nodes)];
    page.extend(lines.iter().map(|line| row(line, nodes)));
    page.extend(holders(&lines));
    page.extend(notes(&lines));
    let footer = dropped(ledger);
    let below = footer.iter().count();
    let room = height.max(2 + below) - below;
    if page.len() > room {
        let hidden = page.len() - (room - 1);
        page.truncate(room - 1);
        page.push(format!("… {hidden} more lines: the terminal is too low"));
    }
    page.extend(footer);
    for text in &page {
        writeln!(out, "{}", visible(text, width))?;
    }
    Ok(page.len())
}

/// The heading of [`rows`].
pub fn rows_header() -> String {
    format!("{:<20} {}", "time", header(NODE_WIDTH))
}

/// The rows of a tick: ports with news, each with the time, and what was not `told` before.
///
/// # Errors
/// Whatever `out` reports.
pub fn rows(
    ledger: &Ledger,
    at: Timestamp,
    told: &mut BTreeSet<String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let lines = lines(ledger, 0);
    let time = at.strftime("%Y-%m-%dT%H:%M:%SZ");
    for line in &lines {
        let text = row(line, NODE_WIDTH);
        if matches!(line, Line::Port(..)) || told.insert(text.clone()) {
            writeln!(out, "{time} {}", visible(&text, usize::MAX))?;
        }
    }
    if told.len() > MOST_TOLD {
        // Who holds queue pairs changes; what is forgotten is told again.
        told.clear();
    }
    let notes = holders(&lines).into_iter().chain(notes(&lines));
    for note in notes.chain(dropped(ledger)) {
        if told.insert(note.clone()) {
            writeln!(out, "# {}", visible(&note, usize::MAX))?;
        }
    }
    Ok(())
}

/// How many texts are kept to be told once.
const MOST_TOLD: usize = 4096;

/// The width of the column of nodes in rows that are not known beforehand.
const NODE_WIDTH: usize = 12;

fn lines(ledger: &Ledger, quiet: u32) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for (node, state, watch) in ledger.watched() {
        let Some(watch) = watch.filter(|_| !matches!(state, NodeState::Lost { .. })) else {
            lines.push(Line::Word(node, in_words(state)));
            continue;
        };
        let rates = watch.rates();
        let left_out = watch.layout().left_out;
        if let Some(why) = no_device(watch) {
            lines.push(Line::Word(node, why));
        } else if watch.quiet() > QUIET {
            let ticks = watch.quiet();
            lines.push(Line::Word(
                node,
                format!("no sample in the last {ticks} readings"),
            ));
        } else if watch.quiet() <= quiet {
            let holders = watch.queue_pairs();
            let port = |rates| Line::Port(node, rates, holders);
            lines.extend(rates.into_iter().map(port));
            if left_out > 0 {
                lines.push(Line::Word(
                    node,
                    format!("{left_out} more ports are not watched"),
                ));
            }
        }
    }
    lines
}

fn in_words(state: &NodeState) -> String {
    match state {
        NodeState::Waiting => "connecting".into(),
        NodeState::Connecting(stage) => stage.clone(),
        NodeState::Connected { .. } => "opening its counters".into(),
        NodeState::Lost { why } => format!("lost: {why}"),
    }
}

fn no_device(watch: &NodeWatch) -> Option<String> {
    match &watch.layout().ports {
        Fact::Unknown { why } => Some(format!("nothing to watch: {why}")),
        Fact::Known { value, from } if value.is_empty() => {
            Some(format!("nothing to watch: no device in {from}"))
        }
        Fact::Known { .. } => None,
    }
}

fn header(nodes: usize) -> String {
    line("node", "NIC", &COLUMNS.map(str::to_owned), nodes)
}

fn line(node: &str, nic: &str, cells: &[String; 10], nodes: usize) -> String {
    let mut text = format!("{node:<nodes$} {nic:<11}");
    for (cell, column) in cells.iter().zip(COLUMNS) {
        let width = column.len().max(7);
        text.push_str(&format!(" {cell:>width$}"));
    }
    text
}

fn row(of: &Line<'_>, nodes: usize) -> String {
    match of {
        Line::Word(node, word) => format!("{:<nodes$} {word}", node.0),
        Line::Port(node, rates, holders) => {
            line(&node.0, &nic(rates), &cells(rates, holders), nodes)
        }
    }
}

/// `mlx5_3`; the port only where it is not the first.
fn nic(rates: &PortRates<'_>) -> String {
    match rates.layout.port {
        1 => rates.layout.device.clone(),
        port => format!("{}/{port}", rates.layout.device),
    }
}

fn cells(rates: &PortRates<'_>, holders: &Fact<QueuePairs>) -> [String; 10] {
    use Quantity::*;
    let gbps = |rate: Fact<Gbps>| rate.value().map_or("?".into(), |rate| decimal(rate.0));
    let tally = |quantity| count(rates.tally(quantity));
    [
        gbps(rates.tx()),
        gbps(rates.rx()),
        packets(rates),
        tally(Errors),
        tally(Discards),
        tally(Retransmissions),
        tally(Pauses),
        tally(Waits),
        match (rates.tally(CnpsSent), rates.tally(CnpsHandled)) {
            (Fact::Unknown { .. }, Fact::Unknown { .. }) => "?".into(),
            (sent, handled) => format!("{}/{}", count(sent), count(handled)),
        },
        match holders.value() {
            Some(all) => short(f64::from(held(all, &rates.layout.device))),
            None => "?".into(),
        },
    ]
}

/// How many queue pairs are held on a device.
fn held(all: &QueuePairs, device: &str) -> u32 {
    let holders = all.get(device).map_or(&[][..], Vec::as_slice);
    holders
        .iter()
        .fold(0, |sum, holder| sum.saturating_add(holder.total()))
}

fn packets(rates: &PortRates<'_>) -> String {
    let sent = rates.per_second(Quantity::TxPackets);
    let received = rates.per_second(Quantity::RxPackets);
    match (sent.value(), received.value()) {
        (Some(sent), Some(received)) => short(sent + received),
        _ => "?".into(),
    }
}

fn count(tally: &Fact<Tally>) -> String {
    match tally.value() {
        None => "?".into(),
        Some(tally) if tally.missing.is_empty() => short(tally.count as f64),
        Some(tally) => format!("{}+", short(tally.count as f64)),
    }
}

/// A rate in Gb/s, to three digits after the point where it is small.
fn decimal(rate: f64) -> String {
    let decimals = match rate {
        rate if rate == 0.0 || rate >= 99.95 => 0,
        rate if rate >= 9.995 => 1,
        rate if rate >= 0.9995 => 2,
        _ => 3,
    };
    format!("{rate:.decimals$}")
}

/// A number in at most five characters: `9999`, `12.3k`, `4.5M`.
fn short(number: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match UNITS.iter().find(|(size, _)| number >= *size) {
        Some((size, unit)) if number >= 9999.5 => format!("{:.1}{unit}", number / size),
        _ => format!("{number:.0}"),
    }
}

fn label(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::TxBytes => "tx",
        Quantity::RxBytes => "rx",
        Quantity::TxPackets => "packets sent",
        Quantity::RxPackets => "packets received",
        Quantity::Errors => "errors",
        Quantity::Discards => "discards",
        Quantity::Retransmissions => "resent",
        Quantity::Pauses => "pauses",
        Quantity::Waits => "waits",
        Quantity::CnpsSent => "CNPs sent",
        Quantity::CnpsHandled => "CNPs obeyed",
    }
}

/// Who holds queue pairs on which NIC: the first few of the NICs that have some.
fn holders(lines: &[Line<'_>]) -> Vec<String> {
    const NICS: usize = 8;
    const HOLDERS: usize = 3;
    let said = lines.iter().filter_map(|line| {
        let Line::Port(node, rates, Fact::Known { value, .. }) = line else {
            return None;
        };
        let device = &rates.layout.device;
        let all = value.get(device).filter(|all| !all.is_empty())?;
        let mut said: Vec<String> = all.iter().take(HOLDERS).map(ToString::to_string).collect();
        if all.len() > HOLDERS {
            said.push(format!("and {} more", all.len() - HOLDERS));
        }
        Some(format!("QPs on {device} of {node}: {}", said.join(", ")))
    });
    said.take(NICS).collect()
}

/// What the marks in the table mean, each reason once.
fn notes(lines: &[Line<'_>]) -> Vec<String> {
    const MOST: usize = 8;
    let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
    let mut note = |what: &'static str, why: String| {
        let known = notes.iter().position(|(listed, _)| *listed == why);
        match known {
            Some(at) if notes[at].1.contains(&what) => {}
            Some(at) => notes[at].1.push(what),
            None if notes.len() < MOST => notes.push((why, vec![what])),
            None => {}
        }
    };
    for line in lines {
        let Line::Port(_, rates, holders) = line else {
            continue;
        };
        if let Fact::Unknown { why } = holders {
            note("QPs", why.to_string());
        }
        for quantity in Quantity::ALL {
            match rates.tally(*quantity) {
                Fact::Unknown { why } => note(label(*quantity), why.to_string()),
                Fact::Known { value, .. } => {
                    for missing in &value.missing {
                        note(label(*quantity), missing.clone());
                    }
                }
            }
        }
        if rates.layout.software.is_some() {
            let why =
                "of software RDMA those of its network interface, with all else that passes there";
            note("tx, rx, packets", why.into());
        }
    }
    let text = |(why, labels): (String, Vec<&str>)| format!("{}: {why}", labels.join(", "));
    notes.into_iter().map(text).collect()
}

/// How many readings are missing from what is shown.
fn dropped(ledger: &Ledger) -> Option<String> {
    let readings = match ledger.readings_dropped() {
        0 => return None,
        1 => "1 reading".to_owned(),
        count => format!("{count} readings"),
    };
    Some(format!(
        "{readings} dropped: this machine could not keep up"
    ))
}

/// The text with nothing in it that steers a terminal, cut to a line of it.
fn visible(text: &str, width: usize) -> String {
    let harmless = |c: char| if is_treacherous(c) { '\u{fffd}' } else { c };
    let text = text.trim_end().chars().map(harmless);
    text.take(width).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::model::{
        Event, PortLayout, PortReading, QueuePairHolder, Sample, SampleLayout, Series,
        SoftwareRdma, Uncounted,
    };

    fn series(quantity: Quantity, name: &str, unit: u32, saturates_at: Option<u64>) -> Series {
        Series {
            quantity,
            from: format!("/sys/{name}"),
            unit,
            saturates_at,
        }
    }

    fn nic(device: &str) -> PortLayout {
        PortLayout {
            device: device.into(),
            port: 1,
            software: None,
            series: vec![
                series(Quantity::TxBytes, "port_xmit_data", 4, None),
                series(Quantity::RxBytes, "port_rcv_data", 4, None),
                series(Quantity::TxPackets, "port_xmit_packets", 1, None),
                series(Quantity::RxPackets, "port_rcv_packets", 1, None),
                series(Quantity::Errors, "symbol_error", 1, Some(65_535)),
                series(Quantity::Errors, "link_downed", 1, Some(255)),
                series(Quantity::CnpsSent, "np_cnp_sent", 1, None),
            ],
            uncounted: vec![Uncounted {
                quantity: Quantity::Pauses,
                why: "sysfs does not count pauses".into(),
            }],
        }
    }

    fn sample(ports: &[(u64, [u64; 7])]) -> Sample {
        let reading = |(at_us, values): &(u64, [u64; 7])| PortReading {
            at_us: *at_us,
            values: values.iter().copied().map(Some).collect(),
        };
        Sample {
            ports: ports.iter().map(reading).collect(),
        }
    }

    /// A node with two NICs, one that is lost, one without devices, one on the way.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        let mut rxe = nic("rxe0");
        rxe.port = 2;
        rxe.software = Some(SoftwareRdma::Rxe);
        let watched = |node: &str, ports| Event::NodeWatched {
            node: node.into(),
            layout: Box::new(SampleLayout { ports, left_out: 0 }),
        };
        let sampled = |sample| Event::NodeSampled {
            node: "node01".into(),
            sample,
        };
        let from = "/sys/class/infiniband";
        let holder = QueuePairHolder {
            pid: Some(4711),
            name: "python3".into(),
            rc: 128,
            ..QueuePairHolder::default()
        };
        for event in [
            watched("node01", Fact::known(vec![nic("mlx5_0"), rxe], from)),
            Event::NodeQueuePairs {
                node: "node01".into(),
                queue_pairs: Fact::known(
                    [("mlx5_0".to_owned(), vec![holder])].into(),
                    "RDMA netlink",
                ),
            },
            sampled(sample(&[(0, [0, 0, 0, 0, 3, 255, 7]), (9, [0; 7])])),
            sampled(sample(&[
                (
                    1_000_000,
                    [12_225_000_000, 6_250_000, 47_000_000, 2_000, 8, 255, 19],
                ),
                (500_009, [0, 500_000_000, 0, 20, 0, 0, 0]),
            ])),
            Event::NodeLost {
                node: "node02".into(),
                why: "connection refused".into(),
            },
            watched("node03", Fact::known(Vec::new(), from)),
            Event::NodeStage {
                node: "node04".into(),
                stage: "authenticating".into(),
            },
        ] {
            ledger.apply(&event);
        }
        ledger.turn();
        ledger
    }

    fn at() -> Timestamp {
        Timestamp::from_second(1_796_033_700).unwrap()
    }

    #[test]
    fn the_table_has_a_line_for_every_nic_and_a_word_for_every_other_node() {
        let mut out = Vec::new();
        let lines = table(&ledger(), 120, 40, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), lines);
        insta::assert_snapshot!("table", text);
    }

    #[test]
    fn a_low_terminal_gets_no_more_than_it_has() {
        let mut out = Vec::new();
        assert_eq!(table(&ledger(), 40, 3, &mut out).unwrap(), 3);
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 40));
        assert!(
            text.ends_with("more lines: the terminal is too low\n"),
            "{text}"
        );
    }

    #[test]
    fn rows_tell_what_does_not_change_once() {
        let mut told = BTreeSet::new();
        let mut print = |ledger: &Ledger| {
            let mut out = Vec::new();
            rows(ledger, at(), &mut told, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let mut ledger = ledger();
        insta::assert_snapshot!("rows", print(&ledger));
        ledger.turn();
        assert_eq!(print(&ledger), "", "no sample came since");
        assert!(!is_news(&ledger));
    }

    #[test]
    fn a_document_on_one_line() {
        let mut out = Vec::new();
        json(&ledger(), at(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        insta::assert_json_snapshot!("document", serde_json::from_str::<Value>(&text).unwrap());
    }

    #[test]
    fn a_node_that_falls_silent_is_not_shown_as_it_was() {
        let mut ledger = ledger();
        for _ in 0..3 {
            ledger.turn();
        }
        let mut out = Vec::new();
        table(&ledger, 120, 40, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("no sample in the last 3 readings"), "{text}");
        assert!(!text.contains("mlx5_0"), "{text}");
    }

    #[test]
    fn readings_that_were_dropped_are_told() {
        let mut ledger = ledger();
        let page = |ledger: &Ledger| {
            let mut out = Vec::new();
            table(ledger, 120, 40, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!page(&ledger).contains("dropped"));
        for (node, count) in [("node01", 5), ("node04", 7)] {
            let node = node.into();
            ledger.apply(&Event::ReadingsDropped { node, count });
        }
        let says = "12 readings dropped: this machine could not keep up";
        assert!(page(&ledger).trim_end().ends_with(says));
        let (mut told, mut out) = (BTreeSet::new(), Vec::new());
        rows(&ledger, at(), &mut told, &mut out).unwrap();
        rows(&ledger, at(), &mut told, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches(&format!("# {says}")).count(), 1, "{text}");
        let mut out = Vec::new();
        json(&ledger, at(), &mut out).unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(document["readings_dropped"], 12);
    }

    #[test]
    fn nothing_comes_any_more_once_nobody_is_left() {
        let mut ledger = ledger();
        assert!(!is_over(&ledger));
        for node in ["node01", "node04"] {
            let why = "gone".to_owned();
            let node = node.into();
            ledger.apply(&Event::NodeLost { node, why });
        }
        assert!(is_over(&ledger));
    }

    #[test]
    fn numbers_keep_to_their_columns() {
        for (number, text) in [
            (0.0, "0"),
            (9_999.0, "9999"),
            (12_345.0, "12.3k"),
            (47e6, "47.0M"),
            (2e12, "2.0T"),
        ] {
            assert_eq!(short(number), text);
        }
        let rates = [0.0, 0.05, 9.5, 49.62, 391.4].map(decimal);
        assert_eq!(rates, ["0", "0.050", "9.50", "49.6", "391"]);
    }
}
