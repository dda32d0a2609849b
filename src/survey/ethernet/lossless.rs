//! Trust, PFC and ECN of an interface: MLNX_OFED's files where they are, else the kernel's DCB.

use std::path::Path;

use super::nic_parse;
use crate::model::{Fact, Lossless, Priorities};
use crate::survey::Survey;

/// The settings of the interface `name`.
pub(super) fn read(survey: &Survey<'_>, name: &str) -> Lossless {
    let root = survey.root;
    let dir = root.path("sys/class/net").join(name);
    let (dcb_trust, pfc) = survey.kernel.dcb(name);
    let trust = match root.fact(&dir.join("qos/trust"), nic_parse::trust) {
        Fact::Unknown { .. } => dcb_trust,
        known => known,
    };
    let notify = dir.join("ecn/roce_np");
    Lossless {
        trust,
        pfc,
        ecn_notify: enabled(survey, &notify),
        ecn_react: enabled(survey, &dir.join("ecn/roce_rp")),
        cnp_dscp: root.fact(&notify.join("cnp_dscp"), nic_parse::small),
        cnp_priority: root.fact(&notify.join("cnp_802p_prio"), nic_parse::small),
    }
}

/// The priorities for which `enable/N` is 1.
fn enabled(survey: &Survey<'_>, dir: &Path) -> Fact<Priorities> {
    let enable = dir.join("enable");
    let mut on = [false; 8];
    for (priority, on) in on.iter_mut().enumerate() {
        let file = enable.join(priority.to_string());
        match survey.root.fact(&file, nic_parse::flag) {
            Fact::Known { value, .. } => *on = value,
            Fact::Unknown { .. } if !enable.exists() => {
                return Fact::unknown(format!(
                    "{} does not exist: only MLNX_OFED and DOCA tell of ECN (else look with mlxreg or cc_params)",
                    enable.display()
                ));
            }
            Fact::Unknown { why } => return Fact::unknown(why),
        }
    }
    Fact::known(
        nic_parse::priorities(on),
        enable.join("*").display().to_string(),
    )
}
