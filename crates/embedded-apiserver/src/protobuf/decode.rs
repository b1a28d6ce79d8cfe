//! From protobuf to JSON. Go writes every field that is not a pointer, so a zero value means that the field was not
//! set.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::wire::{self, Malformed, Wire};
use crate::schema::{Kind, Message, Scalar};

/// Decodes the known fields of a message.
pub(super) fn decode(of: &Message, mut raw: &[u8]) -> Result<Map<String, Value>, Malformed> {
    let mut object = Map::new();
    while let Some((number, wire)) = wire::field(&mut raw)? {
        let Some(field) = of.fields.iter().find(|field| field.number == number) else {
            continue;
        };
        match (&field.kind, &field.name) {
            (Kind::Struct { name: part, .. }, None) => {
                let part = Message::named(part).ok_or(Malformed)?;
                object.append(&mut decode(part, wire.bytes()?)?);
            }
            (_, None) => return Err(Malformed),
            (Kind::List { items, .. }, Some(name)) => {
                let list = object.entry(name).or_insert_with(|| json!([]));
                list.as_array_mut().ok_or(Malformed)?.push(one(items, wire)?);
            }
            (Kind::Map { values, .. }, Some(name)) => {
                let (key, value) = entry(values, wire.bytes()?)?;
                object.entry(name).or_insert_with(|| json!({}))[key] = value;
            }
            (kind, Some(name)) => {
                let value = one(kind, wire)?;
                if field.is_pointer || !is_nothing(&value) {
                    object.insert(name.clone(), value);
                }
            }
        }
    }
    Ok(object)
}

fn is_nothing(value: &Value) -> bool {
    *value == Value::Null || *value == Value::Bool(false) || *value == json!("") || *value == json!(0)
}

fn one(kind: &Kind, wire: Wire<'_>) -> Result<Value, Malformed> {
    Ok(match kind {
        Kind::Scalar(scalar) => read_scalar(*scalar, wire)?,
        Kind::Any => {
            let parts = Parts::read(wire.bytes()?)?;
            match &*parts.text {
                "" => Value::Null,
                text => serde_json::from_str(text).map_err(|_| Malformed)?,
            }
        }
        Kind::Struct { name, .. } => {
            let of = Message::named(name).ok_or(Malformed)?;
            Value::Object(decode(of, wire.bytes()?)?)
        }
        Kind::List { .. } | Kind::Map { .. } => return Err(Malformed),
    })
}

fn read_scalar(scalar: Scalar, wire: Wire<'_>) -> Result<Value, Malformed> {
    Ok(match scalar {
        Scalar::Text => json!(wire.text()?),
        Scalar::Bytes => json!(BASE64_STANDARD.encode(wire.bytes()?)),
        Scalar::Bool => json!(wire.integer()? != 0),
        Scalar::Int32 | Scalar::Int64 => json!(wire.integer()?),
        Scalar::Time => time(wire.bytes()?, |time| time.to_string())?,
        Scalar::MicroTime => time(wire.bytes()?, |time| format!("{time:.6}"))?,
        Scalar::Quantity => {
            let parts = Parts::read(wire.bytes()?)?;
            json!(parts.text)
        }
        Scalar::IntOrText => {
            let parts = Parts::read(wire.bytes()?)?;
            if parts.first == 0 {
                json!(parts.second)
            } else {
                json!(parts.text)
            }
        }
        // Only custom resource definitions have floats, and these are not served in protobuf.
        Scalar::Float => return Err(Malformed),
    })
}

/// An entry of a map: its key (field 1) and value (field 2).
fn entry(kind: &Kind, mut raw: &[u8]) -> Result<(String, Value), Malformed> {
    let (mut key, mut value) = (String::new(), Value::Null);
    while let Some((number, wire)) = wire::field(&mut raw)? {
        match number {
            1 => key = wire.text()?,
            2 => value = one(kind, wire)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn time(raw: &[u8], write: fn(Timestamp) -> String) -> Result<Value, Malformed> {
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    let parts = Parts::read(raw)?;
    let nanos = i32::try_from(parts.second).map_err(|_| Malformed)?;
    let time = Timestamp::new(parts.first, nanos).map_err(|_| Malformed)?;
    Ok(json!(write(time)))
}

/// The content of small messages that are not objects in JSON: the integers in fields 1 and 2, and a text.
#[derive(Default)]
struct Parts {
    first: i64,
    second: i64,
    text: String,
}

impl Parts {
    fn read(mut raw: &[u8]) -> Result<Self, Malformed> {
        let mut parts = Self::default();
        while let Some((number, wire)) = wire::field(&mut raw)? {
            match (number, wire) {
                (_, Wire::Bytes(_)) => parts.text = wire.text()?,
                (1, _) => parts.first = wire.integer()?,
                (2, _) => parts.second = wire.integer()?,
                _ => return Err(Malformed),
            }
        }
        Ok(parts)
    }
}
