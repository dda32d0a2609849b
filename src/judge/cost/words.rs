//! What was measured of a pair, in sentences.

use super::{Crossover, EndCost, PairCost, StepCost};
use crate::model::{CostStep, Gbps};

impl PairCost<'_> {
    /// What is to be said of it, a sentence each.
    pub fn says(&self) -> Vec<String> {
        if self.is_software {
            return vec![
                "One of these NICs is software RDMA: the kernel does what a NIC would do, so that what RDMA \
                 costs here means nothing, and nothing is said of what it saves."
                    .to_owned(),
            ];
        }
        let all = [
            self.per_core(),
            self.fill(),
            self.apart(),
            self.one_sided(),
            self.worth_it(),
        ];
        all.into_iter().flatten().collect()
    }

    /// The way that carries most by TCP, of those that were measured with one connection.
    fn tcp(&self) -> Option<&StepCost<'_>> {
        self.step(CostStep::Tcp)
            .or_else(|| self.step(CostStep::TcpStreams))
    }

    fn per_core(&self) -> Option<String> {
        let [tcp, write] = [self.tcp()?, self.step(CostStep::Write)?];
        let rate = |step: &StepCost<'_>| {
            let end = step.ends[0].as_ref()?;
            match end.is_hidden() {
                true => Some(format!("more than {}", end.at_most().per_core()?)),
                false => Some(end.per_core()?.to_string()),
            }
        };
        Some(format!(
            "One core of {} sends {} by TCP and {} by RDMA writes.",
            self.pair.from.node,
            rate(tcp)?,
            rate(write)?
        ))
    }

    fn fill(&self) -> Option<String> {
        let line = *self.line.value()?;
        let [tcp, write] = [self.tcp()?, self.step(CostStep::Write)?];
        let cores = |step: &StepCost<'_>, end: usize| {
            let end = step.ends[end].as_ref().filter(|end| !end.is_unknown())?;
            match end.is_hidden() {
                true => Some(less_than(end.at_most().cores_for(line)?, "cores")),
                false => Some(in_cores(end.cores_for(line)?)),
            }
        };
        let both = |step: &StepCost<'_>| match (cores(step, 0), cores(step, 1)) {
            (Some(from), Some(to)) => {
                Some(format!("{from} at the sender and {to} at the receiver"))
            }
            (Some(from), None) => Some(format!("{from} at the sender")),
            (None, _) => None,
        };
        Some(format!(
            "Filling {line} takes {} by TCP; by RDMA writes, {}.",
            both(tcp)?,
            both(write)?
        ))
    }

    /// The two savings.
    fn apart(&self) -> Option<String> {
        let together = self.savings.together?;
        let named = self.savings.named();
        let known = named.iter().filter_map(|(name, saving)| {
            let share = saving.share()?;
            let percent = in_percent(share.abs());
            Some(match (share >= 0.0, saving.at_least) {
                (true, true) => format!("{name} saves at least {percent}"),
                (true, false) => format!("{name} saves {percent}"),
                (false, _) => format!("{name} takes {percent} more"),
            })
        });
        let known: Vec<String> = known.collect();
        let ends = match together.both_ends {
            true => "of both ends",
            false => "of the sender",
        };
        let share = in_percent(together.share()?.max(0.0));
        let least = if together.at_least { "at least " } else { "" };
        let all = format!(
            "RDMA saves {least}{share} of the CPU time {ends} that TCP takes for each byte"
        );
        Some(match known.is_empty() {
            true => format!("{all}."),
            false => format!("{all}; {}.", known.join(", ")),
        })
    }

    /// A target has no part in a write.
    fn one_sided(&self) -> Option<String> {
        let target = self.step(CostStep::Write)?.ends[1].as_ref()?;
        if target.is_unknown() {
            return None;
        }
        // A GB is 10^9 bytes, 8 Gb.
        let ms = |end: &EndCost| Some(end.cores_for(Gbps(8.0))? * 1e3);
        let told = match target.is_hidden() {
            true => less_than(ms(&target.at_most())?, "ms"),
            false => format!("{:.1} ms", ms(target)?.clamp(0.1, 999_999.0)),
        };
        Some(format!(
            "While it was written to, {} spent {told} of CPU time for each GB.",
            self.pair.to.node
        ))
    }

    fn worth_it(&self) -> Option<String> {
        match self.crossover() {
            Crossover::Everywhere => Some(
                "RDMA writes took less CPU time for each byte than TCP at every message size."
                    .into(),
            ),
            Crossover::From(size) => Some(format!(
                "From messages of {size} on RDMA writes took less CPU time for each byte than TCP; what is \
                 smaller, and comes seldom, may as well go over sockets."
            )),
            Crossover::Nowhere => Some(
                "At no message size did RDMA writes take less CPU time for each byte than TCP."
                    .into(),
            ),
            Crossover::Unknown => None,
        }
    }
}

/// `less than 0.2 cores`, rounded up to a tenth.
fn less_than(most: f64, of: &str) -> String {
    format!(
        "less than {:.1} {of}",
        ((most * 10.0).ceil() / 10.0).min(99_999.0)
    )
}

/// `3.2 cores`; what is next to nothing is said to be that.
fn in_cores(cores: f64) -> String {
    match cores {
        cores if cores < 0.05 => "less than 0.1 cores".to_owned(),
        cores if cores < 9.95 => format!("{cores:.1} cores"),
        cores => format!("{:.0} cores", cores.min(99_999.0)),
    }
}

/// Nearly all is not all: `99.6%`.
fn in_percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 99.0 && percent < 99.95 => format!("{percent:.1}%"),
        percent if percent >= 99.95 && share < 1.0 => "more than 99.9%".to_owned(),
        percent => format!("{:.0}%", percent.min(9999.0)),
    }
}
