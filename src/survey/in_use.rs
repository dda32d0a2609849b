//! Whether somebody works with a NIC right now: looked at just before it is probed, because a job
//! may have begun since its node was surveyed.

use std::thread::sleep;
use std::time::Duration;

use super::root::Root;
use super::{device, parse, queue_pairs, traffic};
use crate::model::{Gbps, Traffic, busy_with, held_by_a_job};

/// Between two readings of a port's counters: a probe waits for it. At 1 % of 400 Gb/s, 10 MB pass.
const INTERVAL: Duration = Duration::from_millis(20);

/// What keeps a port from being probed, if something does: reliable connections of another process,
/// or traffic. What cannot be told is no reason.
///
/// Takes 20 ms where the port has counters, and as long again where there seems to be traffic. This
/// process must move no data meanwhile, or its own is seen. `device` may come from elsewhere: of
/// anything but a plain name nothing is known.
pub fn in_use(root: &Root, device: &str, port: u8) -> Option<String> {
    if !root.is_live() || !parse::is_counter_name(device) {
        return None;
    }
    let holders = queue_pairs::of_others(root, device);
    let held = holders.value().and_then(|all| held_by_a_job(all));
    let look = || traffic::during(root, device, port, &mut || sleep(INTERVAL));
    held.or_else(|| busy(look()?, look, line(root, device, port)))
}

/// What a port carries, seen twice: some drivers look at their counters once a second or less, and
/// then show at once what passed long before.
fn busy(
    first: Traffic,
    again: impl FnOnce() -> Option<Traffic>,
    line: Option<Gbps>,
) -> Option<String> {
    busy_with(&first, line)?;
    busy_with(&again()?, line)
}

/// The rate of a port; what software RDMA says of its own means nothing.
fn line(root: &Root, device: &str, port: u8) -> Option<Gbps> {
    let dir = root.path("sys/class/infiniband").join(device);
    if device::is_software(root, &dir) {
        return None;
    }
    let file = dir.join("ports").join(port.to_string()).join("rate");
    root.fact(&file, parse::rate).value().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(tx: f64) -> Traffic {
        let (tx, rx) = (Gbps(tx), Gbps(0.0));
        Traffic { tx, rx }
    }

    #[test]
    fn traffic_counts_that_is_there_twice() {
        let line = Some(Gbps(400.0));
        let said = |first, second| busy(traffic(first), || Some(traffic(second)), line);
        let why = said(9.0, 5.0).unwrap();
        assert!(why.starts_with("it sent 5.00 Gb/s"), "{why}");
        assert_eq!(said(9.0, 0.0), None);
        assert_eq!(said(3.9, 9.0), None);
        let never = || panic!("an idle port is looked at once");
        assert_eq!(busy(traffic(0.0), never, line), None);
    }

    #[test]
    fn the_line_is_that_of_the_port_and_none_of_software() {
        let dir = tempfile::tempdir().unwrap();
        let devices = dir.path().join("sys/class/infiniband");
        for device in ["mlx5_0", "rxe0"] {
            let port = devices.join(device).join("ports/1");
            std::fs::create_dir_all(&port).unwrap();
            std::fs::write(port.join("rate"), "400 Gb/sec (4X NDR)\n").unwrap();
        }
        std::fs::write(devices.join("rxe0/parent"), "eth1\n").unwrap();
        let root = Root::at(dir.path());
        assert_eq!(line(&root, "mlx5_0", 1), Some(Gbps(400.0)));
        assert_eq!(line(&root, "mlx5_0", 2), None);
        assert_eq!(line(&root, "rxe0", 1), None);
    }

    #[test]
    fn nothing_is_known_of_a_snapshot_or_of_what_is_no_device() {
        assert_eq!(in_use(&Root::at("/tmp"), "mlx5_0", 1), None);
        assert_eq!(in_use(&Root::live(), "../mlx5_0", 1), None);
    }
}
