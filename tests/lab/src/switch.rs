//! The rail switch: one Ethernet segment between the VMs' NICs of one rail, and the place where links are
//! shaped, lose frames, delay them or are cut.
//!
//! Each port has a lane for each direction, and a thread that takes frames from it when their turn has
//! come at the rate of the link. A third thread reads from the node, and simply stops reading while the
//! lane is full: QEMU then stops taking packets from the guest, so a slow link holds back and loses
//! nothing. The lane to a node is long enough that a slow receiver does not soon hold back what the same
//! sender owes others.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::bucket::Bucket;
use crate::fault::{Direction, Link};
use crate::frame::{Frame, Mac, destination, is_group, read_frame, source, write_frame};
use crate::lane::Lane;
use crate::share::Share;

/// How long a full queue holds a sender back before a frame is dropped: a node that takes nothing for so
/// long hangs, and must not take the other nodes with it.
const PATIENCE: Duration = Duration::from_secs(1);

/// While a node is connected, its frames are never dropped for want of room: it waits.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// The longest sleep of a shaper, so that a fault that is healed takes effect at once.
const SLICE: Duration = Duration::from_millis(20);

/// One rail's switch. Clones share it; threads end when their node's socket does.
#[derive(Clone)]
pub struct Switch {
    ports: Arc<[Port]>,
    /// What the node at each port shares among all its rails.
    shares: Arc<[Arc<Share>]>,
    table: Arc<Mutex<HashMap<Mac, usize>>>,
}

/// Bytes and frames that crossed a port since the switch started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes taken from the node, Ethernet header included.
    pub tx_bytes: u64,
    /// Bytes given to the node.
    pub rx_bytes: u64,
    /// Frames dropped on either way: lost, cut, or to a node that takes nothing.
    pub dropped_frames: u64,
}

#[derive(Default)]
struct Port {
    links: Mutex<Links>,
    tx: Lane,
    rx: Lane,
    tx_bytes: AtomicU64,
    rx_bytes: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Default, Clone, Copy)]
struct Links {
    tx: Link,
    rx: Link,
}

/// A thread that panicked while it held a lock left counters and frames, none of them half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Switch {
    /// A switch with a port for each of these nodes, nothing connected, no link shaped.
    pub fn new(shares: &[Arc<Share>]) -> Switch {
        Switch {
            ports: shares.iter().map(|_| Port::default()).collect(),
            shares: shares.into(),
            table: Arc::default(),
        }
    }

    /// Sets what one direction of a port's link does from now on.
    pub fn set_link(&self, port: usize, direction: Direction, link: Link) {
        let mut links = lock(&self.ports[port].links);
        if direction != Direction::Rx {
            links.tx = link;
        }
        if direction != Direction::Tx {
            links.rx = link;
        }
    }

    /// What crossed a port so far.
    pub fn counters(&self, port: usize) -> Counters {
        let port = &self.ports[port];
        Counters {
            tx_bytes: port.tx_bytes.load(Ordering::Relaxed),
            rx_bytes: port.rx_bytes.load(Ordering::Relaxed),
            dropped_frames: port.dropped.load(Ordering::Relaxed),
        }
    }

    /// Connects a port to the socket of a QEMU NIC, in place of what was connected before.
    ///
    /// # Errors
    /// When the socket cannot be cloned or a thread cannot be started.
    pub fn connect(&self, port: usize, socket: UnixStream) -> io::Result<()> {
        let writing = socket.try_clone()?;
        let Port { tx, rx, .. } = &self.ports[port];
        let (sent, received) = (tx.open(), rx.open());
        let close = move |switch: &Switch| {
            switch.ports[port].tx.close(sent);
            switch.ports[port].rx.close(received);
        };
        self.spawn(format!("port{port}-read"), move |switch| {
            switch.read_all(port, socket);
            close(switch);
        })?;
        self.spawn(format!("port{port}-tx"), move |switch| {
            switch.forward_all(port, sent);
        })?;
        self.spawn(format!("port{port}-rx"), move |switch| {
            switch.write_all(port, received, writing);
            close(switch);
        })
    }

    fn spawn(&self, name: String, work: impl FnOnce(&Switch) + Send + 'static) -> io::Result<()> {
        let switch = self.clone();
        let thread = thread::Builder::new().name(name);
        thread.spawn(move || work(&switch)).map(|_| ())
    }

    /// From the node, until its socket ends. While there is no room nothing is read: QEMU then stops taking
    /// packets from the guest.
    fn read_all(&self, port: usize, socket: UnixStream) {
        let mut from = BufReader::new(socket);
        let port = &self.ports[port];
        while let Ok(Some(frame)) = read_frame(&mut from) {
            port.tx_bytes
                .fetch_add(frame.len() as u64, Ordering::Relaxed);
            if !port.tx.push(frame, Instant::now(), FOREVER) {
                return;
            }
        }
    }

    /// What a node sent: shape, lose, learn, hand on.
    fn forward_all(&self, port: usize, connection: u64) {
        let mut bucket = Bucket::new(Instant::now());
        while let Some(frame) = self.ports[port].tx.next(connection) {
            match self.pass(port, Direction::Tx, &mut bucket, frame.len()) {
                Some(delay) => self.forward(port, frame, delay),
                None => self.drop_frame(port),
            }
        }
    }

    /// Waits until the link, and what the node's rails share, let this many bytes through. The delay to
    /// add, or `None` for a frame lost.
    fn pass(
        &self,
        port: usize,
        direction: Direction,
        bucket: &mut Bucket,
        bytes: usize,
    ) -> Option<Duration> {
        loop {
            let link = self.link(port, direction);
            if link.cut {
                return None;
            }
            match bucket.take(link.rate, bytes, Instant::now()) {
                Ok(()) if link.loss > 0.0 && fastrand::f64() < link.loss => return None,
                Ok(()) => {
                    self.wait_for_share(port, direction, bytes);
                    return Some(link.delay);
                }
                Err(wait) => thread::sleep(wait.min(SLICE)),
            }
        }
    }

    fn wait_for_share(&self, port: usize, direction: Direction, bytes: usize) {
        let (share, now) = (&self.shares[port], Instant::now());
        let turn = now + share.reserve(direction, bytes, now);
        loop {
            let wait = turn.saturating_duration_since(Instant::now());
            // A limit that was lifted is waited for no longer.
            if wait.is_zero() || !share.is_limited(direction) {
                return;
            }
            thread::sleep(wait.min(SLICE));
        }
    }

    fn link(&self, port: usize, direction: Direction) -> Link {
        let links = *lock(&self.ports[port].links);
        if direction == Direction::Rx {
            links.rx
        } else {
            links.tx
        }
    }

    fn drop_frame(&self, port: usize) {
        self.ports[port].dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends a frame to the port where its destination was last seen, or to all others.
    fn forward(&self, port: usize, frame: Frame, delay: Duration) {
        let (to, from) = (destination(&frame), source(&frame));
        let known = {
            let mut table = lock(&self.table);
            if !is_group(&from) {
                table.insert(from, port);
            }
            if is_group(&to) {
                None
            } else {
                table.get(&to).copied()
            }
        };
        match known {
            Some(target) if target == port => {}
            Some(target) => self.push(target, frame, delay, PATIENCE),
            None => (0..self.ports.len())
                .filter(|target| *target != port)
                .for_each(|target| self.push(target, frame.clone(), delay, Duration::ZERO)),
        }
    }

    /// Queues a frame to a port, waiting at most `patience` for room.
    fn push(&self, port: usize, frame: Frame, delay: Duration, patience: Duration) {
        let due = Instant::now() + delay + self.link(port, Direction::Rx).delay;
        if !self.ports[port].rx.push(frame, due, patience) {
            self.drop_frame(port);
        }
    }

    /// To the node: each frame when it is due, at the rate of this direction.
    fn write_all(&self, port: usize, connection: u64, mut socket: UnixStream) {
        let mut bucket = Bucket::new(Instant::now());
        while let Some(frame) = self.ports[port].rx.next(connection) {
            if self
                .pass(port, Direction::Rx, &mut bucket, frame.len())
                .is_none()
            {
                self.drop_frame(port);
                continue;
            }
            if write_frame(&mut socket, &frame).is_err() {
                return;
            }
            self.ports[port]
                .rx_bytes
                .fetch_add(frame.len() as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = [0x52, 0x54, 0, 0, 0, 1];
    const B: Mac = [0x52, 0x54, 0, 0, 0, 2];
    const C: Mac = [0x52, 0x54, 0, 0, 0, 3];
    const ALL: Mac = [0xff; 6];

    fn frame(to: Mac, from: Mac, fill: u8) -> Vec<u8> {
        let mut frame = [&to[..], &from[..]].concat();
        frame.resize(80, fill);
        frame
    }

    fn send(socket: &mut UnixStream, to: Mac, from: Mac, fill: u8) {
        write_frame(socket, &frame(to, from, fill)).unwrap();
    }

    /// What arrives next, by its fill; a test that waits for what never comes fails here.
    fn arrives(socket: &mut UnixStream) -> u8 {
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        *read_frame(socket).unwrap().unwrap().last().unwrap()
    }

    fn until_dropped(switch: &Switch, port: usize) {
        let end = Instant::now() + Duration::from_secs(20);
        while switch.counters(port).dropped_frames == 0 {
            assert!(Instant::now() < end, "nothing was dropped at port {port}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn shares(nodes: usize) -> Vec<Arc<Share>> {
        (0..nodes).map(|_| Arc::new(Share::new())).collect()
    }

    fn switch(ports: usize) -> (Switch, Vec<UnixStream>) {
        with_shares(&shares(ports))
    }

    fn with_shares(shares: &[Arc<Share>]) -> (Switch, Vec<UnixStream>) {
        let (switch, ports) = (Switch::new(shares), shares.len());
        let ends = (0..ports)
            .map(|port| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                switch.connect(port, ours).unwrap();
                theirs
            })
            .collect();
        (switch, ends)
    }

    #[test]
    fn a_broadcast_reaches_all_others_and_teaches_where_its_sender_is() {
        let (_switch, mut ends) = switch(3);
        send(&mut ends[0], ALL, A, 1);
        assert_eq!((arrives(&mut ends[1]), arrives(&mut ends[2])), (1, 1));
        // The answer goes to A alone: C's next frame is the broadcast after it.
        send(&mut ends[1], A, B, 2);
        assert_eq!(arrives(&mut ends[0]), 2);
        send(&mut ends[1], ALL, B, 3);
        assert_eq!((arrives(&mut ends[0]), arrives(&mut ends[2])), (3, 3));
    }

    #[test]
    fn an_unknown_destination_is_flooded_and_a_moved_one_followed() {
        let (_switch, mut ends) = switch(3);
        send(&mut ends[0], C, A, 1);
        assert_eq!((arrives(&mut ends[1]), arrives(&mut ends[2])), (1, 1));
        send(&mut ends[1], ALL, A, 2);
        assert_eq!((arrives(&mut ends[0]), arrives(&mut ends[2])), (2, 2));
        send(&mut ends[2], A, C, 3);
        assert_eq!(arrives(&mut ends[1]), 3);
    }

    #[test]
    fn a_cut_link_passes_nothing_until_it_is_healed() {
        let (switch, mut ends) = switch(2);
        let cut = Link {
            cut: true,
            ..Link::default()
        };
        switch.set_link(0, Direction::Tx, cut);
        send(&mut ends[0], ALL, A, 1);
        // The other direction still works, and shows that the frame above had its chance.
        send(&mut ends[1], ALL, B, 2);
        assert_eq!(arrives(&mut ends[0]), 2);
        until_dropped(&switch, 0);
        switch.set_link(0, Direction::Both, Link::default());
        send(&mut ends[0], ALL, A, 3);
        assert_eq!(arrives(&mut ends[1]), 3);
    }

    #[test]
    fn a_link_that_loses_everything_loses_it_in_its_direction() {
        let (switch, mut ends) = switch(2);
        switch.set_link(
            1,
            Direction::Rx,
            Link {
                loss: 1.0,
                ..Link::default()
            },
        );
        send(&mut ends[0], ALL, A, 1);
        until_dropped(&switch, 1);
        send(&mut ends[1], A, B, 2);
        assert_eq!(arrives(&mut ends[0]), 2);
        assert_eq!(switch.counters(1).rx_bytes, 0);
    }

    #[test]
    fn a_delayed_frame_comes_late_and_in_order() {
        let (switch, mut ends) = switch(2);
        let delay = Duration::from_millis(30);
        switch.set_link(
            0,
            Direction::Tx,
            Link {
                delay,
                ..Link::default()
            },
        );
        let start = Instant::now();
        (1..=5).for_each(|fill| send(&mut ends[0], ALL, A, fill));
        assert_eq!(
            (0..5).map(|_| arrives(&mut ends[1])).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5]
        );
        assert!(start.elapsed() >= delay);
    }

    #[test]
    fn a_shaped_link_holds_back_and_loses_nothing() {
        let (switch, mut ends) = switch(2);
        let rate = Some("100mbit".parse().unwrap());
        switch.set_link(
            0,
            Direction::Both,
            Link {
                rate,
                ..Link::default()
            },
        );
        let mut sender = ends[0].try_clone().unwrap();
        let sending = thread::spawn(move || {
            (0..3000u32).for_each(|n| send(&mut sender, ALL, A, n as u8));
        });
        for n in 0..3000u32 {
            assert_eq!(arrives(&mut ends[1]), n as u8);
        }
        sending.join().unwrap();
        assert_eq!(
            switch.counters(0).dropped_frames + switch.counters(1).dropped_frames,
            0
        );
    }

    /// Two rails of two nodes; the first node may send 8 Mbit/s over both.
    #[test]
    fn rails_of_a_node_wait_for_each_other() {
        let shares = shares(2);
        shares[0].set(Some("8mbit".parse().unwrap()));
        let (_first, mut on_first) = with_shares(&shares);
        let (_second, mut on_second) = with_shares(&shares);
        // 1500 frames of 80 bytes on each: 240 kB, of which the burst is free.
        let (start, frames) = (Instant::now(), 1500u32);
        let senders = [&on_first[0], &on_second[0]].map(|socket| {
            let mut socket = socket.try_clone().unwrap();
            thread::spawn(move || (0..frames).for_each(|n| send(&mut socket, ALL, A, n as u8)))
        });
        for n in 0..frames {
            assert_eq!(arrives(&mut on_first[1]), n as u8);
            assert_eq!(arrives(&mut on_second[1]), n as u8);
        }
        senders
            .into_iter()
            .for_each(|sender| sender.join().unwrap());
        // No burst is longer than 64 KiB.
        let least = Duration::from_secs_f64((f64::from(frames) * 160.0 - 65536.0) / 1e6);
        assert!(start.elapsed() >= least, "{:?}", start.elapsed());
    }

    #[test]
    fn a_port_can_be_connected_again() {
        let (switch, mut ends) = switch(2);
        drop(std::mem::replace(
            &mut ends[1],
            UnixStream::pair().unwrap().0,
        ));
        let (ours, theirs) = UnixStream::pair().unwrap();
        switch.connect(1, ours).unwrap();
        ends[1] = theirs;
        send(&mut ends[0], ALL, A, 9);
        assert_eq!(arrives(&mut ends[1]), 9);
    }

    #[test]
    fn nonsense_on_a_socket_ends_that_port_alone() {
        use std::io::{Read, Write};
        let (_switch, mut ends) = switch(3);
        ends[0].write_all(&u32::MAX.to_be_bytes()).unwrap();
        send(&mut ends[1], ALL, B, 4);
        assert_eq!(arrives(&mut ends[2]), 4);
        ends[0]
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut rest = Vec::new();
        ends[0].read_to_end(&mut rest).unwrap();
    }
}
