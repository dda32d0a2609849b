//! Messages of RDMA netlink (include/uapi/linux/netlink.h, include/uapi/rdma/rdma_netlink.h): what
//! is asked, and what is read of the answers. Pure, and bounded by the bytes given.

/// Lists the devices.
pub(super) const GET: u16 = 1;
/// Lists the queue pairs of a device.
pub(super) const RES_QP_GET: u16 = 10;

/// RDMA_NL_NLDEV, the client in the upper bits of a message's type.
const NLDEV: u16 = 5;

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// nlmsghdr: length, type, flags, sequence, port.
const HEADER: usize = 16;

/// NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const ATTRIBUTE_TYPE: u16 = 0x3fff;

const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
const RES_QP: u16 = 19;
const RES_QP_ENTRY: u16 = 20;
const RES_TYPE: u16 = 26;
const RES_PID: u16 = 28;
const RES_KERN_NAME: u16 = 29;

/// A part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The attributes of one message.
    Data(&'a [u8]),
    /// Nothing follows.
    Done,
    /// The kernel refuses, with this errno.
    Refused(i32),
}

/// One queue pair.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueuePair {
    /// `enum ib_qp_type`.
    pub kind: u8,
    /// The thread that made it; none for the kernel, and where it has ended or is of another PID
    /// namespace.
    pub pid: Option<u32>,
    /// The kernel module that made it.
    pub module: Option<String>,
}

/// The request to list with `command`, of the device with this index.
pub(super) fn request(command: u16, sequence: u32, device: Option<u32>) -> Vec<u8> {
    let mut attributes = Vec::new();
    if let Some(index) = device {
        attributes.extend(8u16.to_ne_bytes());
        attributes.extend(DEV_INDEX.to_ne_bytes());
        attributes.extend(index.to_ne_bytes());
    }
    let length = u32::try_from(HEADER + attributes.len()).unwrap_or(0);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(((NLDEV << 10) + command).to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(attributes);
    bytes
}

/// The parts in the bytes of one datagram that answer request `sequence`.
pub(super) fn parts(mut bytes: &[u8], sequence: u32) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    while let (Some(length), Some(kind), Some(seq)) =
        (u32_at(bytes, 0), u16_at(bytes, 4), u32_at(bytes, 8))
    {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(body) = bytes.get(HEADER..length) else {
            break;
        };
        if seq == sequence {
            parts.push(match kind {
                NLMSG_DONE => Part::Done,
                NLMSG_ERROR => match i32_at(body, 0) {
                    Some(0) | None => Part::Done,
                    Some(errno) => Part::Refused(errno.saturating_neg()),
                },
                _ => Part::Data(body),
            });
        }
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    parts
}

/// Index and name of a device.
pub(super) fn device(body: &[u8]) -> Option<(u32, String)> {
    let index = attribute(body, DEV_INDEX).and_then(|value| u32_at(value, 0))?;
    let name = attribute(body, DEV_NAME).and_then(text)?;
    Some((index, name))
}

/// The queue pairs in a message.
pub(super) fn queue_pairs(body: &[u8]) -> impl Iterator<Item = QueuePair> {
    let table = attribute(body, RES_QP).unwrap_or_default();
    let entries = Attributes(table).filter(|(kind, _)| *kind == RES_QP_ENTRY);
    entries.filter_map(|(_, entry)| {
        Some(QueuePair {
            kind: *attribute(entry, RES_TYPE)?.first()?,
            pid: attribute(entry, RES_PID).and_then(|value| u32_at(value, 0)),
            module: attribute(entry, RES_KERN_NAME).and_then(text),
        })
    })
}

fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut all = Attributes(bytes);
    all.find_map(|(kind, value)| (kind == wanted).then_some(value))
}

/// Attributes: length with its own four bytes, type, value, filled up to a multiple of four.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & ATTRIBUTE_TYPE;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

fn text(value: &[u8]) -> Option<String> {
    let end = value.iter().position(|byte| *byte == 0);
    let value = &value[..end.unwrap_or(value.len())];
    std::str::from_utf8(value).ok().map(str::to_owned)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    u32_at(bytes, at).map(u32::cast_signed)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(2u16.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(77u32.to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    const NESTED: u16 = 0x8000;

    /// A queue pair as the kernel fills it in: number, type, state, then who made it.
    fn entry(kind: u8, pid: Option<u32>, module: Option<&str>) -> Vec<u8> {
        let mut value = field(21, &0x1234u32.to_ne_bytes());
        value.extend(field(RES_TYPE, &[kind]));
        value.extend(field(27, &[3]));
        if let Some(pid) = pid {
            value.extend(field(RES_PID, &pid.to_ne_bytes()));
        }
        if let Some(module) = module {
            value.extend(field(RES_KERN_NAME, format!("{module}\0").as_bytes()));
        }
        field(RES_QP_ENTRY | NESTED, &value)
    }

    #[test]
    fn a_request_is_what_the_kernel_wants() {
        let bytes = request(RES_QP_GET, 7, Some(3));
        assert_eq!(u32_at(&bytes, 0), Some(24));
        assert_eq!(u16_at(&bytes, 4), Some(5 * 1024 + 10));
        assert_eq!(u16_at(&bytes, 6), Some(0x301));
        assert_eq!(u32_at(&bytes, 8), Some(7));
        let index = attribute(&bytes[HEADER..], DEV_INDEX).unwrap();
        assert_eq!(index, 3u32.to_ne_bytes());
        assert_eq!(request(GET, 1, None).len(), HEADER);
    }

    #[test]
    fn answers_are_read_to_their_end() {
        let mut body = field(DEV_INDEX, &2u32.to_ne_bytes());
        body.extend(field(DEV_NAME, b"mlx5_0\0"));
        let mut table = entry(1, None, Some("ib_core"));
        table.extend(entry(2, Some(4711), None));
        body.extend(field(RES_QP | NESTED, &table));
        let kind = (NLDEV << 10) + RES_QP_GET;
        let mut bytes = message(kind, 7, &body);
        bytes.extend(message(kind, 6, b"of a request before"));
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(message(NLMSG_DONE, 7, &0u32.to_ne_bytes()));

        let parts = parts(&bytes, 7);
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert_eq!(parts[1], Part::Done);
        let Part::Data(body) = &parts[0] else {
            panic!("{parts:?}");
        };
        assert_eq!(device(body), Some((2, "mlx5_0".into())));
        let pairs: Vec<_> = queue_pairs(body).collect();
        let of = |kind, pid, module: Option<&str>| QueuePair {
            kind,
            pid,
            module: module.map(str::to_owned),
        };
        assert_eq!(
            pairs,
            [of(1, None, Some("ib_core")), of(2, Some(4711), None)]
        );
    }

    #[test]
    fn a_refusal_has_its_number() {
        let bytes = message(NLMSG_ERROR, 1, &(-1i32).to_ne_bytes());
        assert_eq!(parts(&bytes, 1), [Part::Refused(1)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_left(bytes in proptest::collection::vec(any::<u8>(), 0..300), sequence: u32) {
            for part in parts(&bytes, sequence) {
                if let Part::Data(body) = part {
                    let _ = (device(body), queue_pairs(body).count());
                }
            }
            let _ = (device(&bytes), queue_pairs(&bytes).count());
        }

        #[test]
        fn a_torn_answer_is_no_panic(cut in 0usize..200) {
            let mut body = field(DEV_INDEX, &2u32.to_ne_bytes());
            body.extend(field(RES_QP | NESTED, &entry(2, Some(1), Some("x"))));
            let bytes = message(9, 1, &body);
            let bytes = &bytes[..cut.min(bytes.len())];
            for part in parts(bytes, 1) {
                if let Part::Data(body) = part {
                    let _ = queue_pairs(body).count();
                }
            }
        }
    }
}
