//! QEMU's command line for one VM, and how it is started so that it cannot outlive the supervisor.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{setsockopt, sockopt};

use crate::error::{LabError, Result};
use crate::fault::{Fault, in_guest};
use crate::guest::GuestHarm;
use crate::options::{Accel, NodePlan, Plan, mac};
use crate::pcie::{FarSeat, Seat};
use crate::state::StateDir;
use crate::tool;

/// The emulator.
pub const QEMU: &str = "qemu-system-x86_64";

/// Bytes that a rail socket holds in each direction: little, so that a shaped link is felt by the guest and
/// does not turn into a long queue.
const SOCKET_BYTES: usize = 65536;

/// Kernel arguments. TCG gains from `mitigations=off`; `panic=-1` with `-no-reboot` ends QEMU on a panic.
///
/// Nothing keeps the kernel from watching the TSC, whose speed it measures while it boots: on a busy host
/// it once took it to be 2.8 times as slow as it is, so that the guest's clock ran that much too fast and
/// every rate it measured was that much too low. Watched, such a TSC gives way to the HPET.
const CMDLINE: &str = "console=ttyS0 quiet loglevel=4 panic=-1 net.ifnames=0 mitigations=off nokaslr \
                       random.trust_cpu=on no_timer_check audit=0";

/// A value inside QEMU's comma-separated options, where a comma is written twice.
fn escape(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

/// Arguments that every VM of the lab has, with `cmdline` added to the kernel's.
pub fn machine_args(accel: Accel, image: &Path, initramfs: &Path, cmdline: &str) -> Vec<String> {
    // Without ERMS the guest copies eight bytes at a step instead of one, each step being emulated: a
    // receiver of RDMA writes then needs 44 to 60 ms of processor time for a megabyte instead of 78.
    let cpu = if accel == Accel::Kvm {
        "host"
    } else {
        "max,erms=off"
    };
    let accel = if accel == Accel::Kvm {
        "kvm"
    } else {
        "tcg,thread=multi"
    };
    let mut args: Vec<String> = [
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-vga",
        "none",
    ]
    .map(String::from)
    .to_vec();
    for (name, value) in [
        ("-machine", "q35".to_owned()),
        ("-accel", accel.to_owned()),
        ("-cpu", cpu.to_owned()),
        ("-kernel", image.to_string_lossy().into_owned()),
        ("-initrd", initramfs.to_string_lossy().into_owned()),
        (
            "-append",
            format!("{CMDLINE} {cmdline}").trim_end().to_owned(),
        ),
    ] {
        args.extend([name.to_owned(), value]);
    }
    args
}

/// All arguments of one node with these faults, given the file descriptors of its rails.
fn node_args(plan: &Plan, number: usize, faults: &[Fault], rails: &[i32]) -> Vec<String> {
    let node = &plan.nodes[number - 1];
    let dir = StateDir::new(&plan.dir);
    let mut args = machine_args(plan.accel, &plan.image, &plan.initramfs, "");
    let mut add = |name: &str, value: String| args.extend([name.to_owned(), value]);
    add("-name", format!("linerate-lab-{}", node.name));
    add("-m", plan.memory_mib.to_string());
    add(
        "-serial",
        format!("file:{}", escape(&dir.console(&node.name))),
    );
    let shares = [
        ("root", Path::new("/").to_owned()),
        ("settings", dir.share(&node.name)),
        ("modules", plan.modules.clone()),
    ];
    for (tag, path) in shares {
        let path = escape(&path);
        let more = "security_model=none,readonly=on,multidevs=remap";
        add("-fsdev", format!("local,id={tag},path={path},{more}"));
        add(
            "-device",
            format!("virtio-9p-pci,bus=pcie.0,fsdev={tag},mount_tag={tag}"),
        );
    }
    topology(plan, &mut add);
    add("-netdev", user_net(node));
    add(
        "-device",
        format!(
            "virtio-net-pci,netdev=ssh,bus=pcie.0,romfile=,mac={}",
            mac(0xff, number)
        ),
    );
    for far in far_seats(plan, &node.name, faults) {
        add("-device", far.bridge.clone());
    }
    for (rail, fd) in rails.iter().enumerate() {
        let (bus, mac) = (
            &seat(plan, &node.name, faults, rail).bus,
            &node.rails[rail].mac,
        );
        add("-netdev", format!("socket,id=rail{rail},fd={fd}"));
        add(
            "-device",
            format!("virtio-net-pci,netdev=rail{rail},bus={bus},romfile=,host_mtu=4200,mac={mac}"),
        );
    }
    for seat in &plan.pcie.gpus {
        add("-device", format!("edu,bus={}", seat.bus));
    }
    args
}

/// The seats on another socket that NICs of a node take.
fn far_seats<'a>(
    plan: &'a Plan,
    node: &'a str,
    faults: &'a [Fault],
) -> impl Iterator<Item = &'a FarSeat> {
    in_guest(faults, node).filter_map(|harm| match harm {
        GuestHarm::Far { rail } => plan.pcie.far.get(rail),
        _ => None,
    })
}

/// Where the NIC of a rail (of which the tree has a seat) sits in a node.
pub(crate) fn seat<'a>(plan: &'a Plan, node: &str, faults: &[Fault], rail: usize) -> &'a Seat {
    let is_far = in_guest(faults, node).any(|harm| harm == GuestHarm::Far { rail });
    match plan.pcie.far.get(rail).filter(|_| is_far) {
        Some(far) => &far.seat,
        None => &plan.pcie.rails[rail],
    }
}

/// Sockets, their memory, and the bridges.
fn topology(plan: &Plan, add: &mut impl FnMut(&str, String)) {
    let sockets = plan.pcie.sockets;
    if sockets > 1 {
        add(
            "-smp",
            format!("{sockets},sockets={sockets},cores=1,threads=1"),
        );
        for n in 0..sockets {
            let size =
                plan.memory_mib / sockets + if n == 0 { plan.memory_mib % sockets } else { 0 };
            add(
                "-object",
                format!("memory-backend-ram,id=memory{n},size={size}M"),
            );
            add(
                "-numa",
                format!("node,nodeid={n},cpus={n},memdev=memory{n}"),
            );
        }
    }
    plan.pcie
        .bridges
        .iter()
        .for_each(|bridge| add("-device", bridge.clone()));
}

/// The NIC that carries SSH: QEMU's user network, closed but for the two forwarded ports.
fn user_net(node: &NodePlan) -> String {
    format!(
        "user,id=ssh,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:{}-:22,hostfwd=tcp:127.0.0.1:{}-:23",
        node.port, node.memlock_port
    )
}

/// QEMU under `setpriv --pdeathsig KILL`: it dies with the *thread* that starts it, however that ends.
pub fn command() -> Command {
    let mut command = tool::command("setpriv");
    command.args(["--pdeathsig", "KILL", QEMU]);
    command
}

/// Starts one node (counting from 1) with these faults. Gives its process and, in rail order, the switch's ends of its rails.
///
/// # Errors
/// When a socket cannot be made or QEMU cannot be started.
pub fn start(plan: &Plan, number: usize, faults: &[Fault]) -> Result<(Child, Vec<UnixStream>)> {
    let dir = StateDir::new(&plan.dir);
    let name = &plan.nodes[number - 1].name;
    let (console, log) = (dir.console(name), dir.qemu_log(name));
    fs::write(&console, "").map_err(LabError::file("cannot write", &console))?;
    let log = fs::File::create(&log).map_err(LabError::file("cannot make", &log))?;
    let copy = log
        .try_clone()
        .map_err(LabError::file("cannot use", plan.dir.join(name)))?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in &plan.nodes[number - 1].rails {
        let (our_end, their_end) =
            rail_sockets().map_err(LabError::file("cannot make", "a rail"))?;
        ours.push(our_end);
        theirs.push(their_end);
    }
    let fds: Vec<i32> = theirs.iter().map(AsRawFd::as_raw_fd).collect();
    let mut command = command();
    command
        .args(node_args(plan, number, faults, &fds))
        .stdout(log)
        .stderr(copy);
    let child = command.spawn().map_err(|source| LabError::Start {
        program: "setpriv".into(),
        source,
    })?;
    Ok((child, ours))
}

/// A pair of connected sockets: ours, and one that a child inherits.
fn rail_sockets() -> std::io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    setsockopt(&ours, sockopt::SndBuf, &SOCKET_BYTES)?;
    setsockopt(&theirs, sockopt::SndBuf, &SOCKET_BYTES)?;
    let theirs = OwnedFd::from(theirs);
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok((ours, theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_paths_are_doubled() {
        assert_eq!(escape(Path::new("/a,b/c")), "/a,,b/c");
    }
}
