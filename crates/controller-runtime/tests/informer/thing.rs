//! A small kind, an informer for it, and a handler that records its changes.

use std::sync::Arc;
use std::time::Duration;

use controller_core::cache::{
    Change, DecodeError, Delta, Identity, SourceEvent, Store, Taken, View, Wire, intern,
};
use controller_core::meta::ObjectKey;
use controller_runtime::clock::Clock;
use controller_runtime::informer::{Handler, Informer, InformerMetrics, InformerState, Source, set_back};
use controller_runtime::tasks::TaskSet;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use prometheus::{Registry, TextEncoder};
use tokio::sync::{Notify, watch};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Thing {
    pub(crate) key: ObjectKey,
    pub(crate) node: Arc<str>,
    pub(crate) value: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum By {
    Node(Arc<str>),
    Value(i64),
}

#[derive(Clone, serde::Deserialize)]
pub(crate) struct ThingWire {
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Default, serde::Deserialize)]
#[serde(default)]
struct Spec {
    node: String,
    value: i64,
}

impl View for Thing {
    type Index = By;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn index(&self, out: &mut Vec<By>) {
        out.push(By::Node(Arc::clone(&self.node)));
        out.push(By::Value(self.value));
        // Twice, as for an object with two owner references to one owner.
        out.push(By::Node(Arc::clone(&self.node)));
    }
}

impl Wire for ThingWire {
    type View = Thing;

    fn is_kept(&self) -> bool {
        self.spec.value != 99
    }

    fn into_view(self, object: Identity) -> Result<Thing, DecodeError> {
        if self.spec.value == 13 {
            return Err(DecodeError::Unrepresentable("spec.value is 13".to_owned()));
        }
        Ok(Thing {
            key: object.key,
            node: intern(&self.spec.node),
            value: self.spec.value,
        })
    }
}

/// `ns/NAME` on node `n1`.
pub(crate) fn thing(name: &str, value: i64) -> Thing {
    on_node(name, "n1", value)
}

pub(crate) fn on_node(name: &str, node: &str, value: i64) -> Thing {
    Thing {
        key: key(name),
        node: node.into(),
        value,
    }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ns", name)
}

/// Changes that the handler received: `+ns/a=1`, `~ns/a=1>2`, `-ns/a=2`, and `synced` after the first list.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Heard>>);

#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) store: Store<Thing>,
    lines: Vec<String>,
    is_listed: bool,
}

impl Told {
    /// Changes since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().lines)
    }
}

impl Handler<Thing> for Told {
    fn handle(&self, event: SourceEvent<Thing>) -> Taken {
        let mut heard = self.0.lock();
        let is_list = matches!(event, SourceEvent::InitDone { .. });
        let applied = heard.store.apply(event);
        for change in applied.deltas.iter().flat_map(Delta::changes) {
            let line = line(&change, &heard.store);
            heard.lines.push(line);
        }
        if is_list && !std::mem::replace(&mut heard.is_listed, true) {
            heard.lines.push("synced".to_owned());
        }
        Taken {
            changes: applied.deltas.len(),
            objects: heard.store.len(),
        }
    }

    fn list_again(&self) -> Arc<Notify> {
        set_back(&mut self.0.lock().store)
    }
}

fn line(change: &Change<'_, Thing>, store: &Store<Thing>) -> String {
    let held = |thing: &Thing| store.get(&thing.key);
    match change {
        Change::Added(new) => {
            assert!(held(new).is_some(), "told before the store held it");
            format!("+{}={}", new.key, new.value)
        }
        Change::Updated { old, new } => {
            assert!(held(new).is_some(), "told before the store held it");
            format!("~{}={}>{}", new.key, old.value, new.value)
        }
        Change::Deleted(last) => {
            let other = held(last);
            // The store no longer holds the object when the handler receives its deletion.
            assert!(other.is_none_or(|other| !Arc::ptr_eq(&other, last)));
            format!("-{}={}", last.key, last.value)
        }
    }
}

pub(crate) struct Running {
    pub(crate) clock: Clock,
    pub(crate) state: watch::Receiver<InformerState>,
    pub(crate) told: Told,
    registry: Registry,
    _tasks: TaskSet,
}

pub(crate) fn clock() -> Clock {
    Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

impl Running {
    pub(crate) fn start(source: impl Source<View = Thing>, clock: Clock) -> Self {
        let registry = Registry::new();
        let metrics = InformerMetrics::register(&registry).unwrap();
        let told = Told::default();
        let metrics = metrics.for_resource("things");
        let informer = Informer::new(source, clock.clone(), metrics, told.clone());
        let state = informer.state();
        let mut tasks = TaskSet::new();
        tasks.spawn("informer-things", informer.run());
        Self {
            clock,
            state,
            told,
            registry,
            _tasks: tasks,
        }
    }

    pub(crate) fn store(&self) -> MappedMutexGuard<'_, Store<Thing>> {
        MutexGuard::map(self.told.0.lock(), |heard| &mut heard.store)
    }

    /// Completes once the first list is complete and the handler has seen it (CORE-4).
    pub(crate) async fn synced(&self) {
        let mut state = self.state.clone();
        state.wait_for(|state| state.synced).await.unwrap();
    }

    /// Lets everything happen that needs no time.
    pub(crate) async fn settle(&self) {
        self.clock.sleep(Duration::from_millis(1)).await;
    }

    pub(crate) async fn told(&self) -> Vec<String> {
        self.settle().await;
        self.told.take()
    }

    /// `NAME=VALUE` of every object.
    pub(crate) fn held(&self) -> Vec<String> {
        let things = self.store().snapshot();
        things
            .iter()
            .map(|thing| format!("{}={}", thing.key.name, thing.value))
            .collect()
    }

    pub(crate) fn names_by(&self, index: &By) -> Vec<String> {
        let things = self.store().by_index(index);
        things.iter().map(|thing| thing.key.name.to_string()).collect()
    }

    /// The sample of `informer_NAME{resource="things"}`.
    pub(crate) fn metric(&self, name: &str) -> i64 {
        let text = TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap();
        let prefix = format!("informer_{name}{{resource=\"things\"}} ");
        let sample = text.lines().find_map(|line| line.strip_prefix(&prefix));
        sample
            .unwrap_or_else(|| panic!("no {prefix} in\n{text}"))
            .parse()
            .unwrap()
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        let state = self.state.borrow();
        state
            .last_error
            .as_ref()
            .map(|error| format!("{:?}: {error}", error.kind))
    }
}
