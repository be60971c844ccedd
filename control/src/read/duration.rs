//! Durations as Go's `time.ParseDuration` reads them, which is what Kubernetes and Istio users write.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use super::names::shown;

/// A positive duration such as `1s`, `1h30m` or `1.5s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GoDuration(pub(super) Duration);

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).map(Self).ok_or_else(|| {
            de::Error::custom(format!(
                "{} is not a duration over zero: write it like \"500ms\", \"1s\", \"10m\" or \"1h30m\"",
                shown(&text)
            ))
        })
    }
}

pub(super) fn parse(text: &str) -> Option<Duration> {
    if text.is_empty() || text.len() > 64 || !text.is_ascii() {
        return None;
    }
    let mut rest = text;
    let mut total_ns: u128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        total_ns = total_ns.checked_add(nanoseconds(number, unit_ns(unit)?)?)?;
        rest = tail;
    }
    let seconds = u64::try_from(total_ns / 1_000_000_000).ok()?;
    let nanos = u32::try_from(total_ns % 1_000_000_000).ok()?;
    // Go's limit: 2^63-1 nanoseconds, about 292 years.
    (total_ns > 0 && i64::try_from(total_ns).is_ok()).then(|| Duration::new(seconds, nanos))
}

fn unit_ns(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// `number`, decimal with an optional fraction, in units of `unit` nanoseconds.
fn nanoseconds(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = |s: &str| {
        if s.is_empty() {
            Some(0)
        } else {
            s.parse::<u128>().ok()
        }
    };
    let mut total = digits(whole)?.checked_mul(unit)?;
    // 18 digits are more than a nanosecond of the greatest unit.
    let fraction = fraction.get(..18).unwrap_or(fraction);
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    total = total.checked_add(digits(fraction)?.checked_mul(unit)? / scale)?;
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, ms) in [
            ("1s", 1_000),
            ("10m", 600_000),
            ("24h", 86_400_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            (".5s", 500),
            ("1.s", 1_000),
            ("2m3.25s", 123_250),
            ("1000us", 1),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_positive_duration() {
        for text in [
            "",
            "0s",
            "0",
            "5",
            "-1s",
            "1d",
            "s",
            ".s",
            "1..5s",
            "1 s",
            "1s ",
            "1S",
            "999999999999999999h",
            "1e3s",
            "١s",
            &"1s".repeat(40),
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
