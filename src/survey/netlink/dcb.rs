//! Data centre bridging: which priorities are paused, and whether DSCP is trusted.
//!
//! Forms: include/uapi/linux/dcbnl.h of the Linux kernel.

use nix::sys::socket::SockProtocol;

use super::ask;
use super::attributes::{attribute, attributes, write_text};
use crate::model::{Fact, Priorities, Trust};

const RTM_GETDCB: u16 = 78;
const DCB_CMD_IEEE_GET: u8 = 21;
/// `struct dcbmsg`: family, command, padding.
const HEADER: usize = 4;
const DCB_ATTR_IFNAME: u16 = 1;
const DCB_ATTR_IEEE: u16 = 13;
const DCB_ATTR_IEEE_PFC: u16 = 2;
const DCB_ATTR_IEEE_APP_TABLE: u16 = 3;
const DCB_ATTR_IEEE_APP: u16 = 1;
const IEEE_8021QAZ_APP_SEL_DSCP: u8 = 5;
/// Where `struct ieee_pfc` has the priorities that are paused.
const PFC_EN: usize = 1;

/// What DCB tells of an interface.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Dcb {
    /// The priorities with PFC, where the driver tells.
    pfc: Option<u8>,
    /// Whether any DSCP is given a priority.
    dscp: bool,
}

impl Dcb {
    pub fn pfc(&self, what: &str) -> Fact<Priorities> {
        match self.pfc {
            Some(bits) => Fact::known(Priorities(bits), what),
            None => Fact::unknown(format!("{what}: the driver does not tell of PFC")),
        }
    }

    /// A driver that has a priority for a DSCP looks at it; without one, each driver has a way of
    /// its own.
    pub fn trust(&self, what: &str) -> Fact<Trust> {
        match self.dscp {
            true => Fact::known(Trust::Dscp, what),
            false => Fact::unknown(format!("{what}: no DSCP has a priority of its own there")),
        }
    }
}

/// Asks for the IEEE 802.1Qaz settings.
pub(super) fn get(interface: &str) -> Result<Dcb, String> {
    let mut body = vec![0, DCB_CMD_IEEE_GET, 0, 0];
    body.extend(write_text(DCB_ATTR_IFNAME, interface));
    let answer = ask(SockProtocol::NetlinkRoute, RTM_GETDCB, false, &body)?;
    let message = answer.first().ok_or("no answer")?;
    Ok(read(&message.body))
}

pub(super) fn read(body: &[u8]) -> Dcb {
    let all = body.get(HEADER..).unwrap_or_default();
    let ieee = attribute(all, DCB_ATTR_IEEE).unwrap_or_default();
    let pfc = attribute(ieee, DCB_ATTR_IEEE_PFC);
    let apps = attribute(ieee, DCB_ATTR_IEEE_APP_TABLE).unwrap_or_default();
    let is_dscp = |(kind, app): (u16, &[u8])| {
        kind == DCB_ATTR_IEEE_APP && app.first() == Some(&IEEE_8021QAZ_APP_SEL_DSCP)
    };
    Dcb {
        pfc: pfc.and_then(|pfc| pfc.get(PFC_EN).copied()),
        dscp: attributes(apps).any(is_dscp),
    }
}

#[cfg(test)]
mod tests {
    use super::super::attributes::write;
    use super::*;

    #[test]
    fn pfc_and_trust_are_read_from_the_answer() {
        let mut pfc = vec![8, 0b1_1000, 0, 0];
        pfc.resize(8 + 128, 0);
        let app = write(DCB_ATTR_IEEE_APP, &[IEEE_8021QAZ_APP_SEL_DSCP, 3, 26, 0]);
        let mut ieee = write(DCB_ATTR_IEEE_PFC, &pfc);
        ieee.extend(write(DCB_ATTR_IEEE_APP_TABLE, &app));
        let mut body = vec![0, DCB_CMD_IEEE_GET, 0, 0];
        body.extend(write_text(DCB_ATTR_IFNAME, "eth3"));
        body.extend(write(DCB_ATTR_IEEE, &ieee));
        let dcb = read(&body);
        assert_eq!(dcb.pfc("DCB").value(), Some(&Priorities(0b1_1000)));
        assert_eq!(dcb.trust("DCB").value(), Some(&Trust::Dscp));
    }

    #[test]
    fn what_the_driver_leaves_out_is_unknown() {
        let dcb = read(&[0, DCB_CMD_IEEE_GET, 0, 0]);
        assert!(dcb.pfc("DCB").why_unknown().unwrap().contains("PFC"));
        assert!(dcb.trust("DCB").why_unknown().is_some());
    }
}
