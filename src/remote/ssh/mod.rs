//! SSH by libssh2: connect, check the host key, authenticate, start the bootstrap.
//!
//! libssh2 blocks only up to the point where the command is started, under a watchdog; from then on
//! the session is non-blocking and belongs to the thread that carries.

mod auth;
mod connect;
mod gate;
mod host_key;
mod identity;
mod locked;
mod options;
mod pipe;
mod watchdog;

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ssh2::Session;

use super::bootstrap::Bootstrap;
use super::error::Failure;
use super::known_hosts::BadLine;
use super::pump::{Limits, Pump, seconds};
use super::{Carrier, Ended, Outbox, Payload, RemoteError, Sink, Stage, Target};
use auth::Keyring;
use connect::Greeted;
use gate::Gate;
use host_key::HostKeys;
pub use locked::locked_keys;
pub use options::{Secret, SshOptions};
use pipe::SshPipe;
use watchdog::Watchdog;

/// Connections tried when a server sheds load. With sshd's default MaxStartups (10:30:100) and 48
/// at once, half are refused: six tries leave 1 in 64.
const ATTEMPTS: u32 = 6;
/// Waiting before the second attempt, on average; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Reaches nodes with SSH. One carrier serves all nodes: it bounds the handshakes under way and
/// asks for each passphrase once.
pub struct SshCarrier {
    options: SshOptions,
    gate: Gate,
    host_keys: HostKeys,
    keyring: Keyring,
}

/// A session and its socket. The socket is shut first when it goes: dropping a live session blocks.
struct Link {
    session: Session,
    socket: Arc<TcpStream>,
}

impl Drop for Link {
    fn drop(&mut self) {
        // Fails only when the connection is gone already.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.session.set_blocking(true);
        self.session.set_timeout(1000);
    }
}

impl SshCarrier {
    /// Reads the known_hosts files and prepares.
    ///
    /// # Errors
    /// When a known_hosts file exists and cannot be read.
    pub fn new(options: SshOptions) -> Result<SshCarrier, Failure> {
        let host_keys = HostKeys::read(&options.known_hosts, options.accept_new)?;
        let gate = Gate::new(options.handshakes);
        Ok(SshCarrier {
            options,
            gate,
            host_keys,
            keyring: Keyring::default(),
        })
    }

    /// Lines of the known_hosts files that were skipped because they cannot be read.
    pub fn bad_lines(&self) -> Vec<BadLine> {
        self.host_keys.bad_lines()
    }

    fn run(
        &self,
        target: &Target,
        payload: &Payload,
        outbox: &Outbox,
        sink: &mut dyn Sink,
    ) -> Result<Ended, Failure> {
        let bootstrap = Bootstrap::new(payload)?;
        let Some(mut pipe) = self.open(target, &bootstrap, outbox, sink)? else {
            return Ok(Ended::ClosedByUs);
        };
        Pump::new(
            &mut pipe,
            payload,
            outbox,
            sink,
            bootstrap,
            Limits::default(),
        )
        .run()
    }

    /// Logs in and starts the command, again where a server sheds load before authentication;
    /// `None` when the outbox was closed meanwhile.
    fn open(
        &self,
        target: &Target,
        bootstrap: &Bootstrap,
        outbox: &Outbox,
        sink: &mut dyn Sink,
    ) -> Result<Option<SshPipe>, Failure> {
        let mut attempt = 1;
        loop {
            let Some(pass) = self.gate.enter(|| outbox.is_closed()) else {
                return Ok(None);
            };
            let opened = self.open_once(target, bootstrap, outbox, sink);
            drop(pass);
            outbox.on_close(None);
            match opened {
                Ok(pipe) => return Ok(Some(pipe)),
                Err(_) if outbox.is_closed() => return Ok(None),
                Err(Failure::TurnedAway { .. }) if attempt < ATTEMPTS => pause(attempt),
                Err(Failure::TurnedAway { address, sent, .. }) => {
                    return Err(Failure::TurnedAway {
                        address,
                        sent,
                        attempts: attempt,
                    });
                }
                Err(failure) => return Err(failure),
            }
            attempt += 1;
        }
    }

    fn open_once(
        &self,
        target: &Target,
        bootstrap: &Bootstrap,
        outbox: &Outbox,
        sink: &mut dyn Sink,
    ) -> Result<SshPipe, Failure> {
        sink.stage(Stage::Connecting);
        let (socket, address) = connect::open(target, self.options.connect_timeout)?;
        let socket = Arc::new(socket);
        let hang_up = Arc::clone(&socket);
        outbox.on_close(Some(Box::new(move || {
            let _ = hang_up.shutdown(Shutdown::Both);
        })));
        let limit = self.options.login_timeout;
        let watchdog = Watchdog::start(Arc::clone(&socket), Instant::now() + limit)
            .map_err(|source| Failure::Local { source })?;
        let stop = Stop {
            watchdog: &watchdog,
            limit,
            address: &address,
        };

        sink.stage(Stage::HostKey);
        let greeted = connect::greeting(&socket, &stop)?;
        let link = self.handshake(target, socket, &greeted, &stop)?;
        sink.stage(Stage::Authenticating);
        auth::log_in(&link.session, target, &self.options, &self.keyring, &stop)?;
        start(link, bootstrap, &stop)
    }

    fn handshake(
        &self,
        target: &Target,
        socket: Arc<TcpStream>,
        greeted: &Greeted,
        stop: &Stop<'_>,
    ) -> Result<Link, Failure> {
        let refused = |source| Failure::Handshake {
            address: stop.address.to_string(),
            source,
        };
        let session = Session::new().map_err(refused)?;
        let mut link = Link { session, socket };
        link.session.set_tcp_stream(Arc::clone(&link.socket));
        stop.bound(&link.session);
        self.host_keys
            .prefer_known(&link.session, target)
            .map_err(refused)?;
        let shaken = link.session.handshake();
        shaken.map_err(|e| connect::explain_handshake(e, &link.session, greeted, stop))?;
        self.host_keys.check(&link.session, target, stop)?;
        Ok(link)
    }
}

/// The deadline of a login, and the words to report it with.
struct Stop<'a> {
    watchdog: &'a Watchdog,
    limit: Duration,
    address: &'a str,
}

impl Stop<'_> {
    /// Makes libssh2's calls end when the login's time does (0 would mean never).
    fn bound(&self, session: &Session) {
        let left = self.watchdog.left().as_millis().clamp(1, 3_600_000);
        session.set_timeout(u32::try_from(left).unwrap_or(1));
    }

    /// Whether an error means that the time is over.
    fn is_over(&self, error: &ssh2::Error) -> bool {
        /// LIBSSH2_ERROR_TIMEOUT in libssh2.h.
        const TIMEOUT: ssh2::ErrorCode = ssh2::ErrorCode::Session(-9);
        error.code() == TIMEOUT || self.watchdog.left().is_zero()
    }

    fn too_slow(&self, step: &'static str) -> Failure {
        let seconds = seconds(self.limit);
        Failure::TooSlow {
            address: self.address.to_string(),
            step,
            seconds,
        }
    }
}

/// Starts the bootstrap and hands the session over to non-blocking work.
fn start(link: Link, bootstrap: &Bootstrap, stop: &Stop<'_>) -> Result<SshPipe, Failure> {
    stop.bound(&link.session);
    let started = link.session.channel_session().and_then(|mut channel| {
        channel.exec(&bootstrap.command_line())?;
        Ok(channel)
    });
    match started {
        Ok(channel) => Ok(SshPipe::new(link, channel)),
        Err(e) if stop.is_over(&e) => Err(stop.too_slow("starting a command")),
        Err(source) => Err(Failure::Exec {
            address: stop.address.to_string(),
            source,
        }),
    }
}

/// Waits before the next attempt: doubling, with jitter of half to one and a half.
fn pause(attempt: u32) {
    let jitter = rand::random_range(0.5..1.5);
    std::thread::sleep(FIRST_PAUSE.mul_f64(f64::from(1u32 << (attempt - 1).min(8)) * jitter));
}

impl Carrier for SshCarrier {
    fn carry(
        &self,
        target: &Target,
        payload: &Payload,
        outbox: Outbox,
        sink: &mut dyn Sink,
    ) -> Result<Ended, RemoteError> {
        self.run(target, payload, &outbox, sink)
            .map_err(|failure| failure.on(&target.node))
    }
}
