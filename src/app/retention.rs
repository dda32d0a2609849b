//! Removes recorded runs that need not be kept, after a run is over or when asked.

use std::path::{Path, PathBuf};

use super::runs;
use crate::model::{Bytes, Retention};
use crate::record::{Found, remove, to_remove};

/// What was removed.
pub(super) struct Pruned {
    pub(super) removed: Vec<PathBuf>,
    pub(super) bytes: u64,
    /// Why others were not, each with its path.
    pub(super) failed: Vec<String>,
}

impl Pruned {
    /// `2 recorded runs removed (12.3 MiB)`.
    pub(super) fn in_words(&self, dry: bool) -> String {
        let how = if dry { "would be removed" } else { "removed" };
        match self.removed.len() {
            0 => format!(
                "no recorded run {}",
                if dry { how } else { "needs to be removed" }
            ),
            1 => format!("1 recorded run {how} ({})", Bytes(self.bytes)),
            many => format!("{many} recorded runs {how} ({})", Bytes(self.bytes)),
        }
    }
}

/// Removes those of what was found that need not be kept; says only which, if `dry`.
pub(super) fn prune(found: &[Found], keep: Retention, dry: bool) -> Pruned {
    let mut pruned = Pruned {
        removed: Vec::new(),
        bytes: 0,
        failed: Vec::new(),
    };
    for found in to_remove(found, keep, jiff::Timestamp::now()) {
        let done = if dry { Ok(()) } else { remove(found) };
        match done {
            Ok(()) => {
                pruned.removed.push(found.path.clone());
                pruned.bytes += found.bytes;
            }
            Err(why) => pruned.failed.push(why),
        }
    }
    pruned
}

/// After a run that is recorded in the usual folder: what need not be kept goes, in a line. Where it
/// cannot, the run is none the worse.
pub(super) fn after_run(keep: Retention, record: &Path) {
    let usual = runs::folder().is_ok_and(|folder| record.parent() == Some(&folder));
    if keep.keeps_all() || !usual {
        return;
    }
    let found = match runs::found() {
        Ok(found) => found,
        Err(failure) => {
            eprintln!("linerate: earlier runs are not removed: {failure}");
            return;
        }
    };
    let pruned = prune(&found, keep, false);
    if !pruned.removed.is_empty() {
        eprintln!("{}, as [record] has it", pruned.in_words(false));
    }
    for why in &pruned.failed {
        eprintln!("linerate: not removed: {why}");
    }
}
