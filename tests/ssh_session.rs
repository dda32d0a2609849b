//! Deploying and carrying: what happens once a node let us in, over SSH to a real OpenSSH server
//! and over commands that make a node of an unusual kind on this machine.

#![allow(clippy::unwrap_used, reason = "a test's helper may panic")]

#[allow(dead_code, reason = "shared by several test programs")]
#[path = "support/client.rs"]
mod client;
#[allow(dead_code, reason = "shared by several test programs")]
#[path = "support/sshd.rs"]
mod sshd;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use client::{Session, script, target};
use linerate::remote::{
    CommandCarrier, Ended, LocalCarrier, Payload, SendError, SshCarrier, SshOptions, Stage, Target,
};
use sshd::{Setup, Sshd};

fn ssh(sshd: &Sshd) -> SshCarrier {
    let mut options = SshOptions::for_home(sshd.dir.path());
    options.identity_files = vec![sshd.key()];
    options.use_agent = false;
    options.known_hosts = vec![sshd.true_known_hosts()];
    SshCarrier::new(options).unwrap()
}

fn at(sshd: &Sshd) -> Target {
    target(&sshd.host, sshd.port, &sshd.user)
}

/// The files left in a server's cache, and how many of them are binaries in place.
fn left_over(cache: &Path) -> (Vec<String>, usize) {
    let entries = fs::read_dir(cache.join("linerate")).into_iter().flatten();
    let names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    let binaries = names.iter().filter(|n| n.starts_with("linerate-")).count();
    (names, binaries)
}

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; length];
    rand::fill(&mut bytes[..]);
    bytes
}

#[test]
fn deploys_once_and_carries_bytes_both_ways() {
    let sshd = Sshd::start();
    let payload = script(sshd.dir.path(), "echo hello $1; echo warn >&2; exec cat");
    for deployed in [true, false] {
        let mut session = Session::start(ssh(&sshd), at(&sshd), payload.clone());
        session.until_out("hello agent\n");
        session.outbox.send(b"ping\n".to_vec()).unwrap();
        session.until_out("ping\n");
        session.outbox.close();
        let (result, told) = session.end();
        assert_eq!(result.unwrap(), Ended::ClosedByUs);
        assert_eq!(
            (told.out.as_str(), told.err.as_str()),
            ("hello agent\nping\n", "warn\n")
        );
        let sent = told
            .stages
            .iter()
            .any(|s| matches!(s, Stage::Deploying { .. }));
        assert_eq!(sent, deployed);
    }
    assert_eq!(left_over(&sshd.cache()).1, 1);
    assert_eq!(
        left_over(&sshd.cache()).0.len(),
        1,
        "only the binary is left"
    );
    let mode = fs::metadata(sshd.cache().join("linerate"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn the_agents_exit_status_and_signal_are_told() {
    let sshd = Sshd::start();
    let exit = script(sshd.dir.path(), "exit 3");
    assert_eq!(
        Session::start(ssh(&sshd), at(&sshd), exit).end().0.unwrap(),
        Ended::Exit(3)
    );
    let killed = script(sshd.dir.path(), "kill -KILL $$");
    let ended = Session::start(ssh(&sshd), at(&sshd), killed)
        .end()
        .0
        .unwrap();
    assert_eq!(ended, Ended::Signal("KILL".into()));
}

#[test]
fn a_server_that_dies_in_the_middle_is_told() {
    let mut sshd = Sshd::start();
    let payload = script(sshd.dir.path(), "echo up; exec cat");
    let mut session = Session::start(ssh(&sshd), at(&sshd), payload);
    session.until_out("up");
    sshd.kill();
    let text = session.end().0.unwrap_err().to_string();
    assert!(
        text.starts_with("node07: the connection to the node was lost while the agent ran: "),
        "{text}"
    );
    assert!(
        text.ends_with(". The node may have gone down, or its sshd was stopped"),
        "{text}"
    );
}

#[test]
fn a_noisy_login_shell_that_reads_its_input_is_survived() {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid())
        .unwrap()
        .unwrap();
    if !user.shell.ends_with("bash") {
        eprintln!("SKIPPED: the login shell of this user is not bash");
        return;
    }
    let bashrc = "yes 'Welcome to node07! linerate-' | head -c 40000; echo oops >&2\n\
                  read -r -t 0.2 line; printf 'no newline at the end'\n";
    let sshd = Sshd::with(Setup {
        bashrc,
        ..Setup::default()
    });
    let payload = script(sshd.dir.path(), "echo hello; exec cat");
    let mut session = Session::start(ssh(&sshd), at(&sshd), payload);
    session.outbox.send(b"first".to_vec()).unwrap();
    session.until_out("hello\nfirst");
    session.outbox.close();
    let (result, told) = session.end();
    assert_eq!(result.unwrap(), Ended::ClosedByUs);
    assert_eq!(told.out, "hello\nfirst", "no noise, nothing swallowed");
    assert!(told.err.contains("oops"));
}

#[test]
fn a_login_shell_that_never_stops_is_told() {
    let config = "ForceCommand yes please".to_string();
    let sshd = Sshd::with(Setup {
        config,
        ..Setup::default()
    });
    let payload = script(sshd.dir.path(), "exit 0");
    let text = Session::start(ssh(&sshd), at(&sshd), payload)
        .end()
        .0
        .unwrap_err()
        .to_string();
    assert!(text.starts_with("node07: the login shell printed more than 65536 bytes before the bootstrap: \"please please"), "{text}");
}

#[test]
fn a_forced_command_is_told() {
    let config = "ForceCommand echo This account is for backups >&2; exit 1".to_string();
    let sshd = Sshd::with(Setup {
        config,
        ..Setup::default()
    });
    let payload = script(sshd.dir.path(), "exit 0");
    let text = Session::start(ssh(&sshd), at(&sshd), payload)
        .end()
        .0
        .unwrap_err()
        .to_string();
    assert_eq!(
        text,
        "node07: the command on the node ended before the agent ran (exit status 1): it said \"This account is for backups\""
    );
}

/// sshd starts the login shell as `SHELL -c COMMAND`; a forced command does the same with others.
#[test]
fn login_shells_of_other_families_start_the_bootstrap() {
    for shell in [
        "/usr/bin/tcsh",
        "/usr/bin/fish",
        "/usr/bin/zsh",
        "/usr/bin/ksh",
        "/usr/bin/dash",
    ] {
        if !Path::new(shell).exists() {
            eprintln!("SKIPPED: {shell} is not installed");
            continue;
        }
        let config = format!("ForceCommand exec {shell} -c \"$SSH_ORIGINAL_COMMAND\"");
        let sshd = Sshd::with(Setup {
            config,
            ..Setup::default()
        });
        let payload = script(sshd.dir.path(), "echo hello $1; exit 5");
        let (result, told) = Session::start(ssh(&sshd), at(&sshd), payload).end();
        assert_eq!(result.unwrap(), Ended::Exit(5), "{shell}: {}", told.err);
        assert_eq!(told.out, "hello agent\n", "{shell}");
    }
}

/// 24 MiB each way at once, with a flood on standard error: nothing may block anything for good.
#[test]
fn floods_in_all_directions_do_not_deadlock() {
    let sshd = Sshd::start();
    let body = "yes error-line | head -c 8000000 >&2 & yes output-line | head -c 24000000 & wait; exec wc -c";
    let mut session = Session::start(ssh(&sshd), at(&sshd), script(sshd.dir.path(), body));
    let chunk = noise(64 * 1024);
    let mut left = 24_000_000usize;
    let end = Instant::now() + Duration::from_secs(60);
    while left > 0 {
        let part = chunk[..left.min(chunk.len())].to_vec();
        let length = part.len();
        match session.outbox.send(part) {
            Ok(()) => left -= length,
            Err(SendError::Full) => std::thread::sleep(Duration::from_millis(2)),
            Err(e) => panic!("{e}"),
        }
        assert!(Instant::now() < end, "stuck with {left} bytes to send");
    }
    session.until("everything", |s| {
        s.out.len() >= 24_000_000 && s.err.len() >= 8_000_000
    });
    session.outbox.close();
    let (result, told) = session.end();
    assert_eq!(result.unwrap(), Ended::ClosedByUs);
    assert!(
        told.out.ends_with("\n24000000\n"),
        "{:?}",
        &told.out[told.out.len() - 40..]
    );
}

#[test]
fn a_large_binary_arrives_whole_and_runs() {
    let sshd = Sshd::start();
    let path = sshd.path("large");
    let mut bytes = b"#!/bin/sh\necho whole; exit 0\n".to_vec();
    bytes.extend(noise(8 << 20));
    fs::write(&path, bytes).unwrap();
    let payload = Payload::from_file(&path, &["agent"]).unwrap();
    let (result, told) = Session::start(ssh(&sshd), at(&sshd), payload).end();
    assert_eq!(result.unwrap(), Ended::Exit(0));
    assert_eq!(told.out, "whole\n");
}

#[test]
fn a_connection_cut_while_the_binary_is_copied_leaves_nothing() {
    let sshd = Sshd::start();
    let path = sshd.path("large");
    fs::write(&path, noise(24 << 20)).unwrap();
    let payload = Payload::from_file(&path, &["agent"]).unwrap();
    let mut session = Session::start(ssh(&sshd), at(&sshd), payload);
    session.until("the copy", |s| {
        s.stages
            .iter()
            .any(|s| matches!(s, Stage::Deploying { .. }))
    });
    let end = Instant::now() + Duration::from_secs(20);
    while left_over(&sshd.cache()).0.is_empty() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    session.outbox.close();
    assert_eq!(session.end().0.unwrap(), Ended::ClosedByUs);
    while !left_over(&sshd.cache()).0.is_empty() {
        assert!(Instant::now() < end, "{:?}", left_over(&sshd.cache()));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_damaged_copy_on_the_node_is_replaced() {
    let sshd = Sshd::start();
    let payload = script(sshd.dir.path(), "echo good");
    let run = || Session::start(ssh(&sshd), at(&sshd), payload.clone()).end();
    assert_eq!(run().0.unwrap(), Ended::Exit(0));
    let file = sshd
        .cache()
        .join(format!("linerate/linerate-{}", payload.digest()));
    fs::write(&file, "#!/bin/sh\necho evil\n").unwrap();
    let (result, told) = run();
    assert_eq!(result.unwrap(), Ended::Exit(0));
    assert_eq!(told.out, "good\n");
    assert_eq!(left_over(&sshd.cache()).0.len(), 1);
}

#[test]
fn a_missing_shared_library_is_named() {
    let sshd = Sshd::start();
    let build = "echo 'int gone(void){return 0;}' > gone.c && echo 'int gone(void); int main(void){return gone();}' > main.c && cc -shared -o libgone.so gone.c && cc -o main main.c -L. -lgone";
    let built = Command::new("sh")
        .args(["-c", build])
        .current_dir(sshd.dir.path())
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no C compiler to build a program that lacks a library");
        return;
    }
    let payload = Payload::from_file(&sshd.path("main"), &["agent"]).unwrap();
    let text = Session::start(ssh(&sshd), at(&sshd), payload)
        .end()
        .0
        .unwrap_err()
        .to_string();
    assert_eq!(
        text,
        "node07: the agent needs libgone.so, which the node does not have. Install the package with it on the node, or use a statically linked linerate"
    );
}

#[test]
fn a_binary_for_another_processor_is_not_even_sent() {
    let sshd = Sshd::start();
    let mut header = fs::read("/proc/self/exe").unwrap();
    header.truncate(4096);
    header[18..20].copy_from_slice(if cfg!(target_arch = "x86_64") {
        &[183, 0]
    } else {
        &[62, 0]
    });
    fs::write(sshd.path("foreign"), header).unwrap();
    let payload = Payload::from_file(&sshd.path("foreign"), &["agent"]).unwrap();
    let (result, told) = Session::start(ssh(&sshd), at(&sshd), payload).end();
    let text = result.unwrap_err().to_string();
    assert!(
        text.starts_with(&format!(
            "node07: the node is {}, this linerate is built for ",
            std::env::consts::ARCH
        )),
        "{text}"
    );
    assert!(
        !told
            .stages
            .iter()
            .any(|s| matches!(s, Stage::Deploying { .. }))
    );
}

/// A node in namespaces of its own: `setup` runs as root there before the bootstrap. `None`, loudly,
/// where the kernel does not allow it.
fn namespace(setup: &str) -> Option<CommandCarrier> {
    let allowed = Command::new("unshare")
        .args(["-rm", "sh", "-c", "mount -t tmpfs none /mnt"])
        .stderr(Stdio::null())
        .status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: user namespaces with mounts are not allowed here");
        return None;
    }
    let line = format!("{setup} && exec \"$@\"");
    Some(CommandCarrier::new(&[
        "unshare", "-rm", "sh", "-c", &line, "sh",
    ]))
}

/// Mounts `options` over every directory that the bootstrap may choose.
fn mount_all(options: &str) -> String {
    ["/tmp", "/var/tmp", "/dev/shm", "/mnt"]
        .map(|dir| format!("mount -t tmpfs -o {options} none {dir}"))
        .join(" && ")
        + " && export HOME=/mnt && unset XDG_CACHE_HOME"
}

fn failing(carrier: CommandCarrier, payload: Payload) -> String {
    let (result, told) = Session::start(carrier, target("h", 22, "u"), payload).end();
    assert!(!told.stages.contains(&Stage::Running), "{:?}", told.out);
    result.unwrap_err().to_string()
}

#[test]
fn directories_that_allow_no_programs_are_told() {
    let Some(carrier) = namespace(&mount_all("noexec,mode=1777")) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(
        failing(carrier, script(dir.path(), "exit 0")),
        "node07: no directory on the node can hold the agent: /mnt/.cache/linerate: programs may not run there (noexec); /tmp/linerate-0: programs may not run there (noexec); /var/tmp/linerate-0: programs may not run there (noexec); /dev/shm/linerate-0: programs may not run there (noexec). Free space there, or name a directory of the user's own that allows programs to run (directory under [ssh] in the cluster file)"
    );
}

#[test]
fn full_disks_are_told() {
    let Some(carrier) = namespace(&mount_all("size=64k,mode=1777")) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let payload = script(dir.path(), &format!("exit 0\n{}", "#".repeat(400_000)));
    assert_eq!(
        failing(carrier, payload),
        "node07: no directory on the node can hold the agent: /mnt/.cache/linerate: only 64 KiB free, 455 KiB needed; /tmp/linerate-0: only 64 KiB free, 455 KiB needed; /var/tmp/linerate-0: only 64 KiB free, 455 KiB needed; /dev/shm/linerate-0: only 64 KiB free, 455 KiB needed. Free space there, or name a directory of the user's own that allows programs to run (directory under [ssh] in the cluster file)"
    );
}

/// A disk that says it has room and has not: `df` is made to lie.
#[test]
fn a_disk_that_fills_up_during_the_copy_is_told() {
    let lie = "mkdir /mnt/bin && printf '#!/bin/sh\\necho x 9 9 99999999 1%% /\\n' > /mnt/bin/df && chmod 755 /mnt/bin/df && export PATH=/mnt/bin:$PATH";
    let setup = format!("{} && {lie}", mount_all("size=64k,mode=1777"));
    let Some(carrier) = namespace(&setup) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large");
    fs::write(&path, noise(3 << 20)).unwrap();
    let start = Instant::now();
    let text = failing(carrier, Payload::from_file(&path, &["agent"]).unwrap());
    assert_eq!(
        text,
        "node07: the disk is full on the node: /mnt/.cache/linerate could not take the agent (gzip: stdout: No space left on device). Nothing was left behind. Free space there, or name another directory (directory under [ssh] in the cluster file)"
    );
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_directory_that_works_is_found_after_those_that_do_not() {
    let setup = "mount -t tmpfs -o noexec,mode=1777 none /mnt && mount -t tmpfs -o mode=1777 none /tmp && ln -s /etc /tmp/linerate-0 && mount -t tmpfs -o mode=1777 none /var/tmp && export HOME=/mnt && unset XDG_CACHE_HOME";
    let Some(carrier) = namespace(setup) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let payload = script(dir.path(), "echo $0");
    let (result, told) = Session::start(carrier, target("h", 22, "u"), payload).end();
    assert_eq!(result.unwrap(), Ended::Exit(0), "{}", told.err);
    assert!(
        told.out.starts_with("/var/tmp/linerate-0/linerate-"),
        "{}",
        told.out
    );
}

/// A node whose tools are busybox's alone, as many of them as `applets` names.
fn busybox_node(dir: &Path, applets: &[&str]) -> Option<CommandCarrier> {
    let busybox = Path::new("/usr/bin/busybox");
    if !busybox.exists() {
        eprintln!("SKIPPED: busybox is not installed");
        return None;
    }
    let bin = dir.join("bin");
    fs::create_dir_all(&bin).unwrap();
    applets
        .iter()
        .for_each(|applet| symlink(busybox, bin.join(applet)).unwrap());
    let setup = format!(
        "mount --bind {} /bin/sh && export PATH={} HOME={}",
        busybox.display(),
        bin.display(),
        dir.display()
    );
    namespace(&setup)
}

const BASIC: [&str; 11] = [
    "uname", "id", "ls", "mkdir", "chmod", "rm", "ln", "mv", "head", "df", "tail",
];

#[test]
fn a_node_with_busybox_alone_is_enough_with_and_without_gzip() {
    for more in [&["sha256sum", "gzip"][..], &["sha256sum"]] {
        let dir = tempfile::tempdir().unwrap();
        let Some(carrier) = busybox_node(dir.path(), &[&BASIC[..], more].concat()) else {
            return;
        };
        let body = format!("echo $1; exit 4\n{}", "#".repeat(100_000));
        let payload = script(dir.path(), &body);
        for _ in 0..2 {
            let node = target("h", 22, "u");
            let (result, told) = Session::start(carrier.clone(), node, payload.clone()).end();
            assert_eq!(result.unwrap(), Ended::Exit(4), "{more:?}: {}", told.err);
            assert_eq!(told.out, "agent\n");
        }
    }
}

#[test]
fn a_missing_tool_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let Some(carrier) = busybox_node(dir.path(), &BASIC) else {
        return;
    };
    assert_eq!(
        failing(carrier, script(dir.path(), "exit 0")),
        "node07: the node has no sha256sum, which the bootstrap needs. Install the node's basic tools (coreutils or busybox)"
    );
}

#[test]
fn openssh_as_a_command_carries_too() {
    let sshd = Sshd::start();
    let known = format!("-oUserKnownHostsFile={}", sshd.true_known_hosts().display());
    let key = sshd.key();
    let port = sshd.port.to_string();
    let template = [
        "ssh",
        "-F",
        "/dev/null",
        "-T",
        "-oBatchMode=yes",
        "-oIdentitiesOnly=yes",
        &known,
        "-i",
        key.to_str().unwrap(),
        "-p",
        &port,
        "-l",
        "{user}",
        "{host}",
    ];
    let payload = script(sshd.dir.path(), "echo hello $1; exec cat");
    let mut session = Session::start(CommandCarrier::new(&template), at(&sshd), payload.clone());
    session.outbox.send(b"ping".to_vec()).unwrap();
    session.until_out("hello agent\nping");
    session.outbox.close();
    assert_eq!(session.end().0.unwrap(), Ended::ClosedByUs);

    fs::write(sshd.path("authorized_keys"), "").unwrap();
    let text = failing(CommandCarrier::new(&template), payload);
    assert!(
        text.contains("ended before the agent ran (exit status 255): it said \""),
        "{text}"
    );
}

#[test]
fn a_program_that_does_not_exist_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let text = failing(
        CommandCarrier::new(&["/no/such/srun", "{host}"]),
        script(dir.path(), ""),
    );
    assert_eq!(
        text,
        "node07: cannot start /no/such/srun: No such file or directory (os error 2)"
    );
}

#[test]
fn this_machine_is_a_node_too_and_the_agents_end_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let local = |body: &str| {
        let payload = script(dir.path(), body).in_directory(&dir.path().join("d"));
        Session::start(LocalCarrier, target("-", 0, "-"), payload)
    };
    assert_eq!(local("exit 9").end().0.unwrap(), Ended::Exit(9));
    assert_eq!(
        local("kill -TERM $$").end().0.unwrap(),
        Ended::Signal("TERM".into())
    );
    let mut stubborn = local("trap '' TERM; echo $$; while :; do sleep 0.1; done");
    stubborn.until_out("\n");
    let pid = String::from_utf8(stubborn.out.clone()).unwrap();
    stubborn.outbox.close();
    assert_eq!(stubborn.end().0.unwrap(), Ended::ClosedByUs);
    let gone = !Path::new(&format!("/proc/{}", pid.trim())).exists();
    assert!(gone, "the agent was left behind");
}

#[test]
fn nothing_of_a_session_is_left_on_the_node_after_the_outbox_closed() {
    let sshd = Sshd::start();
    let payload = script(sshd.dir.path(), "echo $$; exec cat");
    let mut session = Session::start(ssh(&sshd), at(&sshd), payload);
    session.until_out("\n");
    let pid = String::from_utf8(session.out.clone()).unwrap();
    session.outbox.close();
    assert_eq!(session.end().0.unwrap(), Ended::ClosedByUs);
    let end = Instant::now() + Duration::from_secs(5);
    while Path::new(&format!("/proc/{}", pid.trim())).exists() {
        assert!(Instant::now() < end, "the agent still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}
