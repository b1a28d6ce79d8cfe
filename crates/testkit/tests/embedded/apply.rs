//! Server-side apply.

use kube::Client;
use serde_json::{Map, Value, json};

use crate::http::*;
use crate::objects::workload;

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

fn config(name: &str, more: &Value) -> Value {
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

fn in_data(fields: &[&str]) -> Value {
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
        let refused = patch(
            &client,
            format!("{CONFIG_MAPS}/named?fieldManager=m"),
            APPLY,
            object,
        )
        .await;
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
    refused.says(
        409,
        "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.a\n- .data.b",
    );
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

/// Applies to a deployment of the containers given.
async fn apply_containers(client: &Client, manager: &str, containers: Value) -> Answer {
    let mut object = workload("lists", &json!({ "spec": { "containers": containers } }));
    object["apiVersion"] = json!("apps/v1");
    object["kind"] = json!("Deployment");
    patch(
        client,
        format!("{DEPLOYMENTS}/lists?fieldManager={manager}"),
        APPLY,
        object,
    )
    .await
}

fn container_names(answer: &Answer) -> Vec<&Value> {
    each(&answer.body["spec"]["template"]["spec"]["containers"], "name")
}

async fn items_of_lists_belong_to_those_who_applied_them(client: Client) {
    let container = |name: &str, image: &str| json!({ "name": name, "image": image });
    let first = apply_containers(&client, "m1", json!([container("a", "a"), container("b", "b")])).await;
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
    let second = apply_containers(&client, "m2", json!([container("c", "c")])).await;
    assert_eq!(container_names(&second), ["a", "b", "c"]);
    let less = apply_containers(&client, "m1", json!([container("b", "b")])).await;
    assert_eq!(container_names(&less), ["b", "c"]);
    let conflict = apply_containers(&client, "m2", json!([container("b", "z")])).await;
    let field = ".spec.template.spec.containers[name=\"b\"].image";
    conflict.says(
        409,
        &format!("Apply failed with 1 conflict: conflict with \"m1\": {field}"),
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
    container.shows(json!({
        "f:ports": {
            "k:{\"containerPort\":53,\"protocol\":\"TCP\"}": { ".": {}, "f:containerPort": {} },
            "k:{\"containerPort\":53,\"protocol\":\"UDP\"}": { ".": {}, "f:containerPort": {}, "f:protocol": {} },
        },
    }));
    let other = json!([{ "name": "a", "image": "a", "ports": [
        { "containerPort": 53, "protocol": "UDP", "name": "dns" },
    ] }]);
    let other = apply_containers(&client, "m2", other).await;
    other.shows(json!({
        "spec.template.spec.containers.0.ports": [
            { "containerPort": 53, "protocol": "UDP", "name": "dns" },
            { "containerPort": 53, "protocol": "TCP" },
        ],
    }));
}

/// Applies finalizers to the config map `sets`.
async fn apply_finalizers(client: &Client, manager: &str, finalizers: &[&str]) -> Value {
    let object = config(
        "sets",
        &json!({ "metadata": { "name": "sets", "finalizers": finalizers } }),
    );
    let applied = patch(
        client,
        format!("{CONFIG_MAPS}/sets?fieldManager={manager}"),
        APPLY,
        object,
    )
    .await;
    assert!(matches!(applied.code, 200 | 201), "{applied:?}");
    applied.body["metadata"]["finalizers"].clone()
}

async fn sets_merge_and_keep_the_order_of_who_applied_last(client: Client) {
    for (manager, applied, all) in [
        ("m1", ["x/a", "x/b"], &["x/a", "x/b"][..]),
        ("m2", ["x/c", "x/b"], &["x/a", "x/c", "x/b"]),
        ("m1", ["x/b", "x/d"], &["x/c", "x/b", "x/d"]),
        ("m2", ["x/d", "x/c"], &["x/b", "x/d", "x/c"]),
    ] {
        assert_eq!(apply_finalizers(&client, manager, &applied).await, json!(all));
    }
    release(&client, format!("{CONFIG_MAPS}/sets")).await;
}

async fn atomic_lists_belong_to_one_manager(client: Client) {
    let tolerating =
        |key: &str| json!([{ "name": "a", "image": "a" }, { "name": "t", "image": "t", "args": [key] }]);
    apply_containers(&client, "m1", tolerating("x")).await;
    let conflict = apply_containers(&client, "m2", tolerating("y")).await;
    let field = ".spec.template.spec.containers[name=\"t\"].args";
    conflict.says(
        409,
        &format!("Apply failed with 1 conflict: conflict with \"m1\": {field}"),
    );
}

async fn the_status_is_applied_on_its_own(client: Client) {
    create(&client, NODES, named("status")).await;
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
    applied.shows(json!({ "code": 200, "spec.unschedulable": null }));
    let entry = &applied.body["metadata"]["managedFields"][0];
    entry.shows(json!({
        "subresource": "status",
        "fieldsV1": { "f:status": { "f:conditions": {
            "k:{\"type\":\"A\"}": { ".": {}, "f:status": {}, "f:type": {} },
            "k:{\"type\":\"B\"}": { ".": {}, "f:status": {}, "f:type": {} },
        } } },
    }));
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
    let subresources = each(&both["metadata"]["managedFields"], "subresource");
    assert_eq!(subresources, [&Value::Null, &json!("status")]);
}

async fn what_was_not_tracked_belongs_to_before_first_apply(client: Client) {
    let object = json!({ "metadata": { "name": "untracked" }, "data": { "k": "v" } });
    create(&client, CONFIG_MAPS, object).await;
    let reset = json!({ "metadata": { "managedFields": [{}] } });
    let reset = merge(&client, format!("{CONFIG_MAPS}/untracked"), reset).await;
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
    let who = "\"before-first-apply\" using v1";
    refused.says(
        409,
        &format!("Apply failed with 1 conflict: conflict with {who}: .data.k"),
    );
}

async fn managed_fields_can_be_sent_reset_and_spoilt(client: Client) {
    let object = json!({ "metadata": { "name": "sent" }, "data": { "k": "v" } });
    create(&client, CONFIG_MAPS, object).await;
    let send = async |entries: Value, value: &str| {
        let object =
            json!({ "metadata": { "name": "sent", "managedFields": entries }, "data": { "k": value } });
        owners(&update(&client, format!("{CONFIG_MAPS}/sent?fieldManager=p"), object).await)
    };
    let invented = json!([{
        "manager": "invented",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2020-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": { "f:data": { "f:zz": {} } },
    }]);
    let both = json!([
        ["invented", "Update", in_data(&["zz"])],
        ["p", "Update", in_data(&["k"])]
    ]);
    assert_eq!(send(invented, "v2").await, both);
    assert_eq!(
        send(json!([{ "manager": "x", "operation": "Huh" }]), "v3").await,
        both
    );
    assert_eq!(send(json!([{}]), "v4").await, json!([]));
}

async fn an_untracked_object_stays_untracked_by_updates(client: Client) {
    let bare = create(&client, CONFIG_MAPS, named("bare")).await;
    assert_eq!(owners(&bare), json!([]));
    let uri = format!("{CONFIG_MAPS}/bare");
    let changed = merge(&client, &uri, json!({ "data": { "k": "v" } })).await;
    assert_eq!(
        (owners(&changed), &changed["data"]),
        (json!([]), &json!({ "k": "v" }))
    );
}
