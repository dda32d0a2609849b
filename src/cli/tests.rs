//! What is understood, what is refused, and what the help says.

use std::time::Duration;

use clap::CommandFactory;

use super::*;
use crate::model::Rail;

fn help(path: &[&str]) -> String {
    let mut command = Cli::command().term_width(100);
    command.build();
    let found = path
        .iter()
        .try_fold(&mut command, |at, name| at.find_subcommand_mut(name));
    found.unwrap().render_long_help().to_string()
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn help_says_what_there_is() {
    insta::assert_snapshot!("help", help(&[]));
    insta::assert_snapshot!("help_report", help(&["report"]));
    insta::assert_snapshot!("help_accept", help(&["accept"]));
    insta::assert_snapshot!("help_compare", help(&["compare"]));
    insta::assert_snapshot!("help_history", help(&["history"]));
    insta::assert_snapshot!("help_sweep", help(&["sweep"]));
    insta::assert_snapshot!("help_cost", help(&["cost"]));
    insta::assert_snapshot!("help_replay", help(&["replay"]));
    insta::assert_snapshot!("help_demo", help(&["demo"]));
    insta::assert_snapshot!("help_watch", help(&["watch"]));
    insta::assert_snapshot!("help_inspect", help(&["inspect"]));
    insta::assert_snapshot!("help_nccl_log", help(&["nccl-log"]));
    insta::assert_snapshot!("help_config", help(&["config"]));
    insta::assert_snapshot!("help_config_check", help(&["config", "check"]));
    insta::assert_snapshot!(
        "help_config_show_default",
        help(&["config", "show-default"])
    );
    insta::assert_snapshot!("help_agent", help(&["agent"]));
}

fn report(line: &str) -> ReportArgs {
    let words = ["linerate", "report"]
        .into_iter()
        .chain(line.split_whitespace());
    match Cli::try_parse_from(words).unwrap().command {
        Command::Report(args) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_report_takes_what_the_help_promises() {
    let args = report(
        "n1 n[2-3] --config c.toml -f json -o r.json --record e --accept-new --force --seed 9 --color never",
    );
    assert_eq!(args.cluster.nodes, ["n1", "n[2-3]"]);
    assert_eq!(
        (args.run.seed, args.run.accept_new, args.run.force),
        (Some(9), true, true)
    );
    let outputs = args.reports.outputs().unwrap();
    assert_eq!((outputs[0].format, outputs.len()), (Format::Json, 1));
    assert_eq!(outputs[0].file, Some("r.json".into()));
}

#[test]
fn a_sweep_is_asked_for_in_few_words() {
    let args = report(
        "n1 --full --one-way --fabric --max-load 50% --time-budget 10m --rails 3-5,0,4 --exclude n[7-8] --exclude n9",
    );
    let sweep = &args.sweep;
    assert!(sweep.full && sweep.one_way && sweep.fabric);
    assert_eq!(
        report("n1 --memory gpu-staged").sweep.memory,
        Some(MemoryArg::GpuStaged)
    );
    assert_eq!(sweep.max_load, Some(0.5));
    assert_eq!(sweep.time_budget, Some(Duration::from_secs(600)));
    let rails = args.pick.rails.unwrap().0;
    assert_eq!(rails, [0, 3, 4, 5].map(Rail));
    assert_eq!(args.pick.exclude, ["n[7-8]", "n9"]);
    let pairs = report("n1 --pairs a-1.x:b,c:d --pairs e:f").sweep.pairs;
    let pairs: Vec<String> = pairs.iter().map(|p| format!("{} {}", p.a, p.b)).collect();
    assert_eq!(pairs, ["a-1.x b", "c d", "e f"]);
    let sweep = report("n1 --pattern ring --matchings 3").sweep;
    assert_eq!(
        (sweep.pattern, sweep.matchings),
        (Some(PatternArg::Ring), Some(3))
    );
}

#[test]
fn a_sweep_that_cannot_be_is_refused_in_words() {
    let said: Vec<String> = [
        "--pattern foo",
        "--pattern ful",
        "--full --quick",
        "--one n2 --pairs n1:n2",
        "--matchings 17",
        "--matchings 2 --quick",
        "--pairs n1-n2",
        "--pairs n1:n2:n3",
        "--rails 1-",
        "--rails 5-3",
        "--rails 64",
        "--max-load 50",
        "--max-load 0%",
        "--max-load nan",
        "--time-budget 10",
        "--time-budget 8d",
        "--time-budget=-5m",
    ]
    .iter()
    .map(|line| {
        let words = ["linerate", "report", "n1"].into_iter();
        let error = Cli::try_parse_from(words.chain(line.split_whitespace())).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}: {error}");
        format!("{line}\n{error}")
    })
    .collect();
    insta::assert_snapshot!("refused", said.join("\n"));
}

#[test]
fn reports_go_where_it_is_clear_to_put_them() {
    let places = |line: &str| {
        let outputs = report(&format!("n1 {line}")).reports.outputs()?;
        let shown = outputs.iter().map(|output| {
            let file = output
                .file
                .as_ref()
                .map_or("-".into(), |f| f.display().to_string());
            format!("{:?}:{file}", output.format)
        });
        Ok::<_, String>(shown.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(places("").unwrap(), "Text:-");
    assert_eq!(places("-o x").unwrap(), "Text:x");
    assert_eq!(places("-o run.JSON").unwrap(), "Json:run.JSON");
    assert_eq!(places("-o x.jsonl").unwrap(), "Jsonl:x.jsonl");
    assert_eq!(places("-o x.md").unwrap(), "Markdown:x.md");
    assert_eq!(places("-o x.prom").unwrap(), "Openmetrics:x.prom");
    assert_eq!(places("-f junit -o x.xml").unwrap(), "Junit:x.xml");
    assert_eq!(
        places("-f md -f prometheus=m").unwrap(),
        "Markdown:- Openmetrics:m"
    );
    assert!(places("-o x.csv").unwrap_err().contains("csv-pairs or"));
    assert!(places("-o x.xml").unwrap_err().contains("--format junit"));
    assert_eq!(places("-f text -o run.json").unwrap(), "Text:run.json");
    assert_eq!(places("-f text -f json=x").unwrap(), "Text:- Json:x");
    assert_eq!(places("-f text -f json=x -o y").unwrap(), "Text:y Json:x");
    for refused in [
        "-f text -f json",
        "-f text -f json -o x",
        "-f json=x -o y",
        "-f json=x -o x",
        "-f text -f json=x -o x",
    ] {
        assert!(places(refused).is_err(), "{refused}");
    }
}

#[test]
fn a_watch_takes_what_the_help_promises() {
    let parse = |line: &str| {
        let words = ["linerate", "watch"].into_iter();
        Cli::try_parse_from(words.chain(line.split_whitespace()))
    };
    let Ok(Command::Watch(args)) = parse("n[1-2] -i 0.5 -n 3 -f json").map(|cli| cli.command)
    else {
        panic!("not a watch");
    };
    assert_eq!(args.interval, Duration::from_millis(500));
    assert_eq!((args.count, args.format), (Some(3), PlainFormat::Json));
    for refused in ["-i 0", "-i 61", "-i nan", "-n 0", "--root x n1"] {
        assert!(parse(refused).is_err(), "{refused}");
    }
}

#[test]
fn the_cost_is_asked_for_by_steps() {
    let parse = |line: &str| {
        let words = ["linerate", "cost"].into_iter();
        let parsed = Cli::try_parse_from(words.chain(line.split_whitespace()));
        parsed.map(|cli| match cli.command {
            Command::Cost(args) => args,
            other => panic!("{other:?}"),
        })
    };
    let names = |line: &str| {
        let steps = parse(line).map(|args| args.steps());
        steps.map(|steps| {
            steps
                .iter()
                .map(|step| step.name())
                .collect::<Vec<_>>()
                .join(" ")
        })
    };
    assert_eq!(names("n1").unwrap(), "");
    assert_eq!(
        names("n1 --only write,tcp --only latency,write").unwrap(),
        "tcp write latency-tcp latency-write latency-send"
    );
    assert!(parse("--scenario s.toml --rails 0").is_ok());
    for refused in [
        "",
        "n1 --only tpc",
        "n1 --scenario s.toml",
        "--scenario s.toml --resume r",
        "n1 --record a --resume b",
    ] {
        assert_eq!(parse(refused).unwrap_err().exit_code(), 2, "{refused}");
    }
}

#[test]
fn a_profile_is_held_against_whatever_run_is_meant() {
    let parse = |line: &str| {
        let words = ["linerate", "accept"]
            .into_iter()
            .chain(line.split_whitespace());
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Accept(arguments)) => arguments,
            other => panic!("{line}: {other:?}"),
        }
    };
    assert!(parse("p.toml --list").list);
    assert_eq!(
        parse("p.toml --from r.jsonl --since s.jsonl").from,
        Some("r.jsonl".into())
    );
    let live = parse("p.toml --config c.toml n1 n2 --quick --rails 0 --record r --force");
    let asked = live.report();
    let (whose, run) = (asked.cluster, asked.run);
    assert_eq!(
        (whose.nodes.len(), whose.config),
        (2, Some("c.toml".into()))
    );
    assert!(asked.sweep.quick && run.force && asked.pick.rails.is_some() && run.record.is_some());
    assert!(parse("new.toml --init --from r --despite-faults").despite_faults);
}

#[test]
fn bad_usage_ends_with_2() {
    for line in [
        "",
        "report",
        "report --format xml n1",
        "report --format json= n1",
        "report --resume r --record s n1",
        "report --resume r --seed 1 n1",
        "report --resume r",
        "accept",
        "accept p",
        "accept p --from r --config c",
        "accept p --from r --rails 0",
        "accept p --from r --quick",
        "accept p --list --nagios",
        "accept p --list --init",
        "accept p --from r --despite-faults",
        "replay",
        "config",
        "config check",
        "inspect n1",
        "nccl-log",
        "nccl-log --format xml x",
        "reprot",
    ] {
        let words = std::iter::once("linerate").chain(line.split_whitespace());
        let error = Cli::try_parse_from(words).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}: {error}");
    }
}
