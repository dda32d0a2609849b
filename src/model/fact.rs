//! A fact: known with its source, or unknown with the reason. Never a silent default.

use std::fmt;

use serde::{Deserialize, Serialize};

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
        from: String,
    },
    /// It could not be told.
    Unknown {
        /// Why not, as an operator would want to read it.
        #[serde(rename = "unknown")]
        why: String,
    },
}

impl<T> Fact<T> {
    /// A fact seen at `from`.
    pub fn known(value: T, from: impl Into<String>) -> Self {
        Self::Known {
            value,
            from: from.into(),
        }
    }

    /// A fact that could not be told.
    pub fn unknown(why: impl Into<String>) -> Self {
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
        self.why_unknown() != Some(NOT_ASKED)
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
const NOT_ASKED: &str = "the survey of this node did not look for it";

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
