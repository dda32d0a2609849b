//! Runs of simulated clusters beside each other: chance makes no regression, and what was planted is told.

use std::collections::BTreeSet;

use super::adaptive_tests::{play, scenario, slow, sweep};
use crate::compare::{Comparison, Nodes, Outcome, Scope, Side, Trend, compare};
use crate::config::Scenario;
use crate::judge::{Judgement, judge};
use crate::ledger::Ledger;
use crate::ledger::testing::ledger;
use crate::model::{Direction, Pattern};

fn run(scenario: &Scenario, seed: u64) -> (Ledger, Judgement) {
    let ledger = ledger(&play(scenario, seed, sweep(Pattern::Adaptive)));
    let judgement = judge(&ledger);
    (ledger, judgement)
}

fn between(before: &(Ledger, Judgement), after: &(Ledger, Judgement)) -> Comparison {
    let side = |(ledger, judgement)| Side { ledger, judgement };
    compare(
        side((&before.0, &before.1)),
        side((&after.0, &after.1)),
        Nodes::All,
    )
    .unwrap()
}

/// What is worse or better, in words.
fn told(found: &Comparison, trend: Trend) -> BTreeSet<String> {
    let rates = found
        .rates
        .groups
        .iter()
        .filter(|group| group.trend() == trend);
    let rates = rates.map(|group| format!("{:?} {:.2}", group.scope, group.ratio()));
    let findings = found.findings.iter().filter(|found| found.trend() == trend);
    let findings =
        findings.map(|change| format!("{} {}", change.finding.rule, change.finding.subject));
    let facts = found.facts.iter().filter(|group| group.trend == trend);
    let facts = facts.map(|group| format!("{} {:?}", group.what, group.values));
    rates.chain(findings).chain(facts).collect()
}

#[test]
fn chance_makes_no_regression_among_a_thousand_nics() {
    let scenario = scenario(128, 8, "");
    let first = run(&scenario, 1);
    for seed in 2..=7 {
        let found = between(&first, &run(&scenario, seed));
        for trend in [Trend::Worse, Trend::Better] {
            assert_eq!(told(&found, trend), BTreeSet::new(), "seed {seed}");
        }
        assert_eq!(found.facts, [], "seed {seed}");
        assert_eq!(found.compared.ends, 2048, "seed {seed}: {:#?}", found.gaps);
        assert_eq!(
            found.outcome(),
            Outcome::NoRegression,
            "seed {seed}: {:#?}",
            found.gaps
        );
        let from = found.rates.spread.counts_from;
        assert!(
            (0.03..0.08).contains(&from),
            "seed {seed}: counts from {from}"
        );
    }
}

#[test]
fn one_half_nic_among_a_thousand_is_told_and_nothing_else() {
    let well = run(&scenario(128, 8, ""), 1);
    for seed in 2..=4 {
        let half = run(&scenario(128, 8, &slow(77, 3, "tx")), seed);
        let found = between(&well, &half);
        assert_eq!(
            found.regressions(),
            1,
            "seed {seed}: {:#?}",
            told(&found, Trend::Worse)
        );
        let group = &found.rates.groups[0];
        let Scope::End(end) = &group.scope else {
            panic!("{:?}", group.scope);
        };
        assert_eq!(
            (end.nic.to_string().as_str(), end.direction),
            ("mlx5_3 of node077", Direction::Tx)
        );
        assert!((group.ratio() - 0.5).abs() < 0.02, "{}", group.ratio());
        let back = between(&half, &well);
        assert_eq!(
            (back.regressions(), back.improvements()),
            (0, 1),
            "seed {seed}"
        );
    }
}

#[test]
fn a_narrow_slot_is_told_by_its_link_and_by_its_rate() {
    let well = run(&scenario(16, 4, ""), 1);
    let narrow = "[[narrow_pcie]]\nnode = \"node009\"\nrail = 0\nwidth = 8\n";
    let found = between(&well, &run(&scenario(16, 4, narrow), 2));
    let worse = told(&found, Trend::Worse);
    let link = "PCIe link Some([\"Gen5 x16\", \"Gen5 x8\"])";
    assert!(worse.contains(link), "{worse:#?}");
    assert_eq!(worse.len(), 2, "{worse:#?}");
}

#[test]
fn a_rail_that_slows_down_is_one_line() {
    let well = run(&scenario(16, 4, ""), 1);
    let rail = "[[slow_rail]]\nrail = 3\nratio = 0.9\n";
    let found = between(&well, &run(&scenario(16, 4, rail), 2));
    let worse = told(&found, Trend::Worse);
    assert_eq!(worse.len(), 1, "{worse:#?}");
    assert!(
        worse
            .iter()
            .all(|told| told.starts_with("Rail(Rail(3)) 0.9")),
        "{worse:#?}"
    );
}
