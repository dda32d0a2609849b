//! Routing rules: the sources that have a table of their own.
//!
//! Forms: include/uapi/linux/fib_rules.h of the Linux kernel.

use nix::sys::socket::SockProtocol;

use super::ask;
use super::attributes::attribute;
use crate::model::Subnetwork;

const RTM_GETRULE: u16 = 34;
/// `struct fib_rule_hdr`: family, lengths, TOS, table, action, flags.
const HEADER: usize = 12;
/// Where it has the length of the source's prefix.
const SRC_LEN: usize = 2;
const FRA_SRC: u16 = 2;
/// The most rules kept.
const MAX_RULES: usize = 256;

/// The sources that rules name, of both families.
pub(super) fn sources() -> Result<Vec<Subnetwork>, String> {
    let answer = ask(SockProtocol::NetlinkRoute, RTM_GETRULE, true, &[0; HEADER])?;
    let sources = answer.iter().filter_map(|message| source(&message.body));
    Ok(sources.take(MAX_RULES).collect())
}

pub(super) fn source(body: &[u8]) -> Option<Subnetwork> {
    let prefix_len = *body.get(SRC_LEN)?;
    let bytes = attribute(body.get(HEADER..)?, FRA_SRC)?;
    let v4 = <[u8; 4]>::try_from(bytes).map(Into::into);
    let ip = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(Into::into));
    Some(Subnetwork {
        ip: ip.ok()?,
        prefix_len,
    })
}

#[cfg(test)]
mod tests {
    use super::super::attributes::write;
    use super::*;

    #[test]
    fn a_rule_from_a_source_is_read_and_others_are_not() {
        let rule = |len: u8, attributes: &[u8]| {
            let mut body = vec![2, 0, len];
            body.resize(HEADER, 0);
            body.extend(attributes);
            source(&body).map(|source| source.to_string())
        };
        let from = write(FRA_SRC, &[10, 0, 3, 7]);
        assert_eq!(rule(32, &from).as_deref(), Some("10.0.3.7/32"));
        let from = write(FRA_SRC, &[0xfd; 16]);
        assert!(rule(64, &from).unwrap().ends_with("/64"));
        assert_eq!(rule(0, &[]), None);
        assert_eq!(rule(32, &write(FRA_SRC, &[1, 2, 3])), None);
    }
}
