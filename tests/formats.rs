//! Every form of report through the built binary, read by what reads it: xmllint with a schema, promtool,
//! a JSON Schema. And full disks, broken pipes, names that mean something elsewhere.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up must fail where it stands"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_linerate");

/// Every form, and the end of its files.
const FORMATS: [(&str, &str); 9] = [
    ("text", "txt"),
    ("markdown", "md"),
    ("json", "json"),
    ("jsonl", "jsonl"),
    ("csv-pairs", "pairs.csv"),
    ("csv-nodes", "nodes.csv"),
    ("junit", "xml"),
    ("tap", "tap"),
    ("openmetrics", "prom"),
];

/// A node whose name is HTML, a terminal escape and markup, and one that is a formula of two lines.
const HOSTILE: [(&str, &str); 2] = [
    ("node001", r"<b>node\u001b[31m|`x</b>"),
    ("node002", r#"=cmd()\"'\n@all # TODO"#),
];

fn linerate(arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(arguments).env("NO_COLOR", "1");
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A record of a simulated run of four nodes with half a NIC, a lost node and hostile names.
fn hostile(folder: &Path) -> PathBuf {
    let scenario = folder.join("scenario.toml");
    let text = "nodes = 5\nrails = 2\n\n[[slow_nic]]\nnode = \"node003\"\nrail = 1\ndirection = \"tx\"\n\
                ratio = 0.5\n\n[[lost_node]]\nnode = \"node004\"\n";
    std::fs::write(&scenario, text).unwrap();
    let record = folder.join("plain.jsonl");
    let [scenario, plain] = [&scenario, &record].map(|path| path.to_str().unwrap());
    let made = linerate(&["demo", "--scenario", scenario, "--record", plain]);
    assert_eq!(made.status.code(), Some(1), "{}", said(&made));
    let mut text = std::fs::read_to_string(&record).unwrap();
    for (name, hostile) in HOSTILE {
        text = text.replace(name, hostile);
    }
    let path = folder.join("hostile.jsonl");
    std::fs::write(&path, text).unwrap();
    path
}

/// Writes every form of a record into a folder; the texts, in the order of the forms.
fn all_of(record: &Path, folder: &Path) -> Vec<String> {
    let path = |end: &str| folder.join(format!("report.{end}"));
    let mut arguments = vec!["replay".to_owned(), record.display().to_string()];
    for (format, end) in FORMATS {
        arguments.push("-f".into());
        arguments.push(format!("{format}={}", path(end).display()));
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = linerate(&arguments);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(output.stdout.is_empty());
    let read = |(_, end): &(&str, &str)| std::fs::read_to_string(path(end)).unwrap();
    FORMATS.iter().map(read).collect()
}

/// Whether a tool is there; `LINERATE_LAB=require` makes it a failure that it is not.
fn has(tool: &str, package: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        let required = std::env::var("LINERATE_LAB").is_ok_and(|word| word == "require");
        assert!(!required, "{tool} is missing (package {package})");
        eprintln!("SKIPPED: {tool} is missing (package {package})");
    }
    found
}

/// What a tool says of a text on its standard input, and whether it likes it.
fn checked(command: &mut Command, text: &str) -> (bool, String) {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let mut told = String::from_utf8_lossy(&output.stdout).into_owned();
    told.push_str(&said(&output));
    (output.status.success(), told)
}

#[test]
fn every_form_is_written_at_once_and_none_is_steered_by_names() {
    let folder = tempfile::tempdir().unwrap();
    let record = hostile(folder.path());
    let texts = all_of(&record, folder.path());
    for ((format, _), text) in FORMATS.iter().zip(&texts) {
        assert!(!text.is_empty() && text.ends_with('\n'), "{format}");
        let steers = |c: char| c.is_control() && c != '\n';
        assert_eq!(text.find(steers), None, "{format}: {text}");
        // HTML is none in what is shown as HTML.
        let shows_html = ["markdown", "junit"].contains(format);
        assert!(!shows_html || !text.contains("<b>"), "{format}: {text}");
    }
    let jsonl = &texts[3];
    assert_eq!(jsonl, &std::fs::read_to_string(&record).unwrap());
    for line in jsonl.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    for csv in &texts[4..6] {
        let mut table = csv::Reader::from_reader(csv.as_bytes());
        let rows: Vec<csv::StringRecord> = table.records().collect::<Result<_, _>>().unwrap();
        assert!(rows.len() > 4);
        let fields = || rows.iter().flatten();
        let formula = |field: &str| field.starts_with(['=', '+', '-', '@']);
        assert!(!fields().any(formula), "{csv}");
        assert!(fields().any(|field| field.starts_with("'=cmd()")), "{csv}");
    }
}

#[test]
fn junit_is_valid_by_the_schema_and_counts_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let xml = all_of(&hostile(folder.path()), folder.path()).swap_remove(6);
    let document = roxmltree::Document::parse(&xml).unwrap();
    let root = document.root_element();
    let count = |tag: &str| {
        document
            .descendants()
            .filter(|n| n.has_tag_name(tag))
            .count()
    };
    for (attribute, tag) in [
        ("tests", "testcase"),
        ("failures", "failure"),
        ("errors", "error"),
    ] {
        assert_eq!(
            root.attribute(attribute),
            Some(count(tag).to_string().as_str()),
            "{tag}"
        );
        assert!(count(tag) > 0, "{tag}");
    }
    let suites: Vec<_> = document
        .descendants()
        .filter(|n| n.has_tag_name("testsuite"))
        .collect();
    // The cluster and five nodes.
    assert_eq!(suites.len(), 6, "{xml}");
    for suite in suites {
        let cases = suite.children().filter(|n| n.has_tag_name("testcase"));
        let names: Vec<_> = cases.map(|case| case.attribute("name").unwrap()).collect();
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len(), "{names:?}");
    }
    if has("xmllint", "libxml2-utils") {
        let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/junit.xsd");
        let mut xmllint = Command::new("xmllint");
        xmllint.arg("--noout").arg("--schema").arg(schema).arg("-");
        let (good, told) = checked(&mut xmllint, &xml);
        assert!(good, "{told}\n{xml}");
    }
}

#[test]
fn metrics_are_liked_by_promtool_and_by_openmetrics() {
    let folder = tempfile::tempdir().unwrap();
    let text = all_of(&hostile(folder.path()), folder.path()).swap_remove(8);
    assert!(
        text.contains("linerate_nic_bandwidth_bytes_per_second{"),
        "{text}"
    );
    if !has("promtool", "prometheus") {
        return;
    }
    let (good, told) = checked(Command::new("promtool").args(["check", "metrics"]), &text);
    assert!(good && told.is_empty(), "{told}\n{text}");
    // Its reader of OpenMetrics wants to know when each sample was.
    let stamped: Vec<String> = text
        .lines()
        .map(|line| match line.starts_with('#') {
            true => line.to_owned(),
            false => format!("{line} 1796033700"),
        })
        .collect();
    let file = folder.path().join("stamped.om");
    std::fs::write(&file, stamped.join("\n") + "\n").unwrap();
    let mut promtool = Command::new("promtool");
    promtool.args(["tsdb", "create-blocks-from", "openmetrics"]);
    promtool.arg(&file).arg(folder.path().join("blocks"));
    let (good, told) = checked(&mut promtool, "");
    assert!(good, "{told}");
}

#[test]
fn json_is_what_its_schema_says() {
    let schema = include_str!("../assets/schema/report.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let hostile = all_of(&hostile(folder.path()), folder.path()).swap_remove(2);
    let record = folder.path().join("hostile.jsonl");
    let whole = std::fs::read_to_string(&record).unwrap();
    // Cut off in the middle of its rounds.
    let cut = folder.path().join("cut.jsonl");
    std::fs::write(&cut, &whole.as_bytes()[..whole.len() * 9 / 10]).unwrap();
    let cut = cut.to_str().unwrap();
    let mut documents = vec![hostile];
    for arguments in [
        &["demo", "--nodes", "3", "--rails", "1", "-f", "json"][..],
        &["demo", "-f", "json"],
        &["demo", "--pattern", "full", "-f", "json"],
        &[
            "demo", "--nodes", "2", "--rails", "1", "--cost", "-f", "json",
        ],
        &["replay", cut, "-f", "json"],
    ] {
        documents.push(String::from_utf8(linerate(arguments).stdout).unwrap());
    }
    for document in documents {
        let report: Value = serde_json::from_str(&document).unwrap();
        let wrong: Vec<String> = validator
            .iter_errors(&report)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        // What is written is in the schema by name: it allows more, for what comes later.
        for name in report.as_object().unwrap().keys() {
            assert!(schema["properties"].get(name).is_some(), "{name}");
        }
        // It can fail: no rate is a word.
        let text = document.replacen("\"gbps\": ", "\"gbps\": \"fast\", \"was\": ", 1);
        let broken: Value = serde_json::from_str(&text).unwrap();
        assert!(!validator.is_valid(&broken));
    }
}

#[test]
fn a_full_disk_leaves_no_part_of_a_file_and_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let record = hostile(folder.path());
    let record = record.to_str().unwrap();
    for (format, end) in FORMATS {
        // The disk behind standard output.
        let script = "exec \"$0\" \"$@\" > /dev/full";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, BINARY, "replay", record, "-f", format]);
        let full = shell.output().unwrap();
        assert_eq!(full.status.code(), Some(3), "{format}: {}", said(&full));
        assert!(
            said(&full).contains("No space left"),
            "{format}: {}",
            said(&full)
        );
        // A file that may not grow beyond 512 bytes stands for a disk of that size.
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(format!("report.{end}"));
        std::fs::write(&file, "the report before\n").unwrap();
        let wanted = format!("{format}={}", file.display());
        let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, BINARY, "replay", record, "-f", &wanted]);
        let small = shell.output().unwrap();
        assert_eq!(small.status.code(), Some(3), "{format}: {}", said(&small));
        assert!(
            said(&small).contains("linerate: cannot write"),
            "{}",
            said(&small)
        );
        let kept = std::fs::read_to_string(&file).unwrap();
        assert_eq!(kept, "the report before\n", "{format}");
        assert_eq!(
            std::fs::read_dir(place.path()).unwrap().count(),
            1,
            "{format}"
        );
    }
}

#[test]
fn a_broken_pipe_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let record = hostile(folder.path());
    for (format, _) in FORMATS {
        let mut command = Command::new(BINARY);
        command.arg("replay").arg(&record).args(["-f", format]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{format}: {}", said(&output));
        assert!(
            said(&output).contains("Broken pipe"),
            "{format}: {}",
            said(&output)
        );
    }
}

#[test]
fn what_is_no_file_is_written_to_and_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    let wanted = format!("tap={}", pipe.display());
    let output = linerate(&["demo", "--nodes", "3", "--rails", "1", "-f", &wanted]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(reader.join().unwrap().starts_with("TAP version 14\n"));
    use std::os::unix::fs::FileTypeExt;
    assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo());
    // A link stays one, and what it leads to is replaced.
    let [target, link] = ["run-1.md", "latest.md"].map(|name| folder.path().join(name));
    std::fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let output = linerate(&["demo", "--nodes", "3", "-o", link.to_str().unwrap()]);
    assert!(output.stdout.is_empty());
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(
        std::fs::read_to_string(&target)
            .unwrap()
            .starts_with("## linerate")
    );
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_runs() {
    let refused = |arguments: &[&str], words: &str| {
        let output = linerate(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        assert!(
            said(&output).contains(words),
            "{arguments:?}: {}",
            said(&output)
        );
    };
    let names = "ask for text, markdown, json, jsonl, html, csv-pairs, csv-nodes, junit, tap";
    refused(&["demo", "-f", "yaml"], names);
    refused(
        &["demo", "-o", "/nonexistent/report.csv"],
        "--format csv-pairs or --format csv-nodes",
    );
    refused(&["demo", "-o", "/nonexistent/report.xml"], "--format junit");
    refused(&["demo", "-o", "/"], "cannot write /: it is a folder");
    refused(&["inspect", "-f", "junit"], "[possible values: text, json]");
    let cost = ["cost", "n[1-2]", "-f", "junit"];
    refused(&cost, "is not written as junit: ask for text, json");
}
