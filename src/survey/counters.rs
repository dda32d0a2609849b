//! The counters of ports (`counters`, `counters_ext`, `hw_counters`) and network interfaces.

use std::path::Path;

use super::parse;
use super::root::{ReadError, Root, quote};
use crate::model::{Counter, Counters, Fact, UnreadCounters, saturates_at};

/// The most counters kept of one directory. mlx5 has about 60 of a port.
const MAX_COUNTERS: usize = 512;

/// A setting among the counters: for how long, in milliseconds, the kernel answers from memory.
pub(super) const LIFESPAN: &str = "lifespan";

/// Those of a port that the InfiniBand specification defines. `counters_ext` held the wide ones
/// before Linux 4.5.
pub(super) fn of_port(root: &Root, port: &Path) -> Fact<Counters> {
    let dir = port.join("counters");
    let mut found = match read(root, &dir, saturates_at) {
        Ok(found) => found,
        Err(why) => return Fact::unknown(why),
    };
    let wide = port.join("counters_ext");
    if let Ok(more) = read(root, &wide, |_| None) {
        found.values.extend(more.values);
        found.values.truncate(MAX_COUNTERS);
        found.unread.extend(more.unread);
    }
    Fact::known(found, dir.display().to_string())
}

/// Those that the port's driver counts besides.
pub(super) fn of_driver(root: &Root, port: &Path) -> Fact<Counters> {
    let dir = port.join("hw_counters");
    match read(root, &dir, |_| None) {
        Ok(found) => Fact::known(found, dir.display().to_string()),
        Err(why) => Fact::unknown(why),
    }
}

/// Those of the network interface whose directory in /sys/class/net is `dir`.
pub(super) fn of_netdev(root: &Root, dir: &Path) -> Fact<Counters> {
    let statistics = dir.join("statistics");
    let mut found = match read(root, &statistics, |_| None) {
        Ok(found) => found,
        Err(why) => return Fact::unknown(why),
    };
    let carrier = dir.join("carrier_changes");
    if let Fact::Known { value, .. } = root.fact(&carrier, parse::counter) {
        found.values.push(Counter {
            name: "carrier_changes".into(),
            value,
            saturates_at: None,
        });
    }
    Fact::known(found, statistics.display().to_string())
}

/// The counters in a directory; `most` tells where one of a name stops counting.
fn read(root: &Root, dir: &Path, most: fn(&str) -> Option<u64>) -> Result<Counters, String> {
    let mut found = Counters::default();
    let names = root.list(dir).map_err(|error| error.to_string())?;
    let is_counter = |name: &&String| parse::is_counter_name(name) && *name != LIFESPAN;
    for name in names.iter().filter(is_counter).take(MAX_COUNTERS) {
        match value(root, &dir.join(name)) {
            Ok(value) => found.values.push(Counter {
                name: name.clone(),
                value,
                saturates_at: stops_at(most(name), value),
            }),
            Err(why) => leave_out(&mut found.unread, name, why),
        }
    }
    Ok(found)
}

/// Where a counter stops that stands at `value`: more than the field holds shows that it is wider.
pub(super) fn stops_at(most: Option<u64>, value: u64) -> Option<u64> {
    most.filter(|most| value <= *most)
}

/// What a counter stands at, or why that is not known, without the place of the file: many
/// counters of a port are unread for one reason.
fn value(root: &Root, path: &Path) -> Result<u64, String> {
    let text = root.read(path).map_err(|error| match error {
        ReadError::Os { source, .. } => source.to_string(),
        other => other.to_string(),
    })?;
    parse::counter(&text).map_err(|why| format!("{}: {why}", quote(&text)))
}

fn leave_out(unread: &mut Vec<UnreadCounters>, name: &str, why: String) {
    let name = name.to_owned();
    match unread.iter_mut().find(|entry| entry.why == why) {
        Some(entry) => entry.names.push(name),
        None => unread.push(UnreadCounters {
            names: vec![name],
            why,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    const PORT: &str = "sys/class/infiniband/mlx5_0/ports/1";

    fn tree(counters: &[(&str, &str)]) -> Tree {
        let tree = Tree::new();
        for (name, text) in counters {
            tree.file(&format!("{PORT}/{name}"), text);
        }
        tree
    }

    fn port(tree: &Tree) -> Fact<Counters> {
        of_port(&tree.root(), &tree.root().path(PORT))
    }

    #[test]
    fn a_full_field_means_or_more_and_a_fuller_one_is_wider() {
        let tree = tree(&[
            ("counters/link_downed", "255\n"),
            ("counters/link_error_recovery", "256\n"),
            ("counters/symbol_error", "17\n"),
            ("counters/port_xmit_data", "18446744073709551615\n"),
        ]);
        let counters = port(&tree);
        let counter = |name| counters.value().unwrap().get(name).unwrap();
        assert!(counter("link_downed").is_saturated());
        assert_eq!(counter("link_error_recovery").saturates_at, None);
        assert_eq!(counter("symbol_error").saturates_at, Some(65_535));
        assert!(!counter("symbol_error").is_saturated());
        assert_eq!(counter("port_xmit_data").value, u64::MAX);
    }

    #[test]
    fn what_the_driver_does_not_answer_is_no_zero() {
        let tree = tree(&[
            ("counters/link_downed", "N/A (no PMA)\n"),
            ("counters/symbol_error", "N/A (no PMA)\n"),
            ("counters/port_rcv_errors", ""),
            ("counters/port_xmit_wait", "-1"),
            ("counters/VL15_dropped", "0\n"),
        ]);
        let counters = port(&tree).value().cloned().unwrap();
        assert_eq!(counters.values.len(), 1);
        let silent = &counters.unread[0];
        assert_eq!(silent.names, ["link_downed", "symbol_error"]);
        assert_eq!(
            silent.why,
            "`N/A (no PMA)`: the driver does not answer for it"
        );
        assert_eq!(counters.unread.len(), 3, "{counters:?}");
    }

    #[test]
    fn settings_and_odd_names_are_no_counters() {
        let tree = tree(&[
            ("hw_counters/lifespan", "12"),
            ("hw_counters/out_of_sequence", "3"),
            ("hw_counters/a b", "1"),
            ("hw_counters/.hidden", "1"),
        ]);
        let counters = of_driver(&tree.root(), &tree.root().path(PORT));
        let counters = counters.value().unwrap();
        assert_eq!(counters.values.len(), 1);
        assert_eq!(counters.get("out_of_sequence").unwrap().value, 3);
    }

    #[test]
    fn a_directory_without_end_is_cut() {
        let names: Vec<_> = (0..MAX_COUNTERS + 9)
            .map(|n| format!("counters/c{n}"))
            .collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
        let counters = port(&tree(&files)).value().cloned().unwrap();
        assert_eq!(counters.values.len(), MAX_COUNTERS);
    }

    #[test]
    fn without_counters_there_is_a_reason() {
        let tree = tree(&[("state", "4: ACTIVE")]);
        let why = port(&tree).why_unknown().unwrap().to_owned();
        assert!(why.contains("ports/1/counters: No such file"), "{why}");
    }

    #[test]
    fn a_netdev_counts_its_carrier_too() {
        let tree = Tree::new();
        tree.file("sys/class/net/eth3/statistics/rx_bytes", "4096\n")
            .file("sys/class/net/eth3/carrier_changes", "7\n");
        let dir = tree.root().path("sys/class/net/eth3");
        let counters = of_netdev(&tree.root(), &dir).value().cloned().unwrap();
        let value = |name| counters.get(name).unwrap().value;
        assert_eq!((value("rx_bytes"), value("carrier_changes")), (4096, 7));
    }
}
