//! CPU time that one end of a transfer cost, and what follows from it. What a node says may be anything:
//! whatever cannot be divided by is unknown, and no number here is infinite.

use crate::model::{CpuUse, Fact, Gbps, HostCpu};

/// /proc/stat counts ticks of 10 ms. Of each of four counters up to one tick is missing at either end.
const NOISE_US: f64 = 4.0 * 10_000.0;

/// From so many busy cores on, a host is said to carry other load.
const BUSY: f64 = 0.25;

/// Below so many microseconds, nothing can be divided by.
const LEAST_US: f64 = 0.5;

/// More than any host has, so that a broken counter is noticed.
const MAX_CORES: f64 = 65_536.0;

/// What one end spent on a transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct EndCost {
    /// Bytes that were moved meanwhile, warm-up included.
    pub bytes: u64,
    /// User time of the threads that drove this end, in microseconds.
    pub user_us: u64,
    /// System time of those threads, in microseconds.
    pub system_us: u64,
    /// What the kernel spent beside these threads, in software interrupts, interrupts and threads of its
    /// own, in microseconds: what the whole host spent, less the threads, less what it spends idle.
    pub beside_us: Fact<f64>,
    /// By how much that may be wrong, in microseconds.
    pub noise_us: f64,
    /// Cores that the host had busy before, while this probe was still.
    pub idle_cores: Fact<f64>,
}

impl EndCost {
    /// Of the CPU time over a transfer of so many bytes; `None` where nothing was moved. Where the node
    /// does not say over how long that was, it is `span_us`.
    pub fn of(cpu: &CpuUse, bytes: u64, span_us: Option<f64>) -> Option<Self> {
        if bytes == 0 {
            return None;
        }
        let told = cpu.elapsed_us.value().map(|us| *us as f64);
        let elapsed = told.or(span_us).filter(|us| *us > 0.0);
        let idle_cores = idle_cores(cpu);
        let noise_us = match (cpu.idle.value(), elapsed) {
            (Some(idle), Some(elapsed)) if idle.elapsed_us > 0 => {
                NOISE_US * (1.0 + elapsed / idle.elapsed_us as f64)
            }
            _ => NOISE_US,
        };
        Some(Self {
            bytes,
            user_us: cpu.user_us,
            system_us: cpu.system_us,
            beside_us: beside(cpu, &idle_cores, elapsed),
            noise_us,
            idle_cores,
        })
    }

    /// What was spent in all, in microseconds; without what the kernel spent beside the threads where
    /// that is unknown.
    pub fn spent_us(&self) -> f64 {
        let threads = self.user_us as f64 + self.system_us as f64;
        threads + self.beside_us.value().copied().unwrap_or(0.0)
    }

    /// Whether all that was spent is known; else it is at least that.
    pub fn is_whole(&self) -> bool {
        self.beside_us.value().is_some()
    }

    /// Whether a tenth of what was spent, or more, is within what ticks can tell. What is next to
    /// nothing may be told as that.
    pub fn is_noisy(&self) -> bool {
        self.is_whole() && self.noise_us > 0.1 * self.spent_us()
    }

    /// Whether no more was spent than ticks may miss: next to nothing, or hidden in them. Then its
    /// numbers are those of [`Self::at_most`], and it took less.
    pub fn is_hidden(&self) -> bool {
        self.is_whole() && self.spent_us() < self.noise_us
    }

    /// The same end, had it spent all that ticks may have missed as well.
    pub fn at_most(&self) -> Self {
        let missed = |beside: f64| beside + self.noise_us;
        Self {
            beside_us: self.beside_us.clone().map(missed),
            ..self.clone()
        }
    }

    /// Whether nothing is known of it: its threads slept, and what the kernel spent beside them is
    /// unknown.
    pub fn is_unknown(&self) -> bool {
        !self.is_whole() && self.spent_us() < LEAST_US
    }

    /// Whether the host carried other load.
    pub fn is_busy(&self) -> bool {
        self.idle_cores.value().is_some_and(|cores| *cores > BUSY)
    }

    /// CPU time for each KiB, in nanoseconds.
    pub fn ns_per_kib(&self) -> f64 {
        self.spent_us() * 1e3 * 1024.0 / self.bytes as f64
    }

    /// What one core carries; `None` where next to nothing was spent.
    pub fn per_core(&self) -> Option<Gbps> {
        let spent = self.spent_us();
        (spent >= LEAST_US).then(|| Gbps(self.bytes as f64 * 8.0 / (spent * 1e3)))
    }

    /// The cores that a rate takes; `None` where that is no rate.
    pub fn cores_for(&self, rate: Gbps) -> Option<f64> {
        // One Gb/s is 1000 bits in a microsecond.
        let per_gbps = self.spent_us() * 1e3 / (self.bytes as f64 * 8.0);
        rate.is_positive().then_some(per_gbps * rate.0)
    }
}

fn total(host: &HostCpu) -> f64 {
    let HostCpu {
        user_us,
        system_us,
        softirq_us,
        irq_us,
    } = host;
    let irq = irq_us.unwrap_or(0);
    [*user_us, *system_us, *softirq_us, irq]
        .into_iter()
        .map(|us| us as f64)
        .sum()
}

fn idle_cores(cpu: &CpuUse) -> Fact<f64> {
    let Fact::Known { value: idle, from } = &cpu.idle else {
        let why = cpu.idle.why_unknown().unwrap_or_default();
        return Fact::unknown(why);
    };
    if idle.elapsed_us == 0 {
        return Fact::unknown("the look at the idle host took no time");
    }
    let cores = total(&idle.host) / idle.elapsed_us as f64;
    match cores <= MAX_CORES {
        true => Fact::known(cores, from.clone()),
        false => Fact::unknown("the idle host spent more than any host can"),
    }
}

/// The whole host less the threads less the idle host.
fn beside(cpu: &CpuUse, idle_cores: &Fact<f64>, elapsed_us: Option<f64>) -> Fact<f64> {
    let Fact::Known { value: host, from } = &cpu.host else {
        let why = cpu.host.why_unknown().unwrap_or_default();
        return Fact::unknown(why);
    };
    let Some(idle_cores) = idle_cores.value() else {
        return Fact::unknown(idle_cores.why_unknown().unwrap_or_default());
    };
    let Some(elapsed_us) = elapsed_us else {
        return Fact::unknown("over how long the CPU time was counted is not known");
    };
    let (host, threads) = (total(host), cpu.user_us as f64 + cpu.system_us as f64);
    if host + NOISE_US < threads {
        return Fact::unknown(
            "the host's counters say less than its threads took: ticks were missed, or they were reset",
        );
    }
    if host > MAX_CORES * elapsed_us + NOISE_US {
        return Fact::unknown("the host's counters say more than any host can spend");
    }
    let beside = host - threads - idle_cores * elapsed_us;
    Fact::known(beside.max(0.0), from.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::IdleCpu;

    fn host(user_us: u64, softirq_us: u64) -> HostCpu {
        HostCpu {
            user_us,
            system_us: 0,
            softirq_us,
            irq_us: None,
        }
    }

    /// A second, of which the threads took 0.3 s and software interrupts 0.5 s.
    fn cpu() -> CpuUse {
        let idle = IdleCpu {
            elapsed_us: 500_000,
            host: host(50_000, 0),
        };
        CpuUse {
            user_us: 100_000,
            system_us: 200_000,
            host: Fact::known(host(400_000, 500_000), "/proc/stat"),
            elapsed_us: Fact::known(1_000_000, "test"),
            idle: Fact::known(idle, "/proc/stat"),
            cycles: Fact::default(),
        }
    }

    #[test]
    fn what_the_host_spends_idle_is_no_cost() {
        // 10 Gb.
        let cost = EndCost::of(&cpu(), 1_250_000_000, None).unwrap();
        // 0.9 s of the host, 0.3 s of the threads, 0.1 s idle.
        assert!((cost.beside_us.value().unwrap() - 500_000.0).abs() < 1e-6);
        assert!((cost.spent_us() - 800_000.0).abs() < 1e-6);
        assert!((cost.per_core().unwrap().0 - 12.5).abs() < 1e-9);
        assert!((cost.cores_for(Gbps(100.0)).unwrap() - 8.0).abs() < 1e-9);
        assert!((cost.ns_per_kib() - 655.36).abs() < 1e-6);
        assert!(cost.is_whole() && !cost.is_busy() && cost.noise_us == 120_000.0);
        assert!(cost.is_noisy(), "0.12 s of 0.8 s");
    }

    #[test]
    fn what_is_not_known_stays_unknown() {
        let unknown = CpuUse {
            idle: Fact::unknown("it was not looked at"),
            ..cpu()
        };
        let cost = EndCost::of(&unknown, 1, None).unwrap();
        assert_eq!(cost.beside_us.why_unknown(), Some("it was not looked at"));
        assert!(!cost.is_whole() && cost.spent_us() == 300_000.0);
        let reset = CpuUse {
            host: Fact::known(host(1000, 0), "/proc/stat"),
            ..cpu()
        };
        let cost = EndCost::of(&reset, 1, None).unwrap();
        assert!(cost.beside_us.why_unknown().unwrap().contains("were reset"));
        let still = IdleCpu {
            elapsed_us: 0,
            host: host(0, 0),
        };
        let still = CpuUse {
            idle: Fact::known(still, "test"),
            ..cpu()
        };
        assert!(!EndCost::of(&still, 1, None).unwrap().is_whole());
        let no_time = CpuUse {
            elapsed_us: Fact::unknown("an older agent"),
            ..cpu()
        };
        assert!(!EndCost::of(&no_time, 1, None).unwrap().is_whole());
        assert!(EndCost::of(&no_time, 1, Some(1e6)).unwrap().is_whole());
        assert_eq!(EndCost::of(&cpu(), 0, None), None);
    }

    #[test]
    fn what_ticks_may_miss_is_no_zero() {
        // The threads took 20 ms, and the host not a tick more than it does idle.
        let still = CpuUse {
            user_us: 20_000,
            system_us: 0,
            host: Fact::known(host(120_000, 0), "/proc/stat"),
            ..cpu()
        };
        let cost = EndCost::of(&still, 1_250_000_000, None).unwrap();
        assert!(cost.is_hidden() && cost.is_noisy() && !cost.is_unknown());
        let most = cost.at_most();
        // 20 ms and four ticks at each end, as of the look at the idle host.
        assert_eq!(most.spent_us(), 140_000.0);
        assert!((most.cores_for(Gbps(100.0)).unwrap() - 1.4).abs() < 1e-9);
        assert!(!EndCost::of(&cpu(), 1, None).unwrap().is_hidden());
        // Of a thread that slept on a host that says nothing there is no number at all.
        let silent = CpuUse {
            user_us: 0,
            system_us: 0,
            host: Fact::unknown("not read"),
            ..cpu()
        };
        let cost = EndCost::of(&silent, 1, None).unwrap();
        assert!(cost.is_unknown() && !cost.is_hidden());
    }

    #[test]
    fn other_load_is_told() {
        let idle = IdleCpu {
            elapsed_us: 100_000,
            host: host(200_000, 0),
        };
        let busy = CpuUse {
            idle: Fact::known(idle, "test"),
            ..cpu()
        };
        let cost = EndCost::of(&busy, 1, None).unwrap();
        assert!(cost.is_busy());
        assert_eq!(cost.beside_us.value(), Some(&0.0));
    }

    fn any_host() -> impl Strategy<Value = HostCpu> {
        let irq = proptest::option::of(any::<u64>());
        (any::<[u64; 3]>(), irq).prop_map(|([user_us, system_us, softirq_us], irq_us)| HostCpu {
            user_us,
            system_us,
            softirq_us,
            irq_us,
        })
    }

    proptest! {
        #[test]
        fn whatever_a_node_says_every_number_is_one(
            [user_us, system_us, elapsed, idle_elapsed, bytes] in any::<[u64; 5]>(),
            during in any_host(),
            before in any_host(),
            span in proptest::num::f64::ANY,
            rate in proptest::num::f64::ANY,
        ) {
            let idle = IdleCpu { elapsed_us: idle_elapsed, host: before };
            let cpu = CpuUse {
                user_us,
                system_us,
                host: Fact::known(during, "test"),
                elapsed_us: Fact::known(elapsed, "test"),
                idle: Fact::known(idle, "test"),
                cycles: Fact::default(),
            };
            let Some(cost) = EndCost::of(&cpu, bytes, Some(span)) else {
                prop_assert_eq!(bytes, 0);
                return Ok(());
            };
            let numbers = [cost.spent_us(), cost.ns_per_kib(), cost.noise_us];
            prop_assert!(numbers.iter().all(|n| n.is_finite() && *n >= 0.0), "{:?}", numbers);
            prop_assert!(cost.per_core().is_none_or(Gbps::is_positive));
            // A rate near the end of what an f64 holds is nobody's.
            let cores = cost.cores_for(Gbps(rate.clamp(-1e12, 1e12)));
            prop_assert!(cores.is_none_or(|cores| cores.is_finite() && cores >= 0.0));
        }

        #[test]
        fn what_is_hidden_is_bounded_by_more_than_was_counted(
            threads in 0u64..1 << 34, softirq in 0u64..1 << 34, bytes in 1u64..1 << 40,
        ) {
            let host = host(threads + 100_000, softirq);
            let cpu = CpuUse { user_us: threads, system_us: 0, host: Fact::known(host, "test"), ..cpu() };
            let cost = EndCost::of(&cpu, bytes, None).unwrap();
            let most = cost.at_most();
            prop_assert!(most.ns_per_kib() > cost.ns_per_kib());
            prop_assert!(most.per_core() < cost.per_core() || cost.per_core().is_none());
            prop_assert_eq!(cost.is_hidden(), cost.spent_us() < cost.noise_us);
            // Nothing that is told apart from nothing is told as less than that.
            prop_assert!(!cost.is_hidden() || cost.is_noisy());
        }

        #[test]
        fn host_counters_that_were_reset_make_no_number(
            threads in 1_000_000u64..1 << 40, lost in 50_000u64..1_000_000, bytes in 1u64..1 << 40,
        ) {
            let host = host(threads - lost, 0);
            let cpu = CpuUse { user_us: threads, system_us: 0, host: Fact::known(host, "test"), ..cpu() };
            let cost = EndCost::of(&cpu, bytes, None).unwrap();
            prop_assert!(!cost.is_whole() && !cost.is_hidden());
            prop_assert_eq!(cost.spent_us(), threads as f64);
        }

        #[test]
        fn twice_the_bytes_cost_half_of_it_each(bytes in 1u64..1 << 40, us in 1u64..1 << 40) {
            let cpu = CpuUse { user_us: us, system_us: 0, ..cpu() };
            let cpu = CpuUse { idle: Fact::unknown("test"), ..cpu };
            let [one, two] = [bytes, 2 * bytes].map(|bytes| EndCost::of(&cpu, bytes, None).unwrap());
            let ratio = one.ns_per_kib() / two.ns_per_kib();
            prop_assert!((ratio - 2.0).abs() < 1e-9);
            // Gb/s per core and cores for 100 Gb/s are one number.
            let product = one.per_core().unwrap().0 * one.cores_for(Gbps(100.0)).unwrap();
            prop_assert!((product - 100.0).abs() < 1e-6);
            // A byte takes 8 bits: so many nanoseconds per KiB are so many Gb/s.
            let by_kib = 8192.0 / one.ns_per_kib();
            prop_assert!((by_kib / one.per_core().unwrap().0 - 1.0).abs() < 1e-9);
        }
    }
}
