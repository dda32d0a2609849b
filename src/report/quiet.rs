//! JSON in which nothing steers the terminal that it is shown on: what would is written as an escape, of
//! which every reader makes the same text again.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use crate::model::is_treacherous;

/// Writes a document over several lines, with a line break at its end.
pub(super) fn pretty(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write(out, Quiet(PrettyFormatter::new()), value)
}

/// Writes a document in one line, with a line break at its end.
pub(super) fn line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write(out, Quiet(CompactFormatter), value)
}

fn write(out: &mut dyn Write, form: impl Formatter, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, form))?;
    out.write_all(b"\n")
}

/// Another formatter's form.
struct Quiet<F>(F);

impl<F: Formatter> Formatter for Quiet<F> {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Control characters of ASCII are escaped before; most texts have nothing else.
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return out.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(c) = rest.chars().find(|c| is_treacherous(*c)) {
            let at = rest.find(c).unwrap_or_default();
            out.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written_and_nothing_steers() {
        let text = "a\u{1b}[2J\u{7f}\u{9b}31m ä 網 \u{202e}b\u{e0041} \"\\";
        let value = serde_json::json!({"name": text, "more": [1.5, {}, []]});
        for is_pretty in [true, false] {
            let mut out = Vec::new();
            match is_pretty {
                true => pretty(&mut out, &value).unwrap(),
                false => line(&mut out, &value).unwrap(),
            }
            let json = String::from_utf8(out).unwrap();
            assert!(!json.contains(|c| c != '\n' && is_treacherous(c)), "{json}");
            let read: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(read, value);
        }
        let mut usual = serde_json::to_string_pretty(&serde_json::json!({"a": [1, {}]})).unwrap();
        usual.push('\n');
        let mut out = Vec::new();
        pretty(&mut out, &serde_json::json!({"a": [1, {}]})).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), usual);
    }
}
