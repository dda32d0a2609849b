//! What may be typed.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

/// The exit codes, for every help text that has them.
macro_rules! exit_codes {
    () => {
        "\
Exit codes:
  0  everything that was measured runs at line rate
  1  faults were found
  2  bad usage or configuration
  3  could not judge: a node was not reached, or a pair not measured"
    };
}

const EXAMPLES: &str = concat!(
    "\
Examples:
  linerate report --config cluster.toml
  linerate report --config cluster.toml 'node[001-016]'
  linerate report --config cluster.toml --format text --format json=run.json
  linerate replay run.jsonl
  linerate config check cluster.toml
  linerate watch --config cluster.toml
  linerate demo
  linerate inspect
  linerate explain half-bandwidth

",
    exit_codes!()
);

const REPORT_EXAMPLES: &str = concat!(
    "\
Examples:
  linerate report --config cluster.toml
      Every node and rail of the cluster file; text on standard output.
  linerate report --config cluster.toml 'node[001-016]' node140
      Only these nodes of it. Quote host lists: brackets mean something to the shell.
  linerate report 'node[01-04]'
      No cluster file: these nodes, with the defaults of `linerate config show-default`.
  linerate report --config cluster.toml --format json -o run.json
  linerate report --config cluster.toml --format text --format json=run.json
      Text on standard output, and JSON in a file.
  linerate report --config cluster.toml --resume run.jsonl
      Goes on with a run that was cut off: what its record has is not measured again.

",
    exit_codes!()
);

const REPLAY_EXAMPLES: &str = concat!(
    "\
Examples:
  linerate replay ~/.local/state/linerate/runs/2026-11-30T10-15-00Z-4711.jsonl
  linerate replay run.jsonl --format json -o run.json

A record that ends in the middle of a line is read up to there. No node is asked.

",
    exit_codes!()
);

const DEMO_EXAMPLES: &str = concat!(
    "\
Examples:
  linerate demo
      16 nodes with 4 NICs each and a handful of faults. No packet is sent.
  linerate demo --nodes 64 --rails 8 --format json
  linerate demo --show-scenario > scenario.toml
  linerate demo --scenario scenario.toml

Every report of it says first that it is simulated, in JSON by \"simulated\": true.

",
    exit_codes!()
);

const WATCH_EXAMPLES: &str = "\
Examples:
  linerate watch
      This machine, a table that is drawn again every second.
  linerate watch --config cluster.toml 'node[001-016]'
  linerate watch --config cluster.toml --interval 5 --count 12 --format json

tx and rx are what the NIC's own counters show, everybody's traffic together. Errors, discards,
packets sent again, pauses, waits for credits and congestion notifications (sent/obeyed) are
counted since the reading before. `?` is not known; `3+` is at least 3.

Exit codes:
  0  stopped, or the readings asked for were made
  2  bad usage or configuration
  3  there was nothing to watch: no node was reached, or none has an RDMA device";

/// Finds the NIC in a GPU cluster that is not running at line rate, and says why.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(name = "linerate", version, after_help = EXAMPLES, arg_required_else_help = true)]
#[command(max_term_width = 100, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What linerate can do.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Measure every pair of NICs on every rail and report what is not at line rate
    Report(ReportArgs),
    /// Report a recorded run once more, without a node
    Replay(ReplayArgs),
    /// Show a report on a simulated cluster with planted faults; needs no cluster
    Demo(DemoArgs),
    /// Show what each NIC carries now, second by second, without traffic of its own
    Watch(WatchArgs),
    /// Show what linerate sees on this machine, without traffic, and what is wrong with it
    Inspect(InspectArgs),
    /// Say what a rule means, how it is detected, and what to do
    Explain(ExplainArgs),
    /// Check a cluster file, or show the defaults
    Config {
        /// What to do with it.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Answer a controller on standard input and output; started by linerate itself
    #[command(hide = true)]
    Agent,
}

/// `linerate report`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = REPORT_EXAMPLES)]
#[command(group = ArgGroup::new("where").args(["nodes", "config"]).required(true).multiple(true))]
pub struct ReportArgs {
    /// Only these nodes of the cluster file, as host lists such as 'node[001-128,140]'; without a
    /// cluster file, the nodes there are
    #[arg(value_name = "NODES")]
    pub nodes: Vec<String>,

    /// The cluster file: nodes, how to reach them, their rails, what is expected of them
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What is written, and where to.
    #[command(flatten)]
    pub reports: ReportsArgs,

    /// Record the run in this new file [default: a file in $XDG_STATE_HOME/linerate/runs]
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Go on with the run in this record, which was cut off or interrupted, and record on there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "seed"])]
    pub resume: Option<PathBuf>,

    /// Believe the host key of a node that no known_hosts file has, and add it (never a changed one)
    #[arg(long)]
    pub accept_new: bool,

    /// Probe NICs that a job uses, too; without it they are left out, and the report says why
    #[arg(long)]
    pub force: bool,

    /// The seed of the schedule, to repeat a run's [default: a new one, which the report states]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// `linerate replay`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayArgs {
    /// The record of a run, as `linerate report` keeps it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// What is written, and where to.
    #[command(flatten)]
    pub reports: ReportsArgs,
}

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

/// `linerate demo`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = DEMO_EXAMPLES)]
pub struct DemoArgs {
    /// Simulate so many nodes, 1 to 16384 [default: those of the scenario, 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16384))]
    pub nodes: Option<u16>,

    /// With so many NICs on each, 1 to 16 [default: those of the scenario, 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    pub rails: Option<u16>,

    /// What to simulate, and what is wrong with it [default: what --show-scenario prints]
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,

    /// Print the scenario that is simulated without --scenario, to start one from
    #[arg(long, exclusive = true)]
    pub show_scenario: bool,

    /// The seed of schedule and chance: the same seed, the same report
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// What is written, and where to.
    #[command(flatten)]
    pub reports: ReportsArgs,

    /// Record the run in this new file; it says that it is simulated
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

/// `linerate watch`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = WATCH_EXAMPLES)]
pub struct WatchArgs {
    /// Only these nodes of the cluster file, as host lists; without a cluster file, the nodes there
    /// are; without either, this machine
    #[arg(value_name = "NODES")]
    pub nodes: Vec<String>,

    /// The cluster file: nodes, and how to reach them
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The time from one reading to the next, from 0.1 to 60
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,

    /// End after so many readings [default: go on until Ctrl-C]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// What to write: text, or json with one document on a line for each reading
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    #[arg(hide_possible_values = true)]
    pub format: Format,

    /// Believe the host key of a node that no known_hosts file has, and add it (never a changed one)
    #[arg(long)]
    pub accept_new: bool,

    /// Watch the sys/ below this folder, not this machine's
    #[arg(long, value_name = "DIR", conflicts_with_all = ["nodes", "config"])]
    pub root: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .filter(|seconds| (0.1..=60.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "a number of seconds from 0.1 to 60 is wanted".to_owned())
}

/// `linerate inspect`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct InspectArgs {
    /// What to write: text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    #[arg(hide_possible_values = true)]
    pub format: Format,

    /// Look for sys/ and proc/ below this folder, such as a copy taken from another machine
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// Read what `nvidia-smi topo -m` printed on another machine from this file, or with - from
    /// standard input, and show which NICs are nearest to each GPU there
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub topo: Option<PathBuf>,

    /// Colour: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,
}

/// `linerate explain`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ExplainArgs {
    /// The rule, as reports name it; without one, all of them
    #[arg(value_name = "RULE")]
    pub rule: Option<String>,

    /// Colour: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,
}

/// `linerate config`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ConfigCommand {
    /// Check a cluster file: every problem with its line, exit code 2 where there is one
    Check {
        /// The cluster file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print every key with its default, as a cluster file to start from
    ShowDefault,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

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
        insta::assert_snapshot!("help_replay", help(&["replay"]));
        insta::assert_snapshot!("help_demo", help(&["demo"]));
        insta::assert_snapshot!("help_watch", help(&["watch"]));
        insta::assert_snapshot!("help_inspect", help(&["inspect"]));
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
        assert_eq!(args.nodes, ["n1", "n[2-3]"]);
        assert_eq!(
            (args.seed, args.accept_new, args.force),
            (Some(9), true, true)
        );
        let outputs = args.reports.outputs().unwrap();
        assert_eq!((outputs[0].format, outputs.len()), (Format::Json, 1));
        assert_eq!(outputs[0].file, Some("r.json".into()));
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
        assert_eq!((args.count, args.format), (Some(3), Format::Json));
        for refused in ["-i 0", "-i 61", "-i nan", "-n 0", "--root x n1"] {
            assert!(parse(refused).is_err(), "{refused}");
        }
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
            "replay",
            "config",
            "config check",
            "inspect n1",
            "reprot",
        ] {
            let words = std::iter::once("linerate").chain(line.split_whitespace());
            let error = Cli::try_parse_from(words).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}: {error}");
        }
    }
}
