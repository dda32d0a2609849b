//! `linerate cost`: measures nothing but what moving data costs, then the report and the exit code.

use std::path::Path;

use super::failure::Failure;
use super::reports::{Ran, Reports};
use super::{config, demo, report, retention, sweep};
use crate::cli::CostArgs;
use crate::config::Cluster;
use crate::ledger::Ledger;
use crate::model::{CostSettings, Pattern, RunSettings};

/// Runs, reports, and returns whether everything was measured as an exit code.
pub(super) fn run(arguments: &CostArgs) -> Result<u8, Failure> {
    if let Some(scenario) = &arguments.scenario {
        return simulate(arguments, scenario);
    }
    let run = &arguments.run;
    let cluster = report::cluster(&arguments.cluster, &arguments.pick, run.accept_new)?;
    if let Some(path) = &run.resume {
        let settings = |seed| settings(arguments, &cluster, seed);
        return report::go_on(path, &cluster, &arguments.reports, "cost", &settings);
    }
    let seed = run.seed.unwrap_or_else(rand::random);
    let settings = settings(arguments, &cluster, seed)?;
    let reports = Reports::open_of_cost(&arguments.reports, run.record.as_deref())?;
    let mut record = report::new_record(run.record.as_deref())?;
    let ledger = report::conduct(&cluster, settings, Ledger::default(), &mut record)?;
    let code = reports.write(&Ran::recorded(&ledger, record.path()))?;
    report::say_where(&ledger, record.path(), "cost");
    retention::after_run(cluster.record, record.path());
    Ok(code)
}

fn settings(arguments: &CostArgs, cluster: &Cluster, seed: u64) -> Result<RunSettings, Failure> {
    let mut settings = cluster.settings(seed);
    settings.force = arguments.run.force;
    sweep::pick_rails(&mut settings, arguments.pick.rails.as_ref())?;
    only_cost(&mut settings, arguments, cluster.cost.clone());
    Ok(settings)
}

/// No rate of any pair is asked for.
fn only_cost(settings: &mut RunSettings, arguments: &CostArgs, cost: CostSettings) {
    settings.sweep.pattern = Pattern::Nothing;
    settings.nccl = None;
    settings.cost = Some(CostSettings {
        only: arguments.steps(),
        ..cost
    });
}

fn simulate(arguments: &CostArgs, scenario: &Path) -> Result<u8, Failure> {
    let scenario = demo::scenario(Some(scenario))?;
    let run = &arguments.run;
    let seed = run.seed.unwrap_or(1);
    let unusable = |errors| config::unusable("scenario", &errors);
    let mut settings = scenario.settings(seed).map_err(unusable)?;
    sweep::pick_rails(&mut settings, arguments.pick.rails.as_ref())?;
    only_cost(&mut settings, arguments, scenario.cost().map_err(unusable)?);
    let reports = Reports::open_of_cost(&arguments.reports, run.record.as_deref())?;
    let mut record = demo::record(run.record.as_deref(), &reports)?;
    let ledger = demo::conduct(&scenario, settings, record.writer.as_mut())?;
    let again = format!("--seed {seed} makes it again");
    reports.write(&record.ran(&ledger, again))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicBool;

    use clap::Parser;
    use serde_json::Value;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::cluster::{Conductor, Limits};
    use crate::config::read_scenario;
    use crate::judge::judge;
    use crate::model::Event;
    use crate::report::{Style, cost_json, cost_text, text};
    use crate::simulated::SimulatedFleet;

    fn arguments(more: &[&str]) -> CostArgs {
        let words = ["linerate", "cost", "--scenario", "x"].iter().chain(more);
        match Cli::try_parse_from(words).unwrap().command {
            Command::Cost(arguments) => arguments,
            other => panic!("{other:?}"),
        }
    }

    /// A run over a simulated cluster that is well; `change` its settings before.
    fn simulated(nodes: u16, more: &[&str], change: &dyn Fn(&mut RunSettings)) -> Ledger {
        let scenario = read_scenario("", "test").unwrap();
        let (mut scenario, _) = scenario.resized(Some(nodes), Some(1));
        scenario.faults.clear();
        let mut settings = scenario.settings(1).unwrap();
        only_cost(&mut settings, &arguments(more), scenario.cost().unwrap());
        change(&mut settings);
        let fleet = SimulatedFleet::new(&scenario, &settings.nodes, 1);
        let stop = AtomicBool::new(false);
        let mut emit = |_: Event| Ok::<(), Infallible>(());
        Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit)
            .run()
            .unwrap()
    }

    const STYLE: Style = Style {
        color: false,
        width: 100,
    };

    fn shown(ledger: &Ledger) -> String {
        let mut out = Vec::new();
        cost_text(ledger, &judge(ledger), STYLE, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_simulated_pair_tells_what_rdma_saves() {
        let ledger = simulated(2, &[], &|_| {});
        insta::assert_snapshot!("two_nodes", shown(&ledger));
        let mut out = Vec::new();
        cost_json(&ledger, &judge(&ledger), &mut out).unwrap();
        let json: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["exit_code"], 0);
        assert_eq!(json["simulated"], true);
        let pair = &json["cost"]["pairs"][0];
        assert_eq!(pair["steps"].as_array().unwrap().len(), 10);
        insta::assert_json_snapshot!("two_nodes_savings", pair["savings"]);
        insta::assert_json_snapshot!("two_nodes_step", pair["steps"][0]);
    }

    #[test]
    fn many_to_one_is_told_with_what_holds_senders_back() {
        let ledger = simulated(5, &["--only", "incast"], &|_| {});
        insta::assert_snapshot!("five_nodes_incast", shown(&ledger));
        let mut out = Vec::new();
        cost_json(&ledger, &judge(&ledger), &mut out).unwrap();
        let json: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["exit_code"], 0);
        let bursts = json["cost"]["incasts"].as_array().unwrap();
        assert_eq!(bursts.len(), 2);
        insta::assert_json_snapshot!("five_nodes_incast_json", bursts[0]);
    }

    #[test]
    fn of_eight_nodes_the_median_and_the_worst_are_told() {
        let only = ["--only", "tcp,tcp-zerocopy,write,write-copied"];
        insta::assert_snapshot!("eight_nodes", shown(&simulated(8, &only, &|_| {})));
    }

    #[test]
    fn a_report_tells_the_cost_after_the_rates() {
        let ledger = simulated(2, &["--only", "tcp,write"], &|settings| {
            settings.sweep.pattern = Pattern::Full;
        });
        let mut out = Vec::new();
        text(&ledger, &judge(&ledger), STYLE, &mut out).unwrap();
        let said = String::from_utf8(out).unwrap();
        assert!(said.contains("ALL AT LINE RATE"), "{said}");
        let rates = said.find("row sends, column receives").unwrap();
        assert!(
            rates < said.find("What moving data costs from").unwrap(),
            "{said}"
        );
    }
}
