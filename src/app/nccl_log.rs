//! `linerate nccl-log`: what logs of NCCL say of GPUDirect RDMA, beside a survey where one is given.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::failure::Failure;
use super::output::Output;
use crate::cli::{NcclLogArgs, PlainFormat};
use crate::judge::{NcclProblem, NcclSurvey, nccl_problems};
use crate::ledger::Ledger;
use crate::nccl::{NcclLog, NcclReader};
use crate::record::Reader;
use crate::report::nccl::{json, text};

/// What is read at once: much less than a log, much more than a line.
const BUFFER: usize = 256 << 10;

/// Reads, joins, and reports; the exit code is that of the verdict.
pub(super) fn run(arguments: &NcclLogArgs) -> Result<u8, Failure> {
    let (log, problems) = reading(arguments)?;
    write(arguments, &log, &problems)?;
    Ok(log.verdict().exit_code())
}

/// The logs, and what is wrong by them and by the record.
fn reading(arguments: &NcclLogArgs) -> Result<(NcclLog, Vec<NcclProblem>), Failure> {
    let ledger = arguments.record.as_deref().map(surveyed).transpose()?;
    let survey = ledger.as_ref().map(NcclSurvey::of);
    let mut reader = NcclReader::default();
    for path in &arguments.files {
        one(&mut reader, path)?;
    }
    let log = reader.finish();
    if let Some(survey) = &survey {
        say_unknown(&log, survey);
    }
    let problems = nccl_problems(&log, survey.as_ref());
    Ok((log, problems))
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
        PlainFormat::Text => text(log, problems, style, output.writer()),
        PlainFormat::Json => json(log, problems, output.writer()),
    }
    .map_err(|error| Failure::work(format!("cannot write the reading: {error}")))?;
    output.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::ledger::testing::events;
    use crate::model::Event;
    use crate::model::testing::pcie::TwoSockets;
    use crate::record::Writer;

    fn read(words: &[&str]) -> Result<(NcclLog, Vec<NcclProblem>), Failure> {
        let words = ["linerate", "nccl-log"].iter().chain(words);
        match Cli::try_parse_from(words).unwrap().command {
            Command::NcclLog(arguments) => reading(&arguments),
            other => panic!("{other:?}"),
        }
    }

    const FAR: &str = "\
node01:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>
node01:1:2 [0] NCCL INFO Channel 00 : 5[c5000] -> 13[c5000] [send] via NET/IB/0
";

    #[test]
    fn logs_are_read_as_one_and_beside_a_record() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (first, second, record) = (at("1.log"), at("2.log"), at("run.jsonl"));
        fs::write(&first, FAR).unwrap();
        fs::write(&second, FAR.replace("IB/0", "IB/0/GDRDMA")).unwrap();
        let mut writer = Writer::create(record.as_ref()).unwrap();
        for mut event in events(2, 1, &|_, _, _| Some(391.0)) {
            if let Event::NodeSurveyed { facts, .. } = &mut event {
                **facts = TwoSockets::facts();
            }
            writer.append(&event).unwrap();
        }
        let (log, problems) = read(&[&first]).unwrap();
        assert_eq!((log.verdict().exit_code(), problems.len()), (1, 1));
        assert!(problems[0].says.ends_with("the log does not say why."));
        let (_, problems) = read(&["--record", &record, &first]).unwrap();
        assert!(
            problems[0].says.contains("its affine NIC is mlx5_4 (PIX)"),
            "{problems:?}"
        );
        let (log, _) = read(&[&first, &second]).unwrap();
        assert_eq!(log.extent.lines, 4);
        let wrong = |words: &[&str]| read(words).unwrap_err().to_string();
        assert!(wrong(&[&at("none")]).starts_with("cannot read"));
        assert!(wrong(&["--record", &at("none"), &first]).starts_with("cannot read"));
        assert!(wrong(&["--record", &first, &first]).contains("line 1"));
    }
}
