//! How fast logs of NCCL are read, and in how much memory, however long they are:
//! `cargo bench --bench nccl -- [MB]`, 1000 without a number.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot set itself up fails where it stands"
)]

use std::io::{self, BufRead, Read};
use std::time::Instant;

use linerate::nccl::NcclReader;
use procfs::process::Process;

/// What a reader of files has in its buffer.
const BUFFER: usize = 256 << 10;

/// The ranks of the job.
const RANKS: usize = 1024;

/// A text over and over again, without that it is in memory as often.
struct Repeated<'a> {
    text: &'a [u8],
    at: usize,
    left: usize,
}

impl Read for Repeated<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let length = bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&bytes[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Repeated<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let end = self.text.len().min(self.at + BUFFER.min(self.left));
        Ok(&self.text[self.at..end])
    }

    fn consume(&mut self, length: usize) {
        self.left -= length;
        self.at = (self.at + length) % self.text.len();
    }
}

/// A job of 128 nodes with 8 GPUs each: what each rank says at NCCL_DEBUG=INFO, with all subsystems
/// that linerate asks for.
fn job() -> String {
    let mut log = String::new();
    for rank in 0..RANKS as u32 {
        let (node, gpu) = (rank / 8, rank % 8);
        let head = format!(
            "[{rank}] gpu{node:03}:{}:{} [{gpu}] NCCL INFO",
            4000 + gpu,
            4100 + gpu
        );
        let bus = 0x1a000 + gpu * 0x10000;
        let (next, before) = ((rank + 8) % 1024, (rank + 1016) % 1024);
        log += &format!(
            "{head} NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>\n\
             {head} ncclCommInitRank comm 0x55{rank:06x} rank {rank} nranks 1024 cudaDev {gpu} nvmlDev {gpu} busId {bus:x} commId 0x65e0bd6ee7449db4 - Init START\n\
             {head} GPU/0-{bus:x} :GPU/0-1c000 (0/5000.0/LOC) CPU/0-0 (1/48.0/PHB) NET/0-0 (3/24.0/PIX)\n\
             {head} Trees [0] {next}/-1/-1->{rank}->{before} [1] {next}/-1/-1->{rank}->{before}\n"
        );
        for channel in 0..16 {
            let nic = gpu / 2;
            log += &format!(
                "{head} Channel {channel:02}/0 : {before}[{gpu}] -> {rank}[{gpu}] [receive] via NET/IB/{nic}/GDRDMA\n\
                 {head} Channel {channel:02}/0 : {rank}[{gpu}] -> {next}[{gpu}] [send] via NET/IB/{nic}/GDRDMA\n\
                 {head} Channel {channel:02}/0 : {rank}[{gpu}] -> {}[{}] via P2P/CUMEM/read\n",
                rank ^ 1,
                gpu ^ 1
            );
        }
    }
    log
}

/// The same where each rank says one line in turn, so that none is like the one before.
fn in_turn(job: &str) -> String {
    let lines: Vec<&str> = job.lines().collect();
    let of_rank = lines.len() / RANKS;
    let turns = (0..of_rank).flat_map(|line| (0..RANKS).map(move |rank| rank * of_rank + line));
    turns.map(|at| format!("{}\n", lines[at])).collect()
}

/// What a training job writes between.
fn training() -> String {
    let line = |step: u32| {
        format!(
            "2026-01-02 03:04:05,678 INFO trainer step={step} loss={:.4} lr=3.0e-4 grad_norm=0.812 tokens/s=41873 \
             memory=61.2GiB\n",
            8.0 / f64::from(step + 1)
        )
    };
    (0..10_000).map(line).collect()
}

fn measure(name: &str, text: &str, megabytes: usize) {
    let mut source = Repeated {
        text: text.as_bytes(),
        at: 0,
        left: megabytes * 1_000_000,
    };
    let mut reader = NcclReader::default();
    let (before, start) = (processor_seconds(), Instant::now());
    reader.read(name, &mut source).unwrap();
    let log = reader.finish();
    let (seconds, clock) = (processor_seconds() - before, start.elapsed().as_secs_f64());
    let resident = Process::myself().unwrap().stat().unwrap().rss * procfs::page_size();
    println!(
        "{name}: {megabytes} MB, {} lines, {} ranks in {seconds:.2} s of a core ({clock:.2} s by the clock): \
         {:.0} MB/s, {:.1} MiB resident",
        log.extent.lines,
        log.ranks.len(),
        megabytes as f64 / seconds,
        resident as f64 / f64::from(1 << 20)
    );
}

/// What the process took of processors so far: a busy machine makes the clock say little.
fn processor_seconds() -> f64 {
    let stat = Process::myself().unwrap().stat().unwrap();
    (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let megabytes = arguments.find_map(|text| text.parse().ok()).unwrap_or(1000);
    let (job, training) = (job(), training());
    let mixed = training.repeat(job.len() * 3 / training.len()) + &job;
    // A tenth of it first: memory that grows with the log shows.
    measure("NCCL alone", &job, megabytes / 10);
    measure("NCCL alone", &job, megabytes);
    measure("NCCL alone, ranks in turn", &in_turn(&job), megabytes);
    measure("three quarters training", &mixed, megabytes);
    measure("training alone", &training, megabytes);
}
