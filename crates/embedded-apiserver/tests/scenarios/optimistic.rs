//! Optimistic concurrency: writes that depend on a version or uid.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::kinds::{Kind, every_kind, remove};
use crate::objects::pod;

crate::scenarios![
    one_counter_orders_the_writes_to_all_kinds,
    a_patch_insists_on_a_version_only_where_it_names_one,
    a_version_that_is_no_number_is_refused,
    an_update_of_a_missing_lease_or_event_creates_it,
    an_update_of_anything_else_that_is_missing_is_refused,
    a_lease_that_was_deleted_comes_back_for_who_still_updates_it,
    an_update_meant_for_an_object_that_is_gone_does_not_hit_its_successor,
    a_status_is_written_under_the_same_conditions,
    a_status_write_leaves_the_rest_alone,
    of_two_who_take_a_lease_one_gets_it,
    a_tried_update_conflicts_like_a_real_one,
    an_object_being_deleted_can_still_be_written,
];

fn label() -> Value {
    json!({ "metadata": { "labels": { "a": "b" } } })
}

/// Kinds for which an update creates a missing object.
const CREATED_BY_UPDATE: [&str; 2] = [LEASES, CORE_EVENTS];

fn kinds_of(wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = Kind> {
    every_kind().into_iter().filter(move |kind| wanted(kind.uri))
}

fn metadata(metadata: Value) -> Value {
    [("metadata", metadata)].into_iter().collect()
}

async fn one_counter_orders_the_writes_to_all_kinds(client: Client) {
    let mut last = 0;
    for kind in every_kind() {
        let created = create(&client, kind.uri, kind.object("counted")).await;
        let changed = merge(&client, format!("{}/counted", kind.uri), label()).await;
        for written in [version(&created), version(&changed)] {
            assert!(written > last, "{}: {written} after {last}", kind.uri);
            last = written;
        }
    }
}

async fn a_patch_insists_on_a_version_only_where_it_names_one(client: Client) {
    for kind in every_kind() {
        create(&client, kind.uri, kind.object("loose")).await;
        let uri = format!("{}/loose", kind.uri);
        let versions = [json!("0"), json!(""), Value::Null];
        for (number, any) in versions.into_iter().enumerate() {
            let label = metadata(json!({ "resourceVersion": any, "labels": { "n": number.to_string() } }));
            let patched = patch(&client, &uri, MERGE, label).await;
            // The patch becomes an update without a version, which these kinds refuse.
            if [LEASES, PDBS].contains(&kind.uri) {
                assert_eq!(patched.code, 422, "{uri} {patched:?}");
                continue;
            }
            assert_eq!(patched.code, 200, "{uri} {patched:?}");
            assert_eq!(patched.body["metadata"]["labels"]["n"], number.to_string());
        }
    }
}

async fn a_version_that_is_no_number_is_refused(client: Client) {
    let node = create(&client, NODES, named("n")).await;
    let uri = format!("{NODES}/n");
    let broken = metadata(json!({ "name": "n", "resourceVersion": "abc", "labels": { "a": "b" } }));
    for refused in [
        put(&client, &uri, broken.clone()).await,
        patch(&client, &uri, MERGE, broken.clone()).await,
    ] {
        assert!(refused.code >= 400, "{refused:?}");
    }
    assert_eq!(read(&client, &uri).await, node);
    // A create ignores a version that is not a number.
    let created = metadata(json!({ "name": "m", "resourceVersion": "abc" }));
    let created = create(&client, NODES, created).await;
    assert!(version(&created) > version(&node));
}

async fn an_update_of_a_missing_lease_or_event_creates_it(client: Client) {
    for kind in kinds_of(|uri| CREATED_BY_UPDATE.contains(&uri)) {
        let uri = format!("{}/new", kind.uri);
        let tried = put(&client, format!("{uri}?dryRun=All"), kind.object("new")).await;
        assert_eq!(tried.code, 201);
        is_gone(&client, &uri).await;
        let created = put(&client, &uri, kind.object("new")).await;
        created.shows(json!({ "code": 201, "metadata.namespace": "default" }));
        assert_eq!(read(&client, &uri).await, created.body);
        merge(&client, &uri, label()).await;
        let missing = patch(&client, format!("{}/other", kind.uri), MERGE, json!({})).await;
        assert_eq!(missing.code, 404);
    }
}

async fn an_update_of_anything_else_that_is_missing_is_refused(client: Client) {
    for kind in kinds_of(|uri| !CREATED_BY_UPDATE.contains(&uri)) {
        for version in [json!(null), json!("7")] {
            let mut object = kind.object("nobody");
            object["metadata"]["resourceVersion"] = version;
            let refused = put(&client, format!("{}/nobody", kind.uri), object).await;
            refused.says(404, &format!("{} \"nobody\" not found", kind.qualified));
        }
    }
}

async fn a_lease_that_was_deleted_comes_back_for_who_still_updates_it(client: Client) {
    let held = labelled("held", &json!({ "a": "b" }));
    let mut held = create(&client, LEASES, held).await;
    let uri = format!("{LEASES}/held");
    remove(&client, LEASES, "held").await;
    held["spec"] = json!({ "holderIdentity": "me" });
    // The uid names an object that no longer exists.
    let refused = put(&client, &uri, held.clone()).await;
    refused.is(409, "Conflict");
    let uid = held["metadata"]["uid"].as_str().unwrap();
    let suffix = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
    assert!(message(&refused).ends_with(&suffix), "{refused:?}");
    // Without the uid, the old version does not matter.
    let nameless = without(held.clone(), "uid");
    let again = put(&client, &uri, nameless.clone()).await;
    again.shows(json!({ "code": 201, "spec": { "holderIdentity": "me" } }));
    assert_ne!(again.body["metadata"]["uid"], uid);
    assert!(version(&again.body) > version(&held));
    assert_eq!(put(&client, &uri, nameless).await.code, 409);
}

async fn an_update_meant_for_an_object_that_is_gone_does_not_hit_its_successor(client: Client) {
    let pod = pod("p", Value::Null);
    let first = create(&client, PODS, pod.clone()).await;
    let first_uid = &first["metadata"]["uid"];
    remove(&client, PODS, "p").await;
    let second = create(&client, PODS, pod).await;
    let uri = format!("{PODS}/p");
    let mut late = without(first.clone(), "resourceVersion");
    late["metadata"]["labels"] = json!({ "late": "yes" });
    put(&client, &uri, late).await.is(409, "Conflict");
    let label = metadata(json!({ "uid": first_uid, "labels": { "late": "yes" } }));
    let why = format!("Pod \"p\" is invalid: metadata.uid: Invalid value: {first_uid}: field is immutable");
    for content_type in [MERGE, STRATEGIC] {
        for uri in [uri.clone(), format!("{uri}/status")] {
            let patched = patch(&client, uri, content_type, label.clone()).await;
            patched.says(422, &why);
        }
    }
    let by_uid = json!({ "preconditions": { "uid": first_uid }, "gracePeriodSeconds": 0 });
    delete(&client, &uri, by_uid).await.is(409, "Conflict");
    assert_eq!(read(&client, &uri).await, second);
}

async fn a_status_is_written_under_the_same_conditions(client: Client) {
    // Kinds whose status any client may write.
    for kind in kinds_of(|uri| [PODS, PDBS, REPLICA_SETS, NODES].contains(&uri)) {
        let created = create(&client, kind.uri, kind.object("st")).await;
        let uri = format!("{}/st/status", kind.uri);
        merge(&client, format!("{}/st", kind.uri), label()).await;
        let old = &created["metadata"]["resourceVersion"];
        let named = metadata(json!({ "resourceVersion": old, "annotations": { "a": "b" } }));
        for stale in [
            put(&client, &uri, created.clone()).await,
            patch(&client, &uri, STRATEGIC, named).await,
        ] {
            stale.is(409, "Conflict");
        }
        let mut fresh = read(&client, &uri).await;
        update(&client, &uri, fresh.clone()).await;
        fresh["metadata"]["name"] = json!("other");
        assert_eq!(put(&client, &uri, fresh).await.code, 400);
    }
}

async fn a_status_write_leaves_the_rest_alone(client: Client) {
    let pod = create(&client, PODS, pod("p", Value::Null)).await;
    let uri = format!("{PODS}/p/status");
    let mut written = pod.clone();
    written["spec"]["nodeName"] = json!("somewhere");
    written["status"] = json!({ "phase": "Running", "message": "hello" });
    let written = put(&client, &uri, written).await;
    written.shows(json!({ "code": 200, "spec": pod["spec"], "status.message": "hello" }));
    let patched = json!({ "spec": { "nodeName": "somewhere" }, "status": { "message": null } });
    let patched = merge(&client, &uri, patched).await;
    patched.shows(json!({ "spec": pod["spec"], "status.phase": "Running", "status.message": null }));
}

async fn of_two_who_take_a_lease_one_gets_it(client: Client) {
    let free = json!({ "metadata": { "name": "free" }, "spec": {} });
    let free = create(&client, LEASES, free).await;
    let uri = format!("{LEASES}/free");
    let take = async |who: &str| {
        let mut lease = free.clone();
        lease["spec"] = json!({ "holderIdentity": who });
        put(&client, &uri, lease).await
    };
    let mut takers: [Answer; 2] = futures::join!(take("one"), take("two")).into();
    takers.sort_by_key(|taker| taker.code);
    assert_eq!([takers[0].code, takers[1].code], [200, 409]);
    assert_eq!(read(&client, &uri).await, takers[0].body);
}

async fn a_tried_update_conflicts_like_a_real_one(client: Client) {
    let first = create(&client, LEASES, named("l")).await;
    let uri = format!("{LEASES}/l");
    let second = merge(&client, &uri, label()).await;
    let dry = format!("{uri}?dryRun=All");
    let old = &first["metadata"]["resourceVersion"];
    put(&client, &dry, first.clone()).await.is(409, "Conflict");
    let stale = metadata(json!({ "resourceVersion": old, "labels": null }));
    assert_eq!(patch(&client, &dry, MERGE, stale).await.code, 409);
    let stale = json!({ "preconditions": { "resourceVersion": old } });
    assert_eq!(delete(&client, &dry, stale).await.code, 409);
    assert_eq!(read(&client, &uri).await, second);
}

async fn an_object_being_deleted_can_still_be_written(client: Client) {
    let node = metadata(json!({ "name": "n", "finalizers": ["x.example.com/y"] }));
    let node = create(&client, NODES, node).await;
    remove(&client, NODES, "n").await;
    let uri = format!("{NODES}/n");
    assert_eq!(put(&client, &uri, node).await.code, 409);
    let marked = read(&client, &uri).await;
    let deleted_at = marked["metadata"]["deletionTimestamp"].clone();
    let mut written = without(marked, "deletionTimestamp");
    written["metadata"]["labels"] = json!({ "a": "b" });
    let mut written = update(&client, &uri, written).await;
    written["metadata"].shows(json!({ "deletionTimestamp": deleted_at, "labels": { "a": "b" } }));
    post(&client, NODES, named("n")).await.is(409, "AlreadyExists");
    written["metadata"]["finalizers"] = json!([]);
    update(&client, &uri, written).await;
    is_gone(&client, &uri).await;
}
