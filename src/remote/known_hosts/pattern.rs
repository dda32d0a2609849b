//! The host field of a known_hosts line: patterns with `*`, `?` and `!`, or one hashed name.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

/// Whom a line is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hosts {
    /// Comma-separated patterns, in lower case.
    Patterns(Vec<Pattern>),
    /// `|1|salt|hash`: HMAC-SHA1 of the name with the salt as key.
    Hashed {
        /// 20 bytes, as OpenSSH makes and requires them.
        salt: Vec<u8>,
        /// 20 bytes.
        hash: Vec<u8>,
    },
}

/// One pattern; a negated one that matches rules the whole line out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    negated: bool,
    text: String,
}

/// Length of an SHA-1 digest in bytes, and of OpenSSH's salts.
const SHA1_LENGTH: usize = 20;

impl Hosts {
    /// Reads the field.
    pub(super) fn parse(field: &str) -> Result<Hosts, &'static str> {
        if let Some(rest) = field.strip_prefix('|') {
            return Hosts::parse_hashed(rest).ok_or("the hashed host name is malformed");
        }
        let pattern = |text: &str| match text.strip_prefix('!') {
            Some(text) => Pattern {
                negated: true,
                text: text.to_ascii_lowercase(),
            },
            None => Pattern {
                negated: false,
                text: text.to_ascii_lowercase(),
            },
        };
        Ok(Hosts::Patterns(field.split(',').map(pattern).collect()))
    }

    fn parse_hashed(rest: &str) -> Option<Hosts> {
        let (salt, hash) = rest.strip_prefix("1|")?.split_once('|')?;
        let salt = BASE64_STANDARD.decode(salt).ok()?;
        let hash = BASE64_STANDARD.decode(hash).ok()?;
        let right = salt.len() == SHA1_LENGTH && hash.len() == SHA1_LENGTH;
        right.then_some(Hosts::Hashed { salt, hash })
    }

    /// Whether the line is about `name`, which is in lower case.
    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Hosts::Patterns(patterns) => {
                let mut found = false;
                for pattern in patterns {
                    if glob(pattern.text.as_bytes(), name.as_bytes()) {
                        if pattern.negated {
                            return false;
                        }
                        found = true;
                    }
                }
                found
            }
            Hosts::Hashed { salt, hash } => {
                let Ok(mut mac) = <Hmac<Sha1> as KeyInit>::new_from_slice(salt) else {
                    return false;
                };
                mac.update(name.as_bytes());
                mac.verify_slice(hash).is_ok()
            }
        }
    }
}

/// Whether `text` is what `pattern` describes: `*` is any run of bytes, `?` any one. Linear in
/// memory and at worst quadratic in time, so that no pattern can stall a sweep.
pub(super) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((after, tried)) => {
                    star = Some((after, tried + 1));
                    p = after;
                    t = tried + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}
