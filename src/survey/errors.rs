//! Counters of errors and congestion of one port, read before and after a probe.

use super::counters::{of_driver, of_port};
use super::parse;
use super::root::Root;
use crate::model::{Counter, CounterStep, Fact, Grown};

/// What tells of a bad link, of loss and of congestion. Of the link (InfiniBand Architecture
/// Specification); of mlx5; of bnxt_re, irdma, EFA; of rxe.
const WATCHED: &[&str] = &[
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "duplicate_request",
    "out_of_buffer",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "to_retransmits",
    "seq_err_naks_rcvd",
    "tx_cnp_pkts",
    "rx_cnp_pkts",
    "cnpSent",
    "cnpHandled",
    "retrans_pkts",
    "out_of_seq_request",
    "rcvd_seq_err",
    "completer_retry_err",
    "retry_exceeded_err",
];

/// What the counters of errors and congestion of a port stand at.
///
/// `device` may come from elsewhere: anything but a plain name is refused.
pub fn port_errors(root: &Root, device: &str, port: u8) -> Fact<Vec<Counter>> {
    if !parse::is_counter_name(device) {
        return Fact::unknown("not the name of an RDMA device");
    }
    let dir = root.path("sys/class/infiniband").join(device);
    let dir = dir.join("ports").join(port.to_string());
    let sets = [of_port(root, &dir), of_driver(root, &dir)];
    if let [Fact::Unknown { why }, Fact::Unknown { .. }] = &sets {
        return Fact::unknown(why);
    }
    let known = sets.into_iter().filter_map(|set| match set {
        Fact::Known { value, .. } => Some(value.values),
        Fact::Unknown { .. } => None,
    });
    let mut counters: Vec<Counter> = known.flatten().collect();
    counters.retain(|counter| WATCHED.contains(&counter.name.as_str()));
    Fact::known(counters, dir.display().to_string())
}

/// The counters that went up from one reading to the next, and those of which it is not known.
pub fn grown(before: Fact<Vec<Counter>>, after: Fact<Vec<Counter>>) -> Fact<Vec<Grown>> {
    let before = match before {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => return Fact::unknown(why),
    };
    after.map(|after| {
        let step = |now: &Counter| {
            let was = before.iter().find(|was| was.name == now.name)?;
            let step = CounterStep::between(was.value, now.value, now.saturates_at, true);
            let by = match step {
                CounterStep::By(0) => return None,
                CounterStep::By(more) => Some(more),
                // Where it stood before it counted nothing that a probe could add to.
                CounterStep::Ended if was.value == now.value => return None,
                CounterStep::Ended | CounterStep::Reset => None,
            };
            let name = now.name.clone();
            Some(Grown { name, by })
        };
        after.iter().filter_map(step).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Tree, port_path};
    use super::*;

    fn at(tree: &Tree, values: &[(&str, &str)]) -> Fact<Vec<Counter>> {
        for (name, value) in values {
            tree.file(&port_path("mlx5_0", 1, name), value);
        }
        port_errors(&tree.root(), "mlx5_0", 1)
    }

    #[test]
    fn what_went_up_is_told_and_nothing_else() {
        let tree = Tree::new();
        let before = at(
            &tree,
            &[
                ("counters/link_downed", "254"),
                ("counters/symbol_error", "65535"),
                ("counters/port_rcv_data", "1"),
                ("hw_counters/out_of_sequence", "7"),
                ("hw_counters/np_cnp_sent", "4294967295"),
                ("hw_counters/packet_seq_err", "9"),
            ],
        );
        let after = at(
            &tree,
            &[
                ("counters/link_downed", "255"),
                ("counters/port_rcv_data", "99"),
                ("hw_counters/out_of_sequence", "12"),
                ("hw_counters/np_cnp_sent", "1"),
            ],
        );
        let grown = grown(before, after);
        let told: Vec<_> = grown.value().unwrap().iter().collect();
        let told: Vec<_> = told.iter().map(|g| (g.name.as_str(), g.by)).collect();
        assert_eq!(
            told,
            [
                ("link_downed", None),
                ("np_cnp_sent", Some(2)),
                ("out_of_sequence", Some(5)),
            ]
        );
    }

    #[test]
    fn a_port_without_counters_and_a_name_that_is_a_path_are_unknown() {
        let tree = Tree::new();
        tree.dir("sys/class/infiniband/mlx5_0/ports/1");
        let root = tree.root();
        let why = |device| {
            port_errors(&root, device, 1)
                .why_unknown()
                .map(str::to_owned)
        };
        assert!(why("mlx5_0").unwrap().contains("counters: No such file"));
        assert_eq!(
            why("../../../etc").as_deref(),
            Some("not the name of an RDMA device")
        );
        let unknown = port_errors(&root, "mlx5_0", 1);
        assert!(grown(unknown.clone(), unknown).why_unknown().is_some());
    }
}
