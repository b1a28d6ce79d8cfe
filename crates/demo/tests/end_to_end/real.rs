//! On a real cluster.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use testkit::real::{ControlPlane, Options};

use crate::demo::Demo;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_story_is_the_same_on_a_real_cluster_and_nothing_is_left() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let ended = Demo::start_on(control_plane.kubeconfig(), &["--fast", "--within=60"])
        .end()
        .await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for expected in [
        ": 120 × 15 s; ",
        ": 95 × 15 s; no writes",
        ": 460 × 30 s; no writes",
    ] {
        assert!(
            ended.stdout.iter().any(|line| line.contains(expected)),
            "{expected}"
        );
    }
    let nodes = Api::<Node>::all(control_plane.client());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 0);
}
