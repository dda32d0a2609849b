//! What TCP over loopback takes of CPU time at full speed, and whether it is accounted for rightly.
//!
//! `cargo bench --bench cost [-- SECONDS]`, two seconds for each way without a number. Both ends are
//! processes of their own, on different processors where there are two. Prints Gb/s for each core of
//! sender and receiver, copied and with MSG_ZEROCOPY, and what cgroup v2 charged each process for
//! the same transfer; then what linerate says the whole host spent on it, software interrupts
//! included, and what cgroups and the kernel's threads for them say. Fails where two accounts of
//! one thing differ by more than 10 %.

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

use linerate::judge::EndCost;
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

/// CPU time that the kernel spends on interrupts beside the processes, in microseconds.
///
/// Where the kernel measures it (CONFIG_IRQ_TIME_ACCOUNTING) it is taken out of what it charges to
/// processes, and is in /proc/stat. Where it does not, a process is charged for what interrupts it,
/// and only the kernel's threads for software interrupts are beside it.
#[derive(Clone, Copy)]
enum Interrupts {
    Measured,
    OfThreads,
}

impl Interrupts {
    /// By the configuration of the running kernel; `None` where that is not told.
    fn of_this_kernel() -> Option<Self> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
        let packed = Command::new("zcat").arg("/proc/config.gz").output().ok();
        let packed = packed.filter(|output| output.status.success());
        let config = match packed {
            Some(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            None => fs::read_to_string(format!("/boot/config-{}", release.trim())).ok()?,
        };
        let is_on = config
            .lines()
            .any(|line| line == "CONFIG_IRQ_TIME_ACCOUNTING=y");
        Some(if is_on {
            Self::Measured
        } else {
            Self::OfThreads
        })
    }

    fn spent_us(self) -> Option<f64> {
        match self {
            Self::Measured => {
                let stat = fs::read_to_string("/proc/stat").ok()?;
                let mut fields = stat.lines().next()?.split_whitespace().skip(1);
                let [irq, softirq] = [fields.nth(5)?, fields.next()?];
                let ticks: u64 = irq.parse::<u64>().ok()? + softirq.parse::<u64>().ok()?;
                // USER_HZ of Linux on every architecture of today.
                Some(ticks as f64 * 10_000.0)
            }
            Self::OfThreads => {
                let mut all = 0.0;
                for process in fs::read_dir("/proc").ok()?.flatten() {
                    let comm = fs::read_to_string(process.path().join("comm"));
                    if comm.is_ok_and(|comm| comm.starts_with("ksoftirqd/")) {
                        let stat = fs::read_to_string(process.path().join("schedstat")).ok()?;
                        all += stat.split_whitespace().next()?.parse::<f64>().ok()? / 1e3;
                    }
                }
                Some(all)
            }
        }
    }
}

/// One transfer: what both ends say, and what their cgroups were charged meanwhile.
struct Run {
    measurement: Measurement,
    verification: Verification,
    charged_us: Option<[u64; 2]>,
    /// What was spent on interrupts beside them.
    interrupts_us: Option<f64>,
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
    let kernel = Interrupts::of_this_kernel();
    let interrupts = || kernel?.spent_us();
    let interrupts_before = interrupts();
    initiator.tell("run");
    let measurement: Measurement = serde_json::from_str(&initiator.hear()).unwrap();
    let after = [initiator.charged_us(), target.charged_us()];
    let interrupts_us = interrupts()
        .zip(interrupts_before)
        .map(|(after, before)| after - before);
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
        interrupts_us,
    }
}

/// What linerate says that the host spent on a transfer, both ends and the kernel beside them, and what
/// cgroups and interrupts do, in microseconds; `Err` where the two cannot be held against each other.
fn whole(run: &Run) -> Result<[f64; 2], String> {
    let cpu = &run.measurement.cpu;
    // Both ends are on this host: what is beside the initiator has the target in it.
    let cost = EndCost::of(cpu, run.measurement.total_bytes, None).ok_or("nothing was moved")?;
    if let Some(why) = cost.beside_us.why_unknown() {
        return Err(why.to_owned());
    }
    if cost.is_busy() {
        let cores = cost.idle_cores.value().copied().unwrap_or_default();
        return Err(format!("the host had {cores:.2} cores busy before"));
    }
    let charged = run.charged_us.ok_or("no cgroup v2 here")?;
    let interrupts = run
        .interrupts_us
        .ok_or("how this kernel charges interrupts is not known")?;
    let theirs = charged.iter().sum::<u64>() as f64 + interrupts;
    Ok([cost.spent_us(), theirs])
}

/// Prints both accounts of the whole; whether they agree, as far as they can be compared.
fn compare_whole(runs: &[Run]) -> bool {
    let both: Result<Vec<[f64; 2]>, String> = runs.iter().map(whole).collect();
    let both = match both {
        Ok(both) => both,
        Err(why) => {
            println!("  whole host  SKIPPED: {why}");
            return true;
        }
    };
    let per_kib = |at: usize| {
        let of = |(run, both): (&Run, &[f64; 2])| {
            both[at] * 1e3 * 1024.0 / run.measurement.total_bytes as f64
        };
        median(runs.iter().zip(&both).map(of).collect())
    };
    let ratio = median(both.iter().map(|[ours, theirs]| ours / theirs).collect());
    let agrees = (ratio - 1.0).abs() <= MOST_APART;
    let word = if agrees {
        "agrees"
    } else {
        "DIFFERS by more than 10 %"
    };
    println!(
        "  whole host  {:6.1} ns for each KiB, both ends and software interrupts; cgroups and interrupts: \
         {:6.1} ns, ratio {ratio:.3}: {word}",
        per_kib(0),
        per_kib(1)
    );
    agrees
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
    fine &= compare_whole(&runs);
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
