//! Text to what was typed, with every unknown key and every value of a wrong kind reported, not
//! only the first: what is wrong is taken out of the document, and the rest is read again.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use super::problem::{MAX_PROBLEMS, Problem, nearest};

/// What could be read of a file.
pub(super) struct Read<T> {
    /// The keys that are right.
    pub typed: T,
    /// What is wrong with the others.
    pub problems: Vec<Problem>,
}

/// Reads a document. A document that is no TOML gives its first syntax error alone: what follows
/// an unclosed bracket cannot be told.
pub(super) fn typed<T: DeserializeOwned + Default>(text: &str) -> Result<Read<T>, Problem> {
    let mut table = DeTable::parse(text).map_err(|error| syntax_problem(text, &error))?;
    let mut problems = Vec::new();
    loop {
        let error = match T::deserialize(Deserializer::from(table.clone())) {
            Ok(typed) => {
                return Ok(Read { typed, problems });
            }
            Err(error) => error,
        };
        problems.push(value_problem(text, &error));
        let removed = error
            .span()
            .is_some_and(|span| remove(table.get_mut(), &span));
        if !removed || problems.len() > MAX_PROBLEMS {
            return Ok(Read {
                typed: T::default(),
                problems,
            });
        }
    }
}

/// Takes the entry out that the span lies in, the innermost one.
fn remove(table: &mut DeTable, span: &Range<usize>) -> bool {
    let within = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    let found = table.iter_mut().find_map(|(key, value)| {
        if key.span() == *span {
            return Some(Some(key.clone()));
        }
        if let DeValue::Table(inner) = value.get_mut()
            && remove(inner, span)
        {
            return Some(None);
        }
        if let DeValue::Array(items) = value.get_mut()
            && remove_item(items, span)
        {
            return Some(None);
        }
        within(value.span()).then(|| Some(key.clone()))
    });
    if let Some(Some(key)) = &found {
        table.remove(key);
    }
    found.is_some()
}

/// The same in the tables of a list.
fn remove_item(items: &mut DeArray, span: &Range<usize>) -> bool {
    items.iter_mut().any(|item| match item.get_mut() {
        DeValue::Table(inner) => remove(inner, span),
        _ => false,
    })
}

fn syntax_problem(text: &str, error: &toml::de::Error) -> Problem {
    let mut problem = Problem::new(text, error.span(), error.message());
    if error.message().starts_with("invalid float") || error.message().contains("must be quoted") {
        problem.message = "this is no TOML value".to_owned();
        problem.help("a text stands in double quotes: \"…\"");
    }
    problem
}

/// Says in the words of the file what serde says in those of Rust.
fn value_problem(text: &str, error: &toml::de::Error) -> Problem {
    let message = error.message();
    let mut words = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field")
        && let Some(key) = words.next()
    {
        let known: Vec<&str> = words.collect();
        let mut problem = Problem::new(text, error.span(), format!("unknown key `{key}`"));
        problem.help(match nearest(key, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("known here: `{}`", known.join("`, `")),
        });
        return problem;
    }
    let plain = in_words_of_the_file(message);
    let mut problem = Problem::new(text, error.span(), plain);
    if message.ends_with("expected a string") {
        problem
            .help("write a text in double quotes, a quantity with its unit: \"30s\", \"64 KiB\"");
    }
    if message.ends_with("expected f64") {
        problem.help("a number stands without quotes and without a unit; a half is 0.5");
    }
    problem
}

fn in_words_of_the_file(message: &str) -> String {
    let mut plain = message.to_owned();
    for (rust, file) in [
        ("invalid type: ", "found "),
        ("expected a string", "expected a text"),
        ("expected i64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("found sequence", "found a list"),
        ("found map", "found a table"),
        ("expected a sequence", "expected a list: [\"…\", \"…\"]"),
        ("expected a map", "expected a table"),
    ] {
        plain = plain.replace(rust, file);
    }
    plain
}
