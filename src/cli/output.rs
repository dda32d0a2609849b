//! What is written, and where to.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};

/// The reports that a run is written as.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ReportsArgs {
    /// What to write: text, markdown, json, jsonl (the events), html, csv-pairs, csv-nodes, junit, tap
    /// or openmetrics, to standard output; FORMAT=FILE writes to a file, and several may be asked for
    /// [default: what the name of --output ends in, else text]
    #[arg(short, long = "format", value_name = "FORMAT[=FILE]")]
    pub formats: Vec<FormatArg>,

    /// Write the report to this file, not to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Colour: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,
}

/// A form of report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For people, in a merge request, a ticket or a wiki
    #[value(alias = "md")]
    Markdown,
    /// For programs
    Json,
    /// Every event of the run, one JSON document a line
    Jsonl,
    /// One page for a browser, or to print
    Html,
    /// A table with a row for each pair
    CsvPairs,
    /// A table with a row for each node and rail
    CsvNodes,
    /// JUnit XML, for what shows the tests of a CI job
    Junit,
    /// Test Anything Protocol, version 14
    Tap,
    /// For the textfile collector of Prometheus' node_exporter
    #[value(alias = "prometheus")]
    Openmetrics,
}

impl Format {
    /// Endings of file names that mean nothing else.
    fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Text => &["txt"],
            Self::Markdown => &["md", "markdown"],
            Self::Json => &["json"],
            Self::Jsonl => &["jsonl", "ndjson"],
            Self::Html => &["html", "htm"],
            Self::Tap => &["tap"],
            Self::Openmetrics => &["prom"],
            // Both tables end in .csv, and much else is XML.
            Self::CsvPairs | Self::CsvNodes | Self::Junit => &[],
        }
    }

    /// Whether it can hold a run that measured only what moving data costs.
    pub fn holds_cost(self) -> bool {
        matches!(self, Self::Text | Self::Json | Self::Jsonl | Self::Html)
    }

    /// What a file's name says that it holds; text where it says nothing.
    ///
    /// # Errors
    /// A sentence for the operator, where the name is that of several forms.
    fn of_file(file: &Path) -> Result<Self, String> {
        let ending = file.extension().and_then(|ending| ending.to_str());
        let ending = ending.unwrap_or_default().to_ascii_lowercase();
        let which = match ending.as_str() {
            "csv" => "--format csv-pairs or --format csv-nodes",
            "xml" => "--format junit",
            _ => {
                let mut all = Self::value_variants().iter().copied();
                let named = all.find(|format| format.endings().contains(&ending.as_str()));
                return Ok(named.unwrap_or(Self::Text));
            }
        };
        Err(format!(
            "the name {} does not say what it is to hold: add {which}",
            file.display()
        ))
    }

    /// The names of those that are `wanted`, as they are typed.
    pub fn names(wanted: impl Fn(Self) -> bool) -> String {
        let all = Self::value_variants().iter().copied();
        let names: Vec<String> = all.filter(|f| wanted(*f)).map(|f| f.to_string()).collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            _ => names.concat(),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// The forms of commands whose answer is no report of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlainFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// A form of report and, where one was typed with it, the file that it goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatArg {
    /// The form.
    pub format: Format,
    /// The file.
    pub file: Option<PathBuf>,
}

impl FromStr for FormatArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (word, file) = match text.split_once('=') {
            Some((word, file)) => (word, Some(file)),
            None => (text, None),
        };
        if file == Some("") {
            return Err("the file's name is missing after `=`".to_owned());
        }
        let format = Format::from_str(word, false).map_err(|_| {
            format!(
                "there is no format `{word}`: ask for {}",
                Format::names(|_| true)
            )
        })?;
        let file = file.map(PathBuf::from);
        Ok(Self { format, file })
    }
}

impl ReportsArgs {
    /// Whether a report is asked for by name.
    pub fn is_asked(&self) -> bool {
        !self.formats.is_empty() || self.output.is_some()
    }

    /// The reports to write, each with its file or, with `None`, to standard output.
    ///
    /// # Errors
    /// A sentence for the operator, where two would go to one place or `-o` has nothing to write.
    pub fn outputs(&self) -> Result<Vec<FormatArg>, String> {
        let mut outputs = self.formats.clone();
        if outputs.is_empty() {
            let named = self.output.as_deref().map(Format::of_file).transpose()?;
            outputs.push(FormatArg {
                format: named.unwrap_or(Format::Text),
                file: None,
            });
        }
        let mut open = outputs.iter_mut().filter(|output| output.file.is_none());
        match (open.next(), open.next(), &self.output) {
            (Some(_), Some(_), _) => {
                return Err(
                    "two reports would go to one place: write --format json=FILE".to_owned(),
                );
            }
            (Some(only), None, Some(file)) => only.file = Some(file.clone()),
            (None, _, Some(_)) => {
                return Err("--output has nothing to write: each --format has its file".to_owned());
            }
            _ => {}
        }
        let files: Vec<&PathBuf> = outputs.iter().filter_map(|o| o.file.as_ref()).collect();
        let twice = files
            .iter()
            .enumerate()
            .find(|(n, file)| files[..*n].contains(file));
        match twice {
            Some((_, file)) => Err(format!("two reports would go to {}", file.display())),
            None => Ok(outputs),
        }
    }
}
