//! The threads of nodes over carriers that are played: who comes back, and who talks too fast.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::channel;

use super::*;
use crate::model::{ProbeId, Sample};
use crate::remote::LocalCarrier;

/// What a connection does while it lasts.
type Life = Box<dyn FnOnce(&mut dyn Sink) -> Ended + Send>;

/// Plays one life after another.
struct Played(Mutex<VecDeque<Life>>);

impl Carrier for Played {
    fn carry(
        &self,
        _: &Target,
        _: &Payload,
        _outbox: Outbox,
        sink: &mut dyn Sink,
    ) -> Result<Ended, RemoteError> {
        let life = lock(&self.0).pop_front().expect("one more life");
        sink.stage(Stage::Running);
        Ok(life(sink))
    }
}

fn member(carrier: Arc<dyn Carrier>) -> Member {
    let target = Target {
        node: "node01".into(),
        host: "node01".into(),
        port: 22,
        user: "op".into(),
    };
    Member { target, carrier }
}

fn fleet(room: usize, lives: Vec<Life>) -> CarrierFleet {
    let payload = Payload::from_file(Path::new("/dev/null"), &[]).expect("a payload");
    let played = Arc::new(Played(Mutex::new(lives.into())));
    CarrierFleet::with_inbox(vec![member(played)], &payload, room).expect("threads")
}

fn hello(pid: u32) -> FromAgent {
    FromAgent::Hello {
        protocol: PROTOCOL,
        linerate: "0.1.0".into(),
        pid,
    }
}

/// Lets the agent say these, from its first word on.
fn say(sink: &mut dyn Sink, messages: &[FromAgent]) {
    for (seq, message) in (0..).zip(messages) {
        sink.stdout(&encode(seq, message).expect("a frame"));
    }
}

/// What is heard, until and with what `is_last`.
fn hear(fleet: &mut CarrierFleet, is_last: impl Fn(&FromNode) -> bool) -> Vec<FromNode> {
    let mut heard = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !heard.last().is_some_and(&is_last) {
        assert!(Instant::now() < deadline, "{heard:?}");
        let news = fleet.next(Duration::from_millis(50));
        heard.extend(news.map(|(_, what)| what));
    }
    heard
}

fn reconnect_in_time(fleet: &mut CarrierFleet) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !fleet.reconnect(0) {
        assert!(Instant::now() < deadline, "it never ended");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn running() -> FromNode {
    FromNode::Stage("starting its agent".into())
}

#[test]
fn a_node_comes_back_once_its_connection_has_ended() {
    let (end, ended) = channel::<()>();
    let (leave, left) = channel::<()>();
    let mut fleet = fleet(
        64,
        vec![
            Box::new(move |sink| {
                say(sink, &[hello(1)]);
                let _ = ended.recv();
                Ended::Exit(3)
            }),
            Box::new(move |sink| {
                say(sink, &[hello(2)]);
                let _ = left.recv();
                Ended::ClosedByUs
            }),
        ],
    );
    let is_gone = |news: &FromNode| matches!(news, FromNode::Gone(_));
    let is_said = |news: &FromNode| matches!(news, FromNode::Said(_));
    let first = hear(&mut fleet, is_said);
    assert_eq!(first, [running(), FromNode::Said(hello(1))]);
    assert!(!fleet.reconnect(0), "it is still there");
    assert!(!fleet.reconnect(1), "there is no such node");
    drop(end);
    let [FromNode::Gone(why)] = &hear(&mut fleet, is_gone)[..] else {
        panic!("more than its end was heard");
    };
    assert_eq!(why, "its agent exited with status 3");
    assert!(fleet.reconnect(0));
    assert!(!fleet.reconnect(0), "it is back already");
    let second = hear(&mut fleet, is_said);
    assert_eq!(second, [running(), FromNode::Said(hello(2))]);
    drop(leave);
    fleet.close();
    assert!(!fleet.reconnect(0), "the fleet is closed");
}

#[test]
fn nothing_of_an_old_life_is_heard_in_the_new_one() {
    let (leave, left) = channel::<()>();
    let mut fleet = fleet(
        64,
        vec![
            Box::new(|sink| {
                say(sink, &[hello(1), FromAgent::Heartbeat]);
                Ended::Signal("KILL".into())
            }),
            Box::new(move |sink| {
                say(sink, &[hello(2)]);
                let _ = left.recv();
                Ended::Exit(0)
            }),
        ],
    );
    reconnect_in_time(&mut fleet);
    let is_said = |news: &FromNode| matches!(news, FromNode::Said(_));
    let heard = hear(&mut fleet, is_said);
    assert_eq!(heard, [running(), FromNode::Said(hello(2))]);
    drop(leave);
    fleet.close();
}

/// `cat` says back what it hears, which is no agent's word: the number of the frame that cannot be
/// read is that of the first in each life.
#[test]
fn messages_are_numbered_anew_in_each_life() {
    let payload = Payload::from_file(Path::new("/bin/cat"), &[]).expect("a payload");
    let folder = tempfile::tempdir().expect("a folder");
    let payload = payload.in_directory(folder.path());
    let members = vec![member(Arc::new(LocalCarrier))];
    let mut fleet = CarrierFleet::start(members, &payload).expect("threads");
    let is_gone = |news: &FromNode| matches!(news, FromNode::Gone(_));
    for life in 0..2 {
        let heard = hear(&mut fleet, is_gone);
        let Some(FromNode::Gone(why)) = heard.last() else {
            panic!("{heard:?}");
        };
        assert!(why.contains("frame 0 cannot be read"), "life {life}: {why}");
        reconnect_in_time(&mut fleet);
    }
    fleet.close();
}

#[test]
fn readings_are_dropped_and_counted_where_nobody_takes_them_and_results_are_not() {
    const READINGS: u64 = 100;
    let (said, all_said) = channel();
    let released = |n| FromAgent::Released { probe: ProbeId(n) };
    let mut fleet = fleet(
        8,
        vec![Box::new(move |sink| {
            let sample = Sample { ports: Vec::new() };
            let mut messages = vec![hello(1)];
            messages.extend((0..READINGS).map(|_| FromAgent::Sampled {
                sample: sample.clone(),
            }));
            say(sink, &messages);
            let _ = said.send(());
            for n in 0..20 {
                let seq = messages.len() as u64 + n;
                sink.stdout(&encode(seq, &released(n)).expect("a frame"));
            }
            Ended::Exit(0)
        })],
    );
    all_said.recv().expect("readings never block");
    let is_gone = |news: &FromNode| matches!(news, FromNode::Gone(_));
    let heard = hear(&mut fleet, is_gone);
    let (mut taken, mut dropped, mut results) = (0, 0, Vec::new());
    for news in &heard {
        match news {
            FromNode::Said(FromAgent::Sampled { .. }) => taken += 1,
            FromNode::Said(result @ FromAgent::Released { .. }) => results.push(result.clone()),
            FromNode::Dropped(count) => dropped += count,
            _ => {}
        }
    }
    // Stage, hello and six readings have room.
    assert_eq!((taken, dropped), (6, READINGS - 6));
    assert_eq!(results, (0..20).map(released).collect::<Vec<_>>());
    fleet.close();
}
