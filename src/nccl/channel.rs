//! The lines that say how a channel goes to its peer: `Channel 02/0 : 5[5] -> 12[4] [send] via NET/IB/3/GDRDMA`.

use memchr::memmem;

use super::text::{digits_at_end, hexadecimal, number, small, until};

/// The longest number of a GPU that is believed.
const MAX_GPU: usize = 16;

/// The longest name of a network that is believed.
const MAX_NETWORK: usize = 64;

/// Which way data goes, as seen by the rank that speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To the peer.
    Send,
    /// From the peer.
    Receive,
}

/// What a channel line says of GPUDirect RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gdr {
    /// Nothing: data goes through host memory.
    No,
    /// `/GDRDMA`.
    Yes,
    /// `/GDRDMA(PCI)`: through PCIe although the GPU is on a chip-to-chip link (from 2.26.2).
    Pci,
}

/// How a channel goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way<'a> {
    /// Within the node, or across NVLink: `P2P/…`, `SHM/…`.
    Local,
    /// Through a network.
    Net(Net<'a>),
}

/// The network of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Net<'a> {
    /// The name of the network or plugin: `IB`, `Socket`, `AWS Libfabric`.
    pub network: &'a [u8],
    /// Whether switches reduce: `COLLNET/…`.
    pub collective: bool,
    /// The network's device, by number.
    pub device: u32,
    /// The rank whose NIC is used, where that is another one's (PXN).
    pub proxy: Option<u32>,
    /// GPUDirect RDMA.
    pub gdr: Gdr,
}

/// A channel and its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel<'a> {
    /// The rank that speaks.
    pub rank: u32,
    /// What is in brackets behind it: a PCI bus id in hexadecimal up to 2.18.1, then NVML's number.
    pub gpu: Option<&'a [u8]>,
    /// `None` where data stays in the node.
    pub direction: Option<Direction>,
    /// How it goes.
    pub way: Way<'a>,
    /// The communicator's address, which RCCL adds.
    pub communicator: Option<u64>,
}

/// What a text that begins like a channel line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read<'a> {
    Channel(Channel<'a>),
    /// A way is begun, but not said in full.
    Torn,
    /// Another line, such as the order of a ring.
    Other,
}

/// Reads a message that begins with `Channel`, `Ring`, `Coll` or `CollNet`.
pub(super) fn read(text: &[u8], is_whole: bool) -> Read<'_> {
    match ends(text) {
        None => Read::Other,
        Some(ends) => match channel(ends, is_whole) {
            Some(channel) => Read::Channel(channel),
            None => Read::Torn,
        },
    }
}

/// A rank, and what is in brackets behind it.
type End<'a> = (u32, Option<&'a [u8]>);

/// The left and right end, and what is behind ` via `.
struct Ends<'a> {
    left: End<'a>,
    right: Option<End<'a>>,
    direction: Option<Direction>,
    via: &'a [u8],
}

fn ends(text: &[u8]) -> Option<Ends<'_>> {
    let words = [&b"Channel "[..], b"Ring ", b"CollNet ", b"Coll "];
    let rest = words.iter().find_map(|word| text.strip_prefix(*word))?;
    let (_, rest) = number(rest)?;
    let rest = match rest.strip_prefix(b"/") {
        Some(rest) => number(rest)?.1,
        None => rest,
    };
    let (left, rest) = end(rest.strip_prefix(b" : ")?)?;
    let (right, rest) = match rest.strip_prefix(b" -> ") {
        Some(rest) => end(rest).map(|(right, rest)| (Some(right), rest))?,
        None => (None, rest),
    };
    let (direction, rest) = if let Some(rest) = rest.strip_prefix(b" [send]") {
        (Some(Direction::Send), rest)
    } else if let Some(rest) = rest.strip_prefix(b" [receive]") {
        (Some(Direction::Receive), rest)
    } else {
        (None, rest)
    };
    let via = rest.strip_prefix(b" via ")?;
    Some(Ends {
        left,
        right,
        direction,
        via,
    })
}

/// `5[101d0]` or `5`.
fn end(text: &[u8]) -> Option<(End<'_>, &[u8])> {
    let (rank, rest) = small(text)?;
    match rest.strip_prefix(b"[") {
        Some(inside) => {
            let mut digits = inside.iter().take(MAX_GPU + 1);
            let end = digits.position(|byte| *byte == b']')?;
            Some(((rank, Some(&inside[..end])), &inside[end + 1..]))
        }
        None => Some(((rank, None), rest)),
    }
}

fn channel<'a>(ends: Ends<'a>, is_whole: bool) -> Option<Channel<'a>> {
    let (via, communicator) = without_communicator(ends.via);
    let local = [&b"P2P/"[..], b"SHM", b"direct", b"GDR", b"NVLS"];
    if !via.starts_with(b"NET/") && local.iter().any(|word| via.starts_with(word)) {
        // Cut off or not, it is no network.
        return Some(Channel {
            rank: ends.left.0,
            gpu: ends.left.1,
            direction: None,
            way: Way::Local,
            communicator,
        });
    }
    let net = net(via, is_whole)?;
    // Up to 2.3 one line is printed, by the receiver.
    let direction = ends.direction.unwrap_or(Direction::Receive);
    let (rank, gpu) = match (direction, ends.right) {
        (Direction::Receive, Some(right)) => right,
        _ => ends.left,
    };
    Some(Channel {
        rank,
        gpu,
        direction: Some(direction),
        way: Way::Net(net),
        communicator,
    })
}

/// RCCL ends its lines with ` comm 0x22fcfb0 nRanks 02`.
fn without_communicator(via: &[u8]) -> (&[u8], Option<u64>) {
    // A look at the end is cheaper than a search, and most lines are not RCCL's.
    let end = via.len() - digits_at_end(via);
    let Some(before) = via[..end].strip_suffix(b" nRanks ") else {
        return (via, None);
    };
    let Some((before, after)) = until(before, b" comm 0x") else {
        return (via, None);
    };
    (before, hexadecimal(after).map(|(address, _)| address))
}

/// `NET/AWS Libfabric/0(2)/GDRDMA(PCI)/Shared`, read from the right, because a name may have anything
/// in it. What has no `/GDRDMA` is believed only where the end of the line was seen: the rest of a torn
/// line may be elsewhere.
fn net(via: &[u8], is_whole: bool) -> Option<Net<'_>> {
    let (collective, rest) = match via.strip_prefix(b"NET/") {
        Some(rest) => (false, rest),
        None => (true, via.strip_prefix(b"COLLNET/")?),
    };
    let (way, gdr) = suffixes(rest).or_else(|| with_junk(rest, is_whole))?;
    if gdr == Gdr::No && !is_whole {
        return None;
    }
    let (way, proxy) = without_proxy(way);
    let start = way.len() - digits_at_end(way);
    let (device, _) = small(&way[start..])?;
    let network = way[..start].strip_suffix(b"/")?;
    is_name(network).then_some(Net {
        network,
        collective,
        device,
        proxy,
        gdr,
    })
}

/// Network and device, and what the suffixes say; `None` where other things are behind them.
fn suffixes(rest: &[u8]) -> Option<(&[u8], Gdr)> {
    let rest = rest.strip_suffix(b"/Shared").unwrap_or(rest);
    let rest = rest.strip_suffix(b"/GDCopy").unwrap_or(rest);
    let (way, gdr) = if let Some(way) = rest.strip_suffix(b"/GDRDMA") {
        (way, Gdr::Yes)
    } else if let Some(way) = rest.strip_suffix(b"/GDRDMA(PCI)") {
        (way, Gdr::Pci)
    } else {
        (rest, Gdr::No)
    };
    let is_end = way
        .last()
        .is_some_and(|byte| byte.is_ascii_digit() || *byte == b')');
    is_end.then_some((way, gdr))
}

/// The same where a launcher, a citation or a torn line is behind it.
fn with_junk(rest: &[u8], is_whole: bool) -> Option<(&[u8], Gdr)> {
    if let Some(at) = memmem::find(rest, b"/GDRDMA") {
        let (gdr, junk) = match rest[at + 7..].strip_prefix(b"(PCI)") {
            Some(junk) => (Gdr::Pci, junk),
            None => (Gdr::Yes, &rest[at + 7..]),
        };
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
        let is_torn = is_whole && junk.first().is_some_and(is_word);
        return (!is_torn).then_some((&rest[..at], gdr));
    }
    let rest = match memmem::rfind(rest, b" [cite: ") {
        Some(at) => &rest[..at],
        None => rest.strip_suffix(b"\x1b[0m")?.trim_ascii_end(),
    };
    suffixes(rest)
}

/// Without `(2)`, the rank whose NIC is used.
fn without_proxy(way: &[u8]) -> (&[u8], Option<u32>) {
    let Some(inside) = way.strip_suffix(b")") else {
        return (way, None);
    };
    let start = inside.len() - digits_at_end(inside);
    let proxy = small(&inside[start..]).map(|(rank, _)| rank);
    match (&inside[..start], proxy) {
        // `(-1)`: nobody's.
        (before, _) if before.ends_with(b"(-") => (&before[..start - 2], None),
        (before, Some(_)) if before.ends_with(b"(") => (&before[..start - 1], proxy),
        _ => (way, None),
    }
}

/// Whether this can be the name of a network, and not two lines run into each other: each line of NCCL
/// has one of these marks before the name.
fn is_name(name: &[u8]) -> bool {
    let fits =
        |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b':' | b'>' | b'[' | b']');
    (1..=MAX_NETWORK).contains(&name.len()) && name.iter().all(fits)
}
