//! What the attributes of an RDMA device's identity and subnet, and of an interface's settings,
//! look like.
//!
//! Forms: drivers/infiniband/core/sysfs.c, net/core/net-sysfs.c and drivers/net/bonding/bond_sysfs.c
//! of the Linux kernel. Each function takes the trimmed text; an error says what was expected.

use crate::model::{Lanes, NodeType, Priorities, Trust};

use super::parse::word;

/// `1: CA`, `4: RNIC`, `7: unspecified`.
pub(super) fn node_type(text: &str) -> Result<NodeType, &'static str> {
    match text.split_once(": ").map(|(_, name)| name) {
        Some("CA") => Ok(NodeType::ChannelAdapter),
        Some("RNIC") => Ok(NodeType::Rnic),
        Some("usNIC" | "usNIC UDP") => Ok(NodeType::UsNic),
        Some("unspecified") => Ok(NodeType::Unspecified),
        Some("switch" | "router") => Ok(NodeType::Other),
        _ => Err("not a node type such as `1: CA`"),
    }
}

/// The lanes of `400 Gb/sec (4X NDR)`; the kernel leaves the speed of QDR's elder sisters out.
pub(super) fn lanes(text: &str) -> Result<Lanes, &'static str> {
    const EXPECTED: &str = "no lanes such as those of `400 Gb/sec (4X NDR)`";
    let (_, inside) = text.split_once(" Gb/sec (").ok_or(EXPECTED)?;
    let inside = inside.strip_suffix(')').ok_or(EXPECTED)?;
    let (count, speed) = inside.split_once('X').ok_or(EXPECTED)?;
    let speed = match speed.trim() {
        "" => None,
        word if word.len() <= 8 && word.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            Some(word.to_owned())
        }
        _ => return Err(EXPECTED),
    };
    match count.parse() {
        // Widths of InfiniBand (IBA vol. 1, PortInfo:LinkWidthActive).
        Ok(count @ (1 | 2 | 4 | 8 | 12)) => Ok(Lanes { count, speed }),
        _ => Err(EXPECTED),
    }
}

/// A number below 256, as the kernel writes it: in decimal digits, or as `0x1a`.
pub(super) fn small(text: &str) -> Result<u8, &'static str> {
    const EXPECTED: &str = "not a number below 256";
    if let Some(digits) = text.strip_prefix("0x") {
        let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        return u8::from_str_radix(digits, 16)
            .ok()
            .filter(|_| hex)
            .ok_or(EXPECTED);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(EXPECTED)
}

/// An entry of pkeys: `0xffff`; zero is an unused slot.
pub(super) fn pkey(text: &str) -> Result<u16, &'static str> {
    const EXPECTED: &str = "not a partition key such as `0xffff`";
    let digits = text.strip_prefix("0x").filter(|d| d.len() == 4);
    let digits = digits.ok_or(EXPECTED)?;
    let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16)
        .ok()
        .filter(|_| hex)
        .ok_or(EXPECTED)
}

/// Speed of an interface in Mb/s; -1, and 2^32 - 1 in older kernels, is none.
pub(super) fn speed(text: &str) -> Result<u32, &'static str> {
    match text.parse::<i64>() {
        Ok(-1 | 0 | 0xffff_ffff) => Err("the driver states no speed"),
        Ok(speed) => u32::try_from(speed).map_err(|_| "not a speed in Mb/s"),
        Err(_) => Err("not a speed in Mb/s"),
    }
}

/// `0` or `1`.
pub(super) fn flag(text: &str) -> Result<bool, &'static str> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("neither 0 nor 1"),
    }
}

/// The first word of `802.3ad 4`.
pub(super) fn first_word(text: &str) -> Result<String, &'static str> {
    word(text.split(' ').next().unwrap_or_default())
}

/// Names of interfaces with blanks between them.
pub(super) fn names(text: &str) -> Result<Vec<String>, &'static str> {
    let names = text.split_whitespace().map(super::parse::interface);
    names.collect()
}

/// `dscp` or `pcp`.
pub(super) fn trust(text: &str) -> Result<Trust, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "dscp" => Ok(Trust::Dscp),
        "pcp" => Ok(Trust::Pcp),
        _ => Err("neither dscp nor pcp"),
    }
}

/// `Global tclass=106`, or a number alone; lines on single connections may follow.
pub(super) fn traffic_class(text: &str) -> Result<u8, &'static str> {
    let first = text.lines().next().unwrap_or_default();
    small(first.strip_prefix("Global tclass=").unwrap_or(first).trim())
        .map_err(|_| "no traffic class of all connections such as `Global tclass=106`")
}

/// A set of priorities from one answer for each.
pub(super) fn priorities(on: [bool; 8]) -> Priorities {
    let bits = on.iter().enumerate().map(|(bit, on)| u8::from(*on) << bit);
    Priorities(bits.sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lanes_stand_beside_the_rate() {
        let of = |text: &str| lanes(text).map(|lanes| lanes.to_string());
        assert_eq!(of("400 Gb/sec (4X NDR)").as_deref(), Ok("4X NDR"));
        assert_eq!(of("100 Gb/sec (2X HDR)").as_deref(), Ok("2X HDR"));
        assert_eq!(of("10 Gb/sec (4X)").as_deref(), Ok("4X"));
        for text in [
            "400 Gb/sec",
            "400 Gb/sec (NDR)",
            "400 Gb/sec (3X NDR)",
            "400 Gb/sec (4X N\u{1b}R)",
            "400 Gb/sec (4X NDR",
        ] {
            assert!(lanes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_the_driver_does_not_state_is_refused() {
        assert_eq!(speed("400000"), Ok(400_000));
        for text in ["-1", "4294967295", "0", "", "fast", "-5"] {
            assert!(speed(text).is_err(), "{text}");
        }
        assert_eq!(small("0x1a"), Ok(26));
        assert_eq!(small("106"), Ok(106));
        for text in ["256", "+1", "0x", "0x+1", "-1", ""] {
            assert!(small(text).is_err(), "{text}");
        }
        assert_eq!(pkey("0x7fff"), Ok(0x7fff));
        assert!(pkey("0xfff").is_err() && pkey("ffff").is_err());
    }

    #[test]
    fn the_forms_of_ofed_are_read() {
        assert_eq!(traffic_class("Global tclass=106"), Ok(106));
        assert_eq!(traffic_class("106"), Ok(106));
        assert_eq!(
            traffic_class("Global tclass=96\nsrc_ip=1.2.3.4 tclass=8"),
            Ok(96)
        );
        assert!(traffic_class("tclass=-1").is_err());
        assert_eq!(trust("dscp"), Ok(Trust::Dscp));
        let mut on = [false; 8];
        on[3] = true;
        assert_eq!(priorities(on), Priorities(8));
        assert_eq!(priorities([true; 8]), Priorities(255));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _ = (node_type(&text), lanes(&text), small(&text), pkey(&text), speed(&text));
            let _ = (flag(&text), first_word(&text), names(&text), trust(&text), traffic_class(&text));
        }
    }
}
