//! Credentials that change while the process runs (CORE-13), on a real API server.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

use std::time::Duration;

use controller_core::api::client::{ConnectOptions, connect};
use controller_core::api::limits::Limits;
use controller_core::api::metrics::RequestMetrics;
use controller_core::clock::Clock;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use prometheus::Registry;
use testkit::real::{ControlPlane, Options, User, eventually};

async fn name_of(client: &kube::Client) -> Option<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .ok()?;
    review.status?.user_info?.username
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_rotated_token_is_used_without_a_restart() {
    let (before, after) = (User::new("before"), User::new("after"));
    let tokens = (before.token.clone(), after.token.clone());
    let options = Options {
        users: vec![before, after],
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();

    let directory = tempfile::tempdir().unwrap();
    let token_file = directory.path().join("token");
    std::fs::write(&token_file, &tokens.0).unwrap();
    let kubeconfig = control_plane.kubeconfig_for(&tokens.0).unwrap();
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let with_file = text
        .replace(&tokens.0, "TOKEN")
        .replace("\"token\"", "\"tokenFile\"")
        .replace("token:", "tokenFile:");
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, with_file.replace("TOKEN", token_file.to_str().unwrap())).unwrap();

    let options = ConnectOptions {
        kubeconfig: Some(path),
        context: None,
        limits: Limits { qps: 0.0, burst: 0 },
        user_agent: "test/1".into(),
    };
    let metrics = RequestMetrics::register(&Registry::new()).unwrap();
    let client = connect(&options, &Clock::system(), &metrics)
        .await
        .unwrap()
        .client;
    assert_eq!(name_of(&client).await.as_deref(), Some("before"));

    std::fs::write(&token_file, &tokens.1).unwrap();
    eventually(Duration::from_secs(90), "the new token is used", async || {
        (name_of(&client).await.as_deref() == Some("after")).then_some(())
    })
    .await
    .unwrap();
}
