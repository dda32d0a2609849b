//! What everything that goes to nodes starts with: the binary to send, room for connections, and a
//! way to be stopped.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::failure::Failure;
use crate::config::Cluster;
use crate::remote::Payload;

/// This program, to be run as an agent on the nodes of a cluster.
pub(super) fn payload(cluster: &Cluster) -> Result<Payload, Failure> {
    let payload = Payload::from_current_exe(&["agent"])
        .map_err(|error| Failure::work(format!("cannot read this program's own file: {error}")))?;
    Ok(match &cluster.ssh.directory {
        Some(directory) => {
            // A folder of its own: the bootstrap closes the one it uses to everybody else.
            payload.in_directory(&Path::new(directory).join("linerate"))
        }
        None => payload,
    })
}

/// A node takes a few descriptors; the soft limit of a login shell is often 1024.
pub(super) fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Where it cannot be raised, a node too many says so when it is connected.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// A flag that the first Ctrl-C or SIGTERM sets; the second ends the process at once.
pub(super) fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register_conditional_shutdown(signal, 3, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::work(format!("cannot listen for signals: {error}")))?;
    }
    Ok(stop)
}
