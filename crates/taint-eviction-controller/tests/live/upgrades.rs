//! Rolling upgrades of two replicas while nodes are tainted and pods made all the time.

use std::convert::Infallible;
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::{soon, upgrades};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use crate::support::{Cluster, Evicted};

/// Always tainted: a pod that is made there goes at once.
const TAINTED: &str = "tainted";
/// Tainted in turn, when there are some pods on it.
const NODES: [&str; 4] = ["a", "b", "c", "d"];
const PODS_OF_A_NODE: usize = 8;
/// Between two pods that are made. Each costs two writes; the default limit is 50 a second.
const PACE: Duration = Duration::from_millis(60);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_rolling_upgrades_hand_over_without_a_write_by_two() {
    let cluster = Cluster::with_nodes([TAINTED, "a", "b", "c", "d"]).await;
    cluster.taint(TAINTED).await;
    upgrades::assert_handed_over(&cluster, restless(&cluster)).await;

    for node in NODES {
        cluster.taint(node).await;
    }
    let last = cluster.start(&[]);
    let gone = async || {
        let left = pods(&cluster).list(&ListParams::default()).await.unwrap();
        left.items.is_empty().then_some(())
    };
    soon("all pods are gone", gone).await;
    assert_eq!(last.stop().await, Some(0));
}

/// Makes pods that are to go at once, and some that are to go when their node is tainted, for ever.
async fn restless(cluster: &Cluster) -> Infallible {
    let clock = Clock::system();
    let mut number = 0;
    loop {
        for node in NODES {
            cluster.untaint(node).await;
            for _ in 0..PODS_OF_A_NODE {
                for node in [TAINTED, node] {
                    pod(cluster, number, node).await;
                    number += 1;
                    clock.sleep(PACE).await;
                }
            }
            cluster.taint(node).await;
        }
    }
}

/// Makes a pod that is gone as soon as it is deleted.
async fn pod(cluster: &Cluster, number: usize, node: &str) {
    let pod = json!({
        "metadata": {"name": format!("p-{number}")},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}],
        },
    });
    let pod = serde_json::from_value(pod).unwrap();
    pods(cluster).create(&PostParams::default(), &pod).await.unwrap();
}

fn pods(cluster: &Cluster) -> Api<Pod> {
    Api::default_namespaced(cluster.control_plane.client())
}
