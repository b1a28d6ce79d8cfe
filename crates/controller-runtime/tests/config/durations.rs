//! Durations in Go's notation.

use std::time::Duration;

use controller_core::config::GoDuration;
use controller_runtime::config::config_schema;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::rows;
use super::toy::ToyConfig;

fn read(text: impl Into<Value>) -> Result<GoDuration, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

#[test]
fn a_duration_is_read_and_written_as_go_does() {
    for [text, nanos, expected] in rows(include_str!("durations.txt")) {
        let read = read(text.parse::<Value>().unwrap());
        if nanos == "refused" {
            assert_eq!(read, Err(expected.to_owned()), "{text}");
            continue;
        }
        let (read, nanos) = (read.expect(text), nanos.replace('_', "").parse().unwrap());
        assert_eq!(read.get(), Duration::from_nanos(nanos), "{text}");
        assert_eq!(json!(read), expected.parse::<Value>().unwrap(), "{text}");
        assert_eq!(json!(read), read.to_string(), "{text}");
    }
}

/// Texts that match the pattern of the published schema.
fn texts_of_the_schema() -> impl Strategy<Value = String> {
    let schema = config_schema::<ToyConfig>();
    let pattern = &schema["properties"]["leaderElectLeaseDuration"]["pattern"];
    proptest::string::string_regex(pattern.as_str().unwrap().trim_matches(['^', '$'])).unwrap()
}

proptest! {
    #[test]
    fn any_length_survives_being_written_and_read(nanos in 0..=i64::MAX as u64) {
        let duration = read(format!("{nanos}ns")).unwrap();
        prop_assert_eq!(duration.get(), Duration::from_nanos(nanos));
        prop_assert_eq!(read(duration.to_string()), Ok(duration));
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = read(text);
    }

    #[test]
    fn what_looks_like_a_duration_is_read_or_refused(text in "[-+]?([0-9]{0,25}\\.?[0-9]{0,25}(ns|us|ms|s|m|h|)){0,5}") {
        let _ = read(text);
    }

    #[test]
    fn what_the_schema_allows_is_a_duration_unless_it_is_too_long(text in texts_of_the_schema()) {
        let why = read(text).err();
        prop_assert!(why.is_none_or(|why| why == "longer than 292 years"));
    }
}
