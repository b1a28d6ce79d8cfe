//! The objects of the properties, and what the watch and answers say of them.

use std::sync::Arc;

use controller_core::cache::{Removed, SourceEvent, Versioned, View, WriteEffect};
use controller_core::meta::{ObjectKey, Uid};

use crate::server::{Fields, Object, Verb};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Thing {
    pub(crate) key: ObjectKey,
    pub(crate) uid: u64,
    pub(crate) fields: Fields,
}

impl View for Thing {
    type Index = u64;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn index(&self, out: &mut Vec<u64>) {
        out.push(self.fields.ours);
    }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::cluster(name)
}

pub(crate) fn uid(uid: u64) -> Uid {
    Uid::from(uid.to_string().as_str())
}

pub(crate) fn thing(name: &str, object: &Object) -> Thing {
    Thing {
        key: key(name),
        uid: object.uid,
        fields: object.fields,
    }
}

pub(crate) fn read(name: &str, object: &Object) -> (Thing, Uid, u64) {
    (thing(name, object), uid(object.uid), object.version)
}

pub(crate) fn event(name: &str, object: &Object) -> SourceEvent<Thing> {
    let version = Some(object.version.to_string().into());
    if object.kept {
        return SourceEvent::Applied(Versioned {
            view: thing(name, object),
            uid: uid(object.uid),
            version,
        });
    }
    SourceEvent::Deleted(Removed {
        key: key(name),
        uid: uid(object.uid),
        view: None,
        version,
    })
}

/// The part of the answer that belongs to this request alone.
pub(crate) fn part(verb: Verb, fields: Fields) -> WriteEffect<Thing> {
    WriteEffect::Patch(Arc::new(move |thing: &Thing| {
        let mut thing = thing.clone();
        match verb {
            Verb::WriteOurs => thing.fields.ours = fields.ours,
            Verb::WriteMark => thing.fields.mark = fields.mark,
            Verb::Delete => thing.fields.deleting = fields.deleting,
            Verb::Release => thing.fields.released = fields.released,
            _ => panic!("{verb:?} is no patch"),
        }
        thing
    }))
}

/// Lower bound for the fields after such a part.
pub(crate) fn only(verb: Verb, fields: Fields) -> [u64; 5] {
    let [ours, mark, _, deleting, released] = fields.each();
    match verb {
        Verb::WriteOurs => [ours, 0, 0, 0, 0],
        Verb::WriteMark => [0, mark, 0, 0, 0],
        Verb::Delete => [0, 0, 0, deleting, 0],
        Verb::Release => [0, 0, 0, 0, released],
        _ => [0; 5],
    }
}

/// The number of the request whose answer has this version; version 0 has none.
pub(crate) const fn id_of(version: u64) -> u64 {
    if version == 0 { u64::MAX } else { version }
}
