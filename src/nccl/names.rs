//! Names from a log, each kept once, cut to a length, and not without end.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::visible;

/// The longest name that is kept, in bytes.
const MAX_NAME: usize = 128;

/// How many different names are kept: hosts, devices and networks of a cluster are fewer.
const MAX_NAMES: usize = 1 << 16;

/// The names so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: HashMap<Box<[u8]>, Arc<str>>,
    /// How many times a name was not kept.
    pub left_out: u64,
}

impl Names {
    /// The name as text; `None` where there are too many.
    pub(super) fn keep(&mut self, name: &[u8]) -> Option<Arc<str>> {
        let name = &name[..name.len().min(MAX_NAME)];
        if let Some(known) = self.known.get(name) {
            return Some(known.clone());
        }
        if self.known.len() >= MAX_NAMES {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        // A log may be of anybody's making.
        let text: Arc<str> = visible(&String::from_utf8_lossy(name)).into();
        self.known.insert(name.into(), text.clone());
        Some(text)
    }
}
