//! Describes the settings of a config struct, from its JSON Schema.

use std::collections::BTreeMap;
use std::fmt;

use controller_core::config::ControllerConfig;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Number, Value, json};

use super::redact::redacted;

/// One setting: a key of the config file, a flag and an environment variable.
pub(crate) struct Property {
    /// Key in the config file, such as `kubeApiQps`.
    pub(crate) key: String,
    /// Without leading dashes, such as `kube-api-qps`.
    pub(crate) flag: String,
    /// Environment variable, such as `CONTROLLER_KUBE_API_QPS`.
    pub(crate) env: String,
    pub(crate) kind: Kind,
    /// One line.
    pub(crate) help: String,
    /// Default as the value of a flag; `None` if unset by default.
    pub(crate) default: Option<String>,
    /// Group of flags in the help; `None` for the controller's own.
    pub(crate) heading: Option<String>,
    nullable: bool,
}

/// The type of a setting. Displays as a description of the expected value.
pub(crate) enum Kind {
    Boolean,
    Integer {
        min: i128,
        max: i128,
    },
    Number,
    OneOf(Vec<String>),
    /// Only in the file.
    List,
    Text {
        format: Option<String>,
    },
}

/// JSON Schema (draft 2020-12) of the config file: keys, types, defaults and descriptions; refuses other keys.
///
/// `x-heading` names the key's group of flags in the help.
pub fn config_schema<C: ControllerConfig>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<C>();
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema.remove("required");
    let defaults = defaults::<C>();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (key, property) in properties {
            let Some(property) = property.as_object_mut() else {
                continue;
            };
            match defaults.get(key) {
                None | Some(Value::Null) => property.remove("default"),
                Some(default) => property.insert("default".to_owned(), default.clone()),
            };
        }
    }
    schema.to_value()
}

/// The settings of `C`, by key.
pub(crate) fn properties<C: ControllerConfig>() -> Vec<Property> {
    let schema = config_schema::<C>();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let properties = properties.map(|(key, schema)| Property::new(key, schema));
    let mut properties: Vec<_> = properties.collect();
    properties.sort_by(|a, b| a.key.cmp(&b.key));
    properties
}

/// The serialized `Default` of `C`.
pub(crate) fn defaults<C: ControllerConfig>() -> Map<String, Value> {
    match serde_json::to_value(C::default()) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Turns `kubeApiQps` and `kube_api_qps` into `kube-api-qps`; each capital starts a word.
pub(crate) fn kebab_case(key: &str) -> String {
    let mut kebab = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(if c == '_' { '-' } else { c.to_ascii_lowercase() });
    }
    kebab
}

impl Property {
    fn new(key: &str, schema: &Value) -> Self {
        let flag = kebab_case(key);
        let alternatives = alternatives(schema);
        let description = schema["description"].as_str().unwrap_or_default();
        Self {
            key: key.to_owned(),
            env: format!("CONTROLLER_{}", flag.replace('-', "_").to_ascii_uppercase()),
            flag,
            kind: Kind::new(&alternatives),
            help: description.split_whitespace().collect::<Vec<_>>().join(" "),
            default: schema.get("default").map(as_flag_value),
            heading: schema["x-heading"].as_str().map(str::to_owned),
            nullable: alternatives.iter().any(|schema| has_type(schema, "null")),
        }
    }

    /// True if it has a flag and an environment variable.
    pub(crate) const fn has_flag(&self) -> bool {
        !matches!(self.kind, Kind::List)
    }

    /// Parses the text of a flag or an environment variable.
    pub(crate) fn read(&self, text: &str) -> Value {
        let read = match &self.kind {
            Kind::Boolean => go_bool(text).map(Value::Bool),
            Kind::Integer { .. } => text.parse().ok().and_then(Number::from_i128).map(Value::Number),
            Kind::Number => text.parse().ok().and_then(Number::from_f64).map(Value::Number),
            Kind::OneOf(_) | Kind::List | Kind::Text { .. } => None,
        };
        // Unparsable text stays text; `check` then refuses and shows it.
        read.unwrap_or_else(|| Value::from(text))
    }

    /// `value` for the struct: empty text in an optional setting becomes null, so that a flag can unset a value from
    /// the environment or the file.
    pub(crate) fn normalized(&self, value: Value) -> Value {
        match (&self.kind, &value) {
            (Kind::Text { .. }, Value::String(text)) if text.is_empty() && self.nullable => Value::Null,
            _ => value,
        }
    }

    /// Fails if `C` refuses `value` for this setting, with one line that shows the value.
    pub(crate) fn check<C: ControllerConfig>(
        &self,
        value: &Value,
        defaults: &Map<String, Value>,
    ) -> Result<(), String> {
        let shown = shown(value);
        if !(self.kind.admits(value) || self.nullable && value.is_null()) {
            return Err(format!("invalid value {shown}: expected {}", self.kind));
        }
        let mut settings = defaults.clone();
        settings.insert(self.key.clone(), value.clone());
        match serde_json::from_value::<C>(Value::Object(settings)) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("invalid value {shown}: {error}")),
        }
    }
}

impl Kind {
    fn new(alternatives: &[&Value]) -> Self {
        let find = |name: &str| alternatives.iter().find_map(|schema| schema.get(name));
        let choices = alternatives.iter().flat_map(|schema| match &schema["enum"] {
            Value::Array(choices) => choices.iter().collect(),
            _ => vec![&schema["const"]],
        });
        let choices: Vec<_> = choices.filter_map(Value::as_str).map(str::to_owned).collect();
        if !choices.is_empty() {
            return Self::OneOf(choices);
        }
        let format = find("format").and_then(Value::as_str);
        let is = |name: &str| alternatives.iter().any(|schema| has_type(schema, name));
        if is("boolean") {
            Self::Boolean
        } else if is("array") {
            Self::List
        } else if is("integer") {
            let (lowest, highest) = integer_range(format.unwrap_or_default());
            let bound = |name: &str| find(name).and_then(Value::as_i64).map(i128::from);
            Self::Integer {
                min: bound("minimum").unwrap_or(lowest),
                max: bound("maximum").unwrap_or(highest),
            }
        } else if is("number") {
            Self::Number
        } else {
            Self::Text {
                format: format.map(str::to_owned),
            }
        }
    }

    /// Placeholder of the value in the help.
    pub(crate) fn value_name(&self) -> String {
        match self {
            Self::Boolean => "BOOL".to_owned(),
            Self::Integer { .. } => "N".to_owned(),
            Self::Number => "F".to_owned(),
            Self::List => "LIST".to_owned(),
            Self::OneOf(choices) => choices.join("|"),
            Self::Text { format } => match format.as_deref() {
                Some(GO_DURATION) => "DURATION".to_owned(),
                Some(format) => format.to_ascii_uppercase(),
                None => "NAME".to_owned(),
            },
        }
    }

    fn admits(&self, value: &Value) -> bool {
        match self {
            Self::Boolean => value.is_boolean(),
            Self::Integer { min, max } => value
                .as_number()
                .and_then(Number::as_i128)
                .is_some_and(|n| (*min..=*max).contains(&n)),
            Self::Number => value.is_number(),
            Self::List => value.is_array(),
            Self::OneOf(choices) => choices.iter().any(|choice| value == choice),
            Self::Text { .. } => value.is_string(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("true or false"),
            Self::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Number => f.write_str("a number"),
            Self::List => f.write_str("a list"),
            Self::OneOf(choices) => f.write_str(&choices.join(" or ")),
            Self::Text { format } => match format.as_deref() {
                Some(GO_DURATION) => f.write_str("a duration such as 1m30s"),
                Some("ip:port") => f.write_str("an address such as 127.0.0.1:8080"),
                Some(format) => write!(f, "a text ({format})"),
                None => f.write_str("a text"),
            },
        }
    }
}

const GO_DURATION: &str = "go-duration";

/// `schema` and, for optional types and enums, its branches, recursively.
fn alternatives(schema: &Value) -> Vec<&Value> {
    let branches = ["anyOf", "oneOf"]
        .iter()
        .filter_map(|name| schema[name].as_array());
    let branches = branches.flatten().flat_map(alternatives);
    [schema].into_iter().chain(branches).collect()
}

fn has_type(schema: &Value, name: &str) -> bool {
    let types = &schema["type"];
    types == name
        || types
            .as_array()
            .is_some_and(|types| types.iter().any(|one| one == name))
}

/// Lowest and highest value of an integer `format` (`uint32`, `int16`).
fn integer_range(format: &str) -> (i128, i128) {
    let bits = format
        .trim_start_matches(char::is_alphabetic)
        .parse()
        .unwrap_or(64);
    match format.strip_prefix("uint") {
        Some(_) => (0, (1 << bits) - 1),
        None => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// Source: Go's `strconv.ParseBool`, which parses the flags of the upstream controllers.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Some(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// `value` without quotes, whole numbers without a fraction; empty for null.
pub(super) fn as_flag_value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        other => other.to_string(),
    }
}

/// `value` as JSON on one line, without secrets, truncated to 60 characters.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 60;
    // JSON escapes only control characters below U+0020; terminals interpret others as well.
    let text = value.to_string().replace(char::is_control, "\u{fffd}");
    let text = redacted(&text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// The settings of [`effective`](super::effective) as flags, by name and value; an unset one has an empty value.
pub(crate) fn as_flags(effective: &Value) -> BTreeMap<String, String> {
    let settings = effective.as_object().into_iter().flatten();
    settings
        .map(|(key, value)| (kebab_case(key), as_flag_value(value)))
        .collect()
}
