//! JUnit XML, for what shows the tests of a CI job: a suite for each node, a case for each check of it.
//!
//! What could not be judged is an `error`: `skipped` is shown as harmless, and passes.

use std::io::{self, Write};

use memchr::memmem::find;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::cases::{Case, CaseIs, Suite, suites};
use super::{Run, provisos};
use crate::model::visible;

/// Writes the report as JUnit XML, as Jenkins, GitLab and GitHub actions read it.
///
/// # Errors
/// Whatever `out` reports.
pub fn junit(run: &Run<'_>, out: &mut dyn Write) -> io::Result<()> {
    let name = match run.acceptance {
        Some(acceptance) => format!("linerate accept: {}", acceptance.profile),
        None => "linerate".to_owned(),
    };
    let mut report = Report::new(one_line(&name));
    let began = run.span.and_then(|span| began(span.began_ms));
    for all in suites(run) {
        let mut suite = suite(&all);
        for proviso in provisos(run.ledger) {
            let (name, _) = proviso.split_once(':').unwrap_or((proviso, ""));
            suite.add_property((name.to_lowercase().as_str(), proviso));
        }
        if let Some(began) = &began {
            suite.extra.insert("timestamp".into(), began.into());
        }
        report.add_test_suite(suite);
    }
    let mut root = Root {
        out,
        tag: Some(Vec::new()),
        failed: None,
    };
    if let Err(error) = report.serialize(&mut root) {
        // The serializer's own words are that it failed.
        return Err(root.failed.unwrap_or_else(|| io::Error::other(error)));
    }
    root.flush()
}

/// When the run began, in UTC, as the format has it: `2026-11-30T10:15:00`.
fn began(at_ms: u64) -> Option<String> {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(at_ms).ok()?).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%S").to_string())
}

fn suite(of: &Suite) -> TestSuite {
    let mut suite = TestSuite::new(one_line(&of.name));
    suite.add_test_cases(of.cases.iter().map(|case| test_case(&of.name, case)));
    if !of.notes.is_empty() {
        suite.set_system_out(lines(&of.notes));
    }
    suite
}

fn test_case(suite: &str, of: &Case) -> TestCase {
    let status = match of.is {
        CaseIs::Passed => TestCaseStatus::success(),
        CaseIs::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
        CaseIs::NotJudged => TestCaseStatus::non_success(NonSuccessKind::Error),
        CaseIs::Borne => TestCaseStatus::skipped(),
    };
    let mut case = TestCase::new(one_line(&of.name), told(status, of));
    case.set_classname(one_line(suite));
    if of.is == CaseIs::Passed {
        case.set_system_out(lines(std::iter::once(&of.says).chain(&of.more)));
    }
    case
}

/// What became of a case, with its words.
fn told(mut status: TestCaseStatus, of: &Case) -> TestCaseStatus {
    let message = match of.is {
        CaseIs::Passed => return status,
        CaseIs::NotJudged => format!("not judged: {}", of.says),
        CaseIs::Failed | CaseIs::Borne => of.says.clone(),
    };
    status.set_message(one_line(&message));
    status.set_type(one_line(&of.check));
    // What shows a failure shows its text, and not always its message.
    status.set_description(lines(std::iter::once(&message).chain(&of.more)));
    status
}

/// A stranger's text in one line of XML 1.0, which has no control characters and neither U+FFFE nor U+FFFF.
fn one_line(text: &str) -> String {
    let text = visible(text);
    match text.is_ascii() {
        true => text,
        false => text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"),
    }
}

fn lines<'l>(lines: impl IntoIterator<Item = &'l String>) -> String {
    let lines: Vec<String> = lines.into_iter().map(|line| one_line(line)).collect();
    lines.join("\n")
}

/// Leaves one attribute out of the first tag: the schemas that are in use know `skipped` of a suite, and not
/// of the root.
struct Root<'o> {
    out: &'o mut dyn Write,
    /// What came before the root's tag was whole.
    tag: Option<Vec<u8>>,
    /// Why it could not be written on.
    failed: Option<io::Error>,
}

impl Root<'_> {
    fn take_tag(&mut self, new: &[u8]) -> io::Result<()> {
        let Some(tag) = &mut self.tag else {
            return self.out.write_all(new);
        };
        tag.extend_from_slice(new);
        let Some(at) = find(tag, b"<testsuites") else {
            return Ok(());
        };
        let Some(length) = find(&tag[at..], b">") else {
            return Ok(());
        };
        // Of names the quotes are escaped: what looks like the attribute is it.
        if let Some(from) = find(&tag[at..at + length], b" skipped=\"") {
            let from = at + from;
            let opened = from + b" skipped=\"".len();
            let closed = find(&tag[opened..], b"\"").map_or(opened, |n| opened + n + 1);
            tag.drain(from..closed);
        }
        let whole = self.tag.take().unwrap_or_default();
        self.out.write_all(&whole)
    }
}

impl Write for Root<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.take_tag(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                let kind = error.kind();
                self.failed = Some(error);
                Err(kind.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
