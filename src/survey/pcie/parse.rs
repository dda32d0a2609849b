//! What the attributes of /sys/bus/pci/devices look like.
//!
//! Forms: drivers/pci/pci-sysfs.c and pci_speed_string in drivers/pci/probe.c of the Linux kernel.
//! Each function takes the trimmed text; an error says what was expected.

use std::collections::BTreeMap;

use crate::model::{Bytes, Iommu, LinkSpeed};

/// `16.0 GT/s PCIe`, before Linux 5.8 also `8 GT/s` and `8.0 GT/s`; `Unknown`, `Unknown speed`.
pub(super) fn speed(text: &str) -> Result<LinkSpeed, &'static str> {
    if text.starts_with("Unknown") {
        return Err("the function states no link speed");
    }
    let number = text
        .strip_suffix(" PCIe")
        .unwrap_or(text)
        .strip_suffix(" GT/s")
        .and_then(|number| number.parse::<f64>().ok());
    LinkSpeed::ALL
        .into_iter()
        .find(|speed| number == Some(speed.gigatransfers()))
        .ok_or("not a PCIe speed such as `16.0 GT/s PCIe`")
}

/// Lanes. 255 is the kernel's PCI_LNK_WIDTH_UNKNOWN, 0 a link that is down or a virtual function's.
pub(super) fn width(text: &str) -> Result<u8, &'static str> {
    match text {
        "0" | "255" | "Unknown" => Err("the function states no link width"),
        _ => text
            .parse()
            .ok()
            .filter(|lanes| [1, 2, 4, 8, 12, 16, 32].contains(lanes))
            .ok_or("not a number of PCIe lanes"),
    }
}

/// `0x15b3`: a vendor's or device's id. All ones is what a function that does not answer reads as.
pub(in crate::survey) fn id(text: &str) -> Result<u16, &'static str> {
    let id = hex(text).and_then(|id| u16::try_from(id).ok());
    match id.ok_or("not an id such as `0x15b3`")? {
        0xffff => Err("the function does not answer"),
        id => Ok(id),
    }
}

/// `0x030200`: base class, subclass, programming interface.
pub(super) fn class(text: &str) -> Result<u32, &'static str> {
    hex(text)
        .and_then(|class| u32::try_from(class).ok())
        .filter(|class| *class <= 0xff_ffff)
        .ok_or("not a class such as `0x030200`")
}

/// The bytes of base address register `index`, a line `0x<first> 0x<last> 0x<flags>` of `resource`.
pub(super) fn region(text: &str, index: usize) -> Result<Bytes, &'static str> {
    const EXPECTED: &str = "not lines of first address, last address and flags";
    let line = text.lines().nth(index).ok_or(EXPECTED)?;
    let numbers: Vec<_> = line.split_whitespace().map(hex).collect();
    match numbers[..] {
        [Some(_), Some(_), Some(0)] => Err("the region has no address"),
        [Some(first), Some(last), Some(_)] => last
            .checked_sub(first)
            .and_then(|less_one| less_one.checked_add(1))
            .map(Bytes)
            .ok_or(EXPECTED),
        _ => Err(EXPECTED),
    }
}

/// The type of an IOMMU group (Documentation/ABI/testing/sysfs-kernel-iommu_groups).
pub(super) fn iommu(text: &str) -> Result<Iommu, &'static str> {
    match text {
        "identity" => Ok(Iommu::Identity),
        "DMA" | "DMA-FQ" => Ok(Iommu::Translates { kind: text.into() }),
        _ if text.len() <= 32 && text.bytes().all(|b| b.is_ascii_graphic()) => {
            Ok(Iommu::Other(text.into()))
        }
        _ => Err("not the type of an IOMMU group"),
    }
}

/// Lines of a name and a number, those that are zero left out: `BadTLP 3`. Names had blanks in the
/// first kernels that have the file (4.19). The line with the sum of all is left out too.
pub(super) fn counters(text: &str) -> Result<BTreeMap<String, u64>, &'static str> {
    const EXPECTED: &str = "not lines of a name and a number, such as `BadTLP 0`";
    let mut counters = BTreeMap::new();
    for line in text.lines().take(MOST_COUNTERS) {
        let (name, number) = line.rsplit_once(' ').ok_or(EXPECTED)?;
        let number: u64 = number.parse().map_err(|_| EXPECTED)?;
        let name: String = name.split_whitespace().collect();
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !plain || name.is_empty() || name.len() > 32 {
            return Err(EXPECTED);
        }
        if number > 0 && !name.starts_with("TOTAL_") {
            counters.insert(name, number);
        }
    }
    Ok(counters)
}

/// A number from zero.
pub(super) fn count(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "not a number")
}

/// The kernel has 26 names for uncorrectable errors, 16 for correctable ones.
const MOST_COUNTERS: usize = 64;

/// The name of a root bus, `pci0000:97`.
pub(super) fn is_root(name: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    name.strip_prefix("pci")
        .and_then(|rest| rest.split_once(':'))
        .is_some_and(|(domain, bus)| {
            (4..=8).contains(&domain.len()) && bus.len() == 2 && hex(domain) && hex(bus)
        })
}

fn hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    // `from_str_radix` takes a sign.
    let all = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    all.then(|| u64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn speeds_of_all_kernels() {
        for (text, expected) in [
            ("2.5 GT/s PCIe", LinkSpeed::Gen1),
            ("5 GT/s", LinkSpeed::Gen2),
            ("5.0 GT/s PCIe", LinkSpeed::Gen2),
            ("8 GT/s", LinkSpeed::Gen3),
            ("8.0 GT/s PCIe", LinkSpeed::Gen3),
            ("16.0 GT/s PCIe", LinkSpeed::Gen4),
            ("32.0 GT/s PCIe", LinkSpeed::Gen5),
            ("64.0 GT/s PCIe", LinkSpeed::Gen6),
        ] {
            assert_eq!(speed(text), Ok(expected), "{text}");
        }
        for text in [
            "Unknown",
            "Unknown speed",
            "N/A",
            "",
            "16",
            "7.0 GT/s PCIe",
            "66 MHz PCI",
        ] {
            assert!(speed(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn widths_and_what_stands_for_none() {
        assert_eq!(width("16"), Ok(16));
        assert_eq!(width("12"), Ok(12));
        for text in ["0", "255", "Unknown", "3", "-1", "N/A", ""] {
            assert!(width(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn ids_and_classes() {
        assert_eq!(id("0x15b3"), Ok(0x15b3));
        assert_eq!(id("0xffff"), Err("the function does not answer"));
        assert_eq!(class("0x030200"), Ok(0x03_0200));
        for text in ["15b3", "0x", "0x+1", "0x1ffff", "x"] {
            assert!(id(text).is_err(), "{text} was accepted");
        }
        assert!(class("0x1000000").is_err());
    }

    #[test]
    fn regions_have_a_size_or_no_address() {
        let resource = "0x00000000d0000000 0x00000000d0ffffff 0x0000000000040200\n\
                        0x0000380000000000 0x0000381fffffffff 0x000000000014220c\n\
                        0x0000000000000000 0x0000000000000000 0x0000000000000000";
        assert_eq!(region(resource, 0), Ok(Bytes(16 << 20)));
        assert_eq!(region(resource, 1), Ok(Bytes(128 << 30)));
        assert_eq!(region(resource, 2), Err("the region has no address"));
        assert!(region(resource, 3).is_err());
        assert!(region("0x2 0x0 0x1", 0).is_err());
        assert!(region("0x0 0xffffffffffffffff 0x1", 0).is_err());
    }

    #[test]
    fn counters_that_are_not_zero() {
        let text = "RxErr 0\nBadTLP 12\nBad DLLP 3\nTOTAL_ERR_COR 15";
        let expected = [("BadDLLP".to_owned(), 3), ("BadTLP".to_owned(), 12)];
        assert_eq!(counters(text), Ok(expected.into()));
        for text in ["RxErr", "RxErr -1", "Rx\u{1b}Err 1", " 1", "RxErr 1e3"] {
            assert!(counters(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn roots_of_wide_domains() {
        assert!(is_root("pci0000:97") && is_root("pci10000:e0"));
        assert!(!is_root("pci000:97") && !is_root("0000:97:00.0") && !is_root("pci0000:977"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = (speed(&text), width(&text), id(&text), class(&text), region(&text, 0));
            let _ = (iommu(&text), is_root(&text), counters(&text));
        }
    }
}
