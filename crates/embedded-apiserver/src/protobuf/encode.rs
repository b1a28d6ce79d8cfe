//! From JSON to protobuf, byte for byte as the Go code of Kubernetes writes it: fields by number, maps by key, and
//! fields that are not pointers in Go even if they are empty.
//!
//! The API lets no value into the store that does not fit its field, such as a number for a text; only a test does. The
//! value is written in a wire format that no field of Kubernetes has: readers that know the field refuse the message,
//! as with JSON; others skip the field.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::Timestamp;
use serde_json::Value;

use super::wire::{put_bytes, put_integer, put_message, put_misfit};
use crate::schema::{Kind, Message, Numbered, Scalar};

const MICROSECOND: i32 = 1_000;

/// Appends the fields of a message. Drops fields of the object that the message lacks.
pub(crate) fn encode(of: &Message, object: &Value, to: &mut Vec<u8>) {
    for part in &of.fields {
        let value = match &part.name {
            None => Some(object),
            Some(name) => object.get(name).filter(|value| !value.is_null()),
        };
        field(part, value, to);
    }
}

fn field(part: &Numbered, value: Option<&Value>, to: &mut Vec<u8>) {
    let number = part.number;
    match (&part.kind, value) {
        (_, None) if part.is_pointer => {}
        (Kind::List { .. } | Kind::Map { .. } | Kind::Scalar(Scalar::Bytes), None) => {}
        (Kind::List { items: kind, .. }, Some(Value::Array(items))) => {
            for item in items {
                one(number, kind, item, to);
            }
        }
        (Kind::Map { values: kind, .. }, Some(Value::Object(entries))) => {
            for (key, value) in entries {
                put_message(number, to, |to| {
                    put_bytes(1, key.as_bytes(), to);
                    one(2, kind, value, to);
                });
            }
        }
        (kind, value) => one(number, kind, value.unwrap_or(&Value::Null), to),
    }
}

/// Encodes one value; null is encoded as the zero value.
fn one(number: u64, kind: &Kind, value: &Value, to: &mut Vec<u8>) {
    let written = match kind {
        Kind::Scalar(scalar) => put_scalar(number, *scalar, value, to),
        Kind::Any => {
            let text = Some(value).filter(|value| !value.is_null()).map(Value::to_string);
            put_message(number, to, |to| {
                if let Some(text) = text {
                    put_bytes(1, text.as_bytes(), to);
                }
            });
            Some(())
        }
        Kind::Struct { name, .. } if value.is_object() || value.is_null() => {
            Message::named(name).map(|of| put_message(number, to, |to| encode(of, value, to)))
        }
        Kind::Struct { .. } | Kind::List { .. } | Kind::Map { .. } => None,
    };
    if written.is_none() {
        put_misfit(number, to);
    }
}

fn put_scalar(number: u64, scalar: Scalar, value: &Value, to: &mut Vec<u8>) -> Option<()> {
    match scalar {
        Scalar::Text => text(value).map(|text| put_bytes(number, text.as_bytes(), to)),
        Scalar::Bytes => text(value)
            .and_then(|text| BASE64_STANDARD.decode(text).ok())
            .map(|bytes| put_bytes(number, &bytes, to)),
        Scalar::Bool => truth(value).map(|value| put_integer(number, value.into(), to)),
        Scalar::Int32 => integer(value)
            .filter(|value| i32::try_from(*value).is_ok())
            .map(|value| put_integer(number, value, to)),
        Scalar::Int64 => integer(value).map(|value| put_integer(number, value, to)),
        Scalar::Time => time(number, value, |_| 0, to),
        Scalar::MicroTime => time(number, value, |nanos| nanos - nanos % MICROSECOND, to),
        Scalar::Quantity => quantity(value)
            .map(|quantity| put_message(number, to, |to| put_bytes(1, quantity.as_bytes(), to))),
        Scalar::IntOrText => int_or_text(number, value, to),
        // Only custom resource definitions have floats, and these are not served in protobuf.
        Scalar::Float => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Null => Some(""),
        value => value.as_str(),
    }
}

fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Null => Some(false),
        value => value.as_bool(),
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Null => Some(0),
        value => value.as_i64(),
    }
}

fn quantity(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("0".to_owned()),
        Value::Number(number) => Some(number.to_string()),
        value => value.as_str().map(str::to_owned),
    }
}

/// Seconds, and the nanoseconds that `fraction` keeps; empty if the time is null.
fn time(number: u64, value: &Value, fraction: fn(i32) -> i32, to: &mut Vec<u8>) -> Option<()> {
    if value.is_null() {
        put_bytes(number, &[], to);
        return Some(());
    }
    let time: Timestamp = value.as_str()?.parse().ok()?;
    // Nanoseconds count forward, also before 1970.
    let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
    let seconds = time.as_nanosecond().div_euclid(1_000_000_000);
    let (seconds, nanos) = (i64::try_from(seconds).ok()?, i32::try_from(nanos).ok()?);
    put_message(number, to, |to| {
        put_integer(1, seconds, to);
        put_integer(2, fraction(nanos).into(), to);
    });
    Some(())
}

/// Type (0: number, 1: text), number, text.
fn int_or_text(number: u64, value: &Value, to: &mut Vec<u8>) -> Option<()> {
    let (is_text, integer, text) = match value {
        Value::String(text) => (1, 0, &**text),
        value => (0, integer(value)?, ""),
    };
    put_message(number, to, |to| {
        put_integer(1, is_text, to);
        put_integer(2, integer, to);
        put_bytes(3, text.as_bytes(), to);
    });
    Some(())
}
