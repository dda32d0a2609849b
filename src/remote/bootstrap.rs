//! The conversation with the bootstrap script: builds its command, reads its answers.
//! Knows no connection: bytes go in, steps come out.

use std::collections::VecDeque;

use super::error::Failure;
use super::payload::Payload;
use super::text::clean;

/// Bytes of login-shell noise that are put up with before the first answer.
pub(super) const NOISE_LIMIT: usize = 64 * 1024;

const SCRIPT: &str = include_str!("bootstrap.sh");

/// How the binary crosses the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Gzip,
    Raw,
}

/// What the owner of the connection does next.
#[derive(Debug)]
pub(super) enum Step {
    /// The binary is there already; nothing to send.
    Have,
    /// Send the binary.
    Need(Encoding),
    /// The agent runs; these bytes are the first of its output.
    Run(Vec<u8>),
}

/// One session's bootstrap.
pub(super) struct Bootstrap {
    halves: [String; 2],
    arguments: Vec<String>,
    architecture: Option<&'static str>,
    pending: Vec<u8>,
    noise: usize,
    steps: VecDeque<Step>,
    running: bool,
}

impl Bootstrap {
    /// Prepares the conversation. Fails where an argument could be misread by a shell.
    pub(super) fn new(payload: &Payload) -> Result<Bootstrap, Failure> {
        let id = format!("{:016x}", rand::random::<u64>());
        let kib = payload.bytes().len().div_ceil(1024) + 64;
        let halves = ["linerate-".to_string(), id];
        let mut arguments = halves.to_vec();
        arguments.push(payload.digest().to_string());
        arguments.push(kib.to_string());
        arguments.push(plain("directory", payload.directory().unwrap_or("-"))?);
        for argument in payload.arguments() {
            arguments.push(plain("argument", argument)?);
        }
        let architecture = payload.architecture();
        Ok(Bootstrap {
            halves,
            arguments,
            architecture,
            pending: Vec::new(),
            noise: 0,
            steps: VecDeque::new(),
            running: false,
        })
    }

    /// For a carrier that starts programs itself: `/bin/sh -c SCRIPT …` as separate arguments.
    pub(super) fn argv(&self) -> Vec<String> {
        let mut argv = vec!["/bin/sh".to_string(), "-c".to_string(), script()];
        argv.push("linerate-bootstrap".to_string());
        argv.extend(self.arguments.iter().cloned());
        argv
    }

    /// For a carrier whose other end is a login shell of whatever kind: one line.
    pub(super) fn command_line(&self) -> String {
        let rest = self.arguments.join(" ");
        format!("exec /bin/sh -c '{}' linerate-bootstrap {rest}", script())
    }

    /// Whether the agent was started.
    pub(super) fn is_running(&self) -> bool {
        self.running
    }

    /// What was last said before the agent ran, cleaned.
    pub(super) fn last_words(&self) -> String {
        clean(&self.pending)
    }

    /// Takes bytes of standard output before the agent runs.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.pending.extend_from_slice(bytes);
        while !self.running {
            let marker = format!("{}{} ", self.halves[0], self.halves[1]);
            let Some(start) = find(&self.pending, marker.as_bytes()) else {
                return self.bound_noise(self.pending.len());
            };
            self.bound_noise(start)?;
            let after = start + marker.len();
            let Some(length) = self.pending[after..].iter().position(|&b| b == b'\n') else {
                return self.bound_noise(self.pending.len());
            };
            let line = String::from_utf8_lossy(&self.pending[after..after + length]).into_owned();
            self.pending.drain(..after + length + 1);
            self.noise += start;
            self.answer(&line)?;
        }
        Ok(())
    }

    /// The next step, in order.
    pub(super) fn step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    fn bound_noise(&self, more: usize) -> Result<(), Failure> {
        if self.noise + more <= NOISE_LIMIT {
            return Ok(());
        }
        Err(Failure::TooMuchNoise {
            limit: NOISE_LIMIT,
            said: clean(&self.pending[..self.pending.len().min(120)]),
        })
    }

    fn answer(&mut self, line: &str) -> Result<(), Failure> {
        let mut words = line.trim_end_matches('\r').split(' ');
        let step = match (words.next(), words.next(), words.next()) {
            (Some("HAVE"), Some(arch), None) => self.fits(arch).map(|()| Step::Have)?,
            (Some("NEED"), Some(arch), Some("gzip")) => {
                self.fits(arch).map(|()| Step::Need(Encoding::Gzip))?
            }
            (Some("NEED"), Some(arch), Some("raw")) => {
                self.fits(arch).map(|()| Step::Need(Encoding::Raw))?
            }
            (Some("RUN"), None, None) => {
                self.running = true;
                Step::Run(std::mem::take(&mut self.pending))
            }
            (Some("FAIL"), Some(what), detail) => {
                let rest = words.collect::<Vec<_>>().join(" ");
                return Err(explain(what, detail.unwrap_or_default(), &rest));
            }
            _ => {
                return Err(Failure::Protocol {
                    said: clean(line.as_bytes()),
                });
            }
        };
        self.steps.push_back(step);
        Ok(())
    }

    fn fits(&self, node: &str) -> Result<(), Failure> {
        match self.architecture {
            Some(ours) if ours != node => Err(Failure::WrongArchitecture {
                node: clean(node.as_bytes()),
                ours,
            }),
            _ => Ok(()),
        }
    }
}

fn explain(what: &str, detail: &str, rest: &str) -> Failure {
    let text = |s: &str| clean(s.as_bytes());
    let full = ["No space left", "quota exceeded", "no space left"];
    match what {
        "tool" => Failure::MissingTool { tool: text(detail) },
        "nodir" => Failure::NoDirectory {
            reasons: text(&format!("{detail} {rest}")),
        },
        "write" if full.iter().any(|sign| rest.contains(sign)) => Failure::DiskFull {
            directory: text(detail),
            detail: text(rest),
        },
        "write" => Failure::Write {
            directory: text(detail),
            detail: text(rest),
        },
        "digest" => Failure::Corrupted {
            directory: text(detail),
        },
        _ => Failure::Protocol {
            said: text(&format!("FAIL {what} {detail} {rest}")),
        },
    }
}

/// A word that no shell reads as anything else.
fn plain(what: &'static str, value: &str) -> Result<String, Failure> {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_./:=,@%+-".contains(c);
    // A leading = is a command path to zsh; a leading % is a job to csh.
    if !value.is_empty() && !value.starts_with(['=', '%']) && value.chars().all(safe) {
        return Ok(value.to_string());
    }
    Err(Failure::NotPlain {
        what,
        value: clean(value.as_bytes()),
    })
}

/// The script as one line.
fn script() -> String {
    let lines = SCRIPT
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.collect::<Vec<_>>().join(" ")
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn bootstrap() -> Bootstrap {
        let mut bootstrap =
            Bootstrap::new(&Payload::from_file(Path::new("/dev/null"), &["agent"]).unwrap())
                .unwrap();
        bootstrap.architecture = Some("x86_64");
        bootstrap.halves[1] = "0123".into();
        bootstrap
    }

    fn outcome(output: &[u8]) -> Result<Vec<String>, String> {
        let mut bootstrap = bootstrap();
        bootstrap
            .feed(output)
            .map_err(|failure| failure.to_string())?;
        Ok(std::iter::from_fn(|| bootstrap.step())
            .map(|step| format!("{step:?}"))
            .collect())
    }

    #[test]
    fn the_script_is_safe_in_single_quotes_of_any_shell() {
        let script = script();
        for bad in ['\'', '\\', '!', '\n'] {
            assert!(!script.contains(bad), "{bad:?} in the script");
        }
        assert!(script.is_ascii());
    }

    #[test]
    fn noise_before_the_marker_is_skipped_also_without_a_newline() {
        let steps =
            outcome(b"Welcome!\nlast loginlinerate-0123 HAVE x86_64\nlinerate-0123 RUN\nhi");
        assert_eq!(steps.unwrap(), ["Have", "Run([104, 105])"]);
    }

    #[test]
    fn the_command_itself_contains_no_marker() {
        let bootstrap = bootstrap();
        let marker = bootstrap.halves.concat();
        assert!(!bootstrap.command_line().contains(&marker));
    }

    #[test]
    fn another_architecture_is_refused_before_anything_is_sent() {
        let message = outcome(b"linerate-0123 NEED aarch64 gzip /tmp\n").unwrap_err();
        assert_eq!(
            message,
            "the node is aarch64, this linerate is built for x86_64. Nothing was copied. Run a linerate that is built for aarch64 on the nodes"
        );
    }

    #[test]
    fn failures_are_told_apart() {
        let message =
            |line: &str| outcome(format!("linerate-0123 FAIL {line}\n").as_bytes()).unwrap_err();
        assert_eq!(
            message("tool sha256sum"),
            "the node has no sha256sum, which the bootstrap needs. Install the node's basic tools (coreutils or busybox)"
        );
        assert_eq!(
            message("write /c gzip: stdout: No space left on device"),
            "the disk is full on the node: /c could not take the agent (gzip: stdout: No space left on device). Nothing was left behind. Free space there, or name another directory (directory under [ssh] in the cluster file)"
        );
        assert_eq!(
            message("digest /c"),
            "the copy in /c on the node differs from what was sent (SHA-256); it was removed and not run. Check the node's disk and memory"
        );
        assert!(message("wat \x1b[2J").starts_with("the bootstrap answered with something"));
    }

    #[test]
    fn endless_noise_is_refused() {
        let message = outcome(&vec![b'y'; NOISE_LIMIT + 1]).unwrap_err();
        assert!(message.starts_with("the login shell printed more than 65536 bytes before"));
        assert!(outcome(&vec![b'y'; NOISE_LIMIT]).unwrap().is_empty());
    }

    #[test]
    fn arguments_that_a_shell_could_misread_are_refused() {
        let payload = Payload::from_file(Path::new("/dev/null"), &["a;b"]).unwrap();
        let message = Bootstrap::new(&payload).err().unwrap().to_string();
        assert!(message.starts_with("argument \"a;b\" cannot be passed to a node's shell safely"));
    }

    proptest! {
        #[test]
        fn how_the_output_is_cut_into_reads_does_not_matter(noise in "[a-z\n-]{0,40}", cut in 0usize..120) {
            let all = format!("{noise}linerate-0123 NEED x86_64 raw /d\nlinerate-0123 RUN\ntail");
            let cut = cut.min(all.len());
            let mut bootstrap = bootstrap();
            bootstrap.feed(&all.as_bytes()[..cut]).unwrap();
            let mut rest = all.as_bytes()[cut..].to_vec();
            if !bootstrap.is_running() {
                bootstrap.feed(&rest).unwrap();
                rest.clear();
            }
            prop_assert!(matches!(bootstrap.step(), Some(Step::Need(Encoding::Raw))));
            let Some(Step::Run(mut first)) = bootstrap.step() else { panic!("no run") };
            first.extend(rest);
            prop_assert_eq!(first, b"tail");
        }

        #[test]
        fn no_output_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), line in "[ -~]{0,60}") {
            let mut bootstrap = bootstrap();
            let _ = bootstrap.feed(&bytes);
            let _ = bootstrap.feed(format!("linerate-0123 {line}\n").as_bytes());
        }
    }
}
