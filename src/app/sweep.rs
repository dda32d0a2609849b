//! What the command line asks of a sweep, over what the cluster file asks of it.

use super::failure::Failure;
use crate::cli::{PatternArg, RailsArg, SweepArgs};
use crate::config::{Cluster, check_pattern, hostlist};
use crate::model::{Pattern, RunSettings};
use crate::plan::leaves;

/// Puts what was typed into the settings of a run; what was not typed stays.
pub(super) fn settle(settings: &mut RunSettings, asked: &SweepArgs) -> Result<(), Failure> {
    if let Some(memory) = asked.memory {
        settings.probe.memory = memory.kind();
    }
    let sweep = &mut settings.sweep;
    if let Some(pattern) = pattern(asked) {
        sweep.pattern = pattern;
    }
    if let Some(matchings) = asked.matchings {
        if sweep.pattern != Pattern::Adaptive {
            return Err(Failure::usage(
                "--matchings is for the adaptive pattern: ask for --pattern adaptive",
            ));
        }
        sweep.matchings = matchings;
    }
    sweep.both_ways &= !asked.one_way;
    sweep.fabric |= asked.fabric;
    if let Some(share) = asked.max_load {
        sweep.max_load = share;
    }
    if let Some(budget) = asked.time_budget {
        let begun = u64::from(budget.subsec_nanos() > 0);
        sweep.time_budget_s = Some(budget.as_secs() + begun);
    }
    check_groups(settings)?;
    let flag = match settings.sweep.pattern {
        Pattern::One { .. } => "--one",
        _ => "--pairs",
    };
    check_pattern(&settings.sweep.pattern, &settings.nodes)
        .map_err(|error| Failure::usage(format!("{flag}: {error}")))
}

/// The paths between leaf groups can be measured where there are such.
fn check_groups(settings: &RunSettings) -> Result<(), Failure> {
    let sweep = &settings.sweep;
    let some = matches!(sweep.pattern, Pattern::One { .. } | Pattern::Pairs { .. });
    let found = leaves(&settings.nodes, &sweep.groups);
    let known = found.groups.len() - usize::from(!found.ungrouped.is_empty());
    if !sweep.fabric || some || (known > 1 && !sweep.groups.is_empty()) {
        return Ok(());
    }
    let how = match settings.simulated {
        true => "`leaf_size` in the scenario says how many nodes are below one leaf switch",
        false => {
            "tell which nodes are below one leaf switch under [sweep] of the cluster file, by `topology_conf` \
             (Slurm's file), `ibnetdiscover` (what it printed) or host lists under [sweep.groups]"
        }
    };
    Err(Failure::usage(format!(
        "--fabric measures between leaf groups, and no two of them are known among the nodes of this run: {how}"
    )))
}

/// The pattern that was typed, in whichever form; the command line takes one of them.
fn pattern(asked: &SweepArgs) -> Option<Pattern> {
    if let Some(node) = &asked.one {
        let node = node.as_str().into();
        return Some(Pattern::One { node });
    }
    if !asked.pairs.is_empty() {
        let pairs = asked.pairs.iter();
        let pairs = pairs.map(|pair| (pair.a.as_str().into(), pair.b.as_str().into()));
        let pairs = pairs.collect();
        return Some(Pattern::Pairs { pairs });
    }
    let word = match (asked.quick, asked.full) {
        (true, _) => Some(PatternArg::Quick),
        (_, true) => Some(PatternArg::Full),
        _ => asked.pattern,
    };
    word.map(|word| match word {
        PatternArg::Adaptive => Pattern::Adaptive,
        PatternArg::Quick => Pattern::Quick,
        PatternArg::Full => Pattern::Full,
        PatternArg::Ring => Pattern::Ring,
    })
}

/// Leaves only these rails to a run. Whether it has them can be told where the rule counts rails.
pub(super) fn pick_rails(
    settings: &mut RunSettings,
    rails: Option<&RailsArg>,
) -> Result<(), Failure> {
    let Some(RailsArg(rails)) = rails else {
        return Ok(());
    };
    if let (Some(count), Some(last)) = (settings.rails.rails(), rails.last())
        && usize::from(last.0) >= count
    {
        let has = match count {
            1 => "only rail 0".to_owned(),
            count => format!("rails 0 to {}", count - 1),
        };
        return Err(Failure::usage(format!(
            "--rails: there is no {last}: the run has {has}"
        )));
    }
    settings.sweep.only_rails = rails.clone();
    Ok(())
}

/// A note for the operator on nodes of a cluster that no leaf group names, where there are groups.
pub(super) fn ungrouped(cluster: &Cluster) -> Option<String> {
    if !cluster.has_groups() {
        return None;
    }
    let settings = cluster.settings(0);
    let groups = &settings.sweep.groups;
    let place = cluster.groups_file.as_ref().map_or_else(
        || "[sweep.groups]".to_owned(),
        |file| file.path().display().to_string(),
    );
    if groups.is_empty() {
        return Some(format!(
            "note: none of the nodes is in a leaf group of {place}: they are taken for one group"
        ));
    }
    let left = leaves(&settings.nodes, groups).ungrouped;
    let names: Vec<&str> = left.iter().map(|node| node.0.as_str()).collect();
    let (are, group) = match names.len() {
        0 => return None,
        1 => ("is", "a group of its own"),
        _ => ("are", "a group of their own"),
    };
    Some(format!(
        "note: {} {are} in no leaf group of {place}, and taken for {group}",
        hostlist::fold(&names)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::PairArg;
    use crate::config::{Operator, read};
    use crate::model::Rail;
    use std::time::Duration;

    fn cluster(text: &str) -> Cluster {
        let operator = Operator {
            user: Some("ada".into()),
            home: Some("/home/ada".into()),
        };
        let text = format!("nodes = [\"node[01-04]\"]\n{text}");
        read(&text, "cluster.toml", &operator).unwrap()
    }

    const GROUPS: &str = "[sweep.groups]\na = [\"node[01-02]\"]\nb = [\"node[03-04]\"]";

    fn settled(text: &str, asked: &SweepArgs) -> Result<RunSettings, String> {
        let mut settings = cluster(text).settings(1);
        let done = settle(&mut settings, asked);
        done.map_err(|failure| failure.to_string())?;
        Ok(settings)
    }

    #[test]
    fn what_is_not_typed_stays() {
        let file = "[sweep]\npattern = \"ring\"\ndirections = \"one\"\nmax_load = 0.25";
        let asked = SweepArgs::default();
        let settings = settled(file, &asked).unwrap();
        assert_eq!(settings, cluster(file).settings(1));
        assert_eq!(settings.sweep.pattern, Pattern::Ring);
        assert!(!settings.sweep.both_ways);
    }

    #[test]
    fn what_is_typed_counts() {
        let asked = SweepArgs {
            full: true,
            one_way: true,
            fabric: true,
            max_load: Some(0.5),
            time_budget: Some(Duration::from_millis(90_500)),
            ..SweepArgs::default()
        };
        let sweep = settled(GROUPS, &asked).unwrap().sweep;
        assert_eq!(sweep.pattern, Pattern::Full);
        assert!(!sweep.both_ways && sweep.fabric);
        assert_eq!((sweep.max_load, sweep.time_budget_s), (0.5, Some(91)));
        let [a, b] = ["node01", "node03"].map(String::from);
        let asked = SweepArgs {
            pairs: vec![PairArg { a, b }],
            ..SweepArgs::default()
        };
        let pairs = vec![("node01".into(), "node03".into())];
        let pattern = settled("", &asked).unwrap().sweep.pattern;
        assert_eq!(pattern, Pattern::Pairs { pairs });
    }

    #[test]
    fn what_cannot_be_is_bad_usage() {
        let one = |node: &str| SweepArgs {
            one: Some(node.to_owned()),
            ..SweepArgs::default()
        };
        assert_eq!(
            settled("", &one("node4")).unwrap_err(),
            "--one: `node4` is not among the nodes of the run: did you mean `node04`?"
        );
        assert!(settled("", &one("node04")).is_ok());
        let asked = SweepArgs {
            matchings: Some(3),
            ..SweepArgs::default()
        };
        assert_eq!(settled("", &asked).unwrap().sweep.matchings, 3);
        let ring = "[sweep]\npattern = \"ring\"";
        assert!(settled(ring, &asked).unwrap_err().contains("--matchings"));
    }

    #[test]
    fn paths_between_leaf_groups_need_leaf_groups() {
        let asked = SweepArgs {
            fabric: true,
            ..SweepArgs::default()
        };
        for file in [
            "",
            "[sweep.groups]\na = [\"node[01-02]\"]",
            "[sweep.groups]\na = [\"node[01-04]\"]\nb = [\"x1\"]",
        ] {
            let why = settled(file, &asked).unwrap_err();
            for way in ["topology_conf", "ibnetdiscover", "[sweep.groups]"] {
                assert!(why.contains(way), "{file}: {why}");
            }
        }
        assert!(settled(GROUPS, &asked).is_ok());
        let file = format!("sweep.fabric = true\n{GROUPS}");
        assert!(settled(&file, &SweepArgs::default()).unwrap().sweep.fabric);
    }

    #[test]
    fn rails_are_those_of_the_run() {
        let picked = |text: &str, rails: &[u16]| {
            let mut settings = cluster(text).settings(1);
            let rails = RailsArg(rails.iter().copied().map(Rail).collect());
            let done = pick_rails(&mut settings, Some(&rails));
            done.map_err(|failure| failure.to_string())?;
            Ok::<_, String>(settings.sweep.only_rails)
        };
        let two = "[rails]\nby = \"device\"\nnames = [\"mlx5_0\", \"mlx5_1\"]";
        assert_eq!(picked(two, &[1]).unwrap(), [Rail(1)]);
        assert_eq!(
            picked(two, &[0, 2]).unwrap_err(),
            "--rails: there is no rail 2: the run has rails 0 to 1"
        );
        // By PCI address the number of rails is not known before the survey.
        assert_eq!(picked("", &[7]).unwrap(), [Rail(7)]);
    }

    #[test]
    fn nodes_of_no_group_are_told() {
        let note = |text: &str| ungrouped(&cluster(text)).unwrap_or_default();
        assert_eq!(note(""), "");
        assert_eq!(note("[sweep.groups]\na = [\"node[01-04]\"]"), "");
        assert_eq!(
            note("[sweep.groups]\na = [\"node[01-02]\"]"),
            "note: node[03-04] are in no leaf group of [sweep.groups], and taken for a group of their own"
        );
        assert_eq!(
            note("[sweep.groups]\na = [\"x1\"]"),
            "note: none of the nodes is in a leaf group of [sweep.groups]: they are taken for one group"
        );
    }
}
