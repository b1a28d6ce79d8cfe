//! Any sequence of events, well-formed or not: the store, its indexes and the changes for handlers agree with a simple
//! model.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_core::cache::{DecodeError, ErrorKind, Removed, Skipped, SourceError, SourceEvent, Versioned};
use controller_core::meta::Uid;
use controller_testing::scripted::scripted;
use proptest::prelude::*;

use crate::thing::{By, Running, Thing, clock, key, on_node};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const NODES: [&str; 2] = ["n1", "n2"];
const UIDS: [&str; 2] = ["u1", "u2"];

#[derive(Clone, Debug)]
enum Event {
    Init,
    InitItem(Object),
    InitDone,
    Applied(Object),
    /// `true` if the last state can be decoded.
    Deleted(Object, bool),
    /// Whether the name and whether the uid can be read.
    Skipped(Object, bool, bool),
    Healthy,
    Failed(ErrorKind),
    /// A list from a correct source.
    List(Vec<Object>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Object {
    name: &'static str,
    uid: &'static str,
    node: &'static str,
    value: i64,
}

impl Object {
    fn view(&self) -> Thing {
        on_node(self.name, self.node, self.value)
    }

    fn observed(&self) -> Versioned<Thing> {
        Versioned {
            view: self.view(),
            uid: Uid::from(self.uid),
            version: None,
        }
    }
}

#[derive(Default)]
struct Model {
    held: BTreeMap<&'static str, Object>,
    listing: Option<BTreeMap<&'static str, Object>>,
    synced: bool,
    told: Vec<String>,
}

impl Model {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Init => self.listing = Some(BTreeMap::new()),
            Event::InitItem(object) | Event::Applied(object) => match &mut self.listing {
                Some(listing) => {
                    listing.insert(object.name, *object);
                }
                None => self.put(*object),
            },
            Event::InitDone => self.finish_list(),
            Event::Deleted(object, decodable) => match &mut self.listing {
                Some(listing) => {
                    listing.remove(object.name);
                }
                None => {
                    if let Some(old) = self.held.remove(object.name) {
                        let last = if *decodable && old.uid == object.uid {
                            object
                        } else {
                            &old
                        };
                        self.told.push(format!("-ns/{}={}", last.name, last.value));
                    }
                }
            },
            Event::Skipped(object, named, with_uid) => {
                let held = self.held.get(object.name).filter(|_| *named).copied();
                let Some(held) = held else { return };
                let same = !with_uid || held.uid == object.uid;
                match &mut self.listing {
                    Some(listing) if same => {
                        listing.entry(held.name).or_insert(held);
                    }
                    None if !same => self.delete(held.name),
                    _ => {}
                }
            }
            Event::Healthy | Event::Failed(_) => {}
            Event::List(objects) => {
                self.listing = Some(objects.iter().map(|object| (object.name, *object)).collect());
                self.finish_list();
            }
        }
    }

    fn finish_list(&mut self) {
        let Some(listing) = self.listing.take() else {
            return;
        };
        for name in NAMES {
            if !listing.contains_key(name) {
                self.delete(name);
            }
        }
        for object in listing.into_values() {
            self.put(object);
        }
        if !self.synced {
            self.synced = true;
            self.told.push("synced".to_owned());
        }
    }

    fn put(&mut self, new: Object) {
        let (name, value) = (new.name, new.value);
        match self.held.insert(name, new) {
            None => self.told.push(format!("+ns/{name}={value}")),
            Some(old) if old.uid != new.uid => {
                self.told.push(format!("-ns/{name}={}", old.value));
                self.told.push(format!("+ns/{name}={value}"));
            }
            Some(old) if old == new => {}
            Some(old) => self.told.push(format!("~ns/{name}={}>{value}", old.value)),
        }
    }

    fn delete(&mut self, name: &str) {
        if let Some(old) = self.held.remove(name) {
            self.told.push(format!("-ns/{name}={}", old.value));
        }
    }
}

/// Objects as seen by a handler that receives only changes.
fn replay(told: &[String]) -> BTreeMap<String, i64> {
    let mut held = BTreeMap::new();
    for line in told.iter().filter(|line| *line != "synced") {
        let (name, value) = line[1..].split_once('=').unwrap();
        let name = name.to_owned();
        match &line[..1] {
            "+" => assert_eq!(held.insert(name, value.parse().unwrap()), None, "added twice"),
            "~" => {
                let (old, new) = value.split_once('>').unwrap();
                let before = held.insert(name, new.parse().unwrap());
                assert_eq!(before, Some(old.parse().unwrap()), "updated from something else");
            }
            _ => assert!(held.remove(&name).is_some(), "deleted what was not there"),
        }
    }
    held
}

fn object() -> impl Strategy<Value = Object> {
    (0..NAMES.len(), 0..UIDS.len(), 0..NODES.len(), 0..3_i64).prop_map(|(name, uid, node, value)| Object {
        name: NAMES[name],
        uid: UIDS[uid],
        node: NODES[node],
        value,
    })
}

fn event() -> impl Strategy<Value = Event> {
    let kind = prop_oneof![
        Just(ErrorKind::Expired),
        Just(ErrorKind::NotServed),
        Just(ErrorKind::Other)
    ];
    prop_oneof![
        1 => Just(Event::Init),
        2 => object().prop_map(Event::InitItem),
        1 => Just(Event::InitDone),
        6 => object().prop_map(Event::Applied),
        3 => (object(), any::<bool>()).prop_map(|(object, decodable)| Event::Deleted(object, decodable)),
        2 => (object(), any::<bool>(), any::<bool>()).prop_map(|(object, named, uid)| Event::Skipped(object, named, uid)),
        1 => Just(Event::Healthy),
        1 => kind.prop_map(Event::Failed),
        2 => prop::collection::vec(object(), 0..6).prop_map(Event::List),
    ]
}

async fn check(events: Vec<Event>) {
    let (script, source) = scripted();
    let running = Running::start(source, clock());
    let mut model = Model::default();
    for event in &events {
        model.take(event);
        match event.clone() {
            Event::Init => script.send(SourceEvent::Init),
            Event::InitItem(object) => script.send(SourceEvent::InitItem(object.observed())),
            Event::InitDone => script.send(SourceEvent::InitDone { version: None }),
            Event::Applied(object) => script.send(SourceEvent::Applied(object.observed())),
            Event::Deleted(object, decodable) => script.send(SourceEvent::Deleted(Removed {
                key: key(object.name),
                uid: Uid::from(object.uid),
                view: decodable.then(|| object.view()),
                version: None,
            })),
            Event::Skipped(object, named, with_uid) => script.send(SourceEvent::Skipped(Skipped {
                key: named.then(|| key(object.name)),
                uid: with_uid.then(|| Uid::from(object.uid)),
                version: None,
                error: DecodeError::Unnamed,
            })),
            Event::Healthy => script.send(SourceEvent::Healthy),
            Event::Failed(kind) => script.send(SourceEvent::Failed(SourceError {
                kind,
                retry_after: None,
                message: String::new(),
            })),
            Event::List(objects) => script.list(objects.iter().map(|object| (object.view(), object.uid))),
        }
    }
    // Longer than all backoffs together.
    running.clock.sleep(Duration::from_hours(1)).await;

    let told = running.told.take();
    let things: Vec<_> = running
        .store()
        .snapshot()
        .iter()
        .map(|thing| (**thing).clone())
        .collect();
    assert_eq!(
        things,
        model.held.values().map(Object::view).collect::<Vec<_>>(),
        "the store"
    );
    assert_eq!(told, model.told, "what was told");
    assert_eq!(running.state.borrow().synced, model.synced);
    assert_eq!(
        running.metric("objects"),
        i64::try_from(model.held.len()).unwrap()
    );
    let held = model
        .held
        .values()
        .map(|object| (format!("ns/{}", object.name), object.value));
    assert_eq!(replay(&told), held.collect(), "what a handler makes of it");
    for value in 0..3 {
        let expected = model.held.values().filter(|object| object.value == value);
        let expected: Vec<_> = expected.map(|object| object.name).collect();
        assert_eq!(running.names_by(&By::Value(value)), expected, "by value {value}");
    }
    for node in NODES {
        let expected: Vec<_> = model
            .held
            .values()
            .filter(|object| object.node == node)
            .map(Object::view)
            .collect();
        let found = running.store().by_index(&By::Node(node.into()));
        assert_eq!(
            found.iter().map(|thing| (**thing).clone()).collect::<Vec<_>>(),
            expected,
            "by node {node}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn store_indexes_and_handlers_agree_with_the_model(events in prop::collection::vec(event(), 0..60)) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(check(events));
    }
}
