//! Models and versions: what they are, whether they are new enough, and whether all have the same.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use wildmatch::WildMatch;

use super::run::Run;
use super::told::{Is, Told, Who, listed};
use crate::config::{Select, TextDemand, TextOf};
use crate::judge::{NicView, NodeView};
use crate::model::{
    Fact, HostFacts, NodeFacts, PciFunction, VENDOR_AMD_GPU, VENDOR_NVIDIA, visible,
};

/// What something states of itself.
#[derive(Debug, Clone, Default)]
struct Stated {
    /// For a person, and for whoever compares.
    shown: String,
    /// Other names that it goes by.
    also: Vec<String>,
    /// Its version, where that is not what is shown; none where it states none.
    version: Option<Option<String>>,
    from: String,
}

/// One subject, and those that it can be held against.
struct Asked {
    who: Who,
    among: String,
    stated: Result<Stated, String>,
}

pub(super) fn text(run: &Run<'_>, select: &Select, of: &TextOf, demand: &TextDemand) -> Vec<Told> {
    let (asked, mut told) = ask(run, select, of);
    told.extend(match demand {
        TextDemand::OneOf(known) => asked
            .into_iter()
            .map(|asked| one_of(asked, known))
            .collect(),
        TextDemand::AtLeast(least) => asked
            .into_iter()
            .map(|asked| at_least(asked, least))
            .collect(),
        TextDemand::Same => same(asked),
    });
    told
}

/// Everybody who is asked; what is to be said of those who cannot be.
fn ask(run: &Run<'_>, select: &Select, of: &TextOf) -> (Vec<Asked>, Vec<Told>) {
    let (mut asked, mut told) = (Vec::new(), Vec::new());
    if matches!(of, TextOf::NicModel | TextOf::NicDriver | TextOf::Firmware) {
        if run.rails.is_empty() {
            told.push(Told::unknown(Who::cluster(), super::run::NO_RAILS));
        }
        for place in run.places(select) {
            match place {
                Ok((_, nic)) => asked.push(of_nic(nic, of)),
                Err((who, why)) => told.push(Told::unknown(who, why)),
            }
        }
        return (asked, told);
    }
    for node in run.nodes(select) {
        match run.view(node) {
            Some(view) => asked.extend(of_node(view, of)),
            None => told.push(Told::unknown(Who::node(node), run.why_not_surveyed(node))),
        }
    }
    (asked, told)
}

fn stated(fact: &Fact<String>) -> Result<Stated, String> {
    match fact {
        Fact::Known { value, from } => Ok(Stated {
            shown: visible(value),
            from: from.to_string(),
            ..Stated::default()
        }),
        Fact::Unknown { why } => Err(why.to_string()),
    }
}

fn of_nic(nic: &NicView<'_>, of: &TextOf) -> Asked {
    let identity = &nic.device.identity;
    let stated = match of {
        TextOf::NicModel => match (stated(&identity.board_id), stated(&identity.hca_type)) {
            (Ok(board), Ok(chip)) => Ok(Stated {
                shown: format!("{} ({})", board.shown, chip.shown),
                also: vec![board.shown, chip.shown],
                ..board
            }),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(why), Err(_)) => Err(why),
        },
        TextOf::NicDriver => stated(&nic.device.driver).map(|driver| {
            let version = identity
                .driver_version
                .value()
                .map(|version| visible(version));
            let both = version
                .as_ref()
                .map(|version| format!("{} {version}", driver.shown));
            Stated {
                also: [Some(driver.shown.clone()), version.clone()]
                    .into_iter()
                    .flatten()
                    .collect(),
                shown: both.unwrap_or(driver.shown),
                version: Some(version),
                from: driver.from,
            }
        }),
        _ => stated(&nic.device.firmware),
    };
    Asked {
        who: Who::nic(&nic.id, nic.rail.unwrap_or(crate::model::Rail(0))),
        // Cards of two kinds have firmware of their own.
        among: match of {
            TextOf::NicModel => String::new(),
            _ => identity.hca_type.value().cloned().unwrap_or_default(),
        },
        stated,
    }
}

fn of_node(view: &NodeView<'_>, of: &TextOf) -> Vec<Asked> {
    let facts = view.facts;
    let whole = |stated| {
        vec![Asked {
            who: Who::node(view.name),
            among: String::new(),
            stated,
        }]
    };
    match of {
        TextOf::Module(name) => whole(module(facts, name)),
        TextOf::GpuDriver => whole(gpu_driver(facts)),
        TextOf::GpuModel => gpu_models(view),
        _ => whole(stated(&facts.kernel)),
    }
}

/// What a module that is not there states.
const NOT_LOADED: &str = "not loaded";

fn module(facts: &NodeFacts, name: &str) -> Result<Stated, String> {
    let host: &HostFacts = &facts.host;
    if let Some(why) = host.modules.why_unknown() {
        return Err(why.to_owned());
    }
    let from = host.modules.source().unwrap_or_default().to_owned();
    let Some(module) = host.module(name) else {
        return Ok(Stated {
            shown: NOT_LOADED.to_owned(),
            from,
            ..Stated::default()
        });
    };
    Ok(match &module.version {
        Fact::Known { value, from } => Stated {
            shown: visible(value),
            from: from.to_string(),
            ..Stated::default()
        },
        // Modules of the kernel state none: theirs is the kernel's.
        Fact::Unknown { .. } => Stated {
            shown: match facts.kernel.value() {
                Some(kernel) => format!("without a version, kernel {}", visible(kernel)),
                None => "without a version".to_owned(),
            },
            version: Some(None),
            from,
            ..Stated::default()
        },
    })
}

fn gpu_driver(facts: &NodeFacts) -> Result<Stated, String> {
    if let Fact::Known { value, from } = &facts.gpu.nvidia {
        return Ok(Stated {
            shown: visible(&value.version),
            from: from.to_string(),
            ..Stated::default()
        });
    }
    let has_amd = facts.gpu.amd.value().is_some_and(|gpus| !gpus.is_empty());
    match has_amd {
        true => module(facts, "amdgpu"),
        false => Err(facts
            .gpu
            .nvidia
            .why_unknown()
            .unwrap_or_default()
            .to_owned()),
    }
}

/// The model of each GPU that the PCIe tree shows.
fn gpu_models(view: &NodeView<'_>) -> Vec<Asked> {
    let asked = |words: String, stated| {
        let mut who = Who::node(view.name);
        who.words = words;
        Asked {
            who,
            among: String::new(),
            stated,
        }
    };
    let nobody = |why: &str| vec![asked(view.name.to_string(), Err(why.to_owned()))];
    let Some(tree) = view.pcie() else {
        let why = view.facts.pcie.why_unknown();
        return nobody(why.unwrap_or("the PCIe tree is larger than that of any machine"));
    };
    let gpus = tree.gpus().enumerate();
    let all: Vec<Asked> = gpus
        .map(|(number, gpu)| {
            asked(
                format!("GPU{number} of {}", view.name),
                gpu_model(view.facts, gpu),
            )
        })
        .collect();
    match all.is_empty() {
        true => nobody("the node shows no GPU"),
        false => all,
    }
}

/// As its driver calls it; AMD's does not, and the PCI ID Repository does.
fn gpu_model(facts: &NodeFacts, gpu: &PciFunction) -> Result<Stated, String> {
    let nvml = facts
        .gpu
        .nvml
        .value()
        .and_then(|nvml| nvml.gpu(&gpu.address))
        .map(|gpu| &gpu.name);
    let cuda = facts
        .gpu
        .cuda
        .value()
        .and_then(|cuda| cuda.gpu(&gpu.address))
        .map(|gpu| &gpu.name);
    let kernel = facts.gpu.nvidia_gpus.value();
    let kernel = kernel.and_then(|gpus| gpus.iter().find(|known| known.address == gpu.address));
    let named = [nvml, cuda, kernel.map(|gpu| &gpu.model)];
    if let Some(known) = named
        .into_iter()
        .flatten()
        .find(|name| name.value().is_some())
    {
        return stated(known);
    }
    let ids = gpu.vendor.value().zip(gpu.device.value());
    let Some((vendor, device)) = ids else {
        return Err("its vendor and device are unknown".to_owned());
    };
    let known = pci_ids::Device::from_vid_pid(*vendor, *device);
    match known.filter(|_| [VENDOR_AMD_GPU, VENDOR_NVIDIA].contains(vendor)) {
        Some(known) => Ok(Stated {
            shown: known.name().to_owned(),
            also: vec![format!("{vendor:04x}:{device:04x}")],
            from: "vendor, device (PCI ID Repository)".to_owned(),
            ..Stated::default()
        }),
        None => Err(format!(
            "no driver tells its model, and {vendor:04x}:{device:04x} is not known"
        )),
    }
}

fn one_of(asked: Asked, known: &[String]) -> Told {
    let Asked { who, stated, .. } = asked;
    let stated = match stated {
        Ok(stated) => stated,
        Err(why) => return Told::unknown(who, why),
    };
    let fits = |pattern: &String| {
        let pattern = WildMatch::new(pattern);
        let names = stated.also.iter().chain([&stated.shown]);
        names.into_iter().any(|name| pattern.matches(name))
    };
    let holds = known.iter().any(fits);
    if !holds && stated.version == Some(None) {
        return Told::unknown(who, format!("{}: it states no version", stated.shown));
    }
    Told::seen(who, holds, &*stated.shown).from(stated.from)
}

fn at_least(asked: Asked, least: &str) -> Told {
    let Asked { who, stated, .. } = asked;
    let stated = match stated {
        Ok(stated) => stated,
        Err(why) => return Told::unknown(who, why),
    };
    if stated.shown == NOT_LOADED {
        return Told::seen(who, false, NOT_LOADED).from(stated.from);
    }
    let version = match &stated.version {
        Some(Some(version)) => version,
        Some(None) => return Told::unknown(who, format!("{}: it states no version", stated.shown)),
        None => &stated.shown,
    };
    match compare(version, least) {
        Some(order) => Told::seen(who, order.is_ge(), &*stated.shown).from(stated.from),
        None => Told::unknown(who, format!("{version} cannot be held against {least}")),
    }
}

/// How a version stands to another, as far as the other goes: 28.39.1002 is 28.39, and no less. None where a
/// number would be held against a word.
fn compare(seen: &str, least: &str) -> Option<Ordering> {
    let is_between = |c: char| !c.is_ascii_alphanumeric();
    let parts = |text: &str| -> Vec<String> {
        let parts = text.split(is_between).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let seen = parts(seen);
    for (at, wanted) in parts(least).iter().enumerate() {
        let has = seen.get(at).map_or("0", String::as_str);
        let order = match (has.parse::<u64>(), wanted.parse::<u64>()) {
            (Ok(has), Ok(wanted)) => has.cmp(&wanted),
            (Err(_), Err(_)) => has.cmp(wanted.as_str()),
            _ => return None,
        };
        if order.is_ne() {
            return Some(order);
        }
    }
    Some(Ordering::Equal)
}

/// Those that have something else than most of their like; where there is no most, all.
fn same(asked: Vec<Asked>) -> Vec<Told> {
    let mut counts: HashMap<String, BTreeMap<String, usize>> = HashMap::new();
    for asked in &asked {
        if let Ok(stated) = &asked.stated {
            let of_kind = counts.entry(asked.among.clone()).or_default();
            *of_kind.entry(stated.shown.clone()).or_default() += 1;
        }
    }
    let told = asked.into_iter().map(|Asked { who, among, stated }| {
        let stated = match stated {
            Ok(stated) => stated,
            Err(why) => return Told::unknown(who, why),
        };
        let of_kind = counts.get(&among).cloned().unwrap_or_default();
        let mine = of_kind.get(&stated.shown).copied().unwrap_or(0);
        let most = of_kind.values().copied().max().unwrap_or(0);
        let is_usual =
            mine == most && of_kind.values().filter(|count| **count == most).count() == 1;
        let others: Vec<String> = of_kind
            .iter()
            .map(|(shown, count)| format!("{shown} ({count})"))
            .collect();
        let mut told = Told::seen(who, is_usual, &*stated.shown);
        if is_usual && mine < 2 {
            told.is = Is::Unknown(format!(
                "{} is the only one of its kind: nothing can be held against it",
                stated.shown
            ));
        }
        told.evidence(format!("there are {}", listed(others)), stated.from)
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (seen, least, order) in [
            ("28.39.1002", "28.39.1002", Some(Ordering::Equal)),
            ("28.39.1002", "28.39", Some(Ordering::Equal)),
            ("28.9", "28.39", Some(Ordering::Less)),
            ("28.100", "28.39", Some(Ordering::Greater)),
            ("28", "28.39", Some(Ordering::Less)),
            ("5.15.0-91-generic", "5.15.0-100", Some(Ordering::Less)),
            ("24.10-1.1.4", "24.10", Some(Ordering::Equal)),
            ("rc1", "1", None),
        ] {
            assert_eq!(compare(seen, least), order, "{seen} and {least}");
        }
    }
}
