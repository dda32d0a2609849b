//! Text for the screen: nothing in it steers the terminal, and it fits.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::model::{Gbps, visible};

/// The columns that a text takes.
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// The text in at most so many columns, with what steers terminals made visible; a cut shows by `~`.
pub(super) fn fit(text: &str, width: usize) -> String {
    let text = visible(text);
    if columns(&text) <= width {
        return text;
    }
    let mut fitted = String::new();
    let mut taken = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if taken + wide >= width {
            break;
        }
        taken += wide;
        fitted.push(c);
    }
    if width > 0 {
        fitted.push('~');
    }
    fitted
}

/// The same, filled up to the width.
pub(super) fn pad(text: &str, width: usize) -> String {
    let mut text = fit(text, width);
    let taken = columns(&text);
    text.extend(std::iter::repeat_n(' ', width.saturating_sub(taken)));
    text
}

/// Words in lines of at most so many columns; longer words are cut into pieces.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in visible(&spaced(text)).split_whitespace() {
        for piece in pieces(word, width) {
            if !line.is_empty() && columns(&line) + 1 + columns(&piece) > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&piece);
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Line breaks and tabs are spaces here, not characters to be marked.
fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn pieces(word: &str, width: usize) -> Vec<Cow<'_, str>> {
    if columns(word) <= width {
        return vec![Cow::Borrowed(word)];
    }
    let mut pieces = vec![String::new()];
    for c in word.chars() {
        let full = pieces.last().is_some_and(|piece| {
            !piece.is_empty() && columns(piece) + c.width().unwrap_or(0) > width
        });
        if full {
            pieces.push(String::new());
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(c);
        }
    }
    pieces.into_iter().map(Cow::Owned).collect()
}

/// A rate in at most four columns: Gb/s, or with `M` Mb/s, with `k` kb/s.
pub(super) fn short(rate: Gbps) -> String {
    let (value, unit) = match rate.0.abs() {
        gbps if gbps >= 0.9995 => (rate.0, ""),
        gbps if gbps >= 0.000_999_5 => (rate.0 * 1e3, "M"),
        gbps if gbps > 0.0 => (rate.0 * 1e6, "k"),
        _ => (0.0, ""),
    };
    let room = 4 - unit.len();
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => usize::from(room > 3),
        _ => room.saturating_sub(2),
    };
    match value {
        v if v.is_finite() && v.abs() < 9999.5 => format!("{v:.decimals$}{unit}"),
        _ => "huge".to_owned(),
    }
}

/// Seconds as `0:07`, `12:34`, `1:02:03`.
pub(super) fn clock(ms: u64) -> String {
    let seconds = ms / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_short() {
        for (gbps, text) in [
            (391.2, "391"),
            (39.12, "39.1"),
            (3.912, "3.91"),
            (0.0631, "63M"),
            (0.0064, "6.4M"),
            (0.0, "0.00"),
            (1600.0, "1600"),
            (1e9, "huge"),
            (f64::NAN, "0.00"),
            (f64::INFINITY, "huge"),
        ] {
            assert_eq!(short(Gbps(gbps)), text, "{gbps}");
        }
    }

    #[test]
    fn times_are_read_as_clocks() {
        assert_eq!(clock(7_900), "0:07");
        assert_eq!(clock(754_000), "12:34");
        assert_eq!(clock(3_723_000), "1:02:03");
    }

    #[test]
    fn text_wraps_at_words_and_cuts_what_is_longer() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("a\nb\u{1b}[2J", 20), ["a b\u{fffd}[2J"]);
        assert_eq!(fit("node001.cluster", 8), "node001~");
    }

    proptest! {
        #[test]
        fn whatever_a_node_is_called_fits(text in "\\PC{0,40}", width in 0usize..30) {
            prop_assert!(columns(&fit(&text, width)) <= width);
            prop_assert_eq!(columns(&pad(&text, width)), width);
            for line in wrap(&text, width) {
                prop_assert!(columns(&line) <= width.max(2));
            }
        }

        #[test]
        fn every_rate_is_short(rate: f64) {
            prop_assert!(short(Gbps(rate)).len() <= 5);
        }
    }
}
