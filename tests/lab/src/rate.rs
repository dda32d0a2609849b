//! A link rate as `tc` writes it: `64mbit`, `2.5gbit`, `none`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bits per second (SI: 1 mbit = 10^6 bits) of one direction of one lab link.
///
/// Counted over whole Ethernet frames without preamble, FCS and gap, as `tc` does: an RDMA write with
/// 4096-byte MTU moves about 98.5 % of it as payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(u64);

/// Why a rate was not understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a rate: write a positive number and kbit, mbit or gbit, such as 64mbit")]
pub struct RateError(String);

const UNITS: [(&str, u64); 4] = [
    ("gbit", 1_000_000_000),
    ("mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];

impl Rate {
    /// A rate of `bits` per second; `None` for zero, which would be a cut link.
    pub fn from_bits_per_second(bits: u64) -> Option<Rate> {
        (bits > 0).then_some(Rate(bits))
    }

    /// Bits per second.
    pub fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Half of this rate, never below one bit per second.
    pub fn half(self) -> Rate {
        Rate((self.0 / 2).max(1))
    }

    /// As linerate's configuration writes it: `64 Mb/s`.
    pub fn to_config(self) -> String {
        let (unit, size) = self.unit();
        format!("{} {}/s", self.0 / size, unit)
    }

    /// The largest unit that this rate is a whole multiple of.
    fn unit(self) -> (&'static str, u64) {
        let names = ["Gb", "Mb", "kb", "b"];
        let at = UNITS
            .iter()
            .position(|(_, size)| self.0.is_multiple_of(*size))
            .unwrap_or(3);
        (names[at], UNITS[at].1)
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Rate, RateError> {
        let error = || RateError(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let (unit, size) = UNITS
            .iter()
            .find(|(unit, _)| lower.ends_with(unit))
            .ok_or_else(error)?;
        let number = lower[..lower.len() - unit.len()].trim_end();
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(error());
        }
        let bits = number.parse::<f64>().map_err(|_| error())? * *size as f64;
        // 10^15 bit/s is beyond any link, and far inside what f64 counts exactly.
        if !(1.0..=1e15).contains(&bits) {
            return Err(error());
        }
        Ok(Rate(bits.round() as u64))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = UNITS
            .iter()
            .position(|(_, size)| self.0.is_multiple_of(*size))
            .unwrap_or(3);
        write!(f, "{}{}", self.0 / UNITS[at].1, UNITS[at].0)
    }
}

impl TryFrom<String> for Rate {
    type Error = RateError;
    fn try_from(text: String) -> Result<Rate, RateError> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> String {
        rate.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_si() {
        for (text, bits) in [
            ("64mbit", 64_000_000),
            ("64 Mbit", 64_000_000),
            ("2.5gbit", 2_500_000_000),
            ("1kbit", 1_000),
            ("9bit", 9),
        ] {
            assert_eq!(
                text.parse::<Rate>().unwrap().bits_per_second(),
                bits,
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in [
            "", "64", "mbit", "-3mbit", "0mbit", "1e9mbit", "NaNmbit", "infgbit", "3 mbyte",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_configuration_spells_it_with_a_space() {
        assert_eq!("64mbit".parse::<Rate>().unwrap().to_config(), "64 Mb/s");
        assert_eq!("2.5gbit".parse::<Rate>().unwrap().to_config(), "2500 Mb/s");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bits in 1u64..1_000_000_000_000) {
            let rate = Rate(bits);
            prop_assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Rate>();
        }
    }
}
