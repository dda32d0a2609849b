//! A real OpenSSH server for tests: unprivileged style, on a loopback port of its own, with its own
//! keys and configuration in a directory that goes away with it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running sshd, ended with all its sessions when dropped.
pub struct Sshd {
    pub dir: tempfile::TempDir,
    pub host: String,
    pub port: u16,
    pub user: String,
    child: Child,
}

/// What differs from the plain server.
#[derive(Clone, Default)]
pub struct Setup {
    /// More lines for sshd_config.
    pub config: String,
    /// Host key types; empty means ed25519 alone.
    pub host_keys: Vec<&'static str>,
    /// What the login shell, bash, runs before the command (`~/.bashrc`).
    pub bashrc: &'static str,
    /// Whether the client key `id` is authorised.
    pub refuse_key: bool,
}

impl Sshd {
    /// Starts a plain server.
    pub fn start() -> Sshd {
        Sshd::with(Setup::default())
    }

    /// Starts a server and waits until it answers.
    pub fn with(setup: Setup) -> Sshd {
        let dir = tempfile::Builder::new()
            .prefix("linerate-sshd-")
            .tempdir()
            .expect("tempdir");
        // Another address of 127.0.0.0/8 per server keeps ports of parallel tests apart.
        let host = Ipv4Addr::new(
            127,
            0,
            rand::random_range(1..255),
            rand::random_range(1..255),
        );
        let port = free_port(host);
        // A home of its own: the start-up files of whoever runs the tests stay out of them.
        fs::create_dir(dir.path().join("home")).unwrap();
        fs::write(dir.path().join("home/.bashrc"), setup.bashrc).unwrap();
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid())
            .unwrap()
            .unwrap()
            .name;
        keygen(&dir.path().join("id"), "ed25519", "");
        let types = if setup.host_keys.is_empty() {
            vec!["ed25519"]
        } else {
            setup.host_keys
        };
        for kind in &types {
            keygen(&dir.path().join(format!("host_{kind}")), kind, "");
        }
        let authorized = if setup.refuse_key {
            ""
        } else {
            &read(&dir.path().join("id.pub"))
        };
        fs::write(dir.path().join("authorized_keys"), authorized).unwrap();
        write_config(dir.path(), host, port, &types, &setup.config);
        // sshd run by root wants its privilege separation directory.
        if nix::unistd::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let child = spawn(dir.path());
        let mut sshd = Sshd {
            dir,
            host: host.to_string(),
            port,
            user,
            child,
        };
        sshd.wait_until_up();
        sshd
    }

    /// A path in the server's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The client key that the server accepts.
    pub fn key(&self) -> PathBuf {
        self.path("id")
    }

    /// The public host key of a type: `ssh-ed25519 AAAA…`.
    pub fn host_key(&self, kind: &str) -> String {
        let line = read(&self.path(&format!("host_{kind}.pub")));
        line.split(' ')
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
            .trim()
            .to_string()
    }

    /// Writes a known_hosts file and returns its path.
    pub fn known_hosts(&self, text: &str) -> PathBuf {
        let path = self.path("known_hosts");
        fs::write(&path, text).unwrap();
        path
    }

    /// A known_hosts file that is right about this server.
    pub fn true_known_hosts(&self) -> PathBuf {
        let line = format!(
            "[{}]:{} {}\n",
            self.host,
            self.port,
            self.host_key("ed25519")
        );
        self.known_hosts(&line)
    }

    /// The directory where agents are put: `~/.cache` on the server.
    pub fn cache(&self) -> PathBuf {
        self.path("home/.cache")
    }

    /// Kills the server and the processes that serve its sessions, without a goodbye.
    pub fn kill(&mut self) {
        for pid in descendants(self.child.id()) {
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(pid as i32),
                nix::sys::signal::Signal::SIGKILL,
            );
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn wait_until_up(&mut self) {
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect((self.host.as_str(), self.port)).is_err() {
            let log = || fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "sshd does not answer: {}", log());
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("sshd ended with {status}: {}", log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes a key pair with ssh-keygen.
pub fn keygen(path: &Path, kind: &str, passphrase: &str) {
    let mut command = Command::new("ssh-keygen");
    command
        .args(["-q", "-t", kind, "-N", passphrase, "-C", "test", "-f"])
        .arg(path);
    if kind == "rsa" {
        command.args(["-b", "2048"]);
    }
    assert!(command.status().expect("ssh-keygen is installed").success());
}

/// A file's text.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn free_port(host: Ipv4Addr) -> u16 {
    TcpListener::bind((host, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn write_config(dir: &Path, host: Ipv4Addr, port: u16, types: &[&str], more: &str) {
    let path = dir.display();
    let keys: String = types
        .iter()
        .map(|t| format!("HostKey {path}/host_{t}\n"))
        .collect();
    let config = format!(
        "{more}\nListenAddress {host}\nPort {port}\n{keys}AuthorizedKeysFile {path}/authorized_keys\n\
         PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nLogLevel VERBOSE\nUseDNS no\n\
         SetEnv HOME={path}/home\n"
    );
    fs::write(dir.join("sshd_config"), config).unwrap();
}

fn spawn(dir: &Path) -> Child {
    let log = fs::File::create(dir.join("log")).unwrap();
    Command::new("/usr/sbin/sshd")
        .arg("-D")
        .arg("-e")
        .arg("-f")
        .arg(dir.join("sshd_config"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("/usr/sbin/sshd is installed (package openssh-server)")
}

/// The process and all below it, from /proc.
fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let tasks = format!("/proc/{0}/task/{0}/children", found[next]);
        let children = fs::read_to_string(tasks).unwrap_or_default();
        found.extend(
            children
                .split_whitespace()
                .filter_map(|c| c.parse::<u32>().ok()),
        );
        next += 1;
    }
    found
}
