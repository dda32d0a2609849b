//! `[ssh]`: how nodes are reached.

use std::path::PathBuf;
use std::time::Duration;

use super::super::cluster::{CarrierConfig, SshConfig};
use super::super::typed::{Typed, TypedList, TypedSsh};
use super::{Checker, Value, items};

/// Where a command's arguments take the node's address.
const HOST: &str = "{host}";

/// What nodes without settings of their own are logged in to with.
pub(super) struct Login {
    pub port: u16,
    pub user: Option<String>,
}

/// What nodes are logged in to with, and the rest of the section; none where a problem was found.
pub(super) fn check(
    checker: &mut Checker,
    typed: TypedSsh,
    default: TypedSsh,
) -> (Option<Login>, Option<SshConfig>) {
    (
        login(checker, &typed, &default),
        settings(checker, typed, default),
    )
}

fn login(checker: &mut Checker, typed: &TypedSsh, default: &TypedSsh) -> Option<Login> {
    let port = checker.need("ssh.port", typed.port.clone(), default.port.clone());
    let port = port.and_then(|port| check_port(checker, &port));
    let user = local_user(checker, typed.user.clone());
    Some(Login {
        port: port?,
        user: user?,
    })
}

fn settings(checker: &mut Checker, typed: TypedSsh, default: TypedSsh) -> Option<SshConfig> {
    let carrier = check_carrier(checker, typed.carrier, typed.command, default.carrier);
    let agent = checker.need("ssh.agent", typed.agent, default.agent);
    let identity_files = identity_files(checker, typed.identity_files, agent.as_ref());
    let known_hosts = checker
        .some("known_hosts", typed.known_hosts, default.known_hosts)
        .and_then(|files| paths(checker, "known_hosts", files.value));
    let accept_new = checker.need("ssh.accept_new", typed.accept_new, default.accept_new);
    let bounds = Duration::from_secs(1)..=Duration::from_secs(600);
    let (timeout, default_timeout) = (typed.connect_timeout, default.connect_timeout);
    let timeout = checker.need_duration("ssh.connect_timeout", timeout, default_timeout, bounds);
    let (many, default_many) = (typed.concurrency, default.concurrency);
    let concurrency = checker.need_whole("ssh.concurrency", many, default_many, 1..=1024);
    let directory = agent_directory(checker, typed.directory);
    Some(SshConfig {
        directory: directory?,
        identity_files: identity_files?,
        agent: agent?.value,
        known_hosts: known_hosts?,
        accept_new: accept_new?.value,
        connect_timeout: timeout?,
        concurrency: concurrency?.value,
        carrier: carrier?,
    })
}

pub(super) fn check_port(checker: &mut Checker, port: &Value<i64>) -> Option<u16> {
    checker.whole("port", port, 1..=i64::from(u16::MAX))
}

/// A user's name as it may be on a node: no blank or quote, and nothing that is taken for an option.
pub(super) fn check_user(checker: &mut Checker, user: Value<String>) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._@\\+$-".contains(c);
    let Value { value, span } = user;
    let fits = (1..=256).contains(&value.len()) && !value.starts_with('-');
    if fits && value.chars().all(allowed) {
        return Some(value);
    }
    checker.problem(span, format!("{value:?} cannot be the name of a user"));
    None
}

/// The user for nodes that have none of their own: the one typed, else who runs linerate. `None`
/// inside where neither is known: an error only where a node needs it.
fn local_user(checker: &mut Checker, typed: Typed<String>) -> Option<Option<String>> {
    let local = checker.operator.user.clone();
    let local = local.map(|value| Value { value, span: None });
    match typed.map(Value::typed).or(local) {
        Some(user) => check_user(checker, user).map(Some),
        None => Some(None),
    }
}

fn check_carrier(
    checker: &mut Checker,
    typed: Typed<String>,
    command: TypedList,
    default: Typed<String>,
) -> Option<CarrierConfig> {
    let both = command.is_some().then_some(typed.as_ref()).flatten();
    if let Some(carrier) = both {
        let message = "`carrier` and `command` exclude each other: the command is the carrier";
        checker.problem(Some(carrier.span()), message);
        return None;
    }
    if command.is_some() {
        return check_command(checker, command);
    }
    let known = [("ssh", false), ("local", true)];
    let local = checker.need_choice("ssh.carrier", typed, default, &known)?;
    Some(if local {
        CarrierConfig::Local
    } else {
        CarrierConfig::Ssh
    })
}

fn check_command(checker: &mut Checker, command: TypedList) -> Option<CarrierConfig> {
    let words = checker.some("command", command, None)?;
    let before = checker.problems.len();
    let no_program = |word: &&Value<String>| word.value.is_empty() || word.value.contains(HOST);
    if let Some(program) = words.value.first().filter(no_program) {
        let message = "`command` begins with the program to run";
        checker.problem(program.span.clone(), message);
    }
    for word in &words.value {
        if word.value.contains('\0') {
            checker.problem(word.span.clone(), "an argument cannot hold a NUL");
        }
        let other = placeholders(&word.value).find(|name| *name != HOST);
        if let Some(other) = other {
            let message = format!("`{other}` is not known here");
            let problem = checker.problem(word.span.clone(), message);
            problem.help("`{host}` stands for the node's address");
        }
    }
    if !words.value.iter().any(|word| word.value.contains(HOST)) {
        let problem = checker.problem(words.span, "`command` does not say where the node goes");
        problem.help("put `{host}` where the node's address belongs");
    }
    let words = words.value.into_iter().map(|word| word.value).collect();
    (checker.problems.len() == before).then_some(CarrierConfig::Command(words))
}

/// What looks like a placeholder, `{` to `}` around lower-case letters.
pub(super) fn placeholders(word: &str) -> impl Iterator<Item = &str> {
    word.match_indices('{').filter_map(|(start, _)| {
        let rest = &word[start + 1..];
        let end = rest.find(|c: char| !c.is_ascii_lowercase())?;
        let closed = end > 0 && rest[end..].starts_with('}');
        closed.then(|| &word[start..start + end + 2])
    })
}

/// The keys to offer; `Some(None)` where the file leaves them to what is usual.
fn identity_files(
    checker: &mut Checker,
    typed: TypedList,
    agent: Option<&Value<bool>>,
) -> Option<Option<Vec<PathBuf>>> {
    let Some(files) = typed else {
        return Some(None);
    };
    if files.get_ref().is_empty() && agent.is_some_and(|agent| !agent.value) {
        let message = "no key to log in with: `identity_files` is empty and `agent` is false";
        checker.problem(Some(files.span()), message);
        return None;
    }
    let files = items(files, |item| Some(item.span()));
    paths(checker, "identity_files", files).map(Some)
}

/// Paths with `~/` replaced. A relative one is refused: nobody can tell from where it would count.
fn paths(checker: &mut Checker, key: &str, files: Vec<Value<String>>) -> Option<Vec<PathBuf>> {
    let paths: Vec<Option<PathBuf>> = files
        .into_iter()
        .map(|file| path(checker, key, file))
        .collect();
    paths.into_iter().collect()
}

/// A directory on nodes, which their shells are told: absolute there, and nothing that a shell minds.
/// `Some(None)` where the file names none.
fn agent_directory(checker: &mut Checker, typed: Typed<String>) -> Option<Option<String>> {
    let Some(Value { value, span }) = typed.map(Value::typed) else {
        return Some(None);
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:=,@%+-".contains(c);
    if value.starts_with('/') && value.chars().all(plain) {
        return Some(Some(value));
    }
    let message = format!("`directory`: {value:?} is no plain absolute path");
    let problem = checker.problem(span, message);
    problem.help(
        "it is a path on the nodes: begin it with `/`; letters, digits and _./:=,@%+- may follow",
    );
    None
}

/// A path on this machine, absolute or below `~/`.
pub(super) fn path(checker: &mut Checker, key: &str, file: Value<String>) -> Option<PathBuf> {
    let Value { value, span } = file;
    if let Some(rest) = value.strip_prefix("~/") {
        let home = checker.operator.home.clone();
        if home.is_none() {
            let message = format!("`{key}`: {value:?}: your home directory is not known ($HOME)");
            checker.problem(span, message);
        }
        return home.map(|home| home.join(rest));
    }
    if value.starts_with('/') && !value.contains('\0') {
        return Some(PathBuf::from(value));
    }
    let problem = checker.problem(span, format!("`{key}`: {value:?} is not an absolute path"));
    problem.help("begin it with `/` or `~/`");
    None
}
