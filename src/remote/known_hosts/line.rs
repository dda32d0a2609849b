//! One line of a known_hosts file: `[@marker] hosts algorithm base64 [comment]` (sshd(8)).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::HostKey;
use super::pattern::Hosts;

/// What a line says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    /// The host has this key.
    None,
    /// This key signs host certificates.
    CertAuthority,
    /// This key must never be accepted.
    Revoked,
}

/// A line that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) marker: Marker,
    pub(super) hosts: Hosts,
    pub(super) key: HostKey,
}

const BLANK: [char; 2] = [' ', '\t'];

/// Reads one line; `None` for comments and empty lines, an error in words where it is malformed.
pub(super) fn parse_line(line: &str) -> Result<Option<Entry>, &'static str> {
    let line = line.trim_end_matches('\r').trim_start_matches(BLANK);
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (marker, line) = take_marker(line)?;
    let (hosts, line) = take_word(line);
    if line.is_empty() || line.starts_with('#') {
        return Err("it ends before the key type");
    }
    let (algorithm, line) = take_word(line);
    let (encoded, _comment) = take_word(line);
    if encoded.is_empty() {
        return Err("it ends before the key");
    }
    let blob = BASE64_STANDARD
        .decode(encoded)
        .map_err(|_| "the key is not base64")?;
    let key = HostKey::from_blob(&blob).ok_or("the key is malformed")?;
    if key.algorithm() != algorithm {
        return Err("the key is of another type than the line says");
    }
    Ok(Some(Entry {
        marker,
        hosts: Hosts::parse(hosts)?,
        key,
    }))
}

fn take_marker(line: &str) -> Result<(Marker, &str), &'static str> {
    if !line.starts_with('@') {
        return Ok((Marker::None, line));
    }
    let (word, rest) = take_word(line);
    let marker = match word {
        "@cert-authority" => Marker::CertAuthority,
        "@revoked" => Marker::Revoked,
        _ => return Err("the marker is neither @revoked nor @cert-authority"),
    };
    if rest.starts_with('@') {
        return Err("only one marker is allowed");
    }
    Ok((marker, rest))
}

/// The first word and what follows the blanks after it.
fn take_word(line: &str) -> (&str, &str) {
    match line.split_once(BLANK) {
        Some((word, rest)) => (word, rest.trim_start_matches(BLANK)),
        None => (line, ""),
    }
}
