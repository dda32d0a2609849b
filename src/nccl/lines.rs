//! Lines of bytes, one after another, in memory that does not grow with the file.

use std::io::{self, BufRead, ErrorKind};

use memchr::memchr;

/// The longest line that is looked at, in bytes; what is behind that is skipped. NCCL cuts its own
/// lines at 1024 (`ncclDebugLog`), but several may be spliced into one.
pub const MAX_LINE: usize = 16 << 10;

/// A line without its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawLine<'a> {
    pub text: &'a [u8],
    /// From 1.
    pub number: u64,
    /// Whether its end was seen: not where the file ends without one, or the line is too long.
    pub is_whole: bool,
    /// Whether it is longer than [`MAX_LINE`].
    pub is_long: bool,
}

/// How much was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub bytes: u64,
    /// Lines, the last one also where it has no end.
    pub lines: u64,
}

/// Hands every line to `take`.
pub(super) fn each_line(
    source: &mut dyn BufRead,
    take: &mut dyn FnMut(RawLine<'_>),
) -> io::Result<Extent> {
    let mut extent = Extent::default();
    let mut carry = Carry::default();
    loop {
        let chunk = match source.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if chunk.is_empty() {
            break;
        }
        let length = chunk.len();
        split(chunk, &mut carry, &mut extent.lines, take);
        source.consume(length);
        extent.bytes += length as u64;
    }
    if carry.is_begun {
        extent.lines += 1;
        carry.hand_over(extent.lines, false, take);
    }
    Ok(extent)
}

fn split(mut chunk: &[u8], carry: &mut Carry, lines: &mut u64, take: &mut dyn FnMut(RawLine<'_>)) {
    while let Some(end) = memchr(b'\n', chunk) {
        let (line, rest) = (&chunk[..end], &chunk[end + 1..]);
        *lines += 1;
        if carry.is_begun {
            carry.add(line);
            carry.hand_over(*lines, true, take);
        } else {
            hand_over(line, *lines, true, line.len() > MAX_LINE, take);
        }
        chunk = rest;
    }
    if !chunk.is_empty() {
        carry.add(chunk);
    }
}

fn hand_over(
    text: &[u8],
    number: u64,
    is_ended: bool,
    is_long: bool,
    take: &mut dyn FnMut(RawLine<'_>),
) {
    take(RawLine {
        text: &text[..text.len().min(MAX_LINE)],
        number,
        is_whole: is_ended && !is_long,
        is_long,
    });
}

/// The beginning of a line whose end was not yet read.
#[derive(Default)]
struct Carry {
    text: Vec<u8>,
    is_begun: bool,
    is_long: bool,
}

impl Carry {
    fn add(&mut self, more: &[u8]) {
        self.is_begun = true;
        let room = MAX_LINE - self.text.len();
        self.is_long |= more.len() > room;
        self.text.extend_from_slice(&more[..more.len().min(room)]);
    }

    fn hand_over(&mut self, number: u64, is_ended: bool, take: &mut dyn FnMut(RawLine<'_>)) {
        hand_over(&self.text, number, is_ended, self.is_long, take);
        self.text.clear();
        self.is_begun = false;
        self.is_long = false;
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn lines(text: &[u8], buffer: usize) -> Vec<(usize, u64, bool, bool)> {
        let mut found = Vec::new();
        let mut take = |line: RawLine<'_>| {
            found.push((line.text.len(), line.number, line.is_whole, line.is_long));
        };
        let extent = each_line(&mut BufReader::with_capacity(buffer, text), &mut take).unwrap();
        assert_eq!(extent.bytes, text.len() as u64);
        assert_eq!(extent.lines, found.len() as u64);
        found
    }

    #[test]
    fn lines_are_the_same_however_they_are_read() {
        let text = b"one\n\nthree\nfour";
        for buffer in [1, 3, 4, 100] {
            let ends = [(3, 1, true), (0, 2, true), (5, 3, true), (4, 4, false)];
            let found = lines(text, buffer);
            assert_eq!(found, ends.map(|(len, n, whole)| (len, n, whole, false)));
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_and_the_next_is_whole() {
        let mut text = vec![b'x'; 3 * MAX_LINE];
        text.extend_from_slice(b"\nnext\n");
        for buffer in [1000, 1 << 20] {
            let found = lines(&text, buffer);
            assert_eq!(found, [(MAX_LINE, 1, false, true), (4, 2, true, false)]);
        }
    }
}
