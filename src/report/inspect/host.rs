//! The host part of `linerate inspect`: processors, memory, kernel, and what the agent may do.

use std::io;

use super::{Page, Summary, alone};
use crate::model::{Access, Fact, FrequencyScaling, HostFacts, NodeFacts, NumaNode, VerbsNode};

/// The limit on locked memory, and whether it holds.
pub(super) fn memlock(page: &mut Page<'_>, facts: &NodeFacts) -> io::Result<()> {
    let exempt = match facts.host.memlock_exempt.value() {
        Some(true) => ", from which the agent is exempt (CAP_IPC_LOCK)",
        _ => "",
    };
    page.field("memlock", format!("{}{exempt}", alone(&facts.memlock)))
}

/// A few lines; what nobody looked for is left out.
pub(super) fn host(page: &mut Page<'_>, facts: &NodeFacts) -> io::Result<()> {
    let host = &facts.host;
    cpu(page, host)?;
    match &facts.numa {
        Fact::Known { value, .. } => value.iter().try_for_each(|node| numa(page, node))?,
        Fact::Unknown { why } if facts.numa.was_asked() => {
            page.field("NUMA", format!("unknown: {why}"))?;
        }
        Fact::Unknown { .. } => {}
    }
    if let Some(engine) = host.container.value().and_then(Option::as_ref) {
        page.field("container", engine)?;
    }
    match &host.kernel_arguments {
        Fact::Known { value, .. } if value.is_empty() => {}
        Fact::Known { value, .. } => page.field("arguments", value.join(" "))?,
        Fact::Unknown { why } if host.kernel_arguments.was_asked() => {
            page.field("arguments", format!("unknown: {why}"))?;
        }
        Fact::Unknown { .. } => {}
    }
    modules(page, host)?;
    kernel_log(page, host)?;
    match &host.verbs_access {
        Fact::Known { value, .. } => closed(page, value),
        Fact::Unknown { .. } => Ok(()),
    }
}

/// The processors on a line, and below it what is unknown of them.
fn cpu(page: &mut Page<'_>, host: &HostFacts) -> io::Result<()> {
    let mut summary = Summary::default();
    if host.cpu.was_asked() {
        summary.add("model", &host.cpu, Clone::clone);
    }
    if host.cpus_online.was_asked() {
        summary.add("online", &host.cpus_online, |n| {
            format!("{n} processors online")
        });
    }
    // Where the frequency is not scaled, as in a guest, there is nothing to be said of it.
    if let Some(scaling) = host.scaling.value() {
        summary.known.push(governors(scaling));
    }
    if host.clock_source.was_asked() {
        summary.add("clock", &host.clock_source, |clock| {
            format!("clock {clock}")
        });
    }
    match (summary.known.is_empty(), summary.unknown.is_empty()) {
        (true, true) => return Ok(()),
        (true, false) => page.field("CPU", "nothing known")?,
        (false, _) => page.field("CPU", summary.known.join(", "))?,
    }
    let mut unknown = summary.unknown.into_iter();
    unknown.try_for_each(|(what, why)| page.part(what, format!("unknown: {why}")))
}

fn governors(scaling: &FrequencyScaling) -> String {
    let driver = match &scaling.driver {
        Fact::Known { value, .. } => format!(" ({value})"),
        Fact::Unknown { .. } => String::new(),
    };
    let only = scaling.governors.len() == 1 && scaling.unread == 0;
    let one = |(name, count): (&String, &u32)| match only {
        true => name.clone(),
        false => format!("{name} on {count}"),
    };
    let mut names: Vec<_> = scaling.governors.iter().map(one).collect();
    if scaling.unread > 0 {
        names.push(format!("unknown on {}", scaling.unread));
    }
    format!("governor {}{driver}", names.join(" and "))
}

fn numa(page: &mut Page<'_>, node: &NumaNode) -> io::Result<()> {
    let mut summary = Summary::default();
    match &node.cpus {
        Fact::Unknown { why } if why.ends_with("is empty") => {
            summary.known.push("no processors".to_owned());
        }
        cpus => {
            summary.add("processors", cpus, |cpus| format!("processors {cpus}"));
        }
    }
    summary.add("memory", &node.memory, ToString::to_string);
    page.field(&format!("NUMA {}", node.number), summary.known.join(", "))?;
    let mut unknown = summary.unknown.into_iter();
    unknown.try_for_each(|(what, why)| page.part(what, format!("unknown: {why}")))
}

fn modules(page: &mut Page<'_>, host: &HostFacts) -> io::Result<()> {
    match &host.modules {
        Fact::Known { value, .. } if value.is_empty() => Ok(()),
        Fact::Known { value, .. } => {
            let one = |module: &crate::model::KernelModule| match &module.version {
                Fact::Known { value, .. } => format!("{} {value}", module.name),
                Fact::Unknown { .. } => module.name.clone(),
            };
            let all: Vec<_> = value.iter().map(one).collect();
            page.field("modules", all.join(", "))
        }
        Fact::Unknown { why } if host.modules.was_asked() => {
            page.field("modules", format!("unknown: {why}"))
        }
        Fact::Unknown { .. } => Ok(()),
    }
}

/// How many of the newest lines of the kernel's log are shown.
const SHOWN: usize = 4;

fn kernel_log(page: &mut Page<'_>, host: &HostFacts) -> io::Result<()> {
    let lines = host.kernel_log.value().map_or(&[][..], Vec::as_slice);
    let hidden = lines.len().saturating_sub(SHOWN);
    for (index, line) in lines[hidden..].iter().enumerate() {
        page.field(if index == 0 { "kernel log" } else { "" }, &line.text)?;
    }
    match hidden {
        0 => Ok(()),
        more => page.part("", format!("and {more} older lines that rules know")),
    }
}

/// The RDMA devices that do not open.
fn closed(page: &mut Page<'_>, nodes: &[VerbsNode]) -> io::Result<()> {
    let mut closed = nodes.iter().filter(|node| node.access != Access::Usable);
    closed.try_for_each(|node| {
        let text = format!("{} of {}: {}", node.path, node.device, node.access);
        page.field("access", text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, KernelLogKind, KernelLogLine, KernelModule, MemlockLimit};
    use crate::report::inspect::write_facts;

    fn known<T>(value: T) -> Fact<T> {
        Fact::known(value, "/sys/…")
    }

    fn server() -> NodeFacts {
        let node = |number, cpus: Fact<String>| NumaNode {
            number,
            cpus,
            memory: known(Bytes(512 << 30)),
            ..NumaNode::default()
        };
        let module = |name: &str, version: Fact<String>| KernelModule {
            name: name.into(),
            version,
        };
        let line = |n: u32| KernelLogLine {
            kind: KernelLogKind::Xid,
            text: format!("NVRM: Xid (PCI:0000:17:00): {n}"),
        };
        let scaling = FrequencyScaling {
            driver: known("acpi-cpufreq".into()),
            governors: [("performance".into(), 96), ("powersave".into(), 96)].into(),
            unread: 0,
        };
        let closed = VerbsNode {
            device: "mlx5_0".into(),
            path: "/dev/infiniband/uverbs0".into(),
            access: Access::Denied,
        };
        let mut facts = crate::model::testing::facts(vec![]);
        facts.memlock = known(MemlockLimit::Bytes(Bytes(8 << 20)));
        facts.numa = known(vec![
            node(0, known("0-95".into())),
            node(1, Fact::unknown("/sys/…/cpulist is empty")),
        ]);
        facts.host = HostFacts {
            cpu: known("AMD EPYC 9654 96-Core Processor".into()),
            cpus_online: known(192),
            scaling: known(scaling),
            clock_source: known("tsc".into()),
            container: known(Some("docker".into())),
            kernel_arguments: known(vec!["iommu=pt".into(), "pci=realloc".into()]),
            modules: known(vec![
                module("mlx5_core", Fact::unknown("it states none")),
                module("nvidia_peermem", known("550.54.15".into())),
            ]),
            kernel_log: known((1..=6).map(line).collect()),
            user: known(0),
            memlock_exempt: known(true),
            verbs_access: known(vec![closed]),
            rdma_cm: known(Access::Usable),
            cma_total: Fact::default(),
        };
        facts
    }

    fn print(facts: &NodeFacts) -> String {
        let mut out = Vec::new();
        write_facts(facts, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_host_with_everything() {
        insta::assert_snapshot!(print(&server()));
    }

    #[test]
    fn what_is_unknown_of_a_host_has_its_reason() {
        let mut facts = server();
        let why = |file: &str| format!("{file}: Permission denied");
        facts.numa = Fact::unknown(why("/sys/devices/system/node"));
        facts.host = HostFacts {
            cpu: Fact::unknown(why("/proc/cpuinfo")),
            cpus_online: Fact::unknown(why("/sys/devices/system/cpu/online")),
            modules: Fact::unknown(why("/sys/module")),
            kernel_arguments: Fact::unknown(why("/proc/cmdline")),
            ..HostFacts::default()
        };
        insta::assert_snapshot!(print(&facts));
    }
}
