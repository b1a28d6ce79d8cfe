//! Create, update, patch, delete.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

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
    let lease = create(
        &client,
        LEASES,
        json!({ "metadata": { "name": "c1", "uid": "mine" }, "spec": { "holderIdentity": "a" } }),
    )
    .await;
    assert_eq!(lease["kind"], "Lease");
    assert_eq!(lease["apiVersion"], "coordination.k8s.io/v1");
    let metadata = &lease["metadata"];
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert!(version(&lease) > 0);
    assert_eq!(metadata.get("generation"), None);
    assert_eq!(
        metadata["managedFields"],
        json!([{
            "manager": "scenario",
            "operation": "Update",
            "apiVersion": "coordination.k8s.io/v1",
            // The second may change between the two.
            "time": metadata["managedFields"][0]["time"],
            "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": { "f:holderIdentity": {} } },
        }])
    );
    assert_eq!(get(&client, format!("{LEASES}/c1")).await.body, lease);
}

async fn a_generated_name_has_five_letters_more(client: Client) {
    let lease = json!({ "metadata": { "generateName": "gen-" } });
    let (first, second) = (
        create(&client, LEASES, lease.clone()).await,
        create(&client, LEASES, lease).await,
    );
    let name = first["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("gen-") && name.len() == 9, "{name}");
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    let clash = json!({ "metadata": { "name": name, "generateName": "gen-" } });
    let clash = post(&client, LEASES, clash).await;
    assert_eq!(
        (
            clash.code,
            &clash.body["message"],
            &clash.body["details"]["retryAfterSeconds"]
        ),
        (
            409,
            &json!(format!(
                "leases.coordination.k8s.io \"{name}\" already exists, the server was not able to generate a \
                 unique name for the object"
            )),
            &json!(1),
        )
    );
}

async fn creates_without_a_usable_identity_are_refused(client: Client) {
    let nameless = post(&client, NODES, json!({ "metadata": {} })).await;
    assert_eq!(nameless.code, 422);
    assert_eq!(
        nameless.body["message"],
        "Node \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
    assert_eq!(
        nameless.body["details"],
        json!({ "kind": "Node", "causes": [{
            "reason": "FieldValueRequired",
            "message": "Required value: name or generateName is required",
            "field": "metadata.name",
        }] })
    );
    let versioned = json!({ "metadata": { "name": "v", "resourceVersion": "4" } });
    let versioned = post(&client, NODES, versioned).await;
    versioned.says(500, "resourceVersion should not be set on objects to be created");
    let elsewhere = json!({ "metadata": { "name": "l", "namespace": "other" } });
    let elsewhere = post(&client, LEASES, elsewhere).await;
    elsewhere.says(
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    let pod = post(
        &client,
        NODES,
        json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "p" } }),
    )
    .await;
    pod.is(400, "BadRequest");
}

async fn an_update_replaces_the_object_and_keeps_its_identity(client: Client) {
    let node = json!({ "metadata": { "name": "u2", "labels": { "a": "b" } } });
    let node = create(&client, NODES, node).await;
    let uri = format!("{NODES}/u2");
    let update = json!({ "metadata": { "name": "u2", "annotations": { "c": "d" } } });
    let updated = put(&client, &uri, update).await.body;
    assert_eq!(updated["metadata"]["uid"], node["metadata"]["uid"]);
    assert_eq!(
        updated["metadata"]["creationTimestamp"],
        node["metadata"]["creationTimestamp"]
    );
    assert_eq!(updated["metadata"].get("labels"), None);
    assert_eq!(updated["metadata"]["annotations"], json!({ "c": "d" }));
    assert!(version(&updated) > version(&node));
    let other = json!({ "metadata": { "name": "u2", "uid": "other" } });
    let other = put(&client, &uri, other).await;
    other.is(409, "Conflict");
    assert!(
        other.body["message"]
            .as_str()
            .unwrap()
            .contains("Precondition failed: UID in precondition: other"),
        "{other:?}"
    );
    let renamed = put(&client, &uri, json!({ "metadata": { "name": "u3" } })).await;
    renamed.says(
        400,
        "the name of the object (u3) does not match the name on the URL (u2)",
    );
}

async fn a_patch_must_not_be_stale_and_must_mean_this_object(client: Client) {
    let node = create(&client, NODES, json!({ "metadata": { "name": "p1" } })).await;
    let uri = format!("{NODES}/p1");
    let version = version(&node);
    let conflict = "Operation cannot be fulfilled on nodes \"p1\": the object has been modified; please apply your \
                    changes to the latest version and try again";
    let stale = json!({ "metadata": { "resourceVersion": "1", "annotations": { "x": "y" } } });
    let stale = patch(&client, &uri, STRATEGIC, stale).await;
    assert_eq!((stale.code, &stale.body["message"]), (409, &json!(conflict)));
    let both = json!({ "metadata": { "resourceVersion": "1", "uid": "other" } });
    let both = patch(&client, &uri, STRATEGIC, both).await;
    assert_eq!((both.code, &both.body["message"]), (409, &json!(conflict)));
    for other in [
        json!({ "metadata": { "uid": "other", "annotations": { "x": "y" } } }),
        json!({ "metadata": { "uid": "other", "resourceVersion": version.to_string() } }),
    ] {
        let other = patch(&client, &uri, STRATEGIC, other).await;
        other.is(422, "Invalid");
        assert_eq!(
            other.body["message"],
            "Node \"p1\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable"
        );
        assert_eq!(
            other.body["details"]["causes"][0],
            json!({
                "reason": "FieldValueInvalid",
                "message": "Invalid value: \"other\": field is immutable",
                "field": "metadata.uid",
            })
        );
    }
    let right = json!({ "metadata": {
        "uid": node["metadata"]["uid"],
        "resourceVersion": version.to_string(),
        "annotations": { "x": "y" },
    } });
    assert_eq!(patch(&client, &uri, STRATEGIC, right).await.code, 200);
}

async fn a_write_that_changes_nothing_is_no_write(client: Client) {
    let node = json!({ "metadata": { "name": "noop", "annotations": { "x": "y" } } });
    let node = create(&client, NODES, node).await;
    let uri = format!("{NODES}/noop");
    let mut watch = Watch::open(
        &client,
        format!(
            "{NODES}?watch=1&fieldSelector=metadata.name%3Dnoop&resourceVersion={}",
            version(&node)
        ),
    )
    .await;
    for same in [
        patch(
            &client,
            &uri,
            STRATEGIC,
            json!({ "metadata": { "annotations": { "x": "y" } } }),
        )
        .await,
        patch(&client, &uri, MERGE, json!({ "metadata": { "labels": null } })).await,
        put(&client, &uri, node.clone()).await,
    ] {
        assert_eq!(same.body, node);
    }
    assert!(watch.is_silent().await);
}

fn owners(object: &Value) -> Value {
    object["metadata"]["managedFields"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|entry| json!([entry["manager"], entry["fieldsV1"]]))
        .collect()
}

async fn a_patched_leaf_belongs_to_who_patched_it_last(client: Client) {
    let node = json!({ "metadata": { "name": "owned", "annotations": { "x": "1", "y": "1" } } });
    create(&client, NODES, node).await;
    let uri = |manager: &str| format!("{NODES}/owned?fieldManager={manager}");
    let annotate = |value: Value| json!({ "metadata": { "annotations": { "x": value } } });
    let second = patch(&client, uri("second"), STRATEGIC, annotate(json!("2")))
        .await
        .body;
    assert_eq!(
        owners(&second),
        json!([
            ["scenario", { "f:metadata": { "f:annotations": { ".": {}, "f:y": {} } } }],
            ["second", { "f:metadata": { "f:annotations": { "f:x": {} } } }],
        ])
    );
    let third = patch(&client, uri("third"), MERGE, annotate(Value::Null))
        .await
        .body;
    assert_eq!(
        owners(&third),
        json!([["scenario", { "f:metadata": { "f:annotations": { ".": {}, "f:y": {} } } }]])
    );
    let cleared = json!({ "metadata": { "annotations": null } });
    let cleared = patch(&client, uri("third"), MERGE, cleared).await.body;
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
    assert_eq!(node["metadata"].get("annotations"), None);
    assert_eq!(node["metadata"].get("finalizers"), None);
    assert_eq!(node["metadata"].get("ownerReferences"), None);
    let emptied = json!({ "metadata": { "labels": { "a": null } } });
    let emptied = patch(&client, format!("{NODES}/null"), MERGE, emptied).await.body;
    assert_eq!(emptied["metadata"].get("labels"), None);
}

async fn a_strategic_patch_merges_lists_by_key_and_a_merge_patch_replaces_them(client: Client) {
    let owner =
        |uid: &str, name: &str| json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid });
    let lease =
        json!({ "metadata": { "name": "lists", "ownerReferences": [owner("u1", "o1"), owner("u2", "o2")] } });
    create(&client, LEASES, lease).await;
    let uri = format!("{LEASES}/lists");
    let owners_after = async |content_type: &str, owners: Value| {
        let body = json!({ "metadata": { "ownerReferences": owners } });
        patch(&client, &uri, content_type, body).await.body["metadata"]["ownerReferences"].clone()
    };
    assert_eq!(
        owners_after(
            STRATEGIC,
            json!([owner("u3", "o3"), { "uid": "u1", "name": "new1" }])
        )
        .await,
        json!([owner("u3", "o3"), owner("u1", "new1"), owner("u2", "o2")])
    );
    // What only the server has stays before what it was before.
    assert_eq!(
        owners_after(STRATEGIC, json!([owner("u2", "o2"), owner("u4", "o4")])).await,
        json!([
            owner("u3", "o3"),
            owner("u1", "new1"),
            owner("u2", "o2"),
            owner("u4", "o4")
        ])
    );
    assert_eq!(
        owners_after(STRATEGIC, json!([{ "uid": "u4", "$patch": "delete" }])).await,
        json!([owner("u3", "o3"), owner("u1", "new1"), owner("u2", "o2")])
    );
    assert_eq!(
        owners_after(STRATEGIC, json!([{ "uid": "u1", "$patch": "delete" }])).await,
        json!([owner("u3", "o3"), owner("u2", "o2")])
    );
    assert_eq!(
        owners_after(MERGE, json!([owner("u9", "o9")])).await,
        json!([owner("u9", "o9")])
    );
    let keyless = json!({ "metadata": { "ownerReferences": [{ "name": "nokey" }] } });
    let keyless = patch(&client, &uri, STRATEGIC, keyless).await;
    assert_eq!(keyless.code, 500);
    assert!(
        keyless.body["message"]
            .as_str()
            .unwrap()
            .ends_with("does not contain declared merge key: uid"),
        "{keyless:?}"
    );
}

async fn the_status_of_a_node_is_set_by_its_creation_only(client: Client) {
    let node = json!({ "metadata": { "name": "st" }, "status": { "phase": "Running" } });
    let node = create(&client, NODES, node).await;
    assert_eq!(node["status"]["phase"], "Running");
    let uri = format!("{NODES}/st");
    let status = json!({ "status": { "phase": "Terminated" } });
    let patched = patch(&client, &uri, STRATEGIC, status).await.body;
    assert_eq!(patched["status"]["phase"], "Running");
    assert_eq!(version(&patched), version(&node));
    let put = put(&client, &uri, json!({ "metadata": { "name": "st" } }))
        .await
        .body;
    assert_eq!(put["status"]["phase"], "Running");
}

async fn a_delete_honours_its_preconditions(client: Client) {
    let node = create(&client, NODES, json!({ "metadata": { "name": "d1" } })).await;
    let (uid, version) = (node["metadata"]["uid"].as_str().unwrap(), version(&node));
    let uri = format!("{NODES}/d1");
    let other = delete(&client, &uri, json!({ "preconditions": { "uid": "bad" } })).await;
    assert_eq!(other.code, 409);
    assert_eq!(
        other.body,
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": format!(
                "Operation cannot be fulfilled on Node \"d1\": the UID in the precondition (bad) does not match \
                 the UID in record ({uid}). The object might have been deleted and then recreated"
            ),
            "reason": "Conflict",
            "details": { "name": "d1", "kind": "Node" },
            "code": 409,
        })
    );
    let stale = json!({ "preconditions": { "resourceVersion": "1" } });
    let stale = delete(&client, &uri, stale).await;
    stale.says(
        409,
        &format!(
            "Operation cannot be fulfilled on Node \"d1\": the ResourceVersion in the precondition (1) does \
                 not match the ResourceVersion in record ({version}). The object might have been modified"
        ),
    );
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
    assert_eq!((waiting.code, &waiting.body["kind"]), (200, &json!("Node")));
    let waiting = waiting.body;
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(waiting["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(version(&waiting) > version(&node));
    assert_eq!(delete(&client, &uri, Value::Null).await.body, waiting);
    let more = json!({ "metadata": { "finalizers": ["new/one"] } });
    let more = patch(&client, &uri, MERGE, more).await;
    more.says(
        422,
        "Node \"fin\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the \
                 object is being deleted, found new finalizers []string{\"new/one\"}",
    );
    let alive = json!({ "metadata": { "deletionTimestamp": null } });
    assert_eq!(patch(&client, &uri, MERGE, alive).await.body, waiting);
    let mut watch = Watch::open(
        &client,
        format!(
            "{NODES}?watch=1&fieldSelector=metadata.name%3Dfin&resourceVersion={}",
            version(&waiting)
        ),
    )
    .await;
    let released = json!({ "metadata": { "finalizers": null } });
    assert_eq!(patch(&client, &uri, MERGE, released).await.code, 200);
    assert_eq!(get(&client, &uri).await.code, 404);
    let event = watch.event().await;
    assert_eq!(event["type"], "DELETED");
    assert!(version(&event["object"]) > version(&waiting));
}

async fn a_dry_run_changes_nothing(client: Client) {
    let node = create(&client, NODES, json!({ "metadata": { "name": "dry" } })).await;
    let uri = format!("{NODES}/dry");
    let annotate = json!({ "metadata": { "annotations": { "a": "b" } } });
    let tried = patch(&client, format!("{uri}?dryRun=All"), MERGE, annotate)
        .await
        .body;
    assert_eq!(tried["metadata"]["annotations"], json!({ "a": "b" }));
    let other = json!({ "metadata": { "name": "dry-2" } });
    assert_eq!(
        post(&client, format!("{NODES}?dryRun=All"), other).await.code,
        201
    );
    assert_eq!(
        delete(&client, &uri, json!({ "dryRun": ["All"] })).await.code,
        200
    );
    assert_eq!(get(&client, &uri).await.body, node);
    assert_eq!(get(&client, format!("{NODES}/dry-2")).await.code, 404);
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
        json!([["scenario", {
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
    let core = get(&client, format!("{CORE_EVENTS}/ev")).await.body;
    assert_eq!(
        (&core["kind"], &core["apiVersion"]),
        (&json!("Event"), &json!("v1"))
    );
    assert_eq!(core["message"], "hello");
    assert_eq!(core["involvedObject"]["name"], "ev-subject");
    assert_eq!(core["reportingComponent"], "c");
    let series = json!({ "series": { "count": 2, "lastObservedTime": "2026-11-21T12:00:01.000000Z" } });
    let patched = patch(&client, format!("{EVENTS}/ev"), MERGE, series).await.body;
    assert_eq!(
        (&patched["series"]["count"], &patched["note"]),
        (&json!(2), &json!("hello"))
    );
    let list = |uri: &str, field: &str| format!("{uri}?fieldSelector={field}%3Dev-subject");
    let old = get(&client, list(CORE_EVENTS, "involvedObject.name")).await.body;
    let new = get(&client, list(EVENTS, "regarding.name")).await.body;
    assert_eq!((names(&old), names(&new)), (vec!["ev"], vec!["ev"]));
    assert_eq!(new["items"][0]["note"], "hello");
    let unknown = get(&client, list(CORE_EVENTS, "regarding.name")).await;
    unknown.says(400, "field label not supported: regarding.name");
}
