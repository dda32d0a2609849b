//! From the keys of a check to what it demands.

mod lists;

use std::ops::Range;

use toml::Spanned;

use super::super::super::profile::{
    BandwidthDemand, Bounds, CountOf, CpuDemand, CpuEnds, Demand, GpuDirectWay, LatencyDemand,
    Memory, NumaDemand, Percentile, TextDemand, TextOf, Ways,
};
use super::super::super::typed::{Typed, TypedCheck};
use super::super::{Checker, Value};
use super::forms::{
    AMOUNT, CORES, Form, MEMLOCK, NUMA, PCIE, RATE, SHARE, TIME_NS, VERSION, WHOLE, WORD,
};
use super::kinds::Kind;
use crate::model::{Bytes, CostStep, Direction, GidType, LinkLayer};
use crate::topology::PathClass;

/// A check being read.
pub(super) struct Reader<'a, 'c> {
    pub(super) checker: &'a mut Checker<'c>,
    pub(super) kind: &'static Kind,
    /// Where the check is, and its name.
    pub(super) at: Range<usize>,
    pub(super) name: String,
}

impl Reader<'_, '_> {
    /// What the check demands; none where a problem was found.
    pub(super) fn demand(&mut self, typed: &mut TypedCheck) -> Option<Demand> {
        let kind = self.kind.name;
        Some(match kind {
            "nodes" => Demand::Count(CountOf::Nodes, self.bounds(typed, &WHOLE)?),
            "nics" => Demand::Count(CountOf::Nics, self.bounds(typed, &WHOLE)?),
            "gpus" => Demand::Count(CountOf::Gpus, self.bounds(typed, &WHOLE)?),
            "mtu" => Demand::Count(CountOf::Mtu, self.bounds(typed, &WHOLE)?),
            "link-width" => Demand::Count(CountOf::LinkWidth, self.bounds(typed, &WHOLE)?),
            "link-rate" => Demand::LinkRate(self.bounds(typed, &RATE)?),
            "gpu-model" | "gpu-driver" | "kernel" | "module" | "nic-model" | "nic-driver"
            | "firmware" => {
                let demand = self.text(typed);
                Demand::Text(self.text_of(typed)?, demand?)
            }
            "memlock" => Demand::Memlock(self.value(typed, &MEMLOCK)?),
            "pcie" => Demand::Pcie(self.value(typed, &PCIE)?),
            "numa" => Demand::Numa(match self.value(typed, &NUMA)? {
                Some(number) => NumaDemand::Is(number),
                None => NumaDemand::AsGpu,
            }),
            "link-layer" => Demand::LinkLayer(self.layer(typed)?),
            "gid-type" => self.gid_type(typed)?,
            "gpu-path" => Demand::GpuPath(self.path(typed)?),
            "gpudirect" => Demand::GpuDirect(self.gpu_direct(typed)?),
            "spread" => Demand::Spread(self.value(typed, &SHARE)?),
            "rails-together" => Demand::RailsTogether(self.value(typed, &SHARE)?),
            "bandwidth" => self.bandwidth(typed)?,
            "latency" => self.latency(typed)?,
            "cpu" => self.cpu(typed)?,
            "counters" => self.counters(typed)?,
            "findings" => self.findings(typed)?,
            _ => match typed.at_least {
                Some(_) => Demand::Coverage(self.value(typed, &SHARE)?),
                None => Demand::Coverage(1.0),
            },
        })
    }

    fn nothing_demanded(&mut self) {
        let message = format!("the check `{}` demands nothing", self.name);
        let example = self.kind.example;
        let problem = self.checker.absent(Some(self.at.clone()), message);
        problem.help(format!("write, for example: {example}"));
    }

    /// The only demand there is: `is`, `at_least` or `at_most`, whichever the kind takes.
    fn value<T>(&mut self, typed: &mut TypedCheck, form: &Form<T>) -> Option<T> {
        let keys = [
            ("is", typed.is.take()),
            ("at_least", typed.at_least.take()),
            ("at_most", typed.at_most.take()),
        ];
        let mut mine: Vec<_> = keys
            .into_iter()
            .filter(|(key, _)| self.kind.demands.contains(key))
            .filter_map(|(key, value)| Some((key, value?)))
            .collect();
        let Some((key, value)) = mine.pop() else {
            self.nothing_demanded();
            return None;
        };
        if let Some((other, _)) = mine.pop() {
            self.both(other, key, value.span());
            return None;
        }
        form.of(self.checker, key, &value)
    }

    fn both(&mut self, one: &str, other: &str, span: Range<usize>) {
        let message = format!("`{one}` and `{other}` exclude each other");
        let problem = self.checker.problem(Some(span), message);
        problem.help("leave one of them out, or write a second check");
    }

    fn bounds<T: PartialOrd + Clone>(
        &mut self,
        typed: &mut TypedCheck,
        form: &Form<T>,
    ) -> Option<Bounds<T>> {
        let [is, least, most] =
            [&mut typed.is, &mut typed.at_least, &mut typed.at_most].map(Option::take);
        if let Some(is) = is {
            let other = least
                .map(|least| ("at_least", least))
                .or(most.map(|most| ("at_most", most)));
            if let Some((key, other)) = other {
                self.both("is", key, other.span());
                return None;
            }
            let is = form.of(self.checker, "is", &is)?;
            return Some(Bounds {
                least: Some(is.clone()),
                most: Some(is),
            });
        }
        if least.is_none() && most.is_none() {
            self.nothing_demanded();
            return None;
        }
        let span = most.as_ref().map(Spanned::span);
        let read = |checker: &mut Checker, key, value: Option<Spanned<toml::Value>>| match value {
            Some(value) => form.of(checker, key, &value).map(Some),
            None => Some(None),
        };
        let least = read(self.checker, "at_least", least);
        let most = read(self.checker, "at_most", most);
        let bounds = Bounds {
            least: least?,
            most: most?,
        };
        if let (Some(least), Some(most)) = (&bounds.least, &bounds.most)
            && least > most
        {
            let problem = self
                .checker
                .problem(span, "`at_most` is below `at_least`: nothing is within");
            problem.help("exchange the two");
            return None;
        }
        Some(bounds)
    }

    fn text(&mut self, typed: &mut TypedCheck) -> Option<TextDemand> {
        let (is, one_of) = (typed.is.take(), typed.one_of.take());
        let (least, same) = (typed.at_least.take(), typed.same.take());
        let given = [
            ("is", is.as_ref().map(Spanned::span)),
            ("one_of", one_of.as_ref().map(Spanned::span)),
            ("at_least", least.as_ref().map(Spanned::span)),
            ("same", same.as_ref().map(Spanned::span)),
        ];
        let given: Vec<_> = given
            .into_iter()
            .filter_map(|(key, span)| Some((key, span?)))
            .collect();
        match given.as_slice() {
            [] => {
                self.nothing_demanded();
                return None;
            }
            [(one, _), (other, span), ..] => {
                self.both(one, other, span.clone());
                return None;
            }
            [_] => {}
        }
        if let Some(is) = is {
            return WORD
                .of(self.checker, "is", &is)
                .map(|word| TextDemand::OneOf(vec![word]));
        }
        if let Some(list) = one_of {
            return self.listed("one_of", list, &WORD).map(TextDemand::OneOf);
        }
        if let Some(least) = least {
            return VERSION
                .of(self.checker, "at_least", &least)
                .map(TextDemand::AtLeast);
        }
        let same = same?;
        if !*same.get_ref() {
            let problem = self
                .checker
                .problem(Some(same.span()), "`same = false` demands nothing");
            problem.help("write `same = true`, or leave the check out");
            return None;
        }
        Some(TextDemand::Same)
    }

    /// The items of a list that has some.
    fn listed<T>(
        &mut self,
        key: &str,
        list: Spanned<Vec<Spanned<toml::Value>>>,
        form: &Form<T>,
    ) -> Option<Vec<T>> {
        if list.get_ref().is_empty() {
            let example = self.kind.example;
            let problem = self
                .checker
                .problem(Some(list.span()), format!("`{key}` is empty"));
            problem.help(format!("write, for example: {example}"));
            return None;
        }
        let items = list.into_inner().into_iter();
        let items: Vec<Option<T>> = items
            .map(|item| form.of(self.checker, key, &item))
            .collect();
        items.into_iter().collect()
    }

    fn text_of(&mut self, typed: &mut TypedCheck) -> Option<TextOf> {
        Some(match self.kind.name {
            "kernel" => TextOf::Kernel,
            "gpu-driver" => TextOf::GpuDriver,
            "gpu-model" => TextOf::GpuModel,
            "nic-model" => TextOf::NicModel,
            "nic-driver" => TextOf::NicDriver,
            "firmware" => TextOf::Firmware,
            _ => TextOf::Module(self.module(typed.module.take())?),
        })
    }

    /// A kernel module's name, with underscores.
    fn module(&mut self, typed: Typed<String>) -> Option<String> {
        let Some(name) = typed.map(Value::typed) else {
            let message = format!("the check `{}` does not say of which module", self.name);
            let problem = self.checker.absent(Some(self.at.clone()), message);
            problem.help("write, for example: module = \"mlx5_core\"");
            return None;
        };
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !(1..=56).contains(&name.value.len()) || !name.value.chars().all(is_part) {
            let message = format!("{:?} is no name of a module", name.value);
            let problem = self.checker.problem(name.span, message);
            problem.help("write it as lsmod does, such as \"mlx5_core\"");
            return None;
        }
        Some(name.value.replace('-', "_"))
    }

    /// A word of several, under `key`.
    fn word<T: Copy>(
        &mut self,
        key: &str,
        typed: &Spanned<toml::Value>,
        known: &[(&str, T)],
    ) -> Option<T> {
        let value = WORD.of(self.checker, key, typed)?;
        let value = Value {
            value,
            span: Some(typed.span()),
        };
        self.checker.choice(key, &value, known)
    }

    /// A word of several where one is typed, else the first of them.
    fn option<T: Copy>(
        &mut self,
        key: &str,
        typed: Typed<String>,
        known: &[(&str, T)],
    ) -> Option<T> {
        match typed.map(Value::typed) {
            Some(word) => self.checker.choice(key, &word, known),
            None => known.first().map(|(_, value)| *value),
        }
    }

    fn layer(&mut self, typed: &mut TypedCheck) -> Option<LinkLayer> {
        let known = [
            ("InfiniBand", LinkLayer::InfiniBand),
            ("Ethernet", LinkLayer::Ethernet),
        ];
        let is = self.given(typed.is.take())?;
        self.word("is", &is, &known)
    }

    fn given(&mut self, typed: Typed<toml::Value>) -> Typed<toml::Value> {
        if typed.is_none() {
            self.nothing_demanded();
        }
        typed
    }

    fn gid_type(&mut self, typed: &mut TypedCheck) -> Option<Demand> {
        let known = [
            ("RoCE v2", (GidType::RoceV2, LinkLayer::Ethernet)),
            ("RoCE v1", (GidType::IbOrRoceV1, LinkLayer::Ethernet)),
            ("IB", (GidType::IbOrRoceV1, LinkLayer::InfiniBand)),
        ];
        let is = self.given(typed.is.take())?;
        let (kind, layer) = self.word("is", &is, &known)?;
        Some(Demand::GidType(kind, layer))
    }

    fn path(&mut self, typed: &mut TypedCheck) -> Option<PathClass> {
        let known = [
            ("PIX", PathClass::Pix),
            ("PXB", PathClass::Pxb),
            ("PHB", PathClass::Phb),
            ("NODE", PathClass::Node),
            ("SYS", PathClass::Sys),
        ];
        let most = self.given(typed.at_most.take())?;
        self.word("at_most", &most, &known)
    }

    fn gpu_direct(&mut self, typed: &mut TypedCheck) -> Option<Vec<GpuDirectWay>> {
        let known = [
            ("peermem", GpuDirectWay::Peermem),
            ("dma-buf", GpuDirectWay::Dmabuf),
        ];
        match (typed.is.take(), typed.one_of.take()) {
            (Some(_), Some(list)) => {
                self.both("is", "one_of", list.span());
                None
            }
            (Some(is), None) => self.word("is", &is, &known).map(|way| vec![way]),
            (None, Some(list)) => {
                if list.get_ref().is_empty() {
                    return self
                        .listed::<String>("one_of", list, &WORD)
                        .map(|_| Vec::new());
                }
                let ways = list.into_inner().into_iter();
                let ways: Vec<_> = ways.map(|way| self.word("one_of", &way, &known)).collect();
                ways.into_iter().collect()
            }
            (None, None) => {
                self.nothing_demanded();
                None
            }
        }
    }

    fn bandwidth(&mut self, typed: &mut TypedCheck) -> Option<Demand> {
        let least = self.value(typed, &AMOUNT);
        let known = [
            ("each", Ways::Each),
            ("tx", Ways::One(Direction::Tx)),
            ("rx", Ways::One(Direction::Rx)),
            ("sum", Ways::Sum),
        ];
        let ways = self.option("direction", typed.direction.take(), &known);
        let known = [
            ("any", None),
            ("host", Some(Memory::Host)),
            ("gpu", Some(Memory::Gpu)),
        ];
        let memory = self.option("memory", typed.memory.take(), &known);
        Some(Demand::Bandwidth(BandwidthDemand {
            least: least?,
            ways: ways?,
            memory: memory?,
        }))
    }

    fn latency(&mut self, typed: &mut TypedCheck) -> Option<Demand> {
        let most_ns = self.value(typed, &TIME_NS);
        let known = [
            ("median", Percentile::Median),
            ("min", Percentile::Min),
            ("p99", Percentile::P99),
            ("p99.9", Percentile::P999),
            ("max", Percentile::Max),
        ];
        let percentile = self.option("percentile", typed.percentile.take(), &known);
        let known = [
            ("write", CostStep::LatencyWrite),
            ("send", CostStep::LatencySend),
            ("tcp", CostStep::LatencyTcp),
        ];
        let step = self.option("way", typed.way.take(), &known);
        let message = match typed.message.take().map(Value::typed) {
            Some(size) => self.checker.parsed::<Bytes>("message", &size).map(Some),
            None => Some(None),
        };
        Some(Demand::Latency(LatencyDemand {
            most_ns: most_ns?,
            percentile: percentile?,
            message: message?,
            step: step?,
        }))
    }

    fn cpu(&mut self, typed: &mut TypedCheck) -> Option<Demand> {
        let most_cores = self.value(typed, &CORES);
        let known = [
            ("write", CostStep::Write),
            ("read", CostStep::Read),
            ("send", CostStep::Send),
            ("write-imm", CostStep::WriteImm),
            ("tcp", CostStep::Tcp),
        ];
        let step = self.option("way", typed.way.take(), &known);
        let known = [
            ("each", CpuEnds::Each),
            ("sender", CpuEnds::Sender),
            ("receiver", CpuEnds::Receiver),
        ];
        let ends = self.option("end", typed.end.take(), &known);
        Some(Demand::Cpu(CpuDemand {
            most_cores: most_cores?,
            step: step?,
            ends: ends?,
        }))
    }
}
