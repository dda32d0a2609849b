//! Reads capabilities out of the bytes of a function's configuration space.
//!
//! Layout: PCI Express Base Specification, 7.5.1 (header), 7.5.3 (PCI Express capability), 7.7.11
//! (ACS); numbers as in include/uapi/linux/pci_regs.h of the Linux kernel.

use crate::model::{AcsControl, DeviceControl};

/// What a user without CAP_SYS_ADMIN is shown: the header, and no capability.
const HEADER: usize = 64;
/// Where extended capabilities begin.
const EXTENDED: usize = 256;
/// Capabilities of the first 256 bytes are 4 bytes or more, so there are at most this many.
const MAX_CAPABILITIES: usize = (EXTENDED - HEADER) / 4;
/// As above, for bytes 256 to 4095 with 8 bytes each.
const MAX_EXTENDED: usize = (4096 - EXTENDED) / 8;

const CAP_ID_EXP: u8 = 0x10;
const EXT_CAP_ID_ACS: u16 = 0x000d;

/// Why a capability cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The kernel shows the header alone.
    NeedsRoot,
    /// There are 256 bytes: no PCI Express, or a host that does not reach the rest.
    NoExtended,
    /// All ones: the function does not answer.
    NoAnswer,
    /// Lists that go round or lead outside.
    Malformed,
    /// A conventional PCI function.
    NotExpress,
}

impl Unreadable {
    /// The reason, to stand after the file's name.
    pub fn why(self) -> &'static str {
        match self {
            Self::NeedsRoot => "needs root: config space is cut at 64 bytes",
            Self::NoExtended => "config space ends at 256 bytes, before extended capabilities",
            Self::NoAnswer => "reads as all ones: the function does not answer",
            Self::Malformed => "holds a list of capabilities that leads nowhere",
            Self::NotExpress => "has no PCI Express capability",
        }
    }
}

fn word(config: &[u8], at: usize) -> Result<u16, Unreadable> {
    let bytes = config.get(at..at + 2).ok_or(Unreadable::Malformed)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Refuses what cannot hold a capability.
fn whole(config: &[u8]) -> Result<(), Unreadable> {
    match config {
        [0xff, 0xff, ..] => Err(Unreadable::NoAnswer),
        _ if config.len() < HEADER => Err(Unreadable::Malformed),
        _ if config.len() < EXTENDED => Err(Unreadable::NeedsRoot),
        _ => Ok(()),
    }
}

/// Device Control of the PCI Express capability.
pub(super) fn device_control(config: &[u8]) -> Result<DeviceControl, Unreadable> {
    let at = express(config)?;
    let control = word(config, at + 8)?;
    // Codes 6 and 7 are reserved.
    let size = |code: u16| match code {
        0..=5 => Ok(128 << code),
        _ => Err(Unreadable::Malformed),
    };
    Ok(DeviceControl {
        max_payload: size(control >> 5 & 7)?,
        payload_capable: size(word(config, at + 4)? & 7).ok(),
        max_read_request: size(control >> 12 & 7)?,
        relaxed_ordering: control & 1 << 4 != 0,
    })
}

/// Where the PCI Express capability begins.
fn express(config: &[u8]) -> Result<usize, Unreadable> {
    whole(config)?;
    let has_list = word(config, 0x06)? & 1 << 4 != 0;
    if !has_list {
        return Err(Unreadable::NotExpress);
    }
    let mut at = usize::from(config[0x34] & !3);
    for _ in 0..MAX_CAPABILITIES {
        match at {
            0 => return Err(Unreadable::NotExpress),
            1..HEADER => return Err(Unreadable::Malformed),
            _ => {}
        }
        let [id, next] = word(config, at)?.to_le_bytes();
        if id == CAP_ID_EXP {
            return Ok(at);
        }
        at = usize::from(next & !3);
    }
    Err(Unreadable::Malformed)
}

/// ACS Control; `None` where the function has no ACS capability.
pub(super) fn acs(config: &[u8]) -> Result<Option<AcsControl>, Unreadable> {
    express(config)?;
    if config.len() <= EXTENDED {
        return Err(Unreadable::NoExtended);
    }
    let mut at = EXTENDED;
    for _ in 0..MAX_EXTENDED {
        let (id, rest) = (word(config, at)?, word(config, at + 2)?);
        // An empty list begins with zeros (7.6.2) or, from a bridge to a lesser bus, all ones.
        if (id, rest) == (0, 0) || (id, rest) == (0xffff, 0xffff) {
            return Ok(None);
        }
        if id == EXT_CAP_ID_ACS {
            return word(config, at + 6).map(acs_control).map(Some);
        }
        match usize::from(rest >> 4 & !3) {
            0 => return Ok(None),
            next if next < EXTENDED => return Err(Unreadable::Malformed),
            next => at = next,
        }
    }
    Err(Unreadable::Malformed)
}

fn acs_control(bits: u16) -> AcsControl {
    let bit = |number: u16| bits & 1 << number != 0;
    AcsControl {
        source_validation: bit(0),
        translation_blocking: bit(1),
        request_redirect: bit(2),
        completion_redirect: bit(3),
        upstream_forwarding: bit(4),
        egress_control: bit(5),
        direct_translated: bit(6),
    }
}

#[cfg(test)]
pub(in crate::survey) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 4096 bytes: a power-management and a PCI Express capability, then AER and ACS.
    pub fn config(control: u16, acs: u16) -> Vec<u8> {
        let mut config = vec![0; 4096];
        config[..4].copy_from_slice(&[0xb3, 0x15, 0x21, 0x10]);
        config[0x06] = 0x10;
        config[0x34] = 0x40;
        config[0x40..0x42].copy_from_slice(&[0x01, 0x60]);
        config[0x60..0x62].copy_from_slice(&[CAP_ID_EXP, 0x00]);
        config[0x64] = 2;
        config[0x68..0x6a].copy_from_slice(&control.to_le_bytes());
        config[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x02, 0x15]);
        config[0x150..0x154].copy_from_slice(&[0x0d, 0x00, 0x01, 0x00]);
        config[0x156..0x158].copy_from_slice(&acs.to_le_bytes());
        config
    }

    #[test]
    fn capabilities_are_found_by_walking() {
        // MaxPayload 256, MaxReadReq 4096, relaxed ordering on: a ConnectX-7 as lspci shows it.
        let config = config(0x5030, 0x001d);
        let control = DeviceControl {
            max_payload: 256,
            payload_capable: Some(512),
            max_read_request: 4096,
            relaxed_ordering: true,
        };
        assert_eq!(device_control(&config), Ok(control));
        let acs = acs(&config).unwrap().unwrap();
        assert!(acs.source_validation && acs.redirects_peers() && acs.upstream_forwarding);
        assert!(!acs.translation_blocking && !acs.egress_control && !acs.direct_translated);
    }

    #[test]
    fn what_is_cut_or_absent_says_so() {
        let whole = config(0x2910, 0);
        assert_eq!(acs(&whole[..64]), Err(Unreadable::NeedsRoot));
        assert_eq!(device_control(&whole[..64]), Err(Unreadable::NeedsRoot));
        assert_eq!(acs(&whole[..256]), Err(Unreadable::NoExtended));
        assert!(device_control(&whole[..256]).is_ok());
        assert_eq!(device_control(&[]), Err(Unreadable::Malformed));
        assert_eq!(acs(&[0xff; 4096]), Err(Unreadable::NoAnswer));
        let mut none = whole.clone();
        none[0x102..0x104].copy_from_slice(&[0, 0]);
        none[0x100] = 0;
        assert_eq!(acs(&none), Ok(None));
        let mut last = whole.clone();
        last[0x103] = 0;
        assert_eq!(acs(&last), Ok(None));
        let mut old = whole;
        old[0x06] = 0;
        assert_eq!(device_control(&old), Err(Unreadable::NotExpress));
    }

    #[test]
    fn lists_that_go_round_end() {
        let mut round = config(0, 0);
        round[0x41] = 0x40;
        assert_eq!(device_control(&round), Err(Unreadable::Malformed));
        let mut round = config(0, 0);
        round[0x102..0x104].copy_from_slice(&[0x02, 0x10]);
        assert_eq!(acs(&round), Err(Unreadable::Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            mut config in proptest::collection::vec(any::<u8>(), 0..600),
            len in 0usize..4097,
        ) {
            config.resize(len.max(config.len()), 0x54);
            let _ = (device_control(&config), acs(&config));
        }
    }
}
