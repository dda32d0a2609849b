//! What NCCL said within a line: one message, or several where lines of many ranks were spliced.

use memchr::{memchr, memchr2, memrchr};

use super::text::{digits_at_end, small};

/// The longest host name that is believed.
const MAX_HOST: usize = 255;

/// How far before `NCCL INFO` the head of a message may begin: a host name, two numbers and, with
/// warnings, the name of a source file.
const MAX_HEAD: usize = 600;

/// What messages are told by.
const NAME: &[u8] = b"NCCL ";

/// The place of the rarest letter in it.
const LETTER: usize = 3;

/// What stands behind it.
const LEVELS: [&[u8]; 4] = [b"INFO ", b"WARN ", b"TRACE ", b"CALL "];

/// Who says something: `node1:5330:5499 [3]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// May be empty.
    pub host: &'a [u8],
    pub process: u32,
    pub thread: u32,
    /// The CUDA device, in brackets.
    pub device: Option<u32>,
    /// `node1:5330`.
    pub key: &'a [u8],
    /// Whether it is inside of another message: what of that was torn off may stand before the name.
    pub is_inside: bool,
}

impl Head<'_> {
    /// The end of a channel line may stand right before a name, and look like a part of it; `before` is
    /// what is before the name. How many letters that is.
    fn take_back(&mut self, before: &[u8]) -> usize {
        let ends = [&b"GDRDMA"[..], b"Shared"];
        let end = ends.iter().find(|end| self.host.starts_with(end));
        let Some(length) = end.filter(|_| before.ends_with(b"/")).map(|end| end.len()) else {
            return 0;
        };
        self.host = &self.host[length..];
        self.key = &self.key[length..];
        length
    }
}

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub head: Option<Head<'a>>,
    pub text: &'a [u8],
    /// Whether its end was seen: not where another message begins within it.
    pub is_whole: bool,
}

/// The messages of a line, in their order.
pub(super) struct Messages<'a> {
    line: &'a [u8],
    is_whole: bool,
    next: Option<Mark<'a>>,
    /// Whether the library's name is in the line at all.
    pub has_name: bool,
}

/// `NCCL INFO `, with the head before it.
#[derive(Clone, Copy)]
struct Mark<'a> {
    /// Where the head begins.
    start: usize,
    /// Where the text begins.
    text: usize,
    head: Option<Head<'a>>,
}

impl<'a> Messages<'a> {
    pub(super) fn of(line: &'a [u8], is_whole: bool) -> Self {
        let name = name(line);
        let next = name.and_then(|at| mark(line, 0, at));
        Self {
            line,
            is_whole,
            next,
            has_name: name.is_some(),
        }
    }
}

impl<'a> Messages<'a> {
    /// Where the text of the first one begins.
    pub(super) fn text_at(&self) -> Option<usize> {
        Some(self.next?.text)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let now = self.next?;
        let rest = name(&self.line[now.text..]);
        self.next = rest.and_then(|at| mark(self.line, now.text, now.text + at));
        let end = self.next.map_or(self.line.len(), |next| next.start);
        let text = &self.line[now.text..end.max(now.text)];
        // A progress bar writes over its own line.
        let (text, is_ended) = match memchr(b'\r', text) {
            Some(end) => (&text[..end], true),
            None => (text, self.next.is_none() && self.is_whole),
        };
        Some(Message {
            head: now.head,
            text: text.trim_ascii_end(),
            is_whole: is_ended,
        })
    }
}

/// Where the name is first. Few lines have another `L`, and to look for a letter takes less than for a word.
fn name(text: &[u8]) -> Option<usize> {
    let mut from = LETTER;
    loop {
        let at = from + memchr(NAME[LETTER], text.get(from..)?)?;
        if text[at - LETTER..].starts_with(NAME) {
            return Some(at - LETTER);
        }
        from = at + 1;
    }
}

/// Whether a text is the rest of one message: nothing in it begins another, or writes over it.
pub(super) fn is_one(text: &[u8]) -> bool {
    memchr2(NAME[LETTER], b'\r', text).is_none()
        || (memchr(b'\r', text).is_none() && name(text).is_none())
}

/// The next `NCCL INFO`, `NCCL WARN` or the like, where `NCCL` is at `at` first; its head begins at or
/// behind `from`.
fn mark(line: &[u8], from: usize, mut at: usize) -> Option<Mark<'_>> {
    loop {
        let rest = &line[at + 5..];
        let level = LEVELS.iter().find(|level| rest.starts_with(level));
        if let Some(level) = level {
            let (mut start, mut head) = head(&line[from..at]);
            start += from;
            if let Some(head) = head.as_mut().filter(|_| from > 0) {
                head.is_inside = true;
                start += head.take_back(&line[..start]);
            }
            return Some(Mark {
                start,
                text: at + 5 + level.len(),
                head,
            });
        }
        at += 5;
        at += name(&line[at..])?;
    }
}

/// The head at the end of `before`, and where it begins. Warnings and some builds have the place in
/// the source between the brackets and `NCCL`.
fn head(before: &[u8]) -> (usize, Option<Head<'_>>) {
    let skipped = before.len().saturating_sub(MAX_HEAD);
    let near = &before[skipped..];
    let bracket = memrchr(b']', near).and_then(|at| device(near, at));
    let (end, device) = match bracket {
        Some((start, device)) => (start, Some(device)),
        None => (near.len(), None),
    };
    match who(near[..end].trim_ascii_end()) {
        Some((start, head)) => (skipped + start, Some(Head { device, ..head })),
        None if device.is_some() => (skipped + end, None),
        None => (before.len(), None),
    }
}

/// `[3]` that ends at `at`: where it begins, and the number in it.
fn device(text: &[u8], at: usize) -> Option<(usize, u32)> {
    let digits = digits_at_end(&text[..at]);
    let start = at.checked_sub(digits + 1)?;
    (text[start] == b'[').then_some(())?;
    Some((start, parse(&text[start + 1..at])?))
}

/// `node1:5330:5499` at the end: where it begins, and what it says.
fn who(text: &[u8]) -> Option<(usize, Head<'_>)> {
    let (rest, thread) = last_number(text)?;
    let (rest, process) = last_number(rest)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let length = rest.iter().rev().take_while(|byte| is_name(byte)).count();
    let mut start = rest.len() - length.min(MAX_HOST);
    // The letters of a colour, `ESC[36m`, are no part of the name behind it.
    if rest[..start].ends_with(b"\x1b[")
        && let Some(end) = memchr(b'm', &rest[start..])
    {
        start += end + 1;
    }
    let head = Head {
        host: &rest[start..],
        process,
        thread,
        device: None,
        key: &text[start..text.len() - digits_at_end(text) - 1],
        is_inside: false,
    };
    Some((start, head))
}

/// `:5330` at the end.
fn last_number(text: &[u8]) -> Option<(&[u8], u32)> {
    let start = text.len() - digits_at_end(text);
    let rest = text[..start].strip_suffix(b":")?;
    Some((rest, parse(&text[start..])?))
}

fn parse(digits: &[u8]) -> Option<u32> {
    small(digits).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Said<'a> = (Option<(&'a str, u32, u32, Option<u32>)>, &'a str, bool);

    fn said(line: &str) -> Vec<Said<'_>> {
        fn text(bytes: &[u8]) -> &str {
            std::str::from_utf8(bytes).unwrap()
        }
        Messages::of(line.as_bytes(), true)
            .map(|message| {
                let head = message.head;
                let head = head.map(|h| (text(h.host), h.process, h.thread, h.device));
                (head, text(message.text), message.is_whole)
            })
            .collect()
    }

    #[test]
    fn a_head_is_found_behind_every_launchers_prefix() {
        let head = Some(("gpu-7", 310, 322, Some(3)));
        for prefix in [
            "",
            "\t",
            "12: ",
            "[155] ",
            "[1,0]<stdout>:",
            "2026-01-02T03:04:05.678Z ",
            "[2026-01-02 03:04:05] ",
            "(Worker pid=35, ip=10.4.4.17) ",
            "\u{1b}[36m(Worker pid=35)\u{1b}[0m ",
            "\u{1b}[36m",
            "validation:  3%|█▋| 1/9\r",
        ] {
            let line = format!("{prefix}gpu-7:310:322 [3] NCCL INFO Using network IB");
            assert_eq!(said(&line), [(head, "Using network IB", true)], "{prefix}");
        }
    }

    #[test]
    fn a_source_place_may_stand_before_the_word() {
        let head = Some(("a", 1, 2, Some(0)));
        for place in ["misc/ibvwrap.cc:63", "ncclIbConnect, 1290", "3.5 reg:12"] {
            let line = format!("a:1:2 [0] {place} NCCL WARN no");
            assert_eq!(said(&line), [(head, "no", true)], "{place}");
        }
    }

    #[test]
    fn a_head_may_be_missing_in_part() {
        assert_eq!(said("NCCL INFO x"), [(None, "x", true)]);
        assert_eq!(said("[0] NCCL INFO x"), [(None, "x", true)]);
        let head = Some(("", 5, 6, Some(0)));
        assert_eq!(said(":5:6 [0] NCCL INFO x"), [(head, "x", true)]);
        let head = Some(("n", 5, 6, None));
        assert_eq!(said("n:5:6 NCCL INFO x"), [(head, "x", true)]);
        assert_eq!(said("NCCL version 2.4.7+cuda10.0"), []);
    }

    #[test]
    fn a_message_within_another_ends_that_and_is_whole_itself() {
        let line = "n1:5:6 [0] NCCL INFO Channel 00 : 1[1] via P2P/Cn1:7:8 [1] NCCL INFO abc";
        let [first, second] = said(line)[..] else {
            panic!("{line}")
        };
        assert_eq!((first.1, first.2), ("Channel 00 : 1[1] via P2P/", false));
        assert_eq!(second, (Some(("Cn1", 7, 8, Some(1))), "abc", true));
    }
}
