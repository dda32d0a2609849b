//! Which characters of a stranger's text may reach a person's screen.

/// Whether a character steers a terminal, or hides or reorders the text around it.
///
/// Control characters (C0, DEL and C1: terminal escapes begin with one), bidirectional and zero-width
/// formatting, interlinear and tag characters (Unicode TR36: visual spoofing).
pub fn is_treacherous(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// The text with a mark in the place of each such character.
pub fn visible(text: &str) -> String {
    // Nearly all of what is shown, and a report of thousands of nodes shows much.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mark = |c: char| if is_treacherous(c) { '\u{fffd}' } else { c };
    text.chars().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_is_what_is_there() {
        for c in [
            '\u{1b}',
            '\u{9b}',
            '\u{7f}',
            '\u{202e}',
            '\u{200b}',
            '\u{206a}',
            '\u{e0041}',
        ] {
            assert!(is_treacherous(c), "{c:?}");
        }
        for c in ['a', ' ', 'ä', '網', '→', '·'] {
            assert!(!is_treacherous(c), "{c:?}");
        }
        for (text, seen) in [
            ("node01 ~", "node01 ~"),
            ("a\u{1b}[2J", "a\u{fffd}[2J"),
            ("\u{7f}", "\u{fffd}"),
            ("網\u{202e}", "網\u{fffd}"),
        ] {
            assert_eq!(visible(text), seen);
        }
    }
}
