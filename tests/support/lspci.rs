//! Reads what lspci prints.

use std::collections::BTreeMap;

/// What `lspci -vvv` tells of a function.
#[derive(Default)]
pub struct Told {
    pub what: String,
    pub secondary: Option<String>,
    pub numa: Option<i32>,
    pub capable: Option<(String, String)>,
    pub current: Option<(String, String)>,
}

/// `Speed 32GT/s (ok), Width x16` as sysfs has it.
fn speed_and_width(line: &str) -> Option<(String, String)> {
    let (_, rest) = line.split_once("Speed ")?;
    let (speed, rest) = rest.split_once("GT/s")?;
    let (_, width) = rest.split_once("Width x")?;
    let width = width.chars().take_while(char::is_ascii_digit).collect();
    Some((format!("{speed} GT/s PCIe"), width))
}

/// The functions of `lspci -vvv`, by bus, device and function.
pub fn lspci_vvv(text: &str) -> BTreeMap<String, Told> {
    let mut found: BTreeMap<String, Told> = BTreeMap::new();
    let mut address = String::new();
    for line in text.lines() {
        let is_header = line.len() > 8 && line.as_bytes()[2] == b':' && line.as_bytes()[5] == b'.';
        if is_header {
            address = line[..7].to_owned();
        }
        if address.is_empty() {
            continue;
        }
        let told = found.entry(address.clone()).or_default();
        let trimmed = line.trim();
        if is_header {
            told.what = line[8..].to_owned();
        } else if let Some(buses) = trimmed.strip_prefix("Bus: primary=") {
            told.secondary = buses
                .split_once("secondary=")
                .map(|(_, bus)| bus[..2].to_owned());
        } else if let Some(node) = trimmed.strip_prefix("NUMA node: ") {
            told.numa = node.parse().ok();
        } else if trimmed.starts_with("LnkCap:") {
            told.capable = speed_and_width(trimmed);
        } else if trimmed.starts_with("LnkSta:") {
            told.current = speed_and_width(trimmed);
        }
    }
    found
}

/// The functions of `lspci -tv` as paths below sys/devices, with the words behind them. A device
/// stands below its siblings: the column says which bus it is on.
pub fn lspci_tree(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut bus_at: BTreeMap<usize, (String, String)> = BTreeMap::new();
    for line in text
        .lines()
        .filter(|line| line.contains("-[") || line.contains("-0") || line.contains("-1"))
    {
        // Path of the bus that the next device is on, and the bus's name.
        let mut bus: Option<(String, String)> = None;
        let mut at = 0;
        while at < line.len() {
            let rest = &line[at..];
            let bracket = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            if let Some((inside, _)) = bracket {
                bus = Some(match (inside.split_once(':'), bus) {
                    (Some(_), _) => (format!("pci{inside}"), inside.to_owned()),
                    (None, Some((path, name))) => {
                        (path, format!("{}:{}", &name[..4], &inside[..2]))
                    }
                    (None, None) => break,
                });
                at += inside.len() + 2;
            } else if is_device(rest) {
                let on = bus.clone().or_else(|| bus_at.get(&at).cloned()).unwrap();
                bus_at.insert(at, on.clone());
                let path = format!("{}/{}:{}", on.0, on.1, &rest[..4]);
                let words = rest[4..].strip_prefix("  ").unwrap_or_default();
                found.push((path.clone(), words.to_owned()));
                if !rest[4..].starts_with('-') {
                    break;
                }
                bus = Some((path, on.1));
                at += 4;
            } else {
                at += rest.chars().next().unwrap().len_utf8();
            }
        }
    }
    found
}

/// Starts with `1f.7`.
fn is_device(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 4
        && bytes[..2].iter().all(u8::is_ascii_hexdigit)
        && bytes[2] == b'.'
        && (b'0'..=b'7').contains(&bytes[3])
}
