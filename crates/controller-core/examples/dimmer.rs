//! A whole controller: it brings each lamp, which is a `ConfigMap`, to its wanted brightness, one step per write.
//!
//! CONTRIBUTING.md explains it piece by piece. Run it on the cluster of your kubeconfig with `cargo run -p
//! controller-runtime --example dimmer -- --leader-elect=false`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::process::ExitCode;

use controller_core::about::{About, about};
use controller_core::api::Verb;
use controller_core::app::{App, Informers, Prepared, Started};
use controller_core::cache::protobuf::{METADATA, Message, TEXTS_BY_NAME};
use controller_core::cache::{Change, DecodeError, Freshness, Identity, Store, View, Wire};
use controller_core::config::CommonConfig;
use controller_core::controller::{
    Action, CacheRead, CacheWrite, Context, ContextMut, Controller, Description, LoopEvent, Object, Outcome,
    Pass, Request, ResultOf, Watches, requests_to,
};
use controller_core::events::Recorder;
use controller_core::meta::ObjectKey;
use controller_core::{cache, controller};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::params::{GetParams, Patch, PatchParams};
use prometheus::Registry;
use serde::Deserialize;
use serde_json::json;

/// What the store keeps of a lamp.
#[derive(Clone, Debug, PartialEq)]
pub struct Lamp {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `data.wanted`.
    pub wanted: u8,
    /// `data.shines`, which the controller writes.
    pub shines: u8,
}

/// What is decoded of a `ConfigMap`.
#[derive(Clone, Debug, Deserialize)]
pub struct LampWire {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl View for Lamp {
    type Index = Infallible;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

impl LampWire {
    fn number(&self, name: &str) -> Option<u8> {
        self.data.get(name)?.parse().ok()
    }
}

impl Wire for LampWire {
    type View = Lamp;

    const MESSAGE: Option<Message> = Some(&[METADATA, (2, "data", TEXTS_BY_NAME)]);

    /// Other `ConfigMap`s are no lamps.
    fn is_kept(&self) -> bool {
        self.number("wanted").is_some()
    }

    fn into_view(self, lamp: Identity) -> Result<Lamp, DecodeError> {
        Ok(Lamp {
            key: lamp.key,
            wanted: self.number("wanted").unwrap_or(0),
            shines: self.number("shines").unwrap_or(0),
        })
    }
}

/// The next brightness of a lamp; `None` if it shines as wanted.
fn step(lamp: &Lamp) -> Option<u8> {
    match lamp.shines.cmp(&lamp.wanted) {
        Ordering::Less => Some(lamp.shines + 1),
        Ordering::Greater => Some(lamp.shines - 1),
        Ordering::Equal => None,
    }
}

/// Reads the lamp of this name from the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Query(pub ObjectKey);

impl controller::Query for Query {
    type Answer = Option<cache::Versioned<Lamp>>;

    fn request(&self) -> Request {
        let Self(lamp) = self;
        let get = requests_to::<ConfigMap>(lamp.namespace.as_deref()).get(&lamp.name, &GetParams::default());
        Request::new(Verb::Get, "configmaps", lamp, get)
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<Self::Answer> {
        cache::Versioned::read::<LampWire>(body)
    }
}

/// Sets the brightness of a lamp.
#[derive(Clone, Debug, PartialEq)]
pub struct Dim {
    /// Namespace and name.
    pub lamp: ObjectKey,
    /// The new `data.shines`.
    pub shines: u8,
}

impl controller::Write for Dim {
    const PLANNED: &'static [&'static str] = &["dim"];

    fn request(&self) -> Request {
        let patch = Patch::Merge(json!({"data": {"shines": self.shines.to_string()}}));
        let lamps = requests_to::<ConfigMap>(self.lamp.namespace.as_deref());
        let patch = lamps.patch(&self.lamp.name, &PatchParams::default(), &patch);
        Request::new(Verb::Patch, "configmaps", &self.lamp, patch)
    }

    fn object(&self) -> Object {
        Object::new("configmaps", &self.lamp)
    }

    fn describe(&self) -> Description {
        Description::new("dim", format!("brightness set to {}", self.shines))
    }
}

/// The controller, and its binary.
#[derive(Debug)]
pub struct Dimmer;

impl Watches<Lamp> for Dimmer {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, Lamp>) {
        let (Change::Added(lamp) | Change::Updated { new: lamp, .. } | Change::Deleted(lamp)) = change;
        cx.out.enqueue(lamp.key.clone());
    }
}

impl Controller for Dimmer {
    type Stores = Store<Lamp>;
    /// The cache is enough: nothing needs to be remembered.
    type State = ();
    type Key = ObjectKey;
    type Query = Query;
    type Write = Dim;
    type StateChange = Infallible;
    type Event = String;

    const NAME: &'static str = "dimmer";

    fn on_event(&self, cx: &mut ContextMut<'_, Self>, event: LoopEvent<'_, Self>) {
        match event {
            LoopEvent::Overdue(dim) => cx.out.enqueue(dim.lamp.clone()),
            // Also lamps that seemed done.
            LoopEvent::Resync => cx
                .stores
                .snapshot()
                .iter()
                .for_each(|lamp| cx.out.enqueue(lamp.key.clone())),
            LoopEvent::Synced | LoopEvent::Leading(_) | LoopEvent::Watching(..) | LoopEvent::SetBack => {}
        }
    }

    fn reconcile(&self, cx: &Context<'_, Self>, key: &ObjectKey) -> Action<Self> {
        if cx.stores.freshness(key) == Freshness::Unknown {
            // Nobody knows what became of our last write.
            return cx.read_again(key, Query(key.clone()));
        }
        match cx.stores.get(key).and_then(|lamp| step(&lamp)) {
            Some(shines) => Action::Write(vec![Dim {
                lamp: key.clone(),
                shines,
            }]),
            None => Action::Done(vec![]),
        }
    }

    fn on_result(&self, cx: &mut ContextMut<'_, Self>, key: &ObjectKey, result: ResultOf<'_, Self>) {
        if let ResultOf::Outcome(dim, Outcome::Accepted(_)) = result {
            cx.out.record(format!("{key} shines {}", dim.shines));
        }
    }

    fn apply_to_cache(&self, dim: &Dim, cache: &mut CacheWrite<'_, Self>) {
        let shines = dim.shines;
        let dimmed = move |lamp: &Lamp| Lamp {
            shines,
            ..lamp.clone()
        };
        cache.patch(|lamps| lamps, &dim.lamp, dimmed);
    }

    fn refresh_cache(&self, Query(lamp): &Query, cache: &mut CacheRead<'_, Self>) {
        cache.object(|lamps| lamps, lamp, Option::as_ref);
    }

    fn record(&self, event: String, _: &dyn Recorder) {
        tracing::info!("{event}");
    }
}

impl App for Dimmer {
    type Config = CommonConfig;

    const ABOUT: About = about!(Self::NAME, "Brings each lamp to its wanted brightness");

    fn start(_: &CommonConfig, _: &Pass<Self>, _: &Registry) -> Started<Self> {
        Ok(Prepared::Ready(Ok(Self)))
    }

    fn watch(&self, informers: &mut impl Informers<Self>) {
        informers.fill::<ConfigMap, LampWire>(|lamps| lamps);
    }
}

fn main() -> ExitCode {
    controller_runtime::runtime::main::<Dimmer>()
}
