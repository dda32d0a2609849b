//! Nobody states what the links can carry: deviants are told, a cluster slow as a whole is not.

use std::collections::BTreeSet;

use super::{About, Context, plain};
use crate::model::{Evidence, Finding, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::LineRateUnknown,
    means: "Nobody states what the links of a rail carry, as with software RDMA: NICs were compared with each other only, and a rail slow as a whole would look well.",
    detected: "The port's rate in sysfs is missing, nothing, or made up by a software device, and [expect] has no line_rate.",
    remedy: "State `line_rate` under [expect], as in line_rate = \"400 Gb/s\".",
};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let unknown = context.observed.usual.iter().filter_map(|observation| {
        let why = observation.expected.why_unknown()?;
        seen.insert(observation.pair.rail)
            .then_some((observation.pair.rail, why.to_owned()))
    });
    let finding = |(rail, why): (crate::model::Rail, String)| {
        let says = format!(
            "The line rate of {rail} is unknown, so its NICs were compared with each other only: whether \
             the whole rail is slow cannot be told."
        );
        let evidence = vec![Evidence {
            saw: why,
            from: "survey".into(),
        }];
        let remedy = "State `line_rate` under [expect], as in line_rate = \"400 Gb/s\".";
        plain(
            Rule::LineRateUnknown,
            Severity::NotJudged,
            Subject::Rail(rail),
            says,
            evidence,
            remedy,
        )
    };
    unknown.map(finding).collect()
}
