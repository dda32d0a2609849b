//! NICs that somebody works with, by what their node's survey found.

use crate::model::{NicId, Port, RdmaDevice, busy_with, held_by_a_job, left_alone};

/// Why a NIC should be left alone, if it should: a process holds reliable connections on it, or it
/// carried traffic while its node was surveyed.
pub fn in_use(nic: &NicId, device: &RdmaDevice, port: &Port) -> Option<String> {
    Some(left_alone(nic, &work_on(device, Some(port))?))
}

/// Whose work is on a device and its port, if any is.
pub fn work_on(device: &RdmaDevice, port: Option<&Port>) -> Option<String> {
    let held = |device: &RdmaDevice| held_by_a_job(device.queue_pairs.value()?);
    held(device).or_else(|| busy(device, port?))
}

fn busy(device: &RdmaDevice, port: &Port) -> Option<String> {
    // What software RDMA says of its rate means nothing.
    let line = port.rate.value().filter(|_| device.software.is_none());
    busy_with(port.traffic.value()?, line.copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::{facts, port};
    use crate::model::{Fact, Gbps, QueuePairHolder, Traffic};

    fn said(change: impl FnOnce(&mut RdmaDevice)) -> Option<String> {
        let mut facts = facts(vec![("mlx5_0", "0000:01:00.0", port())]);
        if let Fact::Known { value, .. } = &mut facts.rdma {
            change(&mut value[0]);
        }
        let nic = NicId {
            node: "node01".into(),
            device: "mlx5_0".into(),
            port: 1,
        };
        let device = &facts.rdma.value().unwrap()[0];
        in_use(&nic, device, &device.ports[0])
    }

    fn holder(pid: Option<u32>, rc: u32, ud: u32) -> QueuePairHolder {
        QueuePairHolder {
            pid,
            name: "python3".into(),
            rc,
            ud,
            other: 0,
        }
    }

    #[test]
    fn connections_of_a_process_are_a_job_and_those_of_daemons_are_not() {
        let with = |holders: Vec<QueuePairHolder>| {
            said(|device| device.queue_pairs = Fact::known(holders, "RDMA netlink"))
        };
        assert_eq!(
            with(vec![holder(Some(4711), 128, 1), holder(Some(4712), 1, 0)]).as_deref(),
            Some(
                "mlx5_0 of node01 is in use: 128 RC queue pairs of python3 (pid 4711), and 1 more (--force \
                 probes it all the same)"
            )
        );
        assert_eq!(with(vec![holder(Some(7), 0, 3), holder(None, 12, 1)]), None);
        let unseen = QueuePairHolder {
            name: QueuePairHolder::UNSEEN.into(),
            ..holder(None, 8, 0)
        };
        let why = with(vec![unseen]).unwrap();
        let says =
            "mlx5_0 of node01 is in use: 8 RC queue pairs of a process not seen from here (--force";
        assert!(why.starts_with(says), "{why}");
        assert_eq!(said(|_| {}), None, "what nobody told is no reason");
    }

    #[test]
    fn traffic_counts_from_a_hundredth_of_the_line() {
        let with = |rate: Option<f64>, tx: f64| {
            said(|device| {
                let port = &mut device.ports[0];
                port.rate = match rate {
                    Some(rate) => Fact::known(Gbps(rate), "rate"),
                    None => Fact::unknown("Permission denied"),
                };
                let (tx, rx) = (Gbps(tx), Gbps(0.0));
                port.traffic = Fact::known(Traffic { tx, rx }, "port_xmit_data");
            })
        };
        assert_eq!(with(Some(400.0), 3.9), None);
        let why = with(Some(400.0), 4.1).unwrap();
        assert!(why.contains("it sent 4.10 Gb/s and received"), "{why}");
        assert_eq!(with(None, 0.09), None);
        assert!(with(None, 0.11).is_some());
        assert!(with(Some(f64::NAN), 0.11).is_some());
    }
}
