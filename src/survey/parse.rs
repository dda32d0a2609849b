//! What the attributes of /sys/class/infiniband and /sys/class/net look like.
//!
//! Forms: Documentation/ABI/stable/sysfs-class-infiniband and drivers/infiniband/core/sysfs.c of
//! the Linux kernel. Each function takes the trimmed text; an error says what was expected.

use std::path::Path;

use crate::model::{Gbps, Gid, GidType, LinkLayer, PciAddress, PortState};

/// `4: ACTIVE`. Number and word must agree.
pub(super) fn state(text: &str) -> Result<PortState, &'static str> {
    match text {
        "0: NOP" => Err("the driver states none"),
        "1: DOWN" => Ok(PortState::Down),
        "2: INIT" => Ok(PortState::Init),
        "3: ARMED" => Ok(PortState::Armed),
        "4: ACTIVE" => Ok(PortState::Active),
        "5: ACTIVE_DEFER" => Ok(PortState::ActiveDefer),
        _ => Err("not a port state such as `4: ACTIVE`"),
    }
}

/// `5: LinkUp` as `LinkUp`.
pub(super) fn physical_state(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str = "not a physical state such as `5: LinkUp`";
    let (number, name) = text.split_once(": ").ok_or(EXPECTED)?;
    if number.parse::<u8>().is_err() || name.starts_with('<') {
        return Err(EXPECTED);
    }
    word(name).map_err(|_| EXPECTED)
}

/// `InfiniBand` or `Ethernet`; the kernel's third word is `Unknown`.
pub(super) fn link_layer(text: &str) -> Result<LinkLayer, &'static str> {
    match text {
        "InfiniBand" => Ok(LinkLayer::InfiniBand),
        "Ethernet" => Ok(LinkLayer::Ethernet),
        _ => Err("neither InfiniBand nor Ethernet"),
    }
}

/// `100 Gb/sec (4X EDR)`, `2.5 Gb/sec (1X SDR)`.
pub(super) fn rate(text: &str) -> Result<Gbps, &'static str> {
    const EXPECTED: &str = "not a rate such as `100 Gb/sec (4X EDR)`";
    let (number, rest) = text.split_once(" Gb/sec").ok_or(EXPECTED)?;
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let whole = rest.is_empty() || (rest.starts_with(" (") && rest.ends_with(')'));
    if !whole || !number.chars().all(digits) {
        return Err(EXPECTED);
    }
    let rate = number.parse().map(Gbps).map_err(|_| EXPECTED)?;
    if rate.is_positive() {
        Ok(rate)
    } else {
        Err("the driver states no rate")
    }
}

/// `0x364`. Zero is no LID (InfiniBand Architecture Specification, 4.1.3).
pub(super) fn lid(text: &str) -> Result<u16, &'static str> {
    const EXPECTED: &str = "not a LID such as `0x364`";
    let digits = text.strip_prefix("0x").ok_or(EXPECTED)?;
    if !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(EXPECTED);
    }
    match u32::from_str_radix(digits, 16).map_err(|_| EXPECTED)? {
        0 => Err("no subnet manager has given the port a LID"),
        lid => u16::try_from(lid).map_err(|_| "an extended LID of more than 16 bits"),
    }
}

/// An entry of gids: eight groups of four hexadecimal digits.
pub(super) fn gid(text: &str) -> Result<Gid, &'static str> {
    const EXPECTED: &str = "not a GID of eight groups of four digits";
    // Shorter forms are IPv6 addresses too; here they would be a torn file.
    if text.len() != 39 {
        return Err(EXPECTED);
    }
    text.parse().map_err(|_| EXPECTED)
}

/// An entry of gid_attrs/types.
pub(super) fn gid_type(text: &str) -> Result<GidType, &'static str> {
    match text {
        "IB/RoCE v1" => Ok(GidType::IbOrRoceV1),
        "RoCE v2" => Ok(GidType::RoceV2),
        _ => Err("neither `IB/RoCE v1` nor `RoCE v2`"),
    }
}

/// The name of a network interface, as `dev_valid_name` in net/core/dev.c has it.
pub(super) fn interface(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str = "not the name of a network interface";
    let valid = text.len() < 16
        && !matches!(text, "" | "." | "..")
        && !text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control());
    if valid {
        Ok(text.to_owned())
    } else {
        Err(EXPECTED)
    }
}

/// A NUMA node; -1 is the kernel's NUMA_NO_NODE.
pub(super) fn numa_node(text: &str) -> Result<u32, &'static str> {
    match text {
        "-1" => Err("the platform states none"),
        _ => whole(text),
    }
}

/// A whole number from zero.
pub(super) fn whole(text: &str) -> Result<u32, &'static str> {
    const EXPECTED: &str = "not a whole number from zero";
    if text.starts_with('+') {
        return Err(EXPECTED);
    }
    text.parse().map_err(|_| EXPECTED)
}

/// What a counter stands at: `%llu`.
pub(super) fn counter(text: &str) -> Result<u64, &'static str> {
    const EXPECTED: &str = "not a counter's number";
    if text.starts_with("N/A") {
        return Err("the driver does not answer for it");
    }
    if text.starts_with('+') {
        return Err(EXPECTED);
    }
    text.parse().map_err(|_| EXPECTED)
}

/// The name of a counter's file.
pub(super) fn is_counter_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

/// A short text of visible characters: a version, a state, a host's name.
pub(super) fn word(text: &str) -> Result<String, &'static str> {
    if text.len() > 256 || text.is_empty() || text.contains(|c: char| c.is_control()) {
        Err("not one line of text")
    } else {
        Ok(text.to_owned())
    }
}

/// The last PCI function on a path below /sys/devices, and where its directory ends: a virtio
/// device or a subfunction lies below it.
pub(super) fn pci_function(path: &Path) -> Option<(PciAddress, &Path)> {
    path.ancestors().find_map(|dir| {
        let name = dir.file_name()?.to_str()?;
        is_pci_address(name).then(|| (PciAddress(name.to_owned()), dir))
    })
}

/// `0000:97:00.1`: domain (four digits or more), bus, device, function, as `%04x:%02x:%02x.%d`.
pub(super) fn is_pci_address(name: &str) -> bool {
    let hex = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let parts: Vec<_> = name.split(':').collect();
    let [domain, bus, rest] = parts[..] else {
        return false;
    };
    let Some((device, function)) = rest.split_once('.') else {
        return false;
    };
    (4..=8).contains(&domain.len())
        && [bus.len(), device.len(), function.len()] == [2, 2, 1]
        && [domain, bus, device].into_iter().all(hex)
        && matches!(function.as_bytes(), [b'0'..=b'7'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_as_the_kernel_writes_them() {
        for (text, gbps) in [
            ("400 Gb/sec (4X NDR)", 400.0),
            ("2.5 Gb/sec (1X SDR)", 2.5),
            ("800 Gb/sec (4X XDR)", 800.0),
            ("10 Gb/sec (4X)", 10.0),
        ] {
            assert_eq!(rate(text), Ok(Gbps(gbps)), "{text}");
        }
        for text in [
            "0 Gb/sec (1X SDR)",
            "100",
            "100 Gb",
            "-1 Gb/sec",
            "1e3 Gb/sec",
            "inf Gb/sec (4X)",
            "100 Gb/sec (4X E",
            " Gb/sec",
        ] {
            assert!(rate(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn states_are_read_and_contradictions_refused() {
        assert_eq!(state("4: ACTIVE"), Ok(PortState::Active));
        assert_eq!(state("1: DOWN"), Ok(PortState::Down));
        for text in ["0: NOP", "4: DOWN", "4", "ACTIVE", "4: ACT", "44: ACTIVE"] {
            assert!(state(text).is_err(), "{text} was accepted");
        }
        assert_eq!(physical_state("5: LinkUp").as_deref(), Ok("LinkUp"));
        assert_eq!(physical_state("7: Phy Test").as_deref(), Ok("Phy Test"));
        for text in ["5:", "LinkUp", "x: LinkUp", "0: <unknown>", "5: a\u{1b}[m"] {
            assert!(physical_state(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn lids_are_hexadecimal_and_never_zero() {
        assert_eq!(lid("0x364"), Ok(868));
        assert_eq!(lid("0xffff"), Ok(65535));
        for text in ["0x0", "868", "0x", "0x+1", "0x10000", "0xfffffffff"] {
            assert!(lid(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn a_torn_gid_is_not_another_gid() {
        let whole = "fe80:0000:0000:0000:5054:00ff:fe12:3456";
        assert!(gid(whole).is_ok());
        for cut in 0..whole.len() {
            assert!(gid(&whole[..cut]).is_err(), "{}", &whole[..cut]);
        }
    }

    #[test]
    fn interface_names_do_not_leave_their_directory() {
        assert_eq!(interface("bond0.100").as_deref(), Ok("bond0.100"));
        for text in ["..", "../../etc", "a b", "", "sixteen_letters_"] {
            assert!(interface(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn the_last_pci_function_is_the_devices_own() {
        for (path, address, dir) in [
            (
                "/sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0",
                "0000:98:00.0",
                "/sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0",
            ),
            (
                "/sys/devices/pci0000:00/0000:00:03.0/virtio1",
                "0000:00:03.0",
                "/sys/devices/pci0000:00/0000:00:03.0",
            ),
            (
                "/sys/devices/pci10000:e0/10000:e0:06.0/10000:e1:00.0",
                "10000:e1:00.0",
                "/sys/devices/pci10000:e0/10000:e0:06.0/10000:e1:00.0",
            ),
            (
                "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/\
                 00000001-7870-47b5-8203-907d12ca697e/pci7870:00/7870:00:00.0",
                "7870:00:00.0",
                "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/\
                 00000001-7870-47b5-8203-907d12ca697e/pci7870:00/7870:00:00.0",
            ),
        ] {
            let (found, at) = pci_function(Path::new(path)).unwrap();
            assert_eq!((found.0.as_str(), at), (address, Path::new(dir)));
        }
        for path in [
            "/sys/devices/virtual/net/bond0",
            "/sys/devices/pci0000:97/0000:97:01",
            "/sys/devices/0000:97:01.8",
            "/sys/devices/000:97:01.0",
            "/sys/devices/0000:97:01.0:pcie001",
        ] {
            assert_eq!(pci_function(Path::new(path)), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            if let Ok(name) = interface(&text) {
                prop_assert_eq!(Path::new("/sys/class/net").join(&name).components().count(), 5);
            }
            if let Ok(name) = word(&text) {
                prop_assert!(!name.contains(char::is_control));
            }
            let _ = (state(&text), physical_state(&text), link_layer(&text), gid(&text));
            let _ = (gid_type(&text), numa_node(&text), whole(&text), pci_function(Path::new(&text)));
        }

        #[test]
        fn what_looks_like_a_rate_is_positive_or_refused(text in "[0-9.]{0,12} Gb/sec( \\([0-9X A-Z]{0,8}\\))?") {
            if let Ok(rate) = rate(&text) {
                prop_assert!(rate.is_positive());
            }
        }

        #[test]
        fn every_lid_the_kernel_prints_is_read(value in 1u16..) {
            prop_assert_eq!(lid(&format!("{value:#x}")), Ok(value));
        }

        #[test]
        fn every_gid_the_kernel_prints_is_read(bytes in any::<[u8; 16]>()) {
            let groups: Vec<_> = bytes.chunks(2).map(|b| format!("{:02x}{:02x}", b[0], b[1])).collect();
            prop_assert_eq!(gid(&groups.join(":")), Ok(Gid::from_bytes(bytes)));
        }

        #[test]
        fn every_pci_address_the_kernel_prints_is_found(domain in any::<u32>(), bus: u8, slot in 0u8..32, function in 0u8..8) {
            let name = format!("{domain:04x}:{bus:02x}:{slot:02x}.{function}");
            let path = format!("/sys/devices/pci/{name}/virtio3/net/eth1");
            prop_assert_eq!(pci_function(Path::new(&path)).unwrap().0, PciAddress(name));
        }
    }
}
