//! A message as serde's data model.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::de::value::{BorrowedStrDeserializer, CowStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use super::wire::{Wire, bytes_of, malformed, next_field};
use super::{Error, FieldKind, Message};

/// Largest number of fields that are read of one message.
const MOST_FIELDS: usize = 16;

/// An object whose fields, and those of its metadata, were found: its identity is readable before the rest.
pub(in crate::cache) struct Object<'de> {
    metadata: Option<Fields<'de>>,
    /// All but the metadata.
    fields: Fields<'de>,
}

/// A field that was found: the last of its number counts, except that a list or a map has all of them.
#[derive(Clone, Copy)]
pub(super) struct Value<'de> {
    kind: FieldKind,
    wire: Wire<'de>,
    /// The bytes after the first field of its number.
    rest: &'de [u8],
    number: u32,
}

impl<'de> Object<'de> {
    /// `message` has [`METADATA`](super::METADATA).
    pub(in crate::cache) fn find(message: Message, bytes: &'de [u8]) -> Result<Self, Error> {
        let mut fields = Fields::find(message, bytes)?;
        let metadata = fields.take("metadata");
        Ok(Self {
            metadata: metadata.map(Value::fields).transpose()?,
            fields,
        })
    }

    /// A text of its metadata; `None` if it is missing, empty or no text.
    pub(in crate::cache) fn text(&self, name: &str) -> Option<Cow<'de, str>> {
        let value = self.metadata.as_ref()?.get(name)?;
        value.text().ok().filter(|text| !text.is_empty())
    }

    /// Returns whether its metadata has this field.
    pub(in crate::cache) fn has(&self, name: &str) -> bool {
        let value = self.metadata.as_ref().and_then(|metadata| metadata.get(name));
        value.is_some_and(|value| !value.is_absent())
    }

    pub(in crate::cache) fn read<T: Deserialize<'de>>(self) -> Result<T, Error> {
        T::deserialize(MapAccessDeserializer::new(self))
    }
}

impl<'de> Value<'de> {
    pub(super) const fn message(message: Message, bytes: &'de [u8]) -> Self {
        Self {
            kind: FieldKind::Message(message),
            wire: Wire::Bytes(bytes),
            rest: &[],
            number: 0,
        }
    }

    fn bytes(self) -> Result<&'de [u8], Error> {
        match self.wire {
            Wire::Bytes(bytes) => Ok(bytes),
            Wire::Varint(_) | Wire::Fixed => Err(malformed()),
        }
    }

    fn fields(self) -> Result<Fields<'de>, Error> {
        match self.kind {
            FieldKind::Message(message) => Fields::find(message, self.bytes()?),
            _ => Err(malformed()),
        }
    }

    fn text(self) -> Result<Cow<'de, str>, Error> {
        self.bytes().map(String::from_utf8_lossy)
    }

    /// A negative number is its two's complement in 64 bits.
    fn int(self) -> Result<i64, Error> {
        match self.wire {
            Wire::Varint(value) => Ok(value.cast_signed()),
            Wire::Bytes(_) | Wire::Fixed => Err(malformed()),
        }
    }

    /// Returns whether JSON would leave the field out.
    fn is_absent(self) -> bool {
        matches!(
            (self.kind, self.wire),
            (FieldKind::Text | FieldKind::Time, Wire::Bytes([]))
        )
    }
}

/// A `metav1.Time` as JSON has it. A time that cannot be represented becomes a text that is no time.
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
            FieldKind::Text | FieldKind::TextPointer => visit_text(self.text()?, visitor),
            FieldKind::Int => visitor.visit_i64(self.int()?),
            FieldKind::Bool => visitor.visit_bool(self.int()? != 0),
            FieldKind::Time if self.is_absent() => visitor.visit_unit(),
            FieldKind::Time => visitor.visit_string(time(self.bytes()?)?),
            FieldKind::IntOrString => int_or_string(self.bytes()?, visitor),
            FieldKind::Message(_) => visitor.visit_map(self.fields()?),
            FieldKind::List(item) => visitor.visit_seq(Items(self.again(*item))),
            FieldKind::Map(value) => visitor.visit_map(Entries {
                items: Items(self.again(*value)),
                value: *value,
                entry: None,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if matches!(self.kind, FieldKind::Time) && self.is_absent() {
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

    /// In JSON the variants are texts.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(CowStrDeserializer::new(self.text()?))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier
    }
}

impl<'de> Value<'de> {
    /// All fields of this number, each read as `kind`.
    const fn again(self, kind: FieldKind) -> Repeated<'de> {
        Repeated {
            kind,
            number: self.number,
            first: Some(self.wire),
            rest: self.rest,
        }
    }
}

/// Borrowed, unless invalid UTF-8 had to be replaced.
fn visit_text<'de, V: Visitor<'de>>(text: Cow<'de, str>, visitor: V) -> Result<V::Value, Error> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

/// Field 1 says which of the two it is, 2 is the number, 3 the text.
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
    visit_text(String::from_utf8_lossy(text.unwrap_or_default()), visitor)
}

/// A message as a map.
struct Fields<'de> {
    message: Message,
    found: [Option<Value<'de>>; MOST_FIELDS],
    next: usize,
}

impl<'de> Fields<'de> {
    fn find(message: Message, bytes: &'de [u8]) -> Result<Self, Error> {
        debug_assert!(message.len() <= MOST_FIELDS);
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
                    kind: FieldKind::List(_) | FieldKind::Map(_),
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

    fn position(&self, name: &str) -> Option<usize> {
        self.message.iter().position(|(_, known, _)| *known == name)
    }

    fn get(&self, name: &str) -> Option<Value<'de>> {
        self.found.get(self.position(name)?).copied().flatten()
    }

    fn take(&mut self, name: &str) -> Option<Value<'de>> {
        let position = self.position(name)?;
        self.found.get_mut(position)?.take()
    }
}

impl<'de> MapAccess<'de> for Object<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match &self.metadata {
            Some(_) => seed
                .deserialize(BorrowedStrDeserializer::new("metadata"))
                .map(Some),
            None => self.fields.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match self.metadata.take() {
            Some(metadata) => seed.deserialize(metadata),
            None => self.fields.next_value_seed(seed),
        }
    }
}

impl<'de> Deserializer<'de> for Fields<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
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
    kind: FieldKind,
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
    value: FieldKind,
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
        let key = String::from_utf8_lossy(bytes_of(entry, 1)?);
        seed.deserialize(CowStrDeserializer::new(key)).map(Some)
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
