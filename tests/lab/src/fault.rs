//! Faults as the command line writes them, and what those of a rail link make of it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::guest::{GuestHarm, parse_rail};
use crate::machine::{MachineHarm, parse_seconds};
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
pub enum LinkHarm {
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
    /// Half of the lab's rate for so long, then it is healthy again by itself.
    Transient(Duration),
}

/// What is wrong with a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Harm {
    /// One of its links, in the rail switch: at once.
    Link(LinkFault),
    /// The machine as a whole: at once.
    Machine(MachineHarm),
    /// Something inside it: when it boots.
    Guest(GuestHarm),
}

/// A harm to one direction of a node's link to one rail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkFault {
    /// Rail, counting from 0.
    pub rail: usize,
    /// Which way.
    pub direction: Direction,
    /// What happens to frames.
    pub harm: LinkHarm,
}

/// One fault.
///
/// On a link: `half:NODE:RAIL:DIR`, `rate:NODE:RAIL:DIR:32mbit`, `loss:NODE:RAIL:DIR:1%`,
/// `delay:NODE:RAIL:DIR:2ms`, `transient:NODE:RAIL:DIR:2s` or `cut:NODE:RAIL`, DIR being `tx`, `rx` or
/// `both` and RAIL counting from 0.
/// Of a machine: `shared:NODE:16mbit` or `pause:NODE:10s`.
/// In a guest: `mtu:NODE:RAIL:1500`, `narrow:NODE:RAIL:x8`, `far:NODE:RAIL`, `memlock:NODE:65536` or
/// `no-peermem:NODE`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fault {
    /// Name of the node, `node02`.
    pub node: String,
    /// What is wrong with it.
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
    /// The rail that it is about, if it is about one.
    pub fn rail(&self) -> Option<usize> {
        match self.harm {
            Harm::Link(link) => Some(link.rail),
            Harm::Machine(_) => None,
            Harm::Guest(guest) => guest.rail(),
        }
    }

    /// Whether the node has to boot for it.
    pub fn is_in_guest(&self) -> bool {
        matches!(self.harm, Harm::Guest(_))
    }

    /// How long it lasts, where it ends by itself.
    pub fn lasts(&self) -> Option<Duration> {
        match self.harm {
            Harm::Link(LinkFault {
                harm: LinkHarm::Transient(time),
                ..
            })
            | Harm::Machine(MachineHarm::Pause(time)) => Some(time),
            _ => None,
        }
    }

    /// What it does to that direction (`Tx` or `Rx`) of that link.
    fn on_link(&self, node: &str, rail: usize, direction: Direction) -> Option<LinkHarm> {
        let Harm::Link(fault) = self.harm else {
            return None;
        };
        let way = fault.direction == direction || fault.direction == Direction::Both;
        (self.node == node && fault.rail == rail && way).then_some(fault.harm)
    }
}

/// What is wrong inside a node.
pub(crate) fn in_guest<'a>(
    faults: &'a [Fault],
    node: &'a str,
) -> impl Iterator<Item = GuestHarm> + 'a {
    faults.iter().filter_map(move |fault| match fault.harm {
        Harm::Guest(harm) if fault.node == node => Some(harm),
        _ => None,
    })
}

/// What the rails of a node share in each direction, if they do; later faults win.
pub(crate) fn shared_rate(faults: &[Fault], node: &str) -> Option<Rate> {
    let of_node = faults.iter().rev().filter(|fault| fault.node == node);
    let mut shared = of_node.filter_map(|fault| match fault.harm {
        Harm::Machine(MachineHarm::Shared(rate)) => Some(rate),
        _ => None,
    });
    shared.next()
}

impl LinkHarm {
    /// Applies it to a link whose healthy rate is `healthy`.
    fn apply(self, link: &mut Link, healthy: Option<Rate>) {
        match self {
            LinkHarm::Half | LinkHarm::Transient(_) => link.rate = healthy.map(Rate::half),
            LinkHarm::Rate(rate) => link.rate = Some(rate),
            LinkHarm::Loss(share) => link.loss = share,
            LinkHarm::Delay(delay) => link.delay = delay,
            LinkHarm::Cut => link.cut = true,
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
        let harms = faults
            .iter()
            .filter_map(|f| f.on_link(node, rail, direction));
        harms.for_each(|harm| harm.apply(&mut link, healthy));
        link
    }
}

fn parse_harm(kind: &str, value: Option<&str>) -> Result<LinkHarm, String> {
    let needed = || value.ok_or_else(|| format!("`{kind}` needs a value after the direction"));
    let harm = match kind {
        "half" => LinkHarm::Half,
        "cut" => LinkHarm::Cut,
        "rate" => {
            return Ok(LinkHarm::Rate(
                needed()?.parse().map_err(|e| format!("{e}"))?,
            ));
        }
        "loss" => return Ok(LinkHarm::Loss(parse_share(needed()?)?)),
        "delay" => return Ok(LinkHarm::Delay(parse_delay(needed()?)?)),
        "transient" => return Ok(LinkHarm::Transient(parse_seconds(needed()?)?)),
        _ => {
            return Err(format!(
                "no fault is called `{kind}`: half, rate, loss, delay, cut, transient, shared, pause, mtu, \
                 narrow, far, memlock, no-peermem"
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
        let (kind, node, rest) = match parts.as_slice() {
            [kind, node, rest @ ..] if !node.is_empty() => (*kind, *node, rest),
            _ => return Err(error("write KIND:NODE[:RAIL[:DIRECTION[:VALUE]]]".into())),
        };
        let guest = GuestHarm::parse(kind, rest).map(|harm| harm.map(Harm::Guest));
        let machine = || MachineHarm::parse(kind, rest).map(|harm| harm.map(Harm::Machine));
        let link = || parse_link(kind, rest).map(Harm::Link);
        let harm = guest.or_else(machine).unwrap_or_else(link);
        Ok(Fault {
            node: node.to_owned(),
            harm: harm.map_err(error)?,
        })
    }
}

fn parse_link(kind: &str, rest: &[&str]) -> Result<LinkFault, String> {
    let [rail, rest @ ..] = rest else {
        return Err("write KIND:NODE:RAIL[:DIRECTION[:VALUE]]".into());
    };
    let rail = parse_rail(rail)?;
    let (direction, value) = match (rest, kind) {
        ([], "cut") => (Direction::Both, None),
        ([], _) => return Err("say which way: tx, rx or both".into()),
        ([way], _) => (way.parse()?, None),
        ([way, value], _) => (way.parse()?, Some(*value)),
        _ => return Err("too many parts".into()),
    };
    let harm = parse_harm(kind, value)?;
    Ok(LinkFault {
        rail,
        direction,
        harm,
    })
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
        let link = match self.harm {
            Harm::Guest(harm) => return harm.write(&self.node, f),
            Harm::Machine(harm) => return harm.write(&self.node, f),
            Harm::Link(link) => link,
        };
        let (kind, value) = match link.harm {
            LinkHarm::Half => ("half", String::new()),
            LinkHarm::Rate(rate) => ("rate", format!(":{rate}")),
            LinkHarm::Loss(share) => ("loss", format!(":{}%", share * 100.0)),
            LinkHarm::Delay(delay) => ("delay", format!(":{}us", delay.as_micros())),
            LinkHarm::Cut => ("cut", String::new()),
            LinkHarm::Transient(time) => ("transient", format!(":{}s", time.as_secs_f64())),
        };
        let (node, rail, way) = (&self.node, link.rail, link.direction);
        write!(f, "{kind}:{node}:{rail}:{way}{value}")
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
            "transient:node02:0:both:2s",
            "transient:node02:0:tx:1.5",
        ] {
            assert_eq!(fault(&fault(text).to_string()), fault(text), "{text}");
        }
        let link = |text| match fault(text).harm {
            Harm::Link(link) => link,
            _ => panic!("{text}"),
        };
        assert_eq!(link("cut:node02:0").direction, Direction::Both);
        assert_eq!(
            link("delay:node01:1:tx:2ms").harm,
            LinkHarm::Delay(Duration::from_millis(2))
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("half", "KIND:NODE"),
            ("half:node01", "KIND:NODE:RAIL"),
            ("half:node01:x:tx", "not a rail number"),
            ("half:node01:0", "which way"),
            ("half:node01:0:up", "not a direction"),
            ("half:node01:0:tx:3", "takes no value"),
            ("rate:node01:0:tx", "needs a value"),
            ("rate:node01:0:tx:fast", "not a rate"),
            ("loss:node01:0:tx:200%", "not a loss"),
            ("loss:node01:0:tx:NaN%", "not a loss"),
            ("delay:node01:0:tx:11s", "not a delay"),
            ("transient:node01:0:tx", "needs a value"),
            ("transient:node01:0:tx:long", "not a time"),
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
    fn a_transient_is_a_half_that_ends() {
        let healthy: Option<Rate> = Some("64mbit".parse().unwrap());
        let faults = [fault("transient:node02:1:rx:2s")];
        let rate = |way| Link::with_faults(healthy, &faults, "node02", 1, way).rate;
        assert_eq!(rate(Direction::Rx), Some("32mbit".parse().unwrap()));
        assert_eq!(rate(Direction::Tx), healthy);
        assert_eq!(faults[0].lasts(), Some(Duration::from_secs(2)));
        assert_eq!(
            fault("pause:node02:10").lasts(),
            Some(Duration::from_secs(10))
        );
        assert_eq!(fault("half:node02:1:rx").lasts(), None);
    }

    #[test]
    fn what_rails_share_is_told_by_node() {
        let faults = [fault("shared:node02:16mbit"), fault("half:node01:0:tx")];
        let rate = "16mbit".parse().unwrap();
        assert_eq!(shared_rate(&faults, "node02"), Some(rate));
        assert_eq!(shared_rate(&faults, "node01"), None);
        let link = Link::with_faults(None, &faults, "node02", 0, Direction::Tx);
        assert_eq!(link, Link::default());
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
