//! The JSON Schema of the config file.

use controller_runtime::config::{config_schema, effective};
use serde_json::{Value, json};

use super::toy::{ToyConfig, answer};

/// Returns whether `value` fits the schema, for the subset of JSON Schema in use.
fn fits(schema: &Value, value: &Value) -> bool {
    let fitting = |name: &str| {
        let branches = schema[name].as_array()?.iter();
        Some(branches.filter(|branch| fits(branch, value)).count())
    };
    if let Some(fitting) = fitting("anyOf") {
        return fitting > 0;
    }
    if let Some(fitting) = fitting("oneOf") {
        return fitting == 1;
    }
    let is = |name: &Value| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    };
    let typed = match &schema["type"] {
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    };
    let too_small =
        matches!((schema["minimum"].as_f64(), value.as_f64()), (Some(least), Some(n)) if n < least);
    let constant = schema.get("const").is_none_or(|constant| constant == value);
    let mut entries = value.as_object().into_iter().flatten();
    typed
        && !too_small
        && constant
        && entries.all(|(key, value)| match schema["properties"].get(key) {
            Some(schema) => fits(schema, value),
            None => schema["additionalProperties"] != json!(false),
        })
}

#[test]
fn the_schema_is_the_same_every_time() {
    let schema = config_schema::<ToyConfig>();
    assert_eq!(schema.to_string(), config_schema::<ToyConfig>().to_string());
    insta::assert_snapshot!(serde_json::to_string_pretty(&schema).unwrap());
}

#[test]
fn schema_and_parser_agree() {
    let taken = [
        "{}",
        r#"{"kubeApiQps": 5, "kubeApiBurst": 0, "remove": true, "shelfSize": -3}"#,
        r#"{"kubeconfig": null, "logFormat": null, "context": ""}"#,
        r#"{"logFormat": "json", "leaderElectRetryPeriod": "1s", "httpBindAddress": "[::]:0"}"#,
    ];
    let refused = [
        r#"{"nope": 1}"#,
        r#"{"kubeApiQps": -1}"#,
        r#"{"kubeApiQps": "5"}"#,
        r#"{"kubeApiBurst": -1}"#,
        r#"{"kubeApiBurst": null}"#,
        r#"{"concurrentSyncs": 0}"#,
        r#"{"logFormat": "xml"}"#,
        r#"{"logFormat": ""}"#,
        r#"{"leaderElectRetryPeriod": 1}"#,
        r#"{"remove": "true"}"#,
        "[]",
    ];
    let schema = config_schema::<ToyConfig>();
    let both = |config: &str| {
        let parsed = answer(config, "")[0].starts_with("run:");
        (fits(&schema, &config.parse().unwrap()), parsed)
    };
    for config in taken {
        assert_eq!(both(config), (true, true), "{config}");
    }
    for config in refused {
        assert_eq!(both(config), (false, false), "{config}");
    }
}

#[test]
fn the_effective_config_shows_every_setting_and_fits_the_schema() {
    let (schema, effective) = (config_schema::<ToyConfig>(), effective(&ToyConfig::default()));
    let keys = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&effective), keys(&schema["properties"]));
    assert!(fits(&schema, &effective));
}
