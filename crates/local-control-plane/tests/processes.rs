//! The launcher of the real control plane, on real binaries.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use local_control_plane::{
    AuditLevel, ControlPlane, Error, Leased, Options, ProcessUsage, Stop, TokenUser, eventually,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

async fn start(options: Options) -> ControlPlane {
    ControlPlane::start(options).await.unwrap()
}

async fn create<K>(client: Client, object: Value) -> K
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object = serde_json::from_value(object).unwrap();
    let created = Api::all(client).create(&PostParams::default(), &object).await;
    created.unwrap()
}

async fn create_node(client: Client, name: &str) -> Node {
    create(client, json!({ "metadata": { "name": name } })).await
}

fn code<T>(result: Result<T, kube::Error>) -> Option<u16> {
    match result {
        Err(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

#[tokio::test]
#[ignore = "needs a control plane: cargo xtask test"]
async fn a_started_control_plane_serves_the_administrator() {
    let control_plane = Leased::bare(Options::default()).await.unwrap();
    let version = control_plane.client().apiserver_version().await.unwrap();
    assert_eq!(version.major, "1");
    create_node(control_plane.client(), "n1").await;

    let from_file = local_control_plane::client(control_plane.kubeconfig())
        .await
        .unwrap();
    let nodes = Api::<Node>::all(from_file).list(&ListParams::default()).await;
    assert_eq!(nodes.unwrap().items.len(), 1);
    let namespaces = Api::<Namespace>::all(control_plane.client());
    assert!(namespaces.get("default").await.is_ok());

    let usage = control_plane.api_server().unwrap().usage().unwrap();
    assert!(usage.rss > 50 << 20, "{usage:?}");
    assert!(usage.peak_rss >= usage.rss, "{usage:?}");
    assert!(usage.cpu > Duration::ZERO, "{usage:?}");
}

#[tokio::test]
#[ignore = "needs a control plane: cargo xtask test"]
async fn users_and_service_accounts_have_the_permissions_they_are_given() {
    let alice = TokenUser::new("alice");
    let control_plane = start(Options {
        users: vec![alice.clone()],
        ..Options::default()
    })
    .await;
    let admin = control_plane.client();
    let robot = control_plane.service_account_kubeconfig("default", "robot");
    let robot = robot.await.unwrap();
    let again = control_plane.service_account_kubeconfig("default", "robot");
    assert_ne!(again.await.unwrap(), robot);

    let robot = Api::<Pod>::all(local_control_plane::client(&robot).await.unwrap());
    let alice = control_plane.kubeconfig_for(&alice.token).unwrap();
    let alice = Api::<Pod>::all(local_control_plane::client(&alice).await.unwrap());
    let nobody = control_plane.kubeconfig_for("wrong").unwrap();
    let nobody = Api::<Pod>::all(local_control_plane::client(&nobody).await.unwrap());
    let list = ListParams::default();
    assert_eq!(code(robot.list(&list).await), Some(403));
    assert_eq!(code(alice.list(&list).await), Some(403));
    assert_eq!(code(nobody.list(&list).await), Some(401));

    let role = json!({
        "metadata": { "name": "pods" },
        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] }],
    });
    create::<ClusterRole>(admin.clone(), role).await;
    let binding = json!({
        "metadata": { "name": "pods" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pods" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": "robot" }],
    });
    create::<ClusterRoleBinding>(admin.clone(), binding).await;
    eventually(SOON, "the service account may list pods", async || {
        robot.list(&list).await.ok()
    })
    .await
    .unwrap();
    assert_eq!(code(alice.list(&list).await), Some(403));
    let accounts = Api::<ServiceAccount>::namespaced(admin, "default");
    assert!(accounts.get("robot").await.is_ok());
}

#[tokio::test]
#[ignore = "needs a control plane: cargo xtask test"]
async fn a_stopped_api_server_comes_back_with_its_data() {
    let mut control_plane = start(Options::default()).await;
    assert!(matches!(control_plane.audit_events(), Err(Error::NoAudit)));
    let nodes = Api::<Node>::all(control_plane.client());
    let created = create_node(control_plane.client(), "n1").await;
    for how in [Stop::Gracefully, Stop::AtOnce] {
        let pid = control_plane.api_server().unwrap().pid();
        control_plane.stop_api_server(how).await.unwrap();
        assert!(control_plane.api_server().is_none());
        assert!(ProcessUsage::of(pid).is_err());
        assert!(nodes.get("n1").await.is_err());

        control_plane.start_api_server().await.unwrap();
        let found = nodes.get("n1").await.unwrap();
        assert_eq!(found.metadata.uid, created.metadata.uid);
    }
}

#[tokio::test]
#[ignore = "needs a control plane: cargo xtask test"]
async fn objects_written_into_etcd_are_served_and_those_removed_are_gone() {
    let control_plane = Leased::bare(Options::default()).await.unwrap();
    let node = |number: usize| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("n{number}"), "uid": format!("u{number}"), "creationTimestamp": "2026-01-01T00:00:00Z"},
        })
    };
    let stored: Vec<Value> = (0..120).map(node).collect();
    control_plane.store("minions", &stored).await.unwrap();
    let nodes: Api<Node> = Api::all(control_plane.client());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 120);
    assert_eq!(nodes.get("n7").await.unwrap().metadata.uid.as_deref(), Some("u7"));

    control_plane.erase("minions").await.unwrap();
    // The watch cache hears of it a moment later.
    let erased = async || {
        let left = nodes.list(&ListParams::default()).await.unwrap().items;
        left.is_empty().then_some(())
    };
    eventually(SOON, "none of them is served", erased).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a control plane: cargo xtask test"]
async fn the_audit_log_shows_each_request_with_its_body() {
    let control_plane = start(Options {
        audit: Some(AuditLevel::Request),
        ..Options::default()
    })
    .await;
    let maps = Api::<ConfigMap>::namespaced(control_plane.client(), "default");
    let map = json!({ "metadata": { "name": "m" }, "data": { "k": "v" } });
    let map = serde_json::from_value(map).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();

    let event = eventually(SOON, "the audit log shows the config map", async || {
        let mut events = control_plane.audit_events().unwrap().into_iter();
        events.find(|event| event["requestObject"]["metadata"]["name"] == "m")
    })
    .await
    .unwrap();
    assert_eq!(event["verb"], "create");
    assert_eq!(event["user"]["username"], "admin");
    assert_eq!(event["objectRef"]["resource"], "configmaps");
    assert_eq!(event["responseStatus"]["code"], 201);
    assert_eq!(event["requestObject"]["data"], json!({ "k": "v" }));
    assert_eq!(event.get("responseObject"), None);
}

#[tokio::test]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn the_controller_manager_runs_only_the_controllers_it_is_told_to() {
    let control_plane = Leased::bare(Options::default()).await.unwrap();
    create_node(control_plane.client(), "n1").await;
    let manager = control_plane.start_controller_manager(&["ttl"], &[]).unwrap();
    let nodes = Api::<Node>::all(control_plane.client());
    let ttl = eventually(SOON, "node n1 has a TTL annotation", async || {
        let annotations = nodes.get("n1").await.ok()?.metadata.annotations;
        annotations?.remove("node.alpha.kubernetes.io/ttl")
    })
    .await
    .unwrap();
    assert_eq!(ttl, "0");
    let log = manager.log();
    assert!(log.contains("Starting TTL controller"), "{log}");
    assert!(
        !log.contains("Starting controller\" controller=\"garbage"),
        "{log}"
    );
}

#[tokio::test]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn the_scheduler_binds_a_pod_to_a_node() {
    let control_plane = Leased::bare(Options::default()).await.unwrap();
    let node = json!({
        "metadata": { "name": "n1" },
        "status": { "allocatable": { "cpu": "1", "memory": "1Gi", "pods": "10" } },
    });
    create::<Node>(control_plane.client(), node).await;
    // Admission taints a new node as not ready, and no kubelet will ever say otherwise.
    let nodes = Api::<Node>::all(control_plane.client());
    let untaint = Patch::Merge(json!({ "spec": { "taints": null } }));
    let untainted = nodes.patch("n1", &PatchParams::default(), &untaint).await;
    untainted.unwrap();
    let pods = Api::<Pod>::namespaced(control_plane.client(), "default");
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();

    let _scheduler = control_plane.start_scheduler(&[]).unwrap();
    let node = eventually(SOON, "pod p is bound", async || {
        pods.get("p").await.ok()?.spec?.node_name
    });
    assert_eq!(node.await.unwrap(), "n1");
}

#[test]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
fn nothing_is_left_of_a_test_that_panicked() {
    let (report, left) = std::sync::mpsc::channel();
    let test = std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(async {
            let control_plane = start(Options::default()).await;
            let manager = control_plane.start_controller_manager(&["ttl"], &[]).unwrap();
            let pids = [
                control_plane.api_server().unwrap().pid(),
                control_plane.etcd().pid(),
                manager.pid(),
            ];
            let dir = control_plane.kubeconfig().parent().unwrap().to_owned();
            assert!(dir.exists());
            assert!(pids.iter().all(|pid| ProcessUsage::of(*pid).is_ok()));
            report.send((pids, dir)).unwrap();
            panic!("expected by this test");
        });
    });
    assert!(test.join().is_err());
    let (pids, dir) = left.recv().unwrap();
    assert!(!dir.exists());
    for pid in pids {
        assert!(ProcessUsage::of(pid).is_err(), "{pid} still runs");
    }
}
