//! From the configuration to carriers: which way each node is reached.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::ProgressBar;

use super::failure::Failure;
use crate::cluster::Member;
use crate::config::{CarrierConfig, Cluster, Operator};
use crate::remote::{
    Carrier, CommandCarrier, LocalCarrier, Secret, SshCarrier, SshOptions, Target, locked_keys,
};

/// The nodes of a cluster with the way to each. `asks` is the line that makes way where a login needs a
/// passphrase. Without one they are asked for here, since the terminal will be the dashboard's.
pub(super) fn members(
    cluster: &Cluster,
    operator: &Operator,
    asks: Option<ProgressBar>,
) -> Result<Vec<Member>, Failure> {
    let carrier = carrier(cluster, operator, asks)?;
    let member = |node: &crate::config::NodeConfig| Member {
        target: Target {
            node: node.name.to_string(),
            host: node.address.clone(),
            port: node.port,
            user: node.user.clone(),
        },
        carrier: Arc::clone(&carrier),
    };
    Ok(cluster.nodes.iter().map(member).collect())
}

fn carrier(
    cluster: &Cluster,
    operator: &Operator,
    asks: Option<ProgressBar>,
) -> Result<Arc<dyn Carrier>, Failure> {
    Ok(match &cluster.ssh.carrier {
        CarrierConfig::Local => Arc::new(LocalCarrier),
        CarrierConfig::Command(template) => {
            let words: Vec<&str> = template.iter().map(String::as_str).collect();
            Arc::new(CommandCarrier::new(&words))
        }
        CarrierConfig::Ssh => {
            let carrier = SshCarrier::new(ssh(cluster, operator, asks)?);
            Arc::new(carrier.map_err(|error| Failure::usage(Failure::chain(&error)))?)
        }
    })
}

fn ssh(
    cluster: &Cluster,
    operator: &Operator,
    asks: Option<ProgressBar>,
) -> Result<SshOptions, Failure> {
    let home = operator.home.clone().unwrap_or_else(|| PathBuf::from("/"));
    let usual = SshOptions::for_home(&home);
    let identity_files = match &cluster.ssh.identity_files {
        Some(files) => stated(files)?,
        None => usual
            .identity_files
            .iter()
            .filter(|file| file.exists())
            .cloned()
            .collect(),
    };
    let mut options = SshOptions {
        identity_files,
        use_agent: cluster.ssh.agent,
        known_hosts: cluster.ssh.known_hosts.clone(),
        accept_new: cluster.ssh.accept_new,
        connect_timeout: cluster.ssh.connect_timeout,
        login_timeout: cluster.ssh.connect_timeout,
        handshakes: cluster.ssh.concurrency,
        ..usual
    };
    options.passphrase = match asks {
        Some(line) => Arc::new(move |key: &Path| ask(&line, key)),
        None => {
            let known = asked_before(&options);
            Arc::new(move |key: &Path| known.get(key).cloned())
        }
    };
    Ok(options)
}

/// Asks for the passphrase of every locked key file; a key that gets none is not used.
fn asked_before(options: &SshOptions) -> HashMap<PathBuf, Secret> {
    let nothing = ProgressBar::hidden();
    let keys = locked_keys(options).into_iter();
    let typed = keys.filter_map(|key| ask(&nothing, &key).map(|secret| (key, secret)));
    typed.filter(|(_, secret)| !secret.is_empty()).collect()
}

/// Key files that the operator named must be there: a missing one would fail on every node.
fn stated(files: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    match files.iter().find(|file| !file.is_file()) {
        Some(file) => Err(Failure::usage(format!(
            "identity_files under [ssh]: {} is not a file",
            file.display()
        ))),
        None => Ok(files.to_vec()),
    }
}

/// Asks on the terminal, if there is one, with the progress line out of the way.
fn ask(progress: &ProgressBar, key: &Path) -> Option<Secret> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    let prompt = format!("Passphrase for {}: ", key.display());
    let typed = progress.suspend(|| rpassword::prompt_password(prompt));
    typed.ok().map(Secret::new)
}
