//! A store next to a small API server, with what the test knows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use controller_core::cache::{Change, Delta, Removed, SourceEvent, Store};
use controller_core::meta::ObjectKey;

use crate::NAMES;
use crate::server::{Done, Logged, Object, Refused, Server, Verb};
use crate::things::{Thing, event, id_of, key, thing, uid};

/// Numbers are taken modulo the number of candidates; impossible steps are skipped.
#[derive(Clone, Debug)]
pub(crate) enum Step {
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
pub(crate) enum Form {
    Whole,
    Part,
    WithoutVersion,
}

pub(crate) struct Request {
    pub(crate) name: &'static str,
    /// Object of the request; none for a create.
    pub(crate) uid: Option<u64>,
    pub(crate) verb: Verb,
    pub(crate) taken: Option<Result<Done, Refused>>,
    /// Another of our requests was in flight at some time during this one.
    pub(crate) overlapped: bool,
}

/// Result of a read.
pub(crate) struct Found(pub(crate) Option<Object>);

pub(crate) struct Reading {
    pub(crate) name: &'static str,
    pub(crate) found: Option<Found>,
    /// The step of the store.
    pub(crate) sent: u64,
    /// A write has begun since the read.
    pub(crate) void: bool,
    /// Another read of this name was answered since.
    pub(crate) is_late: bool,
}

/// What the test knows about a name, apart from the store.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// Object that the watch or a list showed last.
    pub(crate) shown: Option<Thing>,
    /// Object whose creation was answered; the store must hold it until it learns otherwise.
    pub(crate) created: Option<u64>,
    /// Last object with such an answer.
    pub(crate) answered: Option<u64>,
    /// First version in such an answer.
    pub(crate) created_at: u64,
    /// Value of `created` when the current list began.
    pub(crate) created_before_list: Option<u64>,
    /// The watch was late when we declared something overdue.
    pub(crate) overdue_too_early: bool,
    /// Versions of our accepted writes and of our reads.
    pub(crate) accepted: BTreeSet<u64>,
}

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) store: Store<Thing>,
    /// Number of log entries that the watch has shown.
    pub(crate) watched: usize,
    /// Version of the last change or list that was shown.
    pub(crate) told: u64,
    pub(crate) listing: Listing,
    pub(crate) requests: Vec<Request>,
    pub(crate) readings: Vec<Reading>,
    pub(crate) known: BTreeMap<&'static str, Known>,
    /// For each uid the maximum of all shown and answered fields.
    pub(crate) floor: BTreeMap<u64, [u64; 5]>,
    /// Uids that the watch, a list or an answer reported as gone.
    pub(crate) gone: BTreeSet<u64>,
    /// Writes that the server took but whose answers never came: uid and fields.
    pub(crate) lost: Vec<(u64, [u64; 5])>,
    /// Objects as seen by a handler that receives only changes.
    pub(crate) replica: BTreeMap<ObjectKey, Thing>,
}

/// The current list.
pub(crate) enum Listing {
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

impl World {
    pub(crate) fn new() -> Self {
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

    pub(crate) fn step(&mut self, step: &Step) {
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
                let count = self.readings.len().max(1);
                if let Some(Reading { found: Some(_), .. }) = self.readings.get(n % count) {
                    let reading = self.readings.remove(n % count);
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

    pub(crate) fn held(&self, name: &str) -> Option<Thing> {
        self.store.get(&key(name)).map(|thing| (*thing).clone())
    }

    /// True if the watch has yet to deliver something with this name.
    pub(crate) fn is_late(&self, name: &str) -> bool {
        let mut rest = self.server.log[self.watched..].iter();
        !matches!(self.listing, Listing::None) || rest.any(|logged| logged.name == name)
    }

    pub(crate) fn known(&mut self, name: &'static str) -> &mut Known {
        self.known.get_mut(name).unwrap()
    }

    /// Applies changes as a handler would.
    pub(crate) fn replay(&mut self, deltas: impl IntoIterator<Item = Delta<Thing>>) {
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

    pub(crate) fn apply(&mut self, event: SourceEvent<Thing>) {
        let deltas = self.store.apply(event).deltas;
        self.replay(deltas);
    }

    pub(crate) fn raise(&mut self, uid: u64, fields: [u64; 5]) {
        let floor = self.floor.entry(uid).or_default();
        for (floor, field) in floor.iter_mut().zip(fields) {
            *floor = field.max(*floor);
        }
    }

    pub(crate) fn watch(&mut self, logged: &Logged) {
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
    pub(crate) fn shown(&mut self, name: &'static str, object: Option<&Object>, uid: u64) {
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

    pub(crate) fn end_list(&mut self) {
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
}
