//! What is written, and where to.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

/// The reports that a run is written as.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ReportsArgs {
    /// What to write: text or json, to standard output; FORMAT=FILE writes to a file [default: text]
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
        let format = Format::from_str(word, false)
            .map_err(|_| format!("there is no format `{word}`: text and json there are"))?;
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
            outputs.push(FormatArg {
                format: Format::Text,
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
