//! `[probe]` and `[expect]`.

use std::time::Duration;

use crate::model::{Bytes, Completion, Expect, Gbps, Measure, MemoryKind, ProbeKind, ProbeSpec};

use super::super::typed::{TypedExpect, TypedProbe};
use super::{Checker, Value};

/// The most memory that a probe registers at one end.
const MAX_MEMORY: Bytes = Bytes(4 << 30);

/// The largest message: what RDMA carries at most is 2 GiB (InfiniBand Architecture Specification,
/// section 9.7.1); half of it measures no better and is easier to register.
const MAX_MESSAGE: Bytes = Bytes(1 << 30);

/// What may be asked for; the same words are those of `--memory`.
const MEMORY: [(&str, MemoryKind); 4] = [
    ("host", MemoryKind::Host),
    ("host-huge", MemoryKind::HostHuge),
    ("gpu", MemoryKind::Gpu),
    ("gpu-staged", MemoryKind::GpuStaged),
];

/// The section; none where a problem was found.
pub(super) fn check(
    checker: &mut Checker,
    typed: TypedProbe,
    default: TypedProbe,
) -> Option<ProbeSpec> {
    let size = checker.need(
        "probe.message_size",
        typed.message_size,
        default.message_size,
    );
    let bytes = size.as_ref().and_then(|size| message_size(checker, size));
    let depth = checker.need_whole("probe.depth", typed.depth, default.depth, 1..=8192);
    let (pairs, default_pairs) = (typed.queue_pairs, default.queue_pairs);
    let pairs = checker.need_whole("probe.queue_pairs", pairs, default_pairs, 1..=64);
    let bounds = Duration::from_millis(100)..=Duration::from_secs(60);
    let duration =
        checker.need_duration("probe.duration", typed.duration, default.duration, bounds);
    let known = [("event", Completion::Event), ("poll", Completion::Poll)];
    let (word, default_word) = (typed.completion, default.completion);
    let completion = checker.need_choice("probe.completion", word, default_word, &known);
    let memory = checker.need_choice("probe.memory", typed.memory, default.memory, &MEMORY);
    let (depth, pairs) = (depth?, pairs?);
    let spec = ProbeSpec {
        kind: ProbeKind::RdmaWrite,
        message_size: bytes?,
        depth: depth.value,
        queue_pairs: pairs.value,
        duration_ms: u32::try_from(duration?.as_millis()).ok()?,
        completion: completion?,
        memory: memory?,
        stop_at: None,
        measure: Measure::Rate,
        account: false,
    };
    let typed = size?.span.or(depth.span).or(pairs.span);
    memory_fits(checker, &spec, typed).then_some(spec)
}

fn message_size(checker: &mut Checker, size: &Value<String>) -> Option<Bytes> {
    let bytes: Bytes = checker.parsed("message_size", size)?;
    if (1..=MAX_MESSAGE.0).contains(&bytes.0) {
        return Some(bytes);
    }
    let message = format!(
        "`message_size` is 1 B to {MAX_MESSAGE}, not {:?}",
        size.value
    );
    checker.problem(size.span.clone(), message);
    None
}

/// Whether each message in flight can have its own memory.
fn memory_fits(
    checker: &mut Checker,
    spec: &ProbeSpec,
    span: Option<std::ops::Range<usize>>,
) -> bool {
    let in_flight = u64::from(spec.depth) * u64::from(spec.queue_pairs);
    // At most 2^30 · 2^13 · 2^6: no overflow.
    let bytes = Bytes(spec.message_size.0 * in_flight);
    if bytes > MAX_MEMORY {
        let message = format!(
            "a probe may register {MAX_MEMORY} at each end, and {in_flight} messages of {} in flight need {bytes}",
            spec.message_size
        );
        let problem = checker.problem(span, message);
        problem.help("make `message_size`, `depth` or `queue_pairs` smaller");
    }
    bytes <= MAX_MEMORY
}

/// The section; none where a problem was found.
pub(super) fn check_expect(
    checker: &mut Checker,
    typed: TypedExpect,
    default: TypedExpect,
) -> Option<Expect> {
    let line_rate = match typed.line_rate.map(Value::typed) {
        Some(rate) => checker.parsed::<Gbps>("line_rate", &rate).map(Some),
        None => Some(None),
    };
    let half = checker.need("expect.half_below", typed.half_below, default.half_below);
    let half = half.and_then(|value| share(checker, "half_below", value));
    let (degraded, default_degraded) = (typed.degraded_below, default.degraded_below);
    let degraded = checker.need("expect.degraded_below", degraded, default_degraded);
    let degraded = degraded.and_then(|value| share(checker, "degraded_below", value));
    let (half, degraded) = (half?, degraded?);
    let (half_below, degraded_below) = (half.value, degraded.value);
    if half_below > degraded_below {
        let message = format!(
            "`half_below` ({half_below}) is above `degraded_below` ({degraded_below}): \
             a NIC at half bandwidth is degraded as well"
        );
        checker.problem(half.span.or(degraded.span), message);
        return None;
    }
    Some(Expect {
        line_rate: line_rate?,
        half_below,
        degraded_below,
    })
}

/// A share of a whole: above 0, at most 1.
pub(super) fn share(checker: &mut Checker, key: &str, value: Value<f64>) -> Option<Value<f64>> {
    if value.value > 0.0 && value.value <= 1.0 {
        return Some(value);
    }
    let message = format!(
        "`{key}` is a share above 0 and at most 1, not {}",
        value.value
    );
    checker.problem(value.span, message);
    None
}
