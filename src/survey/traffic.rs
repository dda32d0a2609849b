//! What ports carry while their node is surveyed: their data counters, read twice.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::parse;
use super::root::Root;
use crate::model::{Fact, Gbps, Port, RdmaDevice, Traffic};

/// Between the two readings; drivers answer from memory that is up to 10 ms old.
const INTERVAL: Duration = Duration::from_millis(200);

/// The counters count words of 4 bytes (InfiniBand Architecture Specification, vol. 1, PortXmitData).
const BITS: f64 = 32.0;

/// The first reading.
pub(super) struct Begun {
    at: Instant,
    first: Vec<Option<[u64; 2]>>,
}

/// Reads the counters of every port for the first time.
pub(super) fn begin(root: &Root, rdma: &mut Fact<Vec<RdmaDevice>>) -> Begun {
    let at = Instant::now();
    let live = root.is_live();
    let read = |(device, port): (&str, &mut Port)| {
        live.then(|| words(root, device, port.number)).flatten()
    };
    let first = ports(rdma).map(read).collect();
    Begun { at, first }
}

/// Reads them again, and says in each port what it carried in between.
pub(super) fn end(root: &Root, begun: &Begun, rdma: &mut Fact<Vec<RdmaDevice>>) {
    if begun.first.iter().all(Option::is_none) {
        return;
    }
    sleep(INTERVAL.saturating_sub(begun.at.elapsed()));
    for ((device, port), first) in ports(rdma).zip(&begun.first) {
        let (Some(before), Some(after)) = (first, words(root, device, port.number)) else {
            continue;
        };
        if let Some(traffic) = between(*before, after, begun.at.elapsed()) {
            let from = counter(root, device, port.number, "port_xmit_data");
            port.traffic = Fact::known(traffic, format!("{}, read twice", from.display()));
        }
    }
}

fn ports(rdma: &mut Fact<Vec<RdmaDevice>>) -> impl Iterator<Item = (&str, &mut Port)> {
    let devices = match rdma {
        Fact::Known { value, .. } => value.as_mut_slice(),
        Fact::Unknown { .. } => &mut [],
    };
    devices.iter_mut().flat_map(|device| {
        let name = &device.name;
        device
            .ports
            .iter_mut()
            .map(move |port| (name.as_str(), port))
    })
}

/// What a port carries while `meanwhile` runs, which it does only where there are counters.
pub(super) fn during(
    root: &Root,
    device: &str,
    port: u8,
    meanwhile: &mut dyn FnMut(),
) -> Option<Traffic> {
    let before = words(root, device, port)?;
    let at = Instant::now();
    meanwhile();
    between(before, words(root, device, port)?, at.elapsed())
}

fn counter(root: &Root, device: &str, port: u8, name: &str) -> PathBuf {
    let ports = root.path("sys/class/infiniband").join(device).join("ports");
    ports.join(port.to_string()).join("counters").join(name)
}

fn words(root: &Root, device: &str, port: u8) -> Option<[u64; 2]> {
    let read = |name| {
        let fact = root.fact(&counter(root, device, port, name), parse::counter);
        fact.value().copied()
    };
    Some([read("port_xmit_data")?, read("port_rcv_data")?])
}

/// The rates between two readings; none where a counter was reset.
fn between(before: [u64; 2], after: [u64; 2], elapsed: Duration) -> Option<Traffic> {
    let rate = |direction: usize| {
        let grown = after[direction].checked_sub(before[direction])?;
        let rate = grown as f64 * BITS / 1e9 / elapsed.as_secs_f64();
        rate.is_finite().then_some(Gbps(rate))
    };
    Some(Traffic {
        tx: rate(0)?,
        rx: rate(1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_meanwhile_is_what_a_port_carries() {
        let dir = tempfile::tempdir().unwrap();
        let counters = dir
            .path()
            .join("sys/class/infiniband/mlx5_0/ports/1/counters");
        std::fs::create_dir_all(&counters).unwrap();
        let set = |name: &str, value: u64| {
            std::fs::write(counters.join(name), format!("{value}\n")).unwrap();
        };
        set("port_xmit_data", 7);
        set("port_rcv_data", 7);
        let root = Root::at(dir.path());
        let of_port = |port, grown: u64| {
            during(&root, "mlx5_0", port, &mut || {
                set("port_xmit_data", 7 + grown);
                sleep(Duration::from_millis(1));
            })
        };
        let traffic = of_port(1, 1 << 40).unwrap();
        assert!(traffic.tx > Gbps(100.0), "{traffic:?}");
        assert_eq!(traffic.rx, Gbps(0.0));
        assert_eq!(of_port(1, 0), None, "it went back");
        assert_eq!(of_port(2, 0), None, "there is none");
    }

    #[test]
    fn words_become_bits_and_a_reset_is_no_rate() {
        let tenth = Duration::from_millis(100);
        let traffic = between([0, 1000], [31_250_000, 1000], tenth).unwrap();
        assert_eq!(
            traffic,
            Traffic {
                tx: Gbps(10.0),
                rx: Gbps(0.0)
            }
        );
        assert_eq!(between([5, 0], [4, 9], tenth), None);
        assert_eq!(between([0, 0], [1, 1], Duration::ZERO), None);
    }
}
