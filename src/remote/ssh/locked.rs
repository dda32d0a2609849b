//! Which key files a person would be asked the passphrase of, as far as that is known before a login.

use std::path::PathBuf;

use ssh2::Session;

use super::identity::KeyFile;
use super::options::SshOptions;
use crate::remote::known_hosts::HostKey;

/// Key files that are locked, and that no agent holds unlocked.
pub fn locked_keys(options: &SshOptions) -> Vec<PathBuf> {
    let files = options.identity_files.iter();
    let mut locked: Vec<KeyFile> = files
        .filter_map(|path| KeyFile::read(path).ok())
        .filter(|file| file.locked)
        .collect();
    if locked.is_empty() {
        return Vec::new();
    }
    let held = held(options).unwrap_or_default();
    locked.retain(|file| file.public.is_none() || !held.contains(&file.public));
    locked.into_iter().map(|file| file.path).collect()
}

/// The keys of the agent; an agent needs no connection to a node.
fn held(options: &SshOptions) -> Result<Vec<Option<HostKey>>, ssh2::Error> {
    if !options.use_agent {
        return Ok(Vec::new());
    }
    let mut agent = Session::new()?.agent()?;
    if let Some(socket) = &options.agent_socket {
        agent.set_identity_path(socket)?;
    }
    agent.connect()?;
    agent.list_identities()?;
    let keys = agent.identities()?;
    Ok(keys
        .iter()
        .map(|key| HostKey::from_blob(key.blob()))
        .collect())
}
