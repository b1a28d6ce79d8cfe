//! Converts an object to the form in which the Go types of Kubernetes would write it.
//!
//! Drops unknown fields, drops or adds zero values as the type demands, and writes times in canonical form. A custom
//! resource only loses unknown fields and nulls.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::defaults;
use super::{Field, Kind, Presence, Scalar, Schema, Struct};
use crate::object::json_type;

/// A value that its type cannot hold, in the words of Go's decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misfit(String);

/// Decodes `object` in place: sets defaults and drops fields that its kind lacks.
pub(crate) fn decode(schema: Schema, object: &mut Value) -> Result<(), Misfit> {
    let mut decoder = Decoder {
        sets_defaults: true,
        ..Decoder::default()
    };
    decoder.value(schema, object)
}

/// Adds the fields that Go always writes.
pub(super) fn complete(schema: Schema, object: &mut Value) {
    // Cannot fail for an object that comes from its own type.
    let _ = Decoder::default().value(schema, object);
}

#[derive(Default)]
struct Decoder {
    /// Path of the current value, e.g. `spec.containers[0].image`.
    path: String,
    /// Name of the current struct.
    within: &'static str,
    sets_defaults: bool,
}

impl Decoder {
    fn value(&mut self, schema: Schema, value: &mut Value) -> Result<(), Misfit> {
        match schema.kind {
            Kind::Any => Ok(()),
            Kind::Scalar(scalar) => self.scalar(*scalar, value),
            Kind::Struct { name, .. } => {
                let Value::Object(fields) = value else {
                    return Err(self.misfit(value, &in_package(name)));
                };
                let Some(of) = schema.types.named(name) else {
                    return Ok(());
                };
                let outer = std::mem::replace(&mut self.within, name);
                self.fields(schema, of, fields)?;
                if self.sets_defaults {
                    defaults::set(name, fields);
                }
                self.within = outer;
                Ok(())
            }
            Kind::Map { values, .. } => {
                let Value::Object(fields) = value else {
                    let go_type = match **values {
                        Kind::Scalar(Scalar::Text) => "map[string]string",
                        _ => "map",
                    };
                    return Err(self.misfit(value, go_type));
                };
                for (name, value) in fields {
                    self.inside(schema.at(values), value, name)?;
                }
                Ok(())
            }
            Kind::List { items, .. } => {
                let Value::Array(list) = value else {
                    return Err(self.misfit(value, "slice"));
                };
                for (number, item) in list.iter_mut().enumerate() {
                    self.inside(schema.at(items), item, &number.to_string())?;
                }
                Ok(())
            }
        }
    }

    /// Decodes an item of a list or a value of a map.
    fn inside(&mut self, schema: Schema, value: &mut Value, which: &str) -> Result<(), Misfit> {
        let end = self.path.len();
        self.path.extend(["[", which, "]"]);
        self.value(schema, value)?;
        self.path.truncate(end);
        Ok(())
    }

    fn below(&mut self, schema: Schema, value: &mut Value, name: &str) -> Result<(), Misfit> {
        let end = self.path.len();
        if end > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        self.value(schema, value)?;
        self.path.truncate(end);
        Ok(())
    }

    fn fields(
        &mut self,
        schema: Schema,
        of: &'static Struct,
        fields: &mut Map<String, Value>,
    ) -> Result<(), Misfit> {
        if of.others.is_none() {
            fields.retain(|name, _| of.fields.contains_key(name));
        }
        for (name, field) in &of.fields {
            let kind = schema.at(&field.kind);
            if let Some(value) = fields.get_mut(name).filter(|value| !value.is_null()) {
                self.below(kind, value, name)?;
            }
            let is_left_out = match fields.get(name) {
                None | Some(Value::Null) => true,
                Some(value) => field.presence != Presence::Given && is_empty(&field.kind, value),
            };
            if !is_left_out {
                continue;
            }
            let default = field.default.as_ref().filter(|_| self.sets_defaults);
            match default.cloned().or_else(|| zero(field)) {
                Some(mut value) => {
                    if value.is_object() {
                        self.below(kind, &mut value, name)?;
                    }
                    fields.insert(name.clone(), value);
                }
                None => {
                    fields.remove(name);
                }
            }
        }
        Ok(())
    }

    fn scalar(&self, scalar: Scalar, value: &mut Value) -> Result<(), Misfit> {
        let fits = match (scalar, &*value) {
            // A null in a list or a map becomes the scalar's zero value.
            (Scalar::Text | Scalar::Bytes, Value::Null) => {
                *value = json!("");
                true
            }
            (_, Value::Null)
            | (Scalar::Text | Scalar::Bytes | Scalar::IntOrText, Value::String(_))
            | (Scalar::Bool, Value::Bool(_))
            | (Scalar::Float, Value::Number(_)) => true,
            (Scalar::Int32 | Scalar::IntOrText, Value::Number(number)) => number
                .as_i64()
                .is_some_and(|number| i32::try_from(number).is_ok()),
            (Scalar::Int64, Value::Number(number)) => number.is_i64(),
            (Scalar::Quantity, Value::Number(number)) => {
                *value = json!(number.to_string());
                true
            }
            (Scalar::Quantity, Value::String(text)) => {
                if !is_quantity(text) {
                    return Err(Misfit(QUANTITY.to_owned()));
                }
                true
            }
            (Scalar::Time | Scalar::MicroTime, Value::String(text)) => {
                *value = canonical_time(text, scalar)?;
                true
            }
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(self.misfit(value, scalar.names().0))
    }

    fn misfit(&self, value: &Value, go_type: &str) -> Misfit {
        let found = match value {
            Value::Number(number) if go_type.starts_with("int") => format!("number {number}"),
            other => json_type(other).to_owned(),
        };
        let within = last_word(self.within);
        let path = without_indices(&self.path);
        Misfit(format!(
            "json: cannot unmarshal {found} into Go struct field {within}.{path} of type {go_type}"
        ))
    }
}

/// The name of a type as Go prints it, e.g. `v1.ObjectMeta`.
fn in_package(name: &str) -> String {
    let mut words = name.rsplit('.');
    let (own, version) = (words.next().unwrap_or_default(), words.next().unwrap_or("v1"));
    format!("{version}.{own}")
}

const QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The value that Go writes for an unset field; `None` if Go omits the field.
pub(super) fn zero(field: &Field) -> Option<Value> {
    match field.presence {
        Presence::Null => Some(Value::Null),
        Presence::Always => Some(match &field.kind {
            Kind::Struct { .. } => json!({}),
            Kind::Scalar(Scalar::Text) => json!(""),
            Kind::Scalar(Scalar::Bool) => json!(false),
            Kind::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float | Scalar::IntOrText) => json!(0),
            Kind::Scalar(Scalar::Quantity) => json!("0"),
            _ => Value::Null,
        }),
        Presence::Given | Presence::NotZero => None,
    }
}

/// True if Go treats the value as not set.
fn is_empty(kind: &Kind, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && matches!(kind, Kind::Map { .. }),
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
    }
}

/// RFC 3339 in UTC, with seconds or microseconds; null for the zero time.
fn canonical_time(text: &str, scalar: Scalar) -> Result<Value, Misfit> {
    const ZERO: &str = "0001-01-01T00:00:00Z";
    /// Offset of the fraction of a second.
    const FRACTION: usize = 19;
    let misfit = |layout: &str, rest: &str, wanted: &str| {
        Misfit(format!(
            "parsing time \"{text}\" as \"{layout}\": cannot parse \"{rest}\" as \"{wanted}\""
        ))
    };
    let (layout, form) = if scalar == Scalar::MicroTime {
        ("2006-01-02T15:04:05.000000Z07:00", "%Y-%m-%dT%H:%M:%S%.6fZ")
    } else {
        ("2006-01-02T15:04:05Z07:00", "%Y-%m-%dT%H:%M:%SZ")
    };
    let time: Timestamp = text.parse().map_err(|_| misfit(layout, text, "2006"))?;
    let fraction = text.get(FRACTION..).unwrap_or_default();
    let digits = fraction
        .trim_start_matches('.')
        .chars()
        .take_while(char::is_ascii_digit);
    if scalar == Scalar::MicroTime && !(fraction.starts_with('.') && digits.count() == 6) {
        return Err(misfit(layout, fraction, ".000000"));
    }
    let canonical = time.strftime(form).to_string();
    Ok(if canonical == ZERO {
        Value::Null
    } else {
        json!(canonical)
    })
}

/// True if `text` is a quantity: a decimal number and a suffix.
fn is_quantity(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let is_exponent = |suffix: &str| {
        suffix
            .strip_prefix(['e', 'E'])
            .is_some_and(|exponent| exponent.parse::<i32>().is_ok())
    };
    number.contains(|c: char| c.is_ascii_digit())
        && number.matches('.').count() <= 1
        && (SUFFIXES.contains(&suffix) || is_exponent(suffix))
}

const SUFFIXES: [&str; 16] = [
    "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
];

/// For `core.v1.NodeSpec`: `NodeSpec`.
fn last_word(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// For `spec.containers[0].image`: `spec.containers.image`.
fn without_indices(path: &str) -> String {
    let mut inside = false;
    path.chars()
        .filter(|c| {
            let is_kept = !inside && *c != '[';
            inside = (inside || *c == '[') && *c != ']';
            is_kept
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LEASES, PODS, Resource};

    fn decoded(resource: &Resource, mut object: Value) -> Value {
        decode(resource.schema(), &mut object).unwrap();
        object
    }

    #[test]
    fn times_are_written_in_utc_in_the_precision_of_their_type() {
        assert_eq!(
            decoded(
                &LEASES,
                json!({ "spec": { "renewTime": "2026-01-01T02:00:00.500000+01:00" } })
            )["spec"],
            json!({ "renewTime": "2026-01-01T01:00:00.500000Z" })
        );
        let pod = json!({ "status": { "startTime": "2026-01-01T00:00:00.9Z" } });
        assert_eq!(
            decoded(&PODS, pod)["status"],
            json!({ "startTime": "2026-01-01T00:00:00Z" })
        );
    }

    #[test]
    fn unknown_fields_go() {
        let mut pod =
            json!({ "spec": { "containers": [{ "name": "c", "imag": 1 }], "nope": {} }, "extra": 1 });
        decode(PODS.schema(), &mut pod).unwrap();
        assert_eq!((pod.get("extra"), pod["spec"].get("nope")), (None, None));
        assert_eq!(pod["spec"]["containers"][0].get("imag"), None);
    }

    #[test]
    fn quantities_are_numbers_with_a_suffix() {
        for good in ["0", "1", "-1.5", "100m", "16384000Ki", "1e3", "1E-3", ".5", "5E"] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "m", "1.2.3", "1x", "1 ", "Ki", "1e"] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }
}
