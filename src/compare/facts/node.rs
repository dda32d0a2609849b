//! What is compared of a node.

use super::{Of, Property, RDMA_DEVICES, Seen, Value, seen, unknown, words};
use crate::judge::NodeView;
use crate::model::{
    AcsControl, Bytes, Fact, FrequencyScaling, MemlockLimit, NvidiaDriver, PciFunction, PciRole,
    PeerClient,
};

/// Modules whose versions bear on RDMA and on the way to GPUs.
const MODULES: [&str; 12] = [
    "ib_core",
    "ib_uverbs",
    "mlx5_core",
    "mlx5_ib",
    "bnxt_re",
    "irdma",
    "efa",
    "nvidia",
    "nvidia_peermem",
    "nv_peer_mem",
    "gdrdrv",
    "amdgpu",
];

pub(super) const PROPERTIES: &[Property] = &[
    Property::new("hostname", Of::Node(hostname)),
    Property::new("kernel", Of::Node(kernel)),
    Property::new("kernel arguments", Of::Node(kernel_arguments)),
    Property::new("module versions", Of::Node(modules)),
    Property::new("processor", Of::Node(processor)),
    Property::new("processors online", Of::Node(processors)),
    Property::new("frequency governor", Of::Node(governor)),
    Property::new("limit of locked memory", Of::Node(memlock)),
    Property::new("libibverbs", Of::Node(libibverbs)),
    Property::new(RDMA_DEVICES, Of::Node(rdma_devices)),
    Property::new("ACS setting", Of::Node(acs)),
    Property::new("GPU models", Of::Node(gpu_models)),
    Property::identity("GPU UUIDs", Of::Node(gpu_uuids)),
    Property::new("NVIDIA driver", Of::Node(nvidia_driver)),
    Property::new("CUDA", Of::Node(cuda)),
    Property::new("peer memory clients", Of::Node(peer_clients)),
];

fn hostname(node: &NodeView<'_>) -> Seen {
    words(&node.facts.hostname)
}

fn kernel(node: &NodeView<'_>) -> Seen {
    words(&node.facts.kernel)
}

fn kernel_arguments(node: &NodeView<'_>) -> Seen {
    seen(&node.facts.host.kernel_arguments, |all| listed(all.clone()))
}

/// In the order of their names: modules are listed in that in which they were loaded.
fn modules(node: &NodeView<'_>) -> Seen {
    seen(&node.facts.host.modules, |modules| {
        let known = modules
            .iter()
            .filter(|module| MODULES.contains(&module.name.as_str()));
        let versions = known.filter_map(|module| {
            let version = module.version.value()?;
            Some(format!("{} {version}", module.name))
        });
        listed(versions.collect())
    })
}

fn processor(node: &NodeView<'_>) -> Seen {
    words(&node.facts.host.cpu)
}

fn processors(node: &NodeView<'_>) -> Seen {
    let count = |count: &u32| Value::worth(count.to_string(), (*count).into());
    seen(&node.facts.host.cpus_online, count)
}

fn governor(node: &NodeView<'_>) -> Seen {
    seen(&node.facts.host.scaling, |scaling: &FrequencyScaling| {
        listed(scaling.governors.keys().cloned().collect())
    })
}

fn memlock(node: &NodeView<'_>) -> Seen {
    seen(&node.facts.memlock, |limit| {
        let worth = match limit {
            MemlockLimit::Unlimited => u64::MAX,
            MemlockLimit::Bytes(Bytes(bytes)) => *bytes,
        };
        Value::worth(limit.to_string(), worth)
    })
}

fn libibverbs(node: &NodeView<'_>) -> Seen {
    words(&node.facts.libibverbs)
}

/// Virtual functions come and go with what runs on the node.
fn rdma_devices(node: &NodeView<'_>) -> Seen {
    let tree = node.pcie();
    let is_virtual = |function: &PciFunction| function.physical_function.is_some();
    seen(&node.facts.rdma, |devices| {
        let real = devices.iter().filter(|device| {
            let function = tree.zip(device.pci.value());
            let function = function.and_then(|(tree, address)| tree.function(address));
            !function.is_some_and(is_virtual)
        });
        let count = real.count();
        Value::worth(count.to_string(), count as u64)
    })
}

/// Whether any bridge above NICs and GPUs sends what they exchange up to the root.
fn acs(node: &NodeView<'_>) -> Seen {
    let Some(tree) = node.pcie() else {
        return Err(unknown("the PCIe tree is unknown"));
    };
    let bridges = tree.functions.iter();
    let bridges = bridges.filter(|function| function.role == PciRole::Bridge);
    let asked = bridges.filter_map(|bridge| bridge.acs.as_ref());
    let mut redirects = None;
    for acs in asked {
        match acs {
            Fact::Known { value, .. } => {
                let mine = value.is_some_and(AcsControl::redirects_peers);
                redirects = Some(redirects.unwrap_or(false) || mine);
            }
            Fact::Unknown { why } => return Err(unknown(why.clone())),
        }
    }
    match redirects {
        Some(true) => Ok(Value::worth("peer traffic goes up to the root", 0)),
        Some(false) => Ok(Value::worth("peer traffic is not redirected", 1)),
        None => Err(unknown("no bridge was asked for it")),
    }
}

/// `8 × NVIDIA H100 80GB HBM3`.
fn gpu_models(node: &NodeView<'_>) -> Seen {
    seen(&node.facts.gpu.nvidia_gpus, |gpus| {
        let mut models: Vec<&str> = gpus
            .iter()
            .map(|gpu| gpu.model.value().map_or("unknown", String::as_str))
            .collect();
        models.sort_unstable();
        let kinds = models.chunk_by(|a, b| a == b);
        let kinds = kinds.map(|kind| format!("{} × {}", kind.len(), kind[0]));
        listed(kinds.collect())
    })
}

fn gpu_uuids(node: &NodeView<'_>) -> Seen {
    seen(&node.facts.gpu.nvidia_gpus, |gpus| {
        let uuids = gpus.iter().filter_map(|gpu| gpu.uuid.value().cloned());
        listed(uuids.collect())
    })
}

fn nvidia_driver(node: &NodeView<'_>) -> Seen {
    seen(&node.facts.gpu.nvidia, |driver: &NvidiaDriver| {
        let kind = if driver.open { "open" } else { "proprietary" };
        Value::text(format!("{} ({kind})", driver.version))
    })
}

fn cuda(node: &NodeView<'_>) -> Seen {
    let nvml = node.facts.gpu.nvml.value().map(|nvml| &nvml.cuda);
    match (nvml, &node.facts.gpu.cuda) {
        (_, Fact::Known { value, .. }) if value.version.value().is_some() => words(&value.version),
        (Some(version), _) => words(version),
        (None, cuda) => seen(cuda, |_| Value::text("unknown")),
    }
}

fn peer_clients(node: &NodeView<'_>) -> Seen {
    seen(&node.facts.gpudirect.peer_clients, |clients| {
        let word = |client: &PeerClient| match client.version.value() {
            Some(version) => format!("{} {version}", client.name),
            None => client.name.clone(),
        };
        let names: Vec<String> = clients.iter().map(word).collect();
        Value::worth(listed(names).text, clients.len() as u64)
    })
}

/// Words in an order of their own, at most so many that a person reads them.
fn listed(mut words: Vec<String>) -> Value {
    words.sort();
    match words.is_empty() {
        true => Value::text("none"),
        false => Value::text(words.join(", ")),
    }
}
