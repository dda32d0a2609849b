//! The attributes of a netlink message: a length, a type and bytes, one after the other.

use super::u16_at;

/// Bytes before an attribute's content.
const HEADER: usize = 4;
/// The bits of the type that are flags: nested, network byte order.
const FLAGS: u16 = 0xc000;

/// The attributes in `bytes`; what follows a torn one is left out.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & !FLAGS;
        let content = bytes.get(HEADER..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, content))
    })
}

/// The content of the first attribute of this type.
pub(super) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut all = attributes(bytes);
    all.find(|(kind, _)| *kind == wanted)
        .map(|(_, content)| content)
}

/// An attribute to send.
pub(super) fn write(kind: u16, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(HEADER + content.len()).unwrap_or(u16::MAX);
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A text attribute to send, which ends in NUL.
pub(super) fn write_text(kind: u16, text: &str) -> Vec<u8> {
    let mut content = text.as_bytes().to_vec();
    content.push(0);
    write(kind, &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_as_they_were_written() {
        let mut bytes = write_text(2, "eth3");
        bytes.extend(write(1 | 0x8000, &[7; 3]));
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read, [(2, &b"eth3\0"[..]), (1, &[7, 7, 7][..])]);
        assert_eq!(attribute(&bytes, 1), Some(&[7u8, 7, 7][..]));
        assert_eq!(attribute(&bytes, 3), None);
        // Torn at any byte: nothing invented.
        for cut in 0..bytes.len() {
            assert!(attributes(&bytes[..cut]).count() < 3);
        }
        assert_eq!(attributes(&[0; 64]).count(), 0, "a length of nothing");
    }
}
