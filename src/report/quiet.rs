//! JSON in which nothing steers the terminal that it is shown on: what would is written as an escape, of
//! which every reader makes the same text again.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::model::is_treacherous;

/// What is collected before it is handed on: a document is written in pieces of a few bytes.
const BUFFER: usize = 64 << 10;

/// Writes a document over several lines, with a line break at its end.
pub(super) fn pretty(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, out);
    let form = Quiet(PrettyFormatter::new());
    value.serialize(&mut Serializer::with_formatter(&mut out, form))?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes what is valid JSON already.
pub(super) fn copy(out: &mut (impl Write + ?Sized), json: &str) -> io::Result<()> {
    // All of ASCII but the control characters.
    if json.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return out.write_all(json.as_bytes());
    }
    let mut rest = json;
    while let Some(at) = rest.find(is_treacherous) {
        let (quiet, from) = rest.split_at(at);
        out.write_all(quiet.as_bytes())?;
        let mut chars = from.chars();
        match chars.next() {
            // Between two tokens: in a string it would not be valid.
            Some('\t' | '\n' | '\r') => out.write_all(b" ")?,
            Some(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
            None => {}
        }
        rest = chars.as_str();
    }
    out.write_all(rest.as_bytes())
}

/// The usual form.
struct Quiet(PrettyFormatter<'static>);

impl Formatter for Quiet {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        copy(out, fragment)
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
        let mut out = Vec::new();
        pretty(&mut out, &value).unwrap();
        let mut copied = Vec::new();
        let compact = serde_json::to_string(&value).unwrap();
        copy(&mut copied, &compact.replacen(':', "\t:\r", 1)).unwrap();
        for json in [out, copied] {
            let json = String::from_utf8(json).unwrap();
            assert!(!json.contains(|c| c != '\n' && is_treacherous(c)), "{json}");
            let read: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(read, value);
        }
    }

    #[test]
    fn the_form_is_the_usual_one() {
        let value = serde_json::json!({"a": [1, {}]});
        let mut out = Vec::new();
        pretty(&mut out, &value).unwrap();
        let usual = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), usual + "\n");
    }
}
