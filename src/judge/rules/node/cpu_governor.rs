//! Processors that are not let run at full frequency: rates wander, and small messages are slow.

use super::Said;
use crate::judge::NodeView;
use crate::judge::rules::{About, in_a_row, plain};
use crate::model::{Evidence, Fact, FrequencyScaling, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::CpuGovernor,
    means: "The frequency governor does not keep the processors at full speed. Results wander from run to run, \
            latencies rise, and what a processor has to do for the NIC (interrupts, proxies of NCCL) is slower.",
    detected: "scaling_governor and scaling_driver of /sys/devices/system/cpu/cpufreq/policy*. A warning where powersave \
               holds many processors at their lowest frequency; a note where the frequency follows the load: \
               schedutil, ondemand, and the powersave of intel_pstate and amd-pstate-epp, which is not what it is \
               called. Nodes without hardware RDMA, and virtual machines without frequency scaling, are not meant.",
    remedy: REMEDY,
};

const REMEDY: &str = "Set the governor performance (cpupower frequency-set -g performance, or tuned's profile \
                      throughput-performance), and have it set at boot.";

/// Drivers whose `powersave` follows the load (Documentation/admin-guide/pm/intel_pstate.rst, amd-pstate.rst).
const DYNAMIC_POWERSAVE: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];

/// More governors than the kernel has: a node may send any number.
const MAX_GOVERNORS: usize = 16;

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let hardware = node.nics.iter().any(|nic| nic.device.software.is_none());
    // Without frequency scaling, as in most guests, the processors are as fast as they are.
    let Some(scaling) = node.facts.host.scaling.value() else {
        return;
    };
    let others = || {
        scaling
            .governors
            .iter()
            .filter(|(name, _)| *name != "performance")
    };
    if !hardware || others().next().is_none() {
        return;
    }
    let total: u64 = scaling.governors.values().map(|n| u64::from(*n)).sum();
    let words: Vec<_> = others()
        .take(MAX_GOVERNORS)
        .map(|(name, count)| format!("{name} on {count} of {total} processors"))
        .collect();
    let words = in_a_row(words.iter().map(String::as_str));
    let (severity, cost) = match holds_down(scaling, total) {
        true => (
            Severity::Warning,
            "which keeps them at their lowest frequency",
        ),
        false => (Severity::Note, "so that their frequency follows the load"),
    };
    let driver = match &scaling.driver {
        Fact::Known { value, .. } => value.as_str(),
        Fact::Unknown { .. } => "an unknown driver",
    };
    said.findings.push(plain(
        Rule::CpuGovernor,
        severity,
        node.subject(),
        format!("{} runs the frequency governor {words}, {cost}.", node.name),
        vec![Evidence {
            saw: format!("{words}, by {driver}"),
            from: format!(
                "{}: {}",
                node.name,
                node.facts.host.scaling.source().unwrap_or_default()
            ),
        }],
        REMEDY,
    ));
}

/// Whether a quarter of the processors or more is held at the lowest frequency.
fn holds_down(scaling: &FrequencyScaling, total: u64) -> bool {
    let slow = scaling.governors.get("powersave").copied().unwrap_or(0);
    let follows = match scaling.driver.value() {
        Some(driver) => DYNAMIC_POWERSAVE.contains(&driver.as_str()),
        None => true,
    };
    !follows && slow > 0 && u64::from(slow) * 4 >= total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::node::testing::only;
    use crate::model::testing::{facts, port};
    use crate::model::{Finding, NodeFacts, SoftwareRdma};

    fn node(driver: &str, governors: &[(&str, u32)]) -> NodeFacts {
        let mut facts = facts(vec![("mlx5_0", "0000:98:00.0", port())]);
        let scaling = FrequencyScaling {
            driver: Fact::known(driver.into(), "scaling_driver"),
            governors: governors.iter().map(|(n, c)| ((*n).into(), *c)).collect(),
            unread: 0,
        };
        facts.host.scaling = Fact::known(scaling, "/sys/devices/system/cpu/cpufreq");
        facts
    }

    fn of(facts: &NodeFacts) -> Option<Finding> {
        only(facts, Rule::CpuGovernor)
    }

    #[test]
    fn powersave_is_a_warning_where_it_saves() {
        let finding = of(&node(
            "acpi-cpufreq",
            &[("powersave", 96), ("performance", 32)],
        ))
        .unwrap();
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.says,
            "node017 runs the frequency governor powersave on 96 of 128 processors, which keeps them at their lowest \
             frequency."
        );
        for (driver, governor) in [
            ("intel_pstate", "powersave"),
            ("amd-pstate-epp", "powersave"),
            ("acpi-cpufreq", "schedutil"),
            ("acpi-cpufreq", "ondemand"),
        ] {
            let finding = of(&node(driver, &[(governor, 128)])).unwrap();
            assert_eq!(finding.severity, Severity::Note, "{driver} {governor}");
        }
        let few = of(&node(
            "acpi-cpufreq",
            &[("powersave", 1), ("performance", 127)],
        ));
        assert_eq!(few.unwrap().severity, Severity::Note);
    }

    #[test]
    fn full_speed_software_rdma_and_guests_are_not_meant() {
        assert!(of(&node("acpi-cpufreq", &[("performance", 128)])).is_none());
        let mut software = node("acpi-cpufreq", &[("powersave", 128)]);
        if let Fact::Known { value, .. } = &mut software.rdma {
            value[0].software = Some(SoftwareRdma::Rxe);
        }
        assert!(of(&software).is_none());
        let mut guest = node("", &[]);
        guest.host.scaling = Fact::unknown("the kernel scales no frequency");
        assert!(of(&guest).is_none());
    }
}
