//! Deletion of dependents with their owner.

use super::*;

const NOTHING: [&str; 0] = [];

fn collected(nodes: usize) -> Cluster {
    Cluster::new(nodes, Actors::new().garbage_collector())
}

fn map_uri(name: &str) -> String {
    format!("{CONFIG_MAPS}/{name}")
}

fn by(policy: &str) -> Value {
    json!({ "propagationPolicy": policy })
}

/// Creates the map `a`, `b` owned by `a`, and `c` owned by `b`.
fn chain(server: &Server, blocks: bool) {
    let mut owner = server.insert(map("a", json!({}))).unwrap();
    for name in ["b", "c"] {
        let metadata = json!({ "ownerReferences": [owned_by(&owner, blocks)] });
        owner = server.insert(map(name, metadata)).unwrap();
    }
}

async fn collected_chain() -> Cluster {
    let cluster = collected(0);
    chain(&cluster.server, true);
    sleep(MOMENT).await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn dependents_follow_their_owner() {
    let cluster = collected_chain().await;
    assert_eq!(cluster.names(&MAPS), ["a", "b", "c"]);
    let mut watch = cluster.watch(CONFIG_MAPS).await;
    cluster.delete(&map_uri("a"), Value::Null).await;
    watch.tells_of(&["DELETED a", "DELETED b", "DELETED c"]).await;
    assert_eq!(cluster.names(&MAPS), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn dependents_go_before_an_owner_that_is_deleted_in_the_foreground() {
    let cluster = collected_chain().await;
    let mut watch = cluster.watch(CONFIG_MAPS).await;
    let waiting = cluster.delete(&map_uri("a"), by("Foreground")).await;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    watch
        .tells_of(&["MODIFIED a", "MODIFIED b", "DELETED c", "DELETED b", "DELETED a"])
        .await;
    assert!(watch.is_silent().await);
}

/// Deletes the map `owner` in the foreground; its dependent `slow` has a finalizer.
async fn slow_dependent(blocks: bool) -> Cluster {
    let cluster = collected(0);
    let owner = cluster.insert(map("owner", json!({})));
    let owners = json!({ "ownerReferences": [owned_by(&owner, blocks)], "finalizers": ["x/y"] });
    cluster.insert(map("slow", owners));
    sleep(MOMENT).await;
    cluster.delete(&map_uri("owner"), by("Foreground")).await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_dependent_that_does_not_block_is_not_waited_for() {
    let cluster = slow_dependent(false).await;
    sleep(MOMENT).await;
    assert_eq!(cluster.names(&MAPS), ["slow"]);
    assert!(cluster.get(&MAPS, "slow")["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_the_foreground_waits_for_one_that_blocks() {
    let cluster = slow_dependent(true).await;
    sleep(SECOND).await;
    assert_eq!(cluster.names(&MAPS), ["owner", "slow"]);
    cluster.edit(&MAPS, "slow", |slow| slow["metadata"]["finalizers"] = json!([]));
    sleep(MOMENT).await;
    assert_eq!(cluster.names(&MAPS), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_forget_their_owner() {
    let cluster = collected_chain().await;
    cluster.delete(&map_uri("a"), by("Orphan")).await;
    sleep(MOMENT).await;
    assert_eq!(cluster.names(&MAPS), ["b", "c"]);
    let b = cluster.get(&MAPS, "b");
    assert_eq!(b["metadata"].get("ownerReferences"), None);
    let c = cluster.get(&MAPS, "c");
    assert_eq!(c["metadata"]["ownerReferences"], json!([owned_by(&b, true)]));
}

#[tokio::test(start_paused = true)]
async fn one_owner_that_stays_is_enough() {
    let cluster = collected(0);
    let stays = cluster.insert(map("stays", json!({})));
    let goes = cluster.insert(map("goes", json!({})));
    let both = json!({ "ownerReferences": [owned_by(&goes, true), owned_by(&stays, true)] });
    cluster.insert(map("shared", both));
    sleep(MOMENT).await;
    cluster.delete(&map_uri("goes"), Value::Null).await;
    sleep(MOMENT).await;
    let shared = cluster.get(&MAPS, "shared");
    assert_eq!(
        shared["metadata"]["ownerReferences"],
        json!([owned_by(&stays, true)])
    );
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_known_by_kind_name_and_uid() {
    let cluster = collected(0);
    let owner = cluster.insert(map("owner", json!({})));
    for (name, field, value) in rows! {
        "other-uid", "uid" => "u";
        "other-name", "name" => "n";
        "other-kind", "kind" => "Pod";
        "unknown-kind", "kind" => "Gadget";
    } {
        let mut reference = owned_by(&owner, false);
        reference[field] = json!(value);
        cluster.insert(map(name, json!({ "ownerReferences": [reference] })));
    }
    let reference = owned_by(&owner, false);
    cluster.insert(map(
        "elsewhere",
        json!({ "ownerReferences": [reference], "namespace": "other" }),
    ));
    sleep(MOMENT).await;
    assert_eq!(cluster.names(&MAPS), ["owner", "unknown-kind"]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_wide_owner_keeps_what_is_in_namespaces() {
    let cluster = collected(2);
    let node = cluster.get(&NODES_RESOURCE, "node-1");
    let metadata = json!({ "ownerReferences": [owned_by(&node, false)], "namespace": "kube-node-lease" });
    cluster.insert(object("Lease", "coordination.k8s.io/v1", "node-1", metadata));
    sleep(MOMENT).await;
    assert_eq!(cluster.names(&LEASES_RESOURCE), ["node-1"]);
    cluster.remove(&NODES_RESOURCE, "node-1");
    sleep(MOMENT).await;
    assert_eq!(cluster.names(&LEASES_RESOURCE), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn owners_in_a_circle_do_not_wait_for_each_other() {
    let cluster = collected(0);
    chain(&cluster.server, true);
    let owner = owned_by(&cluster.get(&MAPS, "c"), true);
    cluster.edit(&MAPS, "a", |a| a["metadata"]["ownerReferences"] = json!([owner]));
    sleep(MOMENT).await;
    cluster.delete(&map_uri("a"), by("Foreground")).await;
    sleep(MOMENT).await;
    assert_eq!(cluster.names(&MAPS), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn what_happened_before_the_start_and_beyond_history_is_seen_too() {
    let server = server();
    let left = || server.list(&MAPS).len();
    let orphan_a_chain = || {
        chain(&server, true);
        server.delete(&MAPS, "default", "a").unwrap();
    };
    orphan_a_chain();
    server.compact();
    let acting = server.run(Actors::new().garbage_collector());
    sleep(MOMENT).await;
    assert_eq!(left(), 0);
    chain(&server, true);
    sleep(MOMENT).await;
    server.delete(&MAPS, "default", "a").unwrap();
    server.compact();
    sleep(MOMENT).await;
    assert_eq!(left(), 0);
    drop(acting);
    orphan_a_chain();
    sleep(SECOND).await;
    assert_eq!(left(), 2);
}
