//! What one setting is, read from the JSON Schema of its struct.

use std::fmt;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::redact::redacted;
use super::settings::ControllerConfig;

/// One setting: a key of the config file, a flag and an environment variable.
pub(crate) struct Property {
    /// Key in the config file, such as `kubeApiQps`.
    pub(crate) key: String,
    /// Without leading dashes, such as `kube-api-qps`.
    pub(crate) flag: String,
    /// Environment twin, such as `CONTROLLER_KUBE_API_QPS`.
    pub(crate) env: String,
    pub(crate) kind: Kind,
    /// One line.
    pub(crate) help: String,
    /// As a flag would be given; `None` where the setting is absent by default.
    pub(crate) default: Option<String>,
    /// The group of flags that it is listed with; `None` for the controller's own.
    pub(crate) heading: Option<String>,
    nullable: bool,
}

/// The type of a setting. Displays as what a value is expected to be.
pub(crate) enum Kind {
    Boolean,
    Integer { min: i128, max: i128 },
    Number,
    OneOf(Vec<String>),
    Text { format: Option<String> },
}

/// JSON Schema (draft 2020-12) of the config file: keys, types, defaults and descriptions, and no other keys.
///
/// `x-heading` names the group of flags that a key is listed with.
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
    let mut properties: Vec<_> = properties
        .map(|(key, schema)| Property::new(key, schema))
        .collect();
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

/// `kubeApiQps`, `KubeAPIQps` with its capitals one by one, and `kube_api_qps` as `kube-api-qps` is written.
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
        let description = schema["description"].as_str().unwrap_or_default();
        Self {
            key: key.to_owned(),
            env: format!("CONTROLLER_{}", flag.replace('-', "_").to_ascii_uppercase()),
            flag,
            kind: Kind::new(schema),
            help: description.split_whitespace().collect::<Vec<_>>().join(" "),
            default: schema.get("default").map(as_flag_value),
            heading: schema["x-heading"].as_str().map(str::to_owned),
            nullable: allows_null(schema),
        }
    }

    /// The value that a flag or an environment variable means by `text`.
    pub(crate) fn read(&self, text: &str) -> Value {
        let read = match &self.kind {
            Kind::Boolean => go_bool(text).map(Value::Bool),
            Kind::Integer { .. } => text
                .parse::<i64>()
                .map(Value::from)
                .or_else(|_| text.parse::<u64>().map(Value::from))
                .ok(),
            Kind::Number => text
                .parse::<f64>()
                .ok()
                .and_then(serde_json::Number::from_f64)
                .map(Value::Number),
            Kind::OneOf(_) | Kind::Text { .. } => None,
        };
        // What cannot be read stays text, which `check` then refuses by showing it.
        read.unwrap_or_else(|| Value::from(text))
    }

    /// `value` as the struct is to see it: an empty text is no value where there may be none, so that a flag
    /// can take back what the environment or the file has set.
    pub(crate) fn normalized(&self, value: Value) -> Value {
        match (&self.kind, &value) {
            (Kind::Text { .. }, Value::String(text)) if text.is_empty() && self.nullable => Value::Null,
            _ => value,
        }
    }

    /// Why `C` does not take `value` for this setting; one line that shows the value.
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
    fn new(schema: &Value) -> Self {
        let schema = without_null(schema);
        let choices = choices(schema);
        if !choices.is_empty() {
            return Self::OneOf(choices);
        }
        let format = schema["format"].as_str();
        match type_name(schema) {
            Some("boolean") => Self::Boolean,
            Some("integer") => {
                let (lowest, highest) = integer_range(format);
                let bound = |name: &str| schema[name].as_i64().map(i128::from);
                Self::Integer {
                    min: bound("minimum").unwrap_or(lowest),
                    max: bound("maximum").unwrap_or(highest),
                }
            }
            Some("number") => Self::Number,
            _ => Self::Text {
                format: format.map(str::to_owned),
            },
        }
    }

    /// How the value is called in the help.
    pub(crate) fn value_name(&self) -> String {
        match self {
            Self::Boolean => "BOOL".to_owned(),
            Self::Integer { .. } => "N".to_owned(),
            Self::Number => "F".to_owned(),
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
            Self::Integer { min, max } => integer(value).is_some_and(|n| (*min..=*max).contains(&n)),
            Self::Number => value.is_number(),
            Self::OneOf(choices) => value
                .as_str()
                .is_some_and(|text| choices.iter().any(|c| c == text)),
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

/// The branch of an optional type that is not `null`.
fn without_null(schema: &Value) -> &Value {
    let branches = schema["anyOf"].as_array().into_iter().flatten();
    branches
        .into_iter()
        .find(|branch| branch["type"] != "null")
        .unwrap_or(schema)
}

fn allows_null(schema: &Value) -> bool {
    let is_null = |schema: &Value| schema["type"] == "null";
    let names_null = |types: &Vec<Value>| types.iter().any(|name| name == "null");
    schema["anyOf"]
        .as_array()
        .is_some_and(|branches| branches.iter().any(is_null))
        || schema["type"].as_array().is_some_and(names_null)
}

fn type_name(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .find(|name| *name != "null"),
        name => name.as_str(),
    }
}

/// The texts of an enum: `enum` where its variants are not documented, a `const` each where they are.
fn choices(schema: &Value) -> Vec<String> {
    let plain = schema["enum"].as_array().into_iter().flatten();
    let branches = schema["oneOf"].as_array().into_iter().flatten();
    let documented = branches.flat_map(|branch| {
        let plain = branch["enum"].as_array().into_iter().flatten();
        plain.chain(branch.get("const"))
    });
    plain
        .chain(documented)
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn integer_range(format: Option<&str>) -> (i128, i128) {
    match format {
        Some("uint8") => (0, u8::MAX.into()),
        Some("uint16") => (0, u16::MAX.into()),
        Some("uint32") => (0, u32::MAX.into()),
        Some("uint64" | "uint") => (0, u64::MAX.into()),
        Some("int8") => (i8::MIN.into(), i8::MAX.into()),
        Some("int16") => (i16::MIN.into(), i16::MAX.into()),
        Some("int32") => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}

fn integer(value: &Value) -> Option<i128> {
    value
        .as_i64()
        .map(i128::from)
        .or_else(|| value.as_u64().map(i128::from))
}

/// Source: Go's `strconv.ParseBool`, which reads the flags of the upstream controllers.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Some(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// `value` without quotes, and without a fraction where it has none.
pub(super) fn as_flag_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number
            .as_f64()
            .filter(|_| number.is_f64())
            .map_or_else(|| number.to_string(), |n| n.to_string()),
        other => other.to_string(),
    }
}

/// `value` as JSON on one line, without secrets, cut where it is long.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 60;
    // JSON escapes the lower control characters only; a terminal obeys others as well.
    let text = value.to_string().replace(char::is_control, "\u{fffd}");
    let text = redacted(&text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}
