//! Values as people write them: counts, rates, shares, times, sizes, links.

use std::ops::Range;

use jiff::SignedDuration;
use toml::{Spanned, Value as Toml};

use super::super::super::profile::{Amount, PcieDemand};
use super::super::Checker;
use crate::model::{Gbps, LinkSpeed, MemlockLimit, is_treacherous};

/// A form of value.
pub(super) struct Form<T> {
    /// What it is, with an example.
    pub what: &'static str,
    /// The value; none where it is not of this form.
    pub read: fn(&Toml) -> Option<T>,
}

impl<T> Form<T> {
    /// Reads a value, or says what it should be.
    pub(super) fn of(&self, checker: &mut Checker, key: &str, typed: &Spanned<Toml>) -> Option<T> {
        let read = (self.read)(typed.get_ref());
        if read.is_none() {
            self.refuse(checker, key, typed.span(), typed.get_ref());
        }
        read
    }

    fn refuse(&self, checker: &mut Checker, key: &str, span: Range<usize>, typed: &Toml) {
        let shown = match typed {
            Toml::Table(_) => "a table".to_owned(),
            Toml::Array(_) => "a list".to_owned(),
            other => other.to_string(),
        };
        let problem = checker.problem(Some(span), format!("`{key}` cannot be {shown} here"));
        problem.help(format!("write {}", self.what));
    }
}

fn text(value: &Toml) -> Option<&str> {
    value.as_str().map(str::trim)
}

/// More than there is of anything.
const MOST: i64 = 1 << 32;

fn number(value: &Toml) -> Option<f64> {
    let number = match value {
        Toml::Integer(number) => *number as f64,
        Toml::Float(number) => *number,
        Toml::String(text) => plain(text.trim())?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// A number without a sign or an exponent.
fn plain(text: &str) -> Option<f64> {
    let is_plain = |c: char| c.is_ascii_digit() || c == '.';
    text.chars().all(is_plain).then(|| text.parse().ok())?
}

pub(super) const WHOLE: Form<u64> = Form {
    what: "a whole number, such as 8",
    read: |value| {
        let number = match value {
            Toml::Integer(number) => *number,
            Toml::String(text) => text.trim().parse().ok()?,
            _ => return None,
        };
        u64::try_from(number).ok().filter(|_| number <= MOST)
    },
};

pub(super) const RATE: Form<Gbps> = Form {
    what: "a rate in bits with its unit, such as \"400 Gb/s\"",
    read: |value| rate(text(value)?),
};

/// Bits and no bytes: eight times as much is not what anybody means.
fn rate(text: &str) -> Option<Gbps> {
    let in_bytes = text.contains('B');
    (!in_bytes).then(|| text.parse().ok())?
}

pub(super) const AMOUNT: Form<Amount> = Form {
    what: "a rate in bits or a share, such as \"360 Gb/s\", \"92% of ceiling\" or \"90% of median\"",
    read: |value| {
        let text = text(value)?;
        if let Some((share, of)) = text.split_once(" of ") {
            let share = share_in(share)?;
            return match of.trim().trim_start_matches("the ") {
                "ceiling" => Some(Amount::OfCeiling(share)),
                "median" => Some(Amount::OfMedian(share)),
                _ => None,
            };
        }
        rate(text).map(Amount::Rate)
    },
};

/// `92%`: above 0, at most the whole.
fn share_in(text: &str) -> Option<f64> {
    let percent = plain(text.trim().strip_suffix('%')?.trim_end())?;
    (percent > 0.0 && percent <= 100.0).then_some(percent / 100.0)
}

pub(super) const SHARE: Form<f64> = Form {
    what: "a share above 0% and up to 100%, such as \"95%\"",
    read: |value| share_in(text(value)?),
};

pub(super) const TIME_NS: Form<u64> = Form {
    what: "a time with its unit, up to 1 s, such as \"5 us\"",
    read: |value| {
        let time: SignedDuration = text(value)?.parse().ok()?;
        let ns = u64::try_from(time.as_nanos()).ok()?;
        (1..=1_000_000_000).contains(&ns).then_some(ns)
    },
};

pub(super) const CORES: Form<f64> = Form {
    what: "cores, such as \"1.5 cores\"",
    read: |value| {
        let cores = match value {
            Toml::String(text) => {
                let text = text.trim();
                let text = text
                    .strip_suffix("cores")
                    .or_else(|| text.strip_suffix("core"))
                    .unwrap_or(text);
                plain(text.trim_end())?
            }
            other => number(other)?,
        };
        (cores > 0.0 && cores <= 1e4).then_some(cores)
    },
};

pub(super) const MEMLOCK: Form<MemlockLimit> = Form {
    what: "a size such as \"16 GiB\", or \"unlimited\"",
    read: |value| match text(value)? {
        "unlimited" => Some(MemlockLimit::Unlimited),
        size => size.parse().ok().map(MemlockLimit::Bytes),
    },
};

pub(super) const PCIE: Form<PcieDemand> = Form {
    what: "a PCIe link, such as \"Gen5 x16\", \"32 GT/s x16\", \"x16\", or \"capable\" for what both ends of each \
           link are capable of",
    read: |value| {
        let text = text(value)?;
        if text == "capable" {
            return Some(PcieDemand::Capable);
        }
        let (speed, width) = match text.rsplit_once('x') {
            Some((speed, width)) => (speed.trim(), Some(width)),
            None => (text, None),
        };
        let width = match width {
            Some(width) => Some(
                width
                    .parse()
                    .ok()
                    .filter(|width| [1, 2, 4, 8, 12, 16, 32].contains(width))?,
            ),
            None => None,
        };
        let speed = match speed {
            "" => None,
            speed => Some(link_speed(speed)?),
        };
        let says_something = speed.is_some() || width.is_some();
        says_something.then_some(PcieDemand::AtLeast { speed, width })
    },
};

/// `Gen5`, `32 GT/s`.
fn link_speed(text: &str) -> Option<LinkSpeed> {
    let by_name = LinkSpeed::ALL
        .into_iter()
        .find(|speed| speed.to_string().eq_ignore_ascii_case(text));
    by_name.or_else(|| {
        let rate = plain(text.strip_suffix("GT/s")?.trim_end())?;
        LinkSpeed::ALL
            .into_iter()
            .find(|speed| speed.gigatransfers() == rate)
    })
}

/// The longest text, in characters: no model or version comes near.
const LONGEST: usize = 100;

pub(super) const WORD: Form<String> = Form {
    what: "a text in quotes, of at most 100 characters, such as \"28.39.1002\"",
    read: |value| {
        let text = text(value)?;
        let length = text.chars().count();
        let fits = (1..=LONGEST).contains(&length) && !text.chars().any(is_treacherous);
        fits.then(|| text.to_owned())
    },
};

pub(super) const VERSION: Form<String> = Form {
    what: "a version of numbers and dots, such as \"28.39.1002\"",
    read: |value| {
        let text = text(value)?;
        let fits = text.len() <= LONGEST && text.starts_with(|c: char| c.is_ascii_digit());
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_+".contains(c);
        (fits && text.chars().all(is_part)).then(|| text.to_owned())
    },
};

/// The number of a NUMA node; none where it is that of the GPU.
pub(super) const NUMA: Form<Option<u32>> = Form {
    what: "\"as GPU\" for the NUMA node of the nearest GPU, or the number of a node",
    read: |value| match value {
        Toml::Integer(number) => u32::try_from(*number).ok().map(Some),
        other => text(other)?.eq_ignore_ascii_case("as GPU").then_some(None),
    },
};

/// A day.
pub(super) const DAY: Form<jiff::civil::Date> = Form {
    what: "a day, such as 2027-03-31",
    read: |value| {
        let text = match value {
            Toml::String(text) => text.trim().to_owned(),
            Toml::Datetime(day) if day.time.is_none() => day.to_string(),
            _ => return None,
        };
        let is_day = text.len() == 10;
        is_day.then(|| text.parse().ok())?
    },
};
