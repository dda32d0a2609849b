//! Both ends over loopback, in one process.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep, spawn};
use std::time::{Duration, Instant};

use super::*;
use crate::model::{Completion, Fact, MemoryKind};
use crate::probe::shape::tests::spec;

static GO: AtomicBool = AtomicBool::new(false);

fn tcp(message: u64, connections: u32, duration_ms: u32) -> ProbeSpec {
    ProbeSpec {
        kind: ProbeKind::Tcp,
        completion: Completion::Event,
        memory: MemoryKind::Host,
        ..spec(message, 1, connections, duration_ms)
    }
}

fn place(address: &str) -> PortPlace {
    PortPlace {
        address: Fact::known(address.parse().unwrap(), "a test"),
        ..PortPlace::default()
    }
}

fn ends(spec: &ProbeSpec, address: &str) -> (Prepared, Prepared) {
    let end = |role| prepare(spec, role, &place(address), 7).unwrap();
    (end(Role::Initiator), end(Role::Target))
}

fn connected(spec: &ProbeSpec, address: &str) -> (Connected, Connected) {
    let (initiator, target) = ends(spec, address);
    let (ours, theirs) = (initiator.endpoint().clone(), target.endpoint().clone());
    scope(|scope| {
        let target = scope.spawn(move || target.connect(&ours, &GO).unwrap());
        let initiator = initiator.connect(&theirs, &GO).unwrap();
        (initiator, target.join().unwrap())
    })
}

fn probe(spec: &ProbeSpec, address: &str) -> (Measurement, Verification) {
    let (mut initiator, mut target) = connected(spec, address);
    let measurement = initiator.run(&GO).unwrap();
    (measurement, target.verify(&GO).unwrap())
}

#[test]
fn what_is_sent_arrives_and_is_compared() {
    for (message, connections, address) in [
        (131_072, 1, "127.0.0.1"),
        (131_072, 3, "::1"),
        (1 << 20, 1, "127.0.0.1"),
        (3, 2, "127.0.0.1"),
    ] {
        let (measurement, verification) = probe(&tcp(message, connections, 300), address);
        let case = format!("{message} × {connections}: {measurement:?} {verification:?}");
        assert!(
            measurement.bytes > 0 && measurement.total_bytes >= measurement.bytes,
            "{case}"
        );
        assert!(
            (100_000..=300_000).contains(&measurement.elapsed_us),
            "{case}"
        );
        assert!(
            verification.bytes_checked > 0 && verification.bytes_wrong == 0,
            "{case}"
        );
        let cpu = verification.cpu.value().unwrap();
        assert!(cpu.user_us + cpu.system_us > 0, "{case}");
        let facts = measurement.tcp.unwrap();
        assert!(facts.mss > 500 && !facts.congestion.is_empty(), "{facts:?}");
        assert_eq!(facts.zero_copy, None);
    }
}

#[test]
fn sends_without_copy_are_told_and_loopback_copies_them_all() {
    let spec = ProbeSpec {
        kind: ProbeKind::TcpZeroCopy,
        ..tcp(131_072, 1, 300)
    };
    for address in ["127.0.0.1", "::1"] {
        let (measurement, verification) = probe(&spec, address);
        let told = measurement.tcp.unwrap().zero_copy.unwrap();
        assert!(
            told.completed > 0 && told.copied == told.completed,
            "{told:?}"
        );
        assert!(
            measurement.total_bytes <= told.completed * 131_072,
            "{told:?}"
        );
        assert_eq!(verification.bytes_wrong, 0);
    }
}

#[test]
fn accounts_are_kept_of_both_ends_and_of_the_time_before() {
    let spec = ProbeSpec {
        account: true,
        ..tcp(131_072, 1, 300)
    };
    let (measurement, verification) = probe(&spec, "127.0.0.1");
    for cpu in [&measurement.cpu, verification.cpu.value().unwrap()] {
        assert!(cpu.idle.value().unwrap().elapsed_us >= 400_000, "{cpu:?}");
        let elapsed = *cpu.elapsed_us.value().unwrap();
        assert!((250_000..2_000_000).contains(&elapsed), "{cpu:?}");
        assert!(cpu.user_us + cpu.system_us <= 3 * elapsed, "{cpu:?}");
        assert!(cpu.cycles.was_asked(), "{cpu:?}");
    }
}

#[test]
fn messages_go_to_and_fro() {
    let spec = ProbeSpec {
        measure: Measure::PingPong,
        ..tcp(64, 1, 200)
    };
    let (measurement, verification) = probe(&spec, "127.0.0.1");
    let told = measurement.ping_pong.unwrap();
    assert!(told.samples > 10 && told.bytes == 64, "{told:?}");
    assert!(
        told.min_ns >= 500 && told.min_ns <= told.median_ns,
        "{told:?}"
    );
    assert!(
        told.median_ns <= told.p99_ns && told.p999_ns <= told.max_ns,
        "{told:?}"
    );
    assert_eq!(measurement.bytes, told.samples * 64);
    assert_eq!(verification.bytes_checked, 0);
    assert!(verification.cpu.value().is_some());
}

#[test]
fn a_stranger_is_turned_away_and_does_not_disturb() {
    let spec = tcp(131_072, 2, 100);
    let (initiator, target) = ends(&spec, "127.0.0.1");
    let (ours, theirs) = (initiator.endpoint().clone(), target.endpoint().clone());
    let tcp = theirs.tcp.clone().unwrap();
    assert_eq!((tcp.token.len(), tcp.port > 0), (32, true));
    let to = (tcp.address, tcp.port);
    // One that is silent, one that guesses, one that knows the token and wants a third place.
    let silent = TcpStream::connect(to).unwrap();
    let open = |token: &str, number: u32| {
        let mut stream = TcpStream::connect(to).unwrap();
        stream
            .write_all(&[token.as_bytes(), &number.to_be_bytes()].concat())
            .unwrap();
        stream
    };
    let strangers = [open(&"0".repeat(32), 0), open(&tcp.token, 2)];
    let (mut initiator, mut target) = scope(|scope| {
        let target = scope.spawn(move || target.connect(&ours, &GO).unwrap());
        (
            initiator.connect(&theirs, &GO).unwrap(),
            target.join().unwrap(),
        )
    });
    for mut stranger in strangers.into_iter().chain([silent]) {
        stranger
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let heard = std::io::Read::read(&mut stranger, &mut [0; 8]);
        assert!(matches!(heard, Ok(0) | Err(_)), "{heard:?}");
    }
    assert!(TcpStream::connect(to).is_err(), "it listens no longer");
    initiator.run(&GO).unwrap();
    assert_eq!(target.verify(&GO).unwrap().bytes_wrong, 0);
}

#[test]
fn a_connection_from_elsewhere_is_turned_away() {
    let spec = tcp(131_072, 1, 100);
    let (initiator, target) = ends(&spec, "127.0.0.1");
    let mut ours = initiator.endpoint().clone();
    ours.tcp.as_mut().unwrap().address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
    let theirs = target.endpoint().clone();
    let stop = AtomicBool::new(false);
    scope(|scope| {
        let target = scope.spawn(|| target.connect(&ours, &stop));
        let error = initiator.connect(&theirs, &GO).err().unwrap().to_string();
        assert!(
            error.contains("does not take") || error.contains("reset"),
            "{error}"
        );
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(target.join().unwrap(), Err(ProbeError::Stopped)));
    });
}

#[test]
fn what_a_peer_says_of_itself_is_looked_at() {
    let spec = tcp(131_072, 1, 100);
    for (change, word) in [
        ("203.0.113.255 0", "no TCP port"),
        ("0.0.0.0 80", "no NIC"),
        ("255.255.255.255 80", "no NIC"),
        ("::1 80", "one family"),
        ("127.0.0.1 80", "token"),
    ] {
        let (initiator, target) = ends(&spec, "127.0.0.1");
        let mut theirs = target.endpoint().clone();
        let tcp = theirs.tcp.as_mut().unwrap();
        let (address, port) = change.split_once(' ').unwrap();
        (tcp.address, tcp.port) = (address.parse().unwrap(), port.parse().unwrap());
        tcp.token = "x".repeat(1 << 20);
        let error = initiator.connect(&theirs, &GO).err().unwrap().to_string();
        assert!(error.contains(word), "{change}: {error}");
    }
    let (initiator, target) = ends(&spec, "127.0.0.1");
    let mut none = target.endpoint().clone();
    none.tcp = None;
    let error = initiator.connect(&none, &GO).err().unwrap().to_string();
    assert!(error.contains("no TCP address"), "{error}");
}

#[test]
fn without_an_address_there_is_no_tcp() {
    let error = prepare(&tcp(1, 1, 100), Role::Target, &PortPlace::default(), 1);
    let error = error.err().unwrap().to_string();
    assert!(error.contains("no address for TCP"), "{error}");
    let many = prepare(&tcp(1, 129, 100), Role::Target, &place("127.0.0.1"), 1);
    assert!(many.err().unwrap().to_string().contains("128"));
    let elsewhere = prepare(&tcp(1, 1, 100), Role::Target, &place("203.0.113.7"), 1);
    let error = elsewhere.err().unwrap().to_string();
    assert!(error.contains("cannot use 203.0.113.7"), "{error}");
}

#[test]
fn the_stop_flag_ends_both_ends_long_before_their_time() {
    let spec = tcp(131_072, 2, 60_000);
    let (mut initiator, mut target) = connected(&spec, "127.0.0.1");
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    scope(|scope| {
        scope.spawn(|| {
            sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
        });
        assert!(matches!(initiator.run(&stop), Err(ProbeError::Stopped)));
        assert!(target.verify(&stop).is_err());
    });
    drop(target);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_target_that_goes_away_ends_the_transfer() {
    let spec = tcp(131_072, 1, 60_000);
    let (mut initiator, target) = connected(&spec, "127.0.0.1");
    let began = Instant::now();
    let dropper = spawn(move || {
        sleep(Duration::from_millis(200));
        drop(target);
    });
    let error = initiator.run(&GO).unwrap_err();
    assert!(
        matches!(error, ProbeError::Tcp(_) | ProbeError::Peer { .. }),
        "{error}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    dropper.join().unwrap();
}

#[test]
fn a_target_that_lies_about_what_arrived_is_not_believed() {
    for (lie, word) in [(u64::MAX, "no sense"), (5, "5 bytes arrived")] {
        let (initiator, _target) = ends(&tcp(131_072, 1, 100), "127.0.0.1");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut theirs = _target.endpoint().clone();
        theirs.tcp.as_mut().unwrap().port = listener.local_addr().unwrap().port();
        let liar = spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"+").unwrap();
            let mut bytes = vec![0; 1 << 20];
            while std::io::Read::read(&mut stream, &mut bytes).is_ok_and(|count| count > 0) {}
            // The other end may have given up.
            let _ = stream.write_all(&lie.to_be_bytes());
        });
        let mut initiator = initiator.connect(&theirs, &GO).unwrap();
        let error = initiator.run(&GO).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
        liar.join().unwrap();
    }
}

#[test]
fn wrong_bytes_are_counted() {
    let spec = tcp(131_072, 1, 100);
    let (initiator, mut target) = connected(&spec, "127.0.0.1");
    let Connected::Initiator(mut sending) = initiator else {
        panic!("the initiator is none")
    };
    // Another nonce: other bytes than the target looks for.
    sending.plan.nonce += 100;
    let mut initiator = Connected::Initiator(sending);
    initiator.run(&GO).unwrap();
    let found = target.verify(&GO).unwrap();
    assert!(
        found.bytes_wrong > found.bytes_checked * 9 / 10,
        "{found:?}"
    );
}
