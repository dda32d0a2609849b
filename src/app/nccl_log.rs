//! `linerate nccl-log`: what logs of NCCL say of GPUDirect RDMA, beside a survey where one is given.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::failure::Failure;
use super::output::Output;
use crate::cli::{Format, NcclLogArgs};
use crate::judge::{NcclProblem, NcclSurvey, nccl_problems};
use crate::ledger::Ledger;
use crate::nccl::{NcclLog, NcclReader};
use crate::record::Reader;
use crate::report::nccl::{json, text};

/// What is read at once: much less than a log, much more than a line.
const BUFFER: usize = 256 << 10;

/// Reads, joins, and reports; the exit code is that of the verdict.
pub(super) fn run(arguments: &NcclLogArgs) -> Result<u8, Failure> {
    let mut reader = NcclReader::default();
    for path in &arguments.files {
        one(&mut reader, path)?;
    }
    let log = reader.finish();
    let ledger = arguments.record.as_deref().map(surveyed).transpose()?;
    let survey = ledger.as_ref().map(NcclSurvey::of);
    if let Some(survey) = &survey {
        say_unknown(&log, survey);
    }
    write(arguments, &log, &nccl_problems(&log, survey.as_ref()))?;
    Ok(log.verdict().exit_code())
}

/// Reads a file, or standard input.
fn one(reader: &mut NcclReader, path: &Path) -> Result<(), Failure> {
    let (name, mut source): (String, Box<dyn BufRead>) = match path == Path::new("-") {
        true => {
            let input = BufReader::with_capacity(BUFFER, io::stdin());
            ("standard input".to_owned(), Box::new(input))
        }
        false => {
            let name = path.display().to_string();
            let file = File::open(path)
                .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
            (name, Box::new(BufReader::with_capacity(BUFFER, file)))
        }
    };
    reader
        .read(&name, &mut *source)
        .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))
}

/// The books of a recorded run; one that was cut off is as good for this.
fn surveyed(path: &Path) -> Result<Ledger, Failure> {
    let file = File::open(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    let mut ledger = Ledger::default();
    for record in Reader::new(BufReader::new(file), path) {
        let record = record.map_err(|error| Failure::usage(Failure::chain(&error)))?;
        ledger.apply(&record.event);
    }
    Ok(ledger)
}

/// A survey of other nodes would help nobody, and silently.
fn say_unknown(log: &NcclLog, survey: &NcclSurvey<'_>) {
    let hosts = || log.processes.iter().filter_map(|p| p.host.as_deref());
    if hosts().next().is_some() && !hosts().any(|host| survey.knows(host)) {
        eprintln!("linerate: no node of the log is in the record");
    }
}

fn write(arguments: &NcclLogArgs, log: &NcclLog, problems: &[NcclProblem]) -> Result<(), Failure> {
    let mut output = Output::standard();
    let style = output.style(arguments.color);
    match arguments.format {
        Format::Text => text(log, problems, style, output.writer()),
        Format::Json => json(log, problems, output.writer()),
    }
    .map_err(|error| Failure::work(format!("cannot write the reading: {error}")))?;
    output.finish()
}
