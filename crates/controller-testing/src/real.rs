//! The objects of a real control plane, by kind.

use std::sync::LazyLock;

use embedded_apiserver::{OFF_BY_DEFAULT, Resource, SERVED};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use local_control_plane::{Assets, ControlPlane, pod_groups_version};
use serde_json::{Value, json};

/// The version in which the control planes serve `PodGroups`.
static POD_GROUPS_VERSION: LazyLock<&str> =
    LazyLock::new(|| pod_groups_version(Assets::find().and_then(|assets| assets.minor()).unwrap()));

/// Creates an object, which must have a `kind`; its namespace defaults to `default`.
pub(crate) async fn create(control_plane: &ControlPlane, mut object: Value) -> Value {
    let kind = object["kind"].as_str().unwrap().to_owned();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let api = api(control_plane, namespace, &kind);
    object["apiVersion"] = json!(resource(&kind).api_version);
    let object = serde_json::from_value(object).unwrap();
    let created = api.create(&PostParams::default(), &object).await;
    serde_json::to_value(created.unwrap()).unwrap()
}

/// The objects of a kind, in this namespace if the kind is namespaced.
pub(crate) fn api(control_plane: &ControlPlane, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let (client, resource) = (control_plane.client(), resource(kind));
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
