//! What is wrong with a cluster file: every problem with its line, column and source line.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};

/// The most problems kept; the rest is counted. Nobody reads the thousandth.
pub(super) const MAX_PROBLEMS: usize = 20;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub message: String,
    /// What would be right, where that is known.
    pub help: Option<String>,
    /// Line and column, both from 1, the column in characters; none where something is absent
    /// from the file as a whole.
    pub place: Option<(usize, usize)>,
    span: Option<Range<usize>>,
}

impl Problem {
    /// A problem at a span of bytes of `text`; one outside of it is kept within.
    pub(super) fn new(text: &str, span: Option<Range<usize>>, message: impl Into<String>) -> Self {
        let span = span.map(|span| within(text, &span));
        Self {
            message: message.into(),
            help: None,
            place: span.as_ref().map(|span| place(text, span.start)),
            span,
        }
    }

    /// Adds what would be right.
    pub(super) fn help(&mut self, help: impl Into<String>) {
        self.help = Some(help.into());
    }
}

fn within(text: &str, span: &Range<usize>) -> Range<usize> {
    let end = text.floor_char_boundary(span.end);
    text.floor_char_boundary(span.start).min(end)..end
}

fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before[line..].chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

/// Everything that is wrong with a cluster file. Displays as one report without colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file as the operator named it.
    pub path: String,
    /// The problems in the order of the file, at most 20.
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub more: usize,
    text: String,
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl ConfigErrors {
    pub(super) fn new(path: &str, text: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.span.as_ref().map_or(usize::MAX, |s| s.start));
        let more = problems.len().saturating_sub(MAX_PROBLEMS);
        problems.truncate(MAX_PROBLEMS);
        Self {
            path: path.to_owned(),
            problems,
            more,
            text: text.to_owned(),
        }
    }

    /// The report for a person: each problem with its place and the line it is in.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut parts: Vec<String> = self
            .problems
            .iter()
            .map(|problem| self.render_one(&renderer, problem))
            .collect();
        if self.more > 0 {
            parts.push(format!("… and {} more problems", self.more));
        }
        parts.join("\n\n")
    }

    fn render_one(&self, renderer: &Renderer, problem: &Problem) -> String {
        let mut group = Level::ERROR
            .primary_title(&*problem.message)
            .elements(None::<Origin>);
        group = match &problem.span {
            Some(span) => group.element(
                Snippet::source(&*self.text)
                    .path(&*self.path)
                    .annotation(AnnotationKind::Primary.span(first_line(&self.text, span))),
            ),
            None => group.element(Origin::path(&*self.path)),
        };
        if let Some(help) = &problem.help {
            group = group.element(Level::HELP.message(&**help));
        }
        renderer.render(&[group])
    }
}

/// The span as far as its first line goes: a caret below one line says enough.
fn first_line(text: &str, span: &Range<usize>) -> Range<usize> {
    let end = text[span.clone()].find(['\n', '\r']);
    span.start..end.map_or(span.end, |end| span.start + end)
}

/// The known word nearest to what was typed, if any is near enough to have been meant.
pub(super) fn nearest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(typed, word), word))
        .min()
        .filter(|(distance, word)| *distance <= 1.max(word.chars().count() / 3))
        .map(|(_, word)| word)
}

/// The node nearest to what was typed, of those with the same numbers in their names: node04 may
/// have been meant by node4, but not by node05.
pub(super) fn nearest_node<'a>(
    typed: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed_numbers = numbers(typed);
    let same = names
        .into_iter()
        .filter(|name| numbers(name) == typed_numbers);
    nearest(typed, same)
}

fn numbers(name: &str) -> Vec<&str> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .map(|digits| digits.trim_start_matches('0'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn near_words_are_offered_and_far_ones_not() {
        let known = ["known_hosts", "port", "user"];
        assert_eq!(nearest("knwon_hosts", known), Some("known_hosts"));
        assert_eq!(nearest("prot", known), Some("port"));
        assert_eq!(nearest("bandwidth", known), None);
        assert_eq!(nearest("", []), None);
    }

    proptest! {
        #[test]
        fn any_span_of_any_text_can_be_shown(text in "(?s).{0,60}", start in 0usize..80, length in 0usize..40) {
            let problem = Problem::new(&text, Some(start..start + length), "x");
            let errors = ConfigErrors::new("file", &text, vec![problem]);
            prop_assert!(errors.to_string().contains("file:"));
        }
    }
}
