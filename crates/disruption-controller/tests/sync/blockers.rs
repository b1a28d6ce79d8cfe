//! What `blockers` and `explain --pod` print, and what they read.

use controller_core::app::{Failure, Flags, Printed};
use controller_core::config::Encoding;
use controller_core::meta::ObjectKey;
use controller_runtime::driver;
use controller_runtime::sender::{Caller, Sender};
use controller_testing::encodings::assert_the_same_views;
use disruption_controller::config::Config;
use disruption_controller::decide::OwnerRules;
use disruption_controller::drain::blockers::REPORT;
use disruption_controller::explain::explain_pod;
use disruption_controller::view::DrainedPodWire;
use embedded_apiserver::{NODES, RequestVerb};
use serde_json::json;

use crate::world::World;

fn sender(world: &World) -> Sender {
    let client = world.server.client_as("blockers/test");
    Sender::new(client, Caller::new(world.clock.clone()), Encoding::default())
}

async fn tried(world: &World, flags: &[(&'static str, &[&str])]) -> Result<Printed, Failure> {
    let given = |(name, values): &(&'static str, &[&str])| {
        let values = values.iter().map(|value| (*value).to_owned());
        (*name, values.collect())
    };
    let flags = Flags(flags.iter().map(given).collect());
    driver::explain(sender(world), |pass, now| {
        (REPORT.by)(&Config::default(), pass, now, &flags)
    })
    .await
}

async fn printed(world: &World, flags: &[(&'static str, &[&str])]) -> (String, u8) {
    let Printed { text, code } = tried(world, flags).await.unwrap();
    (text, code)
}

#[tokio::test(start_paused = true)]
async fn what_blocks_is_printed_and_nothing_is_written() {
    let world = World::new();
    world.define_widgets(true);
    let widget = world.workload("Widget", "web", 2);
    world.pods(2, Some(&widget));
    world.pdb("web", "maxUnavailable", &json!(0));
    let controller = world.start_and_settle().await;
    controller.stop().await;
    let mark = world.server.mark();
    let (text, code) = printed(&world, &[]).await;
    assert_eq!(
        text,
        "never: PodDisruptionBudget web lets no pod go (maxUnavailable 0). Pod default/web-0 on n. \
         Fix: set maxUnavailable: 1 in web.\n\
         never: PodDisruptionBudget web lets no pod go (maxUnavailable 0). Pod default/web-1 on n. \
         Fix: set maxUnavailable: 1 in web.\n\
         2 pods on 1 node: 2 never go\n"
    );
    assert_eq!(code, 3);
    let sent = world.server.requests_since(mark);
    assert!(
        sent.iter()
            .all(|request| matches!(request.verb, RequestVerb::List | RequestVerb::Get))
    );

    world.edit_pdb("web", |pdb| pdb["spec"]["maxUnavailable"] = json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(
        printed(&world, &[]).await,
        ("2 pods on 1 node: 2 go now\n".to_owned(), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_read() {
    let world = World::new();
    let set = world.replica_set("web", 1_203, None);
    world.pods(1_203, Some(&set));
    let (text, code) = printed(&world, &[("namespace", &["default", "other"])]).await;
    assert_eq!((text.as_str(), code), ("1203 pods on 1 node: 1203 go now\n", 0));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_exist_is_an_error_and_an_empty_one_is_not() {
    let world = World::new();
    world.pods(1, None);
    world.insert(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "empty" } }));
    assert!(world.server.get(&NODES, "", "empty").is_some());
    let found = printed(&world, &[("node", &["empty"])]).await;
    assert_eq!(found, ("nothing blocks: no pods to evict\n".to_owned(), 0));
    let failed = tried(&world, &[("node", &["n", "missing"])]).await.unwrap_err();
    assert_eq!(failed.to_string(), "no node missing");
    let failed = tried(&world, &[("node", &[""])]).await.unwrap_err();
    assert_eq!(failed.to_string(), "--node is empty");
    let (text, code) = printed(&world, &[("node", &["n"]), ("force", &[])]).await;
    assert_eq!((text.as_str(), code), ("1 pod on 1 node: 1 goes now\n", 0));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_explained_by_the_same_words_and_its_budgets() {
    let world = World::new();
    let set = world.replica_set("web", 1, None);
    world.pods(1, Some(&set));
    world.pdb("web", "minAvailable", &json!(1));
    let _controller = world.start_and_settle().await;
    let explained = async |pod: &str| {
        let (key, rules) = (ObjectKey::namespaced("default", pod), OwnerRules::default());
        driver::explain(sender(&world), |pass, now| {
            explain_pod(pass, &key, &rules, now.wall)
        })
        .await
    };
    assert_eq!(
        explained("web-0").await.unwrap(),
        "never: PodDisruptionBudget web keeps 1 pod healthy, and has no more than 1 (minAvailable 1). \
         Pod default/web-0 on n. Fix: set maxUnavailable: 1 instead of minAvailable in web.\n\
         PodDisruptionBudget default/web: minAvailable 1\n\
         selects 1 pod by app=web\n\
         expectedPods 1: as many as it selects\n\
         desiredHealthy 1: minAvailable\n\
         currentHealthy 1: all that it selects\n\
         disruptionsAllowed 0: 1 healthy less 1 desired\n\
         its status says so\n\
         no state of its pods lets one go: PodDisruptionBudget web keeps 1 pod healthy, and has no more than 1 \
         (minAvailable 1). Fix: set maxUnavailable: 1 instead of minAvailable in web.\n"
    );
    let failed = explained("missing").await.unwrap_err();
    assert_eq!(failed.to_string(), "no Pod default/missing");
}

#[test]
fn a_drained_pod_is_the_same_in_both_encodings() {
    assert_the_same_views::<DrainedPodWire>(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "n", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-01T00:00:30Z", "finalizers": ["example.com/keep"],
            "labels": { "app": "web" },
            "annotations": {
                "karpenter.sh/do-not-disrupt": "true", "kubernetes.io/config.mirror": "x",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            },
            "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "o", "controller": true },
            ],
        },
        "spec": { "nodeName": "a", "volumes": [{ "name": "tmp", "emptyDir": {} }] },
        "status": {
            "phase": "Pending",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        },
    }));
}
