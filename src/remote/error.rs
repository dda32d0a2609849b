//! What can go wrong on the way to a node, in the operator's words.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A node could not be reached, or its agent not be started or kept.
#[derive(Debug)]
pub struct RemoteError {
    /// The node as the operator knows it.
    pub node: String,
    /// What failed (boxed: results that carry it stay small).
    pub failure: Box<Failure>,
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.failure)
    }
}

impl Error for RemoteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.failure.source()
    }
}

/// One operation that failed. Text from nodes in it is cleaned of terminal escapes and bounded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The host name has no address.
    #[error(
        "the name {host} does not resolve to an address ({source}). Check the node's address in the cluster file, and DNS or /etc/hosts here"
    )]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// Nothing listens on the port.
    #[error(
        "{address} refused the connection: nothing listens there. Check that sshd runs on the node and that the port is right"
    )]
    Refused {
        /// Address and port.
        address: String,
    },
    /// No answer to the connection attempt.
    #[error(
        "{address} did not answer within {seconds} s: the node is down, or a firewall drops the packets"
    )]
    NoAnswer {
        /// Address and port.
        address: String,
        /// How long was waited, in seconds.
        seconds: String,
    },
    /// The connection failed for another reason.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Address and port.
        address: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A local resource was refused: descriptors, threads, memory.
    #[error(
        "cannot prepare the connection: {source}. Where it says too many open files, raise the limit: ulimit -n 65536"
    )]
    Local {
        /// What the kernel said.
        source: io::Error,
    },
    /// Accepted the connection and then said nothing.
    #[error(
        "{address} accepted the connection but said nothing within {seconds} s: no SSH greeting. The node may hang (out of memory, dead file system), or the port is not sshd's"
    )]
    Silent {
        /// Address and port.
        address: String,
        /// How long was waited, in seconds.
        seconds: String,
    },
    /// Sends something that does not become an SSH greeting.
    #[error(
        "{address} sent no SSH greeting within {seconds} s; it began with \"{sent}\". The port is probably not sshd's"
    )]
    NotSsh {
        /// Address and port.
        address: String,
        /// How long was waited, in seconds.
        seconds: String,
        /// Its first bytes, cleaned.
        sent: String,
    },
    /// Closed the connection before authentication, again and again.
    #[error("{address} closed the connection before authentication, {attempts} times{}. sshd sheds load at its MaxStartups limit, or refuses this machine (PerSourcePenalties, hosts.deny, fail2ban)", quoted(.sent))]
    TurnedAway {
        /// Address and port.
        address: String,
        /// Connections tried.
        attempts: u32,
        /// What it sent before, cleaned; may be empty.
        sent: String,
    },
    /// Key exchange and authentication took too long.
    #[error(
        "{address} did not finish {step} within {seconds} s. The node may be overloaded; a longer time-out can be configured"
    )]
    TooSlow {
        /// Address and port.
        address: String,
        /// What was under way.
        step: &'static str,
        /// How long was waited, in seconds.
        seconds: String,
    },
    /// The SSH key exchange failed.
    #[error("the SSH key exchange with {address} failed: {source}")]
    Handshake {
        /// Address and port.
        address: String,
        /// What libssh2 said.
        source: ssh2::Error,
    },
    /// No entry for this host.
    #[error("the host key for {name} is not known ({key}). Nothing was sent. Compare it with the node's own /etc/ssh/ssh_host_*_key.pub, then add it to {file}, or accept new keys with --accept-new{}", unread(.skipped))]
    HostKeyUnknown {
        /// The name looked up.
        name: String,
        /// Type and fingerprint of the key that the server showed.
        key: String,
        /// The known_hosts file to add it to.
        file: PathBuf,
        /// Lines of known_hosts files that could not be read, as `file:line`.
        skipped: Vec<String>,
    },
    /// Another key of this type is known.
    #[error("the host key for {name} has CHANGED ({key}, {place} has another). Nothing was sent. Someone may be between you and the node. If the node was reinstalled: ssh-keygen -f '{}' -R '{name}'", .file.display())]
    HostKeyChanged {
        /// The name looked up.
        name: String,
        /// Type and fingerprint of the key that the server showed.
        key: String,
        /// `file:line` of the key that was expected.
        place: String,
        /// The file of that line.
        file: PathBuf,
    },
    /// The key is marked @revoked.
    #[error(
        "the host key for {name} is REVOKED ({key}, {place}). Nothing was sent. The key is known to be stolen or withdrawn: give the node new host keys"
    )]
    HostKeyRevoked {
        /// The name looked up.
        name: String,
        /// Type and fingerprint of the key that the server showed.
        key: String,
        /// `file:line` of the revocation.
        place: String,
    },
    /// Only keys of other types are known.
    #[error("the server shows an unknown host key for {name} ({key}); known are only {known} ({place}). Nothing was sent. If the node was reinstalled: ssh-keygen -f '{}' -R '{name}'; if it only lost those keys, add the new one beside them", .file.display())]
    HostKeyOtherTypes {
        /// The name looked up.
        name: String,
        /// Type and fingerprint of the key that the server showed.
        key: String,
        /// The types that are known.
        known: String,
        /// `file:line` of the first of them.
        place: String,
        /// The file of that line.
        file: PathBuf,
    },
    /// The host is known only through a certificate authority.
    #[error(
        "the host key for {name} is vouched for only by a certificate authority ({place}), and libssh2 cannot check host certificates. Nothing was sent. Use the command carrier (ssh -T -oBatchMode=yes {{host}}), or add the plain key ({key}) to known_hosts"
    )]
    HostKeyCertificate {
        /// The name looked up.
        name: String,
        /// Type and fingerprint of the key that the server showed.
        key: String,
        /// `file:line` of the authority.
        place: String,
    },
    /// A known_hosts file exists but cannot be read or written.
    #[error("cannot {action} {}: {source}", .file.display())]
    KnownHostsFile {
        /// `read` or `add a key to`.
        action: &'static str,
        /// The file.
        file: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no key to offer.
    #[error(
        "no key to offer to {user}@{address}: {tried}. Start ssh-agent and ssh-add a key, or name a key file in the cluster file. Passwords are never used"
    )]
    NoKeys {
        /// User on the node.
        user: String,
        /// Address and port.
        address: String,
        /// Where keys were looked for.
        tried: String,
    },
    /// Every key was refused.
    #[error(
        "{user}@{address} refused every key. Tried: {tried}. The server accepts: {methods}. Put one of these public keys into ~{user}/.ssh/authorized_keys on the node, or name the right key or user in the cluster file"
    )]
    KeysRefused {
        /// User on the node.
        user: String,
        /// Address and port.
        address: String,
        /// The keys that were offered, and those that could not be.
        tried: String,
        /// Authentication methods that the server names.
        methods: String,
    },
    /// A key file could not be decrypted and nothing else worked.
    #[error("wrong passphrase for {}: the key stays locked and nothing else let {user}@{address} in. Tried: {tried}", .file.display())]
    WrongPassphrase {
        /// The key file.
        file: PathBuf,
        /// User on the node.
        user: String,
        /// Address and port.
        address: String,
        /// The keys that were offered, and those that could not be.
        tried: String,
    },
    /// The server closed the connection while keys were offered.
    #[error(
        "{address} closed the connection while keys were offered to {user} ({source}). Tried: {tried}. A server allows only a few keys per connection (MaxAuthTries, usually 6): name the right one in the cluster file"
    )]
    CutWhileAuthenticating {
        /// User on the node.
        user: String,
        /// Address and port.
        address: String,
        /// The keys that were offered.
        tried: String,
        /// What libssh2 said.
        source: ssh2::Error,
    },
    /// Authenticated, but no command could be started.
    #[error(
        "{address} let us in but started no command: {source}. Check the account's shell, and ForceCommand and MaxSessions in sshd_config"
    )]
    Exec {
        /// Address and port.
        address: String,
        /// What libssh2 said.
        source: ssh2::Error,
    },
    /// The carrying program could not be started.
    #[error("cannot start {program}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A command carrier without a program.
    #[error(
        "the command carrier has no command: give a program and its arguments, such as [\"ssh\", \"-T\", \"{{host}}\"]"
    )]
    EmptyCommand,
    /// A value that would reach the node's shell is not plain.
    #[error(
        "{what} \"{value}\" cannot be passed to a node's shell safely: only letters, digits and _ . / : = , @ % + - are allowed"
    )]
    NotPlain {
        /// What it is.
        what: &'static str,
        /// Its value.
        value: String,
    },
    /// The bootstrap did not answer.
    #[error("the login shell did not start the bootstrap within {seconds} s{}. Check the account's shell and its start-up files", quoted(.said))]
    BootstrapSilent {
        /// How long was waited, in seconds.
        seconds: String,
        /// The last line that came, cleaned; may be empty.
        said: String,
    },
    /// The login shell never stops talking.
    #[error(
        "the login shell printed more than {limit} bytes before the bootstrap: \"{said}\". Quiet its start-up files for commands without a terminal"
    )]
    TooMuchNoise {
        /// Bytes that are put up with.
        limit: usize,
        /// How it began, cleaned.
        said: String,
    },
    /// The bootstrap spoke out of turn.
    #[error("the bootstrap answered with something unexpected: \"{said}\"")]
    Protocol {
        /// The line, cleaned.
        said: String,
    },
    /// The command ended before the agent ran.
    #[error("the command on the node ended before the agent ran ({how}){}", quoted(.said))]
    EndedEarly {
        /// Exit status or signal.
        how: String,
        /// Last line of standard error, cleaned; may be empty.
        said: String,
    },
    /// The binary is for another kind of processor.
    #[error(
        "the node is {node}, this linerate is built for {ours}. Nothing was copied. Run a linerate that is built for {node} on the nodes"
    )]
    WrongArchitecture {
        /// `uname -m` of the node.
        node: String,
        /// What the binary is built for.
        ours: &'static str,
    },
    /// A standard tool is missing.
    #[error(
        "the node has no {tool}, which the bootstrap needs. Install the node's basic tools (coreutils or busybox)"
    )]
    MissingTool {
        /// Its name.
        tool: String,
    },
    /// No directory can hold the agent.
    #[error(
        "no directory on the node can hold the agent: {reasons}. Free space there, or name a directory of the user's own that allows programs to run (directory under [ssh] in the cluster file)"
    )]
    NoDirectory {
        /// Each candidate and why not.
        reasons: String,
    },
    /// The disk filled up during the copy.
    #[error(
        "the disk is full on the node: {directory} could not take the agent ({detail}). Nothing was left behind. Free space there, or name another directory (directory under [ssh] in the cluster file)"
    )]
    DiskFull {
        /// Directory on the node.
        directory: String,
        /// What the writing tool said.
        detail: String,
    },
    /// The copy could not be written.
    #[error(
        "the agent could not be written to {directory} on the node: {detail}. Nothing was left behind"
    )]
    Write {
        /// Directory on the node.
        directory: String,
        /// What the writing tool said.
        detail: String,
    },
    /// The copy is not what was sent.
    #[error(
        "the copy in {directory} on the node differs from what was sent (SHA-256); it was removed and not run. Check the node's disk and memory"
    )]
    Corrupted {
        /// Directory on the node.
        directory: String,
    },
    /// The node stopped taking the binary.
    #[error(
        "the node took no more of the agent for {seconds} s ({sent} of {total} bytes sent). Its disk may hang"
    )]
    DeployStalled {
        /// How long was waited, in seconds.
        seconds: String,
        /// Bytes sent.
        sent: usize,
        /// Bytes to send.
        total: usize,
    },
    /// The agent's file could not be executed.
    #[error("the node could not run the agent (status {status}): {said}")]
    CannotRun {
        /// Exit status: 126 not executable, 127 not found.
        status: i32,
        /// Last line of standard error, cleaned.
        said: String,
    },
    /// The dynamic linker misses a library.
    #[error(
        "the agent needs {library}, which the node does not have. Install the package with it on the node, or use a statically linked linerate"
    )]
    MissingLibrary {
        /// File name of the library.
        library: String,
    },
    /// The node's C library is older than the binary's.
    #[error(
        "the node's C library is too old for this linerate ({said}). Build linerate on the oldest system among the nodes"
    )]
    OldLibrary {
        /// What the dynamic linker said.
        said: String,
    },
    /// The connection broke.
    #[error(
        "the connection to the node was lost {when}: {source}. The node may have gone down, or its sshd was stopped"
    )]
    Lost {
        /// What was going on.
        when: &'static str,
        /// What the connection said.
        source: io::Error,
    },
}

impl Failure {
    /// The error for a node.
    pub(super) fn on(self, node: &str) -> RemoteError {
        RemoteError {
            node: node.to_string(),
            failure: Box::new(self),
        }
    }
}

/// `: it said "…"`, or nothing.
fn quoted(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": it said \"{text}\"")
    }
}

/// A clause about lines that could not be read, or nothing.
fn unread(places: &[String]) -> String {
    match places {
        [] => String::new(),
        [one] => format!(" ({one} could not be read and was skipped)"),
        [first, rest @ ..] => {
            format!(
                " ({first} and {} more lines could not be read and were skipped)",
                rest.len()
            )
        }
    }
}
