//! The messages of Kubernetes' types, and how each field of theirs reads in JSON.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::wire::{Malformed, Reader, Wire};

/// Made from the Go types by `crates/testkit/control-plane/messages`, which tells its format.
const TEXT: &str = include_str!("messages.txt");

/// How deep messages may be nested.
const DEPTH: usize = 64;

static MESSAGES: LazyLock<Messages> = LazyLock::new(|| Messages::parse(TEXT));

#[derive(Default)]
struct Messages {
    /// Message by apiVersion and kind.
    kinds: BTreeMap<(&'static str, &'static str), &'static str>,
    /// Fields by number, by message.
    fields: BTreeMap<&'static str, BTreeMap<u64, Field>>,
}

struct Field {
    /// Empty for what belongs to the object around it.
    name: &'static str,
    /// Whether JSON leaves it out when it is empty.
    omits_empty: bool,
    kind: Kind,
}

enum Kind {
    Text,
    Bool,
    Integer,
    Float,
    /// Base64 in JSON.
    Bytes,
    /// JSON in bytes.
    Raw,
    Time,
    MicroTime,
    IntOrString,
    Quantity,
    /// A message of nothing but a list of texts.
    Items,
    Map(Box<Self>),
    List(Box<Self>),
    Message(&'static str),
}

/// The object of this kind in `raw`, without its kind.
pub(super) fn decode(api_version: &str, kind: &str, raw: &[u8]) -> Result<Map<String, Value>, Malformed> {
    // Options are sent in the version of whatever is deleted.
    let api_version = if kind == "DeleteOptions" {
        "v1"
    } else {
        api_version
    };
    let message = MESSAGES.kinds.get(&(api_version, kind)).ok_or(Malformed)?;
    let mut object = Map::new();
    read(message, raw, &mut object, 0)?;
    Ok(object)
}

fn read(message: &str, raw: &[u8], object: &mut Map<String, Value>, depth: usize) -> Result<(), Malformed> {
    if depth > DEPTH {
        return Err(Malformed);
    }
    let fields = MESSAGES.fields.get(message).ok_or(Malformed)?;
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.field()? {
        let Some(field) = fields.get(&number) else {
            // Of a later release.
            continue;
        };
        match &field.kind {
            Kind::Message(part) if field.name.is_empty() => read(part, wire.bytes()?, object, depth + 1)?,
            Kind::List(kind) => {
                let list = object.entry(field.name).or_insert_with(|| json!([]));
                list.as_array_mut()
                    .ok_or(Malformed)?
                    .push(value(kind, wire, depth)?);
            }
            Kind::Map(kind) => {
                let (key, value) = entry(kind, wire.bytes()?, depth)?;
                object.entry(field.name).or_insert_with(|| json!({}))[key] = value;
            }
            kind => {
                let value = value(kind, wire, depth)?;
                let is_left_out = value.is_null() || (field.omits_empty && is_empty(&value));
                if !is_left_out {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

fn value(kind: &Kind, wire: Wire<'_>, depth: usize) -> Result<Value, Malformed> {
    Ok(match kind {
        Kind::Text => json!(wire.text()?),
        Kind::Bool => json!(wire.integer()? != 0),
        Kind::Integer => json!(wire.integer()?),
        Kind::Float => json!(wire.float()?),
        Kind::Bytes => json!(base64(wire.bytes()?)),
        Kind::Raw => match only(wire.bytes()?)? {
            None => Value::Null,
            Some(json) => serde_json::from_slice(json.bytes()?).map_err(|_| Malformed)?,
        },
        Kind::Time => time(wire.bytes()?, "%Y-%m-%dT%H:%M:%SZ")?,
        Kind::MicroTime => time(wire.bytes()?, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
        Kind::IntOrString => int_or_string(wire.bytes()?)?,
        Kind::Quantity => match only(wire.bytes()?)? {
            None => json!("0"),
            Some(text) => json!(text.text()?),
        },
        Kind::Items => {
            let mut items = Vec::new();
            let mut reader = Reader::new(wire.bytes()?);
            while let Some((_, item)) = reader.field()? {
                items.push(item.text()?);
            }
            json!(items)
        }
        Kind::Message(message) => {
            let mut object = Map::new();
            read(message, wire.bytes()?, &mut object, depth + 1)?;
            Value::Object(object)
        }
        // Neither holds the other.
        Kind::Map(_) | Kind::List(_) => return Err(Malformed),
    })
}

/// An entry of a map: 1 is its key, 2 its value.
fn entry(kind: &Kind, raw: &[u8], depth: usize) -> Result<(String, Value), Malformed> {
    let (mut key, mut content) = (String::new(), None);
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => key = wire.text()?,
            2 => content = Some(wire),
            _ => {}
        }
    }
    let content = content.unwrap_or(Wire::Bytes(&[]));
    Ok((key, value(kind, content, depth)?))
}

/// Field 1 of a message that has no other.
fn only(raw: &[u8]) -> Result<Option<Wire<'_>>, Malformed> {
    Ok(Reader::new(raw).field()?.map(|(_, wire)| wire))
}

/// 1 are seconds since 1970, 2 are nanoseconds; null for Go's zero time, which is empty.
fn time(raw: &[u8], format: &str) -> Result<Value, Malformed> {
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanoseconds) = (0, 0);
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => seconds = wire.integer()?,
            2 => nanoseconds = i32::try_from(wire.integer()?).map_err(|_| Malformed)?,
            _ => {}
        }
    }
    let time = Timestamp::new(seconds, nanoseconds).map_err(|_| Malformed)?;
    Ok(json!(time.strftime(format).to_string()))
}

/// 1 tells which of them it is, 2 is the number, 3 the text.
fn int_or_string(raw: &[u8]) -> Result<Value, Malformed> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    let mut reader = Reader::new(raw);
    while let Some((field, wire)) = reader.field()? {
        match field {
            1 => is_text = wire.integer()? == 1,
            2 => number = wire.integer()?,
            3 => text = wire.text()?,
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            text.push(if place <= chunk.len() {
                char::from(ALPHABET[bits >> (18 - 6 * place) & 63])
            } else {
                '='
            });
        }
    }
    text
}

impl Messages {
    fn parse(text: &'static str) -> Self {
        let mut messages = Self::default();
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("= ") {
                let mut words = kind.split(' ');
                if let (Some(api_version), Some(kind), Some(message)) =
                    (words.next(), words.next(), words.next())
                {
                    messages.kinds.insert((api_version, kind), message);
                }
                continue;
            }
            let mut parts = line.split("; ");
            let message = parts.next().unwrap_or_default();
            messages
                .fields
                .insert(message, parts.filter_map(Field::parse).collect());
        }
        messages
    }
}

impl Field {
    /// E.g. `3:finalizers?:list string`.
    fn parse(text: &'static str) -> Option<(u64, Self)> {
        let mut parts = text.split(':');
        let number = parts.next()?.parse().ok()?;
        let name = parts.next()?;
        let field = Self {
            name: name.trim_end_matches('?'),
            omits_empty: name.ends_with('?'),
            kind: Kind::parse(parts.next()?),
        };
        Some((number, field))
    }
}

impl Kind {
    fn parse(text: &'static str) -> Self {
        if let Some(of) = text.strip_prefix("list ") {
            return Self::List(Box::new(Self::parse(of)));
        }
        if let Some(of) = text.strip_prefix("map ") {
            return Self::Map(Box::new(Self::parse(of)));
        }
        match text {
            "string" => Self::Text,
            "bool" => Self::Bool,
            "int" => Self::Integer,
            "float" => Self::Float,
            "bytes" => Self::Bytes,
            "raw" => Self::Raw,
            "time" => Self::Time,
            "microTime" => Self::MicroTime,
            "intOrString" => Self::IntOrString,
            "quantity" => Self::Quantity,
            "items" => Self::Items,
            message => Self::Message(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_that_is_named_is_known() {
        fn check(kind: &Kind) {
            match kind {
                Kind::Message(message) => assert!(MESSAGES.fields.contains_key(message), "{message}"),
                Kind::List(kind) | Kind::Map(kind) => check(kind),
                _ => {}
            }
        }
        assert!(MESSAGES.kinds.len() > 25);
        for message in MESSAGES.kinds.values() {
            check(&Kind::Message(message));
        }
        for field in MESSAGES.fields.values().flat_map(BTreeMap::values) {
            check(&field.kind);
        }
    }

    #[test]
    fn bytes_are_base64() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"M"), "TQ==");
        assert_eq!(base64(b"Ma"), "TWE=");
        assert_eq!(base64(b"Man\xff"), "TWFu/w==");
    }
}
