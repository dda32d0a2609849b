//! What an acceptance profile may say, and what is said about one that is wrong.

use proptest::prelude::*;

use super::*;
use crate::model::{CostStep, Weight};

fn good(text: &str) -> Profile {
    read_profile(text, "profile.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn bad(text: &str) -> ConfigErrors {
    match read_profile(text, "profile.toml") {
        Ok(profile) => panic!("this was accepted: {profile:?}"),
        Err(errors) => errors,
    }
}

/// A profile with this check alone.
fn check(text: &str) -> String {
    format!("profile = \"test\"\n[check.it]\n{text}\n")
}

#[test]
fn everything_can_be_said() {
    let profile = good(
        r#"
profile = "everything"
[check.nodes]
of = "nodes"
at_least = 16
[check.nics]
of = "nics"
is = 8
[check.gpus]
of = "gpus"
at_least = 4
at_most = "8"
[check.gpu-model]
of = "gpu-model"
one_of = ["NVIDIA H100*", "NVIDIA H200*"]
[check.driver]
of = "gpu-driver"
at_least = "550.54"
[check.module]
of = "module"
module = "nvidia-peermem"
same = true
[check.memlock]
of = "memlock"
at_least = "16 GiB"
[check.rate]
of = "link-rate"
at_least = "400 Gb/s"
rails = [0, 2]
nodes = ["node[02,01]"]
groups = ["leaf1"]
weight = "should"
[check.layer]
of = "link-layer"
is = "InfiniBand"
[check.gid]
of = "gid-type"
is = "RoCE v2"
[check.pcie]
of = "pcie"
at_least = "32 GT/s x16"
[check.capable]
of = "pcie"
is = "capable"
[check.numa]
of = "numa"
is = "as GPU"
[check.path]
of = "gpu-path"
at_most = "PXB"
[check.direct]
of = "gpudirect"
is = "dma-buf"
[check.bandwidth]
of = "bandwidth"
at_least = "720 Gb/s"
direction = "sum"
memory = "gpu"
[check.median]
of = "bandwidth"
at_least = "90% of the median"
direction = "tx"
[check.latency]
of = "latency"
at_most = "5 us"
percentile = "p99"
message = "8 KiB"
way = "send"
[check.cpu]
of = "cpu"
at_most = "0.5 cores"
end = "sender"
[check.spread]
of = "spread"
at_most = "5%"
[check.together]
of = "rails-together"
at_least = "95%"
[check.counters]
of = "counters"
counters = ["symbol_error", "link_downed"]
[check.findings]
of = "findings"
severity = ["fault", "warning"]
rules = ["mtu", "acs"]
cannot_tell = "borne"
[check.coverage]
of = "coverage"
at_least = "99.5%"
[[except]]
nodes = ["node03"]
checks = ["rate", "since-counters"]
rails = [1]
reason = "cable is on order"
until = 2027-03-31
[[except]]
nodes = ["node04"]
reason = "on loan"
until = "2027-01-01"
"#,
    );
    insta::assert_debug_snapshot!(profile);
    let steps = [CostStep::WritePoll, CostStep::Write, CostStep::LatencySend];
    let mut steps = steps.to_vec();
    steps.sort_unstable();
    assert_eq!(profile.cost_steps(), steps);
    let said: Vec<String> = profile
        .checks
        .iter()
        .map(|check| format!("{} {}: {}", check.name, check.demand.of(), check.demand))
        .collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn coverage_is_demanded_whatever_the_file_says() {
    let profile = good(&check("of = \"mtu\"\nis = 4096"));
    let [coverage, mtu] = profile.checks.as_slice() else {
        panic!("{profile:?}")
    };
    assert_eq!(coverage.demand, Demand::Coverage(1.0));
    assert_eq!((coverage.weight, coverage.line), (Weight::Must, None));
    assert_eq!((mtu.name.as_str(), mtu.line), ("it", Some(4)));
    assert_eq!(profile.place(mtu.line), "profile.toml, line 4");
    let own = good("profile = \"x\"\n[check.all]\nof = \"coverage\"\nat_least = \"90%\"\n");
    assert_eq!(own.checks.len(), 1);
}

/// More than forty ways to get it wrong, each with its place and what would be right.
const WRONG: &[&str] = &[
    "",
    "profile = \"x\"",
    "profile = 3\n[check.it]\nof = \"coverage\"",
    "profile = \"\"\n[check.it]\nof = \"coverage\"",
    "profile = \"x\"\n[check.it\nof = \"coverage\"",
    "profile = \"x\"\n[checks.it]\nof = \"coverage\"",
    "profile = \"x\"\ncheck = [1]",
    "profile = \"x\"\n[check.\"a b\"]\nof = \"coverage\"",
    "profile = \"x\"\n[check.since-mtu]\nof = \"mtu\"\nis = 4096",
    "profile = \"x\"\n[check.coverage]\nof = \"mtu\"\nis = 4096",
    "profile = \"x\"\n[check.it]\nof = \"mtu\"\nis = 4096\n[check.it]\nof = \"nics\"\nis = 8",
    "profile = \"x\"\n[check.it]\nof = \"mtu\"\nis = 4096\n[[except]]",
    "profile = \"x\"\n[check.it]\nof = \"mtu\"\nis = 4096\n[[except]]\nnodes = [\"node[1-\"]\nreason = \"x\"\nuntil = 2027-01-01",
    "profile = \"x\"\n[check.it]\nof = \"mtu\"\nis = 4096\n[[except]]\nnodes = [\"a\"]\nreason = \" \"\nuntil = 2027-02-30",
    "profile = \"x\"\n[check.it]\nof = \"mtu\"\nis = 4096\n[[except]]\nnodes = [\"a\"]\nreason = \"x\"\nuntil = \"soon\"",
    "profile = \"x\"\n[check.mtu]\nof = \"mtu\"\nis = 4096\n[[except]]\nnodes = [\"a\"]\nchecks = [\"mtuu\"]\nreason = \"x\"\nuntil = 2027-01-01",
    "profile = \"x\"\n[check.it]\nof = \"mtu\"\nis = 4096\n[except]\nnodes = [\"a\"]",
];

/// The same of one check.
const WRONG_CHECKS: &[&str] = &[
    "",
    "is = 3",
    "of = \"bandwith\"\nat_least = \"1 Gb/s\"",
    "of = \"colour\"\nis = \"red\"",
    "of = 7",
    "of = \"bandwidth\"",
    "of = \"bandwidth\"\nat_laest = \"360 Gb/s\"",
    "of = \"bandwidth\"\nat_least = 360",
    "of = \"bandwidth\"\nat_least = \"360\"",
    "of = \"bandwidth\"\nat_least = \"360 GB/s\"",
    "of = \"bandwidth\"\nat_least = \"92% of line\"",
    "of = \"bandwidth\"\nat_least = \"120% of ceiling\"",
    "of = \"bandwidth\"\nis = \"360 Gb/s\"",
    "of = \"bandwidth\"\nat_least = \"1 Gb/s\"\ndirection = \"up\"",
    "of = \"bandwidth\"\nat_least = \"1 Gb/s\"\npercentile = \"p99\"",
    "of = \"mtu\"\nis = \"big\"",
    "of = \"mtu\"\nis = 4096\nat_least = 1024",
    "of = \"mtu\"\nat_least = 4096\nat_most = 1024",
    "of = \"mtu\"\nis = -1",
    "of = \"nics\"\nis = 8\nrails = [0]",
    "of = \"nics\"\nis = 8.5",
    "of = \"link-rate\"\nat_least = \"fast\"\nrails = [99]",
    "of = \"pcie\"\nat_least = \"Gen7 x16\"",
    "of = \"pcie\"\nat_least = \"x15\"",
    "of = \"pcie\"\nat_least = \"16 GT/s x16\"\nis = \"capable\"",
    "of = \"gpu-path\"\nat_most = \"PIXX\"",
    "of = \"gid-type\"\nis = \"RoCEv2\"",
    "of = \"gpudirect\"\none_of = []",
    "of = \"gpudirect\"\nis = \"magic\"",
    "of = \"memlock\"\nat_least = \"16 GB of it\"",
    "of = \"numa\"\nis = \"near\"",
    "of = \"firmware\"\nis = \"1\"\nsame = true",
    "of = \"firmware\"\nsame = false",
    "of = \"firmware\"\nat_least = \"newest\"",
    "of = \"firmware\"\none_of = [28.39]",
    "of = \"module\"\nsame = true",
    "of = \"module\"\nmodule = \"../x\"\nsame = true",
    "of = \"latency\"\nat_most = \"5\"",
    "of = \"latency\"\nat_most = \"5 us\"\npercentile = \"p98\"\nmessage = \"2 KB/s\"",
    "of = \"latency\"\nat_most = \"0 us\"",
    "of = \"cpu\"\nat_most = \"-1 cores\"",
    "of = \"cpu\"\nat_most = \"1 core\"\nway = \"writes\"\nend = \"both\"",
    "of = \"spread\"\nat_most = 0.05",
    "of = \"counters\"\ncounters = []",
    "of = \"counters\"\ncounters = [\"a/b\"]",
    "of = \"findings\"",
    "of = \"findings\"\nrules = [\"half-bandwith\"]\nseverity = [\"error\"]\ncannot_tell = \"ignored\"",
    "of = \"coverage\"\nat_least = \"0%\"",
    "of = \"coverage\"\nweight = \"may\"",
    "of = \"coverage\"\nnodes = []",
    "of = \"coverage\"\nrails = []",
    "of = \"coverage\"\nnodes = [\"node[9-1]\"]\ngroups = \"leaf1\"",
];

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let checks = WRONG_CHECKS.iter().map(|text| check(text));
    let all: Vec<String> = WRONG
        .iter()
        .map(|text| (*text).to_owned())
        .chain(checks)
        .collect();
    assert!(all.len() >= 60, "{}", all.len());
    let mut said = Vec::new();
    for text in all {
        let errors = bad(&text);
        for problem in &errors.problems {
            // What is absent from a file as a whole has no place in it.
            let placed = problem.place.is_some() || problem.message.starts_with("the profile ");
            assert!(placed, "{text}: {}", problem.message);
        }
        said.push(format!("{text}\n\n{errors}"));
    }
    insta::assert_snapshot!(said.join("\n\n----\n\n"));
}

/// A fix is named, or is plain from the words: a value that is not within bounds says them.
#[test]
fn every_problem_says_what_would_be_right() {
    for text in WRONG_CHECKS {
        for problem in bad(&check(text)).problems {
            let says = problem.help.is_some()
                || [
                    " is \"",
                    " is 0 to ",
                    "host list",
                    "excl",
                    "expected",
                    "wanted",
                ]
                .iter()
                .any(|word| problem.message.contains(word))
                || problem.message.contains("write it like");
            assert!(says, "{text}: {}", problem.message);
        }
    }
}

/// Every profile that comes with linerate is right, and says first that nobody tried it on the hardware.
#[test]
fn the_profiles_that_come_with_linerate_are_right() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/profiles");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let profile = read_profile(&text, "profile.toml")
            .unwrap_or_else(|errors| panic!("{path:?}: {errors}"));
        assert!(text.starts_with("# UNTESTED on "), "{path:?}");
        assert!(profile.checks.len() > 5, "{path:?}");
        names.push(path.file_stem().unwrap().to_string_lossy().into_owned());
    }
    names.sort();
    let expected = [
        "aws-p5-efa",
        "azure-ndv5",
        "dgx-a100-hdr200",
        "hgx-h100-ndr400-ib",
        "hgx-h100-roce-2x200",
        "hgx-h100-roce-400",
        "hgx-h200-ndr400-ib",
        "lab",
        "mi300x-roce-400",
    ];
    assert_eq!(names, expected);
}

proptest! {
    #[test]
    fn any_text_is_a_profile_or_has_problems(
        text in "(?s).{0,80}|(profile|check\\.a|of|is|at_least|one_of|except|until|=|\\[|\\]|\"|,|mtu|bandwidth|92%|4096|2027-01-01|\n){0,24}"
    ) {
        if let Err(errors) = read_profile(&text, "x") {
            prop_assert!(!errors.problems.is_empty());
        }
    }

    #[test]
    fn any_value_is_one_or_has_a_problem(
        kind in 0usize..28,
        value in "\"[^\"\\\\\n\u{0}-\u{1f}\u{7f}]{0,12}\"|-?[0-9]{1,20}|[0-9]\\.[0-9]|true|\\[\\]|2027-01-01",
        key in "is|at_least|at_most|one_of|same",
    ) {
        let names = check::profile_kinds();
        let text = check(&format!("of = \"{}\"\n{key} = {value}", names[kind % names.len()]));
        if let Err(errors) = read_profile(&text, "x") {
            prop_assert!(!errors.problems.is_empty());
        }
    }
}

#[test]
fn every_kind_has_an_example_that_is_right() {
    for (name, example) in check::profile_examples() {
        let module = if name == "module" {
            "module = \"mlx5_core\"\n"
        } else {
            ""
        };
        let profile = good(&check(&format!("of = \"{name}\"\n{module}{example}")));
        let found = profile
            .checks
            .iter()
            .find(|check| check.name == "it")
            .unwrap();
        assert_eq!(found.demand.kind(), name);
    }
}
