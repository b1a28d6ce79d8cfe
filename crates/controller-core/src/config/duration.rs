//! Durations in Go's notation.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A length of time in Go's notation: `1m30s`, `1.5s`, `300ms`, `0`.
///
/// Never negative and at most `i64::MAX` nanoseconds (292 years), the maximum in Go, so that adding one to a time of
/// this century cannot overflow.
///
/// Source: `time.ParseDuration` and `time.Duration.String`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(Duration);

const LONGEST_NANOS: u64 = i64::MAX as u64;
const TOO_LONG: &str = "longer than 292 years";
const SECOND: u128 = 1_000_000_000;

impl GoDuration {
    /// A duration of whole seconds.
    pub const fn from_secs(seconds: u32) -> Self {
        Self(Duration::from_secs(seconds as u64))
    }

    /// The duration as a standard [`Duration`].
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// An error says what is wrong with the text.
impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text)
    }
}

fn read(text: &str) -> Result<GoDuration, String> {
    if text.starts_with('-') {
        return Err("must not be negative".to_owned());
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(GoDuration::default());
    }
    let mut nanos = 0;
    loop {
        let (part, after) = read_part(rest)?;
        let sum = u64::try_from(u128::from(nanos) + part).ok();
        nanos = sum.filter(|sum| *sum <= LONGEST_NANOS).ok_or(TOO_LONG)?;
        if after.is_empty() {
            return Ok(GoDuration(Duration::from_nanos(nanos)));
        }
        rest = after;
    }
}

/// Reads one number with its unit, in nanoseconds; also returns the text after it.
fn read_part(text: &str) -> Result<(u128, &str), String> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err("expected a duration such as 1m30s".to_owned());
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit());
    let (unit, rest) = rest.split_at(end.unwrap_or(rest.len()));
    if unit.is_empty() {
        return Err("a number has no unit, expected a duration such as 1m30s".to_owned());
    }
    let nanos = match unit {
        "ns" => 1,
        // The micro sign, and the Greek mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        _ => {
            return Err(format!(
                "unknown unit {unit:?}, expected one of ns, us, ms, s, m, h"
            ));
        }
    };
    let whole: u64 = format!("0{whole}").parse().map_err(|_| TOO_LONG)?;
    // Truncates. Fifteen digits of an hour are finer than a nanosecond, and their product with the unit fits easily.
    let fraction: u64 = format!("{fraction:0<15.15}").parse().map_err(|_| TOO_LONG)?;
    let fraction = u128::from(fraction) * nanos / 1_000_000_000_000_000;
    Ok((u128::from(whole) * nanos + fraction, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < SECOND {
            let (unit, name) = match nanos {
                0..1_000 => (1, "ns"),
                1_000..1_000_000 => (1_000, "\u{b5}s"),
                _ => (1_000_000, "ms"),
            };
            return write_decimal(f, nanos, unit, name);
        }
        let (hours, minutes) = (nanos / (3_600 * SECOND), nanos / (60 * SECOND) % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write_decimal(f, nanos % (60 * SECOND), SECOND, "s")
    }
}

fn write_decimal(f: &mut fmt::Formatter<'_>, nanos: u128, unit: u128, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    let fraction = nanos % unit;
    if fraction > 0 {
        let width = unit.ilog10() as usize;
        write!(f, ".{}", format!("{fraction:0width$}").trim_end_matches('0'))?;
    }
    f.write_str(name)
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As with serde's own types, the reader of the document adds the key to the error.
        read(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "go-duration",
            "pattern": "^\\+?(0|(([0-9]+\\.?[0-9]*|\\.[0-9]+)(ns|us|\u{b5}s|\u{3bc}s|ms|s|m|h))+)$",
        })
    }
}
