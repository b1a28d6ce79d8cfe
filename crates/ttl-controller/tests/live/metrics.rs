//! Who may read the metrics, where the API server is asked.

use controller_testing::cluster::Cluster;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use local_control_plane::eventually;
use serde_json::json;

use crate::support::{BUILT, CHART, SOON};

/// A client of the admin server with the token of this service account of `default`, if any. As a scraper of a certificate
/// that is made at the start, it does not check it.
async fn client(cluster: &Cluster, url: &str, account: Option<&str>) -> Client {
    let mut config = match account {
        None => Config::new(url.parse().unwrap()),
        Some(account) => {
            let kubeconfig = cluster
                .control_plane
                .service_account_kubeconfig("default", account);
            let kubeconfig = Kubeconfig::read_from(kubeconfig.await.unwrap()).unwrap();
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .unwrap()
        }
    };
    config.cluster_url = url.parse().unwrap();
    config.accept_invalid_certs = true;
    Client::try_from(config).unwrap()
}

async fn code(client: &Client, path: &str) -> u16 {
    answer(client, path).await.0
}

async fn answer(client: &Client, path: &str) -> (u16, String) {
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    let (head, body) = client.send(request).await.unwrap().into_parts();
    let body = body.collect_bytes().await.unwrap();
    (head.status.as_u16(), String::from_utf8_lossy(&body).into_owned())
}

/// Waits until the API server's authorizer knows what the account may do.
async fn until_allowed(cluster: &Cluster, account: &str, path: &str) {
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.control_plane.client());
    let review = json!({"spec": {
        "user": format!("system:serviceaccount:default:{account}"),
        "nonResourceAttributes": {"path": path, "verb": "get"},
    }});
    let review = serde_json::from_value(review).unwrap();
    let what = format!("{account} may read {path}");
    let is_allowed = async || {
        let reviewed = reviews.create(&PostParams::default(), &review).await.unwrap();
        reviewed.status.is_some_and(|status| status.allowed).then_some(())
    };
    eventually(SOON, &what, is_allowed).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_metrics_are_for_those_whom_the_api_server_allows_it() {
    let cluster = Cluster::new(CHART.rendered_as("metrics.golden.yaml"), BUILT).await;
    let binding = json!({
        "kind": "ClusterRoleBinding", "metadata": {"name": "scraper"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ttl-controller-metrics-reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}],
    });
    cluster.create(binding).await;
    let replica = cluster.start(&["--metrics-authorization=kubernetes"]);
    let url = format!("https://{}", replica.address().await);
    let scraper = client(&cluster, &url, Some("scraper")).await;
    let other = client(&cluster, &url, Some("other")).await;
    let kubelet = client(&cluster, &url, None).await;
    until_allowed(&cluster, "scraper", "/metrics").await;

    let ready = async || (code(&kubelet, "/readyz").await == 200).then_some(());
    eventually(SOON, "the replica is ready", ready).await.unwrap();
    for path in ["/livez", "/healthz", "/version"] {
        assert_eq!(code(&kubelet, path).await, 200, "{path}");
    }
    for _ in 0..3 {
        assert_eq!(code(&scraper, "/metrics").await, 200);
        assert_eq!(code(&scraper, "/configz").await, 403);
        assert_eq!(code(&other, "/metrics").await, 403);
        assert_eq!(code(&kubelet, "/metrics").await, 401);
    }
    let metrics = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = scraper.request_text(metrics).await.unwrap();
    assert!(
        metrics.contains("informer_objects{resource=\"nodes\"} 0"),
        "{metrics}"
    );

    let asked = |resource: &str| {
        let requests = cluster.requests();
        requests
            .iter()
            .filter(|asked| asked.is("create", resource))
            .count()
    };
    assert_eq!(asked("tokenreviews"), 3, "once for each token and path");
    assert_eq!(asked("subjectaccessreviews"), 3);
    assert_eq!((cluster.refused(), cluster.beyond()), (vec![], vec![]));
    assert_eq!(replica.said("not tested with"), 0);
    assert_eq!(replica.stop().await, Some(0));
}

/// Every account may `get` `/readyz` itself, by `system:public-info-viewer`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_config_and_the_reasons_are_for_operators() {
    let cluster = Cluster::new(CHART.rendered_as("metrics.golden.yaml"), BUILT).await;
    let may_ask = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]);
    cluster.grant(may_ask).await;
    let private = ["/configz", "/flagz", "/statusz"];
    let urls = [&private[..], &["/readyz/*"]].concat();
    let role = json!({
        "kind": "ClusterRole", "metadata": {"name": "operator"},
        "rules": [{"nonResourceURLs": urls, "verbs": ["get"]}],
    });
    let binding = json!({
        "kind": "ClusterRoleBinding", "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": "default"}],
    });
    cluster.create(role).await;
    cluster.create(binding).await;
    let replica = cluster.start(&["--metrics-authorization=kubernetes"]);
    let url = format!("https://{}", replica.address().await);
    let operator = client(&cluster, &url, Some("operator")).await;
    let other = client(&cluster, &url, Some("other")).await;
    let kubelet = client(&cluster, &url, None).await;
    until_allowed(&cluster, "operator", "/readyz/*").await;

    let told = async || {
        let (code, text) = answer(&operator, "/readyz?verbose").await;
        let is_told = text.contains("[-]informer-nodes failed: ") && text.contains("forbidden");
        (code == 500 && is_told).then_some(())
    };
    eventually(SOON, "the operator reads why", told).await.unwrap();
    for client in [&other, &kubelet] {
        let (code, text) = answer(client, "/readyz?verbose").await;
        assert_eq!(code, 500, "{text}");
        assert!(
            text.contains("[-]informer-nodes failed: reason withheld\n"),
            "{text}"
        );
        assert!(!text.contains("forbidden"), "{text}");
    }
    for path in private {
        assert_eq!(code(&operator, path).await, 200, "{path}");
        assert_eq!(code(&other, path).await, 403, "{path}");
        assert_eq!(code(&kubelet, path).await, 401, "{path}");
    }
    assert_eq!(replica.stop().await, Some(0));
}
