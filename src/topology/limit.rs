//! What the PCIe links above a NIC carry: the narrowest of them is the NIC's limit.

use crate::model::{
    Gbps, LinkSpeed, LinkState, PciAddress, PciFunction, PciRole, PcieLink, PcieTree,
};

/// Bytes around the payload of a memory write: frame 4 (start, sequence number, end), header 16
/// with a 64-bit address, CRC of the link 4. PCI Express Base Specification, 2.2 and 3.6.
const WRITE_OVERHEAD: f64 = 24.0;
/// As above for a completion with data, whose header has 12 bytes.
const COMPLETION_OVERHEAD: f64 = 20.0;
/// Generation 6 has no frame and no CRC around each packet: the header alone.
const FLIT_OVERHEAD: f64 = 16.0;

/// The payload in each packet, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadSize {
    /// The smallest MaxPayload on the path, where that of the NIC itself was read.
    Read(u16),
    /// Assumed, for MaxPayload could not be read: what servers are usually set to.
    Assumed(u16),
}

impl PayloadSize {
    /// The bytes.
    pub fn bytes(self) -> u16 {
        match self {
            Self::Read(bytes) | Self::Assumed(bytes) => bytes,
        }
    }
}

/// One link on the way from a device to its root, joined from what both of its ends tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkOnPath {
    /// The lower end: the device, or the upper port of a switch.
    pub below: PciAddress,
    /// The upper end: a root port, or a lower port of a switch; `None` on the root bus.
    pub above: Option<PciAddress>,
    /// What it runs at, or why that is unknown.
    pub current: Result<LinkState, String>,
    /// What the lower end is capable of.
    pub below_capable: Option<LinkState>,
    /// What the upper end, the slot, is capable of.
    pub above_capable: Option<LinkState>,
    /// Whether the lower end is a GPU, whose link slows down to save power.
    pub is_gpu: bool,
}

impl LinkOnPath {
    /// What both ends are capable of, as far as known.
    pub fn capable(&self) -> Option<LinkState> {
        match (self.below_capable, self.above_capable) {
            (Some(below), Some(above)) => Some(LinkState {
                speed: below.speed.min(above.speed),
                width: below.width.min(above.width),
            }),
            (one, other) => one.or(other),
        }
    }

    /// Whether it runs below what both ends are capable of. A GPU's lower speed is none: its link
    /// slows down to save power, and a NIC's does not.
    pub fn is_degraded(&self) -> bool {
        self.is_narrowed() || (self.is_slowed() && !self.is_gpu)
    }

    /// Whether it has fewer lanes than both ends are capable of.
    pub fn is_narrowed(&self) -> bool {
        matches!((&self.current, self.capable()), (Ok(now), Some(can)) if now.width < can.width)
    }

    /// Whether it is slower than both ends are capable of.
    pub fn is_slowed(&self) -> bool {
        matches!((&self.current, self.capable()), (Ok(now), Some(can)) if now.speed < can.speed)
    }
}

/// What PCIe lets a NIC send and receive.
#[derive(Debug, Clone, PartialEq)]
pub struct PcieLimit {
    /// The most it can receive: it writes to memory.
    pub receive: Gbps,
    /// The most it can send: completions of its reads arrive.
    pub send: Gbps,
    /// What the narrowest link carries with its packet headers, either way.
    pub link_rate: Gbps,
    /// The narrowest link.
    pub narrowest: LinkOnPath,
    /// The payload in each packet that this was computed with.
    pub payload: PayloadSize,
    /// Links of unknown speed or width, which may be narrower.
    pub unknown: usize,
}

/// The limit of the NIC at `address`.
///
/// # Errors
/// Why it is unknown: there is no such function, or no link on its way up is known.
pub fn pcie_limit(tree: &PcieTree, address: &PciAddress) -> Result<PcieLimit, String> {
    let links = links_on_path(tree, address);
    let Some(first) = links.first() else {
        return Err(format!("the PCIe tree of the node has no {address}"));
    };
    let known = links.iter().filter_map(|link| {
        let state = link.current.as_ref().ok()?;
        Some((raw_rate(*state), link))
    });
    let narrowest = known
        .clone()
        .min_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, link)| link);
    let Some(narrowest) = narrowest else {
        return Err(match &first.current {
            Err(why) => why.clone(),
            Ok(_) => "no link is known".to_owned(),
        });
    };
    let payload = payload(tree, address);
    let state = narrowest.current.clone()?;
    Ok(PcieLimit {
        receive: write_rate(state, payload.bytes()),
        send: read_rate(state, payload.bytes().min(asked(tree, address))),
        link_rate: Gbps(raw_rate(state)),
        narrowest: narrowest.clone(),
        payload,
        unknown: links.len() - known.count(),
    })
}

/// What writes to and from a device carry once each link on its way is as fast as both of its ends can
/// be, in Gb/s; `None` where an end does not tell, as a hypervisor's. A GPU's link slows down while it
/// is idle: what it runs at says nothing then.
pub fn capable_rate(tree: &PcieTree, address: &PciAddress) -> Option<Gbps> {
    let payload = payload(tree, address).bytes();
    let rates = links_on_path(tree, address).into_iter().map(|link| {
        link.below_capable.zip(link.above_capable)?;
        Some(write_rate(link.capable()?, payload))
    });
    let rates = rates.collect::<Option<Vec<_>>>()?;
    rates.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Bits per second of a link before headers, in Gb/s: transfers × lanes × coding.
///
/// Coding is 8 bits in 10 up to generation 2, 128 in 130 up to 5, and 236 bytes of packets in
/// each 256-byte flit in 6.
fn raw_rate(state: LinkState) -> f64 {
    let coding = match state.speed {
        LinkSpeed::Gen1 | LinkSpeed::Gen2 => 8.0 / 10.0,
        LinkSpeed::Gen3 | LinkSpeed::Gen4 | LinkSpeed::Gen5 => 128.0 / 130.0,
        LinkSpeed::Gen6 => 236.0 / 256.0,
    };
    state.speed.gigatransfers() * f64::from(state.width) * coding
}

fn share(state: LinkState, payload: u16, overhead: f64) -> f64 {
    let overhead = match state.speed {
        LinkSpeed::Gen6 => FLIT_OVERHEAD,
        _ => overhead,
    };
    f64::from(payload) / (f64::from(payload) + overhead)
}

/// What writes in packets of `payload` bytes carry.
fn write_rate(state: LinkState, payload: u16) -> Gbps {
    Gbps(raw_rate(state) * share(state, payload, WRITE_OVERHEAD))
}

/// What completions of reads in packets of `payload` bytes carry.
fn read_rate(state: LinkState, payload: u16) -> Gbps {
    Gbps(raw_rate(state) * share(state, payload, COMPLETION_OVERHEAD))
}

/// What one read request of the device asks for at most: no completion has more.
fn asked(tree: &PcieTree, address: &PciAddress) -> u16 {
    let function = tree.function(address).map(|f| physical(tree, f));
    let control = function.and_then(|function| function.control.value());
    control.map_or(u16::MAX, |control| control.max_read_request)
}

/// The smallest MaxPayload that all on the path are capable of, where each tells.
pub fn payload_capable(tree: &PcieTree, address: &PciAddress) -> Option<u16> {
    let chain = tree.chain(address);
    let device = chain.first().map(|function| physical(tree, function));
    let all = device.into_iter().chain(chain.iter().skip(1).copied());
    let capable = all.map(|function| function.control.value()?.payload_capable);
    capable.collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// What the links above a device would let it receive and send with packets of `payload` bytes and
/// larger read requests.
pub fn rates_with(limit: &PcieLimit, payload: u16) -> Option<(Gbps, Gbps)> {
    let state = limit.narrowest.current.clone().ok()?;
    Some((write_rate(state, payload), read_rate(state, payload)))
}

/// The smallest MaxPayload on the path: no packet may be larger than any of them.
fn payload(tree: &PcieTree, address: &PciAddress) -> PayloadSize {
    const USUAL: u16 = 256;
    let chain = tree.chain(address);
    let device = chain.first().map(|function| physical(tree, function));
    if device.is_none_or(|function| function.control.value().is_none()) {
        return PayloadSize::Assumed(USUAL);
    }
    let sizes = chain[1..].iter().copied().chain(device);
    sizes
        .filter_map(|function| Some(function.control.value()?.max_payload))
        .min()
        .map_or(PayloadSize::Assumed(USUAL), PayloadSize::Read)
}

/// The links from a device up to its root, lowest first; empty where the tree has no such device.
pub fn links_on_path(tree: &PcieTree, address: &PciAddress) -> Vec<LinkOnPath> {
    // Device and the port above it, then the upper port of a switch and the port above that.
    tree.chain(address)
        .chunks(2)
        .map(|ends| link(tree, ends[0], ends.get(1).copied()))
        .collect()
}

/// A virtual function has the link of its physical one, and tells nothing of it (SR-IOV, 3.5).
fn physical<'a>(tree: &'a PcieTree, function: &'a PciFunction) -> &'a PciFunction {
    let physical = function.physical_function.as_ref();
    physical
        .and_then(|fact| tree.function(fact.value()?))
        .unwrap_or(function)
}

fn link(tree: &PcieTree, below: &PciFunction, above: Option<&PciFunction>) -> LinkOnPath {
    let lower = &physical(tree, below).link;
    // What a hypervisor's port says of itself is invented, but below it may be a real device.
    let upper = above
        .filter(|port| !port.is_emulated_bridge())
        .map(|port| &port.link);
    LinkOnPath {
        below: below.address.clone(),
        above: above.map(|port| port.address.clone()),
        current: current(lower, upper),
        below_capable: lower.capable(),
        above_capable: upper.and_then(PcieLink::capable),
        is_gpu: below.role == PciRole::Gpu,
    }
}

/// Both ends tell of the same link. Where they disagree, one was read while it changed: the lower.
fn current(lower: &PcieLink, upper: Option<&PcieLink>) -> Result<LinkState, String> {
    match (lower.current(), upper.and_then(PcieLink::current)) {
        (Some(one), Some(other)) => Ok(LinkState {
            speed: one.speed.min(other.speed),
            width: one.width.min(other.width),
        }),
        (Some(one), None) | (None, Some(one)) => Ok(one),
        (None, None) => {
            let why = lower.speed.why_unknown().or(lower.width.why_unknown());
            Err(why.unwrap_or_default().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Fact;
    use crate::model::testing::pcie::{TwoSockets, address, control, flat, link as ends};

    fn at(speed: LinkSpeed, width: u8) -> LinkState {
        LinkState { speed, width }
    }

    #[test]
    fn an_idle_gpu_could_carry_what_its_ends_can() {
        let mut tree = TwoSockets::tree();
        let rate = capable_rate(&tree, &address(TwoSockets::GPU2)).unwrap();
        assert!((rate.0 - 461.0).abs() < 2.0, "{rate}");
        tree.functions
            .iter_mut()
            .filter(|function| function.address.0 == *"0000:c2:01.0")
            .for_each(|port| port.vendor = Fact::known(crate::model::VENDOR_QEMU, "vendor"));
        assert_eq!(capable_rate(&tree, &address(TwoSockets::GPU2)), None);
        assert_eq!(capable_rate(&tree, &address("0000:99:00.0")), None);
    }

    /// Gb/s at MaxPayload 256: what an operator should see beside a measurement.
    #[test]
    fn rates_of_the_links_that_servers_have() {
        for (speed, width, write, read) in [
            (LinkSpeed::Gen3, 8, 58.0, 58.0),
            (LinkSpeed::Gen3, 16, 115.0, 117.0),
            (LinkSpeed::Gen4, 8, 115.0, 117.0),
            (LinkSpeed::Gen4, 16, 231.0, 234.0),
            (LinkSpeed::Gen5, 8, 231.0, 234.0),
            (LinkSpeed::Gen5, 16, 461.0, 468.0),
        ] {
            let state = at(speed, width);
            // The table is rounded, at Gen4 x16 up from 230.5.
            assert!(
                (write_rate(state, 256).0 - write).abs() < 0.6,
                "{state} write"
            );
            assert!((read_rate(state, 256).0 - read).abs() < 0.6, "{state} read");
        }
        // 2.5 GT/s with 8 bits in 10: 2 Gb/s a lane.
        assert!((raw_rate(at(LinkSpeed::Gen1, 1)) - 2.0).abs() < 1e-9);
        assert!((raw_rate(at(LinkSpeed::Gen6, 16)) - 944.0).abs() < 1e-9);
        assert!((write_rate(at(LinkSpeed::Gen6, 16), 256).0 - 888.5).abs() < 0.1);
    }

    #[test]
    fn the_narrowest_link_is_the_limit() {
        let mut tree = TwoSockets::tree();
        let nic = address(TwoSockets::NIC0);
        let whole = pcie_limit(&tree, &nic).unwrap();
        assert_eq!(whole.receive.0.round(), 461.0);
        assert_eq!(whole.narrowest.below, nic);
        assert!(!whole.narrowest.is_degraded());
        assert_eq!((whole.payload, whole.unknown), (PayloadSize::Read(256), 0));

        // The link above the switch, told by both of its ends.
        let links = links_on_path(&tree, &nic);
        let (lower, upper) = (links[1].below.clone(), links[1].above.clone().unwrap());
        for function in &mut tree.functions {
            if [&lower, &upper].contains(&&function.address) {
                function.link = ends((LinkSpeed::Gen5, 8), (LinkSpeed::Gen5, 16));
            }
        }
        let limit = pcie_limit(&tree, &nic).unwrap();
        assert_eq!(limit.send.0.round(), 234.0);
        assert_eq!(limit.link_rate.0.round(), 252.0);
        assert_eq!(limit.narrowest.below, lower);
        assert_eq!(limit.narrowest.above, Some(upper));
        assert!(limit.narrowest.is_degraded());
    }

    #[test]
    fn a_slot_that_is_narrow_is_told_from_one_that_trained_down() {
        let mut tree = TwoSockets::tree();
        let limit = pcie_limit(&tree, &address(TwoSockets::NIC4)).unwrap();
        assert!(limit.narrowest.is_degraded());
        assert_eq!(limit.narrowest.current, Ok(at(LinkSpeed::Gen5, 8)));
        assert_eq!(limit.narrowest.capable(), Some(at(LinkSpeed::Gen5, 16)));
        let slot = limit.narrowest.above.unwrap();
        let port = tree.functions.iter_mut().find(|f| f.address == slot);
        port.unwrap().link.max_width = Fact::known(8, "max_link_width");
        let limit = pcie_limit(&tree, &address(TwoSockets::NIC4)).unwrap();
        assert!(!limit.narrowest.is_degraded());
        assert_eq!(limit.narrowest.below_capable, Some(at(LinkSpeed::Gen5, 16)));
        assert_eq!(limit.narrowest.above_capable, Some(at(LinkSpeed::Gen5, 8)));
    }

    #[test]
    fn a_gpu_may_be_slow_and_not_narrow_and_a_nic_neither() {
        let first = |device: &str, now: (LinkSpeed, u8)| {
            let mut tree = TwoSockets::tree();
            let device = address(device);
            let port = tree.chain(&device)[1].address.clone();
            for function in &mut tree.functions {
                if [&device, &port].contains(&&function.address) {
                    function.link = ends(now, (LinkSpeed::Gen5, 16));
                }
            }
            links_on_path(&tree, &device).remove(0)
        };
        let (slow, narrow) = ((LinkSpeed::Gen1, 16), (LinkSpeed::Gen5, 8));
        assert!(!first(TwoSockets::GPU0, slow).is_degraded());
        assert!(first(TwoSockets::GPU0, slow).is_slowed());
        assert!(first(TwoSockets::GPU0, narrow).is_degraded());
        assert!(first(TwoSockets::NIC0, slow).is_degraded());
        assert!(first(TwoSockets::NIC0, narrow).is_degraded());
    }

    #[test]
    fn a_small_payload_costs_and_an_unread_one_is_assumed() {
        let mut tree = TwoSockets::tree();
        let nic = address(TwoSockets::NIC0);
        let port = tree.chain(&nic)[1].address.clone();
        for function in &mut tree.functions {
            if function.address == port {
                function.control = control(128);
            }
        }
        let limit = pcie_limit(&tree, &nic).unwrap();
        assert_eq!(limit.payload, PayloadSize::Read(128));
        assert_eq!(limit.receive.0.round(), 425.0);
        for function in &mut tree.functions {
            function.control = Fact::unknown("needs root");
        }
        let limit = pcie_limit(&tree, &nic).unwrap();
        assert_eq!(limit.payload, PayloadSize::Assumed(256));
    }

    #[test]
    fn small_read_requests_cost_a_sender_alone() {
        let mut tree = TwoSockets::tree();
        let nic = address(TwoSockets::NIC0);
        let whole = pcie_limit(&tree, &nic).unwrap();
        assert_eq!(payload_capable(&tree, &nic), Some(512));
        let function = tree.functions.iter_mut().find(|f| f.address == nic);
        if let Fact::Known { value, .. } = &mut function.unwrap().control {
            value.max_read_request = 128;
            value.payload_capable = Some(256);
        }
        let limit = pcie_limit(&tree, &nic).unwrap();
        assert_eq!(limit.receive, whole.receive);
        assert_eq!(limit.send.0.round(), 436.0);
        assert_eq!(payload_capable(&tree, &nic), Some(256));
        let (receive, send) = rates_with(&limit, 256).unwrap();
        assert_eq!((receive, send), (whole.receive, whole.send));
    }

    #[test]
    fn a_virtual_function_has_the_link_of_its_physical_one() {
        let mut tree = TwoSockets::tree();
        let physical = address(TwoSockets::NIC4);
        let mut function = tree.function(&physical).unwrap().clone();
        function.address = address("0000:c4:00.1");
        function.link = PcieLink::unknown("the function states no link speed");
        function.physical_function = Some(Fact::known(physical.clone(), "physfn"));
        tree.functions.push(function);
        let limit = pcie_limit(&tree, &address("0000:c4:00.1")).unwrap();
        assert_eq!(limit.receive, pcie_limit(&tree, &physical).unwrap().receive);
        assert_eq!(limit.unknown, 0);
    }

    #[test]
    fn a_hidden_link_is_unknown_and_not_slow() {
        let mut tree = flat(&["0000:00:05.0"]);
        tree.functions[0].link = PcieLink::unknown("a hypervisor hides it");
        let why = pcie_limit(&tree, &address("0000:00:05.0")).unwrap_err();
        assert_eq!(why, "a hypervisor hides it");
        assert!(pcie_limit(&tree, &address("0000:00:09.0")).is_err());
    }

    #[test]
    fn what_a_hypervisors_port_claims_does_not_narrow_a_real_link() {
        let mut tree = TwoSockets::tree();
        let nic = address(TwoSockets::NIC1);
        let port = tree.chain(&nic)[1].address.clone();
        let whole = pcie_limit(&tree, &nic).unwrap().receive;
        for function in &mut tree.functions {
            if function.address == port {
                function.vendor = Fact::known(crate::model::VENDOR_QEMU, "vendor");
                function.link = ends((LinkSpeed::Gen4, 16), (LinkSpeed::Gen4, 16));
            }
        }
        assert_eq!(pcie_limit(&tree, &nic).unwrap().receive, whole);
    }
}
