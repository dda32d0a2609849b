//! What TCP over loopback takes of CPU time at full speed, and whether it is accounted for rightly.
//!
//! `cargo bench --bench cost [-- SECONDS]`, two seconds for each way without a number. Both ends are
//! processes of their own, on different processors where there are two. Prints Gb/s for each core of
//! sender and receiver, copied and with MSG_ZEROCOPY, and what cgroup v2 charged each process for
//! the same transfer. Fails where the two differ by more than 10 %.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails where it stands"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio, exit};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linerate::model::{
    Bytes, Completion, CpuUse, Endpoint, Fact, LocalPort, Measure, Measurement, MemoryKind,
    PortPlace, ProbeKind, ProbeSpec, Role, Verification,
};
use linerate::probe::prepare;

/// How far the two accounts may be apart.
const MOST_APART: f64 = 0.10;
/// Every way is measured so often; medians count.
const RUNS: usize = 3;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    if let [flag, role, kind, duration_ms, cpu] = &args[..]
        && flag == "--end"
    {
        end(
            role,
            kind,
            duration_ms.parse().unwrap(),
            cpu.parse().unwrap(),
        );
        return ExitCode::SUCCESS;
    }
    let seconds: f64 = args.first().map_or(2.0, |text| text.parse().unwrap());
    println!("TCP over loopback, {seconds} s, one connection, medians of {RUNS} runs");
    let ways = [("copied", "tcp"), ("MSG_ZEROCOPY", "tcp_zero_copy")];
    let fine = ways.map(|(name, kind)| measure(name, kind, Duration::from_secs_f64(seconds)));
    match fine.iter().all(|fine| *fine) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// One end: what it says and hears is what an agent and its controller would.
fn end(role: &str, kind: &str, duration_ms: u32, cpu: u32) {
    let role = match role {
        "initiator" => Role::Initiator,
        _ => Role::Target,
    };
    let kind = match kind {
        "tcp_zero_copy" => ProbeKind::TcpZeroCopy,
        _ => ProbeKind::Tcp,
    };
    let spec = ProbeSpec {
        kind,
        message_size: Bytes(128 << 10),
        depth: 1,
        queue_pairs: 1,
        duration_ms,
        completion: Completion::Event,
        memory: MemoryKind::Host,
        stop_at: None,
        measure: Measure::Rate,
        account: true,
    };
    let place = PortPlace {
        address: Fact::known("127.0.0.1".parse().unwrap(), "loopback"),
        cpus: Fact::known(vec![cpu], "the command line"),
        ..PortPlace::default()
    };
    let port = LocalPort {
        device: "lo".to_owned(),
        port: 1,
        gid_index: 0,
        gpu: None,
    };
    let stop = AtomicBool::new(false);
    let mut lines = stdin().lines().map(Result::unwrap);
    let prepared = prepare(&spec, role, &port, &place, 1).unwrap();
    say(&serde_json::to_string(prepared.endpoint()).unwrap());
    let peer: Endpoint = serde_json::from_str(&lines.next().unwrap()).unwrap();
    let mut connected = prepared.connect(&peer, &stop).unwrap();
    say("connected");
    lines.next().unwrap();
    let result = match role {
        Role::Initiator => serde_json::to_string(&connected.run(&stop).unwrap()),
        Role::Target => serde_json::to_string(&connected.verify(&stop).unwrap()),
    };
    say(&result.unwrap());
    // Until its cgroup has been read.
    lines.next();
}

fn say(line: &str) {
    println!("{line}");
}

/// A child that plays an end, in a cgroup of its own.
struct End {
    child: Child,
    lines: BufReader<ChildStdout>,
    group: Option<Group>,
}

impl End {
    fn start(role: &str, kind: &str, duration: Duration, cpu: u32) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--end",
                role,
                kind,
                &duration.as_millis().to_string(),
                &cpu.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let group = Group::of(child.id(), role);
        Self {
            child,
            lines,
            group,
        }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        if self.lines.read_line(&mut line).unwrap() == 0 {
            eprintln!("an end broke; what it said is above");
            exit(1);
        }
        line
    }

    fn charged_us(&self) -> Option<u64> {
        self.group.as_ref()?.usage_us()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A cgroup (v2, or the v2 side of a hybrid) with one process in it.
struct Group(PathBuf);

impl Group {
    fn of(pid: u32, name: &str) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let root = roots
            .iter()
            .find(|root| root.join("cgroup.controllers").exists())?;
        let path = root.join(own).join(format!("linerate-cost-{pid}-{name}"));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        fs::write(group.0.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(group)
    }

    fn usage_us(&self) -> Option<u64> {
        let stat = fs::read_to_string(self.0.join("cpu.stat")).ok()?;
        let usage = stat
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))?;
        usage.parse().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// One transfer: what both ends say, and what their cgroups were charged meanwhile.
struct Run {
    measurement: Measurement,
    verification: Verification,
    charged_us: Option<[u64; 2]>,
}

fn run(kind: &str, duration: Duration) -> Run {
    let last = std::thread::available_parallelism().map_or(0, |n| n.get() as u32 - 1);
    let mut initiator = End::start("initiator", kind, duration, last);
    let mut target = End::start("target", kind, duration, last.saturating_sub(1));
    let (ours, theirs) = (initiator.hear(), target.hear());
    initiator.tell(theirs.trim());
    target.tell(ours.trim());
    initiator.hear();
    target.hear();
    let before = [initiator.charged_us(), target.charged_us()];
    initiator.tell("run");
    let measurement: Measurement = serde_json::from_str(&initiator.hear()).unwrap();
    let after = [initiator.charged_us(), target.charged_us()];
    target.tell("verify");
    let verification: Verification = serde_json::from_str(&target.hear()).unwrap();
    let charged_us = match (before, after) {
        ([Some(a), Some(b)], [Some(c), Some(d)]) => Some([c - a, d - b]),
        _ => None,
    };
    Run {
        measurement,
        verification,
        charged_us,
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn threads_us(cpu: &CpuUse) -> f64 {
    (cpu.user_us + cpu.system_us) as f64
}

/// Cores that the host had busy beside both ends; of interrupts some may be theirs.
fn beside(run: &Run) -> Option<f64> {
    let cpu = &run.measurement.cpu;
    let host = cpu.host.value()?;
    let all = host.user_us + host.system_us + host.softirq_us + host.irq_us.unwrap_or(0);
    let ours = threads_us(cpu) + threads_us(run.verification.cpu.value()?);
    Some((all as f64 - ours) / *cpu.elapsed_us.value()? as f64)
}

/// Measures one way and prints it; whether the accounts agree.
fn measure(name: &str, kind: &str, duration: Duration) -> bool {
    let runs: Vec<Run> = (0..RUNS).map(|_| run(kind, duration)).collect();
    assert!(
        runs.iter().all(|run| run.verification.bytes_wrong == 0),
        "wrong bytes arrived"
    );
    let of = |number: &dyn Fn(&Run) -> f64| median(runs.iter().map(number).collect());
    let rate = of(&|run| run.measurement.rate().unwrap().0);
    println!("\n{name}: {rate:.1} Gb/s");
    let bytes = |run: &Run| run.measurement.total_bytes as f64;
    let spent = |run: &Run, end: usize| match end {
        0 => threads_us(&run.measurement.cpu),
        _ => threads_us(run.verification.cpu.value().unwrap()),
    };
    let mut fine = true;
    for (end, who) in ["sender", "receiver"].into_iter().enumerate() {
        let per_core = of(&|run| bytes(run) * 8.0 / (spent(run, end) * 1e3));
        let ns_per_kib = of(&|run| spent(run, end) * 1e3 * 1024.0 / bytes(run));
        print!("  {who:8}  {per_core:6.1} Gb/s for each core, {ns_per_kib:6.1} ns for each KiB");
        if runs.iter().any(|run| run.charged_us.is_none()) {
            println!("; SKIPPED: no cgroup v2 here to compare it with");
            continue;
        }
        let charged = |run: &Run| run.charged_us.unwrap()[end] as f64;
        let theirs = of(&|run| charged(run) * 1e3 * 1024.0 / bytes(run));
        let ratio = of(&|run| spent(run, end) / charged(run));
        let agrees = (ratio - 1.0).abs() <= MOST_APART;
        let word = if agrees {
            "agrees"
        } else {
            "DIFFERS by more than 10 %"
        };
        println!("; cgroup: {theirs:6.1} ns, ratio {ratio:.3}: {word}");
        fine &= agrees;
    }
    let beside: Vec<f64> = runs.iter().filter_map(beside).collect();
    if beside.len() == runs.len() {
        println!(
            "  beside both ends the host had {:.2} cores busy",
            median(beside)
        );
    }
    if let Some(copies) = runs
        .iter()
        .find_map(|run| run.measurement.tcp.as_ref()?.zero_copy)
    {
        println!(
            "  the kernel copied {} of {} sends all the same",
            copies.copied, copies.completed
        );
    }
    fine
}
