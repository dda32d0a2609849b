//! The sequential stop over transfers that are made up: steady, slow, straddling, dipping, bursty.

use proptest::prelude::*;

use super::*;

const WARM_UP: Duration = Duration::from_millis(50);
const CAP_MS: u64 = 1000;
const MESSAGE: u64 = 65_536;
const BATCH: u64 = 16;

/// How a transfer of up to a second ended, and after how many milliseconds. `share` tells the rate
/// in each microsecond; a batch of 16 messages completes whenever it is whole.
fn play(ceiling_mbps: u64, share: impl Fn(u64) -> f64) -> (TransferEnd, u64) {
    const STEP_US: u64 = 100;
    let mut sequential = Sequential::new(StopAt { ceiling_mbps }, WARM_UP);
    let mut ready = 0.0;
    for at_us in (STEP_US..=CAP_MS * 1000).step_by(STEP_US as usize) {
        // Mb/s × µs / 8 are bytes.
        ready += ceiling_mbps as f64 * share(at_us) * STEP_US as f64 / 8.0;
        let batches = (ready / (MESSAGE * BATCH) as f64) as u64;
        if batches == 0 {
            continue;
        }
        ready -= (batches * MESSAGE * BATCH) as f64;
        let messages = batches * BATCH;
        let at = Duration::from_micros(at_us);
        if let Some(end) = sequential.record(at, messages, messages * MESSAGE) {
            return (end, at_us / 1000);
        }
    }
    (TransferEnd::TimeUp, CAP_MS)
}

/// A number from 0 to 1 that the window of a moment has to itself.
fn noise(seed: u64, at_us: u64) -> f64 {
    let mut word = (at_us / 10_000 + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(seed);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word >> 11) as f64 / (1u64 << 53) as f64
}

proptest! {
    #[test]
    fn a_steady_good_rate_stops_early(
        mbps in 25_000u64..800_000, share in 0.93f64..1.0, spread in 0.0f64..0.02, seed: u64,
    ) {
        let (end, at) = play(mbps, |us| share + spread * (noise(seed, us) - 0.5));
        prop_assert_eq!(end, TransferEnd::Good);
        prop_assert!((100..=200).contains(&at), "{at} ms");
    }

    #[test]
    fn a_steady_slow_rate_is_bad(
        mbps in 50_000u64..800_000, share in 0.3f64..0.75, spread in 0.0f64..0.02, seed: u64,
    ) {
        let (end, at) = play(mbps, |us| share + spread * (noise(seed, us) - 0.5));
        prop_assert_eq!(end, TransferEnd::Bad);
        prop_assert!((100..=300).contains(&at), "{at} ms");
    }

    #[test]
    fn a_dip_at_the_start_makes_nothing_bad(
        mbps in 100_000u64..800_000, dip in 0.0f64..0.7, until_ms in 1u64..90, share in 0.94f64..1.0,
    ) {
        let rate = |us| if us < until_ms * 1000 { dip } else { share };
        let (end, _) = play(mbps, rate);
        prop_assert_eq!(end, TransferEnd::Good);
    }

    #[test]
    fn a_rate_that_comes_in_bursts_is_not_good(
        mbps in 100_000u64..800_000, pause_us in 10_000u64..45_000, part in 1u64..=10,
    ) {
        let burst_us = pause_us * part / 10;
        let rate = |us: u64| f64::from(u8::from(us % (pause_us + burst_us) < burst_us));
        prop_assert_ne!(play(mbps, rate).0, TransferEnd::Good);
    }

    #[test]
    fn whatever_comes_it_never_decides_early_or_by_little(
        steps in prop::collection::vec((0u64..20_000, 0u64..500, any::<u32>()), 0..300),
        ceiling_mbps: u64,
    ) {
        let mut sequential = Sequential::new(StopAt { ceiling_mbps }, WARM_UP);
        let (mut at, mut total) = (Duration::ZERO, 0);
        for (us, messages, bytes) in steps {
            at += Duration::from_micros(us);
            total += messages;
            if sequential.record(at, messages, bytes.into()).is_some() {
                prop_assert!(at >= WARM_UP + 5 * WINDOW);
                prop_assert!(total >= 5 * WINDOW_MESSAGES);
            }
        }
    }
}

#[test]
fn a_rate_that_straddles_runs_to_its_cap() {
    let undecided = (TransferEnd::TimeUp, CAP_MS);
    // Every other window at half the rate: their median is the full one, the whole is not.
    let wavers = |us: u64| if us % 20_000 < 10_000 { 0.5 } else { 1.0 };
    assert_eq!(play(400_000, wavers), undecided);
}

#[test]
fn what_is_both_above_the_one_bound_and_below_the_other_is_not_decided() {
    let of = |share, windows| {
        let bytes = (share * 50e9) as u64;
        let ceiling_mbps = 400_000;
        let mut sequential = Sequential::new(StopAt { ceiling_mbps }, WARM_UP);
        sequential.first = Some(sequential.now);
        sequential.now.at = Duration::from_secs(1);
        sequential.now.bytes = bytes;
        sequential.shares = vec![share; windows];
        sequential.decide()
    };
    // The error is 0.049.
    assert_eq!(of(0.865, 20), None);
    assert_eq!(of(0.89, 20), Some(TransferEnd::Good));
    assert_eq!(of(0.84, 20), Some(TransferEnd::Bad));
    // The error is 0.097.
    assert_eq!(of(0.90, 5), Some(TransferEnd::Good));
    assert_eq!(of(0.89, 5), None);
    assert_eq!(of(0.99, 4), None);
}

#[test]
fn windows_of_a_slow_link_grow_and_of_a_very_slow_one_never_end() {
    // 1 Gb/s: 200 messages take 105 ms.
    let (end, at) = play(1000, |_| 0.97);
    assert_eq!(end, TransferEnd::Good);
    assert!((550..=800).contains(&at), "{at} ms");
    // 64 Mb/s: 200 messages take 1.6 s.
    assert_eq!(play(64, |_| 0.97), (TransferEnd::TimeUp, CAP_MS));
    assert_eq!(play(64, |_| 0.40), (TransferEnd::TimeUp, CAP_MS));
}

#[test]
fn one_window_that_is_far_off_changes_nothing() {
    let outlier = |us: u64| if us / 10_000 == 7 { 0.3 } else { 0.97 };
    assert_eq!(play(400_000, outlier).0, TransferEnd::Good);
}

#[test]
fn the_error_is_that_of_the_design() {
    let (median, error) = interval(&[0.97; 5]);
    assert_eq!(median, 0.97);
    // 5 · 1.2533 · 2 % · √(3/5).
    assert!((error - 0.0971).abs() < 0.0001, "{error}");
    let (_, error) = interval(&[0.9, 0.94, 0.98, 1.0, 1.02]);
    // MAD 0.04: 5 · 1.2533 · 1.4826 · 0.04 · √(3/5).
    assert!((error - 0.2879).abs() < 0.0001, "{error}");
}
