//! Many-to-one bursts, for a person: what the senders get of one NIC, and what holds them back.

use std::io::{self, Write};

use super::table::number;
use crate::judge::Incast;
use crate::model::{Fact, Gbps, visible};
use crate::report::findings::paragraph;
use crate::report::text::Style;

/// Receivers that are shown one by one; the others are in JSON.
const IN_FULL: usize = 4;

/// All bursts, those of one receiver together.
pub(super) fn incasts(bursts: &[Incast<'_>], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let same = |a: &Incast<'_>, b: &Incast<'_>| (a.rail, a.to) == (b.rail, b.to);
    let receivers: Vec<&[Incast<'_>]> = bursts.chunk_by(same).collect();
    for of_one in receivers.iter().take(IN_FULL) {
        one(of_one, style, out)?;
    }
    match receivers.len().checked_sub(IN_FULL) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(out, "\n{more} more receivers are in --format json."),
    }
}

fn one(ways: &[Incast<'_>], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = ways.first() else {
        return Ok(());
    };
    let line = match first.line.value() {
        Some(rate) => format!("line rate {rate}"),
        None => "line rate unknown".to_owned(),
    };
    let to = first.to.to_string();
    writeln!(
        out,
        "\nCongestion: many to one, to {} ({}, {line}):",
        visible(&to),
        first.rail
    )?;
    writeln!(
        out,
        "  {:12}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}",
        "way", "senders", "Gb/s", "of line", "least", "most", "ratio"
    )?;
    for way in ways {
        row(way, out)?;
    }
    let senders = first.senders.iter().map(|(nic, _)| nic.to_string());
    let senders: Vec<String> = senders.map(|nic| visible(&nic)).collect();
    let senders = format!("Senders at the same time: {}.", senders.join(", "));
    paragraph(out, style, "  ", "  ", &senders)?;
    for way in ways {
        paragraph(out, style, "  ", "  ", &held(way))?;
    }
    Ok(())
}

fn row(way: &Incast<'_>, out: &mut dyn Write) -> io::Result<()> {
    let together = way.together.value().map(|all| all.rate);
    let text = |number: Option<f64>| number.map_or("?".to_owned(), self::number);
    let line = way.line.value().copied();
    let [least, most] = match way.ends() {
        Some(ends) => ends.map(Some),
        None => [None; 2],
    };
    let rate = |rate: Option<Gbps>| text(rate.map(|rate| rate.0));
    writeln!(
        out,
        "  {:12}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}",
        way.step,
        way.senders.len(),
        rate(together),
        text(
            line.zip(together)
                .and_then(|(line, all)| all.share_of(line))
        ),
        rate(least),
        rate(most),
        text(way.fairness()),
    )
}

/// What holds senders back, whether it was seen to, what was counted, and what no number tells.
fn held(way: &Incast<'_>) -> String {
    let acted = match way.acted() {
        Fact::Known { value: true, .. } => "seen to act".to_owned(),
        Fact::Known { value: false, .. } => "not seen to act".to_owned(),
        Fact::Unknown { why } => format!("whether it acted is not known: {why}"),
    };
    let mut text = format!("{}: held back by {}; {acted}.", way.step, way.held_by);
    let ends = [("senders", &way.at_senders), ("receiver", &way.at_receiver)];
    for (who, counted) in ends {
        if let Some(counts) = counted.counts() {
            text.push_str(&format!(" Counted at the {who}: {counts}."));
        }
    }
    match &way.not_counted {
        Fact::Known { value, .. } if value.is_empty() => {}
        Fact::Known { value, .. } => {
            let not: Vec<&str> = value.iter().map(|sign| sign.in_words()).collect();
            text.push_str(&format!(" Not counted here: {}.", not.join(", ")));
        }
        Fact::Unknown { why } => {
            text.push_str(&format!(" What else is counted here is not known: {why}."));
        }
    }
    let ends = [&way.at_senders, &way.at_receiver];
    let why = ends.iter().find_map(|end| end.without_pauses());
    if let Some(why) = why.filter(|_| way.has_pauses() && ends.iter().all(|e| e.pauses_read == 0)) {
        text.push_str(&format!(" Pauses are not known: {why}."));
    }
    match &way.together {
        Fact::Known { value, .. } if value.all_us < value.any_us / 10 * 9 => {
            let [all, any] = [value.all_us, value.any_us].map(|us| us as f64 / 1e6);
            text.push_str(&format!(" All sent at once for {all:.2} of {any:.2} s."));
        }
        Fact::Known { .. } => {}
        Fact::Unknown { why } => {
            text.push_str(&format!(" What they reached together is not known: {why}."));
        }
    }
    if way.failed > 0 {
        text.push_str(&format!(" {} more were to send and failed.", way.failed));
    }
    visible(&text)
}
