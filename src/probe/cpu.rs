//! CPU time that a transfer cost: of the thread that drives it, and of the whole host.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use procfs::{CurrentSI, KernelStats};

use crate::model::{CpuUse, Fact, HostCpu};

use super::error::ProbeError;

/// CPU time up to a moment.
pub(super) struct CpuClock {
    user_us: u64,
    system_us: u64,
    host: Fact<HostCpu>,
}

impl CpuClock {
    /// The clocks now, of the calling thread and the host.
    pub fn now() -> Result<Self, ProbeError> {
        let thread = getrusage(UsageWho::RUSAGE_THREAD).map_err(ProbeError::CpuTime)?;
        Ok(Self {
            user_us: micros(thread.user_time()),
            system_us: micros(thread.system_time()),
            host: host_cpu(),
        })
    }

    /// What was spent since; to be called on the thread that `self` was made on.
    pub fn elapsed(self) -> Result<CpuUse, ProbeError> {
        let end = Self::now()?;
        Ok(CpuUse {
            user_us: end.user_us.saturating_sub(self.user_us),
            system_us: end.system_us.saturating_sub(self.system_us),
            host: match self.host {
                Fact::Known { value: start, .. } => end.host.map(|end| since(start, end)),
                unknown => unknown,
            },
            elapsed_us: Fact::default(),
            idle: Fact::default(),
            cycles: Fact::default(),
        })
    }
}

fn micros(time: TimeVal) -> u64 {
    // CPU time is never negative.
    u64::try_from(time.num_microseconds()).unwrap_or(0)
}

fn since(start: HostCpu, end: HostCpu) -> HostCpu {
    HostCpu {
        user_us: end.user_us.saturating_sub(start.user_us),
        system_us: end.system_us.saturating_sub(start.system_us),
        softirq_us: end.softirq_us.saturating_sub(start.softirq_us),
        irq_us: None,
    }
}

fn host_cpu() -> Fact<HostCpu> {
    let total = match KernelStats::current() {
        Ok(stats) => stats.total,
        Err(error) => return Fact::unknown(format!("cannot read /proc/stat: {error}")),
    };
    let Some(softirq_ms) = total.softirq_ms() else {
        return Fact::unknown("/proc/stat of this kernel has no softirq time");
    };
    let value = HostCpu {
        user_us: (total.user_ms() + total.nice_ms()) * 1000,
        system_us: total.system_ms() * 1000,
        softirq_us: softirq_ms * 1000,
        irq_us: None,
    };
    Fact::known(value, "/proc/stat")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_busy_thread_is_charged_and_a_sleeping_one_is_not() {
        let spun = CpuClock::now().expect("a clock");
        let end = Instant::now() + Duration::from_millis(60);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let spun = spun.elapsed().expect("a clock");
        let slept = CpuClock::now().expect("a clock");
        std::thread::sleep(Duration::from_millis(60));
        let slept = slept.elapsed().expect("a clock");
        let total = |cpu: &CpuUse| cpu.user_us + cpu.system_us;
        assert!(total(&spun) > 2 * total(&slept), "{spun:?} {slept:?}");
        assert!(spun.host.value().is_some(), "{:?}", spun.host);
    }
}
