//! What the running kernel tells by netlink: questions and bounded answers.
//!
//! Forms: include/uapi/linux/netlink.h of the Linux kernel.

mod attributes;
mod dcb;
mod ethtool;
mod rules;

use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::not_live;
use crate::model::{Fact, Pause, Priorities, Subnetwork, Trust};

/// The most that one answer takes: dumps come in pieces of at most 32 KiB (net/netlink/af_netlink.c).
const MAX_DATAGRAM: usize = 64 << 10;
/// The most pieces of one answer.
const MAX_DATAGRAMS: usize = 64;
/// How long the kernel may think, in seconds.
const PATIENCE_S: i64 = 2;
/// Bytes of a message's header: length, kind, flags, sequence number, port.
const HEADER: usize = 16;
/// The only sequence number: each question has a socket of its own.
const SEQUENCE: u32 = 1;

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_MULTI: u16 = 0x2;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// The kernel of the surveyed system.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kernel {
    /// It runs, and may be asked.
    Running,
    /// A snapshot has none.
    Snapshot,
}

impl Kernel {
    fn ask<T>(self, what: &str, question: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        match self {
            Self::Running => question().map_err(|why| format!("{what}: {why}")),
            Self::Snapshot => Err(not_live("only a running kernel tells, by netlink")),
        }
    }

    /// Trust and PFC of an interface, by DCB.
    pub fn dcb(self, interface: &str) -> (Fact<Trust>, Fact<Priorities>) {
        let what = format!("DCB of {interface}");
        match self.ask(&what, || dcb::get(interface)) {
            Ok(answer) => (answer.trust(&what), answer.pfc(&what)),
            Err(why) => (Fact::unknown(&why), Fact::unknown(why)),
        }
    }

    /// Forward error correction and pause of an interface, by ethtool.
    pub fn ethtool(self, interface: &str) -> (Fact<String>, Fact<Pause>) {
        let fec = self.ask(&format!("FEC of {interface}"), || ethtool::fec(interface));
        let what = format!("pause of {interface}");
        let pause = self.ask(&what, || ethtool::pause(interface));
        (of(fec, "ethtool FEC"), of(pause, "ethtool pause"))
    }

    /// What the interface does for TCP of the work on segments, as ethtool names it.
    pub fn offloads(self, interface: &str) -> Fact<Vec<String>> {
        let what = format!("features of {interface}");
        let answer = self.ask(&what, || ethtool::offloads(interface));
        of(answer, "ethtool features")
    }

    /// The sources for which the routing rules name a table.
    pub fn source_rules(self) -> Fact<Vec<Subnetwork>> {
        of(self.ask("routing rules", rules::sources), "ip rule")
    }
}

fn of<T>(answer: Result<T, String>, from: &str) -> Fact<T> {
    match answer {
        Ok(value) => Fact::known(value, from),
        Err(why) => Fact::unknown(why),
    }
}

/// A message: what kind, and what follows the header.
#[derive(Debug, PartialEq)]
struct Message {
    kind: u16,
    body: Vec<u8>,
}

/// Asks one question; the answer's messages.
fn ask(protocol: SockProtocol, kind: u16, dump: bool, body: &[u8]) -> Result<Vec<Message>, String> {
    let failed = |error: Errno| error.desc().to_owned();
    let (kinds, flags) = (SockType::Raw, SockFlag::SOCK_CLOEXEC);
    let socket = socket(AddressFamily::Netlink, kinds, flags, protocol).map_err(failed)?;
    let patience = TimeVal::seconds(PATIENCE_S);
    setsockopt(&socket, sockopt::ReceiveTimeout, &patience).map_err(failed)?;
    let question = question(kind, dump, body);
    send(socket.as_raw_fd(), &question, MsgFlags::empty()).map_err(failed)?;
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut messages = Vec::new();
    for _ in 0..MAX_DATAGRAMS {
        let len = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).map_err(failed)?;
        if read(&buffer[..len], &mut messages)? {
            return Ok(messages);
        }
    }
    Err("the answer does not end".into())
}

fn question(kind: u16, dump: bool, body: &[u8]) -> Vec<u8> {
    let flags = NLM_F_REQUEST | if dump { NLM_F_DUMP } else { 0 };
    let len = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(SEQUENCE.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(body);
    bytes
}

/// Reads the messages of one piece; whether it was the last.
fn read(mut bytes: &[u8], messages: &mut Vec<Message>) -> Result<bool, String> {
    const TORN: &str = "a torn netlink message";
    while bytes.len() >= HEADER {
        let number = |at: usize| u32_at(bytes, at).unwrap_or_default();
        let len = number(0) as usize;
        if len < HEADER || len > bytes.len() {
            return Err(TORN.into());
        }
        let (kind, flags) = (u16_at(bytes, 4), u16_at(bytes, 6).unwrap_or_default());
        let body = &bytes[HEADER..len];
        let mine = number(8) == SEQUENCE;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        match kind {
            _ if !mine => {}
            Some(NLMSG_DONE) => return Ok(true),
            Some(NLMSG_ERROR) => {
                let code = u32_at(body, 0).ok_or(TORN)?.cast_signed();
                return match code {
                    0 => Ok(true),
                    code => Err(refusal(Errno::from_raw(code.saturating_neg())).to_owned()),
                };
            }
            Some(kind) => {
                let body = body.to_vec();
                messages.push(Message { kind, body });
                if flags & NLM_F_MULTI == 0 {
                    return Ok(true);
                }
            }
            None => return Err(TORN.into()),
        }
    }
    Ok(false)
}

fn refusal(error: Errno) -> &'static str {
    match error {
        // Of a transport endpoint, says the system, and means the driver.
        Errno::EOPNOTSUPP => "the driver does not tell",
        error => error.desc(),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_ne_bytes(field.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(field.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = question(kind, false, body);
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_dump_ends_with_done_and_a_refusal_is_told() {
        let mut messages = Vec::new();
        let mut piece = message(32, NLM_F_MULTI, SEQUENCE, b"abcde");
        piece.extend(message(32, NLM_F_MULTI, 7, b"another's"));
        assert_eq!(read(&piece, &mut messages), Ok(false));
        assert_eq!(messages.len(), 1);
        assert_eq!(
            (messages[0].kind, &messages[0].body[..]),
            (32, &b"abcde"[..])
        );
        let done = message(NLMSG_DONE, NLM_F_MULTI, SEQUENCE, &[0; 4]);
        assert_eq!(read(&done, &mut messages), Ok(true));

        let code = (-95i32).to_ne_bytes();
        let refused = message(NLMSG_ERROR, 0, SEQUENCE, &code);
        assert_eq!(
            read(&refused, &mut messages),
            Err("the driver does not tell".to_owned())
        );
    }

    #[test]
    fn the_running_kernel_answers() {
        let rules = Kernel::Running.source_rules();
        // A sandbox may forbid netlink; then the reason is there.
        assert!(rules.value().is_some() || rules.why_unknown().is_some());
        let (trust, _) = Kernel::Running.dcb("lo");
        assert!(trust.why_unknown().unwrap().starts_with("DCB of lo: "));
        let (fec, pause) = Kernel::Running.ethtool("no_such_device");
        assert!(fec.why_unknown().is_some() && pause.why_unknown().is_some());
    }

    #[test]
    fn a_snapshots_kernel_is_not_asked() {
        let why = Kernel::Snapshot.source_rules();
        assert!(
            why.why_unknown()
                .unwrap()
                .starts_with("not the live system")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let mut messages = Vec::new();
            let _ = read(&bytes, &mut messages);
            let framed = message(32, 0, SEQUENCE, &bytes);
            prop_assert_eq!(read(&framed, &mut messages), Ok(true));
            let last = messages.pop().unwrap();
            let _ = (dcb::read(&last.body), ethtool::read_fec(&last.body), ethtool::read_pause(&last.body));
            let _ = (ethtool::read_family(&last.body), rules::source(&last.body));
        }
    }
}
