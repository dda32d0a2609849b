//! Units: bits per second in SI, bytes in IEC, each with the forms people write.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A rate in gigabits per second (10^9 bits/s), as line rates are quoted.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Gbps(pub f64);

impl Gbps {
    /// The rate of `bytes` moved in `elapsed_us` microseconds; `None` when no time has passed.
    pub fn from_transfer(bytes: u64, elapsed_us: u64) -> Option<Self> {
        (elapsed_us > 0).then(|| Self(bytes as f64 * 8.0 / (elapsed_us as f64 * 1e3)))
    }

    /// This rate as a share of `whole`; `None` when `whole` is not a positive number.
    pub fn share_of(self, whole: Self) -> Option<f64> {
        (whole.0 > 0.0).then(|| self.0 / whole.0)
    }

    /// Whether this is a finite rate above zero.
    pub fn is_positive(self) -> bool {
        self.0.is_finite() && self.0 > 0.0
    }
}

impl fmt::Display for Gbps {
    /// Three significant digits in the unit that suits them: `252 Gb/s`, `63.1 Mb/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0.abs() {
            rate if rate >= 0.9995 => (self.0, "Gb/s"),
            rate if rate >= 0.000_999_5 => (self.0 * 1e3, "Mb/s"),
            rate if rate > 0.0 => (self.0 * 1e6, "kb/s"),
            _ => (0.0, "Gb/s"),
        };
        let decimals = match value.abs() {
            v if v >= 99.95 => 0,
            v if v >= 9.995 => 1,
            _ => 2,
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

/// A text that is not a quantity of the unit asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: write it like {example}")]
pub struct ParseUnitError {
    /// What was typed.
    pub text: String,
    /// What was wanted.
    pub what: &'static str,
    /// A form that is understood.
    pub example: &'static str,
}

fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let number = text[..end].parse::<f64>().ok().filter(|n| n.is_finite())?;
    Some((number, text[end..].trim()))
}

impl FromStr for Gbps {
    type Err = ParseUnitError;

    /// Reads `400 Gb/s`, `64Mbit/s`, `64mbit`, `1.6 Tb/s`: bits, SI prefixes; a bare number is refused.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseUnitError {
            text: text.to_owned(),
            what: "positive rate in bits per second",
            example: "\"400 Gb/s\" or \"64 Mb/s\"",
        };
        let (number, unit) = split_number(text).ok_or_else(error)?;
        let unit = unit.to_ascii_lowercase();
        let unit = unit
            .strip_suffix("/s")
            .or_else(|| unit.strip_suffix("ps"))
            .unwrap_or(&unit);
        let scale = match unit {
            "tb" | "tbit" => 1e3,
            "gb" | "gbit" => 1.0,
            "mb" | "mbit" => 1e-3,
            "kb" | "kbit" => 1e-6,
            _ => return Err(error()),
        };
        Some(Self(number * scale))
            .filter(|rate| rate.is_positive())
            .ok_or_else(error)
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    /// The largest IEC unit that divides the number to at most one decimal: `64 KiB`, `1.5 MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [
            (1 << 40, "TiB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
        ];
        let text = match UNITS.iter().find(|(size, _)| self.0 >= *size) {
            Some((size, unit)) if self.0.is_multiple_of(*size) => {
                format!("{} {unit}", self.0 / size)
            }
            Some((size, unit)) => format!("{:.1} {unit}", self.0 as f64 / *size as f64),
            None => format!("{} B", self.0),
        };
        f.pad(&text)
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;

    /// Reads `64 KiB`, `8MiB`, `4096 B`, `4096`; `KB`, `MB`, `GB` are powers of 1000.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseUnitError {
            text: text.to_owned(),
            what: "whole number of bytes",
            example: "\"64 KiB\" or \"8 MiB\"",
        };
        let (number, unit) = split_number(text).ok_or_else(error)?;
        let scale = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "kib" => 1024.0,
            "mib" => 1024.0 * 1024.0,
            "gib" => 1024.0 * 1024.0 * 1024.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            _ => return Err(error()),
        };
        let bytes = number * scale;
        // 2^53: the largest range in which an f64 holds every whole number.
        if bytes.fract() != 0.0 || bytes > 9_007_199_254_740_992.0 {
            return Err(error());
        }
        Ok(Self(bytes as u64))
    }
}

/// RLIMIT_MEMLOCK as a process has it: how much memory it may register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemlockLimit {
    /// RLIM_INFINITY.
    Unlimited,
    /// At most so many bytes.
    Bytes(Bytes),
}

impl fmt::Display for MemlockLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.pad("unlimited"),
            Self::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, gbps) in [
            ("400 Gb/s", 400.0),
            ("64 Mb/s", 0.064),
            ("64mbit", 0.064),
            ("1.6Tbit/s", 1600.0),
            ("200Gbps", 200.0),
        ] {
            assert!(
                (text.parse::<Gbps>().unwrap().0 - gbps).abs() < 1e-9,
                "{text}"
            );
        }
        for text in ["400", "", "fast", "-3 Gb/s", "0 Gb/s", "4 GiB", "1e3 Gb/s"] {
            assert!(text.parse::<Gbps>().is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn rates_read_well() {
        for (gbps, text) in [
            (392.4, "392 Gb/s"),
            (25.04, "25.0 Gb/s"),
            (0.0631, "63.1 Mb/s"),
            (0.0, "0.00 Gb/s"),
            (0.9999, "1.00 Gb/s"),
        ] {
            assert_eq!(Gbps(gbps).to_string(), text);
        }
    }

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [
            ("64 KiB", 65536),
            ("8MiB", 8 << 20),
            ("4096", 4096),
            ("1 MB", 1_000_000),
        ] {
            assert_eq!(text.parse::<Bytes>().unwrap().0, bytes, "{text}");
        }
        for text in ["0.5", "KiB", "64 kbit", "99999999999 GiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text} was accepted");
        }
        assert_eq!(Bytes(65536).to_string(), "64 KiB");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
    }

    #[test]
    fn a_transfer_in_no_time_has_no_rate() {
        assert_eq!(Gbps::from_transfer(1, 0), None);
        assert_eq!(Gbps::from_transfer(1_000_000, 8_000), Some(Gbps(1.0)));
    }

    proptest! {
        #[test]
        fn any_text_is_a_rate_or_an_error(text in ".{0,20}") {
            if let Ok(rate) = text.parse::<Gbps>() {
                prop_assert!(rate.is_positive());
            }
            let _ = text.parse::<Bytes>();
        }
    }
}
