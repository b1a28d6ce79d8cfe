//! Any order of requests, answers, reads, watch events and lists: the store is never older than what it was told,
//! deleted objects do not come back, and in the end the store equals the server's state and remembers nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use controller_core::cache::{
    Change, Delta, Freshness, Removed, SourceEvent, Store, Versioned, View, WriteEffect,
};
use controller_core::meta::{ObjectKey, Uid};
use proptest::prelude::*;

use crate::server::{Done, Fields, Logged, Object, Refused, Server, Verb};

const NAMES: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug, PartialEq)]
struct Thing {
    key: ObjectKey,
    uid: u64,
    fields: Fields,
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

/// Numbers are taken modulo the number of candidates; impossible steps are skipped.
#[derive(Clone, Debug)]
enum Step {
    Send(&'static str, Verb),
    /// The server takes one of our requests.
    Take(usize),
    /// An answer arrives, in this form.
    Answer(usize, Form),
    /// No answer will ever come.
    Lose(usize),
    Overdue(&'static str),
    Read(&'static str),
    TakeRead(usize),
    AnswerRead(usize),
    Other(&'static str, Verb),
    Watch,
    ListBegins,
    ListIsTaken,
    ListItem,
    ListEnds,
}

/// How much of an answer we use.
#[derive(Clone, Copy, Debug)]
enum Form {
    Whole,
    Part,
    WithoutVersion,
}

struct Request {
    name: &'static str,
    /// Object of the request; none for a create.
    uid: Option<u64>,
    verb: Verb,
    taken: Option<Result<Done, Refused>>,
    /// Another of our requests was in flight at some time during this one.
    overlapped: bool,
}

/// Result of a read.
struct Found(Option<Object>);

struct Reading {
    name: &'static str,
    found: Option<Found>,
    /// A write has begun since the read.
    void: bool,
}

/// What the test knows about a name, apart from the store.
#[derive(Clone, Default)]
struct Known {
    /// Object that the watch or a list showed last.
    shown: Option<Thing>,
    /// Object whose creation was answered; the store must hold it until it learns otherwise.
    created: Option<u64>,
    /// Last object with such an answer.
    answered: Option<u64>,
    /// First version in such an answer.
    created_at: u64,
    /// Value of `created` when the current list began.
    created_before_list: Option<u64>,
    /// The watch was late when we declared something overdue.
    overdue_too_early: bool,
    /// Versions of our accepted writes and of our reads.
    accepted: BTreeSet<u64>,
}

struct World {
    server: Server,
    store: Store<Thing>,
    /// Number of log entries that the watch has shown.
    watched: usize,
    /// Version of the last change or list that was shown.
    told: u64,
    listing: Listing,
    requests: Vec<Request>,
    readings: Vec<Reading>,
    known: BTreeMap<&'static str, Known>,
    /// For each uid the maximum of all shown and answered fields.
    floor: BTreeMap<u64, [u64; 5]>,
    /// Uids that the watch, a list or an answer reported as gone.
    gone: BTreeSet<u64>,
    /// Writes that the server took but whose answers never came: uid and fields.
    lost: Vec<(u64, [u64; 5])>,
    /// Objects as seen by a handler that receives only changes.
    replica: BTreeMap<ObjectKey, Thing>,
}

/// The current list.
enum Listing {
    None,
    /// Sent.
    Begun,
    Taken {
        /// Items still to be delivered.
        items: VecDeque<(&'static str, Object)>,
        named: BTreeMap<&'static str, Object>,
        /// Log entry at which the watch continues.
        log: usize,
        version: u64,
    },
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::cluster(name)
}

fn uid(uid: u64) -> Uid {
    Uid::from(uid.to_string().as_str())
}

fn thing(name: &str, object: &Object) -> Thing {
    Thing {
        key: key(name),
        uid: object.uid,
        fields: object.fields,
    }
}

fn read(name: &str, object: &Object) -> (Thing, Uid, u64) {
    (thing(name, object), uid(object.uid), object.version)
}

fn event(name: &str, object: &Object) -> SourceEvent<Thing> {
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
fn part(verb: Verb, fields: Fields) -> WriteEffect<Thing> {
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
fn only(verb: Verb, fields: Fields) -> [u64; 5] {
    let [ours, mark, _, deleting, released] = fields.each();
    match verb {
        Verb::WriteOurs => [ours, 0, 0, 0, 0],
        Verb::WriteMark => [0, mark, 0, 0, 0],
        Verb::Delete => [0, 0, 0, deleting, 0],
        Verb::Release => [0, 0, 0, 0, released],
        _ => [0; 5],
    }
}

impl World {
    fn new() -> Self {
        Self {
            server: Server::default(),
            store: Store::default(),
            watched: 0,
            told: 0,
            listing: Listing::None,
            requests: Vec::new(),
            readings: Vec::new(),
            known: NAMES.iter().map(|name| (*name, Known::default())).collect(),
            floor: BTreeMap::new(),
            gone: BTreeSet::new(),
            lost: Vec::new(),
            replica: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Send(name, verb) => self.send(name, *verb),
            Step::Take(n) => {
                let waiting = self.requests.iter_mut().filter(|request| request.taken.is_none());
                let mut waiting: Vec<_> = waiting.collect();
                let count = waiting.len().max(1);
                if let Some(request) = waiting.get_mut(n % count) {
                    request.taken = Some(self.server.request(request.name, request.uid, request.verb));
                }
            }
            Step::Answer(n, form) => {
                let count = self.requests.len().max(1);
                if self
                    .requests
                    .get(n % count)
                    .is_some_and(|request| request.taken.is_some())
                {
                    let request = self.requests.remove(n % count);
                    self.answer(&request, *form);
                }
            }
            Step::Lose(n) => {
                if !self.requests.is_empty() {
                    let request = self.requests.remove(n % self.requests.len());
                    self.lose(&request);
                    self.store.unknown(&key(request.name));
                }
            }
            Step::Overdue(name) => {
                let is_late = self.is_late(name);
                let known = self.known.get_mut(name).unwrap();
                for version in &known.accepted {
                    let is_overdue = self.store.overdue(&key(name), id_of(*version));
                    known.overdue_too_early |= is_late && is_overdue;
                }
            }
            Step::Read(name) => self.begin_read(name),
            Step::TakeRead(n) => {
                let count = self.readings.len().max(1);
                if let Some(reading) = self.readings.get_mut(n % count) {
                    let object = self.server.objects.get(reading.name);
                    reading.found = Some(Found(object.filter(|object| object.kept).cloned()));
                }
            }
            Step::AnswerRead(n) => {
                if !self.readings.is_empty() {
                    let reading = self.readings.remove(n % self.readings.len());
                    self.answer_read(reading);
                }
            }
            Step::Other(name, verb) => {
                let _ = self.server.request(name, None, *verb);
            }
            Step::Watch => {
                if matches!(self.listing, Listing::None) && self.watched < self.server.log.len() {
                    let logged = self.server.log[self.watched].clone();
                    self.watched += 1;
                    self.watch(&logged);
                }
            }
            Step::ListBegins => {
                self.apply(SourceEvent::Init);
                self.listing = Listing::Begun;
                for known in self.known.values_mut() {
                    known.created_before_list = known.created;
                }
            }
            Step::ListIsTaken => {
                if matches!(self.listing, Listing::Begun) {
                    let named = self.server.objects.clone();
                    self.listing = Listing::Taken {
                        items: named.clone().into_iter().collect(),
                        named,
                        log: self.server.log.len(),
                        version: self.server.version,
                    };
                }
            }
            Step::ListItem => {
                if let Listing::Taken { items, .. } = &mut self.listing
                    && let Some((name, object)) = items.pop_front()
                {
                    self.apply(event(name, &object));
                }
            }
            Step::ListEnds => self.end_list(),
        }
        self.check();
    }

    fn held(&self, name: &str) -> Option<Thing> {
        self.store.get(&key(name)).map(|thing| (*thing).clone())
    }

    /// True if the watch has yet to deliver something with this name.
    fn is_late(&self, name: &str) -> bool {
        let mut rest = self.server.log[self.watched..].iter();
        !matches!(self.listing, Listing::None) || rest.any(|logged| logged.name == name)
    }

    fn known(&mut self, name: &'static str) -> &mut Known {
        self.known.get_mut(name).unwrap()
    }

    /// Applies changes as a handler would.
    fn replay(&mut self, deltas: impl IntoIterator<Item = Delta<Thing>>) {
        for delta in deltas {
            for change in delta.changes() {
                match change {
                    Change::Added(new) => {
                        let before = self.replica.insert(new.key.clone(), (**new).clone());
                        assert_eq!(before, None, "added twice");
                    }
                    Change::Updated { old, new } => {
                        assert_eq!(old.uid, new.uid);
                        assert_ne!(old, new, "nothing was updated");
                        let before = self.replica.insert(new.key.clone(), (**new).clone());
                        assert_eq!(before.as_ref(), Some(&**old), "updated from something else");
                    }
                    Change::Deleted(last) => {
                        let before = self.replica.remove(&last.key).expect("deleted twice");
                        assert_eq!(before.uid, last.uid);
                    }
                }
            }
        }
    }

    fn apply(&mut self, event: SourceEvent<Thing>) {
        let deltas = self.store.apply(event).deltas;
        self.replay(deltas);
    }

    fn raise(&mut self, uid: u64, fields: [u64; 5]) {
        let floor = self.floor.entry(uid).or_default();
        for (floor, field) in floor.iter_mut().zip(fields) {
            *floor = field.max(*floor);
        }
    }

    fn send(&mut self, name: &'static str, verb: Verb) {
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

    fn answer(&mut self, request: &Request, form: Form) {
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
    fn hear(&mut self, name: &str, uid: u64, version: u64) {
        let shown = self.known[name].shown.as_ref().map(|shown| shown.uid);
        if version <= self.told && shown != Some(uid) {
            self.gone.insert(uid);
        }
    }

    /// The fate of the request stays unknown.
    fn lose(&mut self, request: &Request) {
        if !request.overlapped
            && let Some(Ok(Done::Written(object))) = &request.taken
        {
            let fields = only(request.verb, object.fields);
            self.lost.push((object.uid, fields));
        }
    }

    fn begin_read(&mut self, name: &'static str) {
        // The loop sends a read after our last write was answered or given up, and after the last read.
        let is_reading = self.readings.iter().any(|other| other.name == name);
        if !is_reading && !self.store.is_writing(&key(name)) {
            self.readings.push(Reading {
                name,
                found: None,
                void: false,
            });
        }
    }

    fn answer_read(&mut self, reading: Reading) {
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
        let held = self.held(name).map(|held| held.uid);
        let uid = found.as_ref().map(|object| object.uid);
        // The fate of writes to an earlier object does not matter: the watch will show that the object is gone.
        self.lost
            .retain(|(lost, _)| Some(*lost) != held || Some(*lost) == uid);
        let delta = self
            .store
            .read(&key, found.as_ref().map(|object| read(name, object)));
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
    fn created(&mut self, name: &'static str, uid: u64, version: u64) {
        let known = self.known(name);
        if known.created.replace(uid) != Some(uid) {
            known.created_at = version;
        }
        known.answered = Some(uid);
    }

    fn watch(&mut self, logged: &Logged) {
        let Logged {
            name,
            object,
            deleted,
        } = logged;
        if *deleted {
            self.apply(SourceEvent::Deleted(Removed {
                key: key(name),
                uid: uid(object.uid),
                view: Some(thing(name, object)).filter(|_| object.kept),
                version: Some(object.version.to_string().into()),
            }));
        } else {
            self.apply(event(name, object));
        }
        self.told = object.version;
        self.shown(
            name,
            Some(object).filter(|object| object.kept && !deleted),
            object.uid,
        );
    }

    /// The watch or a list has shown this object of this uid.
    fn shown(&mut self, name: &'static str, object: Option<&Object>, uid: u64) {
        let now = object.map(|object| thing(name, object));
        let before = std::mem::replace(&mut self.known(name).shown, now);
        if let Some(before) = before.filter(|before| object.is_none_or(|object| object.uid != before.uid)) {
            self.gone.insert(before.uid);
        }
        match object {
            None => {
                self.gone.insert(uid);
            }
            Some(object) => {
                self.raise(object.uid, object.fields.each());
                // The watch may still show an object that we have deleted.
                let is_another = !self.gone.contains(&uid);
                self.known(name)
                    .created
                    .take_if(|created| is_another && *created != uid);
            }
        }
    }

    fn end_list(&mut self) {
        let (items, named, log, version) = match std::mem::replace(&mut self.listing, Listing::None) {
            Listing::Taken {
                items,
                named,
                log,
                version,
            } => (items, named, log, version),
            other => {
                self.listing = other;
                return;
            }
        };
        for (name, object) in items {
            self.apply(event(name, &object));
        }
        self.apply(SourceEvent::InitDone {
            version: Some(version.to_string().into()),
        });
        (self.watched, self.told) = (log, version);
        for name in NAMES {
            let object = named.get(name).filter(|object| object.kept);
            if let Some(object) = object {
                self.shown(name, Some(object), object.uid);
            } else {
                let known = self.known(name);
                let shown = known.shown.take().map(|shown| shown.uid);
                // A list may lack objects created after it.
                let created = known.created.filter(|_| known.created_at <= version);
                let before = known.created_before_list;
                self.gone.extend(shown.into_iter().chain(created).chain(before));
            }
        }
    }

    fn check(&self) {
        let held: Vec<_> = self
            .store
            .snapshot()
            .iter()
            .map(|thing| (**thing).clone())
            .collect();
        let replica: Vec<_> = self.replica.values().cloned().collect();
        assert_eq!(held, replica, "what was told is not what is held");
        for thing in &held {
            let found = self.store.by_index(&thing.fields.ours);
            assert!(
                found.iter().any(|found| **found == *thing),
                "{thing:?} is not indexed"
            );
            assert!(!self.gone.contains(&thing.uid), "{thing:?} came back");
            let floor = self.floor.get(&thing.uid).copied().unwrap_or_default();
            let fields = thing.fields.each();
            assert!(
                fields.iter().zip(floor).all(|(field, floor)| *field >= floor),
                "{thing:?} is older than {floor:?}"
            );
        }
        for (name, known) in &self.known {
            let held = self.held(name);
            let freshness = self.store.freshness(&key(name));
            if let Some(shown) = known
                .shown
                .as_ref()
                .filter(|shown| !self.gone.contains(&shown.uid))
            {
                let held = held.as_ref().map(|held| held.uid);
                assert_eq!(held, Some(shown.uid), "{name} was shown");
            }
            if let Some(created) = known.created.filter(|created| !self.gone.contains(created)) {
                let held = held.as_ref().map(|held| held.uid);
                assert_eq!(held, Some(created), "{name} was created");
            }
            if freshness == Freshness::Synced {
                assert_eq!(held, known.shown, "{name} is synced");
                for (uid, fields) in &self.lost {
                    if let Some(held) = held.as_ref().filter(|held| held.uid == *uid) {
                        let held = held.fields.each();
                        let has_all = held.iter().zip(fields).all(|(held, lost)| held >= lost);
                        assert!(has_all, "{name} is synced without {fields:?}");
                    }
                }
            }
            let writing = self.requests.iter().any(|request| request.name == *name);
            assert_eq!(self.store.is_writing(&key(name)), writing);
        }
    }

    /// Ends everything in progress.
    fn finish(&mut self) {
        self.step(&Step::ListIsTaken);
        self.step(&Step::ListEnds);
        while !self.requests.is_empty() {
            self.step(&Step::Take(0));
            self.step(&Step::Answer(0, Form::Whole));
        }
        while !self.readings.is_empty() {
            self.step(&Step::TakeRead(0));
            self.step(&Step::AnswerRead(0));
        }
        while self.watched < self.server.log.len() {
            self.step(&Step::Watch);
        }
        // Unknown objects are read; changes that the watch never shows are declared overdue.
        for name in NAMES {
            for step in [Step::Read(name), Step::Overdue(name), Step::Read(name)] {
                let is_unknown = self.store.freshness(&key(name)) == Freshness::Unknown;
                if is_unknown || matches!(step, Step::Overdue(_)) {
                    self.step(&step);
                }
                self.step(&Step::TakeRead(0));
                self.step(&Step::AnswerRead(0));
            }
        }
        self.check_end();
        assert_eq!(self.store.mutations(), 0, "something is remembered");
    }

    fn check_end(&self) {
        for name in NAMES {
            let object = self.server.objects.get(name).filter(|object| object.kept);
            assert_eq!(
                self.held(name),
                object.map(|object| thing(name, object)),
                "{name} in the end"
            );
        }
    }
}

/// The number of the request whose answer has this version; version 0 has none.
const fn id_of(version: u64) -> u64 {
    if version == 0 { u64::MAX } else { version }
}

fn ours() -> impl Strategy<Value = Verb> {
    prop_oneof![
        3 => any::<bool>().prop_map(Verb::Create),
        3 => Just(Verb::WriteOurs),
        2 => Just(Verb::WriteMark),
        3 => Just(Verb::Delete),
        2 => Just(Verb::Release),
        1 => Just(Verb::Touch),
    ]
}

fn theirs() -> impl Strategy<Value = Verb> {
    prop_oneof![
        3 => any::<bool>().prop_map(Verb::Create),
        3 => Just(Verb::WriteTheirs),
        2 => Just(Verb::WriteOurs),
        3 => Just(Verb::Touch),
        2 => Just(Verb::Delete),
        1 => Just(Verb::Release),
        1 => Just(Verb::Hide),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let name = || prop::sample::select(&NAMES[..]);
    let which = || 0..4_usize;
    let form = prop_oneof![3 => Just(Form::Whole), 3 => Just(Form::Part), 1 => Just(Form::WithoutVersion)];
    prop_oneof![
        8 => (name(), ours()).prop_map(|(name, verb)| Step::Send(name, verb)),
        8 => which().prop_map(Step::Take),
        8 => (which(), form).prop_map(|(n, form)| Step::Answer(n, form)),
        1 => which().prop_map(Step::Lose),
        1 => name().prop_map(Step::Overdue),
        2 => name().prop_map(Step::Read),
        2 => which().prop_map(Step::TakeRead),
        2 => which().prop_map(Step::AnswerRead),
        8 => (name(), theirs()).prop_map(|(name, verb)| Step::Other(name, verb)),
        12 => Just(Step::Watch),
        1 => Just(Step::ListBegins),
        3 => Just(Step::ListIsTaken),
        2 => Just(Step::ListItem),
        2 => Just(Step::ListEnds),
    ]
}

/// Nightly runs request more cases.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: config.cases.max(2048),
        failure_persistence: None,
        ..config
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_store_is_never_older_than_what_it_was_told(steps in prop::collection::vec(step(), 0..100)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.finish();
    }
}
