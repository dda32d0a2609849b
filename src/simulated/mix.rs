//! Chance by a hash of what it is about: a generator's numbers would depend on who is asked first.

/// 2^64 divided by the golden ratio: the step of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Why something is left to chance: the same place and time give other numbers for another reason.
#[derive(Debug, Clone, Copy)]
pub(super) enum Why {
    Silence,
    Rate,
    Flaky,
    Collision,
    Latency,
    Plant,
}

/// A source of numbers that these numbers stand for; stable over versions of linerate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mix(u64);

impl Mix {
    /// For a reason and the numbers of what it is about.
    pub(super) fn of(seed: u64, why: Why, about: &[u64]) -> Self {
        let start = finish(seed ^ finish(why as u64 + 1));
        let step = |state: u64, number: &u64| finish(state.wrapping_add(STEP) ^ finish(*number));
        Self(about.iter().fold(start, step))
    }

    /// The next number (the generator SplitMix64).
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        finish(self.0)
    }

    /// From 0 to below 1.
    pub(super) fn share(&mut self) -> f64 {
        // 53 bits are as many as an f64 holds.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 0 to below `end`; 0 where that is 0.
    pub(super) fn below(&mut self, end: u16) -> u16 {
        // The product is below 2^80, its upper part below 2^16.
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u16
    }

    /// A number around 0 with a standard deviation of 1, by Box and Muller's way.
    pub(super) fn normal(&mut self) -> f64 {
        let (a, b) = (self.share(), self.share());
        (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

/// Every bit of the result depends on every bit of the number: the output function of SplitMix64.
fn finish(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The first numbers of the generator from 0, as its author published them.
        let mut mix = Mix(0);
        assert_eq!(mix.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn shares_are_even_and_normal_numbers_scatter_by_one() {
        let all = |number: fn(&mut Mix) -> f64| {
            let of = move |n| number(&mut Mix::of(7, Why::Rate, &[n, 3]));
            (0..20_000).map(of).collect::<Vec<f64>>()
        };
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
        let shares = all(Mix::share);
        assert!((mean(&shares) - 0.5).abs() < 0.01, "{}", mean(&shares));
        let squares: Vec<f64> = all(Mix::normal).iter().map(|n| n * n).collect();
        assert!((mean(&squares) - 1.0).abs() < 0.05, "{}", mean(&squares));
    }

    #[test]
    fn what_it_is_about_tells_numbers_apart() {
        let first = |seed, why, about: &[u64]| Mix::of(seed, why, about).next();
        let one = first(1, Why::Rate, &[1, 2]);
        assert_eq!(one, first(1, Why::Rate, &[1, 2]));
        assert_ne!(one, first(1, Why::Rate, &[2, 1]));
        assert_ne!(one, first(2, Why::Rate, &[1, 2]));
        assert_ne!(one, first(1, Why::Flaky, &[1, 2]));
    }
}
