//! Reads `messages.txt`, by lines:
//!
//! ```text
//! kind v1 Pod core.v1.Pod             the message of a kind
//!
//! core.v1.ContainerPort               a message, and its fields below, by number
//!  1 name string                      its number, its name in JSON, its type
//! ```
//!
//! Types: scalars by name, messages by name, `[T]` a list, `<T>` a map, `*T` what is written only where it is
//! given. A field called `-` is a message whose fields are those of the message around it in JSON.

use std::collections::BTreeMap;
use std::sync::LazyLock;

static MESSAGES: LazyLock<Messages> = LazyLock::new(|| parse(include_str!("messages.txt")));

/// The name of a field that is no field in JSON.
const INLINE: &str = "-";

#[derive(Debug, Default)]
struct Messages {
    by_name: BTreeMap<&'static str, Message>,
    /// The name of the message of each `apiVersion kind`.
    kinds: BTreeMap<&'static str, &'static str>,
}

/// The fields of a message, in the order of their numbers.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Message {
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    /// Its name in JSON; none where its own fields stand in its place.
    pub(super) name: Option<&'static str>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Time,
    MicroTime,
    Quantity,
    IntOrText,
    /// Any JSON, as text in a message.
    Json,
    Message(&'static str),
    /// Written only where it is given, and then even when it is empty.
    Optional(Box<Self>),
    List(Box<Self>),
    /// Values by texts.
    Map(Box<Self>),
}

impl Message {
    /// The message of a kind; none where it is not known.
    pub(in crate::embedded) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Self> {
        let name = MESSAGES.kinds.get(&*format!("{api_version} {kind}"))?;
        Self::named(name)
    }

    /// A message by its own name, which is that of its Go type.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        MESSAGES.by_name.get(name)
    }
}

fn parse(text: &'static str) -> Messages {
    let mut messages = Messages::default();
    let mut current = "";
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix(' ') {
            if let (Some(field), Some(of)) = (field(declared), messages.by_name.get_mut(current)) {
                of.fields.push(field);
            }
        } else if let Some(declared) = line.strip_prefix("kind ") {
            messages.kinds.extend(declared.rsplit_once(' '));
        } else if !line.is_empty() && !line.starts_with('#') {
            current = line;
            messages.by_name.entry(line).or_default();
        }
    }
    messages
}

fn field(declared: &'static str) -> Option<Field> {
    let mut words = declared.splitn(3, ' ');
    let (number, name, declared) = (words.next()?, words.next()?, words.next()?);
    Some(Field {
        number: number.parse().ok()?,
        name: Some(name).filter(|name| *name != INLINE),
        kind: kind(declared),
    })
}

fn kind(text: &'static str) -> Kind {
    let between = |open, close| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(given) = text.strip_prefix('*') {
        return Kind::Optional(Box::new(kind(given)));
    }
    if let Some(items) = between('[', ']') {
        return Kind::List(Box::new(kind(items)));
    }
    if let Some(values) = between('<', '>') {
        return Kind::Map(Box::new(kind(values)));
    }
    match text {
        "string" => Kind::Text,
        "bytes" => Kind::Bytes,
        "bool" => Kind::Bool,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "time" => Kind::Time,
        "micro-time" => Kind::MicroTime,
        "quantity" => Kind::Quantity,
        "int-or-string" => Kind::IntOrText,
        "json" => Kind::Json,
        name => Kind::Message(name),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::embedded::{ALPHA, CUSTOM_RESOURCE_DEFINITIONS, SERVED};

    #[test]
    fn every_message_that_is_named_is_there() {
        fn named(kind: &Kind) -> Option<&'static str> {
            match kind {
                Kind::Message(name) => Some(name),
                Kind::Optional(below) | Kind::List(below) | Kind::Map(below) => named(below),
                _ => None,
            }
        }
        let fields = MESSAGES.by_name.values().flat_map(|of| &of.fields);
        let named = fields.filter_map(|field| named(&field.kind));
        let named: BTreeSet<_> = named.chain(MESSAGES.kinds.values().copied()).collect();
        let missing: Vec<_> = named
            .into_iter()
            .filter(|name| Message::named(name).is_none())
            .collect();
        assert_eq!(missing, [""; 0]);
        assert!(MESSAGES.by_name.len() > 200);
    }

    #[test]
    fn every_kind_that_is_served_has_a_message_but_for_definitions() {
        let mut without = Vec::new();
        for resource in SERVED.iter().chain(ALPHA) {
            if Message::of_kind(&resource.api_version(), resource.kind).is_none() {
                without.push(resource.kind);
            }
        }
        assert_eq!(
            without,
            [CUSTOM_RESOURCE_DEFINITIONS.kind],
            "messages.go writes messages.txt"
        );
    }

    /// The fields in JSON of each message.
    fn in_json(of: &'static Message) -> BTreeSet<&'static str> {
        let fields = of.fields.iter().map(|field| match (field.name, &field.kind) {
            (None, Kind::Message(part)) => in_json(Message::named(part).unwrap()),
            (name, _) => name.into_iter().collect(),
        });
        fields.flatten().collect()
    }

    #[test]
    fn messages_have_all_fields_that_objects_have() {
        let mut missing = Vec::new();
        let mut current = "";
        for line in include_str!("../schema/kubernetes.txt").lines() {
            let Some(declared) = line.strip_prefix(' ') else {
                current = line;
                continue;
            };
            let field = declared.split(' ').next().unwrap();
            let is_known = |of| in_json(of).contains(field) || matches!(field, "kind" | "apiVersion");
            if Message::named(current).is_some_and(|of| !is_known(of)) {
                missing.push(format!("{current} {field}"));
            }
        }
        assert_eq!(missing, [""; 0]);
    }
}
