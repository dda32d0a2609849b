//! `[rails]`: how NICs belong to rails.

use std::collections::HashSet;

use ipnet::IpNet;
use toml::Spanned;

use crate::model::RailRule;

use super::super::typed::{Table, Typed, TypedList, TypedRails};
use super::{Checker, Value};

/// The most rails of a node; the largest known systems have 16 NICs in one.
const MAX_RAILS: usize = 64;

#[derive(Clone, Copy, PartialEq)]
enum By {
    Device,
    Netdev,
    Pci,
    Subnet,
}

/// The section as a whole, the operator's or the default's; none where a problem was found.
pub(super) fn check(checker: &mut Checker, rails: Typed<Table<TypedRails>>) -> Option<RailRule> {
    let span = rails.as_ref().map(Spanned::span);
    let rails = rails.map(|rails| rails.into_inner().0).unwrap_or_default();
    let Some(by) = rails.by.map(Value::typed) else {
        checker
            .absent(span, "[rails] does not say `by` what NICs are put on rails")
            .help("write by = \"device\", \"netdev\", \"pci\" or \"subnet\"");
        return None;
    };
    let known = [
        ("device", By::Device),
        ("netdev", By::Netdev),
        ("pci", By::Pci),
        ("subnet", By::Subnet),
    ];
    let word = by.value.clone();
    let chosen = checker.choice("by", &by, &known)?;
    let takes_names = matches!(chosen, By::Device | By::Netdev);
    refuse_unused(checker, "names", &rails.names, takes_names, &word);
    let takes_subnets = chosen == By::Subnet;
    refuse_unused(checker, "subnets", &rails.subnets, takes_subnets, &word);
    Some(match chosen {
        By::Pci => RailRule::Pci,
        By::Device => RailRule::Device {
            names: patterns(checker, &by, rails.names)?,
        },
        By::Netdev => RailRule::Netdev {
            names: patterns(checker, &by, rails.names)?,
        },
        By::Subnet => RailRule::Subnet {
            subnets: subnets(checker, &by, rails.subnets)?,
        },
    })
}

/// A list that the chosen rule does not look at would mislead whoever reads the file.
fn refuse_unused(checker: &mut Checker, key: &str, list: &TypedList, used: bool, by: &str) {
    if let Some(list) = list.as_ref().filter(|_| !used) {
        let message = format!("`{key}` means nothing with by = {by:?}");
        checker.problem(Some(list.span()), message);
    }
}

/// One entry for each rail.
fn entries(
    checker: &mut Checker,
    by: &Value<String>,
    key: &str,
    list: TypedList,
) -> Option<Vec<Value<String>>> {
    if list.is_none() {
        let message = format!("by = {:?} needs `{key}`, one for each rail", by.value);
        checker.absent(by.span.clone(), message);
        return None;
    }
    let list = checker.some(key, list, None)?;
    let count = list.value.len();
    if count > MAX_RAILS {
        let message = format!("{count} rails: linerate knows at most {MAX_RAILS}");
        checker.problem(list.span, message);
        return None;
    }
    Some(list.value)
}

fn patterns(checker: &mut Checker, by: &Value<String>, list: TypedList) -> Option<Vec<String>> {
    let list = entries(checker, by, "names", list)?;
    let before = checker.problems.len();
    let mut seen = HashSet::new();
    for Value { value, span } in &list {
        // What the kernel allows in a name is wider; what drivers and udev make of it is not.
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._:-*?".contains(c);
        if value.is_empty() || !value.chars().all(allowed) {
            checker
                .problem(span.clone(), format!("{value:?} is no pattern for a name"))
                .help(
                    "each rail has one pattern; `*` and `?` stand for any characters and for one",
                );
        } else if !seen.insert(value.as_str()) {
            checker.problem(span.clone(), format!("two rails have the name {value:?}"));
        }
    }
    let whole = checker.problems.len() == before;
    whole.then(|| list.into_iter().map(|name| name.value).collect())
}

fn subnets(checker: &mut Checker, by: &Value<String>, list: TypedList) -> Option<Vec<String>> {
    let list = entries(checker, by, "subnets", list)?;
    let count = list.len();
    let mut found: Vec<IpNet> = Vec::new();
    for entry in list {
        let Some(subnet) = subnet(checker, &entry) else {
            continue;
        };
        let overlaps = |other: &&IpNet| other.contains(&subnet) || subnet.contains(*other);
        if let Some(other) = found.iter().find(overlaps) {
            let message = format!("{subnet} and {other} overlap: a NIC would be on two rails");
            checker.problem(entry.span, message);
            continue;
        }
        found.push(subnet);
    }
    (found.len() == count).then(|| found.iter().map(IpNet::to_string).collect())
}

fn subnet(checker: &mut Checker, entry: &Value<String>) -> Option<IpNet> {
    let Value { value, span } = entry;
    let Ok(subnet) = value.parse::<IpNet>() else {
        checker
            .problem(span.clone(), format!("{value:?} is not a subnet"))
            .help("write it like \"10.1.0.0/16\" or \"fd00:1::/64\"");
        return None;
    };
    if subnet.addr() != subnet.network() {
        let length = subnet.prefix_len();
        checker
            .problem(
                span.clone(),
                format!("{value:?} is an address, not its subnet of {length} bits"),
            )
            .help(format!("did you mean \"{}\"?", subnet.trunc()));
        return None;
    }
    Some(subnet)
}
