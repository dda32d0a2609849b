//! A fact: known with its source, or unknown with the reason. Never a silent default.

use std::collections::HashSet;
use std::fmt;
use std::sync::{LazyLock, Mutex};

use arcstr::{ArcStr, literal};
use serde::{Deserialize, Deserializer, Serialize};

/// Something that was looked for on a node.
///
/// In JSON either `{"value": …, "from": "/sys/…"}` or `{"unknown": "why"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fact<T> {
    /// It was seen.
    Known {
        /// What was seen.
        value: T,
        /// Where: a file, a system call, a library call.
        #[serde(deserialize_with = "shared")]
        from: ArcStr,
    },
    /// It could not be told.
    Unknown {
        /// Why not, as an operator would want to read it.
        #[serde(rename = "unknown", deserialize_with = "shared")]
        why: ArcStr,
    },
}

impl<T> Fact<T> {
    /// A fact seen at `from`.
    pub fn known(value: T, from: impl Into<ArcStr>) -> Self {
        Self::Known {
            value,
            from: from.into(),
        }
    }

    /// A fact that could not be told.
    pub fn unknown(why: impl Into<ArcStr>) -> Self {
        Self::Unknown { why: why.into() }
    }

    /// The value, where it is known.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Known { value, .. } => Some(value),
            Self::Unknown { .. } => None,
        }
    }

    /// Where the value was seen.
    pub fn source(&self) -> Option<&str> {
        match self {
            Self::Known { from, .. } => Some(from),
            Self::Unknown { .. } => None,
        }
    }

    /// Why the value is not known.
    pub fn why_unknown(&self) -> Option<&str> {
        match self {
            Self::Known { .. } => None,
            Self::Unknown { why } => Some(why),
        }
    }

    /// Whether it was looked for at all.
    pub fn was_asked(&self) -> bool {
        self.why_unknown() != Some(NOT_ASKED.as_str())
    }

    /// The same fact, in other words; an unknown stays unknown with its reason.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known { value, from } => Fact::Known {
                value: f(value),
                from,
            },
            Self::Unknown { why } => Fact::Unknown { why },
        }
    }
}

/// Why a fact is unknown that nobody looked for.
const NOT_ASKED: ArcStr = literal!("the survey of this node did not look for it");

/// Sources and reasons that were read. Thousands of nodes say the same of thousands of files: each text
/// is kept once.
static TEXTS: LazyLock<Mutex<HashSet<ArcStr>>> = LazyLock::new(Mutex::default);

/// What nodes send must not fill the memory: so many texts are kept, of so many bytes.
const MOST_TEXTS: usize = 1 << 16;
const LONGEST_TEXT: usize = 256;

/// A text as it is kept, or by itself where it is not.
fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ArcStr, D::Error> {
    let text = ArcStr::deserialize(deserializer)?;
    if text.len() > LONGEST_TEXT {
        return Ok(text);
    }
    let Ok(mut texts) = TEXTS.lock() else {
        return Ok(text);
    };
    if let Some(known) = texts.get(&text) {
        return Ok(known.clone());
    }
    if texts.len() < MOST_TEXTS {
        texts.insert(text.clone());
    }
    Ok(text)
}

impl<T> Default for Fact<T> {
    /// Unknown: what older records, and surveys that had no reason to look, have nothing on.
    fn default() -> Self {
        Self::unknown(NOT_ASKED)
    }
}

impl<T: fmt::Display> fmt::Display for Fact<T> {
    /// The value, or `unknown (why)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known { value, .. } => value.fmt(f),
            Self::Unknown { why } => write!(f, "unknown ({why})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_tells_known_from_unknown() {
        let known = Fact::known(4200u32, "/sys/class/net/eth1/mtu");
        let text = serde_json::to_string(&known).unwrap();
        assert_eq!(text, r#"{"value":4200,"from":"/sys/class/net/eth1/mtu"}"#);
        assert_eq!(serde_json::from_str::<Fact<u32>>(&text).unwrap(), known);

        let unknown = Fact::<u32>::unknown("no such file");
        let text = serde_json::to_string(&unknown).unwrap();
        assert_eq!(text, r#"{"unknown":"no such file"}"#);
        assert_eq!(serde_json::from_str::<Fact<u32>>(&text).unwrap(), unknown);
    }
}
