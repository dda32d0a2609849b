//! Small steps through the bytes of a line.

use memchr::{memchr, memmem};

/// A decimal number at the beginning, and what is behind it.
pub(super) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    /// So many always fit.
    const MOST: usize = 19;
    let mut value = 0_u64;
    let mut digits = 0;
    while let Some(byte) = text.get(digits)
        && byte.is_ascii_digit()
    {
        if digits == MOST {
            return None;
        }
        value = value * 10 + u64::from(byte - b'0');
        digits += 1;
    }
    (digits > 0).then(|| (value, &text[digits..]))
}

/// A hexadecimal number at the beginning, with `0x` or without, and what is behind it.
pub(super) fn hexadecimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
    let digits = text.iter().take_while(|byte| is_digit(byte)).count();
    let value = std::str::from_utf8(&text[..digits]).ok()?;
    let value = u64::from_str_radix(value, 16).ok()?;
    Some((value, &text[digits..]))
}

/// A decimal number of 32 bits at the beginning.
pub(super) fn small(text: &[u8]) -> Option<(u32, &[u8])> {
    let (value, rest) = number(text)?;
    Some((u32::try_from(value).ok()?, rest))
}

/// What is between the beginning and `end`, and what is behind `end`.
pub(super) fn until<'a>(text: &'a [u8], end: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    // Most ends are one byte, and a search for that needs no preparation.
    let at = match end {
        [byte] => memchr(*byte, text),
        end => memmem::find(text, end),
    }?;
    Some((&text[..at], &text[at + end.len()..]))
}

/// What is behind the first `mark`.
pub(super) fn behind<'a>(text: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    Some(until(text, mark)?.1)
}

/// Up to the next white space.
pub(super) fn word(text: &[u8]) -> &[u8] {
    let end = text.iter().position(u8::is_ascii_whitespace);
    &text[..end.unwrap_or(text.len())]
}

/// How many of the last bytes are decimal digits.
pub(super) fn digits_at_end(text: &[u8]) -> usize {
    text.iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count()
}
