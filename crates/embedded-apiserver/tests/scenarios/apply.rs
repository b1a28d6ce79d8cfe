//! Server-side apply.

use kube::Client;
use serde_json::{Map, Value, json};

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
];

/// Applies the data of the config map `name` as `manager`.
pub(crate) async fn apply(client: &Client, name: &str, manager: &str, data: Value) -> Answer {
    apply_with(client, name, &format!("fieldManager={manager}"), data).await
}

pub(crate) fn config(name: &str, more: &Value) -> Value {
    let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    object
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().cloned().unwrap_or_default());
    object
}

async fn apply_with(client: &Client, name: &str, query: &str, data: Value) -> Answer {
    let object = config(name, &json!({ "data": data }));
    patch(client, format!("{CONFIG_MAPS}/{name}?{query}"), APPLY, object).await
}

pub(crate) fn in_data(fields: &[&str]) -> Value {
    let fields = fields.iter().map(|field| (format!("f:{field}"), json!({})));
    json!({ "f:data": fields.collect::<Map<_, _>>() })
}

async fn an_apply_creates_what_is_not_there(client: Client) {
    let created = apply(&client, "new", "m1", json!({ "a": "b" })).await;
    created.shows(json!({ "code": 201, "data": { "a": "b" } }));
    let metadata = &created.body["metadata"];
    metadata.shows(json!({
        "managedFields": [{
            "manager": "m1",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": metadata["managedFields"][0]["time"],
            "fieldsType": "FieldsV1",
            "fieldsV1": { "f:data": { "f:a": {} } },
        }],
    }));
    assert_eq!(apply(&client, "new", "m1", json!({ "a": "c" })).await.code, 200);
}

async fn an_applied_object_must_name_itself_and_its_type(client: Client) {
    let named = |metadata: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
    for (object, why) in [
        (json!({ "data": {} }), "invalid object type: /, Kind="),
        (
            json!({ "apiVersion": "v2", "kind": "ConfigMap" }),
            "invalid object type: /v2, Kind=ConfigMap",
        ),
        (
            json!({ "apiVersion": "apps/v1", "kind": "Deployment" }),
            "invalid object type: apps/v1, Kind=Deployment",
        ),
        (
            named(json!({})),
            "the name of the object (named based on URL) was undeterminable: name must be provided",
        ),
        (
            named(json!({ "name": "other" })),
            "the name of the object (other) does not match the name on the URL (named)",
        ),
        (
            named(json!({ "name": "named", "namespace": "other" })),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let uri = format!("{CONFIG_MAPS}/named?fieldManager=m");
        let refused = patch(&client, uri, APPLY, object).await;
        refused.is(400, "BadRequest");
        refused.says(400, why);
    }
}

async fn what_the_schema_does_not_know_cannot_be_applied(client: Client) {
    const REFUSED: &str = "failed to create typed patch object (/typed; /v1, Kind=";
    let unknown = config("typed", &json!({ "dat": {} }));
    let unknown = patch(
        &client,
        format!("{CONFIG_MAPS}/typed?fieldManager=m"),
        APPLY,
        unknown,
    )
    .await;
    let message = format!("{REFUSED}ConfigMap): .dat: field not declared in schema");
    unknown.refuses(500, "", &message, &Value::Null);
    let uri = format!("{NODES}/typed?fieldManager=m");
    let twice = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": "typed", "finalizers": ["x/c", "x/c"] },
    });
    let twice = patch(&client, &uri, APPLY, twice).await;
    let why = "Node): .metadata.finalizers: duplicate entries for key [=\"x/c\"]";
    twice.says(500, &format!("{REFUSED}{why}"));
    let wrong = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": "typed" },
        "spec": { "unschedulable": "yes" },
    });
    let wrong = patch(&client, &uri, APPLY, wrong).await;
    wrong.begins(
        500,
        &format!("{REFUSED}Node): .spec.unschedulable: expected boolean, got "),
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
    // A manager that changed nothing has no time.
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
    second.shows(json!({ "metadata.managedFields": [entry("m2"), entry("m1")] }));
}

async fn what_another_manager_owns_is_a_conflict(client: Client) {
    let first = apply(&client, "mine", "m1", json!({ "a": "b" })).await.body;
    let refused = apply(&client, "mine", "m2", json!({ "a": "c" })).await;
    let cause = json!({
        "reason": "FieldManagerConflict",
        "message": "conflict with \"m1\"",
        "field": ".data.a",
    });
    let message = "Apply failed with 1 conflict: conflict with \"m1\": .data.a";
    refused.refuses(409, "Conflict", message, &json!({ "causes": [cause] }));
    assert_eq!(read(&client, format!("{CONFIG_MAPS}/mine")).await, first);
}

async fn several_conflicts_are_listed(client: Client) {
    apply(&client, "both", "m1", json!({ "a": "1", "b": "1", "c": "1" })).await;
    let refused = apply(&client, "both", "m2", json!({ "a": "2", "b": "2", "c": "1" })).await;
    let message = "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.a\n- .data.b";
    refused.says(409, message);
    assert_eq!(
        each(&refused.body["details"]["causes"], "field"),
        [".data.a", ".data.b"]
    );
}

async fn force_takes_what_others_own(client: Client) {
    apply(&client, "force", "m1", json!({ "a": "1", "b": "1" })).await;
    let force = "fieldManager=m2&force=true";
    let taken = apply_with(&client, "force", force, json!({ "a": "2" })).await;
    taken.shows(json!({ "code": 200, "data": { "a": "2", "b": "1" } }));
    let of = |manager: &str| fields_of(&taken.body, manager)["fieldsV1"].clone();
    assert_eq!((of("m1"), of("m2")), (in_data(&["b"]), in_data(&["a"])));
    assert_eq!(owners(&taken.body).as_array().unwrap().len(), 2);
}

async fn what_a_manager_wants_no_more_is_removed(client: Client) {
    apply(&client, "less", "m1", json!({ "a": "1", "b": "1" })).await;
    let less = apply(&client, "less", "m1", json!({ "b": "1" })).await.body;
    assert_eq!(less["data"], json!({ "b": "1" }));
    assert_eq!(owners(&less), json!([["m1", "Apply", in_data(&["b"])]]));
    let uri = format!("{CONFIG_MAPS}/less?fieldManager=m1");
    let nothing = patch(&client, uri, APPLY, config("less", &Value::Null)).await;
    nothing.shows(json!({ "data": null, "metadata.managedFields": null }));
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
    let updated = merge(&client, uri, json!({ "data": { "a": "2" } })).await;
    assert_eq!(
        owners(&updated),
        json!([["m1", "Apply", in_data(&["b"])], ["u", "Update", in_data(&["a"])]])
    );
    let refused = apply(&client, "updated", "m1", json!({ "a": "1", "b": "1" })).await;
    let message = "Apply failed with 1 conflict: conflict with \"u\" using v1: .data.a";
    refused.says(409, message);
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
    // The creator still owns the field.
    let uri = format!("{CONFIG_MAPS}/after?fieldManager=m1");
    let less = patch(&client, &uri, APPLY, config("after", &Value::Null)).await;
    less.shows(json!({ "data": { "a": "1", "b": "1" } }));
}

async fn an_applied_object_may_insist_on_uid_and_version(client: Client) {
    let insist = async |name: &str, field: &str, value: &str| {
        let object = config(
            name,
            &json!({ "metadata": { "name": name, field: value }, "data": { "a": "b" } }),
        );
        patch(
            &client,
            format!("{CONFIG_MAPS}/{name}?fieldManager=m1"),
            APPLY,
            object,
        )
        .await
    };
    insist("ghost", "uid", "u1").await.says(
        409,
        "Operation cannot be fulfilled on configmaps \"ghost\": uid mismatch: the provided object specified uid u1, \
         and no existing object was found",
    );
    assert_eq!(insist("insist", "resourceVersion", "1").await.code, 201);
    let stale = insist("insist", "resourceVersion", "1").await;
    stale.is(409, "Conflict");
    let other = insist("insist", "uid", "u1").await;
    other.shows(json!({ "code": 422, "details.causes.0": {
        "reason": "FieldValueInvalid",
        "message": "Invalid value: \"u1\": field is immutable",
        "field": "metadata.uid",
    } }));
}

async fn managed_fields_cannot_be_applied(client: Client) {
    let object = config(
        "fields",
        &json!({ "metadata": { "name": "fields", "managedFields": [] } }),
    );
    let uri = format!("{CONFIG_MAPS}/fields?fieldManager=m1");
    let refused = patch(&client, uri, APPLY, object).await;
    refused.says(400, "metadata.managedFields must be nil");
}

async fn a_dry_run_of_an_apply_changes_nothing(client: Client) {
    let dry = "fieldManager=m1&dryRun=All";
    let created = apply_with(&client, "dry", dry, json!({ "a": "1" })).await;
    assert_eq!((created.code, &created.body["data"]), (201, &json!({ "a": "1" })));
    is_gone(&client, format!("{CONFIG_MAPS}/dry")).await;
    let first = apply(&client, "dry", "m1", json!({ "a": "1" })).await.body;
    let changed = apply_with(&client, "dry", dry, json!({ "b": "1" })).await.body;
    assert_eq!(changed["data"], json!({ "b": "1" }));
    assert_eq!(read(&client, format!("{CONFIG_MAPS}/dry")).await, first);
}
