//! Faults of a rail link, as the command line writes them, and what they make of a link.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rate::Rate;

/// A direction of a node's link to the rail switch, as the node sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the node into the rail.
    Tx,
    /// From the rail to the node.
    Rx,
    /// Each of them.
    Both,
}

/// What is wrong with a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Harm {
    /// Half of the lab's rate.
    Half,
    /// This rate in place of the lab's.
    Rate(Rate),
    /// This share of frames (0 to 1) is lost.
    Loss(f64),
    /// Each frame arrives this much later.
    Delay(Duration),
    /// No frame passes; the carrier stays up.
    Cut,
}

/// One fault: a harm to one direction of one node's link to one rail.
///
/// Written `half:NODE:RAIL:DIR`, `rate:NODE:RAIL:DIR:32mbit`, `loss:NODE:RAIL:DIR:1%`,
/// `delay:NODE:RAIL:DIR:2ms` or `cut:NODE:RAIL`, DIR being `tx`, `rx` or `both` and RAIL counting from 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fault {
    /// Name of the node, `node02`.
    pub node: String,
    /// Rail, counting from 0.
    pub rail: usize,
    /// Which way.
    pub direction: Direction,
    /// What happens to frames.
    pub harm: Harm,
}

/// Why a fault was not understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("fault `{text}`: {why}")]
pub struct FaultError {
    text: String,
    why: String,
}

/// What one direction of one link does to frames.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Link {
    /// Rate, `None` for as fast as the machine goes.
    pub rate: Option<Rate>,
    /// Share of frames lost, 0 to 1.
    pub loss: f64,
    /// Added to each frame's way.
    pub delay: Duration,
    /// Nothing passes.
    pub cut: bool,
}

impl Fault {
    /// Whether this fault touches that direction (`Tx` or `Rx`) of that link.
    pub fn touches(&self, node: &str, rail: usize, direction: Direction) -> bool {
        self.node == node
            && self.rail == rail
            && (self.direction == direction || self.direction == Direction::Both)
    }

    /// Applies this fault to a link whose healthy rate is `healthy`.
    pub fn apply(&self, link: &mut Link, healthy: Option<Rate>) {
        match self.harm {
            Harm::Half => link.rate = healthy.map(Rate::half),
            Harm::Rate(rate) => link.rate = Some(rate),
            Harm::Loss(share) => link.loss = share,
            Harm::Delay(delay) => link.delay = delay,
            Harm::Cut => link.cut = true,
        }
    }
}

impl Link {
    /// A direction of a link with these faults; later faults win over earlier ones of their kind.
    pub fn with_faults(
        healthy: Option<Rate>,
        faults: &[Fault],
        node: &str,
        rail: usize,
        direction: Direction,
    ) -> Link {
        let mut link = Link {
            rate: healthy,
            ..Link::default()
        };
        for fault in faults.iter().filter(|f| f.touches(node, rail, direction)) {
            fault.apply(&mut link, healthy);
        }
        link
    }
}

fn parse_harm(kind: &str, value: Option<&str>) -> Result<Harm, String> {
    let needed = || value.ok_or_else(|| format!("`{kind}` needs a value after the direction"));
    let harm = match kind {
        "half" => Harm::Half,
        "cut" => Harm::Cut,
        "rate" => return Ok(Harm::Rate(needed()?.parse().map_err(|e| format!("{e}"))?)),
        "loss" => return Ok(Harm::Loss(parse_share(needed()?)?)),
        "delay" => return Ok(Harm::Delay(parse_delay(needed()?)?)),
        _ => {
            return Err(format!(
                "no fault is called `{kind}`: half, rate, loss, delay, cut"
            ));
        }
    };
    match value {
        Some(value) => Err(format!("`{kind}` takes no value, and here is `{value}`")),
        None => Ok(harm),
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let why = || format!("`{text}` is not a loss: write 1% or 0.5%, at most 100%");
    let percent: f64 = text
        .strip_suffix('%')
        .and_then(|n| n.parse().ok())
        .ok_or_else(why)?;
    if (0.0..=100.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err(why())
    }
}

fn parse_delay(text: &str) -> Result<Duration, String> {
    let why = || format!("`{text}` is not a delay: write 500us, 2ms or 1s, at most 10s");
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (unit, size) = units
        .iter()
        .find(|(unit, _)| text.ends_with(unit))
        .ok_or_else(why)?;
    let number: f64 = text[..text.len() - unit.len()].parse().map_err(|_| why())?;
    let seconds = number * size;
    if (0.0..=10.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(why())
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Fault, FaultError> {
        let error = |why: String| FaultError {
            text: text.to_owned(),
            why,
        };
        let parts: Vec<&str> = text.split(':').collect();
        let (kind, node, rail, rest) = match parts.as_slice() {
            [kind, node, rail, rest @ ..] if !node.is_empty() => (*kind, *node, *rail, rest),
            _ => return Err(error("write KIND:NODE:RAIL[:DIRECTION[:VALUE]]".into())),
        };
        let rail = rail
            .parse()
            .map_err(|_| error(format!("`{rail}` is not a rail number")))?;
        let (direction, value) = match (rest, kind) {
            ([], "cut") => (Direction::Both, None),
            ([], _) => return Err(error("say which way: tx, rx or both".into())),
            ([way], _) => (way.parse().map_err(&error)?, None),
            ([way, value], _) => (way.parse().map_err(&error)?, Some(*value)),
            _ => return Err(error("too many parts".into())),
        };
        let harm = parse_harm(kind, value).map_err(&error)?;
        Ok(Fault {
            node: node.to_owned(),
            rail,
            direction,
            harm,
        })
    }
}

impl FromStr for Direction {
    type Err = String;

    fn from_str(text: &str) -> Result<Direction, String> {
        match text {
            "tx" => Ok(Direction::Tx),
            "rx" => Ok(Direction::Rx),
            "both" => Ok(Direction::Both),
            _ => Err(format!("`{text}` is not a direction: tx, rx or both")),
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Tx => "tx",
            Direction::Rx => "rx",
            Direction::Both => "both",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, value) = match self.harm {
            Harm::Half => ("half", String::new()),
            Harm::Rate(rate) => ("rate", format!(":{rate}")),
            Harm::Loss(share) => ("loss", format!(":{}%", share * 100.0)),
            Harm::Delay(delay) => ("delay", format!(":{}us", delay.as_micros())),
            Harm::Cut => ("cut", String::new()),
        };
        write!(
            f,
            "{kind}:{}:{}:{}{value}",
            self.node, self.rail, self.direction
        )
    }
}

impl TryFrom<String> for Fault {
    type Error = FaultError;
    fn try_from(text: String) -> Result<Fault, FaultError> {
        text.parse()
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> String {
        fault.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Fault {
        text.parse().unwrap()
    }

    #[test]
    fn every_kind_is_read_and_written_back() {
        for text in [
            "half:node02:1:tx",
            "rate:node01:0:rx:32mbit",
            "loss:node03:0:both:1%",
            "delay:node01:1:tx:2ms",
            "cut:node02:0",
            "cut:node02:0:rx",
        ] {
            assert_eq!(fault(&fault(text).to_string()), fault(text), "{text}");
        }
        assert_eq!(fault("cut:node02:0").direction, Direction::Both);
        assert_eq!(
            fault("delay:node01:1:tx:2ms").harm,
            Harm::Delay(Duration::from_millis(2))
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("half", "KIND:NODE:RAIL"),
            ("half:node01:x:tx", "not a rail number"),
            ("half:node01:0", "which way"),
            ("half:node01:0:up", "not a direction"),
            ("half:node01:0:tx:3", "takes no value"),
            ("rate:node01:0:tx", "needs a value"),
            ("rate:node01:0:tx:fast", "not a rate"),
            ("loss:node01:0:tx:200%", "not a loss"),
            ("loss:node01:0:tx:NaN%", "not a loss"),
            ("delay:node01:0:tx:11s", "not a delay"),
            ("melt:node01:0:tx", "no fault is called"),
            ("half:node01:0:tx:1:2", "too many parts"),
        ] {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_half_fault_touches_its_direction_alone() {
        let healthy: Option<Rate> = Some("64mbit".parse().unwrap());
        let faults = [fault("half:node02:1:tx")];
        let rate = |node, rail, way| Link::with_faults(healthy, &faults, node, rail, way).rate;
        assert_eq!(
            rate("node02", 1, Direction::Tx),
            Some("32mbit".parse().unwrap())
        );
        assert_eq!(rate("node02", 1, Direction::Rx), healthy);
        assert_eq!(rate("node02", 0, Direction::Tx), healthy);
        assert_eq!(rate("node01", 1, Direction::Tx), healthy);
    }

    #[test]
    fn faults_of_different_kinds_add_up() {
        let faults = [
            fault("loss:node01:0:both:1%"),
            fault("rate:node01:0:tx:1mbit"),
        ];
        let link = Link::with_faults(None, &faults, "node01", 0, Direction::Tx);
        assert_eq!(
            (link.loss, link.rate),
            (0.01, Some("1mbit".parse().unwrap()))
        );
        assert!(!link.cut);
    }
}
