//! Faults of a machine as a whole: what its rails share, and whether it runs at all. They take effect at
//! once.

use std::fmt;
use std::time::Duration;

use crate::rate::Rate;

/// The longest that a fault which ends by itself lasts.
const LONGEST: Duration = Duration::from_secs(600);

/// What is wrong with a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MachineHarm {
    /// All its rails together send no more than this, and receive no more than this.
    Shared(Rate),
    /// It stands still for so long, then goes on. Its clocks do not stand still: to its programs a moment
    /// passes in which the clock jumps.
    Pause(Duration),
}

impl MachineHarm {
    /// Reads what follows the node's name; `None` where no such harm is called `kind`.
    pub(crate) fn parse(kind: &str, rest: &[&str]) -> Option<Result<MachineHarm, String>> {
        let harm = match (kind, rest) {
            ("shared", [rate]) => rate
                .parse()
                .map(MachineHarm::Shared)
                .map_err(|e| format!("{e}")),
            ("shared", _) => Err("write shared:NODE:RATE".into()),
            ("pause", [seconds]) => parse_seconds(seconds).map(MachineHarm::Pause),
            ("pause", _) => Err("write pause:NODE:SECONDS".into()),
            _ => return None,
        };
        Some(harm)
    }

    /// As it is written, the node's name in the middle.
    pub(crate) fn write(self, node: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MachineHarm::Shared(rate) => write!(f, "shared:{node}:{rate}"),
            MachineHarm::Pause(time) => write!(f, "pause:{node}:{}s", time.as_secs_f64()),
        }
    }
}

/// How long a fault lasts that ends by itself: `10`, `10s` or `0.5s`.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse::<f64>();
    let time = number
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero() && *time <= LONGEST)
        .ok_or_else(|| {
            format!(
                "`{text}` is not a time: write seconds, such as 2s, at most {}s",
                LONGEST.as_secs()
            )
        })
}

#[cfg(test)]
mod tests {
    use crate::fault::{Fault, Harm};

    #[test]
    fn every_kind_is_read_and_written_back() {
        for (text, written) in [
            ("shared:node02:16mbit", "shared:node02:16mbit"),
            ("pause:node01:10", "pause:node01:10s"),
            ("pause:node01:0.5s", "pause:node01:0.5s"),
        ] {
            let fault: Fault = text.parse().unwrap();
            assert!(matches!(fault.harm, Harm::Machine(_)), "{fault:?}");
            assert_eq!(fault.to_string(), written);
            assert_eq!(written.parse::<Fault>().unwrap(), fault);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("shared:node01", "write shared:NODE:RATE"),
            ("shared:node01:0:16mbit", "write shared:NODE:RATE"),
            ("shared:node01:fast", "not a rate"),
            ("pause:node01", "write pause:NODE:SECONDS"),
            ("pause:node01:0", "not a time"),
            ("pause:node01:-1", "not a time"),
            ("pause:node01:601", "at most 600s"),
            ("pause:node01:NaN", "not a time"),
            ("pause:node01:1e300s", "not a time"),
        ] {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
