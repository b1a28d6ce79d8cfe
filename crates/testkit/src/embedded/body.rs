//! Bodies of requests as JSON, and what is said about fields that do not belong there.

use std::collections::BTreeSet;
use std::fmt;

use parking_lot::Mutex;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

/// What happens about unknown and duplicate fields, by the parameter `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FieldValidation {
    /// They are dropped without a word.
    Ignore,
    /// The answer warns of them.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// How strictly a request is read, and what there was to say about it.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) validation: FieldValidation,
    warnings: Mutex<Vec<String>>,
}

/// That of the server's own writes, and of tests': what is not in the schema is dropped.
pub(super) static UNCHECKED: Reading = Reading {
    validation: FieldValidation::Ignore,
    warnings: Mutex::new(Vec::new()),
};

/// A body, and the paths of the fields that it has twice.
#[derive(Debug, PartialEq)]
pub(super) struct Parsed {
    pub(super) value: Value,
    pub(super) duplicates: Vec<String>,
}

/// Text that is not JSON or YAML; in words like Go's.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unreadable(String);

impl From<Value> for Parsed {
    fn from(value: Value) -> Self {
        Self {
            value,
            duplicates: Vec::new(),
        }
    }
}

impl Reading {
    /// Reads the parameter `fieldValidation`.
    pub(super) fn of(parameter: &str) -> Self {
        Self {
            validation: match parameter {
                "Ignore" => FieldValidation::Ignore,
                "Strict" => FieldValidation::Strict,
                _ => FieldValidation::Warn,
            },
            warnings: Mutex::default(),
        }
    }

    /// What is wrong with the fields of a body: an error where that is not allowed.
    pub(super) fn report(&self, complaints: Vec<String>) -> Result<(), String> {
        match self.validation {
            _ if complaints.is_empty() => {}
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.lock().extend(complaints),
            FieldValidation::Strict => {
                return Err(format!("strict decoding error: {}", complaints.join(", ")));
            }
        }
        Ok(())
    }

    /// Texts for `Warning` headers.
    pub(super) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }
}

/// Parses JSON.
pub(super) fn json(bytes: &[u8]) -> Result<Parsed, Unreadable> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let node = Node {
        path: String::new(),
        duplicates: &mut duplicates,
    };
    node.deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map(|value| Parsed { value, duplicates })
        .map_err(|error| {
            Unreadable(if error.is_eof() {
                "unexpected end of JSON input".to_owned()
            } else {
                error.to_string()
            })
        })
}

/// Parses YAML, of which JSON is a part. Of fields that it has twice the last counts.
pub(super) fn yaml(bytes: &[u8]) -> Result<Parsed, Unreadable> {
    if bytes.trim_ascii_start().starts_with(b"{")
        && let Ok(parsed) = json(bytes)
    {
        return Ok(parsed);
    }
    let text = String::from_utf8_lossy(bytes);
    let read = |duplicate_keys| {
        let options = serde_saphyr::options! { duplicate_keys: duplicate_keys };
        serde_saphyr::from_str_with_options::<Value>(&text, options)
    };
    let value = read(DuplicateKeyPolicy::LastWins)
        .map_err(|error| Unreadable(format!("error converting YAML to JSON: yaml: {error}")))?;
    let duplicates = match read(DuplicateKeyPolicy::Error) {
        Ok(_) => Vec::new(),
        Err(error) => vec![error.to_string()],
    };
    Ok(Parsed { value, duplicates })
}

/// Reads a value and keeps the paths of fields that come twice in one object.
struct Node<'a> {
    path: String,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Node {
            path: format!("{}[{}]", self.path, list.len()),
            duplicates: self.duplicates,
        })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        let mut named = BTreeSet::new();
        while let Some(name) = entries.next_key::<String>()? {
            let path = if self.path.is_empty() {
                name.clone()
            } else {
                format!("{}.{name}", self.path)
            };
            if fields.contains_key(&name) && named.insert(name.clone()) {
                self.duplicates.push(path.clone());
            }
            let value = entries.next_value_seed(Node {
                path,
                duplicates: self.duplicates,
            })?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_come_twice_are_named_once_and_the_last_counts() {
        let parsed = json(br#"{"a":{"b":1,"b":2,"b":3},"c":[{"d":1,"d":null}],"a2":1.5}"#).unwrap();
        assert_eq!(
            parsed,
            Parsed {
                value: json!({ "a": { "b": 3 }, "c": [{ "d": null }], "a2": 1.5 }),
                duplicates: vec!["a.b".to_owned(), "c[0].d".to_owned()],
            }
        );
    }

    #[test]
    fn a_body_that_ends_early_is_called_that() {
        assert_eq!(
            json(br#"{"a":"#).unwrap_err().to_string(),
            "unexpected end of JSON input"
        );
        assert!(json(b"{} x").is_err());
    }

    #[test]
    fn yaml_and_json_are_both_read() {
        let expected = json!({ "a": { "b": "c" }, "n": 1, "t": "yes" });
        let yaml_text = b"a:\n  b: c\nn: 1\nt: \"yes\"\n";
        assert_eq!(yaml(yaml_text).unwrap().value, expected);
        assert_eq!(
            yaml(br#" {"a":{"b":"c"},"n":1,"t":"yes"}"#).unwrap().value,
            expected
        );
        assert_eq!(yaml(b"a: b\na: c").unwrap().duplicates.len(), 1);
        assert!(yaml(b"a: [").is_err());
    }
}
