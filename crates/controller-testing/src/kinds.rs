//! The objects of an API server, by kind, as an administrator sees and changes them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::LazyLock;
use std::time::Duration;

use embedded_apiserver::{OFF_BY_DEFAULT, Resource, SERVED};
use futures::{StreamExt, stream};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use local_control_plane::{Assets, eventually, pod_groups_version};
use serde_json::{Value, json};

use crate::objects::event_line;
use crate::replica::SOON;

/// Number of objects created at a time.
const MADE_AT_ONCE: usize = 16;

/// The version in which the control planes serve `PodGroups`.
static POD_GROUPS_VERSION: LazyLock<&str> =
    LazyLock::new(|| pod_groups_version(Assets::find().and_then(|assets| assets.minor()).unwrap()));

/// The objects of an API server, embedded or real. Names are in the namespace `default`, or in none.
pub struct Objects {
    client: kube::Client,
}

impl Objects {
    pub(crate) fn of(client: kube::Client) -> Self {
        Self { client }
    }

    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The objects of a kind, in the namespace `default` if the kind is namespaced.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        self.api_in("default", kind)
    }

    /// The objects of a kind, in this namespace if the kind is namespaced.
    pub fn api_in(&self, namespace: &str, kind: &str) -> Api<DynamicObject> {
        api(&self.client, namespace, kind)
    }

    /// Creates an object, which must have a `kind`.
    pub async fn create(&self, object: Value) -> Value {
        create(&self.client, object).await
    }

    pub async fn namespace(&self, name: &str) {
        let namespace = json!({"kind": "Namespace", "metadata": {"name": name}});
        self.create(namespace).await;
    }

    pub async fn create_all(&self, objects: impl IntoIterator<Item = Value>) {
        let making = stream::iter(objects).map(|object| self.create(object));
        making.buffer_unordered(MADE_AT_ONCE).for_each(async |_| {}).await;
    }

    /// An object, if it exists.
    pub async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.unwrap()?;
        Some(serde_json::to_value(found).unwrap())
    }

    /// An object, which must exist.
    pub async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.find(kind, name).await;
        found.unwrap_or_else(|| panic!("{kind} {name} is not there"))
    }

    /// All objects of a kind.
    pub async fn all(&self, kind: &str) -> Vec<Value> {
        let all = self.api(kind).list(&ListParams::default()).await.unwrap();
        let values = all.into_iter().map(serde_json::to_value);
        values.map(Result::unwrap).collect()
    }

    /// Waits until `is` holds for an object, and returns the object.
    pub async fn until_is(&self, kind: &str, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{kind} {name} is such that {what}");
        let found = async || self.find(kind, name).await;
        let found = until(SOON, &what, found, |found| found.as_ref().is_some_and(&is)).await;
        found.unwrap()
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, kind: &str, name: &str) {
        let what = format!("{kind} {name} is gone");
        until(SOON, &what, async || self.find(kind, name).await, Option::is_none).await;
    }

    /// The number of objects of a kind, in all namespaces, that are deleted but still wait for something.
    pub async fn deleting(&self, kind: &str) -> usize {
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource(kind));
        let all = all.list_metadata(&ListParams::default()).await.unwrap();
        let deleting = all
            .iter()
            .filter(|object| object.metadata.deletion_timestamp.is_some());
        deleting.count()
    }

    /// Object, type, reason and note of each event.
    pub async fn events(&self) -> Vec<String> {
        self.all("Event").await.iter().map(event_line).collect()
    }

    /// Waits until the line of an event starts with `line`.
    pub async fn until_event(&self, line: &str) {
        let what = format!("an event is {line:?}");
        let is = |events: &Vec<String>| events.iter().any(|event| event.starts_with(line));
        until(SOON, &what, async || self.events().await, is).await;
    }

    /// The resourceVersion of each object of a kind: equal maps mean that nothing was written in between.
    pub async fn versions(&self, kind: &str) -> BTreeMap<String, String> {
        let all = self
            .api(kind)
            .list_metadata(&ListParams::default())
            .await
            .unwrap();
        let metadata = all.into_iter().map(|object| object.metadata);
        metadata
            .map(|metadata| (metadata.name.unwrap(), metadata.resource_version.unwrap()))
            .collect()
    }

    /// Merges `patch` into an object.
    pub async fn merge(&self, kind: &str, name: &str, patch: Value) {
        let (api, params) = (self.api(kind), PatchParams::default());
        api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// Merges `status` into the status of an object.
    pub async fn merge_status(&self, kind: &str, name: &str, status: Value) {
        let (api, params) = (self.api(kind), PatchParams::default());
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &params, &patch).await.unwrap();
    }

    pub async fn delete(&self, kind: &str, name: &str) {
        let params = DeleteParams::default();
        self.api(kind).delete(name, &params).await.unwrap();
    }

    /// Deletes an object as `kubectl delete --force` does.
    pub async fn force_delete(&self, kind: &str, name: &str) {
        let params = DeleteParams::default().grace_period(0);
        self.api(kind).delete(name, &params).await.unwrap();
    }
}

/// Waits until `is` holds for what `read` returns, and returns that. Fails with the last value read.
pub async fn until<T: Debug>(
    within: Duration,
    what: &str,
    read: impl AsyncFn() -> T,
    is: impl Fn(&T) -> bool,
) -> T {
    let mut seen = None;
    let there = async || {
        let found = seen.insert(read().await);
        is(found).then_some(())
    };
    if let Err(error) = eventually(within, what, there).await {
        panic!("{error}; last seen: {seen:#?}");
    }
    seen.unwrap()
}

/// Creates an object, which must have a `kind`; its namespace defaults to `default`.
pub(crate) async fn create(client: &kube::Client, mut object: Value) -> Value {
    let kind = object["kind"].as_str().unwrap().to_owned();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let api = api(client, namespace, &kind);
    object["apiVersion"] = json!(resource(&kind).api_version);
    let object = serde_json::from_value(object).unwrap();
    let created = api.create(&PostParams::default(), &object).await;
    serde_json::to_value(created.unwrap()).unwrap()
}

/// The objects of a kind, in this namespace if the kind is namespaced.
pub(crate) fn api(client: &kube::Client, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let (client, resource) = (client.clone(), resource(kind));
    match served(kind) {
        Some(served) if !served.is_namespaced() => Api::all_with(client, &resource),
        _ => Api::namespaced_with(client, namespace, &resource),
    }
}

/// A resource that the embedded server knows; any other kind is a custom resource of `example.com/v1`.
pub(crate) fn resource(kind: &str) -> ApiResource {
    let (group, version, plural) = match served(kind) {
        Some(served) if kind == "PodGroup" => (served.group, *POD_GROUPS_VERSION, served.plural.to_owned()),
        Some(served) => (served.group, served.version, served.plural.to_owned()),
        None => ("example.com", "v1", format!("{}s", kind.to_lowercase())),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural)
}

fn served(kind: &str) -> Option<&'static Resource> {
    let mut known = SERVED.iter().chain(OFF_BY_DEFAULT).copied();
    // Of the two kinds of events, those of `events.k8s.io`.
    known.rfind(|resource| resource.kind == kind)
}
