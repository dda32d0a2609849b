//! Folds names into the short list that a message can show.

use std::fmt;

use super::{MAX_DIGITS, Numbers};

/// The names as a short host list: `node[001-003,007],login`.
///
/// Order is kept, so that [`super::expand`] gives back exactly `names`; sort them first for the shortest.
pub fn fold<S: AsRef<str>>(names: &[S]) -> String {
    let mut groups: Vec<Group> = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        let taken = groups.last_mut().is_some_and(|group| group.take(name));
        if !taken {
            groups.push(Group::new(name));
        }
    }
    let groups: Vec<String> = groups.iter().map(Group::to_string).collect();
    groups.join(",")
}

/// Neighbours in a list that differ in one number only.
struct Group<'a> {
    name: &'a str,
    /// What stands before and after the number, and the numbers; none where the name has none.
    numbered: Option<(&'a str, &'a str, Vec<Numbers>)>,
}

impl<'a> Group<'a> {
    fn new(name: &'a str) -> Self {
        let numbered = split(name).and_then(|(before, digits, after)| {
            let number = digits.parse().ok()?;
            let width = digits.len();
            let (first, last) = (number, number);
            Some((before, after, vec![Numbers { first, last, width }]))
        });
        Self { name, numbered }
    }

    /// Takes the name in where it differs in the number only.
    fn take(&mut self, name: &str) -> bool {
        let Some((before, after, ranges)) = &mut self.numbered else {
            return false;
        };
        let Some((_, digits, _)) = split(name).filter(|(b, _, a)| b == before && a == after) else {
            return false;
        };
        let Ok(number) = digits.parse::<u64>() else {
            return false;
        };
        match ranges.last_mut() {
            Some(range)
                if number == range.last + 1
                    && digits == format!("{number:0w$}", w = range.width) =>
            {
                range.last = number;
            }
            _ => ranges.push(Numbers {
                first: number,
                last: number,
                width: digits.len(),
            }),
        }
        true
    }
}

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((before, after, ranges)) = &self.numbered else {
            return f.write_str(self.name);
        };
        if let [only] = ranges.as_slice()
            && only.first == only.last
        {
            return f.write_str(self.name);
        }
        write!(f, "{before}[")?;
        for (n, range) in ranges.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            write!(f, "{comma}{:0w$}", range.first, w = range.width)?;
            if range.last > range.first {
                write!(f, "-{:0w$}", range.last, w = range.width)?;
            }
        }
        write!(f, "]{after}")
    }
}

/// The name around its last number; of a name with a domain, the last in the host's own part.
fn split(name: &str) -> Option<(&str, &str, &str)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let host = name.find('.').map_or(name, |dot| &name[..dot]);
    let host = if host.chars().all(is_digit) {
        name
    } else {
        host
    };
    let end = host.rfind(is_digit)? + 1;
    let start = host[..end].trim_end_matches(is_digit).len();
    (end - start <= MAX_DIGITS).then(|| (&name[..start], &name[start..end], &name[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::hostlist::expand;
    use proptest::prelude::*;

    #[test]
    fn names_fold() {
        for (names, list) in [
            (vec!["n1"], "n1"),
            (
                vec!["node001", "node002", "node003", "node007"],
                "node[001-003,007]",
            ),
            (vec!["n9", "n10", "n11"], "n[9-11]"),
            (vec!["n099", "n100"], "n[099-100]"),
            (
                vec!["login", "n1.hpc2.x", "n2.hpc2.x"],
                "login,n[1-2].hpc2.x",
            ),
            (vec!["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
            (vec!["n1", "n1"], "n[1,1]"),
            (vec!["n2", "n1"], "n[2,1]"),
            (vec!["n01", "n2"], "n[01,2]"),
            (vec!["r1n01", "r1n02", "r2n01"], "r1n[01-02],r2n01"),
            (vec!["é0", "é1"], "é[0-1]"),
            (vec![], ""),
        ] {
            assert_eq!(fold(&names), list);
        }
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z]{1,3}[0-9]{1,3}",
            "[a-b][0-9]{1,2}(\\.[a-c][0-9])?",
            "[A-Za-z0-9_][A-Za-z0-9._-]{0,24}",
        ]
    }

    proptest! {
        #[test]
        fn folding_loses_nothing(names in proptest::collection::vec(name(), 1..40)) {
            prop_assert_eq!(expand(&fold(&names)).unwrap(), names);
        }

        #[test]
        fn a_range_keeps_its_order_and_width(first in 0u64..2000, more in 0u64..300, width in 1usize..6) {
            let names: Vec<String> = (first..=first + more).map(|n| format!("n{n:0width$}")).collect();
            let list = fold(&names);
            prop_assert!(list.len() < 20, "{}", list);
            prop_assert_eq!(expand(&list).unwrap(), names);
        }

        #[test]
        fn folding_never_panics(names in proptest::collection::vec(".{0,24}", 0..8)) {
            fold(&names);
        }
    }
}
