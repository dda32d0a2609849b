//! The faults of a scenario file.

use std::ops::Range;

use super::super::problem::nearest_node;
use super::super::scenario::{Fault, Place, Scenario};
use super::super::typed::{
    Tables, Typed, TypedEnd, TypedMtu, TypedNarrow, TypedPath, TypedRail, TypedScenario,
    TypedSlowNic,
};
use super::scenario::size;
use super::{Checker, Value};
use crate::model::{Direction, NodeName};

/// What is wrong; tables with problems are left out.
pub(super) fn faults(
    checker: &mut Checker,
    scenario: &Scenario,
    typed: TypedScenario,
) -> Vec<Fault> {
    let mut faults = Faults {
        names: scenario.names(),
        rails: scenario.rails,
        checker,
        found: Vec::new(),
    };
    faults.each(typed.slow_nic, Faults::slow_nic);
    faults.each(typed.narrow_pcie, Faults::narrow_pcie);
    faults.each(typed.slow_path, Faults::slow_path);
    faults.each(typed.slow_rail, Faults::slow_rail);
    faults.each(typed.port_down, |faults, typed, at| {
        let nic = faults.place(at, "node", typed.node, typed.rail)?;
        Some(Fault::PortDown { nic })
    });
    faults.each(typed.lost_node, |faults, typed, at| {
        let (node, round) = faults.end(at, typed)?;
        Some(Fault::LostNode { node, round })
    });
    faults.each(typed.silent_node, |faults, typed, at| {
        let (node, round) = faults.end(at, typed)?;
        Some(Fault::SilentNode { node, round })
    });
    faults.each(typed.small_mtu, Faults::small_mtu);
    faults.each(typed.no_gpudirect, |faults, typed, at| {
        let node = faults.node(at, "node", typed.node)?;
        Some(Fault::NoGpuDirect { node })
    });
    faults.found
}

/// The faults of a file, and the cluster that they are in.
struct Faults<'a, 'c> {
    names: Vec<NodeName>,
    rails: u16,
    checker: &'a mut Checker<'c>,
    found: Vec<Fault>,
}

impl Faults<'_, '_> {
    /// Reads each table of a kind; `at` is where one stands.
    fn each<T>(
        &mut self,
        tables: Tables<T>,
        read: impl Fn(&mut Self, T, &Range<usize>) -> Option<Fault>,
    ) {
        for table in tables.0 {
            let at = table.span();
            let fault = read(self, table.into_inner().0, &at);
            self.found.extend(fault);
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

    /// A key that a fault has no default for.
    fn given<T>(&mut self, at: &Range<usize>, key: &str, typed: Typed<T>) -> Option<Value<T>> {
        if typed.is_none() {
            self.checker
                .absent(Some(at.clone()), format!("`{key}` is missing here"));
        }
        typed.map(Value::typed)
    }

    fn node(&mut self, at: &Range<usize>, key: &str, typed: Typed<String>) -> Option<NodeName> {
        let name = self.given(at, key, typed)?;
        let known = self.names.iter().find(|known| known.0 == name.value);
        if let Some(known) = known {
            return Some(known.clone());
        }
        let last = self.names.last().map_or("", |name| name.0.as_str());
        let message = format!("`{key}` is node001 to {last}, not {:?}", name.value);
        let meant = nearest_node(&name.value, self.names.iter().map(|name| name.0.as_str()));
        let meant = meant.map(|meant| format!("did you mean \"{meant}\"?"));
        let problem = self.checker.problem(name.span, message);
        if let Some(meant) = meant {
            problem.help(meant);
        }
        None
    }

    fn rail(&mut self, at: &Range<usize>, typed: Typed<i64>) -> Option<u16> {
        let rail = self.given(at, "rail", typed)?;
        let last = i64::from(self.rails) - 1;
        self.checker.whole("rail", &rail, 0..=last)
    }

    fn place(
        &mut self,
        at: &Range<usize>,
        key: &str,
        node: Typed<String>,
        rail: Typed<i64>,
    ) -> Option<Place> {
        let node = self.node(at, key, node);
        let rail = self.rail(at, rail);
        Some(Place {
            node: node?,
            rail: rail?,
        })
    }

    /// What is left of a line: above 0, and below 1 or it would be no fault.
    fn ratio(&mut self, at: &Range<usize>, typed: Typed<f64>) -> Option<f64> {
        let ratio = self.given(at, "ratio", typed)?;
        let found = Some(ratio.value).filter(|ratio| (0.01..1.0).contains(ratio));
        if found.is_none() {
            let message = format!("`ratio` is from 0.01 to below 1, not {}", ratio.value);
            self.checker.problem(ratio.span, message);
        }
        found
    }

    fn width(&mut self, at: &Range<usize>, typed: Typed<i64>) -> Option<u8> {
        let width = self.given(at, "width", typed)?;
        let found = [1, 2, 4, 8]
            .into_iter()
            .find(|w| i64::from(*w) == width.value);
        if found.is_none() {
            let message = format!("`width` is 1, 2, 4 or 8 lanes, not {}", width.value);
            self.checker.problem(width.span, message);
        }
        found
    }

    fn direction(&mut self, at: &Range<usize>, typed: Typed<String>) -> Option<Option<Direction>> {
        let known = [
            ("tx", Some(Direction::Tx)),
            ("rx", Some(Direction::Rx)),
            ("both", None),
        ];
        let word = self.given(at, "direction", typed)?;
        self.checker.choice("direction", &word, &known)
    }

    fn end(&mut self, at: &Range<usize>, typed: TypedEnd) -> Option<(NodeName, Option<u32>)> {
        let node = self.node(at, "node", typed.node);
        let round = match typed.round.map(Value::typed) {
            Some(round) => Some(self.checker.whole("round", &round, 1..=100_000)?),
            None => None,
        };
        Some((node?, round))
    }
}
