//! Any program with a standard input and output as a way to a node: `ssh`, `srun`,
//! `kubectl exec`, `docker exec`.

use super::bootstrap::Bootstrap;
use super::error::Failure;
use super::process::Process;
use super::pump::{Limits, Pump};
use super::{Carrier, Ended, Outbox, Payload, RemoteError, Sink, Stage, Target};

/// What the program does with the arguments after its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteSide {
    /// Joins them with blanks for a login shell (ssh, pdsh): one quoted line is passed.
    Shell,
    /// Starts them as a program with arguments (srun, kubectl exec, docker exec).
    Program,
}

/// Starts a program per node. The template is a list of arguments, never a shell's line;
/// `{host}`, `{port}`, `{user}` and `{node}` in it are replaced.
#[derive(Clone, Debug)]
pub struct CommandCarrier {
    template: Vec<String>,
    side: RemoteSide,
}

impl CommandCarrier {
    /// A carrier for this template, such as `["ssh", "-T", "-oBatchMode=yes", "{host}"]`. What the
    /// far side does with arguments is guessed from the program's name.
    pub fn new(template: &[&str]) -> CommandCarrier {
        let program = template
            .first()
            .and_then(|p| p.rsplit('/').next())
            .unwrap_or_default();
        let side = match program {
            "ssh" | "rsh" | "pdsh" | "clush" | "sshpass" | "autossh" => RemoteSide::Shell,
            _ => RemoteSide::Program,
        };
        let template = template.iter().map(ToString::to_string).collect();
        CommandCarrier { template, side }
    }

    /// Says what the far side does with arguments, where the guess is wrong.
    #[must_use]
    pub fn with_remote_side(mut self, side: RemoteSide) -> CommandCarrier {
        self.side = side;
        self
    }

    fn argv(&self, target: &Target, bootstrap: &Bootstrap) -> Result<Vec<String>, Failure> {
        if self.template.is_empty() {
            return Err(Failure::EmptyCommand);
        }
        let mut argv = Vec::new();
        for argument in &self.template {
            argv.push(fill(argument, target)?);
        }
        match self.side {
            RemoteSide::Shell => argv.push(bootstrap.command_line()),
            RemoteSide::Program => argv.extend(bootstrap.argv()),
        }
        Ok(argv)
    }
}

/// Replaces the placeholders. A value that the program would read as an option is refused.
fn fill(argument: &str, target: &Target) -> Result<String, Failure> {
    let mut filled = argument.to_string();
    let port = target.port.to_string();
    let values = [
        ("{host}", target.host.as_str()),
        ("{port}", port.as_str()),
        ("{user}", target.user.as_str()),
        ("{node}", target.node.as_str()),
    ];
    for (name, value) in values {
        if argument.contains(name) && (value.is_empty() || value.starts_with('-')) {
            return Err(Failure::NotPlain {
                what: "the value",
                value: value.to_string(),
            });
        }
        filled = filled.replace(name, value);
    }
    Ok(filled)
}

/// Runs the bootstrap under a program that was given as arguments.
pub(super) fn carry_process(
    argv: &[String],
    bootstrap: Bootstrap,
    payload: &Payload,
    outbox: &Outbox,
    sink: &mut dyn Sink,
) -> Result<Ended, Failure> {
    sink.stage(Stage::Connecting);
    let program = argv.first().cloned().unwrap_or_default();
    let mut process = Process::spawn(argv).map_err(|source| Failure::Spawn { program, source })?;
    Pump::new(
        &mut process,
        payload,
        outbox,
        sink,
        bootstrap,
        Limits::default(),
    )
    .run()
}

impl Carrier for CommandCarrier {
    fn carry(
        &self,
        target: &Target,
        payload: &Payload,
        outbox: Outbox,
        sink: &mut dyn Sink,
    ) -> Result<Ended, RemoteError> {
        let mut run = || {
            let bootstrap = Bootstrap::new(payload)?;
            let argv = self.argv(target, &bootstrap)?;
            carry_process(&argv, bootstrap, payload, &outbox, sink)
        };
        run().map_err(|failure| failure.on(&target.node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str) -> Target {
        Target {
            node: "n1".into(),
            host: host.into(),
            port: 2207,
            user: "a".into(),
        }
    }

    #[test]
    fn a_host_is_one_argument_and_never_an_option() {
        assert_eq!(fill("{user}@{host}", &target("a b;c")).unwrap(), "a@a b;c");
        assert!(fill("{host}", &target("-oProxyCommand=evil")).is_err());
    }

    #[test]
    fn ssh_gets_one_line_and_srun_gets_arguments() {
        let payload = Payload::from_file(std::path::Path::new("/dev/null"), &["agent"]).unwrap();
        let bootstrap = Bootstrap::new(&payload).unwrap();
        let ssh = CommandCarrier::new(&["/usr/bin/ssh", "-T", "{host}"]);
        let argv = ssh.argv(&target("h"), &bootstrap).unwrap();
        assert_eq!((argv.len(), argv[2].as_str()), (4, "h"));
        let srun = CommandCarrier::new(&["srun", "-w", "{host}"]);
        let argv = srun.argv(&target("h"), &bootstrap).unwrap();
        assert_eq!(argv[2..5], ["h", "/bin/sh", "-c"]);
    }
}
