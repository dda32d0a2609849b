//! Watches one node come up: its console says when its devices exist, its sshds then show their banners.

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a node may take: emulated, on a busy machine with two cores, three took 20 s.
pub const BOOT_DEADLINE: Duration = Duration::from_secs(240);

/// What the guest's scripts print on the console.
const READY: &str = "LAB READY";
const FAIL: &str = "LAB FAIL ";

/// Waits until the node is up, or says what it lacks. `stop` is asked between steps.
///
/// # Errors
/// What the node did not do.
pub fn until_up(
    console: &Path,
    ports: &[u16],
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), String> {
    let end = Instant::now() + BOOT_DEADLINE;
    loop {
        let text = fs::read(console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if let Some(why) = text.lines().find_map(|line| line.trim().strip_prefix(FAIL)) {
            return Err(why.to_owned());
        }
        if text.contains(READY) {
            break;
        }
        pause(end, stop, "its boot did not end in time")?;
    }
    // Side by side: greeting takes an emulated sshd more than a second.
    thread::scope(|scope| {
        let greets = |port: u16| {
            while !shows_banner(port) {
                pause(end, stop, &format!("no SSH banner on port {port} in time"))?;
            }
            Ok(())
        };
        let waits: Vec<_> = ports
            .iter()
            .map(|port| scope.spawn(move || greets(*port)))
            .collect();
        waits
            .into_iter()
            .try_for_each(|wait| wait.join().unwrap_or(Ok(())))
    })
}

fn pause(end: Instant, stop: &(dyn Fn() -> bool + Sync), why: &str) -> Result<(), String> {
    if stop() || Instant::now() > end {
        return Err(why.to_owned());
    }
    thread::sleep(Duration::from_millis(100));
    Ok(())
}

/// Whether an SSH server greets on this port; QEMU accepts connections before any server listens.
pub fn shows_banner(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return false;
    };
    let mut banner = [0; 4];
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .is_ok()
        && stream.read_exact(&mut banner).is_ok()
        && &banner == b"SSH-"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    fn console(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn what_the_guest_says_failed_is_the_reason() {
        let file = console("LAB INIT\r\nLAB FAIL rxe0 cannot be made on eth1\r\n");
        let why = until_up(file.path(), &[], &|| false).unwrap_err();
        assert_eq!(why, "rxe0 cannot be made on eth1");
    }

    #[test]
    fn ready_counts_once_the_banner_is_there() {
        let file = console("LAB INIT\r\nLAB READY\r\n");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = thread::spawn(move || {
            // The first connection is closed without a word, as QEMU does before sshd listens.
            drop(listener.accept().unwrap());
            listener
                .accept()
                .unwrap()
                .0
                .write_all(b"SSH-2.0-x\r\n")
                .unwrap();
        });
        until_up(file.path(), &[port], &|| false).unwrap();
        serving.join().unwrap();
    }

    #[test]
    fn a_node_that_was_killed_is_not_waited_for() {
        let file = console("LAB INIT\r\n");
        assert!(until_up(file.path(), &[], &|| true).is_err());
    }
}
