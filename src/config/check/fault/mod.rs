//! The faults of a scenario file.

mod values;

use std::ops::Range;

use super::super::scenario::{Fault, Place, Scenario};
use super::super::typed::{
    Tables, TypedFlaky, TypedLine, TypedMtu, TypedNarrow, TypedNic, TypedNicRatio,
    TypedOnNodeRatio, TypedPath, TypedRail, TypedScenario, TypedSlowNic, TypedSwapped, TypedSwitch,
    TypedUplink,
};
use super::Checker;
use super::scenario::{generation, size};
use crate::model::NodeName;

/// What is wrong; tables with problems are left out.
pub(super) fn faults(
    checker: &mut Checker,
    scenario: &Scenario,
    mut typed: TypedScenario,
) -> Vec<Fault> {
    let mut faults = Faults {
        names: scenario.names(),
        scenario,
        checker,
        found: Vec::new(),
    };
    faults.of_nics(&mut typed);
    faults.of_fabric(&mut typed);
    faults.of_nodes(typed);
    faults.found
}

/// The faults of a file, and the cluster that they are in.
struct Faults<'a, 'c> {
    names: Vec<NodeName>,
    scenario: &'a Scenario,
    checker: &'a mut Checker<'c>,
    found: Vec<Fault>,
}

impl Faults<'_, '_> {
    fn of_nics(&mut self, typed: &mut TypedScenario) {
        let take = std::mem::take::<Tables<TypedNicRatio>>;
        self.each(std::mem::take(&mut typed.slow_nic), Self::slow_nic);
        self.each(std::mem::take(&mut typed.narrow_pcie), Self::narrow_pcie);
        self.each(take(&mut typed.half_duplex), |faults, typed, at| {
            let (nic, ratio) = faults.nic_ratio(at, typed)?;
            Some(Fault::HalfDuplex { nic, ratio })
        });
        self.each(std::mem::take(&mut typed.gpu_path), Self::gpu_path);
        self.each(take(&mut typed.one_queue_pair), |faults, typed, at| {
            let (nic, ratio) = faults.nic_ratio(at, typed)?;
            Some(Fault::OneQueuePair { nic, ratio })
        });
        self.each(std::mem::take(&mut typed.flaky_nic), Self::flaky_nic);
        let nic = |faults: &mut Self, typed: TypedNic, at: &Range<usize>| {
            faults.place(at, "node", typed.node, typed.rail)
        };
        self.each(std::mem::take(&mut typed.dead_nic), |faults, typed, at| {
            nic(faults, typed, at).map(|nic| Fault::DeadNic { nic })
        });
        self.each(std::mem::take(&mut typed.port_down), |faults, typed, at| {
            nic(faults, typed, at).map(|nic| Fault::PortDown { nic })
        });
    }

    fn of_fabric(&mut self, typed: &mut TypedScenario) {
        self.each(std::mem::take(&mut typed.slow_path), Self::slow_path);
        self.each(std::mem::take(&mut typed.slow_rail), Self::slow_rail);
        self.each(std::mem::take(&mut typed.leaf_uplink), Self::leaf_uplink);
        let swapped = std::mem::take(&mut typed.swapped_cables);
        self.each(swapped, Self::swapped_cables);
    }

    fn of_nodes(&mut self, typed: TypedScenario) {
        self.each(typed.shared_switch, Self::shared_switch);
        self.each(typed.node_limit, Self::node_limit);
        self.each(typed.lost_node, |faults, typed, at| {
            let (node, round) = faults.end(at, typed)?;
            Some(Fault::LostNode { node, round })
        });
        self.each(typed.silent_node, |faults, typed, at| {
            let (node, round) = faults.end(at, typed)?;
            Some(Fault::SilentNode { node, round })
        });
        self.each(typed.small_mtu, Self::small_mtu);
        self.each(typed.no_gpudirect, |faults, typed, at| {
            let node = faults.node(at, "node", typed.node)?;
            Some(Fault::NoGpuDirect { node })
        });
        self.each(typed.slow_line, Self::slow_line);
    }

    /// Reads each table of a kind; `at` is where one stands.
    fn each<T, F: IntoIterator<Item = Fault>>(
        &mut self,
        tables: Tables<T>,
        read: impl Fn(&mut Self, T, &Range<usize>) -> F,
    ) {
        for table in tables.0 {
            let at = table.span();
            let faults = read(self, table.into_inner().0, &at);
            self.found.extend(faults);
        }
    }

    fn slow_nic(&mut self, typed: TypedSlowNic, at: &Range<usize>) -> Option<Fault> {
        let nic = self.place(at, "node", typed.node, typed.rail);
        let direction = self.direction(at, typed.direction);
        let ratio = self.ratio(at, typed.ratio);
        Some(Fault::SlowNic {
            nic: nic?,
            direction: direction?,
            ratio: ratio?,
        })
    }

    fn narrow_pcie(&mut self, typed: TypedNarrow, at: &Range<usize>) -> Option<Fault> {
        let nic = self.place(at, "node", typed.node, typed.rail);
        let width = self.width(at, typed.width);
        Some(Fault::NarrowPcie {
            nic: nic?,
            width: width?,
        })
    }

    fn slow_path(&mut self, typed: TypedPath, at: &Range<usize>) -> Option<Fault> {
        let from = self.place(at, "from", typed.from, typed.rail);
        let to = self.node(at, "to", typed.to);
        let ratio = self.ratio(at, typed.ratio);
        let (from, to) = (from?, to?);
        if from.node == to {
            let message = format!("{to} sends nothing to itself");
            self.checker.problem(Some(at.clone()), message);
            return None;
        }
        let ratio = ratio?;
        Some(Fault::SlowPath { from, to, ratio })
    }

    fn slow_rail(&mut self, typed: TypedRail, at: &Range<usize>) -> Option<Fault> {
        let rail = self.rail(at, typed.rail);
        let ratio = self.ratio(at, typed.ratio);
        Some(Fault::SlowRail {
            rail: rail?,
            ratio: ratio?,
        })
    }

    fn small_mtu(&mut self, typed: TypedMtu, at: &Range<usize>) -> Option<Fault> {
        let node = self.node(at, "node", typed.node);
        let mtu = self.given(at, "mtu", typed.mtu);
        let mtu = mtu.and_then(|mtu| size(self.checker, &mtu));
        Some(Fault::SmallMtu {
            node: node?,
            mtu: mtu?,
        })
    }

    fn nic_ratio(&mut self, at: &Range<usize>, typed: TypedNicRatio) -> Option<(Place, f64)> {
        let nic = self.place(at, "node", typed.node, typed.rail);
        let ratio = self.ratio(at, typed.ratio);
        Some((nic?, ratio?))
    }

    fn gpu_path(&mut self, typed: TypedSlowNic, at: &Range<usize>) -> Option<Fault> {
        let nic = self.place(at, "node", typed.node, typed.rail);
        // Unlike a slow NIC's, it may be left out: what is amiss above a NIC is so both ways.
        let direction = match &typed.direction {
            Some(_) => self.direction(at, typed.direction),
            None => Some(None),
        };
        let ratio = self.ratio(at, typed.ratio);
        Some(Fault::GpuPath {
            nic: nic?,
            direction: direction?,
            ratio: ratio?,
        })
    }

    fn flaky_nic(&mut self, typed: TypedFlaky, at: &Range<usize>) -> Option<Fault> {
        let nic = self.place(at, "node", typed.node, typed.rail);
        let share = self.share(at, typed.share);
        let ratio = self.ratio(at, typed.ratio);
        Some(Fault::FlakyNic {
            nic: nic?,
            share: share?,
            ratio: ratio?,
        })
    }

    fn shared_switch(&mut self, typed: TypedSwitch, at: &Range<usize>) -> Option<Fault> {
        let node = self.node(at, "node", typed.node);
        let rails = self.rails(at, typed.rails, "two or more rails", |n| n >= 2);
        let ratio = self.ratio(at, typed.ratio);
        Some(Fault::SharedSwitch {
            node: node?,
            rails: rails?,
            ratio: ratio?,
        })
    }

    fn node_limit(&mut self, typed: TypedOnNodeRatio, at: &Range<usize>) -> Option<Fault> {
        let node = self.node(at, "node", typed.node);
        let ratio = self.ratio(at, typed.ratio);
        Some(Fault::NodeLimit {
            node: node?,
            ratio: ratio?,
        })
    }

    fn swapped_cables(&mut self, typed: TypedSwapped, at: &Range<usize>) -> Option<Fault> {
        let node = self.node(at, "node", typed.node);
        let rails = self.rails(at, typed.rails, "two rails", |n| n == 2);
        Some(Fault::SwappedCables {
            node: node?,
            rails: rails?.try_into().ok()?,
        })
    }

    fn leaf_uplink(&mut self, typed: TypedUplink, at: &Range<usize>) -> Option<Fault> {
        let leaf = self.leaf(at, typed.leaf);
        let rail = self.rail(at, typed.rail);
        let direction = self.uplink(at, typed.direction);
        let ratio = self.ratio(at, typed.ratio);
        Some(Fault::LeafUplink {
            leaf: leaf?,
            rail: rail?,
            direction: direction?,
            ratio: ratio?,
        })
    }

    /// One fault for each of the nodes.
    fn slow_line(&mut self, typed: TypedLine, at: &Range<usize>) -> Vec<Fault> {
        let nodes = self.nodes(at, typed.nodes);
        let rail = match typed.rail {
            Some(rail) => self.rail(at, Some(rail)).map(Some),
            None => Some(None),
        };
        let rate = self.given(at, "line_rate", typed.line_rate);
        let generation = rate.and_then(|rate| generation(self.checker, &rate));
        let (Some(nodes), Some(rail), Some(generation)) = (nodes, rail, generation) else {
            return Vec::new();
        };
        let fault = |node| Fault::SlowLine {
            node,
            rail,
            generation,
        };
        nodes.into_iter().map(fault).collect()
    }
}
