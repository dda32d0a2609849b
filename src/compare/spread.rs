//! How far rates scatter from run to run by chance, and from where on a change is none of it.
//!
//! What is looked at is d = ln(rate after / rate before) of each direction of each NIC, so that half and
//! double are equally far. A change counts where it is larger than
//!
//! ```text
//! max(k · s, −ln(1 − 0.03)),   k = sqrt(2 · ln(n / 0.01))
//! ```
//!
//! s is the larger of two spreads: that of all d about their median, and that of the rates of each NIC about
//! theirs within the runs. Both are 1.4826 times the median distance, which is the standard deviation of
//! normal noise and stays what it is while no more than half of the cluster changed (Rousseeuw and Croux,
//! Alternatives to the Median Absolute Deviation, 1993). n is how many are compared: of n normal ones, the
//! chance that any exceeds k standard deviations to one side is at most n/2 · exp(−k²/2), so half a percent
//! of a whole comparison (Bonferroni's inequality with the usual bound of the normal tail).

/// The least change that counts, as a share of the rate: 3 %. Less is of no use to an operator, and slow
/// drifts such as temperature's stay below.
pub const LEAST_CHANGE: f64 = 0.03;

/// Twice the chance that a comparison of a cluster in which nothing changed tells of anything.
const CHANCE: f64 = 0.01;

/// From the median distance to the standard deviation of normal noise.
const OF_NORMAL: f64 = 1.4826;

/// Of so large a share the change must be the same before it is one of the whole cluster.
const MOST: f64 = 0.9;

/// What rates did between two runs as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// The median of d.
    pub middle: f64,
    /// s, as above.
    pub deviation: f64,
    /// k, as above.
    pub factor: f64,
    /// From where on a distance counts, in units of d.
    pub counts_from: f64,
    /// Whether nine of ten moved together by more than [`LEAST_CHANGE`].
    pub is_shift: bool,
}

impl Spread {
    /// That of these d; `within` are distances of single rates from the middle of their kind in one run.
    pub(super) fn of(d: &[f64], within: Vec<f64>) -> Self {
        let middle = median(d.to_vec());
        let between: Vec<f64> = d.iter().map(|d| (d - middle).abs()).collect();
        let deviation = OF_NORMAL * lower_median(between).max(lower_median(within));
        let factor = (2.0 * (d.len().max(1) as f64 / CHANCE).ln()).sqrt();
        let least = -(1.0 - LEAST_CHANGE).ln();
        let counts_from = least.max(factor * deviation);
        let with_it = d.iter().filter(|d| (*d - middle).abs() <= counts_from);
        let is_shift = middle.abs() > least && with_it.count() as f64 >= MOST * d.len() as f64;
        Self {
            middle,
            deviation,
            factor,
            counts_from,
            is_shift,
        }
    }

    /// Whether a d is a change of its own: by itself, and beside what the cluster did.
    pub(super) fn stands_out(&self, d: f64) -> bool {
        let far = |distance: f64| distance.abs() > self.counts_from;
        // What did not move is not faster because all others are slower.
        far(d) && (!self.moves_with_most() || far(d - self.middle))
    }

    /// A drift too small to be told is still taken off; a middle that half of the cluster moved is not.
    fn moves_with_most(&self) -> bool {
        self.is_shift || self.middle.abs() <= -(1.0 - LEAST_CHANGE).ln()
    }
}

/// The median; of an even number the one of the two that is nearer to no change, so that where half of a
/// cluster fell the other half stays the measure; 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let (lower, upper) = match values.len() % 2 {
        0 => (half.checked_sub(1), half),
        _ => (Some(half), half),
    };
    let at = |at: Option<usize>| at.and_then(|at| values.get(at)).copied();
    match (at(lower), at(Some(upper))) {
        (Some(lower), Some(upper)) if lower.abs() < upper.abs() => lower,
        (Some(lower), Some(upper)) if lower.abs() > upper.abs() => upper,
        (Some(lower), Some(upper)) => (lower + upper) / 2.0,
        _ => 0.0,
    }
}

/// The median of distances; of an even number the smaller of the two; 0 of nothing.
fn lower_median(mut distances: Vec<f64>) -> f64 {
    let middle = distances.len().saturating_sub(1) / 2;
    match distances.is_empty() {
        true => 0.0,
        false => *distances.select_nth_unstable_by(middle, f64::total_cmp).1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_noise_three_percent_count() {
        let spread = Spread::of(&[0.0; 100], Vec::new());
        assert!((spread.factor - 4.29).abs() < 0.01, "{spread:?}");
        assert!(!spread.is_shift);
        assert!(spread.stands_out((0.969f64).ln()) && !spread.stands_out((0.971f64).ln()));
        assert!(spread.stands_out((1.0f64 / 0.969).ln()));
    }

    #[test]
    fn what_all_did_is_no_ones_own() {
        let mut d = vec![-0.1; 95];
        d.extend([0.0; 5]);
        let spread = Spread::of(&d, Vec::new());
        assert!(spread.is_shift);
        assert!(!spread.stands_out(-0.1), "with the others");
        assert!(!spread.stands_out(0.0), "it only stayed");
        assert!(spread.stands_out(-0.7));
    }

    #[test]
    fn a_cluster_of_which_half_or_more_fell_has_no_common_shift() {
        for (fell, stayed) in [(60, 40), (50, 50), (40, 60), (1, 1), (2, 2)] {
            let mut d = vec![-0.69; fell];
            d.extend(vec![0.0; stayed]);
            let spread = Spread::of(&d, Vec::new());
            assert!(!spread.is_shift, "{fell}");
            assert!(
                spread.stands_out(-0.69) && !spread.stands_out(0.0),
                "{fell}: {spread:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn swapped_runs_are_mirrored(d in prop::collection::vec(-1.0f64..1.0, 0..50), at in -1.0f64..1.0) {
            let one = Spread::of(&d, Vec::new());
            let mirrored: Vec<f64> = d.iter().map(|d| -d).collect();
            let other = Spread::of(&mirrored, Vec::new());
            prop_assert!((one.middle + other.middle).abs() < 1e-12);
            prop_assert_eq!(one.is_shift, other.is_shift);
            prop_assert_eq!(one.stands_out(at), other.stands_out(-at));
        }
    }
}
