//! Control planes that tests use one after another, on real binaries.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::discovery::{ApiCapabilities, Discovery, verbs};
use local_control_plane::{AuditLevel, ControlPlane, Kept, Leased, Options, ProcessUsage, Stop, eventually};
use serde_json::{Value, json};

/// Variable with the directory of a pool.
const POOL: &str = "CONTROL_PLANE_POOL";
const SOON: Duration = Duration::from_secs(30);
/// Of what `prepare` makes.
const PREPARED: &str = "prepared";
/// Kinds that the API server writes by itself, or that are no stored objects.
const ASIDE: [&str; 2] = ["Lease", "ComponentStatus"];
/// Field manager of the events that the API server records.
const API_SERVER: &str = "kube-apiserver";

fn options() -> Options {
    Options {
        audit: Some(AuditLevel::Metadata),
        ..Options::default()
    }
}

async fn lease() -> Leased {
    Leased::take(options(), PREPARED, async |control_plane: &ControlPlane| {
        let role = json!({"kind": "ClusterRole", "metadata": {"name": PREPARED}, "rules": []});
        create(control_plane, "rbac.authorization.k8s.io/v1", role).await;
    })
    .await
    .unwrap()
}

fn api(
    control_plane: &ControlPlane,
    version: &str,
    kind: &str,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = kube::core::GroupVersionKind::gvk(group, version, kind);
    let (resource, client) = (ApiResource::from_gvk(&kind), control_plane.client());
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    }
}

async fn create(control_plane: &ControlPlane, version: &str, mut object: Value) {
    object["apiVersion"] = json!(version);
    let kind = object["kind"].as_str().unwrap();
    let api = api(
        control_plane,
        version,
        kind,
        object["metadata"]["namespace"].as_str(),
    );
    let made = serde_json::from_value(object.clone()).unwrap();
    let made = api.create(&PostParams::default(), &made).await;
    made.unwrap_or_else(|error| panic!("{object}: {error}"));
}

/// All objects as the caches of the API server have them.
async fn all(control_plane: &ControlPlane) -> BTreeSet<String> {
    let client = control_plane.client();
    let discovery = Discovery::new(client.clone()).run_aggregated().await.unwrap();
    let mut all = BTreeSet::new();
    for group in discovery.groups_alphabetical() {
        let listed = |(resource, can): &(ApiResource, ApiCapabilities)| {
            can.supports_operation(verbs::LIST) && !ASIDE.contains(&&*resource.kind)
        };
        for (resource, _) in group.recommended_resources().into_iter().filter(listed) {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let cached = ListParams::default().at("0");
            for object in api.list_metadata(&cached).await.unwrap() {
                let metadata = object.metadata;
                let mut managers = metadata.managed_fields.iter().flatten();
                let is_its_own = managers.any(|by| by.manager.as_deref() == Some(API_SERVER));
                let (namespace, name) = (metadata.namespace.unwrap_or_default(), metadata.name.unwrap());
                // One that is slow to start records one about an object without a name, whose name is a uid, and one
                // about its Service.
                let is_of_start = !name.contains('.') || name.starts_with("kubernetes.");
                if resource.kind == "Event" && is_its_own && is_of_start {
                    continue;
                }
                all.insert(format!("{} {namespace}/{name}", resource.kind));
            }
        }
    }
    all
}

/// Makes one of everything, some of it held by finalizers.
async fn make_one_of_everything(control_plane: &ControlPlane) {
    let held = json!(["example.com/held"]);
    let namespace = json!({"kind": "Namespace", "metadata": {"name": "other", "finalizers": held}});
    create(control_plane, "v1", namespace).await;
    create(
        control_plane,
        "v1",
        json!({"kind": "Node", "metadata": {"name": "n", "finalizers": held}}),
    )
    .await;
    for namespace in ["default", "other", "kube-system"] {
        let metadata = json!({"name": "o", "namespace": namespace, "finalizers": held});
        let containers = json!([{"name": "c", "image": "i"}]);
        let pod = json!({"kind": "Pod", "metadata": metadata, "spec": {"containers": containers}});
        create(control_plane, "v1", pod).await;
        create(
            control_plane,
            "v1",
            json!({"kind": "ConfigMap", "metadata": metadata}),
        )
        .await;
        let budget =
            json!({"kind": "PodDisruptionBudget", "metadata": metadata, "spec": {"minAvailable": 1}});
        create(control_plane, "policy/v1", budget).await;
        let lease = json!({"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": "me"}});
        create(control_plane, "coordination.k8s.io/v1", lease).await;
        let role = json!({"kind": "Role", "metadata": metadata, "rules": []});
        create(control_plane, "rbac.authorization.k8s.io/v1", role).await;
    }
    let service = json!({
        "kind": "Service", "metadata": {"name": "s", "namespace": "default"}, "spec": {"ports": [{"port": 80}]},
    });
    create(control_plane, "v1", service).await;
    let class = json!({"kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {}});
    create(control_plane, "resource.k8s.io/v1", class).await;
    let class = json!({"kind": "PriorityClass", "metadata": {"name": "c"}, "value": 7});
    create(control_plane, "scheduling.k8s.io/v1", class).await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    create(control_plane, "apiextensions.k8s.io/v1", definition).await;
    let widgets = api(control_plane, "example.com/v1", "Widget", Some("default"));
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let widget: DynamicObject = serde_json::from_value(widget).unwrap();
    let made = async || widgets.create(&PostParams::default(), &widget).await.ok();
    eventually(SOON, "widgets are served", made).await.unwrap();
}

/// Lets nobody create the `ConfigMap` `refused`, and waits until that is in force.
async fn refuse_config_maps(control_plane: &ControlPlane) {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]});
    let policy = json!({
        "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]},
    });
    create(control_plane, "admissionregistration.k8s.io/v1", policy).await;
    let binding = json!({
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "p"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]},
    });
    create(control_plane, "admissionregistration.k8s.io/v1", binding).await;
    let refused = async || try_config_map(control_plane).await.is_err().then_some(());
    eventually(SOON, "config maps are refused", refused)
        .await
        .unwrap();
}

async fn try_config_map(control_plane: &ControlPlane) -> kube::Result<DynamicObject> {
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused"}});
    let config_map = serde_json::from_value(config_map).unwrap();
    let trial = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let config_maps = api(control_plane, "v1", "ConfigMap", Some("default"));
    config_maps.create(&trial, &config_map).await
}

/// Changes and removes what was there at the beginning.
async fn change_the_rest(control_plane: &ControlPlane) {
    let roles = api(control_plane, "rbac.authorization.k8s.io/v1", "ClusterRole", None);
    roles.delete("view", &DeleteParams::default()).await.unwrap();
    let label = Patch::Merge(json!({"metadata": {"labels": {"changed": "yes"}}}));
    roles
        .patch(PREPARED, &PatchParams::default(), &label)
        .await
        .unwrap();
}

async fn is_changed(control_plane: &ControlPlane) -> bool {
    let roles = api(control_plane, "rbac.authorization.k8s.io/v1", "ClusterRole", None);
    let labels = roles.get(PREPARED).await.unwrap().metadata.labels;
    labels.is_some_and(|labels| labels.contains_key("changed"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn a_lease_after_a_lease_has_what_was_there_at_first_and_a_spoilt_one_ends() {
    if std::env::var_os(POOL).is_some() {
        // Others would take what waits in that pool.
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let alone = alone.args(["--include-ignored", "--nocapture"]).env_remove(POOL);
        assert!(alone.status().unwrap().success());
        return;
    }
    // Those that wait do so as long as somebody has one.
    let other = lease().await;
    let first = lease().await;
    let (etcd, before) = (first.etcd().pid(), all(&first).await);
    assert_ne!(etcd, other.etcd().pid());
    make_one_of_everything(&first).await;
    change_the_rest(&first).await;
    refuse_config_maps(&first).await;
    let many = first.audit_events().unwrap().len();
    assert!(all(&first).await.len() > before.len() + 20);
    assert!(is_changed(&first).await);
    drop(first);

    let second = lease().await;
    assert_eq!(second.etcd().pid(), etcd);
    let now = all(&second).await;
    let differ: Vec<_> = now.symmetric_difference(&before).collect();
    assert_eq!(differ, Vec::<&String>::new());
    assert!(!is_changed(&second).await);
    try_config_map(&second).await.unwrap();
    assert!(second.audit_events().unwrap().len() < many);
    // The same again can be made.
    make_one_of_everything(&second).await;
    drop(second);

    let bare = Leased::bare(options()).await.unwrap();
    assert_eq!(bare.etcd().pid(), etcd);
    let prepared = format!("ClusterRole /{PREPARED}");
    let now = all(&bare).await;
    assert_eq!(
        before.difference(&now).collect::<Vec<_>>(),
        [&prepared],
        "{now:?}"
    );
    assert_eq!(now.len() + 1, before.len());
    drop(bare);

    let third = lease().await;
    assert_eq!(third.etcd().pid(), etcd);
    assert_eq!(all(&third).await, before);
    #[allow(clippy::disallowed_methods, reason = "awaited at once")]
    let failed = tokio::spawn(async move {
        let _third = third;
        panic!("expected by this test");
    });
    assert!(failed.await.is_err());
    assert!(ProcessUsage::of(etcd).is_err());

    let etcd = other.etcd().pid();
    let kept = Kept::new().unwrap();
    drop(other);
    let mut again = lease().await;
    drop(kept);
    assert_eq!(again.etcd().pid(), etcd);
    // It listens where the killed one did.
    again.stop_api_server(Stop::AtOnce).await.unwrap();
    again.start_api_server().await.unwrap();
    assert_eq!(all(&again).await, before);
    drop(again);
    assert!(ProcessUsage::of(etcd).is_err());
}
