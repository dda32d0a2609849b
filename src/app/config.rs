//! `linerate config`: looks at cluster files without touching a node.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

use super::failure::Failure;
use super::output::Output;
use super::sweep;
use crate::config::{Cluster, ConfigErrors, DEFAULT, Operator, from_host_lists, hostlist, read};

/// Checks a file and says what it means, or everything that is wrong with it.
pub(super) fn check(file: &Path) -> Result<u8, Failure> {
    let cluster = load(file)?;
    let names: Vec<String> = cluster
        .nodes
        .iter()
        .map(|node| node.name.to_string())
        .collect();
    let nodes = if names.len() == 1 { "node" } else { "nodes" };
    let groups = match cluster.settings(0).sweep.groups.len() {
        0 => String::new(),
        1 => "; 1 leaf group".to_owned(),
        count => format!("; {count} leaf groups"),
    };
    let note = sweep::ungrouped(&cluster).map_or(String::new(), |note| format!("{note}\n"));
    print(&format!(
        "{}: good: {} {nodes}, {}{groups}\n{note}",
        file.display(),
        names.len(),
        hostlist::fold(&names)
    ))
}

/// Prints the built-in defaults.
pub(super) fn show_default() -> Result<u8, Failure> {
    print(DEFAULT)
}

/// `print!` panics where standard output takes nothing: a full disk, a reader that left.
pub(super) fn print(text: &str) -> Result<u8, Failure> {
    let mut output = Output::standard();
    output
        .writer()
        .write_all(text.as_bytes())
        .map_err(|error| Failure::work(format!("cannot write to standard output: {error}")))?;
    output.finish()?;
    Ok(0)
}

/// Reads and checks a cluster file, and the file of its leaf groups where it names one.
pub(super) fn load(file: &Path) -> Result<Cluster, Failure> {
    let mut cluster = read(&text(file)?, &file.display().to_string(), &operator())
        .map_err(|errors| unusable("cluster file", &errors))?;
    if let Some(groups) = &cluster.groups_file {
        let found = groups.read(&text(groups.path())?, &cluster.names());
        cluster.sweep.groups =
            found.map_err(|errors| unusable("file of the leaf groups", &errors))?;
    }
    Ok(cluster)
}

/// A file's text.
pub(super) fn text(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))
}

/// What is wrong with a file, each problem with its place.
pub(super) fn unusable(what: &str, errors: &ConfigErrors) -> Failure {
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    Failure::usage(format!(
        "the {what} is not usable\n{}",
        errors.render(color)
    ))
}

/// The nodes to go to: those of a cluster file, some of them, or without one the nodes named.
pub(super) fn cluster(
    file: Option<&Path>,
    nodes: &[String],
    accept_new: bool,
) -> Result<Cluster, Failure> {
    let mut cluster = match (file, nodes) {
        (Some(file), []) => load(file)?,
        (Some(file), nodes) => {
            let cluster = load(file)?;
            cluster
                .select(nodes)
                .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?
        }
        (None, nodes) => from_host_lists(nodes, &operator())
            .map_err(|errors| Failure::usage(errors.render(false)))?,
    };
    cluster.ssh.accept_new |= accept_new;
    Ok(cluster)
}

/// Who runs linerate: the user database's word first, as OpenSSH has it, then the environment's.
pub(super) fn operator() -> Operator {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let entry = User::from_uid(Uid::current()).ok().flatten();
    let name = entry.as_ref().map(|user| user.name.clone());
    let home = entry.map(|user| user.dir);
    Operator {
        user: name.or_else(|| set("USER")).or_else(|| set("LOGNAME")),
        home: set("HOME").map(PathBuf::from).or(home),
    }
}
