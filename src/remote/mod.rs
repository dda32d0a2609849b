//! Reaching a node: start the agent there and carry bytes to and from it.
//!
//! This room knows no frame contents. A [`Carrier`] connects ([`SshCarrier`] with libssh2,
//! [`CommandCarrier`] through any program with a standard input and output, [`LocalCarrier`] on
//! this machine), runs one small bootstrap script that finds or receives the binary by its digest,
//! starts it, and then moves bytes between an [`Outbox`] and a [`Sink`] until either side ends.
//! One thread owns one node's connection: the one that calls [`Carrier::carry`].

mod bootstrap;
mod command;
mod error;
pub mod known_hosts;
mod local;
mod outbox;
mod payload;
mod process;
mod pump;
mod ssh;
mod text;

pub use command::{CommandCarrier, RemoteSide};
pub use error::{Failure, RemoteError};
pub use local::LocalCarrier;
pub use outbox::{Outbox, OutboxSender, SendError};
pub use payload::Payload;
pub use ssh::{Secret, SshCarrier, SshOptions, locked_keys};

/// One node to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The node's name as the operator knows it; every error starts with it.
    pub node: String,
    /// Host name or address to connect to, and the name looked up in known_hosts.
    pub host: String,
    /// TCP port of the SSH server.
    pub port: u16,
    /// User to log in as.
    pub user: String,
}

/// How far [`Carrier::carry`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Opening the TCP connection (or starting the carrying program).
    Connecting,
    /// Exchanging keys and checking the host key.
    HostKey,
    /// Offering keys to the server.
    Authenticating,
    /// The bootstrap script was started; waiting for its first answer.
    Bootstrapping,
    /// The node lacks this binary: sending it.
    Deploying {
        /// Bytes that will cross the wire.
        bytes: u64,
    },
    /// The agent was started; from here on bytes are the agent's own.
    Running,
}

/// Where what comes from a node goes. Called on the thread that runs [`Carrier::carry`].
pub trait Sink {
    /// The connection reached a stage.
    fn stage(&mut self, stage: Stage);
    /// Bytes the agent wrote to its standard output: nothing that came before the agent started.
    fn stdout(&mut self, bytes: &[u8]);
    /// Bytes from the standard error of login shell, bootstrap or agent: raw and untrusted.
    fn stderr(&mut self, bytes: &[u8]);
}

/// How an agent that had been started came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this status.
    Exit(i32),
    /// A signal killed it (the name without `SIG`).
    Signal(String),
    /// The outbox was closed on this side.
    ClosedByUs,
}

/// A way to a node.
pub trait Carrier: Send + Sync {
    /// Connects, checks, deploys, starts the agent and carries bytes until the agent ends or the
    /// outbox closes. Blocks: call it on the node's own thread.
    ///
    /// # Errors
    /// Every failure names the node, what was tried, and what the operator can do.
    fn carry(
        &self,
        target: &Target,
        payload: &Payload,
        outbox: Outbox,
        sink: &mut dyn Sink,
    ) -> Result<Ended, RemoteError>;
}

impl<C: Carrier + ?Sized> Carrier for std::sync::Arc<C> {
    fn carry(
        &self,
        target: &Target,
        payload: &Payload,
        outbox: Outbox,
        sink: &mut dyn Sink,
    ) -> Result<Ended, RemoteError> {
        (**self).carry(target, payload, outbox, sink)
    }
}
