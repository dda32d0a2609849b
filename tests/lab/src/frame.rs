//! Ethernet frames on QEMU's stream sockets: a 4-byte big-endian length before each.

use std::io::{self, Read, Write};
use std::sync::Arc;

/// The longest frame that QEMU's socket netdev sends or takes (`NET_BUFSIZE`, net/net.h: 4096 + 65536).
pub const MAX_FRAME_BYTES: usize = 4096 + 65536;

/// The shortest frame that carries both addresses and a type.
pub const MIN_FRAME_BYTES: usize = 14;

/// One Ethernet frame, from destination address to payload, shared by the ports it is flooded to.
pub type Frame = Arc<[u8]>;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Reads one frame; `None` at a clean end of the stream.
///
/// # Errors
/// Those of the stream; `InvalidData` for a length that no Ethernet frame has, after which the stream
/// cannot be followed any further.
pub fn read_frame(from: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut length = [0; 4];
    if !read_or_end(from, &mut length)? {
        return Ok(None);
    }
    let length = u32::from_be_bytes(length) as usize;
    if !(MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&length) {
        let why = format!("a frame of {length} bytes on a rail socket");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut frame = vec![0; length];
    from.read_exact(&mut frame)?;
    Ok(Some(frame.into()))
}

/// Fills `buffer`, or says that the stream ended before its first byte.
fn read_or_end(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    let first = loop {
        match from.read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    if first == 0 {
        return Ok(false);
    }
    from.read_exact(&mut buffer[first..])?;
    Ok(true)
}

/// Writes one frame with its length.
///
/// # Errors
/// Those of the stream.
pub fn write_frame(to: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    let mut whole = Vec::with_capacity(4 + frame.len());
    whole.extend_from_slice(&(frame.len() as u32).to_be_bytes());
    whole.extend_from_slice(frame);
    to.write_all(&whole)
}

/// UDP's port for RoCEv2 (IANA).
const ROCE_PORT: [u8; 2] = 4791u16.to_be_bytes();

/// "RC Acknowledge" in the base transport header (InfiniBand Architecture Specification 1, 9.2.1).
const RC_ACKNOWLEDGE: u8 = 0x11;

/// Whether a frame is the acknowledgement of a reliable connection over RoCEv2.
pub fn is_acknowledgement(frame: &[u8]) -> bool {
    // Ethernet type, then where the IP header says that UDP follows, and where it does.
    let (protocol, udp) = match frame.get(12..15) {
        Some([0x08, 0x00, version]) => (23, 14 + usize::from(version & 0x0f) * 4),
        Some([0x86, 0xdd, _]) => (20, 54),
        _ => return false,
    };
    frame.get(protocol) == Some(&17)
        && frame.get(udp + 2..udp + 4) == Some(&ROCE_PORT)
        && frame.get(udp + 8) == Some(&RC_ACKNOWLEDGE)
}

/// Where a frame goes. Frames here are never shorter than [`MIN_FRAME_BYTES`].
pub fn destination(frame: &[u8]) -> Mac {
    let mut mac = [0; 6];
    mac.copy_from_slice(&frame[..6]);
    mac
}

/// Where a frame comes from.
pub fn source(frame: &[u8]) -> Mac {
    let mut mac = [0; 6];
    mac.copy_from_slice(&frame[6..12]);
    mac
}

/// Whether an address is a broadcast or multicast one (IEEE 802.3: lowest bit of the first byte).
pub fn is_group(mac: &Mac) -> bool {
    mac[0] & 1 == 1
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An acknowledgement over IPv4 that ends with this byte.
    pub(crate) fn acknowledgement(last: u8) -> Frame {
        roce(&[0x08, 0x00, 0x45], 23, 34, RC_ACKNOWLEDGE, last)
    }

    /// A RoCEv2 frame with UDP at `udp`.
    fn roce(start: &[u8; 3], protocol: usize, udp: usize, opcode: u8, last: u8) -> Frame {
        let mut frame = vec![0; udp + 40];
        frame[12..15].copy_from_slice(start);
        frame[protocol] = 17;
        frame[udp + 2..udp + 4].copy_from_slice(&ROCE_PORT);
        frame[udp + 8] = opcode;
        if let Some(end) = frame.last_mut() {
            *end = last;
        }
        frame.into()
    }

    #[test]
    fn acknowledgements_are_told_from_other_packets() {
        assert!(is_acknowledgement(&acknowledgement(0)));
        let ipv6 = |opcode| roce(&[0x86, 0xdd, 0x60], 20, 54, opcode, 0);
        assert!(is_acknowledgement(&ipv6(RC_ACKNOWLEDGE)));
        // The only packet of an RDMA write, which must not overtake those before it.
        assert!(!is_acknowledgement(&ipv6(0x0a)));
        let mut tcp = acknowledgement(0).to_vec();
        tcp[23] = 6;
        assert!(!is_acknowledgement(&tcp));
        let whole = acknowledgement(0);
        assert!((0..42).all(|end| !is_acknowledgement(&whole[..end])));
    }

    /// Gives out one byte at each read, as a socket may.
    struct Trickle<'a>(&'a [u8]);
    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(buffer.len()).min(1);
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn the_length_is_big_endian_and_comes_first() {
        let mut out = Vec::new();
        write_frame(&mut out, &[7; 300]).unwrap();
        assert_eq!(&out[..5], &[0, 0, 1, 44, 7]);
        assert_eq!(out.len(), 304);
    }

    #[test]
    fn lengths_that_no_frame_has_are_refused() {
        for length in [0u32, 13, MAX_FRAME_BYTES as u32 + 1, u32::MAX] {
            let error = read_frame(&mut &length.to_be_bytes()[..]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{length}");
        }
    }

    #[test]
    fn an_end_within_a_frame_is_an_error_and_between_frames_is_none() {
        assert!(read_frame(&mut &[][..]).unwrap().is_none());
        for cut in [&[0u8, 0][..], &[0, 0, 0, 20, 1, 2, 3][..]] {
            let error = read_frame(&mut &cut[..]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn addresses_are_where_ethernet_has_them() {
        let frame: Vec<u8> = (0..20).collect();
        assert_eq!(destination(&frame), [0, 1, 2, 3, 4, 5]);
        assert_eq!(source(&frame), [6, 7, 8, 9, 10, 11]);
        assert!(is_group(&[0xff; 6]) && is_group(&[0x33, 0x33, 0, 0, 0, 1]));
        assert!(!is_group(&[0x52, 0x54, 0, 0, 0, 1]));
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting(sizes in prop::collection::vec(14usize..3000, 0..6)) {
            let frames: Vec<Vec<u8>> =
                sizes.iter().enumerate().map(|(i, n)| vec![i as u8; *n]).collect();
            let mut bytes = Vec::new();
            for frame in &frames {
                write_frame(&mut bytes, frame).unwrap();
            }
            let mut stream = Trickle(&bytes);
            for frame in &frames {
                prop_assert_eq!(&read_frame(&mut stream).unwrap().unwrap()[..], &frame[..]);
            }
            prop_assert!(read_frame(&mut stream).unwrap().is_none());
        }
    }
}
