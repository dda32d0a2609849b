//! What an operator may set about SSH.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::remote::known_hosts;

/// A passphrase: kept out of debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text`.
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text, for the one place that needs it.
    /// Whether it is none.
    pub fn is_empty(&self) -> bool {
        self.reveal().is_empty()
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Asks a person for the passphrase of a key file; `None` where nobody can be asked.
pub type AskPassphrase = Arc<dyn Fn(&Path) -> Option<Secret> + Send + Sync>;

/// How nodes are reached with SSH.
#[derive(Clone)]
pub struct SshOptions {
    /// Private keys to offer (ed25519, ECDSA, RSA), in this order, before the agent's other keys.
    pub identity_files: Vec<PathBuf>,
    /// Whether the keys of ssh-agent are offered.
    pub use_agent: bool,
    /// The agent's socket, where it is not the one in `SSH_AUTH_SOCK`.
    pub agent_socket: Option<PathBuf>,
    /// Files of known host keys; missing ones are empty. New keys go to the first.
    pub known_hosts: Vec<PathBuf>,
    /// Accept and record the key of a host that is not known at all (never a changed one), as
    /// OpenSSH's `StrictHostKeyChecking=accept-new` does.
    pub accept_new: bool,
    /// For each TCP connection attempt.
    pub connect_timeout: Duration,
    /// From the TCP connection to the start of the command, whatever the server does.
    pub login_timeout: Duration,
    /// Handshakes under way at once, over all nodes.
    pub handshakes: usize,
    /// How to ask for the passphrase of a locked key. The login's time stands still meanwhile.
    pub passphrase: AskPassphrase,
}

impl SshOptions {
    /// What OpenSSH would use for a user with this home directory; asks for no passphrase.
    pub fn for_home(home: &Path) -> SshOptions {
        let key = |name: &str| home.join(".ssh").join(name);
        SshOptions {
            identity_files: vec![key("id_ed25519"), key("id_ecdsa"), key("id_rsa")],
            use_agent: true,
            agent_socket: None,
            known_hosts: known_hosts::default_files(home),
            accept_new: false,
            connect_timeout: Duration::from_secs(10),
            login_timeout: Duration::from_secs(30),
            handshakes: 48,
            passphrase: Arc::new(|_| None),
        }
    }
}
