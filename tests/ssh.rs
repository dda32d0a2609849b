//! Logging in with SSH against real OpenSSH servers, and against servers that are none: what the
//! operator is told in every case.

#![allow(clippy::unwrap_used, reason = "a test's helper may panic")]

#[allow(dead_code, reason = "shared by several test programs")]
#[path = "support/client.rs"]
mod client;
#[path = "support/closed_port.rs"]
mod closed_port;
#[allow(dead_code, reason = "shared by several test programs")]
#[path = "support/sshd.rs"]
mod sshd;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use client::{Session, Told, redact, script, target};
use closed_port::ClosedPort;
use linerate::remote::{Ended, RemoteError, Secret, SshCarrier, SshOptions, Stage, Target};
use sshd::{Setup, Sshd, keygen, read};

fn options(sshd: &Sshd) -> SshOptions {
    let mut options = SshOptions::for_home(sshd.dir.path());
    options.identity_files = vec![sshd.key()];
    options.use_agent = false;
    options.known_hosts = vec![sshd.true_known_hosts()];
    options
}

fn at(sshd: &Sshd) -> Target {
    target(&sshd.host, sshd.port, &sshd.user)
}

/// Runs an agent that ends at once.
fn attempt(options: SshOptions, target: Target) -> (Result<Ended, RemoteError>, Told) {
    let dir = tempfile::tempdir().unwrap();
    let carrier = SshCarrier::new(options).unwrap();
    Session::start(carrier, target, script(dir.path(), "exit 7")).end()
}

/// The message of a failure against a real server, without what differs from run to run.
fn message(sshd: &Sshd, options: SshOptions) -> String {
    let (result, told) = attempt(options, at(sshd));
    assert!(!told.stages.contains(&Stage::Bootstrapping));
    let address = format!("{}:{}", sshd.host, sshd.port);
    let name = format!("[{}]:{}", sshd.host, sshd.port);
    let dir = sshd.dir.path().to_str().unwrap();
    let words = [
        (address.as_str(), "ADDR"),
        (&name, "NAME"),
        (dir, "DIR"),
        (&sshd.user, "USER"),
    ];
    redact(&result.unwrap_err().to_string(), &words)
}

/// The message about an address where no SSH server is, and how long it took.
fn message_at(address: std::net::SocketAddr, limit: Duration) -> (String, Duration) {
    let mut options = SshOptions::for_home(Path::new("/nonexistent"));
    (
        options.use_agent,
        options.connect_timeout,
        options.login_timeout,
    ) = (false, limit, limit);
    let start = Instant::now();
    let (result, _) = attempt(
        options,
        target(&address.ip().to_string(), address.port(), "u"),
    );
    let text = redact(
        &result.unwrap_err().to_string(),
        &[(&address.to_string(), "ADDR")],
    );
    (text, start.elapsed())
}

/// A listener that does `act` with every connection, on a thread that ends with the test program.
fn server(act: impl Fn(TcpStream) + Send + Sync + 'static) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let act = Arc::new(act);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let act = Arc::clone(&act);
            std::thread::spawn(move || act(stream));
        }
    });
    address
}

#[test]
fn a_key_that_the_server_does_not_know_is_refused_and_listed() {
    let sshd = Sshd::with(Setup {
        refuse_key: true,
        ..Setup::default()
    });
    let mut options = options(&sshd);
    options.identity_files.push(sshd.path("none"));
    assert_eq!(
        message(&sshd, options),
        "node07: USER@ADDR refused every key. Tried: file DIR/id (ED25519 SHA256:…); file DIR/none (not found). The server accepts: publickey. Put one of these public keys into ~USER/.ssh/authorized_keys on the node, or name the right key or user in the cluster file"
    );
}

#[test]
fn having_no_key_is_told() {
    let sshd = Sshd::start();
    let mut options = options(&sshd);
    options.identity_files = vec![sshd.path("none")];
    options.use_agent = true;
    options.agent_socket = Some(sshd.path("no-agent"));
    assert_eq!(
        message(&sshd, options),
        "node07: no key to offer to USER@ADDR: ssh-agent (none answers at SSH_AUTH_SOCK); file DIR/none (not found). Start ssh-agent and ssh-add a key, or name a key file in the cluster file. Passwords are never used"
    );
}

#[test]
fn an_unknown_host_key_is_refused() {
    let sshd = Sshd::start();
    let mut options = options(&sshd);
    options.known_hosts = vec![sshd.known_hosts("garbage\n")];
    assert_eq!(
        message(&sshd, options),
        "node07: the host key for NAME is not known (ED25519 SHA256:…). Nothing was sent. Compare it with the node's own /etc/ssh/ssh_host_*_key.pub, then add it to DIR/known_hosts, or accept new keys with --accept-new (DIR/known_hosts:1 could not be read and was skipped)"
    );
    assert!(
        !read(&sshd.path("log")).contains("Accepted"),
        "no login was tried"
    );
}

#[test]
fn a_changed_host_key_is_refused_also_where_new_ones_are_accepted() {
    let sshd = Sshd::start();
    let other = other_key(&sshd, "ed25519");
    let mut options = options(&sshd);
    options.accept_new = true;
    let line = format!("# mine\n[{}]:{} {other}\n", sshd.host, sshd.port);
    options.known_hosts = vec![sshd.known_hosts(&line)];
    assert_eq!(
        message(&sshd, options),
        "node07: the host key for NAME has CHANGED (ED25519 SHA256:…, DIR/known_hosts:2 has another). Nothing was sent. Someone may be between you and the node. If the node was reinstalled: ssh-keygen -f 'DIR/known_hosts' -R 'NAME'"
    );
    assert_eq!(read(&sshd.path("known_hosts")), line);
}

#[test]
fn a_revoked_host_key_is_refused_although_it_is_known() {
    let sshd = Sshd::start();
    let mut options = options(&sshd);
    let known = read(&sshd.true_known_hosts());
    let revoked = format!("{known}@revoked * {}\n", sshd.host_key("ed25519"));
    options.known_hosts = vec![sshd.known_hosts(&revoked)];
    assert_eq!(
        message(&sshd, options),
        "node07: the host key for NAME is REVOKED (ED25519 SHA256:…, DIR/known_hosts:2). Nothing was sent. The key is known to be stolen or withdrawn: give the node new host keys"
    );
}

#[test]
fn a_host_known_by_another_type_of_key_is_refused() {
    let sshd = Sshd::start();
    let mut options = options(&sshd);
    options.accept_new = true;
    let line = format!(
        "[{}]:{} {}\n",
        sshd.host,
        sshd.port,
        other_key(&sshd, "ecdsa")
    );
    options.known_hosts = vec![sshd.known_hosts(&line)];
    assert_eq!(
        message(&sshd, options),
        "node07: the server shows an unknown host key for NAME (ED25519 SHA256:…); known are only ECDSA (DIR/known_hosts:1). Nothing was sent. If the node was reinstalled: ssh-keygen -f 'DIR/known_hosts' -R 'NAME'; if it only lost those keys, add the new one beside them"
    );
}

#[test]
fn a_host_known_only_by_an_authority_is_refused_with_the_way_out() {
    let sshd = Sshd::start();
    let mut options = options(&sshd);
    options.accept_new = true;
    let line = format!("@cert-authority * {}\n", other_key(&sshd, "ed25519"));
    options.known_hosts = vec![sshd.known_hosts(&line)];
    assert_eq!(
        message(&sshd, options),
        "node07: the host key for NAME is vouched for only by a certificate authority (DIR/known_hosts:1), and libssh2 cannot check host certificates. Nothing was sent. Use the command carrier (ssh -T -oBatchMode=yes {host}), or add the plain key (ED25519 SHA256:…) to known_hosts"
    );
}

#[test]
fn the_type_of_key_that_is_known_is_asked_for() {
    let setup = Setup {
        host_keys: vec!["ed25519", "ecdsa", "rsa"],
        ..Setup::default()
    };
    let sshd = Sshd::with(setup);
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let mut options = options(&sshd);
        let line = format!("[{}]:{} {}\n", sshd.host, sshd.port, sshd.host_key(kind));
        options.known_hosts = vec![sshd.known_hosts(&line)];
        assert_eq!(
            attempt(options, at(&sshd)).0.unwrap(),
            Ended::Exit(7),
            "{kind}"
        );
    }
}

#[test]
fn accepting_new_keys_records_them() {
    let sshd = Sshd::start();
    let mut options = options(&sshd);
    let file = sshd.path("new/known_hosts");
    (options.accept_new, options.known_hosts) = (true, vec![file.clone()]);
    assert_eq!(
        attempt(options.clone(), at(&sshd)).0.unwrap(),
        Ended::Exit(7)
    );
    assert_eq!(read(&file), read(&sshd.true_known_hosts()));
    options.accept_new = false;
    assert_eq!(attempt(options, at(&sshd)).0.unwrap(), Ended::Exit(7));
}

/// A public key of the given type that is not the server's.
fn other_key(sshd: &Sshd, kind: &str) -> String {
    let path = sshd.path(&format!("other_{kind}"));
    keygen(&path, kind, "");
    let line = read(&path.with_extension("pub"));
    line.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Whether OpenSSH's client gets in with this known_hosts file.
fn ssh_gets_in(sshd: &Sshd, file: &Path, strict: &str) -> bool {
    let option = |name: &str, value: &str| format!("-o{name}={value}");
    let status = Command::new("ssh")
        .args([
            "-F",
            "/dev/null",
            "-T",
            "-p",
            &sshd.port.to_string(),
            "-l",
            &sshd.user,
            "-i",
        ])
        .arg(sshd.key())
        .arg(option("UserKnownHostsFile", file.to_str().unwrap()))
        .arg(option("GlobalKnownHostsFile", "/dev/null"))
        .arg(option("StrictHostKeyChecking", strict))
        .args([
            "-oBatchMode=yes",
            "-oIdentitiesOnly=yes",
            "-oIdentityAgent=none",
        ])
        .args([
            "-oUpdateHostKeys=no",
            "-oHashKnownHosts=no",
            &sshd.host,
            "exit 0",
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.expect("ssh is installed").success()
}

/// Every row is decided by `ssh` and by us, with and without accepting new keys.
#[test]
fn known_hosts_files_are_read_as_openssh_reads_them() {
    let sshd = Sshd::with(Setup {
        host_keys: vec!["ed25519", "rsa"],
        ..Setup::default()
    });
    let (host, port) = (sshd.host.clone(), sshd.port);
    let name = format!("[{host}]:{port}");
    let (key, rsa) = (sshd.host_key("ed25519"), sshd.host_key("rsa"));
    let (other, ecdsa) = (other_key(&sshd, "ed25519"), other_key(&sshd, "ecdsa"));
    let blob = key.split(' ').nth(1).unwrap();
    let rows = [
        ("empty", String::new()),
        ("exact", format!("{name} {key}")),
        ("only rsa", format!("{name} {rsa}")),
        ("list", format!("a,{name},b {key} comment here")),
        ("bare host, right key", format!("{host} {key}")),
        ("bare host, other key", format!("{host} {other}")),
        ("wildcard", format!("[127.*]:{port} {key}")),
        ("question marks", format!("[127.0.?*]:{port} {key}")),
        ("negated", format!("*,!{name} {key}")),
        ("negated elsewhere", format!("[127.*]:*,!elsewhere {key}")),
        ("changed", format!("{name} {other}")),
        (
            "changed, then right",
            format!("{name} {other}\n{name} {key}"),
        ),
        ("another type", format!("{name} {ecdsa}")),
        (
            "another type, then right",
            format!("{name} {ecdsa}\n{name} {key}"),
        ),
        ("revoked", format!("@revoked {name} {key}")),
        (
            "revoked by wildcard after right",
            format!("{name} {key}\n@revoked * {key}"),
        ),
        (
            "another key revoked",
            format!("@revoked * {other}\n{name} {key}"),
        ),
        (
            "bad lines before",
            format!("x\n@wat {name} {key}\n{name} ssh-ed25519 ???\n{name} {key}"),
        ),
        (
            "two markers",
            format!("@revoked @revoked {name} {key}\n{name} {key}"),
        ),
        ("type and key differ", format!("{name} ssh-rsa {blob}")),
        ("leading blanks, tabs", format!(" \t{name}\t{key}")),
        ("carriage return", format!("{name} {key}\r")),
        ("commented out", format!("#{name} {key}")),
        ("bad hash", format!("|1|abc|def {key}")),
        ("other port", format!("[{host}]:{} {key}", port ^ 1)),
        (
            "no newline at the end, other host",
            format!("elsewhere {other}"),
        ),
        (
            "authority and right",
            format!("@cert-authority * {other}\n{name} {key}"),
        ),
    ];
    for (what, text) in &rows {
        let text = &format!("{text}\n");
        compare(&sshd, what, text);
        if [
            "exact",
            "list",
            "bare host, right key",
            "changed",
            "revoked",
        ]
        .contains(what)
        {
            compare(&sshd, &format!("{what}, hashed"), &hash(&sshd, text));
        }
    }
}

fn hash(sshd: &Sshd, text: &str) -> String {
    let file = sshd.known_hosts(text);
    let _ = Command::new("ssh-keygen")
        .args(["-q", "-H", "-f"])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    read(&file)
}

fn compare(sshd: &Sshd, what: &str, text: &str) {
    for accept_new in [false, true] {
        let file = sshd.known_hosts(text);
        let theirs = ssh_gets_in(sshd, &file, if accept_new { "accept-new" } else { "yes" });
        let their_file = read(&file);
        let mut options = options(sshd);
        (options.known_hosts, options.accept_new) = (vec![sshd.known_hosts(text)], accept_new);
        let (result, _) = attempt(options, at(sshd));
        let ours = match &result {
            Ok(_) => true,
            Err(e) => {
                assert!(e.to_string().contains("host key for"), "{what}: {e}");
                false
            }
        };
        assert_eq!(
            ours, theirs,
            "{what}, accept_new {accept_new}: {result:?}\n{text}"
        );
        assert_eq!(read(&file), their_file, "{what}: what is recorded");
    }
}

#[test]
fn a_port_where_nothing_listens() {
    let closed = ClosedPort::take();
    let (text, _) = message_at(closed.address, Duration::from_secs(5));
    assert_eq!(
        text,
        "node07: ADDR refused the connection: nothing listens there. Check that sshd runs on the node and that the port is right"
    );
}

#[test]
fn a_server_that_says_nothing() {
    let address = server(|_stream| std::thread::sleep(Duration::from_secs(60)));
    let (text, took) = message_at(address, Duration::from_secs(1));
    assert_eq!(
        text,
        "node07: ADDR accepted the connection but said nothing within 1 s: no SSH greeting. The node may hang (out of memory, dead file system), or the port is not sshd's"
    );
    assert!(took < Duration::from_secs(4), "{took:?}");
}

const NOT_SSH: &str = "node07: ADDR sent no SSH greeting within 1 s; it began with";

#[test]
fn a_server_that_drips() {
    let address = server(|mut stream| {
        while stream.write_all(b"S").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let (text, took) = message_at(address, Duration::from_secs(1));
    assert_eq!(
        text,
        format!("{NOT_SSH} \"S\". The port is probably not sshd's")
    );
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_server_whose_greeting_never_ends() {
    let address = server(|mut stream| while stream.write_all(&[b'x'; 4096]).is_ok() {});
    let (text, took) = message_at(address, Duration::from_secs(1));
    assert!(
        text.starts_with(NOT_SSH) && text.contains("\"xxxxxxx"),
        "{text}"
    );
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_server_that_stops_after_its_greeting() {
    let address = server(|mut stream| {
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        std::thread::sleep(Duration::from_secs(60));
    });
    let (text, took) = message_at(address, Duration::from_secs(1));
    assert_eq!(
        text,
        "node07: ADDR did not finish the key exchange within 1 s. The node may be overloaded; a longer time-out can be configured"
    );
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_server_that_sheds_load_is_tried_again_and_then_told() {
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    let address = server(move |mut stream| {
        count.fetch_add(1, Ordering::SeqCst);
        stream.write_all(b"Exceeded MaxStartups\r\n").unwrap();
    });
    let (text, _) = message_at(address, Duration::from_secs(5));
    assert_eq!(
        text,
        "node07: ADDR closed the connection before authentication, 6 times: it said \"Exceeded MaxStartups\". sshd sheds load at its MaxStartups limit, or refuses this machine (PerSourcePenalties, hosts.deny, fail2ban)"
    );
    assert_eq!(tries.load(Ordering::SeqCst), 6);
}

/// A listener whose queue is full: the kernel drops further SYNs, as a firewall does.
#[test]
fn an_address_that_swallows_packets() {
    use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrIn};
    use nix::sys::socket::{bind, getsockname, listen, socket};
    use std::os::fd::AsRawFd;
    let socket = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::empty(),
        None,
    )
    .unwrap();
    bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    listen(&socket, Backlog::new(0).unwrap()).unwrap();
    let bound: SockaddrIn = getsockname(socket.as_raw_fd()).unwrap();
    let address = std::net::SocketAddr::from((bound.ip(), bound.port()));
    let mut queued = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        queued.push(stream);
        assert!(queued.len() < 50, "the queue never fills");
    }
    let (text, took) = message_at(address, Duration::from_secs(1));
    assert_eq!(
        text,
        "node07: ADDR did not answer within 1 s: the node is down, or a firewall drops the packets"
    );
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_name_that_does_not_resolve() {
    let mut options = SshOptions::for_home(Path::new("/nonexistent"));
    options.use_agent = false;
    let (result, _) = attempt(options, target("no-such-node.invalid", 22, "u"));
    let text = result.unwrap_err().to_string();
    assert!(
        text.starts_with("node07: the name no-such-node.invalid does not resolve"),
        "{text}"
    );
}

#[test]
fn closing_the_outbox_breaks_off_a_login() {
    let address = server(|_stream| std::thread::sleep(Duration::from_secs(60)));
    let dir = tempfile::tempdir().unwrap();
    let mut options = SshOptions::for_home(dir.path());
    options.use_agent = false;
    let carrier = SshCarrier::new(options).unwrap();
    let node = target(&address.ip().to_string(), address.port(), "u");
    let start = Instant::now();
    let mut session = Session::start(carrier, node, script(dir.path(), ""));
    session.until("the login", |s| s.stages.contains(&Stage::HostKey));
    session.outbox.close();
    assert_eq!(session.end().0.unwrap(), Ended::ClosedByUs);
    assert!(start.elapsed() < Duration::from_secs(5));
}

/// Locks the client key of a server with a passphrase and returns options that answer `answers`.
fn locked(sshd: &Sshd, answers: &[&str]) -> (SshOptions, Arc<AtomicUsize>) {
    let mut set = Command::new("ssh-keygen");
    set.args(["-q", "-p", "-N", "right", "-f"]).arg(sshd.key());
    assert!(set.status().unwrap().success());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let answers: Vec<String> = answers.iter().map(ToString::to_string).collect();
    let mut options = options(sshd);
    options.passphrase = Arc::new(move |_path| {
        let turn = count.fetch_add(1, Ordering::SeqCst);
        answers.get(turn).cloned().map(Secret::new)
    });
    (options, asked)
}

#[test]
fn a_locked_key_is_opened_by_its_passphrase_after_a_typing_error() {
    let sshd = Sshd::start();
    let (options, asked) = locked(&sshd, &["wrong", "right"]);
    assert_eq!(attempt(options, at(&sshd)).0.unwrap(), Ended::Exit(7));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn a_wrong_passphrase_is_called_that() {
    let sshd = Sshd::start();
    let (options, _) = locked(&sshd, &["wrong", "worse", "worst", "right"]);
    assert_eq!(
        message(&sshd, options),
        "node07: wrong passphrase for DIR/id: the key stays locked and nothing else let USER@ADDR in. Tried: file DIR/id (ED25519 SHA256:…) (wrong passphrase)"
    );
}

#[test]
fn nobody_is_asked_for_the_passphrase_of_a_key_that_the_server_does_not_want() {
    let sshd = Sshd::with(Setup {
        refuse_key: true,
        ..Setup::default()
    });
    let (options, asked) = locked(&sshd, &["right"]);
    assert!(message(&sshd, options).contains("refused every key"));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[test]
fn a_prompt_does_not_eat_the_logins_time() {
    let sshd = Sshd::start();
    let (mut options, _) = locked(&sshd, &[]);
    options.login_timeout = Duration::from_secs(4);
    options.passphrase = Arc::new(|_| {
        std::thread::sleep(Duration::from_secs(5));
        Some(Secret::new("right".to_string()))
    });
    assert_eq!(attempt(options, at(&sshd)).0.unwrap(), Ended::Exit(7));
}

#[test]
fn keys_of_every_common_type_and_form_are_accepted() {
    let sshd = Sshd::start();
    let kinds = [
        ("ed25519", None),
        ("ecdsa", None),
        ("rsa", None),
        ("rsa", Some("PEM")),
        ("ecdsa", Some("PKCS8")),
    ];
    for (index, (kind, form)) in kinds.into_iter().enumerate() {
        let path = sshd.path(&format!("client{index}"));
        keygen(&path, kind, "");
        if let Some(form) = form {
            let mut set = Command::new("ssh-keygen");
            set.args(["-q", "-p", "-N", "", "-P", "", "-m", form, "-f"])
                .arg(&path);
            assert!(set.status().unwrap().success());
        }
        std::fs::copy(path.with_extension("pub"), sshd.path("authorized_keys")).unwrap();
        let mut options = options(&sshd);
        options.identity_files = vec![path];
        assert_eq!(
            attempt(options, at(&sshd)).0.unwrap(),
            Ended::Exit(7),
            "{kind} {form:?}"
        );
    }
}

/// An ssh-agent of the test's own, ended when dropped.
struct Agent(std::process::Child);

impl Agent {
    fn start(socket: &Path) -> Agent {
        let mut command = Command::new("ssh-agent");
        let child = command
            .args(["-D", "-a"])
            .arg(socket)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        while !socket.exists() {
            assert!(Instant::now() < end, "ssh-agent does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Agent(child)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_key_of_the_agent_is_offered() {
    let sshd = Sshd::start();
    let socket = sshd.path("agent");
    let _agent = Agent::start(&socket);
    let add = |path: &Path| {
        let mut add = Command::new("ssh-add");
        assert!(
            add.arg("-q")
                .arg(path)
                .env("SSH_AUTH_SOCK", &socket)
                .status()
                .unwrap()
                .success()
        );
    };
    for name in ["stranger1", "stranger2"] {
        keygen(&sshd.path(name), "ed25519", "");
        add(&sshd.path(name));
    }
    let mut options = options(&sshd);
    options.identity_files.clear();
    (options.use_agent, options.agent_socket) = (true, Some(socket.clone()));
    assert_eq!(
        message(&sshd, options.clone()),
        "node07: USER@ADDR refused every key. Tried: agent key test (ED25519 SHA256:…); agent key test (ED25519 SHA256:…). The server accepts: publickey. Put one of these public keys into ~USER/.ssh/authorized_keys on the node, or name the right key or user in the cluster file"
    );
    add(&sshd.key());
    assert_eq!(attempt(options, at(&sshd)).0.unwrap(), Ended::Exit(7));
}

#[test]
fn a_server_that_allows_few_tries_is_told_and_not_asked_again() {
    let sshd = Sshd::with(Setup {
        config: "MaxAuthTries 2".into(),
        ..Setup::default()
    });
    let mut options = options(&sshd);
    let strangers = ["s1", "s2", "s3"].map(|name| sshd.path(name));
    strangers
        .iter()
        .for_each(|path| keygen(path, "ed25519", ""));
    options.identity_files.splice(0..0, strangers);
    let text = message(&sshd, options);
    assert!(
        text.starts_with("node07: ADDR closed the connection while keys were offered to USER"),
        "{text}"
    );
    assert!(text.contains("(MaxAuthTries, usually 6)"), "{text}");
    let tries = read(&sshd.path("log")).matches("Connection from").count();
    assert!(
        tries <= 2,
        "after an authentication failure there is no second try: {tries}"
    );
}

/// sshd with a MaxStartups limit far below the handshakes under way: everyone gets in.
#[test]
fn many_nodes_behind_a_shedding_server_all_get_in() {
    let sshd = Sshd::with(Setup {
        config: "MaxStartups 3:60:8".into(),
        ..Setup::default()
    });
    let carrier = Arc::new(SshCarrier::new(options(&sshd)).unwrap());
    let payload = script(sshd.dir.path(), "exit 7");
    let start = |_| Session::start(Arc::clone(&carrier), at(&sshd), payload.clone());
    let sessions: Vec<_> = (0..16).map(start).collect();
    for session in sessions {
        assert_eq!(session.end().0.unwrap(), Ended::Exit(7));
    }
}
