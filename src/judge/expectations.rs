//! What the links of probes can carry, each text once: thousands of NICs have links that are alike.

use std::collections::HashMap;
use std::sync::Arc;

use super::cast::Cast;
use super::expected::{expected_of, narrower};
use crate::ledger::{Brief, Probe};
use crate::model::{Fact, Gbps, LinkLayer};

/// Probes with one key have one expectation: what the narrower line carries and who says so, what the
/// packets are wrapped in, and their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    line: usize,
    /// The sender, where its link layer is unknown: then it is named.
    unknown: Option<usize>,
    layer: Option<LinkLayer>,
    ipv4: bool,
    mtu: Option<u32>,
}

/// Those that were asked for so far.
#[derive(Default)]
pub(super) struct Expectations {
    pub(super) all: Vec<Arc<Fact<Gbps>>>,
    places: HashMap<Key, usize>,
    /// By line, the one that was asked for last: most ask for the same.
    last: Vec<Option<(Key, usize)>>,
}

impl Expectations {
    /// The place of a probe's.
    pub(super) fn place(
        &mut self,
        cast: &Cast<'_>,
        ends: [usize; 2],
        brief: &Brief,
        probe: &Probe,
    ) -> usize {
        let key = key(cast, ends, brief);
        if self.last.len() <= key.line {
            self.last.resize(key.line + 1, None);
        }
        if let Some((last, place)) = self.last[key.line]
            && last == key
        {
            return place;
        }
        let all = &mut self.all;
        let place = *self.places.entry(key).or_insert_with(|| {
            all.push(Arc::new(expected_of(cast, ends, probe)));
            all.len() - 1
        });
        self.last[key.line] = Some((key, place));
        place
    }
}

fn key(cast: &Cast<'_>, ends: [usize; 2], brief: &Brief) -> Key {
    let [from, to] = ends.map(|end| &cast.parts[end]);
    let narrower = [from, to][narrower([&from.line, &to.line])];
    let layer = from.layer;
    Key {
        line: narrower.line_number,
        unknown: layer.is_none().then_some(ends[0]),
        layer,
        ipv4: brief.ipv4,
        mtu: brief.mtu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::observe;
    use crate::ledger::testing::{events, ledger};
    use crate::model::Event;

    #[test]
    fn links_that_are_alike_have_one_expectation_and_others_their_own() {
        let mut events = events(4, 1, &|_, _, _| Some(391.0));
        // Two nodes with a slower link.
        for event in &mut events {
            if let Event::NodeSurveyed { node, facts } = event
                && ["node03", "node04"].contains(&node.0.as_str())
                && let Fact::Known { value, .. } = &mut facts.rdma
            {
                value[0].ports[0].rate = Fact::known(Gbps(200.0), "rate");
            }
        }
        let ledger = ledger(&events);
        let observed = observe(&ledger);
        let slow = |seen: &crate::judge::Observation<'_>| {
            let ends = [&seen.pair.from, &seen.pair.to];
            ends.iter()
                .any(|nic| ["node03", "node04"].contains(&nic.node.0.as_str()))
        };
        for one in &observed.usual {
            let plain = crate::judge::expected(&ledger, one.probe);
            assert_eq!(*one.expected, plain);
            for other in &observed.usual {
                let shared = Arc::ptr_eq(&one.expected, &other.expected);
                assert_eq!(shared, slow(one) == slow(other));
            }
        }
    }
}
