//! Cleans what an agent sent: a compromised node must not reach a terminal with its escapes,
//! nor a reader with text that hides or reverses itself, nor memory with texts without end.

use serde_json::Value;

use crate::model::is_treacherous;

/// The longest text kept, in characters. Kernel and library messages are far below it.
const MAX_TEXT: usize = 2048;

/// The text without control and direction-changing characters, cut at 2048 characters.
///
/// Line breaks and tabs become spaces: no text from a node spans lines on a screen.
pub fn clean_text(text: &str) -> String {
    let mut kept: String = text.chars().filter_map(clean_char).take(MAX_TEXT).collect();
    if text.chars().nth(MAX_TEXT).is_some() {
        kept.push('…');
    }
    kept
}

fn clean_char(c: char) -> Option<char> {
    match c {
        '\n' | '\r' | '\t' => Some(' '),
        c => (!is_treacherous(c)).then_some(c),
    }
}

/// Cleans every text in a document, keys of objects too.
pub(super) fn clean_value(value: &mut Value) {
    match value {
        Value::String(text) => *text = clean_text(text),
        Value::Array(items) => items.iter_mut().for_each(clean_value),
        Value::Object(fields) => {
            let old = std::mem::take(fields);
            for (key, mut item) in old {
                clean_value(&mut item);
                fields.insert(clean_text(&key), item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_do_not_survive() {
        assert_eq!(
            clean_text("\u{1b}[31mred\u{1b}[0m\u{9b}2J\u{7}"),
            "[31mred[0m2J"
        );
        assert_eq!(clean_text("two\nlines\tand a tab"), "two lines and a tab");
        assert_eq!(clean_text("abc\u{202e}gpj.exe"), "abcgpj.exe");
        assert_eq!(clean_text("Gerät 網路 →"), "Gerät 網路 →");
    }

    #[test]
    fn texts_end() {
        let long = "x".repeat(10_000);
        assert_eq!(clean_text(&long).chars().count(), MAX_TEXT + 1);
        assert!(clean_text(&long).ends_with('…'));
    }

    #[test]
    fn every_corner_of_a_document_is_cleaned() {
        let mut value = serde_json::json!({"a\u{1b}": ["\u{7}x", {"b": "\u{1b}c"}], "n": 1});
        clean_value(&mut value);
        assert_eq!(value, serde_json::json!({"a": ["x", {"b": "c"}], "n": 1}));
    }

    proptest! {
        #[test]
        fn nothing_that_controls_a_terminal_is_left(text in any::<String>()) {
            prop_assert!(!clean_text(&text).chars().any(char::is_control));
        }

        #[test]
        fn cleaning_is_done_once(text in ".{0,64}") {
            let once = clean_text(&text);
            prop_assert_eq!(clean_text(&once), once);
        }
    }
}
