//! CPU time that a transfer cost: of the threads that drive it, and of the whole host.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use procfs::{CurrentSI, KernelStats};

use crate::model::{CpuUse, Cycles, Fact, HostCpu, IdleCpu};

use super::cycles::Counting;
use super::error::ProbeError;
use super::meter::micros;

/// How long the host is watched before a transfer: /proc/stat counts in ticks of 10 ms.
const REST: Duration = Duration::from_millis(400);
/// The longest sleep between two looks at the stop flag.
const SLICE: Duration = Duration::from_millis(50);

/// The CPU time of the calling thread up to a moment, and its cycles from then on.
pub(super) struct ThreadClock {
    user_us: u64,
    system_us: u64,
    counting: Option<Counting>,
}

/// What threads spent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ThreadUse {
    user_us: u64,
    system_us: u64,
    cycles: Fact<Cycles>,
}

impl ThreadClock {
    /// The clock of the calling thread; cycles are counted where `count`.
    pub fn start(count: bool) -> Result<Self, ProbeError> {
        let counting = count.then(Counting::start);
        let (user_us, system_us) = thread_time()?;
        Ok(Self {
            user_us,
            system_us,
            counting,
        })
    }

    /// What was spent so far; to be called on the thread that `self` was made on. The kernel lets
    /// neither time of a thread go back (cputime_adjust in kernel/sched/cputime.c).
    pub fn read(&mut self) -> Result<ThreadUse, ProbeError> {
        let (user_us, system_us) = thread_time()?;
        Ok(ThreadUse {
            user_us: user_us.saturating_sub(self.user_us),
            system_us: system_us.saturating_sub(self.system_us),
            cycles: match &mut self.counting {
                Some(counting) => counting.read(),
                None => Fact::default(),
            },
        })
    }
}

impl ThreadUse {
    /// That of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            user_us: self.user_us.saturating_add(other.user_us),
            system_us: self.system_us.saturating_add(other.system_us),
            cycles: both(self.cycles, other.cycles),
        }
    }
}

/// The cycles of both, where both are known.
fn both(one: Fact<Cycles>, other: Fact<Cycles>) -> Fact<Cycles> {
    match (one, other) {
        (Fact::Known { value: one, from }, Fact::Known { value: other, .. }) => Fact::Known {
            value: Cycles {
                cycles: one.cycles.saturating_add(other.cycles),
                instructions: one.instructions.saturating_add(other.instructions),
            },
            from,
        },
        (unknown @ Fact::Unknown { .. }, _) | (_, unknown) => unknown,
    }
}

fn thread_time() -> Result<(u64, u64), ProbeError> {
    let thread = getrusage(UsageWho::RUSAGE_THREAD).map_err(ProbeError::CpuTime)?;
    Ok((
        micros(of(thread.user_time())),
        micros(of(thread.system_time())),
    ))
}

fn of(time: TimeVal) -> Duration {
    // CPU time is never negative.
    Duration::from_micros(u64::try_from(time.num_microseconds()).unwrap_or(0))
}

/// The CPU time of the host at a moment.
#[derive(Debug, Clone)]
pub(super) struct HostClock {
    at: Instant,
    host: Fact<HostCpu>,
}

/// What the host spent over a time.
#[derive(Debug, Clone)]
pub(super) struct HostUse {
    elapsed: Duration,
    host: Fact<HostCpu>,
}

impl HostClock {
    /// Now.
    pub fn now() -> Self {
        Self {
            host: host_cpu(),
            at: Instant::now(),
        }
    }

    /// From this moment to a later one.
    pub fn until(&self, end: &Self) -> HostUse {
        let host = match (&self.host, &end.host) {
            (Fact::Known { value: start, .. }, Fact::Known { value: end, from }) => {
                match since(start, end) {
                    Ok(spent) => Fact::known(spent, from.clone()),
                    Err(why) => Fact::unknown(why),
                }
            }
            (unknown @ Fact::Unknown { .. }, _) | (_, unknown) => unknown.clone(),
        };
        HostUse {
            elapsed: end.at.saturating_duration_since(self.at),
            host,
        }
    }

    /// The later of two.
    pub fn later(self, other: Self) -> Self {
        if other.at > self.at { other } else { self }
    }
}

/// What the host spends while the probe is still, watched for 400 ms; less where `stop` is set.
pub(super) fn rest(stop: &AtomicBool) -> Fact<IdleCpu> {
    let began = HostClock::now();
    while began.at.elapsed() < REST && !stop.load(Ordering::Relaxed) {
        sleep(SLICE.min(REST.saturating_sub(began.at.elapsed())));
    }
    let spent = began.until(&HostClock::now());
    let elapsed_us = micros(spent.elapsed);
    spent.host.map(|host| IdleCpu { elapsed_us, host })
}

/// Puts together what is known of an end.
pub(super) fn cpu_use(threads: ThreadUse, host: HostUse, idle: Fact<IdleCpu>) -> CpuUse {
    CpuUse {
        user_us: threads.user_us,
        system_us: threads.system_us,
        host: host.host,
        elapsed_us: Fact::known(micros(host.elapsed), "CLOCK_MONOTONIC"),
        idle,
        cycles: threads.cycles,
    }
}

/// The CPU time between two readings, or which of its clocks went back.
fn since(start: &HostCpu, end: &HostCpu) -> Result<HostCpu, String> {
    let spent = |what: &str, start: u64, end: u64| {
        let back = || format!("the {what} time of /proc/stat went back while it was measured");
        end.checked_sub(start).ok_or_else(back)
    };
    Ok(HostCpu {
        user_us: spent("user", start.user_us, end.user_us)?,
        system_us: spent("system", start.system_us, end.system_us)?,
        softirq_us: spent("softirq", start.softirq_us, end.softirq_us)?,
        irq_us: match (start.irq_us, end.irq_us) {
            (Some(start), Some(end)) => Some(spent("irq", start, end)?),
            _ => None,
        },
    })
}

fn host_cpu() -> Fact<HostCpu> {
    let total = match KernelStats::current() {
        Ok(stats) => stats.total,
        Err(error) => return Fact::unknown(format!("cannot read /proc/stat: {error}")),
    };
    let Some(softirq_ms) = total.softirq_ms() else {
        return Fact::unknown("/proc/stat of this kernel has no softirq time");
    };
    let us = |ms: u64| ms.saturating_mul(1000);
    let value = HostCpu {
        user_us: us(total.user_ms().saturating_add(total.nice_ms())),
        system_us: us(total.system_ms()),
        softirq_us: us(softirq_ms),
        irq_us: total.irq_ms().map(us),
    };
    Fact::known(value, "/proc/stat")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What this thread spent while it did that, all of it.
    fn spent(work: impl FnOnce()) -> CpuUse {
        let (host, mut thread) = (HostClock::now(), ThreadClock::start(false).unwrap());
        work();
        let host = host.until(&HostClock::now());
        cpu_use(thread.read().unwrap(), host, Fact::default())
    }

    #[test]
    fn a_busy_thread_is_charged_and_a_sleeping_one_is_not() {
        let spun = spent(|| {
            let mut clock = ThreadClock::start(false).unwrap();
            while clock.read().unwrap().user_us < 30_000 {
                (0..10_000).for_each(|_| std::hint::spin_loop());
            }
        });
        let slept = spent(|| sleep(Duration::from_millis(60)));
        let total = |cpu: &CpuUse| cpu.user_us + cpu.system_us;
        assert!(total(&spun) >= 30_000, "{spun:?}");
        assert!(total(&spun) > 2 * total(&slept), "{spun:?} {slept:?}");
        assert!(*slept.elapsed_us.value().unwrap() >= 60_000, "{slept:?}");
        assert!(
            spun.host.value().unwrap().irq_us.is_some(),
            "{:?}",
            spun.host
        );
    }

    #[test]
    fn the_host_is_watched_at_rest_until_it_is_told_to_stop() {
        let idle = *rest(&AtomicBool::new(false)).value().unwrap();
        assert!(idle.elapsed_us >= 400_000, "{idle:?}");
        let stopped = rest(&AtomicBool::new(true));
        assert!(stopped.value().unwrap().elapsed_us < idle.elapsed_us);
    }

    fn host() -> impl Strategy<Value = HostCpu> {
        let time = 0u64..1 << 50;
        (
            time.clone(),
            time.clone(),
            time.clone(),
            prop::option::of(time),
        )
            .prop_map(|(user_us, system_us, softirq_us, irq_us)| HostCpu {
                user_us,
                system_us,
                softirq_us,
                irq_us,
            })
    }

    proptest! {
        #[test]
        fn clocks_that_go_back_are_no_zeros(start in host(), end in host()) {
            let pairs = [
                (start.user_us, end.user_us),
                (start.system_us, end.system_us),
                (start.softirq_us, end.softirq_us),
                (start.irq_us.unwrap_or(0), end.irq_us.filter(|_| start.irq_us.is_some()).unwrap_or(u64::MAX)),
            ];
            let back = pairs.iter().any(|(start, end)| end < start);
            match since(&start, &end) {
                Ok(spent) => {
                    prop_assert!(!back);
                    prop_assert_eq!(spent.user_us + start.user_us, end.user_us);
                    prop_assert_eq!(spent.irq_us.is_some(), start.irq_us.is_some() && end.irq_us.is_some());
                }
                Err(why) => prop_assert!(back && why.contains("went back"), "{}", why),
            }
        }

        #[test]
        fn nothing_is_lost_when_threads_are_added_up(
            one in (any::<u64>(), any::<u64>()), other in (any::<u64>(), any::<u64>()),
        ) {
            let thread = |(user_us, system_us): (u64, u64), cycles| ThreadUse { user_us, system_us, cycles };
            let cycles = |cycles, instructions| Fact::known(Cycles { cycles, instructions }, "perf");
            let sum = thread(one, cycles(one.0, one.1)).plus(thread(other, cycles(other.0, other.1)));
            prop_assert_eq!(sum.user_us, one.0.saturating_add(other.0));
            prop_assert_eq!(sum.cycles.value().unwrap().instructions, one.1.saturating_add(other.1));
            let unknown = thread(one, Fact::unknown("none")).plus(thread(other, cycles(1, 1)));
            prop_assert_eq!(unknown.cycles.why_unknown(), Some("none"));
        }
    }
}
