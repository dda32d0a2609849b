//! Cycles and instructions of a thread, where the kernel lets them be counted.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

use crate::model::{Cycles, Fact};

/// Counters that run, or why there are none.
pub(super) struct Counting(Result<[Counter; 2], String>);

impl Counting {
    /// Begins to count cycles and instructions of the calling thread, in user and kernel mode.
    pub fn start() -> Self {
        let both = start(Hardware::CPU_CYCLES)
            .and_then(|cycles| Ok([cycles, start(Hardware::INSTRUCTIONS)?]));
        Self(both.map_err(|error| format!("perf_event_open: {error}")))
    }

    /// What was counted so far.
    pub fn read(&mut self) -> Fact<Cycles> {
        let counters = match &mut self.0 {
            Ok(counters) => counters,
            Err(why) => return Fact::unknown(why.as_str()),
        };
        match counters.each_mut().map(read) {
            [Ok(cycles), Ok(instructions)] => {
                let value = Cycles {
                    cycles,
                    instructions,
                };
                Fact::known(value, "perf_event_open")
            }
            [Err(why), _] | [_, Err(why)] => Fact::unknown(why),
        }
    }
}

fn start(event: Hardware) -> std::io::Result<Counter> {
    let mut counter = Builder::new(event).include_kernel().build()?;
    counter.enable()?;
    Ok(counter)
}

fn read(counter: &mut Counter) -> Result<u64, String> {
    let data = counter.read_full();
    let data = data.map_err(|error| format!("a counter of perf_event_open: {error}"))?;
    match (data.time_enabled(), data.time_running()) {
        (Some(enabled), Some(running)) if running < enabled => {
            Err("other users of the processor's counters took turns with this probe".into())
        }
        _ => Ok(data.count()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_or_it_is_said_why_not() {
        let mut counting = Counting::start();
        (0..100_000).for_each(|_| std::hint::spin_loop());
        match counting.read() {
            Fact::Known { value, .. } => assert!(value.instructions >= 100_000, "{value:?}"),
            Fact::Unknown { why } => assert!(!why.is_empty()),
        }
    }
}
