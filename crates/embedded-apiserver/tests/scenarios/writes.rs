//! Create, update, patch, delete.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::rows;

crate::scenarios![
    a_created_object_has_identity_and_an_owner_of_its_fields,
    a_generated_name_has_five_letters_more,
    creates_without_a_usable_identity_are_refused,
    an_update_replaces_the_object_and_keeps_its_identity,
    a_patch_must_not_be_stale_and_must_mean_this_object,
    a_write_that_changes_nothing_is_no_write,
    a_patched_leaf_belongs_to_who_patched_it_last,
    the_field_manager_parameter_beats_the_user_agent,
    nulls_and_emptied_maps_leave_the_object,
    a_strategic_patch_merges_lists_by_key_and_a_merge_patch_replaces_them,
    the_status_of_a_node_is_set_by_its_creation_only,
    a_delete_honours_its_preconditions,
    a_deleted_object_waits_for_its_finalizers,
    a_dry_run_changes_nothing,
    an_event_is_seen_in_both_of_its_groups,
];

async fn a_created_object_has_identity_and_an_owner_of_its_fields(client: Client) {
    let lease = json!({ "metadata": { "name": "c1", "uid": "mine" }, "spec": { "holderIdentity": "a" } });
    let lease = create(&client, LEASES, lease).await;
    lease.shows(json!({
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata.namespace": "default",
        "metadata.generation": null,
        "metadata.managedFields": [{
            "manager": "scenario",
            "operation": "Update",
            "apiVersion": "coordination.k8s.io/v1",
            // Not fixed: the second may change after the creation.
            "time": lease["metadata"]["managedFields"][0]["time"],
            "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": { "f:holderIdentity": {} } },
        }],
    }));
    assert_eq!(lease["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert!(version(&lease) > 0);
    assert_eq!(read(&client, format!("{LEASES}/c1")).await, lease);
}

async fn a_generated_name_has_five_letters_more(client: Client) {
    let lease = json!({ "metadata": { "generateName": "gen-" } });
    let first = create(&client, LEASES, lease.clone()).await;
    let second = create(&client, LEASES, lease).await;
    let name = first["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("gen-") && name.len() == 9, "{name}");
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    let clash = json!({ "metadata": { "name": name, "generateName": "gen-" } });
    let message = format!(
        "leases.coordination.k8s.io \"{name}\" already exists, the server was not able to generate a unique name for the \
         object"
    );
    let clash = post(&client, LEASES, clash).await;
    clash.shows(json!({ "code": 409, "message": message, "details.retryAfterSeconds": 1 }));
}

async fn creates_without_a_usable_identity_are_refused(client: Client) {
    let nameless = post(&client, NODES, json!({ "metadata": {} })).await;
    let why = "Required value: name or generateName is required";
    let cause = json!({ "reason": "FieldValueRequired", "message": why, "field": "metadata.name" });
    let message = format!("Node \"\" is invalid: metadata.name: {why}");
    let details = json!({ "kind": "Node", "causes": [cause] });
    nameless.refuses(422, "Invalid", &message, &details);
    let versioned = json!({ "metadata": { "name": "v", "resourceVersion": "4" } });
    let versioned = post(&client, NODES, versioned).await;
    versioned.says(500, "resourceVersion should not be set on objects to be created");
    let elsewhere = json!({ "metadata": { "name": "l", "namespace": "other" } });
    let elsewhere = post(&client, LEASES, elsewhere).await;
    let why = "the namespace of the provided object does not match the namespace sent on the request";
    elsewhere.says(400, why);
    let pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "p" } });
    post(&client, NODES, pod).await.is(400, "BadRequest");
}

async fn an_update_replaces_the_object_and_keeps_its_identity(client: Client) {
    let node = json!({ "metadata": { "name": "u2", "labels": { "a": "b" } } });
    let node = create(&client, NODES, node).await;
    let uri = format!("{NODES}/u2");
    let updated = json!({ "metadata": { "name": "u2", "annotations": { "c": "d" } } });
    let updated = update(&client, &uri, updated).await;
    updated.shows(json!({
        "metadata.uid": node["metadata"]["uid"],
        "metadata.creationTimestamp": node["metadata"]["creationTimestamp"],
        "metadata.labels": null,
        "metadata.annotations": { "c": "d" },
    }));
    assert!(version(&updated) > version(&node));
    let other = json!({ "metadata": { "name": "u2", "uid": "other" } });
    let other = put(&client, &uri, other).await;
    other.is(409, "Conflict");
    let why = "Precondition failed: UID in precondition: other";
    assert!(message(&other).contains(why), "{other:?}");
    let renamed = put(&client, &uri, named("u3")).await;
    renamed.says(
        400,
        "the name of the object (u3) does not match the name on the URL (u2)",
    );
}

async fn a_patch_must_not_be_stale_and_must_mean_this_object(client: Client) {
    let node = create(&client, NODES, named("p1")).await;
    let uri = format!("{NODES}/p1");
    let version = &node["metadata"]["resourceVersion"];
    let conflict = "Operation cannot be fulfilled on nodes \"p1\": the object has been modified; please apply your \
                    changes to the latest version and try again";
    for stale in [
        json!({ "metadata": { "resourceVersion": "1", "annotations": { "x": "y" } } }),
        json!({ "metadata": { "resourceVersion": "1", "uid": "other" } }),
    ] {
        patch(&client, &uri, STRATEGIC, stale).await.says(409, conflict);
    }
    for other in [
        json!({ "metadata": { "uid": "other", "annotations": { "x": "y" } } }),
        json!({ "metadata": { "uid": "other", "resourceVersion": version } }),
    ] {
        let other = patch(&client, &uri, STRATEGIC, other).await;
        let message = "Node \"p1\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable";
        other.says(422, message);
        other.blames(&[("metadata.uid", "Invalid")]);
    }
    let right = json!({ "metadata": {
        "uid": node["metadata"]["uid"],
        "resourceVersion": version,
        "annotations": { "x": "y" },
    } });
    strategic(&client, &uri, right).await;
}

async fn a_write_that_changes_nothing_is_no_write(client: Client) {
    let node = json!({ "metadata": { "name": "noop", "annotations": { "x": "y" } } });
    let node = create(&client, NODES, node).await;
    let uri = format!("{NODES}/noop");
    let noop = format!("{NODES}?fieldSelector=metadata.name%3Dnoop");
    let mut watch = Watch::since(&client, noop, &node).await;
    let same = json!({ "metadata": { "annotations": { "x": "y" } } });
    assert_eq!(strategic(&client, &uri, same).await, node);
    let same = json!({ "metadata": { "labels": null } });
    assert_eq!(merge(&client, &uri, same).await, node);
    assert_eq!(update(&client, &uri, node.clone()).await, node);
    assert!(watch.is_silent().await);
}

async fn a_patched_leaf_belongs_to_who_patched_it_last(client: Client) {
    let node = json!({ "metadata": { "name": "owned", "annotations": { "x": "1", "y": "1" } } });
    create(&client, NODES, node).await;
    let uri = |manager: &str| format!("{NODES}/owned?fieldManager={manager}");
    let annotate = |value: Value| json!({ "metadata": { "annotations": { "x": value } } });
    let first = json!(["scenario", "Update", { "f:metadata": { "f:annotations": { ".": {}, "f:y": {} } } }]);
    let second = strategic(&client, uri("second"), annotate(json!("2"))).await;
    let of_second = json!(["second", "Update", { "f:metadata": { "f:annotations": { "f:x": {} } } }]);
    assert_eq!(owners(&second), json!([first, of_second]));
    let third = merge(&client, uri("third"), annotate(Value::Null)).await;
    assert_eq!(owners(&third), json!([first]));
    let cleared = json!({ "metadata": { "annotations": null } });
    let cleared = merge(&client, uri("third"), cleared).await;
    assert_eq!(cleared["metadata"].get("managedFields"), None);
}

async fn the_field_manager_parameter_beats_the_user_agent(client: Client) {
    let node = json!({ "metadata": { "name": "fm", "labels": { "a": "b" } } });
    let node = create(&client, &format!("{NODES}?fieldManager=fm/2"), node).await;
    assert_eq!(node["metadata"]["managedFields"][0]["manager"], "fm/2");
}

async fn nulls_and_emptied_maps_leave_the_object(client: Client) {
    let node = json!({ "metadata": {
        "name": "null",
        "labels": { "a": "b" },
        "annotations": {},
        "finalizers": [],
        "ownerReferences": null,
    } });
    let node = create(&client, NODES, node).await;
    node.shows(json!({ "metadata.annotations": null, "metadata.finalizers": null }));
    assert_eq!(node["metadata"].get("ownerReferences"), None);
    let emptied = json!({ "metadata": { "labels": { "a": null } } });
    let emptied = merge(&client, format!("{NODES}/null"), emptied).await;
    assert_eq!(emptied["metadata"].get("labels"), None);
}

async fn a_strategic_patch_merges_lists_by_key_and_a_merge_patch_replaces_them(client: Client) {
    let owner =
        |uid: &str, name: &str| json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid });
    let [o1, o2, o3, o4] = ["1", "2", "3", "4"].map(|n| owner(&format!("u{n}"), &format!("o{n}")));
    let new1 = owner("u1", "new1");
    let lease = json!({ "metadata": { "name": "lists", "ownerReferences": [o1, o2] } });
    create(&client, LEASES, lease).await;
    let uri = format!("{LEASES}/lists");
    for (content_type, owners, after) in rows! {
        STRATEGIC, json!([o3, { "uid": "u1", "name": "new1" }]) => json!([o3, new1, o2]);
        // Items that the patch does not name stay in front of the item that they preceded.
        STRATEGIC, json!([o2, o4]) => json!([o3, new1, o2, o4]);
        STRATEGIC, json!([{ "uid": "u4", "$patch": "delete" }]) => json!([o3, new1, o2]);
        STRATEGIC, json!([{ "uid": "u1", "$patch": "delete" }]) => json!([o3, o2]);
        MERGE, json!([owner("u9", "o9")]) => json!([owner("u9", "o9")]);
    } {
        let body = json!({ "metadata": { "ownerReferences": owners } });
        let patched = patch(&client, &uri, content_type, body).await;
        patched.shows(json!({ "code": 200, "metadata.ownerReferences": after }));
    }
    let keyless = json!({ "metadata": { "ownerReferences": [{ "name": "nokey" }] } });
    let keyless = patch(&client, &uri, STRATEGIC, keyless).await;
    let why = "does not contain declared merge key: uid";
    assert!(
        keyless.code == 500 && message(&keyless).ends_with(why),
        "{keyless:?}"
    );
}

async fn the_status_of_a_node_is_set_by_its_creation_only(client: Client) {
    let node = json!({ "metadata": { "name": "st" }, "status": { "phase": "Running" } });
    let node = create(&client, NODES, node).await;
    assert_eq!(node["status"]["phase"], "Running");
    let uri = format!("{NODES}/st");
    let status = json!({ "status": { "phase": "Terminated" } });
    let patched = strategic(&client, &uri, status).await;
    assert_eq!(patched["status"]["phase"], "Running");
    assert_eq!(version(&patched), version(&node));
    let replaced = update(&client, &uri, named("st")).await;
    assert_eq!(replaced["status"]["phase"], "Running");
}

async fn a_delete_honours_its_preconditions(client: Client) {
    let node = create(&client, NODES, named("d1")).await;
    let (uid, version) = (node["metadata"]["uid"].as_str().unwrap(), version(&node));
    let uri = format!("{NODES}/d1");
    let other = delete(&client, &uri, json!({ "preconditions": { "uid": "bad" } })).await;
    let message = format!(
        "Operation cannot be fulfilled on Node \"d1\": the UID in the precondition (bad) does not match the UID in record \
         ({uid}). The object might have been deleted and then recreated"
    );
    let details = json!({ "name": "d1", "kind": "Node" });
    other.refuses(409, "Conflict", &message, &details);
    let stale = json!({ "preconditions": { "resourceVersion": "1" } });
    let message = format!(
        "Operation cannot be fulfilled on Node \"d1\": the ResourceVersion in the precondition (1) does not match the \
         ResourceVersion in record ({version}). The object might have been modified"
    );
    delete(&client, &uri, stale).await.says(409, &message);
    let right = json!({ "preconditions": { "uid": uid, "resourceVersion": version.to_string() } });
    let right = delete(&client, &uri, right).await;
    assert_eq!(right.code, 200);
    assert_eq!(
        right.body,
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": { "name": "d1", "kind": "nodes", "uid": uid },
        })
    );
    assert_eq!(delete(&client, &uri, Value::Null).await.code, 404);
}

async fn a_deleted_object_waits_for_its_finalizers(client: Client) {
    let node = json!({ "metadata": { "name": "fin", "finalizers": ["x/y"] } });
    let node = create(&client, NODES, node).await;
    let uri = format!("{NODES}/fin");
    let waiting = delete(&client, &uri, Value::Null).await;
    waiting.shows(json!({ "code": 200, "kind": "Node", "metadata.deletionGracePeriodSeconds": 0 }));
    let waiting = waiting.body;
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    assert!(version(&waiting) > version(&node));
    assert_eq!(delete(&client, &uri, Value::Null).await.body, waiting);
    let more = json!({ "metadata": { "finalizers": ["new/one"] } });
    patch(&client, &uri, MERGE, more).await.says(
        422,
        "Node \"fin\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being \
         deleted, found new finalizers []string{\"new/one\"}",
    );
    let alive = json!({ "metadata": { "deletionTimestamp": null } });
    assert_eq!(merge(&client, &uri, alive).await, waiting);
    let fin = format!("{NODES}?fieldSelector=metadata.name%3Dfin");
    let mut watch = Watch::since(&client, fin, &waiting).await;
    release(&client, &uri).await;
    is_gone(&client, &uri).await;
    let event = watch.event().await;
    assert_eq!(event["type"], "DELETED");
    assert!(version(&event["object"]) > version(&waiting));
}

async fn a_dry_run_changes_nothing(client: Client) {
    let node = create(&client, NODES, named("dry")).await;
    let uri = format!("{NODES}/dry");
    let annotate = json!({ "metadata": { "annotations": { "a": "b" } } });
    let tried = merge(&client, format!("{uri}?dryRun=All"), annotate).await;
    assert_eq!(tried["metadata"]["annotations"], json!({ "a": "b" }));
    create(&client, &format!("{NODES}?dryRun=All"), named("dry-2")).await;
    let deleted = delete(&client, &uri, json!({ "dryRun": ["All"] })).await;
    assert_eq!(deleted.code, 200);
    assert_eq!(read(&client, &uri).await, node);
    is_gone(&client, format!("{NODES}/dry-2")).await;
}

async fn an_event_is_seen_in_both_of_its_groups(client: Client) {
    let event = json!({
        "metadata": { "name": "ev" },
        "eventTime": "2026-11-21T12:00:00.000000Z",
        "reportingController": "c",
        "reportingInstance": "i",
        "action": "A",
        "reason": "R",
        "type": "Normal",
        "note": "hello",
        "regarding": { "kind": "Namespace", "name": "ev-subject" },
    });
    let created = create(&client, EVENTS, event).await;
    assert_eq!(
        owners(&created),
        json!([["scenario", "Update", {
            "f:action": {},
            "f:eventTime": {},
            "f:note": {},
            "f:reason": {},
            "f:regarding": {},
            "f:reportingController": {},
            "f:reportingInstance": {},
            "f:type": {},
        }]])
    );
    read(&client, format!("{CORE_EVENTS}/ev")).await.shows(json!({
        "kind": "Event",
        "apiVersion": "v1",
        "message": "hello",
        "involvedObject.name": "ev-subject",
        "reportingComponent": "c",
    }));
    let series = json!({ "series": { "count": 2, "lastObservedTime": "2026-11-21T12:00:01.000000Z" } });
    let patched = merge(&client, format!("{EVENTS}/ev"), series).await;
    patched.shows(json!({ "series.count": 2, "note": "hello" }));
    let list = |uri: &str, field: &str| format!("{uri}?fieldSelector={field}%3Dev-subject");
    let old = read(&client, list(CORE_EVENTS, "involvedObject.name")).await;
    let new = read(&client, list(EVENTS, "regarding.name")).await;
    assert_eq!((names(&old), names(&new)), (vec!["ev"], vec!["ev"]));
    assert_eq!(new["items"][0]["note"], "hello");
    let unknown = get(&client, list(CORE_EVENTS, "regarding.name")).await;
    unknown.says(400, "field label not supported: regarding.name");
}
