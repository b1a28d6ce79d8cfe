//! Server-side apply to lists, sets and subresources, and the resulting managed fields.

use kube::Client;
use serde_json::{Value, json};

use crate::apply::*;
use crate::http::*;
use crate::objects::workload;

crate::scenarios![
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

/// Applies these containers of a deployment.
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
    let message = format!("Apply failed with 1 conflict: conflict with \"m1\": {field}");
    conflict.says(409, &message);
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

/// Applies the finalizers of the config map `sets`.
async fn apply_finalizers(client: &Client, manager: &str, finalizers: &[&str]) -> Value {
    let object = config(
        "sets",
        &json!({ "metadata": { "name": "sets", "finalizers": finalizers } }),
    );
    let uri = format!("{CONFIG_MAPS}/sets?fieldManager={manager}");
    let applied = patch(client, uri, APPLY, object).await;
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
    let message = format!("Apply failed with 1 conflict: conflict with \"m1\": {field}");
    conflict.says(409, &message);
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
    let message = format!("Apply failed with 1 conflict: conflict with {who}: .data.k");
    refused.says(409, &message);
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
