//! Who holds queue pairs, asked of the kernel by RDMA netlink, which needs no privilege.

mod netlink;

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect, recv, send,
    setsockopt, socket,
};
use nix::sys::time::TimeVal;

use super::root::Root;
use super::{not_live, parse};
use crate::model::{Fact, QueuePairHolder, QueuePairs, RdmaDevice};
use netlink::{GET, Part, QueuePair, RES_QP_GET};

/// Where answers come from.
const FROM: &str = "RDMA netlink";

/// The kernel fills at most 32 KiB at a time.
const BUFFER: usize = 64 << 10;

/// How long the kernel may take to list everything.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most queue pairs counted: ConnectX has 2^18 of a function.
const MAX_QUEUE_PAIRS: usize = 1 << 20;

/// The most holders told of one device; the others are told together.
const MAX_HOLDERS: usize = 32;

/// `enum ib_qp_type`: IB_QPT_SMI and IB_QPT_GSI, which every port has; IB_QPT_RC; IB_QPT_UD.
const MANAGEMENT: [u8; 2] = [0, 1];
const RC: u8 = 2;
const UD: u8 = 4;

/// The holders of queue pairs on every device.
///
/// Asked only where there are RDMA devices: the question alone would load ib_core.
pub fn queue_pairs(root: &Root) -> Fact<QueuePairs> {
    if !root.is_live() {
        return Fact::unknown(not_live("queue pairs are listed by RDMA netlink"));
    }
    if !root.path("sys/class/infiniband").exists() {
        return Fact::unknown("no RDMA driver is loaded (ib_core)");
    }
    match ask(None) {
        Ok(found) => {
            let named = found.into_iter().map(|(device, pairs)| {
                let holders = holders(pairs, &|pid| command(root, pid));
                (device, holders)
            });
            Fact::known(named.collect(), FROM)
        }
        Err(why) => Fact::unknown(why),
    }
}

/// The holders of queue pairs on one device, without this process.
pub(super) fn of_others(root: &Root, device: &str) -> Fact<Vec<QueuePairHolder>> {
    if !root.is_live() || !root.path("sys/class/infiniband").exists() {
        return Fact::unknown(not_live("queue pairs are listed by RDMA netlink"));
    }
    let mut own = threads(root);
    let found = match ask(Some(device)) {
        Ok(found) => found,
        Err(why) => return Fact::unknown(why),
    };
    // Those that have begun or ended meanwhile are ours, too.
    own.extend(threads(root));
    let pairs = found.into_iter().flat_map(|(_, pairs)| pairs);
    Fact::known(
        others(pairs.collect(), &own, &|pid| command(root, pid)),
        FROM,
    )
}

/// The holders of these queue pairs but for those that the process with these threads made.
fn others(
    mut pairs: Vec<QueuePair>,
    own: &BTreeSet<u32>,
    command: &dyn Fn(u32) -> Option<String>,
) -> Vec<QueuePairHolder> {
    pairs.retain(|pair| pair.pid.is_none_or(|pid| !own.contains(&pid)));
    holders(pairs, command)
}

/// The numbers of this process and its threads: the kernel tells of a queue pair by the thread that
/// made it (rdma_restrack_set_name in drivers/infiniband/core/restrack.c).
fn threads(root: &Root) -> BTreeSet<u32> {
    let listed = root.list(&root.path("proc/self/task")).unwrap_or_default();
    let threads = listed.iter().filter_map(|name| name.parse().ok());
    threads.chain([std::process::id()]).collect()
}

/// Gives each device what is known of its queue pairs.
pub(super) fn fill(root: &Root, devices: &mut Fact<Vec<RdmaDevice>>) {
    let Fact::Known { value: devices, .. } = devices else {
        return;
    };
    if devices.is_empty() {
        return;
    }
    let found = queue_pairs(root);
    for device in devices {
        device.queue_pairs = found.clone().map(|mut all| {
            let mine = all.remove(&device.name);
            mine.unwrap_or_default()
        });
    }
}

type Found = Vec<(String, Vec<QueuePair>)>;

/// The queue pairs of every device, or only of the one of this name.
fn ask(only: Option<&str>) -> Result<Found, String> {
    let told = |what: &'static str| move |errno: Errno| format!("{FROM}: {what}: {}", errno.desc());
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRDMA,
    )
    .map_err(told("socket"))?;
    let timeout = TimeVal::new(1, 0);
    setsockopt(&socket, ReceiveTimeout, &timeout).map_err(told("setsockopt"))?;
    connect(socket.as_raw_fd(), &NetlinkAddr::new(0, 0)).map_err(told("connect"))?;
    let deadline = Instant::now() + PATIENCE;
    let mut devices = Vec::new();
    dump(&socket, 1, GET, None, deadline, &mut |body| {
        devices.extend(netlink::device(body));
    })?;
    devices.retain(|(_, name)| only.is_none_or(|only| name == only));
    let mut found = Vec::new();
    let mut left = MAX_QUEUE_PAIRS;
    for (sequence, (index, name)) in (2..).zip(devices) {
        let mut pairs = Vec::new();
        dump(
            &socket,
            sequence,
            RES_QP_GET,
            Some(index),
            deadline,
            &mut |body| {
                let more = netlink::queue_pairs(body).take(left);
                let before = pairs.len();
                pairs.extend(more);
                left -= pairs.len() - before;
            },
        )?;
        found.push((name, pairs));
    }
    Ok(found)
}

/// Asks, and hands each message of the answer to `take`.
fn dump(
    socket: &OwnedFd,
    sequence: u32,
    command: u16,
    device: Option<u32>,
    deadline: Instant,
    take: &mut dyn FnMut(&[u8]),
) -> Result<(), String> {
    let told = |errno: Errno| format!("{FROM}: {}", errno.desc());
    let request = netlink::request(command, sequence, device);
    send(socket.as_raw_fd(), &request, MsgFlags::empty()).map_err(told)?;
    let mut buffer = vec![0; BUFFER];
    while Instant::now() < deadline {
        let length = match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Err(Errno::EINTR) => continue,
            other => other.map_err(told)?,
        };
        for part in netlink::parts(&buffer[..length], sequence) {
            match part {
                Part::Data(body) => take(body),
                Part::Done => return Ok(()),
                Part::Refused(errno) => return Err(told(Errno::from_raw(errno))),
            }
        }
    }
    Err(format!(
        "{FROM}: no end of the answer in {} s",
        PATIENCE.as_secs()
    ))
}

/// The command of a process of this PID namespace.
fn command(root: &Root, pid: u32) -> Option<String> {
    let path = root.path("proc").join(pid.to_string()).join("comm");
    let text = root.read(&path).ok()?;
    parse::word(&text).ok()
}

/// Queue pairs added up by who holds them, the one with the most first.
fn holders(pairs: Vec<QueuePair>, command: &dyn Fn(u32) -> Option<String>) -> Vec<QueuePairHolder> {
    let mut holders: Vec<QueuePairHolder> = Vec::new();
    for pair in pairs.iter().filter(|pair| !MANAGEMENT.contains(&pair.kind)) {
        let module = pair.module.as_deref().unwrap_or(QueuePairHolder::UNSEEN);
        let is_same = |holder: &&mut QueuePairHolder| {
            holder.pid == pair.pid && (pair.pid.is_some() || holder.name == module)
        };
        let holder = match holders.iter_mut().find(is_same) {
            Some(holder) => holder,
            None => {
                let name = match pair.pid {
                    Some(pid) => command(pid).unwrap_or_else(|| "?".into()),
                    None => module.to_owned(),
                };
                holders.push(QueuePairHolder {
                    pid: pair.pid,
                    name,
                    ..QueuePairHolder::default()
                });
                let last = holders.len() - 1;
                &mut holders[last]
            }
        };
        let count = match pair.kind {
            RC => &mut holder.rc,
            UD => &mut holder.ud,
            _ => &mut holder.other,
        };
        *count = count.saturating_add(1);
    }
    holders.sort_by_key(|holder| (std::cmp::Reverse(holder.total()), holder.pid));
    fold(holders)
}

/// The first holders, and the others as one.
fn fold(mut holders: Vec<QueuePairHolder>) -> Vec<QueuePairHolder> {
    if holders.len() <= MAX_HOLDERS {
        return holders;
    }
    let rest = holders.split_off(MAX_HOLDERS - 1);
    let mut others = QueuePairHolder {
        name: format!("{} others", rest.len()),
        ..QueuePairHolder::default()
    };
    for holder in rest {
        others.rc = others.rc.saturating_add(holder.rc);
        others.ud = others.ud.saturating_add(holder.ud);
        others.other = others.other.saturating_add(holder.other);
    }
    holders.push(others);
    holders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(kind: u8, pid: Option<u32>, module: Option<&str>) -> QueuePair {
        QueuePair {
            kind,
            pid,
            module: module.map(str::to_owned),
        }
    }

    #[test]
    fn queue_pairs_are_added_up_by_who_holds_them() {
        let pairs = vec![
            pair(0, None, Some("ib_core")),
            pair(1, None, Some("ib_core")),
            pair(4, None, Some("ib_ipoib")),
            pair(2, Some(4711), None),
            pair(2, Some(4711), None),
            pair(4, Some(4711), None),
            pair(8, Some(12), None),
            pair(2, None, None),
        ];
        let command = |pid: u32| (pid == 4711).then(|| "python3".to_owned());
        let holder = |pid, name: &str, [rc, ud, other]: [u32; 3]| QueuePairHolder {
            pid,
            name: name.into(),
            rc,
            ud,
            other,
        };
        assert_eq!(
            holders(pairs, &command),
            [
                holder(Some(4711), "python3", [2, 1, 0]),
                holder(None, "ib_ipoib", [0, 1, 0]),
                holder(None, QueuePairHolder::UNSEEN, [1, 0, 0]),
                holder(Some(12), "?", [0, 0, 1]),
            ]
        );
    }

    #[test]
    fn threads_of_this_process_are_no_others() {
        let own = threads(&Root::live());
        assert!(own.contains(&std::process::id()));
        let in_thread = std::thread::spawn(|| {
            let thread = nix::unistd::gettid().as_raw();
            threads(&Root::live()).contains(&u32::try_from(thread).unwrap())
        });
        assert!(in_thread.join().unwrap());
        // More threads of ours than holders are told must not hide the one that is not.
        let own: BTreeSet<u32> = (1..=200).collect();
        let mut pairs: Vec<QueuePair> = (1..=200)
            .flat_map(|pid| [pair(RC, Some(pid), None), pair(RC, Some(pid), None)])
            .collect();
        pairs.push(pair(RC, Some(4711), None));
        pairs.push(pair(UD, None, Some("ib_ipoib")));
        let holders = others(pairs, &own, &|_| Some("python3".into()));
        let pids: Vec<_> = holders.iter().map(|holder| holder.pid).collect();
        assert_eq!(pids, [None, Some(4711)]);
    }

    #[test]
    fn many_holders_are_told_in_few() {
        let pairs = (0..1000).map(|pid| pair(RC, Some(pid), None)).collect();
        let holders = holders(pairs, &|_| None);
        assert_eq!(holders.len(), MAX_HOLDERS);
        assert_eq!(holders[MAX_HOLDERS - 1].name, "969 others");
        assert_eq!(holders.iter().map(|h| h.total()).sum::<u32>(), 1000);
    }

    #[test]
    fn a_snapshot_and_a_machine_without_rdma_are_not_asked() {
        let why = |root: &Root| queue_pairs(root).why_unknown().map(str::to_owned);
        assert!(
            why(&Root::at("/tmp"))
                .unwrap()
                .starts_with("not the live system")
        );
        if !std::path::Path::new("/sys/class/infiniband").exists() {
            assert_eq!(
                why(&Root::live()).as_deref(),
                Some("no RDMA driver is loaded (ib_core)")
            );
        }
    }

    /// Where the kernel has RDMA netlink, it answers in a form that is understood.
    #[test]
    fn the_kernel_answers_where_it_can() {
        if !std::path::Path::new("/sys/class/infiniband").exists() {
            // The question alone would load ib_core.
            return;
        }
        match ask(None) {
            Ok(found) => assert!(found.iter().all(|(name, _)| !name.is_empty())),
            Err(why) => assert!(why.starts_with(FROM), "{why}"),
        }
    }
}
