//! What the peer says of itself, checked, and the way there.

use crate::model::{Endpoint, LinkLayer};
use crate::verbs::{Path, PathFacts, PathMtu};

use super::error::ProbeError;

/// Queue pair and packet sequence numbers have 24 bits (IBA vol. 1 §9.2).
const MOST_24_BITS: u32 = 0x00ff_ffff;

/// The way from `local` to `peer`, after checking what the peer said against what it must be.
///
/// On Ethernet, and on InfiniBand between subnets, the way has a global route header.
pub(super) fn path_to(
    peer: &Endpoint,
    local: &Endpoint,
    link_layer: LinkLayer,
    gid_index: u8,
) -> Result<Path, ProbeError> {
    check_numbers(peer, local.queue_pairs.len())?;
    let mtu = mtu_of(peer.mtu)?.min(mtu_of(local.mtu)?);
    let global = match link_layer {
        LinkLayer::Ethernet => true,
        LinkLayer::InfiniBand => peer.gid.bytes()[..8] != local.gid.bytes()[..8],
    };
    if global && peer.gid.is_empty() {
        return Err(refused("its GID is empty"));
    }
    if !global && peer.lid == 0 {
        return Err(refused(
            "its LID is 0: no subnet manager has configured its port",
        ));
    }
    Ok(Path {
        gid_index: global.then_some(gid_index),
        remote_lid: peer.lid,
        facts: PathFacts {
            local_gid: local.gid,
            remote_gid: peer.gid,
            mtu,
        },
    })
}

fn check_numbers(peer: &Endpoint, queue_pairs: usize) -> Result<(), ProbeError> {
    if peer.queue_pairs.len() != queue_pairs {
        let theirs = peer.queue_pairs.len();
        return Err(refused(format!(
            "it has {theirs} queue pairs, this end has {queue_pairs}"
        )));
    }
    let too_large = |n: u32| n > MOST_24_BITS;
    if peer
        .queue_pairs
        .iter()
        .any(|q| too_large(q.number) || too_large(q.psn))
    {
        return Err(refused(
            "a queue pair or packet sequence number has more than 24 bits",
        ));
    }
    Ok(())
}

/// Checks that the peer's memory holds the `buffer` bytes that will be written there.
pub(super) fn check_memory(peer: &Endpoint, buffer: usize) -> Result<(), ProbeError> {
    let memory = &peer.memory;
    if memory.length < buffer as u64 {
        let theirs = memory.length;
        return Err(refused(format!(
            "it has {theirs} bytes of memory, {buffer} are needed"
        )));
    }
    if memory.address.checked_add(memory.length).is_none() {
        return Err(refused(
            "its memory goes beyond the end of the address space",
        ));
    }
    Ok(())
}

fn mtu_of(bytes: u32) -> Result<PathMtu, ProbeError> {
    PathMtu::from_bytes(bytes).ok_or_else(|| refused(format!("there is no path MTU of {bytes}")))
}

fn refused(why: impl Into<String>) -> ProbeError {
    ProbeError::Peer { why: why.into() }
}

#[cfg(test)]
mod tests {
    use crate::model::{QueuePairAddress, RemoteMemory};

    use super::*;

    fn endpoint(gid: &str, mtu: u32) -> Endpoint {
        Endpoint {
            lid: 4,
            gid: gid.parse().expect("a GID"),
            mtu,
            queue_pairs: vec![QueuePairAddress {
                number: 17,
                psn: 99,
            }],
            memory: RemoteMemory {
                address: 0x7f00_0000_0000,
                rkey: 5,
                length: 4096,
            },
            registration_us: 10,
            tcp: None,
            reads: 1,
        }
    }

    fn local() -> Endpoint {
        endpoint("fe80::1", 4096)
    }

    #[test]
    fn the_smaller_mtu_is_used_whichever_end_has_it() {
        for (ours, theirs) in [(4096, 1024), (1024, 4096)] {
            let (ours, theirs) = (endpoint("fe80::1", ours), endpoint("fe80::2", theirs));
            let path = path_to(&theirs, &ours, LinkLayer::Ethernet, 1).expect("a path");
            assert_eq!(path.facts.mtu, PathMtu::Mtu1024);
        }
    }

    #[test]
    fn ethernet_and_other_subnets_go_by_gid_and_one_infiniband_subnet_by_lid() {
        let way = |gid, layer| {
            let path = path_to(&endpoint(gid, 4096), &local(), layer, 3).expect("a path");
            (path.gid_index, path.remote_lid)
        };
        assert_eq!(way("::ffff:10.0.0.2", LinkLayer::Ethernet), (Some(3), 4));
        assert_eq!(way("fe80::2", LinkLayer::Ethernet), (Some(3), 4));
        assert_eq!(way("fe80::2", LinkLayer::InfiniBand), (None, 4));
        assert_eq!(way("fec0::2", LinkLayer::InfiniBand), (Some(3), 4));
    }

    #[track_caller]
    fn assert_refused(change: impl FnOnce(&mut Endpoint), layer: LinkLayer, word: &str) {
        let mut peer = endpoint("fe80::2", 4096);
        change(&mut peer);
        let checked = path_to(&peer, &local(), layer, 0).map(drop);
        let error = checked
            .and_then(|()| check_memory(&peer, 4096))
            .expect_err("refused");
        assert!(error.to_string().contains(word), "{error}");
    }

    #[test]
    fn what_cannot_be_is_refused_before_the_device_sees_it() {
        use LinkLayer::{Ethernet, InfiniBand};
        assert_refused(|p| p.mtu = 1500, Ethernet, "path MTU of 1500");
        assert_refused(|p| p.queue_pairs.clear(), Ethernet, "0 queue pairs");
        assert_refused(|p| p.queue_pairs[0].number = 1 << 24, Ethernet, "24 bits");
        assert_refused(|p| p.queue_pairs[0].psn = u32::MAX, Ethernet, "24 bits");
        assert_refused(
            |p| p.gid = "::".parse().expect("a GID"),
            Ethernet,
            "GID is empty",
        );
        assert_refused(|p| p.lid = 0, InfiniBand, "LID is 0");
        assert_refused(|p| p.memory.length = 4095, Ethernet, "4096 are needed");
        assert_refused(
            |p| p.memory.address = u64::MAX - 10,
            Ethernet,
            "address space",
        );
    }
}
