//! A lab as tests and the command line hold it: started, asked, changed, ended.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::control::{Client, NodeStatus, Phase, Request, Status};
use crate::error::{LabError, Result};
use crate::fault::Fault;
use crate::options::{Options, Plan, absolute, cache_dir};
use crate::state::{self, StateDir};
use crate::{accel, check, initramfs, kernel, pcie, tool};

/// Names the `linerate-lab` binary to tests, when it is not beside them.
pub const BINARY_VARIABLE: &str = "LINERATE_LAB_BIN";

/// A lab that is up. One that this process started goes down when this is dropped; one that it attached to
/// stays.
#[derive(Debug)]
pub struct Lab {
    dir: StateDir,
    client: Client,
    owned: bool,
}

impl Lab {
    /// Starts a lab and waits until every node's sshds answer and its RDMA devices exist.
    ///
    /// The supervisor is the `linerate-lab` binary: the one that `$LINERATE_LAB_BIN` names, this program if it
    /// is that, or `linerate-lab` beside this program or one directory above (where Cargo puts it, as seen
    /// from a test).
    ///
    /// # Errors
    /// When the machine lacks something, a lab is already up in the directory, or a node does not come up
    /// (with the end of its console). Nothing is left running then.
    pub fn up(options: &Options) -> Result<Lab> {
        Lab::up_with(options, &mut |_| {})
    }

    /// Like [`Lab::up`], telling `say` of each step.
    ///
    /// # Errors
    /// Those of [`Lab::up`].
    pub fn up_with(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Lab> {
        options.check()?;
        let missing = check::missing();
        if !missing.is_empty() {
            return Err(LabError::Options(check::explain(&missing)));
        }
        let binary = binary()?;
        let dir = StateDir::new(absolute(&options.dir)?);
        state::make_dir(dir.path())?;
        clean_up(&dir)?;
        state::prepare(&plan(options, &dir, say)?)?;
        say("starting the nodes");
        let mut supervisor = spawn_supervisor(&binary, &dir)?;
        let client = connect(&dir, &mut supervisor)?;
        // The supervisor outlives this process or ends with it; either way nobody waits for it here.
        thread::spawn(move || supervisor.wait());
        let mut lab = Lab {
            dir,
            client,
            owned: true,
        };
        lab.client.ask(&Request::Hold)?;
        let names: Vec<String> = lab
            .status()?
            .nodes
            .into_iter()
            .map(|n| n.plan.name)
            .collect();
        lab.wait_for(&names, say)?;
        if !options.tether {
            lab.client.ask(&Request::Release)?;
        }
        Ok(lab)
    }

    /// The lab that is up in a state directory.
    ///
    /// # Errors
    /// [`LabError::Down`] when there is none.
    pub fn attach(dir: &Path) -> Result<Lab> {
        let dir = StateDir::new(absolute(dir)?);
        let client = Client::connect(dir.path())?;
        Ok(Lab {
            dir,
            client,
            owned: false,
        })
    }

    /// Leaves the lab up when this is dropped.
    pub fn leave_up(mut self) {
        self.owned = false;
    }

    /// How the lab stands.
    ///
    /// # Errors
    /// When the supervisor does not answer.
    pub fn status(&mut self) -> Result<Status> {
        self.client.ask(&Request::Status)
    }

    /// The files of the lab: cluster file, known_hosts, identity, consoles.
    pub fn dir(&self) -> &StateDir {
        &self.dir
    }

    /// The cluster file that linerate reads.
    pub fn cluster_toml(&self) -> PathBuf {
        self.dir.cluster_toml()
    }

    /// Brings a fault into effect; one inside a guest by booting it anew.
    ///
    /// # Errors
    /// When this lab cannot have it, or the node does not come up again.
    pub fn fault(&mut self, fault: &Fault) -> Result<()> {
        self.client.ask(&Request::Fault(fault.clone()))?;
        self.reboot(fault.is_in_guest().then_some(fault))
    }

    /// Takes all faults away.
    ///
    /// # Errors
    /// When the supervisor does not answer, or a node that has to boot for it does not come up.
    pub fn heal(&mut self) -> Result<()> {
        let faults = self.status()?.faults;
        self.client.ask(&Request::Heal(None))?;
        self.reboot(faults.iter().filter(|fault| fault.is_in_guest()))
    }

    /// Takes one fault away.
    ///
    /// # Errors
    /// When it is not in effect, or a node that has to boot for it does not come up.
    pub fn heal_fault(&mut self, fault: &Fault) -> Result<()> {
        self.client.ask(&Request::Heal(Some(fault.clone())))?;
        self.reboot(fault.is_in_guest().then_some(fault))
    }

    /// Boots the nodes of these faults anew, all at once; those that are down stay so.
    fn reboot<'a>(&mut self, faults: impl IntoIterator<Item = &'a Fault>) -> Result<()> {
        let mut names: Vec<String> = faults.into_iter().map(|fault| fault.node.clone()).collect();
        names.sort();
        names.dedup();
        let status = self.status()?;
        let down = |name: &String| {
            let mut nodes = status.nodes.iter();
            nodes.any(|node| node.plan.name == *name && node.phase == Phase::Stopped)
        };
        names.retain(|name| !down(name));
        for name in &names {
            self.client.ask(&Request::Kill(name.clone()))?;
            self.client.ask(&Request::Start(name.clone()))?;
        }
        self.wait_for(&names, &mut |_| {})
    }

    /// Pulls a node's plug.
    ///
    /// # Errors
    /// When no node has this name.
    pub fn kill(&mut self, node: &str) -> Result<()> {
        self.client.ask(&Request::Kill(node.to_owned())).map(|_| ())
    }

    /// Boots a node that was killed, and waits until it is up.
    ///
    /// # Errors
    /// When it is not down, or does not come up.
    pub fn start(&mut self, node: &str) -> Result<()> {
        self.client.ask(&Request::Start(node.to_owned()))?;
        self.wait_for(&[node.to_owned()], &mut |_| {})
    }

    /// Waits until these nodes are up; the supervisor has the deadline.
    fn wait_for(&mut self, names: &[String], say: &mut dyn FnMut(&str)) -> Result<()> {
        let mut waiting = names.to_vec();
        loop {
            let status = self.status()?;
            for node in status.nodes.iter().filter(|n| names.contains(&n.plan.name)) {
                match (&node.phase, node.boot_s) {
                    (Phase::Booting, _) => {}
                    (Phase::Up, seconds) => {
                        if let Some(at) = waiting.iter().position(|name| *name == node.plan.name) {
                            waiting.swap_remove(at);
                            let seconds = seconds.unwrap_or_default();
                            say(&format!("{} is up after {seconds:.1} s", node.plan.name));
                        }
                    }
                    (Phase::Failed(why), _) => return Err(node_error(node, why)),
                    (Phase::Stopped, _) => return Err(node_error(node, "it was killed")),
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a shell command on a node as its user `operator`.
    ///
    /// # Errors
    /// When ssh cannot be started or no node has this name; a command that fails is in the output.
    pub fn ssh(&mut self, node: &str, script: &str) -> Result<Output> {
        self.ssh_as("operator", node, script)
    }

    /// Runs a shell command on a node as `root` or `operator`.
    ///
    /// # Errors
    /// Those of [`Lab::ssh`].
    pub fn ssh_as(&mut self, user: &str, node: &str, script: &str) -> Result<Output> {
        let mut command = self.ssh_command(user, node)?;
        command.arg(script).stdin(Stdio::null());
        command.output().map_err(|source| LabError::Start {
            program: "ssh".into(),
            source,
        })
    }

    /// An ssh to a node, to which a command may be added.
    ///
    /// # Errors
    /// When no node has this name.
    pub fn ssh_command(&mut self, user: &str, node: &str) -> Result<Command> {
        let status = self.status()?;
        let found = status.nodes.iter().find(|n| n.plan.name == node);
        let port = found
            .map(|n| n.plan.port)
            .ok_or_else(|| LabError::Options(format!("no node is called {node}")))?;
        let mut command = Command::new(tool::find("ssh").unwrap_or_else(|| "ssh".into()));
        command.args([
            "-F",
            "/dev/null",
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "IdentityAgent=none",
        ]);
        command.args(["-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes"]);
        command.arg("-o").arg(format!(
            "UserKnownHostsFile=\"{}\"",
            self.dir.known_hosts().display()
        ));
        command.arg("-i").arg(self.dir.identity());
        command.args(["-p", &port.to_string(), &format!("{user}@127.0.0.1")]);
        Ok(command)
    }

    /// Ends the lab and waits until its processes are gone.
    ///
    /// # Errors
    /// When the supervisor can neither be asked nor ended.
    pub fn down(mut self) -> Result<()> {
        self.owned = false;
        down(self.dir.path()).map(|_| ())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned {
            let _ = down(self.dir.path());
        }
    }
}

/// Ends the lab of a state directory, if one is up there, and says whether one was.
///
/// # Errors
/// When it can neither be asked to end nor killed.
pub fn down(dir: &Path) -> Result<bool> {
    let dir = StateDir::new(absolute(dir)?);
    if !dir.path().exists() {
        return Ok(false);
    }
    let was_up = !is_free(&dir)?;
    if was_up && let Ok(mut client) = Client::connect(dir.path()) {
        let _ = client.ask(&Request::Down);
    }
    if !wait_free(&dir, Duration::from_secs(5))? {
        kill_leftovers(&dir);
        if !wait_free(&dir, Duration::from_secs(10))? {
            let why = format!("it does not end; its lock is {}", dir.lock().display());
            return Err(LabError::Supervisor(why));
        }
    }
    clean_up(&dir)?;
    Ok(was_up)
}

/// Whether no supervisor lives in this directory.
fn is_free(dir: &StateDir) -> Result<bool> {
    let path = dir.lock();
    let file = fs::File::create(&path).map_err(LabError::file("cannot make", &path))?;
    Ok(file.try_lock().is_ok())
}

fn wait_free(dir: &StateDir, patience: Duration) -> Result<bool> {
    let end = Instant::now() + patience;
    while !is_free(dir)? {
        if Instant::now() > end {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

/// Removes what a lab that ended badly left; refuses while one is up.
fn clean_up(dir: &StateDir) -> Result<()> {
    if !is_free(dir)? {
        let why = format!(
            "a lab is already up in {}; `linerate-lab down` ends it",
            dir.path().display()
        );
        return Err(LabError::Supervisor(why));
    }
    kill_leftovers(dir);
    for file in [dir.control(), dir.lab_json()] {
        match fs::remove_file(&file) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(LabError::file("cannot remove", file)(e));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Kills processes that `lab.json` names and that still are what it says: their command line names the
/// state directory.
fn kill_leftovers(dir: &StateDir) {
    let Ok(text) = fs::read(dir.lab_json()) else {
        return;
    };
    let Ok(status) = serde_json::from_slice::<Status>(&text) else {
        return;
    };
    let pids = status.nodes.iter().filter_map(|node| node.pid);
    for pid in pids.chain([status.supervisor_pid]) {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains(&*dir.path().to_string_lossy())
            && let Ok(pid) = i32::try_from(pid)
        {
            let pid = nix::unistd::Pid::from_raw(pid);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

fn node_error(node: &NodeStatus, why: &str) -> LabError {
    let text = fs::read(&node.console).unwrap_or_default();
    LabError::Node {
        node: node.plan.name.clone(),
        why: why.to_owned(),
        console: node.console.clone(),
        tail: tool::tail(&String::from_utf8_lossy(&text), 15),
    }
}

/// Settles everything that the supervisor needs to know.
fn plan(options: &Options, dir: &StateDir, say: &mut dyn FnMut(&str)) -> Result<Plan> {
    let pcie = pcie::PcieTree::named(&options.pcie, options.rails)?;
    let cache = cache_dir();
    let kernel = kernel::Kernel::obtain(&cache, say)?;
    let initramfs = initramfs::obtain(&cache, &kernel)?;
    let accel = accel::settle(options.accel, &cache, &kernel, &initramfs, say)?;
    Ok(Plan {
        dir: dir.path().to_owned(),
        nodes: options.plan_nodes()?,
        rate: options.rate,
        faults: options.faults.clone(),
        pcie,
        accel,
        memory_mib: options.memory_mib,
        kernel: kernel.release,
        image: kernel.image,
        modules: kernel.modules,
        initramfs,
    })
}

/// The `linerate-lab` binary.
fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(BINARY_VARIABLE) {
        return Ok(path.into());
    }
    let this = std::env::current_exe().map_err(LabError::file("cannot find", "this program"))?;
    if this.file_stem().is_some_and(|name| name == "linerate-lab") {
        return Ok(this);
    }
    let beside = this
        .ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join("linerate-lab"));
    beside.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        LabError::Options(format!(
            "linerate-lab is not beside {}: `cargo build -p linerate-lab`, or name it in ${BINARY_VARIABLE}",
            this.display()
        ))
    })
}

fn spawn_supervisor(binary: &Path, dir: &StateDir) -> Result<Child> {
    let log = dir.supervisor_log();
    let file = fs::File::create(&log).map_err(LabError::file("cannot make", &log))?;
    let copy = file
        .try_clone()
        .map_err(LabError::file("cannot use", &log))?;
    Command::new(binary)
        .arg("serve")
        .arg("--dir")
        .arg(dir.path())
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy)
        .spawn()
        .map_err(|source| LabError::Start {
            program: binary.display().to_string(),
            source,
        })
}

/// Connects to a supervisor that was just started, or says why it ended.
fn connect(dir: &StateDir, supervisor: &mut Child) -> Result<Client> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match Client::connect(dir.path()) {
            Ok(client) => return Ok(client),
            Err(e) if Instant::now() > end => {
                let _ = supervisor.kill();
                return Err(e);
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
        if let Ok(Some(status)) = supervisor.try_wait() {
            let log = fs::read_to_string(dir.supervisor_log()).unwrap_or_default();
            let said = tool::tail(&log, 5);
            return Err(LabError::Supervisor(format!("it ended ({status}): {said}")));
        }
    }
}
