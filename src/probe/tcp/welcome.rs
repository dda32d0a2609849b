//! How the connections of a probe come about: the target takes those that know its token.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::address::{Local, Peer};
use super::is_pause;
use crate::probe::error::ProbeError;

/// How long an end waits for the other.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection may take to say its token.
const HELLO: Duration = Duration::from_secs(5);
/// Connections that have not said theirs yet; more are closed as they come.
const MOST_STRANGERS: usize = 64;
/// The longest wait between two looks at the stop flag.
const SLICE: Duration = Duration::from_millis(20);
/// Bytes of a token: 128 bits in hexadecimal.
const TOKEN: usize = 32;
/// Bytes that open a connection: the token, then the connection's number.
const OPENING: usize = TOKEN + 4;
/// What the target answers.
const WELCOME: u8 = b'+';

/// What opens a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    /// A new one, of random bits.
    pub fn new() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()))
    }

    /// One that the peer gave.
    pub fn read(text: &str) -> Result<Self, ProbeError> {
        let is_token = text.len() == TOKEN && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_token {
            true => Ok(Self(text.to_owned())),
            false => Err(ProbeError::Peer {
                why: "its token is none".to_owned(),
            }),
        }
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether it is this one; takes as long whichever byte differs.
    fn is(&self, bytes: &[u8]) -> bool {
        let differ = |sum: u8, (a, b): (&u8, u8)| sum | (a ^ b);
        bytes.len() == TOKEN && bytes.iter().zip(self.0.bytes()).fold(0, differ) == 0
    }
}

/// Opens so many connections to the target and waits until it has taken them.
pub(super) fn open(
    local: &Local,
    peer: &Peer,
    token: &Token,
    connections: usize,
    stop: &AtomicBool,
) -> Result<Vec<TcpStream>, ProbeError> {
    let deadline = Instant::now() + PATIENCE;
    let mut streams = Vec::with_capacity(connections);
    for index in 0..connections {
        if stop.load(Ordering::Relaxed) {
            return Err(ProbeError::Stopped);
        }
        let mut stream: TcpStream = local.connect(peer, HELLO)?.into();
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let opening = [token.text().as_bytes(), &number.to_be_bytes()].concat();
        stream.write_all(&opening).map_err(ProbeError::Tcp)?;
        stream
            .set_read_timeout(Some(SLICE))
            .map_err(ProbeError::Tcp)?;
        streams.push(stream);
    }
    for stream in &mut streams {
        await_welcome(stream, deadline, stop)?;
    }
    Ok(streams)
}

fn await_welcome(
    stream: &mut TcpStream,
    deadline: Instant,
    stop: &AtomicBool,
) -> Result<(), ProbeError> {
    let refused = |why: &str| {
        Err(ProbeError::Peer {
            why: why.to_owned(),
        })
    };
    let mut answer = [0];
    while Instant::now() < deadline {
        if stop.load(Ordering::Relaxed) {
            return Err(ProbeError::Stopped);
        }
        match stream.read(&mut answer) {
            Ok(1) if answer == [WELCOME] => return Ok(()),
            Ok(_) => return refused("it does not take this end's TCP connection"),
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(ProbeError::Tcp(error)),
        }
    }
    refused("it has not answered on its TCP connection within 30 s")
}

/// A connection that has not said its token yet.
struct Stranger {
    stream: TcpStream,
    said: Vec<u8>,
    since: Instant,
}

impl Stranger {
    /// What it has opened with, once that is whole; `Err` where it is to go.
    fn listen(&mut self) -> Result<Option<&[u8]>, ()> {
        let mut bytes = [0; OPENING];
        let left = OPENING - self.said.len();
        match self.stream.read(&mut bytes[..left]) {
            Ok(0) => return Err(()),
            Ok(count) => self.said.extend(&bytes[..count]),
            Err(error) if is_pause(&error) => {}
            Err(_) => return Err(()),
        }
        match self.said.len() == OPENING {
            true => Ok(Some(&self.said)),
            false if self.since.elapsed() > HELLO => Err(()),
            false => Ok(None),
        }
    }
}

/// Takes exactly so many connections that know the token and come from `peer`; every other is closed.
pub(super) fn take(
    listener: &TcpListener,
    token: &Token,
    peer: IpAddr,
    connections: usize,
    stop: &AtomicBool,
) -> Result<Vec<TcpStream>, ProbeError> {
    let deadline = Instant::now() + PATIENCE;
    let mut places: Vec<Option<TcpStream>> = (0..connections).map(|_| None).collect();
    let mut strangers: Vec<Stranger> = Vec::new();
    while places.iter().any(Option::is_none) {
        if stop.load(Ordering::Relaxed) {
            return Err(ProbeError::Stopped);
        }
        if Instant::now() > deadline {
            let taken = places.iter().flatten().count();
            let why = format!("{taken} of its {connections} TCP connections came within 30 s");
            return Err(ProbeError::Peer { why });
        }
        wait(listener, &strangers)?;
        admit(listener, peer, &mut strangers);
        let mut index = 0;
        while let Some(stranger) = strangers.get_mut(index) {
            match stranger.listen() {
                Ok(None) => index += 1,
                Err(()) => drop(strangers.swap_remove(index)),
                Ok(Some(said)) => {
                    let place = place(said, token, &mut places);
                    let stream = strangers.swap_remove(index).stream;
                    if let Some(place) = place {
                        *place = Some(welcome(stream)?);
                    }
                }
            }
        }
    }
    Ok(places.into_iter().flatten().collect())
}

fn wait(listener: &TcpListener, strangers: &[Stranger]) -> Result<(), ProbeError> {
    let of = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut fds = vec![of(listener.as_fd())];
    fds.extend(strangers.iter().map(|stranger| of(stranger.stream.as_fd())));
    let millis = u16::try_from(SLICE.as_millis()).unwrap_or(u16::MAX);
    match poll(&mut fds, PollTimeout::from(millis)) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(errno) => Err(ProbeError::Tcp(errno.into())),
    }
}

/// Lets in those that come from the peer.
fn admit(listener: &TcpListener, peer: IpAddr, strangers: &mut Vec<Stranger>) {
    for _ in 0..MOST_STRANGERS {
        let Ok((stream, from)) = listener.accept() else {
            return;
        };
        let room = strangers.len() < MOST_STRANGERS;
        if room && from.ip() == peer && stream.set_nonblocking(true).is_ok() {
            strangers.push(Stranger {
                stream,
                said: Vec::with_capacity(OPENING),
                since: Instant::now(),
            });
        }
    }
}

/// The place of the connection that opened so, if it is one of ours that is not there yet.
fn place<'a>(
    said: &[u8],
    token: &Token,
    places: &'a mut [Option<TcpStream>],
) -> Option<&'a mut Option<TcpStream>> {
    let (name, number) = said.split_at_checked(TOKEN)?;
    let number = u32::from_be_bytes(number.try_into().ok()?);
    let place = places.get_mut(number as usize)?;
    (token.is(name) && place.is_none()).then_some(place)
}

fn welcome(mut stream: TcpStream) -> Result<TcpStream, ProbeError> {
    stream.set_nonblocking(false).map_err(ProbeError::Tcp)?;
    stream.write_all(&[WELCOME]).map_err(ProbeError::Tcp)?;
    Ok(stream)
}
