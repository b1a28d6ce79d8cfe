//! Our requests and reads, and their answers.

use controller_core::cache::{Freshness, WriteEffect};

use crate::server::{Done, Verb};
use crate::things::{id_of, key, only, part, read, thing, uid};
use crate::world::{Form, Found, Reading, Request, World};

impl World {
    pub(crate) fn send(&mut self, name: &'static str, verb: Verb) {
        let uid = self.held(name).map(|thing| thing.uid);
        let mut others = self.requests.iter().filter(|other| other.name == name);
        // Concurrent requests are for one object.
        if uid.is_some() == matches!(verb, Verb::Create(_))
            || others.any(|other| other.uid.is_none() || other.uid != uid)
        {
            return;
        }
        self.store.begin_write(&key(name));
        let mut overlapped = false;
        for other in self.requests.iter_mut().filter(|other| other.name == name) {
            other.overlapped = true;
            overlapped = true;
        }
        for reading in self.readings.iter_mut().filter(|reading| reading.name == name) {
            reading.void = true;
        }
        self.requests.push(Request {
            name,
            uid,
            verb,
            taken: None,
            overlapped,
        });
    }

    pub(crate) fn answer(&mut self, request: &Request, form: Form) {
        let name = request.name;
        let Some(Ok(done)) = request.taken.clone() else {
            self.store.refused(&key(name));
            return;
        };
        let (object, effect, version) = match (done, form, request.verb) {
            (Done::Deleted(object, _), Form::WithoutVersion, _) => (object, WriteEffect::Deleted, None),
            // The deletion that removes the last finalizer has the previous version.
            (Done::Deleted(object, _), _, Verb::Release) => {
                let version = object.version;
                (object, WriteEffect::Deleted, Some(version))
            }
            (Done::Deleted(object, version), _, _) => (object, WriteEffect::Deleted, Some(version)),
            (Done::Written(object), _, Verb::Touch) => (object, WriteEffect::Nothing, None),
            (Done::Written(object), form, verb) => {
                let whole = matches!(form, Form::Whole) || matches!(verb, Verb::Create(_));
                let effect = if whole {
                    WriteEffect::Object(thing(name, &object))
                } else {
                    part(verb, object.fields)
                };
                let version = (!matches!(form, Form::WithoutVersion)).then_some(object.version);
                (object, effect, version)
            }
        };
        let was_held = self.held(name).is_some();
        self.hear(name, object.uid, object.version);
        match &effect {
            WriteEffect::Deleted => {
                self.gone.insert(object.uid);
                self.known(name).accepted.insert(version.unwrap_or(0));
            }
            WriteEffect::Nothing => {}
            _ if version.is_none() => self.lose(request),
            WriteEffect::Object(_) => self.raise(object.uid, object.fields.each()),
            WriteEffect::Patch(_) => self.raise(object.uid, only(request.verb, object.fields)),
        }
        if let Some(version) = version {
            let gone = self.gone.contains(&object.uid);
            self.known(name).accepted.insert(version);
            if matches!(request.verb, Verb::Create(_)) && !was_held && !gone {
                self.created(name, object.uid, version);
            }
        }
        let delta = self.store.accepted(
            &key(name),
            &uid(object.uid),
            version,
            id_of(version.unwrap_or_default()),
            effect,
        );
        self.replay(delta);
    }

    /// An answer has this object at this version. If the watch is already past it and shows another, the object is
    /// gone.
    pub(crate) fn hear(&mut self, name: &str, uid: u64, version: u64) {
        let shown = self.known[name].shown.as_ref().map(|shown| shown.uid);
        if version <= self.told && shown != Some(uid) {
            self.gone.insert(uid);
        }
    }

    /// The fate of the request stays unknown.
    pub(crate) fn lose(&mut self, request: &Request) {
        if !request.overlapped
            && let Some(Ok(Done::Written(object))) = &request.taken
        {
            let fields = only(request.verb, object.fields);
            self.lost.push((object.uid, fields));
        }
    }

    pub(crate) fn begin_read(&mut self, name: &'static str) {
        // The loop sends a read after our last write was answered or given up.
        if !self.store.is_writing(&key(name)) {
            self.readings.push(Reading {
                name,
                found: None,
                sent: self.store.step(),
                void: false,
                is_late: false,
            });
        }
    }

    pub(crate) fn answer_read(&mut self, reading: Reading) {
        let key = key(reading.name);
        let found = match reading.found {
            Some(Found(None)) if self.known[reading.name].overdue_too_early && self.is_late(reading.name) => {
                // The watch may still show what we gave up: with such a clock nobody can tell.
                return;
            }
            Some(Found(found)) if !reading.void => found,
            _ => return,
        };
        let name = reading.name;
        let object = found.as_ref().map(|object| read(name, object));
        if self
            .store
            .has_overtaken(&key, reading.sent, object.as_ref().map(|(_, uid, _)| uid))
        {
            assert!(reading.is_late, "no other answer came");
            return;
        }
        for other in self.readings.iter_mut().filter(|other| other.name == name) {
            other.is_late = true;
        }
        let held = self.held(name).map(|held| held.uid);
        let uid = found.as_ref().map(|object| object.uid);
        // The fate of writes to an earlier object does not matter: the watch will show that the object is gone.
        self.lost
            .retain(|(lost, _)| Some(*lost) != held || Some(*lost) == uid);
        let delta = self.store.read(&key, object);
        self.replay(delta);
        assert_ne!(self.store.freshness(&key), Freshness::Unknown, "it was read");
        let held = self.held(name).map(|held| held.uid);
        if let Some(object) = found {
            self.hear(name, object.uid, object.version);
            self.known(name).accepted.insert(object.version);
            if held == uid {
                self.raise(object.uid, object.fields.each());
                self.created(name, object.uid, object.version);
            }
            return;
        }
        let known = self.known(name);
        let shown = known.shown.as_ref().map(|shown| shown.uid);
        if let Some(answered) = known.answered.filter(|answered| Some(*answered) != shown) {
            known.created = None;
            self.gone.insert(answered);
        }
    }

    /// An answer says that this object exists, and the store holds it.
    pub(crate) fn created(&mut self, name: &'static str, uid: u64, version: u64) {
        let known = self.known(name);
        if known.created.replace(uid) != Some(uid) {
            known.created_at = version;
        }
        known.answered = Some(uid);
    }
}
