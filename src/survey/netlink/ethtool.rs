//! ethtool over generic netlink: forward error correction, pause, offloads.
//!
//! Forms: include/uapi/linux/genetlink.h and ethtool_netlink.h of the Linux kernel.

use nix::sys::socket::SockProtocol;

use super::attributes::{attribute, attributes, write, write_text};
use super::{ask, u16_at, u32_at};
use crate::model::Pause;

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// `struct genlmsghdr`: command, version, reserved.
const HEADER: usize = 4;
const VERSION: u8 = 1;

const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_MSG_PAUSE_GET: u8 = 21;
const ETHTOOL_MSG_FEC_GET: u8 = 29;
/// The first attribute of every question: whom it is about.
const ETHTOOL_A_HEADER: u16 = 1;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_PAUSE_RX: u16 = 3;
const ETHTOOL_A_PAUSE_TX: u16 = 4;
const ETHTOOL_A_FEC_ACTIVE: u16 = 4;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const NLA_F_NESTED: u16 = 0x8000;

/// Offloads of segments (`netdev_features_strings` in net/ethtool/common.c): TSO, GSO, GRO, LRO.
const OFFLOADS: &[&str] = &[
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-generic-segmentation",
    "rx-gro",
    "rx-gro-hw",
    "rx-lro",
];

/// Which of [`OFFLOADS`] are on.
pub(super) fn offloads(interface: &str) -> Result<Vec<String>, String> {
    let body = get(interface, ETHTOOL_MSG_FEATURES_GET)?;
    read_offloads(&body).ok_or_else(|| "the driver does not tell which are active".into())
}

/// The FEC that the link runs with, as ethtool calls it.
pub(super) fn fec(interface: &str) -> Result<String, String> {
    let body = get(interface, ETHTOOL_MSG_FEC_GET)?;
    read_fec(&body).ok_or_else(|| "the driver does not tell which one is active".into())
}

/// Whether the link may be paused.
pub(super) fn pause(interface: &str) -> Result<Pause, String> {
    let body = get(interface, ETHTOOL_MSG_PAUSE_GET)?;
    read_pause(&body).ok_or_else(|| "the driver does not tell".into())
}

fn get(interface: &str, command: u8) -> Result<Vec<u8>, String> {
    let name = write_text(CTRL_ATTR_FAMILY_NAME, "ethtool");
    let family = one(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &name)?;
    let family = read_family(&family).ok_or("the kernel has no ethtool netlink")?;
    let device = write_text(ETHTOOL_A_HEADER_DEV_NAME, interface);
    one(
        family,
        command,
        &write(ETHTOOL_A_HEADER | NLA_F_NESTED, &device),
    )
}

fn one(family: u16, command: u8, attributes: &[u8]) -> Result<Vec<u8>, String> {
    let mut body = vec![command, VERSION, 0, 0];
    body.extend(attributes);
    let mut answer = ask(SockProtocol::NetlinkGeneric, family, false, &body)?;
    answer
        .pop()
        .map(|m| m.body)
        .ok_or_else(|| "no answer".into())
}

pub(super) fn read_family(body: &[u8]) -> Option<u16> {
    u16_at(attribute(body.get(HEADER..)?, CTRL_ATTR_FAMILY_ID)?, 0)
}

/// Bits of `enum ethtool_link_mode_bit_indices` (include/uapi/linux/ethtool.h).
pub(super) fn read_fec(body: &[u8]) -> Option<String> {
    let active = attribute(body.get(HEADER..)?, ETHTOOL_A_FEC_ACTIVE)?;
    let name = match u32_at(active, 0)? {
        49 => "off",
        50 => "RS",
        51 => "BaseR",
        74 => "LLRS",
        _ => return None,
    };
    Some(name.to_owned())
}

pub(super) fn read_pause(body: &[u8]) -> Option<Pause> {
    let attributes = body.get(HEADER..)?;
    let on = |kind| Some(*attribute(attributes, kind)?.first()? != 0);
    Some(Pause {
        rx: on(ETHTOOL_A_PAUSE_RX)?,
        tx: on(ETHTOOL_A_PAUSE_TX)?,
    })
}

/// A bitset without a mask lists the bits that are set, with their names.
pub(super) fn read_offloads(body: &[u8]) -> Option<Vec<String>> {
    let active = attribute(body.get(HEADER..)?, ETHTOOL_A_FEATURES_ACTIVE)?;
    let bits = attributes(attribute(active, ETHTOOL_A_BITSET_BITS)?);
    let names: Vec<&[u8]> = bits
        .filter(|(kind, _)| *kind == ETHTOOL_A_BITSET_BITS_BIT)
        .filter_map(|(_, bit)| attribute(bit, ETHTOOL_A_BITSET_BIT_NAME)?.strip_suffix(b"\0"))
        .collect();
    let on = |name: &&&str| names.contains(&name.as_bytes());
    let on = OFFLOADS.iter().filter(on);
    Some(on.map(|name| (*name).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let body = |attributes: &[Vec<u8>]| [vec![0; HEADER], attributes.concat()].concat();
        let family = write(CTRL_ATTR_FAMILY_ID, &21u16.to_ne_bytes());
        assert_eq!(read_family(&body(&[family])), Some(21));
        let rs = write(ETHTOOL_A_FEC_ACTIVE, &50u32.to_ne_bytes());
        assert_eq!(read_fec(&body(&[rs])).as_deref(), Some("RS"));
        assert_eq!(read_fec(&body(&[])), None);
        let pause = [
            write(ETHTOOL_A_PAUSE_RX, &[1]),
            write(ETHTOOL_A_PAUSE_TX, &[0]),
        ];
        let expected = Pause {
            rx: true,
            tx: false,
        };
        assert_eq!(read_pause(&body(&pause)), Some(expected));
        assert_eq!(read_pause(&body(&pause[..1])), None);
    }

    #[test]
    fn offloads_that_are_on_are_named() {
        let bit = |index: u32, name: &str| {
            let bit = [
                write(1, &index.to_ne_bytes()),
                write_text(ETHTOOL_A_BITSET_BIT_NAME, name),
            ];
            write(ETHTOOL_A_BITSET_BITS_BIT | NLA_F_NESTED, &bit.concat())
        };
        let bits = [
            bit(14, "rx-gro"),
            bit(0, "tx-scatter-gather"),
            bit(16, "tx-tcp-segmentation"),
        ];
        let active = write(ETHTOOL_A_BITSET_BITS | NLA_F_NESTED, &bits.concat());
        let active = write(ETHTOOL_A_FEATURES_ACTIVE | NLA_F_NESTED, &active);
        let body = [vec![0; HEADER], active].concat();
        let on = read_offloads(&body).unwrap();
        assert_eq!(on, ["tx-tcp-segmentation", "rx-gro"]);
        assert_eq!(read_offloads(&body[..HEADER]), None);
        // Loopback has them in any kernel.
        let on = offloads("lo").unwrap();
        assert!(on.contains(&"tx-generic-segmentation".to_owned()), "{on:?}");
    }
}
