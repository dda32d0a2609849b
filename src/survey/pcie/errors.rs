//! What a function counted of errors: Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats of
//! the Linux kernel.

use super::function::Place;
use super::parse;
use crate::model::{Fact, PcieErrors};

/// The counters of a function; those of what its root port was told where it is one.
pub(super) fn read(place: &Place<'_>) -> Fact<PcieErrors> {
    const FIRST: &str = "aer_dev_correctable";
    let path = place.file(FIRST);
    if !path.exists() {
        return Fact::unknown(format!(
            "{} does not exist: error reporting is left to firmware, or the function has none",
            path.display()
        ));
    }
    let counters = |name: &str| match place.fact(name, parse::counters) {
        Fact::Known { value, .. } => Ok(value),
        Fact::Unknown { why } => Err(why),
    };
    let read = || {
        Ok(PcieErrors {
            correctable: counters(FIRST)?,
            nonfatal: counters("aer_dev_nonfatal")?,
            fatal: counters("aer_dev_fatal")?,
            received: received(place),
        })
    };
    match read() {
        Ok(errors) => Fact::known(errors, path.display().to_string()),
        Err(why) => Fact::Unknown { why },
    }
}

/// Only root ports have these files.
fn received(place: &Place<'_>) -> std::collections::BTreeMap<String, u64> {
    let kinds = [
        ("correctable", "aer_rootport_total_err_cor"),
        ("nonfatal", "aer_rootport_total_err_nonfatal"),
        ("fatal", "aer_rootport_total_err_fatal"),
    ];
    let count = |(kind, file): (&str, &str)| {
        let count = *place.fact(file, parse::count).value()?;
        (count > 0).then(|| (kind.to_owned(), count))
    };
    kinds.into_iter().filter_map(count).collect()
}
