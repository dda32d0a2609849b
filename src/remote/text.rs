//! Text from a node or a server made fit for a person's terminal.

use crate::model::is_treacherous;

/// Longest text taken over from a node into a message, in characters.
const LONGEST: usize = 400;

/// One line of printable text: control characters and everything that is not text become spaces,
/// runs of spaces become one, long text is cut.
pub(super) fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let printable: String = text
        .chars()
        .map(|c| if is_treacherous(c) { ' ' } else { c })
        .collect();
    let mut line = printable.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = line.char_indices().nth(LONGEST) {
        line.truncate(cut);
        line.push('…');
    }
    line
}

/// The last bytes of a stream, for error messages.
#[derive(Default)]
pub(super) struct Tail(Vec<u8>);

impl Tail {
    /// Bytes kept.
    const KEPT: usize = 4096;

    /// Appends, forgetting the oldest bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let surplus = self.0.len().saturating_sub(Self::KEPT);
        self.0.drain(..surplus);
    }

    /// The last line that says something, cleaned.
    pub(super) fn last_line(&self) -> String {
        self.0
            .split(|&b| b == b'\n')
            .rev()
            .map(clean)
            .find(|line| !line.is_empty())
            .unwrap_or_default()
    }

    /// The whole tail, cleaned line by line.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.0.split(|&b| b == b'\n').map(clean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_escapes_do_not_survive() {
        assert_eq!(
            clean(b"\x1b]0;owned\x07hi\r\n\xff there"),
            "]0;owned hi \u{fffd} there"
        );
        assert_eq!(clean("a\u{202e}b".as_bytes()), "a b");
        assert!(clean(&[b'x'; 5000]).chars().count() <= LONGEST + 1);
    }

    #[test]
    fn the_tail_keeps_the_last_line() {
        let mut tail = Tail::default();
        tail.push(&[b'x'; 9000]);
        tail.push(b"\nsh: not found\n\n");
        assert_eq!(tail.last_line(), "sh: not found");
        assert!(tail.0.len() <= Tail::KEPT);
    }
}
