//! Host lists: `node[001-128,140]`, `rack[1-2]n[01-04]`, `login,node[1-3].example`; unfolded here,
//! folded again in its own file.

mod fold;

use std::fmt;

pub use fold::fold;

/// The most names that one list may stand for. Far above any cluster swept in one run; it keeps
/// a slip such as `node[1-99999999999]` from eating the memory of the login node.
pub const MAX_NAMES: usize = 100_000;

/// The longest host name in bytes (RFC 1035, section 2.3.4, less the root's dot and length byte).
pub const MAX_NAME: usize = 253;

/// The most digits of a number in brackets: every one fits a `u64`.
const MAX_DIGITS: usize = 18;

/// What is wrong with a host list, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct HostListError {
    /// The list as it was typed.
    pub list: String,
    /// Where in it, in bytes from its start.
    pub at: usize,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for HostListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.list.get(..self.at).unwrap_or(&self.list);
        let place = place.chars().count() + 1;
        let list = shorten(&self.list);
        write!(f, "host list {list:?}, character {place}: {}", self.what)
    }
}

/// A text for a message: whole where it is short, else its beginning.
fn shorten(text: &str) -> String {
    const ENOUGH: usize = 60;
    match text.char_indices().nth(ENOUGH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether a host may have this name: `[A-Za-z0-9._-]`, not first a `-` (a program would take it
/// for an option) or a `.`, at most [`MAX_NAME`] bytes.
pub fn is_host_name(name: &str) -> bool {
    let length_fits = (1..=MAX_NAME).contains(&name.len());
    length_fits && !name.starts_with(['-', '.']) && name.chars().all(is_name_char)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// All names that the list stands for, in its order; a name that is in it twice comes twice.
///
/// Items are separated by commas or blanks. In brackets stand numbers and ranges; leading zeros
/// are kept (`[08-10]` is 08, 09, 10). Several brackets in one item give every combination.
///
/// # Errors
/// A [`HostListError`] with the place, also where more than [`MAX_NAMES`] names would result;
/// that is found before any is made.
pub fn expand(list: &str) -> Result<Vec<String>, HostListError> {
    let mut parser = Parser { list, at: 0 };
    let items = parser.items()?;
    Ok(items.iter().flat_map(|item| combine(item)).collect())
}

/// A part of an item.
enum Piece<'a> {
    Literal(&'a str),
    Numbers(Vec<Numbers>),
}

/// `first` to `last`, at least `width` digits each.
struct Numbers {
    first: u64,
    last: u64,
    width: usize,
}

impl Numbers {
    fn count(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// Digits of the longest of them.
    fn digits(&self) -> usize {
        self.last.to_string().len().max(self.width)
    }
}

impl Piece<'_> {
    fn count(&self) -> u64 {
        match self {
            Self::Literal(_) => 1,
            Self::Numbers(ranges) => ranges
                .iter()
                .fold(0, |sum, range| sum.saturating_add(range.count())),
        }
    }

    fn longest(&self) -> usize {
        match self {
            Self::Literal(text) => text.len(),
            Self::Numbers(ranges) => ranges.iter().map(Numbers::digits).max().unwrap_or(0),
        }
    }
}

/// Every combination of an item's pieces. The parser has bounded their number.
fn combine(pieces: &[Piece]) -> Vec<String> {
    let mut names = vec![String::new()];
    for piece in pieces {
        match piece {
            Piece::Literal(text) => names.iter_mut().for_each(|name| name.push_str(text)),
            Piece::Numbers(ranges) => {
                let numbers: Vec<String> = ranges
                    .iter()
                    .flat_map(|r| (r.first..=r.last).map(|n| format!("{n:0w$}", w = r.width)))
                    .collect();
                names = names
                    .iter()
                    .flat_map(|name| numbers.iter().map(move |n| format!("{name}{n}")))
                    .collect();
            }
        }
    }
    names
}

struct Parser<'a> {
    list: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn error<T>(&self, at: usize, what: impl Into<String>) -> Result<T, HostListError> {
        Err(HostListError {
            list: self.list.to_owned(),
            at,
            what: what.into(),
        })
    }

    fn peek(&self) -> Option<char> {
        self.list[self.at..].chars().next()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.list[self.at..];
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn items(&mut self) -> Result<Vec<Vec<Piece<'a>>>, HostListError> {
        let (mut items, mut total) = (Vec::new(), 0u64);
        loop {
            self.take_while(char::is_whitespace);
            let start = self.at;
            let item = self.item()?;
            let count = item
                .iter()
                .fold(1u64, |all, piece| all.saturating_mul(piece.count()));
            total = total.saturating_add(count);
            if total > MAX_NAMES as u64 {
                return self.error(start, format!("this makes more than {MAX_NAMES} names"));
            }
            items.push(item);
            let blank = !self.take_while(char::is_whitespace).is_empty();
            match self.peek() {
                None => return Ok(items),
                Some(',') => self.at += 1,
                Some(_) if blank => {}
                Some(c) => return self.error(self.at, not_in_a_name(c)),
            }
        }
    }

    fn item(&mut self) -> Result<Vec<Piece<'a>>, HostListError> {
        let (start, mut pieces) = (self.at, Vec::new());
        loop {
            match self.peek() {
                Some('[') => pieces.push(Piece::Numbers(self.brackets()?)),
                Some(c) if is_name_char(c) => {
                    pieces.push(Piece::Literal(self.take_while(is_name_char)));
                }
                _ => break,
            }
            if pieces.iter().map(Piece::longest).sum::<usize>() > MAX_NAME {
                return self.error(start, format!("a name of more than {MAX_NAME} characters"));
            }
        }
        match pieces.first() {
            Some(Piece::Literal(text)) if text.starts_with(['-', '.']) => {
                self.error(start, "a host name cannot begin with `-` or `.`")
            }
            Some(_) => Ok(pieces),
            None => match self.peek() {
                None | Some(',') => self.error(start, "a host name is missing here"),
                Some(c) => self.error(start, not_in_a_name(c)),
            },
        }
    }

    fn brackets(&mut self) -> Result<Vec<Numbers>, HostListError> {
        let open = self.at;
        self.at += 1;
        let mut ranges = Vec::new();
        loop {
            ranges.push(self.range(open)?);
            match self.peek() {
                Some(',') => self.at += 1,
                Some(']') => {
                    self.at += 1;
                    return Ok(ranges);
                }
                None => return self.error(open, "this `[` is never closed"),
                Some(c) => {
                    return self.error(self.at, format!("`{}` in brackets", c.escape_debug()));
                }
            }
        }
    }

    fn range(&mut self, open: usize) -> Result<Numbers, HostListError> {
        let start = self.at;
        let (first_text, first) = self.number(open)?;
        if !self.take('-') {
            return Ok(Numbers {
                first,
                last: first,
                width: first_text.len(),
            });
        }
        let (last_text, last) = self.number(open)?;
        let padded = |text: &str| text.len() > 1 && text.starts_with('0');
        let uneven = padded(first_text) && last_text.len() < first_text.len()
            || padded(last_text) && last_text.len() != first_text.len();
        if uneven {
            let width = first_text.len().max(last_text.len());
            let what = format!("write both ends alike: `{first:0width$}-{last:0width$}`");
            return self.error(start, what);
        }
        if last < first {
            return self.error(start, format!("`{first_text}-{last_text}` runs backwards"));
        }
        Ok(Numbers {
            first,
            last,
            width: first_text.len(),
        })
    }

    fn number(&mut self, open: usize) -> Result<(&'a str, u64), HostListError> {
        let start = self.at;
        let text = self.take_while(|c| c.is_ascii_digit());
        match text.parse() {
            Ok(number) if text.len() <= MAX_DIGITS => Ok((text, number)),
            _ if !text.is_empty() => {
                self.error(start, format!("a number of more than {MAX_DIGITS} digits"))
            }
            _ if self.at == self.list.len() => self.error(open, "this `[` is never closed"),
            _ => self.error(start, "a number is missing here"),
        }
    }
}

fn not_in_a_name(c: char) -> String {
    match c {
        ']' => "this `]` was never opened".to_owned(),
        c => format!(
            "`{}` cannot be part of a host name (letters, digits, `.`, `_` and `-` can)",
            c.escape_debug()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_unfold() {
        for (list, names) in [
            ("node7", vec!["node7"]),
            ("node[08-10]", vec!["node08", "node09", "node10"]),
            ("node[9-10,12]", vec!["node9", "node10", "node12"]),
            ("a[099-101]", vec!["a099", "a100", "a101"]),
            ("r[1-2]n[01-02]", vec!["r1n01", "r1n02", "r2n01", "r2n02"]),
            (
                "n[1-2].hpc3.example",
                vec!["n1.hpc3.example", "n2.hpc3.example"],
            ),
            ("login, gw  n[5]\n", vec!["login", "gw", "n5"]),
            ("[1-2]", vec!["1", "2"]),
            ("127.0.0.[1-2]", vec!["127.0.0.1", "127.0.0.2"]),
        ] {
            assert_eq!(expand(list).unwrap(), names, "{list}");
        }
    }

    #[test]
    fn mistakes_are_placed() {
        let errors: Vec<String> = [
            "",
            "node[1-3",
            "node[",
            "node]",
            "node[3-1]",
            "node[1-010]",
            "node[01-5]",
            "node[1-2",
            "node[a-b]",
            "node[]",
            "node[1,]",
            "node[1-4/2]",
            "n1,,n2",
            "n1,",
            "-oProxyCommand=x",
            "n1,.hidden",
            "wörk",
            "n1;reboot",
            "n[1-2]\u{1b}[31m",
            "node[1-99999999999]",
            "node[1-9999999999999999999999]",
            "a[1-999]b[1-999]",
            "n[1-60000],m[1-60000]",
            &"x".repeat(254),
        ]
        .iter()
        .map(|list| expand(list).unwrap_err().to_string())
        .collect();
        insta::assert_snapshot!(errors.join("\n"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_an_error(list in "[a-c0-9,\\[\\]\\- .é]{0,24}|.{0,24}") {
            match expand(&list) {
                Ok(names) => {
                    prop_assert!(names.len() <= MAX_NAMES && !names.is_empty());
                    for name in names { prop_assert!(is_host_name(&name), "{}", name); }
                }
                Err(error) => {
                    prop_assert!(list.is_char_boundary(error.at));
                    prop_assert!(!error.to_string().chars().any(char::is_control));
                }
            }
        }
    }
}
