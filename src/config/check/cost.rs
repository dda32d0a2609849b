//! `[probe.tcp]` and `[probe.cost]`.

use std::time::Duration;

use crate::model::{Bytes, CostSettings};

use super::super::typed::{TypedCost, TypedList, TypedTcp};
use super::{Checker, Value};

/// The largest message here: each is allocated at both ends.
const MAX_MESSAGE: Bytes = Bytes(64 << 20);

/// The most sizes: each is a probe of its own for each pair.
const MOST_SIZES: usize = 32;

/// Both sections, each as typed and by default; none where a problem was found.
pub(super) fn check(
    checker: &mut Checker,
    [tcp, default_tcp]: [TypedTcp; 2],
    [cost, default_cost]: [TypedCost; 2],
) -> Option<CostSettings> {
    let (many, default_many) = (tcp.streams, default_tcp.streams);
    let streams = checker.need_whole("probe.tcp.streams", many, default_many, 2..=64);
    let (size, default_size) = (tcp.message_size, default_tcp.message_size);
    let message = checker.need("probe.tcp.message_size", size, default_size);
    let message = message.and_then(|size| message_size(checker, "message_size", &size));
    let bounds = Duration::from_millis(100)..=Duration::from_secs(60);
    let (length, default_length) = (cost.duration, default_cost.duration);
    let duration = checker.need_duration("probe.cost.duration", length, default_length, bounds);
    let sizes = sizes(checker, "sizes", cost.sizes, default_cost.sizes);
    let (list, default_list) = (cost.latency_sizes, default_cost.latency_sizes);
    let latency_sizes = self::sizes(checker, "latency_sizes", list, default_list);
    Some(CostSettings {
        duration_ms: u32::try_from(duration?.as_millis()).ok()?,
        tcp_streams: streams?.value,
        tcp_message: message?,
        sizes: sizes?,
        latency_sizes: latency_sizes?,
        only: Vec::new(),
    })
}

/// Sizes that go up, each once.
fn sizes(
    checker: &mut Checker,
    key: &str,
    typed: TypedList,
    default: TypedList,
) -> Option<Vec<Bytes>> {
    let list = checker.some(key, typed, default)?;
    if list.value.len() > MOST_SIZES {
        let message = format!(
            "`{key}` has {} sizes, and {MOST_SIZES} are the most",
            list.value.len()
        );
        checker.problem(list.span, message);
        return None;
    }
    let items = list.value.iter();
    let sizes: Vec<Option<Bytes>> = items.map(|size| message_size(checker, key, size)).collect();
    let mut sizes: Vec<Bytes> = sizes.into_iter().collect::<Option<_>>()?;
    sizes.sort_unstable();
    sizes.dedup();
    Some(sizes)
}

fn message_size(checker: &mut Checker, key: &str, size: &Value<String>) -> Option<Bytes> {
    let bytes: Bytes = checker.parsed(key, size)?;
    if (1..=MAX_MESSAGE.0).contains(&bytes.0) {
        return Some(bytes);
    }
    let message = format!("`{key}` is 1 B to {MAX_MESSAGE}, not {:?}", size.value);
    checker.problem(size.span.clone(), message);
    None
}
