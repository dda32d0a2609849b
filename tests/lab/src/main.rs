//! The lab's command line: start, end, ask and change a lab of VMs.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use linerate_lab::control::{NodeStatus, Phase, Status};
use linerate_lab::{Accel, Fault, Lab, LabError, Options, Rate, Result, check, judge, tree_for};

/// A lab of VMs with soft-RoCE NICs and real sshds, for linerate's demo and tests. Needs no root.
#[derive(Parser)]
#[command(name = "linerate-lab", version)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
    /// State directory of the lab.
    #[arg(long, global = true, value_name = "DIR", default_value_os_t = linerate_lab::default_dir())]
    dir: PathBuf,
}

#[derive(Subcommand)]
enum Verb {
    /// Start a lab and wait until it can be used.
    Up(Up),
    /// Say how the lab stands; exit code 1 if none is up.
    Status {
        /// As JSON, the same as lab.json.
        #[arg(long)]
        json: bool,
    },
    /// End the lab; nothing to do is no error.
    Down,
    /// Say what is missing on this machine; exit code 1 if anything is.
    Check {
        /// Print only the names of the packages to install.
        #[arg(long)]
        packages: bool,
    },
    /// Hold a JSON report of linerate against the faults that are in effect; exit code 1 if it names
    /// anything else, or not all of them
    Judge {
        /// The report, as `linerate report --format json` writes it.
        report: PathBuf,
        /// The exit code that came with it: it must be the report's.
        #[arg(long)]
        exit_code: Option<u8>,
    },
    /// Open a shell on a node, or run a command there.
    Ssh {
        /// node01 and so on.
        node: String,
        /// Log in as root.
        #[arg(long)]
        root: bool,
        /// The command, as ssh takes it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Bring a fault into effect.
    ///
    /// On a link, at once: half:NODE:RAIL:tx, rate:NODE:RAIL:rx:8mbit, loss:NODE:RAIL:both:1%,
    /// delay:NODE:RAIL:tx:2ms, cut:NODE:RAIL, transient:NODE:RAIL:tx:2s (half for two seconds from now).
    ///
    /// Of a node, at once: shared:NODE:8mbit (all its rails together send no more than this and receive
    /// no more than this; alone each is as fast as ever), pause:NODE:10s (it stands still for ten seconds
    /// from now, its clocks do not).
    ///
    /// In a node, which boots anew for it: mtu:NODE:RAIL:1500 (of the interface), memlock:NODE:65536 (for
    /// who logs in), and in a lab with --pcie two-socket narrow:NODE:RAIL:x8 (the NIC's link trained at
    /// eight lanes), far:NODE:RAIL (the NIC sits on the other socket), no-peermem:NODE (GPUDirect is off).
    Fault {
        /// The fault.
        fault: Fault,
    },
    /// Take one fault away, or all.
    Heal {
        /// The fault; all if left out.
        fault: Option<Fault>,
    },
    /// Pull a node's plug.
    Kill {
        /// The node.
        node: String,
    },
    /// Boot a node that was killed.
    Start {
        /// The node.
        node: String,
    },
    /// Be the supervisor; `up` starts it.
    #[command(hide = true)]
    Serve,
}

#[derive(Args)]
struct Up {
    /// VMs, named node01 and so on.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// RDMA NICs of each VM, each on a rail of its own.
    #[arg(long, default_value_t = 2)]
    rails: usize,
    /// Rate of each link in each direction, such as 8mbit; none for as fast as the machine goes.
    #[arg(long, default_value = "8mbit", value_parser = rate_or_none)]
    rate: MaybeRate,
    /// A fault from the start, such as half:node02:1:tx (see `help fault` for all); may be repeated.
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<Fault>,
    /// PCIe tree of each VM: flat, two-socket (with stand-in GPUs), or a JSON file [default: flat, or
    /// two-socket where a fault needs it]
    #[arg(long, value_name = "TREE")]
    pcie: Option<String>,
    /// How the VMs' processors run.
    #[arg(long, value_enum, default_value = "auto")]
    accel: Accel,
    /// Memory of each VM in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    memory: u32,
    /// Port of node01's sshd on 127.0.0.1, the next for node02 and so on; 0 for free ports.
    #[arg(long, value_name = "PORT", default_value_t = 2201)]
    base_port: u16,
}

/// A rate, or none on purpose; not an `Option`, which clap takes for "may be left out".
#[derive(Clone, Copy)]
struct MaybeRate(Option<Rate>);

fn rate_or_none(text: &str) -> std::result::Result<MaybeRate, String> {
    if text == "none" {
        return Ok(MaybeRate(None));
    }
    text.parse()
        .map(|rate| MaybeRate(Some(rate)))
        .map_err(|e| format!("{e}"))
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("linerate-lab: {error}");
            ExitCode::from(if matches!(error, LabError::Down(_)) {
                1
            } else {
                2
            })
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Verb::Up(up) => return start_lab(up, cli.dir),
        Verb::Serve => linerate_lab::serve(&cli.dir)?,
        Verb::Down => match linerate_lab::down(&cli.dir)? {
            true => println!("the lab is down"),
            false => println!("no lab was up"),
        },
        Verb::Check { packages } => return Ok(show_check(packages)),
        Verb::Status { json } => show_status(&Lab::attach(&cli.dir)?.status()?, json),
        Verb::Ssh {
            node,
            root,
            command,
        } => {
            let user = if root { "root" } else { "operator" };
            let mut ssh = Lab::attach(&cli.dir)?.ssh_command(user, &node)?;
            let source = ssh.args(command).exec();
            return Err(LabError::Start {
                program: "ssh".into(),
                source,
            });
        }
        Verb::Judge { report, exit_code } => {
            let faults = Lab::attach(&cli.dir)?.status()?.faults;
            return Ok(show_judgement(&faults, &report, exit_code));
        }
        Verb::Fault { fault } => Lab::attach(&cli.dir)?.fault(&fault)?,
        Verb::Heal { fault: Some(fault) } => Lab::attach(&cli.dir)?.heal_fault(&fault)?,
        Verb::Heal { fault: None } => Lab::attach(&cli.dir)?.heal()?,
        Verb::Kill { node } => Lab::attach(&cli.dir)?.kill(&node)?,
        Verb::Start { node } => Lab::attach(&cli.dir)?.start(&node)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn start_lab(up: Up, dir: PathBuf) -> Result<ExitCode> {
    let options = Options {
        nodes: up.nodes,
        rails: up.rails,
        rate: up.rate.0,
        pcie: up.pcie.unwrap_or_else(|| tree_for(&up.faults).to_owned()),
        faults: up.faults,
        dir,
        accel: up.accel,
        memory_mib: up.memory,
        base_port: up.base_port,
        tether: false,
    };
    let mut lab = Lab::up_with(&options, &mut |step| eprintln!("lab: {step}"))?;
    show_status(&lab.status()?, false);
    lab.leave_up();
    Ok(ExitCode::SUCCESS)
}

fn show_judgement(faults: &[Fault], report: &Path, exit_code: Option<u8>) -> ExitCode {
    match judge::judge(faults, report, exit_code) {
        Ok(said) => {
            println!("lab: {said}");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("lab: {wrong}");
            ExitCode::from(1)
        }
    }
}

fn show_check(only_packages: bool) -> ExitCode {
    let missing = check::missing();
    if only_packages {
        check::packages(&missing)
            .iter()
            .for_each(|package| println!("{package}"));
    } else if missing.is_empty() {
        println!("nothing is missing");
        println!("{}", check::accel_note());
    } else {
        println!("{}", check::explain(&missing));
    }
    if missing.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}

fn show_status(status: &Status, json: bool) {
    if json {
        match serde_json::to_string_pretty(status) {
            Ok(text) => println!("{text}"),
            Err(e) => eprintln!("linerate-lab: {e}"),
        }
        return;
    }
    let rate = status
        .rate
        .map_or("no rate".to_owned(), |rate| rate.to_string());
    println!(
        "{} nodes, {rate}, kernel {}, {:?}",
        status.nodes.len(),
        status.kernel,
        status.accel
    );
    status.nodes.iter().for_each(show_node);
    status
        .faults
        .iter()
        .for_each(|fault| println!("fault {fault}"));
    println!("cluster file {}", status.dir.join("cluster.toml").display());
}

fn show_node(node: &NodeStatus) {
    let rails: Vec<String> = node
        .plan
        .rails
        .iter()
        .map(|nic| format!("{} {}", nic.device, nic.address))
        .collect();
    let phase = match &node.phase {
        Phase::Booting => "booting".to_owned(),
        Phase::Up => "up".to_owned(),
        Phase::Stopped => "killed".to_owned(),
        Phase::Failed(why) => format!("FAILED: {why}"),
    };
    println!(
        "{} 127.0.0.1:{} {} {phase}",
        node.plan.name,
        node.plan.port,
        rails.join(", ")
    );
}
