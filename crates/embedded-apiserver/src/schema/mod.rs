//! The types of objects: their fields, how these merge, and which are always written.
//!
//! The types of Kubernetes come from `kubernetes.txt`, which `cargo xtask schema` generates; a custom resource brings
//! its types in its definition, or has none.

mod custom;
mod decode;
mod defaults;
mod message;
mod parse;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

pub(super) use decode::decode;
pub(super) use message::{Message, Numbered};

static KUBERNETES: LazyLock<Types> = LazyLock::new(|| parse::types(include_str!("kubernetes.txt")));
static FREE: LazyLock<Types> = LazyLock::new(Types::free);
static ANY: Kind = Kind::Any;
/// Type of the `metadata` of every kind.
const OBJECT_META: &str = "meta.v1.ObjectMeta";

/// A set of types that refer to each other by name.
#[derive(Debug, Default)]
pub(crate) struct Types {
    structs: BTreeMap<String, Struct>,
    /// The type of a whole object, by `apiVersion kind`; a custom resource has one, under the empty name.
    roots: BTreeMap<String, Kind>,
    /// Protobuf messages, by name of the struct.
    messages: BTreeMap<String, Message>,
    /// Name of the message by `apiVersion kind`, also for kinds that are only sent.
    message_of: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct Struct {
    fields: BTreeMap<String, Field>,
    /// The type of undeclared fields; `None` if there are none.
    others: Option<Kind>,
}

#[derive(Clone, Debug)]
struct Field {
    kind: Kind,
    presence: Presence,
    default: Option<Value>,
}

/// Says when a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// Always; the zero value if unset.
    Always,
    /// Always; null if unset.
    Null,
    /// If set, even to a zero value.
    Given,
    /// If not zero.
    NotZero,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Any,
    Scalar(Scalar),
    Struct {
        name: String,
        atomic: bool,
    },
    Map {
        values: Box<Kind>,
        atomic: bool,
    },
    List {
        items: Box<Kind>,
        told_apart_by: Identity,
        merge: Merge,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Float,
    Quantity,
    IntOrText,
    Time,
    MicroTime,
}

/// structured-merge-diff's name for a number.
const NUMERIC: &str = "numeric (int or float)";

/// Names of the scalars: in `kubernetes.txt`, in Go, and in structured-merge-diff.
const SCALARS: [(Scalar, &str, &str, &str); 10] = [
    (Scalar::Text, "string", "string", "string"),
    (Scalar::Bytes, "bytes", "[]uint8", "string"),
    (Scalar::Bool, "bool", "bool", "boolean"),
    (Scalar::Int32, "int32", "int32", NUMERIC),
    (Scalar::Int64, "int64", "int64", NUMERIC),
    (Scalar::Float, "float64", "float64", NUMERIC),
    (Scalar::Quantity, "quantity", "resource.Quantity", "string"),
    (Scalar::IntOrText, "int-or-string", "int32", "string"),
    (Scalar::Time, "time", "v1.Time", "string"),
    (Scalar::MicroTime, "micro-time", "v1.MicroTime", "string"),
];

impl Scalar {
    /// The names in Go and in structured-merge-diff.
    fn names(self) -> (&'static str, &'static str) {
        let known = SCALARS.iter().find(|(scalar, ..)| *scalar == self);
        known.map_or(("", ""), |(_, _, go, typed)| (go, typed))
    }
}

/// Identifies the items of a list, for field ownership.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Identity {
    /// Items have no identity; the list is owned as a whole.
    None,
    Value,
    Keys(Vec<String>),
}

/// How a strategic merge patch treats a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Merge {
    Replace,
    /// Adds values that are missing.
    Values,
    /// Merges items with the same value of this field.
    Key(String),
}

/// How field ownership splits a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Parts<'a> {
    /// Not split.
    Whole,
    Fields,
    Values,
    Keyed(&'a [String]),
}

/// The type at one place in an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    types: &'static Types,
    kind: &'static Kind,
}

impl Types {
    /// A custom resource without a schema: only its metadata has a type.
    fn free() -> Self {
        Self::rooted(custom::whole_object(BTreeMap::new(), Some(Kind::Any)))
    }

    fn rooted(root: Struct) -> Self {
        let name = String::new();
        Self {
            structs: BTreeMap::from([(name.clone(), root)]),
            roots: BTreeMap::from([(name.clone(), Kind::Struct { name, atomic: false })]),
            ..Self::default()
        }
    }

    fn root(&'static self, name: &str) -> Option<Schema> {
        let kind = self.roots.get(name)?;
        Some(Schema { types: self, kind })
    }
}

impl Schema {
    /// The type of a kind's objects; `own` are the types of a custom resource.
    pub(super) fn of(own: Option<&'static Types>, api_version: &str, kind: &str) -> Self {
        own.and_then(|types| types.root(""))
            .or_else(|| KUBERNETES.root(&format!("{api_version} {kind}")))
            .or_else(|| FREE.root(""))
            .unwrap_or_else(Self::any)
    }

    /// True for a type of Kubernetes; Go's rules for omitted fields apply to it.
    pub(super) fn is_native(self) -> bool {
        std::ptr::eq(self.types, &raw const *KUBERNETES)
    }

    pub(super) fn any() -> Self {
        Self {
            types: &FREE,
            kind: &ANY,
        }
    }

    pub(super) fn is_any(self) -> bool {
        *self.kind == Kind::Any
    }

    /// What Go writes for an empty object; an empty object for a custom resource.
    pub(super) fn zero(self) -> Value {
        let mut object = Value::Object(Map::new());
        self.complete(&mut object);
        object
    }

    /// Adds the fields that Go always writes.
    pub(super) fn complete(self, object: &mut Value) {
        if self.is_native() {
            decode::complete(self, object);
        }
    }

    /// The expected kind of value, if `value` is of another kind.
    pub(super) fn expected(self, value: &Value) -> Option<&'static str> {
        let (fits, expected) = match self.kind {
            Kind::Any => (true, ""),
            Kind::Struct { .. } | Kind::Map { .. } => (value.is_object(), "map"),
            Kind::List { .. } => (value.is_array(), "list"),
            Kind::Scalar(scalar) => {
                let may_be_number = matches!(scalar, Scalar::Quantity | Scalar::IntOrText);
                let (_, typed) = scalar.names();
                let fits = match typed {
                    "boolean" => value.is_boolean(),
                    NUMERIC => value.is_number(),
                    _ => value.is_string() || may_be_number && value.is_number(),
                };
                (fits, typed)
            }
        };
        (!fits).then_some(expected)
    }

    /// The type of a field of a struct or map; `None` if the field is unknown.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        let kind = match self.kind {
            Kind::Any => &ANY,
            Kind::Map { values, .. } => values,
            Kind::Struct { name: of, .. } => {
                let of = self.types.named(of)?;
                of.fields
                    .get(name)
                    .map(|field| &field.kind)
                    .or(of.others.as_ref())?
            }
            Kind::Scalar(_) | Kind::List { .. } => return None,
        };
        Some(self.at(kind))
    }

    /// The type of a list's items.
    pub(super) fn items(self) -> Self {
        match self.kind {
            Kind::List { items, .. } => self.at(items),
            _ => self.at(&ANY),
        }
    }

    /// How field ownership splits `value`.
    pub(super) fn parts(self, value: &Value) -> Parts<'static> {
        match (self.kind, value) {
            (Kind::Any, Value::Object(_)) => Parts::Fields,
            (Kind::Struct { atomic, .. } | Kind::Map { atomic, .. }, _) if !atomic => Parts::Fields,
            (Kind::List { told_apart_by, .. }, _) => match told_apart_by {
                Identity::None => Parts::Whole,
                Identity::Value => Parts::Values,
                Identity::Keys(keys) => Parts::Keyed(keys),
            },
            _ => Parts::Whole,
        }
    }

    /// True if a struct declares the field; false for keys of a map.
    pub(super) fn declares(self, name: &str) -> bool {
        match self.kind {
            Kind::Struct { name: of, .. } => self
                .types
                .named(of)
                .is_some_and(|of| of.fields.contains_key(name)),
            _ => false,
        }
    }

    /// How a strategic merge patch treats this list.
    pub(super) fn merge(self) -> &'static Merge {
        match self.kind {
            Kind::List { merge, .. } => merge,
            _ => &Merge::Replace,
        }
    }

    /// The key fields of a list item; omitted ones have their defaults.
    pub(super) fn key_of(self, item: &Value, keys: &[String]) -> Map<String, Value> {
        keys.iter()
            .filter_map(|key| {
                let value = item.get(key).cloned().or_else(|| self.default_of(key))?;
                Some((key.clone(), value))
            })
            .collect()
    }

    fn default_of(self, field: &str) -> Option<Value> {
        let Kind::Struct { name, .. } = self.kind else {
            return None;
        };
        let field = self.types.named(name)?.fields.get(field)?;
        field.default.clone().or_else(|| decode::zero(field))
    }

    fn at(self, kind: &'static Kind) -> Self {
        Self {
            types: self.types,
            kind,
        }
    }
}

impl Types {
    /// A struct of these types, or of Kubernetes: custom resources use both.
    fn named(&'static self, name: &str) -> Option<&'static Struct> {
        self.structs.get(name).or_else(|| KUBERNETES.structs.get(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NODES, PODS, Server};
    use crate::{OFF_BY_DEFAULT, SERVED};

    #[test]
    fn every_kind_of_kubernetes_that_is_served_has_a_schema() {
        for resource in SERVED.iter().chain(OFF_BY_DEFAULT) {
            let schema = resource.schema();
            assert!(
                schema.is_native(),
                "{} has none: cargo xtask schema",
                resource.kind
            );
        }
    }

    #[test]
    fn seeded_objects_have_the_form_that_their_types_give_them() {
        let server = Server::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        server.seed_nodes(1);
        server.seed_pods(1);
        for resource in [&NODES, &PODS] {
            for object in server.list(resource) {
                let mut decoded = object.clone();
                assert_eq!(decode(resource.schema(), &mut decoded), Ok(()));
                assert_eq!(decoded, object);
            }
        }
    }
}
