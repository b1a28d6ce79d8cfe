//! Server-side apply.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

crate::scenarios![
    an_apply_creates_what_is_not_there,
    an_applied_object_must_name_itself_and_its_type,
    what_the_schema_does_not_know_cannot_be_applied,
    the_same_apply_again_is_no_write,
    several_managers_may_want_the_same,
    what_another_manager_owns_is_a_conflict,
    several_conflicts_are_listed,
    force_takes_what_others_own,
    what_a_manager_wants_no_more_is_removed,
    what_somebody_else_wants_too_stays,
    an_update_takes_fields_from_appliers_and_is_in_their_way,
    an_apply_after_an_update_shares_what_is_the_same,
    an_applied_object_may_insist_on_uid_and_version,
    managed_fields_cannot_be_applied,
    a_dry_run_of_an_apply_changes_nothing,
    items_of_lists_belong_to_those_who_applied_them,
    items_with_two_keys_are_told_apart_by_both,
    sets_merge_and_keep_the_order_of_who_applied_last,
    atomic_lists_belong_to_one_manager,
    the_status_is_applied_on_its_own,
    a_manager_has_an_entry_for_each_subresource,
    what_was_not_tracked_belongs_to_before_first_apply,
    managed_fields_can_be_sent_reset_and_spoilt,
    an_untracked_object_stays_untracked_by_updates,
];

/// Applies `object` to the config map `name` as `manager`.
async fn apply(client: &Client, name: &str, manager: &str, data: Value) -> Answer {
    apply_with(client, name, &format!("fieldManager={manager}"), data).await
}

async fn apply_with(client: &Client, name: &str, query: &str, data: Value) -> Answer {
    let object =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
    patch(client, format!("{CONFIG_MAPS}/{name}?{query}"), APPLY, object).await
}

/// Manager, operation and fields of each entry.
fn owners(object: &Value) -> Value {
    object["metadata"]["managedFields"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|entry| json!([entry["manager"], entry["operation"], entry["fieldsV1"]]))
        .collect()
}

fn in_data(fields: &[&str]) -> Value {
    let fields: serde_json::Map<String, Value> = fields
        .iter()
        .map(|field| (format!("f:{field}"), json!({})))
        .collect();
    json!({ "f:data": fields })
}

async fn an_apply_creates_what_is_not_there(client: Client) {
    let created = apply(&client, "new", "m1", json!({ "a": "b" })).await;
    assert_eq!(created.code, 201, "{created:?}");
    assert_eq!(created.body["data"], json!({ "a": "b" }));
    let metadata = &created.body["metadata"];
    assert_eq!(
        metadata["managedFields"],
        json!([{
            "manager": "m1",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": metadata["managedFields"][0]["time"],
            "fieldsType": "FieldsV1",
            "fieldsV1": { "f:data": { "f:a": {} } },
        }])
    );
    assert_eq!(apply(&client, "new", "m1", json!({ "a": "c" })).await.code, 200);
}

async fn an_applied_object_must_name_itself_and_its_type(client: Client) {
    let refusal = async |object: Value| {
        let uri = format!("{CONFIG_MAPS}/named?fieldManager=m");
        let refused = patch(&client, uri, APPLY, object).await;
        refused.is(400, "BadRequest");
        refused.body["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        refusal(json!({ "data": {} })).await,
        "invalid object type: /, Kind="
    );
    assert_eq!(
        refusal(json!({ "apiVersion": "v2", "kind": "ConfigMap" })).await,
        "invalid object type: /v2, Kind=ConfigMap"
    );
    assert_eq!(
        refusal(json!({ "apiVersion": "apps/v1", "kind": "Deployment" })).await,
        "invalid object type: apps/v1, Kind=Deployment"
    );
    let config = |metadata: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
    assert_eq!(
        refusal(config(json!({}))).await,
        "the name of the object (named based on URL) was undeterminable: name must be provided"
    );
    assert_eq!(
        refusal(config(json!({ "name": "other" }))).await,
        "the name of the object (other) does not match the name on the URL (named)"
    );
    assert_eq!(
        refusal(config(json!({ "name": "named", "namespace": "other" }))).await,
        "the namespace of the provided object does not match the namespace sent on the request"
    );
}

async fn what_the_schema_does_not_know_cannot_be_applied(client: Client) {
    let uri = format!("{CONFIG_MAPS}/typed?fieldManager=m");
    let unknown =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "typed" }, "dat": {} });
    let unknown = patch(&client, uri, APPLY, unknown).await;
    assert_eq!(
        unknown.body,
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "failed to create typed patch object (/typed; /v1, Kind=ConfigMap): .dat: field not declared \
                        in schema",
            "code": 500,
        })
    );
    let uri = format!("{NODES}/typed?fieldManager=m");
    let twice = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": "typed", "finalizers": ["x/c", "x/c"] },
    });
    let twice = patch(&client, &uri, APPLY, twice).await;
    twice.says(
        500,
        "failed to create typed patch object (/typed; /v1, Kind=Node): .metadata.finalizers: duplicate \
                 entries for key [=\"x/c\"]",
    );
    let wrong = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": "typed" },
        "spec": { "unschedulable": "yes" },
    });
    let wrong = patch(&client, &uri, APPLY, wrong).await;
    assert!(
        wrong.code == 500
            && wrong.body["message"].as_str().unwrap().starts_with(
                "failed to create typed patch object (/typed; /v1, Kind=Node): .spec.unschedulable: expected \
                 boolean, got "
            ),
        "{wrong:?}"
    );
}

async fn the_same_apply_again_is_no_write(client: Client) {
    let first = apply(&client, "again", "m1", json!({ "a": "b" })).await.body;
    let again = apply(&client, "again", "m1", json!({ "a": "b" })).await;
    assert_eq!((again.code, again.body), (200, first));
}

async fn several_managers_may_want_the_same(client: Client) {
    let first = apply(&client, "same", "m1", json!({ "a": "b" })).await.body;
    let second = apply(&client, "same", "m2", json!({ "a": "b" })).await.body;
    assert!(version(&second) > version(&first));
    // Who changed nothing has no time.
    let entry = |manager: &str| {
        let mut entry = json!({
            "manager": manager,
            "operation": "Apply",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": { "f:data": { "f:a": {} } },
        });
        if manager == "m1" {
            entry["time"] = first["metadata"]["managedFields"][0]["time"].clone();
        }
        entry
    };
    assert_eq!(
        second["metadata"]["managedFields"],
        json!([entry("m2"), entry("m1")])
    );
}

async fn what_another_manager_owns_is_a_conflict(client: Client) {
    let first = apply(&client, "mine", "m1", json!({ "a": "b" })).await.body;
    let refused = apply(&client, "mine", "m2", json!({ "a": "c" })).await;
    assert_eq!(
        refused.body,
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Apply failed with 1 conflict: conflict with \"m1\": .data.a",
            "reason": "Conflict",
            "details": { "causes": [{
                "reason": "FieldManagerConflict",
                "message": "conflict with \"m1\"",
                "field": ".data.a",
            }] },
            "code": 409,
        })
    );
    assert_eq!(get(&client, format!("{CONFIG_MAPS}/mine")).await.body, first);
}

async fn several_conflicts_are_listed(client: Client) {
    apply(&client, "both", "m1", json!({ "a": "1", "b": "1", "c": "1" })).await;
    let refused = apply(&client, "both", "m2", json!({ "a": "2", "b": "2", "c": "1" })).await;
    refused.says(
        409,
        "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.a\n- .data.b",
    );
    let fields: Vec<&Value> = refused.body["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| &cause["field"])
        .collect();
    assert_eq!(fields, [".data.a", ".data.b"]);
}

async fn force_takes_what_others_own(client: Client) {
    apply(&client, "force", "m1", json!({ "a": "1", "b": "1" })).await;
    let taken = apply_with(
        &client,
        "force",
        "fieldManager=m2&force=true",
        json!({ "a": "2" }),
    )
    .await;
    assert_eq!(
        (taken.code, &taken.body["data"]),
        (200, &json!({ "a": "2", "b": "1" }))
    );
    let mut entries: Vec<Value> = owners(&taken.body).as_array().unwrap().clone();
    entries.sort_by_key(|entry| entry[0].to_string());
    assert_eq!(
        entries,
        [
            json!(["m1", "Apply", in_data(&["b"])]),
            json!(["m2", "Apply", in_data(&["a"])])
        ]
    );
}

async fn what_a_manager_wants_no_more_is_removed(client: Client) {
    apply(&client, "less", "m1", json!({ "a": "1", "b": "1" })).await;
    let less = apply(&client, "less", "m1", json!({ "b": "1" })).await.body;
    assert_eq!(less["data"], json!({ "b": "1" }));
    assert_eq!(owners(&less), json!([["m1", "Apply", in_data(&["b"])]]));
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "less" } });
    let nothing = patch(
        &client,
        format!("{CONFIG_MAPS}/less?fieldManager=m1"),
        APPLY,
        object,
    )
    .await
    .body;
    assert_eq!(nothing.get("data"), None);
    assert_eq!(nothing["metadata"].get("managedFields"), None);
}

async fn what_somebody_else_wants_too_stays(client: Client) {
    apply(&client, "shared", "m1", json!({ "a": "1", "b": "1" })).await;
    apply(&client, "shared", "m2", json!({ "a": "1", "c": "1" })).await;
    let less = apply(&client, "shared", "m1", json!({ "b": "1" })).await.body;
    assert_eq!(less["data"], json!({ "a": "1", "b": "1", "c": "1" }));
    let gone = apply(&client, "shared", "m2", json!({ "c": "1" })).await.body;
    assert_eq!(gone["data"], json!({ "b": "1", "c": "1" }));
}

async fn an_update_takes_fields_from_appliers_and_is_in_their_way(client: Client) {
    apply(&client, "updated", "m1", json!({ "a": "1", "b": "1" })).await;
    let uri = format!("{CONFIG_MAPS}/updated?fieldManager=u");
    let updated = patch(&client, uri, MERGE, json!({ "data": { "a": "2" } }))
        .await
        .body;
    assert_eq!(
        owners(&updated),
        json!([["m1", "Apply", in_data(&["b"])], ["u", "Update", in_data(&["a"])]])
    );
    let refused = apply(&client, "updated", "m1", json!({ "a": "1", "b": "1" })).await;
    refused.says(
        409,
        "Apply failed with 1 conflict: conflict with \"u\" using v1: .data.a",
    );
    let query = "fieldManager=m1&force=true";
    let taken = apply_with(&client, "updated", query, json!({ "a": "1", "b": "1" }))
        .await
        .body;
    assert_eq!(owners(&taken), json!([["m1", "Apply", in_data(&["a", "b"])]]));
}

async fn an_apply_after_an_update_shares_what_is_the_same(client: Client) {
    let object = json!({ "metadata": { "name": "after" }, "data": { "a": "1", "b": "1" } });
    create(&client, CONFIG_MAPS, object).await;
    let applied = apply(&client, "after", "m1", json!({ "a": "1" })).await.body;
    assert_eq!(
        owners(&applied),
        json!([
            ["m1", "Apply", in_data(&["a"])],
            ["scenario", "Update", { "f:data": { ".": {}, "f:a": {}, "f:b": {} } }],
        ])
    );
    // The creator still wants it.
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "after" } });
    let uri = format!("{CONFIG_MAPS}/after?fieldManager=m1");
    let less = patch(&client, uri, APPLY, object).await.body;
    assert_eq!(less["data"], json!({ "a": "1", "b": "1" }));
}

async fn an_applied_object_may_insist_on_uid_and_version(client: Client) {
    let uri = |name: &str| format!("{CONFIG_MAPS}/{name}?fieldManager=m1");
    let object = |name: &str, field: &str, value: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": name, field: value },
            "data": { "a": "b" },
        })
    };
    let nobody = patch(&client, uri("ghost"), APPLY, object("ghost", "uid", "u1")).await;
    nobody.says(
        409,
        "Operation cannot be fulfilled on configmaps \"ghost\": uid mismatch: the provided object specified \
                 uid u1, and no existing object was found",
    );
    let created = patch(
        &client,
        uri("insist"),
        APPLY,
        object("insist", "resourceVersion", "1"),
    )
    .await;
    assert_eq!(created.code, 201);
    let stale = patch(
        &client,
        uri("insist"),
        APPLY,
        object("insist", "resourceVersion", "1"),
    )
    .await;
    stale.is(409, "Conflict");
    let other = patch(&client, uri("insist"), APPLY, object("insist", "uid", "u1")).await;
    assert_eq!(
        (other.code, &other.body["details"]["causes"][0]),
        (
            422,
            &json!({
                "reason": "FieldValueInvalid",
                "message": "Invalid value: \"u1\": field is immutable",
                "field": "metadata.uid",
            })
        )
    );
}

async fn managed_fields_cannot_be_applied(client: Client) {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "fields", "managedFields": [] },
    });
    let uri = format!("{CONFIG_MAPS}/fields?fieldManager=m1");
    let refused = patch(&client, uri, APPLY, object).await;
    refused.says(400, "metadata.managedFields must be nil");
}

async fn a_dry_run_of_an_apply_changes_nothing(client: Client) {
    let dry = "fieldManager=m1&dryRun=All";
    let created = apply_with(&client, "dry", dry, json!({ "a": "1" })).await;
    assert_eq!((created.code, &created.body["data"]), (201, &json!({ "a": "1" })));
    assert_eq!(get(&client, format!("{CONFIG_MAPS}/dry")).await.code, 404);
    let first = apply(&client, "dry", "m1", json!({ "a": "1" })).await.body;
    let changed = apply_with(&client, "dry", dry, json!({ "b": "1" })).await.body;
    assert_eq!(changed["data"], json!({ "b": "1" }));
    assert_eq!(get(&client, format!("{CONFIG_MAPS}/dry")).await.body, first);
}

/// Applies to a deployment of the containers given.
async fn apply_containers(client: &Client, manager: &str, containers: Value) -> Answer {
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "lists" },
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": containers } },
        },
    });
    let uri = format!("{DEPLOYMENTS}/lists?fieldManager={manager}");
    patch(client, uri, APPLY, object).await
}

fn container_names(answer: &Answer) -> Vec<&str> {
    answer.body["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect()
}

async fn items_of_lists_belong_to_those_who_applied_them(client: Client) {
    let first = apply_containers(
        &client,
        "m1",
        json!([{ "name": "a", "image": "a" }, { "name": "b", "image": "b" }]),
    )
    .await;
    assert_eq!(first.code, 201, "{first:?}");
    assert_eq!(
        owners(&first.body)[0][2]["f:spec"],
        json!({
            "f:selector": {},
            "f:template": {
                "f:metadata": { "f:labels": { "f:a": {} } },
                "f:spec": { "f:containers": {
                    "k:{\"name\":\"a\"}": { ".": {}, "f:image": {}, "f:name": {} },
                    "k:{\"name\":\"b\"}": { ".": {}, "f:image": {}, "f:name": {} },
                } },
            },
        })
    );
    let second = apply_containers(&client, "m2", json!([{ "name": "c", "image": "c" }])).await;
    assert_eq!(container_names(&second), ["a", "b", "c"]);
    let less = apply_containers(&client, "m1", json!([{ "name": "b", "image": "b" }])).await;
    assert_eq!(container_names(&less), ["b", "c"]);
    let conflict = apply_containers(&client, "m2", json!([{ "name": "b", "image": "z" }])).await;
    assert_eq!(
        conflict.body["message"],
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.template.spec.containers[name=\"b\"].image"
    );
}

async fn items_with_two_keys_are_told_apart_by_both(client: Client) {
    let ports = json!([{ "name": "a", "image": "a", "ports": [
        { "containerPort": 53, "protocol": "UDP" },
        { "containerPort": 53 },
    ] }]);
    let applied = apply_containers(&client, "m1", ports).await;
    assert_eq!(applied.code, 201, "{applied:?}");
    let container =
        &owners(&applied.body)[0][2]["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"a\"}"];
    assert_eq!(
        container["f:ports"],
        json!({
            "k:{\"containerPort\":53,\"protocol\":\"TCP\"}": { ".": {}, "f:containerPort": {} },
            "k:{\"containerPort\":53,\"protocol\":\"UDP\"}": { ".": {}, "f:containerPort": {}, "f:protocol": {} },
        })
    );
    let other = json!([{ "name": "a", "image": "a", "ports": [
        { "containerPort": 53, "protocol": "UDP", "name": "dns" },
    ] }]);
    let other = apply_containers(&client, "m2", other).await;
    assert_eq!(
        other.body["spec"]["template"]["spec"]["containers"][0]["ports"],
        json!([
            { "containerPort": 53, "protocol": "UDP", "name": "dns" },
            { "containerPort": 53, "protocol": "TCP" },
        ])
    );
}

/// Applies finalizers to the config map `sets`.
async fn apply_finalizers(client: &Client, manager: &str, finalizers: &[&str]) -> Value {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "sets", "finalizers": finalizers },
    });
    let uri = format!("{CONFIG_MAPS}/sets?fieldManager={manager}");
    let applied = patch(client, uri, APPLY, object).await;
    assert!(applied.code == 200 || applied.code == 201, "{applied:?}");
    applied.body["metadata"]["finalizers"].clone()
}

async fn sets_merge_and_keep_the_order_of_who_applied_last(client: Client) {
    assert_eq!(
        apply_finalizers(&client, "m1", &["x/a", "x/b"]).await,
        json!(["x/a", "x/b"])
    );
    assert_eq!(
        apply_finalizers(&client, "m2", &["x/c", "x/b"]).await,
        json!(["x/a", "x/c", "x/b"])
    );
    assert_eq!(
        apply_finalizers(&client, "m1", &["x/b", "x/d"]).await,
        json!(["x/c", "x/b", "x/d"])
    );
    let last = apply_finalizers(&client, "m2", &["x/d", "x/c"]).await;
    assert_eq!(last, json!(["x/b", "x/d", "x/c"]));
    let freed = json!({ "metadata": { "finalizers": null } });
    assert_eq!(
        patch(&client, format!("{CONFIG_MAPS}/sets"), MERGE, freed)
            .await
            .code,
        200
    );
}

async fn atomic_lists_belong_to_one_manager(client: Client) {
    let tolerating =
        |key: &str| json!([{ "name": "a", "image": "a" }, { "name": "t", "image": "t", "args": [key] }]);
    apply_containers(&client, "m1", tolerating("x")).await;
    let conflict = apply_containers(&client, "m2", tolerating("y")).await;
    assert_eq!(
        conflict.body["message"],
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.template.spec.containers[name=\"t\"].args"
    );
}

async fn the_status_is_applied_on_its_own(client: Client) {
    create(&client, NODES, json!({ "metadata": { "name": "status" } })).await;
    let uri = |manager: &str| format!("{NODES}/status/status?fieldManager={manager}");
    let object = |conditions: Value| {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": "status" },
            "spec": { "unschedulable": true },
            "status": { "conditions": conditions },
        })
    };
    let both = json!([{ "type": "A", "status": "True" }, { "type": "B", "status": "True" }]);
    let applied = patch(&client, uri("m1"), APPLY, object(both)).await;
    assert_eq!(applied.code, 200, "{applied:?}");
    assert_eq!(applied.body["spec"].get("unschedulable"), None);
    let entry = &applied.body["metadata"]["managedFields"][0];
    assert_eq!(
        (&entry["subresource"], &entry["fieldsV1"]),
        (
            &json!("status"),
            &json!({ "f:status": { "f:conditions": {
                "k:{\"type\":\"A\"}": { ".": {}, "f:status": {}, "f:type": {} },
                "k:{\"type\":\"B\"}": { ".": {}, "f:status": {}, "f:type": {} },
            } } })
        )
    );
    let reason = json!([{ "type": "B", "status": "True", "reason": "R" }]);
    assert_eq!(patch(&client, uri("m2"), APPLY, object(reason)).await.code, 200);
    let none = patch(&client, uri("m1"), APPLY, object(json!([]))).await.body;
    let kinds: Vec<&Value> = none["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| &condition["type"])
        .collect();
    assert_eq!(kinds, ["B"]);
    let missing = format!("{NODES}/none/status?fieldManager=m1");
    let missing = patch(&client, missing, APPLY, object(json!([]))).await;
    assert_eq!(missing.code, 404);
}

async fn a_manager_has_an_entry_for_each_subresource(client: Client) {
    let object = |labels: Value, status: Value| {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": "twice", "labels": labels },
            "status": status,
        })
    };
    let main = object(json!({ "a": "1" }), json!({}));
    let uri = format!("{NODES}/twice?fieldManager=m1");
    assert_eq!(patch(&client, &uri, APPLY, main).await.code, 201);
    let status = object(json!({}), json!({ "phase": "Running" }));
    let uri = format!("{NODES}/twice/status?fieldManager=m1");
    let both = patch(&client, &uri, APPLY, status).await.body;
    assert_eq!(both["metadata"]["labels"], json!({ "a": "1" }));
    let subresources: Vec<Option<&str>> = both["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry.get("subresource").and_then(Value::as_str))
        .collect();
    assert_eq!(subresources, [None, Some("status")]);
}

async fn what_was_not_tracked_belongs_to_before_first_apply(client: Client) {
    let object = json!({ "metadata": { "name": "untracked" }, "data": { "k": "v" } });
    create(&client, CONFIG_MAPS, object).await;
    let reset = json!({ "metadata": { "managedFields": [{}] } });
    let reset = patch(&client, format!("{CONFIG_MAPS}/untracked"), MERGE, reset)
        .await
        .body;
    assert_eq!(reset["metadata"].get("managedFields"), None);
    let applied = apply(&client, "untracked", "m1", json!({ "a": "b" })).await.body;
    assert_eq!(
        owners(&applied),
        json!([
            ["m1", "Apply", in_data(&["a"])],
            ["before-first-apply", "Update", { "f:data": { ".": {}, "f:k": {} } }],
        ])
    );
    let refused = apply(&client, "untracked", "m1", json!({ "k": "w" })).await;
    assert_eq!(
        refused.body["message"],
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.k"
    );
}

async fn managed_fields_can_be_sent_reset_and_spoilt(client: Client) {
    let object = json!({ "metadata": { "name": "sent" }, "data": { "k": "v" } });
    create(&client, CONFIG_MAPS, object).await;
    let uri = format!("{CONFIG_MAPS}/sent?fieldManager=p");
    let send = async |entries: Value, value: &str| {
        let object =
            json!({ "metadata": { "name": "sent", "managedFields": entries }, "data": { "k": value } });
        owners(&put(&client, &uri, object).await.body)
    };
    let invented = json!([{
        "manager": "invented",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2020-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": { "f:data": { "f:zz": {} } },
    }]);
    assert_eq!(
        send(invented, "v2").await,
        json!([
            ["invented", "Update", in_data(&["zz"])],
            ["p", "Update", in_data(&["k"])],
        ])
    );
    let kept = send(json!([{ "manager": "x", "operation": "Huh" }]), "v3").await;
    assert_eq!(
        kept,
        json!([
            ["invented", "Update", in_data(&["zz"])],
            ["p", "Update", in_data(&["k"])],
        ])
    );
    assert_eq!(send(json!([{}]), "v4").await, json!([]));
}

async fn an_untracked_object_stays_untracked_by_updates(client: Client) {
    let bare = create(&client, CONFIG_MAPS, json!({ "metadata": { "name": "bare" } })).await;
    assert_eq!(owners(&bare), json!([]));
    let uri = format!("{CONFIG_MAPS}/bare");
    let changed = patch(&client, &uri, MERGE, json!({ "data": { "k": "v" } }))
        .await
        .body;
    assert_eq!(
        (owners(&changed), &changed["data"]),
        (json!([]), &json!({ "k": "v" }))
    );
}
