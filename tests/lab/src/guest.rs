//! Faults inside a guest: its settings, its sysfs, the place of its NICs. They take effect when it boots.

use std::fmt;

use crate::pcie::PcieTree;

/// What is wrong inside a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestHarm {
    /// The rail's interface has this MTU in bytes, from which RDMA's follows.
    Mtu {
        /// Rail, counting from 0.
        rail: usize,
        /// The MTU.
        bytes: u32,
    },
    /// The PCIe link of the rail's NIC trained at fewer lanes than it and its port have.
    Narrow {
        /// Rail, counting from 0.
        rail: usize,
        /// The lanes that it trained at.
        lanes: u8,
    },
    /// The rail's NIC sits on the other socket than the GPU that it should serve.
    Far {
        /// Rail, counting from 0.
        rail: usize,
    },
    /// Who logs in over SSH may lock this much memory, in bytes.
    Memlock {
        /// The limit.
        bytes: u64,
    },
    /// The stand-in GPUs' driver has no peer memory client.
    NoPeermem,
}

/// The MTUs that the NICs of a guest take (their `host_mtu` is the upper end).
const MTUS: std::ops::RangeInclusive<u32> = 576..=4200;

/// `ulimit -l` counts in these.
const KIB: u64 = 1024;

impl GuestHarm {
    /// Reads what follows the node's name; `None` where no such harm is called `kind`.
    pub(crate) fn parse(kind: &str, rest: &[&str]) -> Option<Result<GuestHarm, String>> {
        let harm = match kind {
            "mtu" => two(rest, "NODE:RAIL:BYTES").and_then(|(rail, bytes)| {
                Ok(GuestHarm::Mtu {
                    rail: parse_rail(rail)?,
                    bytes: number(bytes, "an MTU in bytes, such as 1500")?,
                })
            }),
            "narrow" => two(rest, "NODE:RAIL:xLANES").and_then(|(rail, lanes)| {
                let digits = lanes.strip_prefix('x').unwrap_or(lanes);
                Ok(GuestHarm::Narrow {
                    rail: parse_rail(rail)?,
                    lanes: number(digits, "a number of lanes, such as x8")?,
                })
            }),
            "far" => match rest {
                [rail] => parse_rail(rail).map(|rail| GuestHarm::Far { rail }),
                _ => Err("write far:NODE:RAIL".into()),
            },
            "memlock" => match rest {
                [bytes] => number(bytes, "a limit in bytes, such as 65536")
                    .map(|bytes| GuestHarm::Memlock { bytes }),
                _ => Err("write memlock:NODE:BYTES".into()),
            },
            "no-peermem" => match rest {
                [] => Ok(GuestHarm::NoPeermem),
                _ => Err("write no-peermem:NODE".into()),
            },
            _ => return None,
        };
        Some(harm)
    }

    /// The rail that it is about, if it is about one.
    pub fn rail(self) -> Option<usize> {
        match self {
            GuestHarm::Mtu { rail, .. }
            | GuestHarm::Narrow { rail, .. }
            | GuestHarm::Far { rail } => Some(rail),
            GuestHarm::Memlock { .. } | GuestHarm::NoPeermem => None,
        }
    }

    /// Whether it is about what only a server's PCIe tree has.
    pub(crate) fn needs_server(self) -> bool {
        match self {
            GuestHarm::Narrow { .. } | GuestHarm::Far { .. } | GuestHarm::NoPeermem => true,
            GuestHarm::Mtu { .. } | GuestHarm::Memlock { .. } => false,
        }
    }

    /// Whether guests with this PCIe tree can have it.
    ///
    /// # Errors
    /// What they lack.
    pub(crate) fn check(self, tree: &PcieTree) -> Result<(), String> {
        let other_tree = |lacks: &str| {
            Err(format!(
                "{lacks} in this PCIe tree: start the lab with --pcie two-socket"
            ))
        };
        match self {
            GuestHarm::Mtu { bytes, .. } if !MTUS.contains(&bytes) => {
                Err(format!("write {} to {}", MTUS.start(), MTUS.end()))
            }
            GuestHarm::Memlock { bytes } if bytes == 0 || bytes % KIB != 0 => {
                Err("write a multiple of 1024".into())
            }
            GuestHarm::Narrow { rail, lanes } => match tree.lanes(rail) {
                None => other_tree("NICs have no link"),
                Some(all) if !matches!(lanes, 1 | 2 | 4 | 8) || lanes >= all => Err(format!(
                    "write x1, x2, x4 or x8, and less than the link's x{all}"
                )),
                Some(_) => Ok(()),
            },
            GuestHarm::Far { rail } if tree.far.get(rail).is_none() => {
                other_tree("there is no other socket")
            }
            GuestHarm::NoPeermem if tree.gpus.is_empty() => other_tree("there is no GPU"),
            _ => Ok(()),
        }
    }

    /// The shell assignment that tells the guest's boot of it, if that has anything to do with it.
    pub(crate) fn setting(self) -> Option<String> {
        match self {
            GuestHarm::Mtu { rail, bytes } => Some(format!("LAB_RAIL{rail}_MTU={bytes}")),
            GuestHarm::Memlock { bytes } => Some(format!("LAB_MEMLOCK={}", bytes / KIB)),
            GuestHarm::NoPeermem => Some("LAB_PEERMEM=no".into()),
            GuestHarm::Narrow { .. } | GuestHarm::Far { .. } => None,
        }
    }

    /// As it is written, the node's name in the middle.
    pub(crate) fn write(self, node: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestHarm::Mtu { rail, bytes } => write!(f, "mtu:{node}:{rail}:{bytes}"),
            GuestHarm::Narrow { rail, lanes } => write!(f, "narrow:{node}:{rail}:x{lanes}"),
            GuestHarm::Far { rail } => write!(f, "far:{node}:{rail}"),
            GuestHarm::Memlock { bytes } => write!(f, "memlock:{node}:{bytes}"),
            GuestHarm::NoPeermem => write!(f, "no-peermem:{node}"),
        }
    }
}

fn two<'a>(rest: &[&'a str], form: &str) -> Result<(&'a str, &'a str), String> {
    match rest {
        [first, second] => Ok((first, second)),
        _ => Err(format!("write KIND:{form}")),
    }
}

pub(crate) fn parse_rail(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a rail number"))
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Fault, Harm};

    #[test]
    fn every_kind_is_read_and_written_back() {
        for text in [
            "mtu:node02:1:1500",
            "narrow:node01:0:x8",
            "far:node03:1",
            "memlock:node02:65536",
            "no-peermem:node01",
        ] {
            let fault: Fault = text.parse().unwrap();
            assert!(matches!(fault.harm, Harm::Guest(_)), "{fault:?}");
            assert_eq!(fault.to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("mtu:node01:0", "KIND:NODE:RAIL:BYTES"),
            ("mtu:node01:a:1500", "not a rail number"),
            ("mtu:node01:0:big", "not an MTU"),
            ("narrow:node01:0:x", "not a number of lanes"),
            ("far:node01", "write far:NODE:RAIL"),
            ("memlock:node01", "write memlock:NODE:BYTES"),
            ("memlock:node01:64k", "not a limit in bytes"),
            ("no-peermem:node01:0", "write no-peermem:NODE"),
        ] {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_the_guests_cannot_have_is_refused() {
        let (flat, server) = (PcieTree::flat(2), PcieTree::two_socket(2));
        let check = |text: &str, tree: &PcieTree| match text.parse::<Fault>().unwrap().harm {
            Harm::Guest(harm) => harm.check(tree).err().unwrap_or_default(),
            Harm::Link(_) | Harm::Machine(_) => panic!("{text}"),
        };
        for text in ["narrow:node01:0:x8", "far:node01:1", "no-peermem:node01"] {
            assert!(check(text, &flat).contains("--pcie two-socket"), "{text}");
            assert_eq!(check(text, &server), "", "{text}");
        }
        for text in [
            "mtu:node01:0:9000",
            "memlock:node01:1000",
            "narrow:node01:0:x16",
        ] {
            assert!(check(text, &server).starts_with("write "), "{text}");
        }
    }
}
