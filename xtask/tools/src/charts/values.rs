//! The values of a chart: their schema, their defaults, and `values.yaml`.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Chart, GENERATED, alerts, source, yaml};

/// Keys of the config file that a chart does not accept: the pod sets the first, and the second ends instead of
/// running.
const NOT_IN_A_CHART: [&str; 2] = ["leaderElectIdentity", "remove"];

/// The values of one chart, in the order of its documents.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) sections: Vec<Section>,
    /// The schema of `config`.
    pub(super) config: Value,
}

/// A section of `charts/src/values.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    #[serde(rename = "section")]
    pub(super) title: String,
    pub(super) values: Vec<Described>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Described {
    /// Path of the value, such as `image.tag`.
    pub(super) name: String,
    pub(super) about: String,
    pub(super) default: Value,
    pub(super) schema: Value,
}

impl Values {
    pub(super) fn of(chart: &Chart) -> Result<Self> {
        let text = source("", "values.yaml")?;
        let mut sections: Vec<Section> = yaml(&text).context("charts/src/values.yaml")?;
        for value in sections.iter_mut().flat_map(|section| &mut section.values) {
            match value.name.as_str() {
                "image.repository" => value.default = json!(chart.image()),
                "resources" => {
                    value.default = json!({
                        "requests": {"cpu": "10m", "memory": chart.memory.request},
                        "limits": {"memory": chart.memory.limit},
                    });
                }
                "tolerations" => value.default = json!((chart.tolerations)()),
                "hostPort" => value.default = json!(chart.host_port),
                "prometheusRule.runbookUrl" => value.default = json!(chart.runbooks()),
                "prometheusRule.alerts" => {
                    value.schema = alerts::schema(&alerts::parsed(&alerts::rules(chart)?)?);
                }
                _ => {}
            }
        }
        let mut config = (chart.config)();
        if let Some(config) = config.as_object_mut() {
            config.remove("$schema");
            config.remove("title");
        }
        if let Some(keys) = config["properties"].as_object_mut() {
            keys.retain(|key, _| !NOT_IN_A_CHART.contains(&key.as_str()));
        }
        Ok(Self { sections, config })
    }

    fn all(&self) -> impl Iterator<Item = &Described> {
        self.sections.iter().flat_map(|section| &section.values)
    }

    /// JSON Schema of the values; refuses unknown keys and requires all others.
    pub(super) fn schema(&self) -> Value {
        let mut root = object();
        root["$comment"] = json!(GENERATED.trim_start_matches("# ").trim_end());
        root["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        for value in self.all() {
            let mut schema = match value.name.as_str() {
                "config" => self.config.clone(),
                _ => value.schema.clone(),
            };
            schema["description"] = json!(value.about);
            schema["default"] = value.default.clone();
            let (parents, key) = split(&value.name);
            let mut place = &mut root;
            for parent in parents {
                add(place, parent, object());
                place = &mut place["properties"][parent];
            }
            add(place, key, schema);
        }
        let own = root["properties"].clone();
        let global = &mut root["properties"]["global"];
        for (key, schema) in global["properties"].as_object_mut().into_iter().flatten() {
            if schema["type"] == "object" && own.get(key).is_some() {
                let said = schema.clone();
                *schema = own[key].clone();
                schema["required"] = json!([]);
                schema["description"] = said["description"].clone();
                schema["default"] = said["default"].clone();
            }
        }
        open(global);
        root
    }

    /// `values.yaml`: every value at its default, with its description.
    pub(super) fn yaml(&self) -> Result<String> {
        let mut text = format!("{GENERATED}# README.md has the same as a table.\n");
        let mut open: Vec<&str> = Vec::new();
        for section in &self.sections {
            for value in &section.values {
                let (parents, key) = split(&value.name);
                let shared = parents.iter().zip(&open).take_while(|(a, b)| a == b).count();
                if shared == 0 {
                    text.push('\n');
                }
                for (depth, parent) in parents.iter().enumerate().skip(shared) {
                    writeln!(text, "{}{parent}:", indent(depth))?;
                }
                let indent = indent(parents.len());
                writeln!(text, "{indent}# {}", value.about)?;
                write!(text, "{}", entry(key, &value.default, &indent)?)?;
                if value.name == "config" {
                    self.config_comment(&mut text, &value.default)?;
                }
                open = parents;
            }
        }
        Ok(text)
    }

    /// Every config key whose default is not in `there`, commented out.
    fn config_comment(&self, text: &mut String, there: &Value) -> Result<()> {
        for (key, schema) in self.config_keys().filter(|(key, _)| there.get(key).is_none()) {
            let default = schema.get("default").unwrap_or(&Value::Null);
            writeln!(text, "  # {key}: {default}")?;
        }
        Ok(())
    }

    pub(super) fn config_keys(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.config["properties"].as_object().into_iter().flatten()
    }
}

/// Splits `image.tag` into the parent keys and the last key.
fn split(path: &str) -> (Vec<&str>, &str) {
    let mut keys: Vec<_> = path.split('.').collect();
    let own = keys.pop().unwrap_or(path);
    (keys, own)
}

/// Allows other keys: values for all charts of a release contain keys of other charts, and not always ours.
pub(super) fn open(global: &mut Value) {
    global["additionalProperties"] = json!(true);
    global["required"] = json!([]);
}

fn object() -> Value {
    json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false})
}

/// Adds a key to the schema of an object, unless the key exists.
fn add(object: &mut Value, key: &str, schema: Value) {
    if let Some(properties) = object["properties"].as_object_mut()
        && !properties.contains_key(key)
    {
        properties.insert(key.to_owned(), schema);
        if let Some(required) = object["required"].as_array_mut() {
            required.push(json!(key));
        }
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

/// `key: value`; on several lines if the value has parts.
fn entry(key: &str, value: &Value, indent: &str) -> Result<String> {
    let map = Map::from_iter([(key.to_owned(), value.clone())]);
    let lines = serde_saphyr::to_string(&map).with_context(|| format!("write {key}"))?;
    Ok(lines
        .lines()
        .fold(String::new(), |text, line| text + indent + line + "\n"))
}

/// Type of a value in words: `integer`, `list`, `one of a, b`.
pub(super) fn type_name(schema: &Value) -> String {
    if let Some(choices) = choices(schema) {
        let choices: Vec<_> = choices.iter().map(|choice| format!("`{choice}`")).collect();
        return choices.join(" or ");
    }
    if schema["format"] == "go-duration" {
        return "duration".to_owned();
    }
    let name = match &schema["type"] {
        Value::String(name) => name.as_str(),
        Value::Array(names) => names.iter().find_map(Value::as_str).unwrap_or_default(),
        _ => "",
    };
    if name == "array" { "list" } else { name }.to_owned()
}

/// The allowed words of a value; with `null` among them it may be omitted.
fn choices(schema: &Value) -> Option<Vec<&str>> {
    let words = |list: &'_ Value| list.as_array().map(Vec::len).unwrap_or_default() > 0;
    if words(&schema["enum"]) {
        return Some(
            schema["enum"]
                .as_array()?
                .iter()
                .filter_map(Value::as_str)
                .filter(|choice| !choice.is_empty())
                .collect(),
        );
    }
    if words(&schema["anyOf"]) {
        return schema["anyOf"].as_array()?.iter().find_map(choices);
    }
    let one_of = schema["oneOf"].as_array()?;
    Some(
        one_of
            .iter()
            .filter_map(|choice| choice["const"].as_str())
            .collect(),
    )
}
