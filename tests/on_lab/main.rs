//! What an operator sees, on a lab of VMs: exit codes and messages of the real binary, the nodes'
//! state before and after. One lab serves all cases of a kind, one after another; each is undone before
//! the next.
//!
//! Without the means for a lab every case is ignored, loudly; `LINERATE_LAB=require` makes that a failure.
//! `LINERATE_LAB_SHOW=1` prints every run's report. `LINERATE_LAB_RUNS=5` runs each case so often and ends
//! with a table; the files of runs that failed are kept in the directory that `LINERATE_LAB_KEEP` names.

mod accept;
mod bandwidth;
mod bench;
#[path = "../support/closed_port.rs"]
mod closed_port;
mod cost;
mod dashboard;
mod disturbed;
mod endings;
mod faults;
mod gpu;
mod killed;
mod lab_binary;
mod nodes;
#[path = "../support/record.rs"]
mod record;
mod running;
mod server;
mod table;
#[path = "../support/terminal.rs"]
mod terminal;
mod ways_in;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bench::{Bench, Kind};
use libtest_mimic::{Arguments, Failed, Trial};
use linerate_lab::check;

/// A case: what it holds, and the lab that it may change.
type Case = (&'static str, fn(&mut Bench));

/// In this order. The first run also copies linerate to every node.
const CASES: &[Case] = &[
    ("a_slow_sender_is_named", bandwidth::a_slow_sender_is_named),
    (
        "a_slow_nic_stands_out_and_leads_to_its_finding",
        dashboard::a_slow_nic_stands_out_and_leads_to_its_finding,
    ),
    (
        "a_healthy_cluster_has_no_finding",
        bandwidth::a_healthy_cluster_has_no_finding,
    ),
    (
        "a_probe_opens_no_listening_port",
        bandwidth::a_probe_opens_no_listening_port,
    ),
    (
        "tcp_is_measured_beside_rdma",
        cost::tcp_is_measured_beside_rdma,
    ),
    ("two_write_to_one_at_once", cost::two_write_to_one_at_once),
    (
        "ctrl_c_leaves_a_part_of_the_report",
        endings::ctrl_c_leaves_a_part_of_the_report,
    ),
    (
        "kill_9_leaves_nothing_on_the_nodes",
        endings::kill_9_leaves_nothing_on_the_nodes,
    ),
    (
        "a_full_disk_here_stops_the_run",
        endings::a_full_disk_here_stops_the_run,
    ),
    (
        "without_libibverbs_a_node_is_surveyed",
        nodes::without_libibverbs_a_node_is_surveyed,
    ),
    (
        "a_node_without_rdma_devices",
        nodes::a_node_without_rdma_devices,
    ),
    ("a_port_that_is_down", nodes::a_port_that_is_down),
    ("too_little_locked_memory", nodes::too_little_locked_memory),
    ("a_full_disk_on_a_node", nodes::a_full_disk_on_a_node),
    (
        "a_node_that_lets_no_program_run",
        nodes::a_node_that_lets_no_program_run,
    ),
    ("a_talkative_login_shell", ways_in::a_talkative_login_shell),
    (
        "nodes_that_do_not_let_linerate_in",
        ways_in::nodes_that_do_not_let_linerate_in,
    ),
    ("a_node_that_goes_down", ways_in::a_node_that_goes_down),
];

/// Those on four nodes, so that whoever is under test has partners that are proved good.
const FOUR_CASES: &[Case] = &[
    (
        "four::a_slow_receiver_and_a_nic_that_is_slow_both_ways",
        faults::a_slow_receiver_and_a_nic_that_is_slow_both_ways,
    ),
    (
        "four::rails_that_are_slow_only_together",
        faults::rails_that_are_slow_only_together,
    ),
    (
        "four::each_fault_of_a_link_is_rejected_by_its_check",
        faults::each_fault_of_a_link_is_rejected_by_its_check,
    ),
    (
        "four::a_node_that_is_killed_in_a_round",
        disturbed::a_node_that_is_killed_in_a_round,
    ),
    (
        "four::a_node_that_stands_still_for_ten_seconds",
        disturbed::a_node_that_stands_still_for_ten_seconds,
    ),
    (
        "four::a_link_that_is_slow_for_two_seconds",
        disturbed::a_link_that_is_slow_for_two_seconds,
    ),
    (
        "four::a_run_goes_on_wherever_it_was_killed",
        killed::a_run_goes_on_wherever_it_was_killed,
    ),
];

/// Those on nodes with a server's PCIe tree and GPUs.
const SERVER_CASES: &[Case] = &[
    (
        "what_is_planted_in_nodes_is_named",
        server::what_is_planted_in_nodes_is_named,
    ),
    (
        "a_healthy_server_has_no_finding",
        server::a_healthy_server_has_no_finding,
    ),
    (
        "gpu::gpu_memory_is_moved_by_peer_memory",
        gpu::gpu_memory_is_moved_by_peer_memory,
    ),
    (
        "gpu::gpu_memory_is_moved_by_way_of_the_host",
        gpu::gpu_memory_is_moved_by_way_of_the_host,
    ),
    (
        "gpu::memory_that_no_module_takes_is_refused",
        gpu::memory_that_no_module_takes_is_refused,
    ),
    (
        "gpu::gpu_memory_that_cannot_be_had_is_not_replaced",
        gpu::gpu_memory_that_cannot_be_had_is_not_replaced,
    ),
];

const PLAIN: Kind = Kind {
    nodes: 3,
    pcie: "flat",
    faults: &[],
};

const OF_FOUR: Kind = Kind {
    nodes: 4,
    pcie: "flat",
    faults: &[],
};

const SERVER: Kind = Kind {
    nodes: 3,
    pcie: "two-socket",
    faults: server::FAULTS,
};

/// The lab of one kind, from the first case that runs on; or why it does not come up, which it would not
/// tell better a second time.
type Shared = Arc<Mutex<Option<(Kind, Result<Bench, String>)>>>;

/// Where the last assertion failed.
static PLACE: Mutex<String> = Mutex::new(String::new());

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One lab, and links that two runs at once would share.
    arguments.test_threads = Some(1);
    let required = std::env::var("LINERATE_LAB").is_ok_and(|word| word == "require");
    let missing = check::missing();
    let skipped = !missing.is_empty() && !required;
    if skipped && !arguments.list {
        eprintln!(
            "SKIPPED: the tests on the lab. This machine lacks what a lab needs:\n{}",
            check::explain(&missing)
        );
    }
    let shared: Shared = Arc::default();
    let cases = CASES.iter().map(|case| (PLAIN, case));
    let cases = cases.chain(FOUR_CASES.iter().map(|case| (OF_FOUR, case)));
    let cases = cases.chain(SERVER_CASES.iter().map(|case| (SERVER, case)));
    let trials = cases.map(|(kind, (name, case))| {
        let shared = Arc::clone(&shared);
        Trial::test(*name, move || run_all(&shared, kind, name, *case)).with_ignored_flag(skipped)
    });
    // What a failed assertion says goes into the summary.
    std::panic::set_hook(Box::new(|panic| {
        *lock(&PLACE) = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
    }));
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    // Takes the lab down; the process may end before anything else would.
    drop(lock(&shared).take());
    table::print();
    conclusion.exit_code()
}

/// Runs a case as often as is wanted, each time whatever became of the time before.
fn run_all(
    shared: &Shared,
    kind: Kind,
    name: &'static str,
    case: fn(&mut Bench),
) -> Result<(), Failed> {
    let mut first = None;
    for _ in 0..table::runs() {
        table::begin(name);
        let outcome = run(shared, kind, name, case);
        table::end(outcome.as_ref().err().and_then(Failed::message));
        first = first.or(outcome.err());
    }
    first.map_or(Ok(()), Err)
}

/// Runs a case, then undoes what it did to the lab whatever became of it.
fn run(
    shared: &Shared,
    kind: Kind,
    name: &'static str,
    case: fn(&mut Bench),
) -> Result<(), Failed> {
    let mut held = lock(shared);
    // The lab before goes down first: one machine has room for one.
    drop(held.take_if(|(other, _)| *other != kind));
    let (_, bench) = held.get_or_insert_with(|| (kind, Bench::up(&kind)));
    let bench = match bench {
        Ok(bench) => bench,
        Err(why) => return Err(Failed::from(why.clone())),
    };
    bench.begin(name);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(bench)));
    if let (Err(_), Some(to)) = (&outcome, std::env::var_os("LINERATE_LAB_KEEP")) {
        bench.keep_files(&PathBuf::from(to));
    }
    if let Err(why) = bench.restore() {
        // The cases after this one get a new lab.
        *held = None;
        eprintln!("{name}: the lab could not be restored: {why}");
    }
    outcome.map_err(|payload| {
        let words = payload.downcast_ref::<String>().cloned();
        let words = words.or_else(|| {
            payload
                .downcast_ref::<&str>()
                .map(|word| (*word).to_owned())
        });
        let words = words.unwrap_or_else(|| "the case panicked".to_owned());
        Failed::from(format!("{}: {words}", lock(&PLACE)))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
