//! Durations as Go writes them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A length of time in Go's notation: `1m30s`, `1.5s`, `300ms`, `0`.
///
/// Never negative and at most `i64::MAX` nanoseconds (292 years), the longest that Go can hold, so that
/// adding one to a time of this century cannot overflow.
///
/// Source: `time.ParseDuration` and `time.Duration.String`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(Duration);

/// A text that is not a [`GoDuration`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration {value:?}: {problem}")]
pub struct GoDurationError {
    value: String,
    problem: Problem,
}

/// What is wrong with a duration, without its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("expected a duration such as 1m30s")]
    NotADuration,
    #[error("a number has no unit, expected a duration such as 1m30s")]
    NoUnit,
    #[error("unknown unit {0:?}, expected one of ns, us, ms, s, m, h")]
    UnknownUnit(String),
    #[error("must not be negative")]
    Negative,
    #[error("longer than 292 years")]
    TooLong,
}

const LONGEST_NANOS: u128 = i64::MAX as u128;
const SECOND: u128 = 1_000_000_000;

/// Both spellings of micro: U+00B5 (micro sign) and U+03BC (Greek mu).
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3_600 * SECOND),
];

impl GoDuration {
    /// Whole seconds.
    pub const fn from_secs(seconds: u32) -> Self {
        Self(Duration::from_secs(seconds as u64))
    }

    /// The length as the standard library has it.
    pub const fn get(self) -> Duration {
        self.0
    }

    fn from_nanos(nanos: u128) -> Option<Self> {
        let nanos = u64::try_from(nanos)
            .ok()
            .filter(|nanos| u128::from(*nanos) <= LONGEST_NANOS)?;
        Some(Self(Duration::from_nanos(nanos)))
    }
}

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.0
    }
}

/// Saturates at the longest duration.
impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(duration.as_nanos().min(LONGEST_NANOS)).unwrap_or_default()
    }
}

impl FromStr for GoDuration {
    type Err = GoDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text).map_err(|problem| GoDurationError {
            value: text.to_owned(),
            problem,
        })
    }
}

fn read(text: &str) -> Result<GoDuration, Problem> {
    if text.starts_with('-') {
        return Err(Problem::Negative);
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" {
        return Ok(GoDuration::default());
    }
    if text.is_empty() {
        return Err(Problem::NotADuration);
    }
    let mut nanos: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (part, after) = read_part(rest)?;
        // Each part is at most the longest, so the sum of two cannot overflow.
        nanos = nanos.saturating_add(part);
        if nanos > LONGEST_NANOS {
            return Err(Problem::TooLong);
        }
        rest = after;
    }
    GoDuration::from_nanos(nanos).ok_or(Problem::TooLong)
}

/// One number with its unit, in nanoseconds, and the text after it.
fn read_part(text: &str) -> Result<(u128, &str), Problem> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(Problem::NotADuration);
    }
    let end = rest
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    if unit.is_empty() {
        return Err(Problem::NoUnit);
    }
    let Some((_, nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(Problem::UnknownUnit(unit.to_owned()));
    };
    let whole = match whole.trim_start_matches('0') {
        "" => 0,
        digits => digits.parse::<u64>().map_err(|_| Problem::TooLong)?,
    };
    Ok((u128::from(whole) * nanos + fraction_of(fraction, *nanos), rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `0.DIGITS` of a unit, cut (not rounded) to whole nanoseconds.
fn fraction_of(digits: &str, unit: u128) -> u128 {
    // Fifteen digits of an hour reach below a nanosecond, and their product with it fits easily.
    let (mut value, mut scale) = (0, 1);
    for digit in digits.bytes().take(15) {
        value = value * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    value * unit / scale
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
        // As with serde's own types, whoever reads the document names the value.
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
