//! Kubernetes' protobuf, read by the same serde types as JSON.
//!
//! A [`Message`] says which fields of a message are read, what they are called in JSON, and what they hold; all others are
//! skipped on the wire. Texts are borrowed from the answer. Source: the files `generated.proto` of k8s.io/api and
//! k8s.io/apimachinery.
//!
//! Go writes a field that is no pointer also when it is empty. JSON leaves it out then, and so does this: an empty text
//! and a time that was never set are not there.

use jiff::Timestamp;
use prost::encoding::{WireType, decode_key, decode_varint};
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// The fields of a message that are read: number, name in JSON, what it holds. At most [`MOST_FIELDS`].
pub type Message = &'static [(u32, &'static str, Kind)];

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A `string`; not there if it is empty.
    Text,
    /// A `string` that Go has a pointer to: it may be there and empty.
    TextPointer,
    /// An `int32` or `int64`.
    Int,
    /// A `bool`.
    Bool,
    /// A `metav1.Time`: in JSON a text, by RFC 3339.
    Time,
    /// An `intstr.IntOrString`.
    IntOrString,
    /// Another message.
    Message(Message),
    /// A `repeated` field.
    List(&'static Self),
    /// A `map` from texts.
    Map(&'static Self),
}

/// No message has more fields that are read.
const MOST_FIELDS: usize = 16;

/// `metav1.OwnerReference`, for [`OwnerWire`](super::OwnerWire).
pub const OWNER_REFERENCE: Message = &[
    (1, "kind", Kind::Text),
    (3, "name", Kind::Text),
    (4, "uid", Kind::Text),
    (5, "apiVersion", Kind::Text),
    (6, "controller", Kind::Bool),
];
/// `metav1.ObjectMeta`, as far as any controller reads it.
pub const OBJECT_META: Message = &[
    (1, "name", Kind::Text),
    (3, "namespace", Kind::Text),
    (5, "uid", Kind::Text),
    (6, "resourceVersion", Kind::Text),
    (7, "generation", Kind::Int),
    (8, "creationTimestamp", Kind::Time),
    (9, "deletionTimestamp", Kind::Time),
    (11, "labels", TEXTS_BY_NAME),
    (12, "annotations", TEXTS_BY_NAME),
    (13, "ownerReferences", Kind::List(&Kind::Message(OWNER_REFERENCE))),
    (14, "finalizers", Kind::List(&Kind::TextPointer)),
    (17, "managedFields", Kind::List(&Kind::Message(MANAGED_FIELDS))),
];
/// The metadata of any object.
pub const METADATA: (u32, &str, Kind) = (1, "metadata", Kind::Message(OBJECT_META));
/// Of an object, nothing but its metadata.
pub const METADATA_ONLY: Message = &[METADATA];
/// Of an object, who it is.
pub(super) const IDENTITY: Message = &[(
    1,
    "metadata",
    Kind::Message(&[
        (1, "name", Kind::Text),
        (3, "namespace", Kind::Text),
        (5, "uid", Kind::Text),
        (6, "resourceVersion", Kind::Text),
        (9, "deletionTimestamp", Kind::Time),
    ]),
)];
/// `metav1.LabelSelector`.
pub const LABEL_SELECTOR: Message = &[
    (1, "matchLabels", TEXTS_BY_NAME),
    (2, "matchExpressions", Kind::List(&Kind::Message(REQUIREMENT))),
];
/// `metav1.Condition`.
pub const CONDITION: Message = &[
    (1, "type", Kind::Text),
    (2, "status", Kind::Text),
    (3, "observedGeneration", Kind::Int),
    (4, "lastTransitionTime", Kind::Time),
    (5, "reason", Kind::Text),
    (6, "message", Kind::Text),
];
/// The conditions of pods and of Jobs, which are alike in what is read.
pub const CONDITIONS: Kind = Kind::List(&Kind::Message(&[
    (1, "type", Kind::Text),
    (2, "status", Kind::Text),
    (4, "lastTransitionTime", Kind::Time),
    (5, "reason", Kind::Text),
]));
/// Labels or annotations.
pub const TEXTS_BY_NAME: Kind = Kind::Map(&Kind::TextPointer);

const MANAGED_FIELDS: Message = &[
    (1, "manager", Kind::Text),
    (4, "time", Kind::Time),
    (8, "subresource", Kind::Text),
];
const REQUIREMENT: Message = &[
    (1, "key", Kind::Text),
    (2, "operator", Kind::Text),
    (3, "values", Kind::List(&Kind::TextPointer)),
];
const STATUS: Message = &[
    (2, "status", Kind::Text),
    (3, "message", Kind::Text),
    (4, "reason", Kind::Text),
    (
        5,
        "details",
        Kind::Message(&[(5, "retryAfterSeconds", Kind::Int)]),
    ),
    (6, "code", Kind::Int),
];
const UNKNOWN: Message = &[(2, "raw", Kind::Text)];
const LIST_META: Message = &[(2, "resourceVersion", Kind::Text), (3, "continue", Kind::Text)];

/// What an answer starts with.
const MAGIC: &[u8] = b"k8s\0";

/// Bytes that are no such message, or a message that is not what its reader wants.
pub type Error = serde::de::value::Error;

/// A list, its objects still as they came.
pub(super) struct List<'a> {
    pub(super) version: String,
    /// What continues it, if there is more.
    pub(super) token: Option<String>,
    pub(super) items: Vec<&'a [u8]>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    r#continue: Option<String>,
}

/// Whether an answer is in protobuf.
pub(crate) fn is_enveloped(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// What an answer holds, without its envelope.
pub(crate) fn unwrapped(body: &[u8]) -> Result<&[u8], Error> {
    let fields = body.strip_prefix(MAGIC).ok_or_else(malformed)?;
    bytes_of(fields, UNKNOWN[0].0)
}

/// Reads `message` from bytes without an envelope.
pub(crate) fn read<'de, T: Deserialize<'de>>(message: Message, bytes: &'de [u8]) -> Result<T, Error> {
    T::deserialize(Value {
        kind: Kind::Message(message),
        wire: Wire::Bytes(bytes),
        rest: &[],
        number: 0,
    })
}

/// Reads what the API server says of a failure.
pub(crate) fn read_status(body: &[u8]) -> Result<kube::core::Status, Error> {
    read(STATUS, unwrapped(body)?)
}

pub(super) fn read_list(body: &[u8]) -> Result<List<'_>, Error> {
    let mut rest = unwrapped(body)?;
    let mut meta = ListMeta::default();
    let mut items = Vec::new();
    while let Some((number, wire)) = next_field(&mut rest)? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => meta = read(LIST_META, bytes)?,
            (2, Wire::Bytes(bytes)) => items.push(bytes),
            _ => {}
        }
    }
    Ok(List {
        version: meta.resource_version,
        token: meta.r#continue,
        items,
    })
}

/// The type and the object of a `metav1.WatchEvent`, which has no envelope; its object has one.
pub(super) fn read_event(frame: &[u8]) -> Result<(&str, &[u8]), Error> {
    let kind = std::str::from_utf8(bytes_of(frame, 1)?).map_err(Error::custom)?;
    Ok((kind, bytes_of(bytes_of(frame, 2)?, 1)?))
}

/// The last field of this number; empty if there is none.
fn bytes_of(mut rest: &[u8], number: u32) -> Result<&[u8], Error> {
    let mut found: &[u8] = &[];
    while let Some((at, wire)) = next_field(&mut rest)? {
        if let (true, Wire::Bytes(bytes)) = (at == number, wire) {
            found = bytes;
        }
    }
    Ok(found)
}

fn malformed() -> Error {
    Error::custom("malformed protobuf")
}

/// A field's value as far as the wire tells.
#[derive(Clone, Copy)]
enum Wire<'de> {
    Varint(u64),
    Bytes(&'de [u8]),
    /// A fixed number of bytes; Kubernetes has such fields in no message that is read.
    Fixed,
}

/// Takes the next field of a message.
fn next_field<'de>(rest: &mut &'de [u8]) -> Result<Option<(u32, Wire<'de>)>, Error> {
    if rest.is_empty() {
        return Ok(None);
    }
    let (number, wire_type) = decode_key(rest).map_err(Error::custom)?;
    let wire = match wire_type {
        WireType::Varint => Wire::Varint(decode_varint(rest).map_err(Error::custom)?),
        WireType::LengthDelimited => {
            let length = decode_varint(rest).map_err(Error::custom)?;
            Wire::Bytes(take(rest, length)?)
        }
        WireType::ThirtyTwoBit => take(rest, 4).map(|_| Wire::Fixed)?,
        WireType::SixtyFourBit => take(rest, 8).map(|_| Wire::Fixed)?,
        WireType::StartGroup | WireType::EndGroup => return Err(malformed()),
    };
    Ok(Some((number, wire)))
}

fn take<'de>(rest: &mut &'de [u8], length: u64) -> Result<&'de [u8], Error> {
    let length = usize::try_from(length).map_err(Error::custom)?;
    let (taken, left) = rest.split_at_checked(length).ok_or_else(malformed)?;
    *rest = left;
    Ok(taken)
}

/// A field that was found: the last of its number counts, but a list or a map has them all.
#[derive(Clone, Copy)]
struct Value<'de> {
    kind: Kind,
    wire: Wire<'de>,
    /// What follows the first of its number.
    rest: &'de [u8],
    number: u32,
}

impl<'de> Value<'de> {
    fn bytes(self) -> Result<&'de [u8], Error> {
        match self.wire {
            Wire::Bytes(bytes) => Ok(bytes),
            Wire::Varint(_) | Wire::Fixed => Err(malformed()),
        }
    }

    fn text(self) -> Result<&'de str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(Error::custom)
    }

    /// Negative numbers are their two's complement in 64 bits.
    fn int(self) -> Result<i64, Error> {
        match self.wire {
            Wire::Varint(value) => Ok(value.cast_signed()),
            Wire::Bytes(_) | Wire::Fixed => Err(malformed()),
        }
    }

    /// Whether JSON would leave it out.
    fn is_absent(self) -> bool {
        matches!((self.kind, self.wire), (Kind::Text | Kind::Time, Wire::Bytes([])))
    }
}

/// A `metav1.Time` as JSON has it. One that cannot be represented is a text that is no time.
fn time(bytes: &[u8]) -> Result<String, Error> {
    let (mut seconds, mut nanos, mut rest) = (0, 0, bytes);
    while let Some((number, wire)) = next_field(&mut rest)? {
        match (number, wire) {
            (1, Wire::Varint(value)) => seconds = value.cast_signed(),
            (2, Wire::Varint(value)) => nanos = value.cast_signed(),
            _ => {}
        }
    }
    let nanos = i32::try_from(nanos).map_err(Error::custom)?;
    let time = Timestamp::new(seconds, nanos);
    Ok(time.map_or_else(|_| format!("{seconds} s"), |time| time.to_string()))
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind {
            Kind::Text | Kind::TextPointer => visitor.visit_borrowed_str(self.text()?),
            Kind::Int => visitor.visit_i64(self.int()?),
            Kind::Bool => visitor.visit_bool(self.int()? != 0),
            Kind::Time if self.is_absent() => visitor.visit_unit(),
            Kind::Time => visitor.visit_string(time(self.bytes()?)?),
            Kind::IntOrString => int_or_string(self.bytes()?, visitor),
            Kind::Message(message) => visitor.visit_map(Fields::new(message, self.bytes()?)?),
            Kind::List(item) => visitor.visit_seq(Items(self.again(*item))),
            Kind::Map(value) => visitor.visit_map(Entries {
                items: Items(self.again(*value)),
                value: *value,
                entry: None,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if matches!(self.kind, Kind::Time) && self.is_absent() {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct enum identifier
    }
}

impl<'de> Value<'de> {
    /// All of its number, each of this kind.
    const fn again(self, kind: Kind) -> Repeated<'de> {
        Repeated {
            kind,
            number: self.number,
            first: Some(self.wire),
            rest: self.rest,
        }
    }
}

/// 1 is which, 2 the number, 3 the text.
fn int_or_string<'de, V: Visitor<'de>>(bytes: &'de [u8], visitor: V) -> Result<V::Value, Error> {
    let (mut is_text, mut int, mut text, mut rest) = (false, 0, None, bytes);
    while let Some((number, wire)) = next_field(&mut rest)? {
        match (number, wire) {
            (1, Wire::Varint(value)) => is_text = value != 0,
            (2, Wire::Varint(value)) => int = value.cast_signed(),
            (3, Wire::Bytes(bytes)) => text = Some(bytes),
            _ => {}
        }
    }
    if !is_text {
        return visitor.visit_i64(int);
    }
    visitor.visit_borrowed_str(std::str::from_utf8(text.unwrap_or_default()).map_err(Error::custom)?)
}

/// A message as a map.
struct Fields<'de> {
    message: Message,
    found: [Option<Value<'de>>; MOST_FIELDS],
    next: usize,
}

impl<'de> Fields<'de> {
    fn new(message: Message, bytes: &'de [u8]) -> Result<Self, Error> {
        let mut found = [None::<Value<'de>>; MOST_FIELDS];
        let mut rest = bytes;
        while let Some((number, wire)) = next_field(&mut rest)? {
            let known = message.iter().zip(&mut found);
            let Some(((_, _, kind), place)) = known.into_iter().find(|((known, ..), _)| *known == number)
            else {
                continue;
            };
            match place {
                Some(Value {
                    kind: Kind::List(_) | Kind::Map(_),
                    ..
                }) => {}
                place => {
                    *place = Some(Value {
                        kind: *kind,
                        wire,
                        rest,
                        number,
                    });
                }
            }
        }
        Ok(Self {
            message,
            found,
            next: 0,
        })
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        while let Some((_, name, _)) = self.message.get(self.next) {
            let found = self.found.get(self.next).copied().flatten();
            if found.is_some_and(|value| !value.is_absent()) {
                return seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some);
            }
            self.next += 1;
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let found = self.found.get(self.next).copied().flatten();
        self.next += 1;
        seed.deserialize(found.ok_or_else(malformed)?)
    }
}

/// All fields of one number.
struct Repeated<'de> {
    kind: Kind,
    number: u32,
    first: Option<Wire<'de>>,
    rest: &'de [u8],
}

impl<'de> Repeated<'de> {
    fn next(&mut self) -> Result<Option<Value<'de>>, Error> {
        let mut next = self.first.take();
        while next.is_none() {
            match next_field(&mut self.rest)? {
                None => return Ok(None),
                Some((number, wire)) => next = (number == self.number).then_some(wire),
            }
        }
        Ok(next.map(|wire| Value {
            kind: self.kind,
            wire,
            rest: &[],
            number: self.number,
        }))
    }
}

/// A repeated field as a list.
struct Items<'de>(Repeated<'de>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Self(repeated) = self;
        repeated.next()?.map(|value| seed.deserialize(value)).transpose()
    }
}

/// A map field: each entry is a message of a key (1) and a value (2).
struct Entries<'de> {
    items: Items<'de>,
    value: Kind,
    entry: Option<&'de [u8]>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Items(entries) = &mut self.items;
        let Some(entry) = entries.next()? else {
            return Ok(None);
        };
        let entry = entry.bytes()?;
        self.entry = Some(entry);
        let key = std::str::from_utf8(bytes_of(entry, 1)?).map_err(Error::custom)?;
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let entry = self.entry.take().ok_or_else(malformed)?;
        seed.deserialize(Value {
            kind: self.value,
            wire: Wire::Bytes(bytes_of(entry, 2)?),
            rest: &[],
            number: 2,
        })
    }
}
