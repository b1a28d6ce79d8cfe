//! All types of patches.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::{claim, workload};
use crate::rows;

crate::scenarios![
    a_json_patch_does_its_operations_in_order,
    a_json_patch_that_cannot_be_done_is_refused_as_a_whole,
    a_json_patch_is_lenient_about_missing_fields,
    a_json_patch_must_be_a_list_of_operations,
    a_json_patch_can_guard_itself_with_the_resource_version,
    broken_patches_are_refused_in_the_words_of_their_kind,
    containers_merge_by_name_and_their_ports_by_number,
    conditions_merge_by_type_in_the_status_of_a_pod,
    lists_without_a_merge_key_are_replaced,
    finalizers_are_a_set_to_a_strategic_patch,
    an_element_order_sorts_what_a_strategic_patch_merges,
    retained_keys_drop_all_others,
    a_volume_changes_its_kind_with_retained_keys,
    null_removes_a_field_and_what_was_below_it,
    claims_of_a_claim_status_merge_by_uid,
];

fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "containers": [
        { "name": "a", "image": "a:1", "ports": [{ "containerPort": 80, "name": "http" }, { "containerPort": 81 }] },
        { "name": "b", "image": "b:1" },
    ] } })
}

fn config(name: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "a": "b" } }, "data": { "k": "v" } })
}

/// Creates a deployment, applies a strategic merge patch to its pod spec, and returns the result.
async fn change_template(client: &Client, name: &str, pod: &Value, change: Value) -> Value {
    create(client, DEPLOYMENTS, workload(name, pod)).await;
    let change = json!({ "spec": { "template": { "spec": change } } });
    let patched = strategic(client, format!("{DEPLOYMENTS}/{name}"), change).await;
    patched["spec"]["template"]["spec"].clone()
}

async fn a_json_patch_does_its_operations_in_order(client: Client) {
    create(&client, CONFIG_MAPS, config("ops")).await;
    let uri = format!("{CONFIG_MAPS}/ops");
    let operations = json!([
        { "op": "add", "path": "/metadata/labels/a~1b", "value": "x" },
        { "op": "copy", "from": "/data/k", "path": "/data/copied" },
        { "op": "move", "from": "/data/k", "path": "/data/moved" },
        { "op": "test", "path": "/data/moved", "value": "v" },
        { "op": "replace", "path": "/data/copied", "value": "w" },
        { "op": "add", "path": "/metadata/finalizers", "value": ["x/y"] },
        { "op": "add", "path": "/metadata/finalizers/0", "value": "x/x" },
        { "op": "add", "path": "/metadata/finalizers/-", "value": "x/z" },
        { "op": "remove", "path": "/metadata/labels/a" },
    ]);
    let patched = patch(&client, &uri, JSON_PATCH, operations).await;
    patched.shows(json!({
        "code": 200,
        "data": { "copied": "w", "moved": "v" },
        "metadata.labels": { "a/b": "x" },
        "metadata.finalizers": ["x/x", "x/y", "x/z"],
    }));
    let freed = json!([{ "op": "remove", "path": "/metadata/finalizers" }]);
    let freed = patch(&client, &uri, JSON_PATCH, freed).await;
    assert_eq!(freed.code, 200);
}

async fn a_json_patch_that_cannot_be_done_is_refused_as_a_whole(client: Client) {
    let before = create(&client, CONFIG_MAPS, config("whole")).await;
    let uri = format!("{CONFIG_MAPS}/whole");
    for operation in [
        json!({ "op": "test", "path": "/data/k", "value": "x" }),
        json!({ "op": "test", "path": "/nope/q", "value": null }),
        json!({ "op": "remove", "path": "/data/q" }),
        json!({ "op": "replace", "path": "/nope/q", "value": "x" }),
        json!({ "op": "add", "path": "/nope/q", "value": "x" }),
        json!({ "op": "add", "path": "/metadata/finalizers/-", "value": "x/y" }),
        json!({ "op": "move", "from": "/data/none", "path": "/data/z" }),
        json!({ "op": "bogus", "path": "/data/z" }),
        json!({ "path": "/data/z" }),
        json!({ "op": "add" }),
        json!({ "op": "add", "path": "data", "value": "x" }),
    ] {
        let change = json!({ "op": "add", "path": "/data/new", "value": "x" });
        let refused = patch(&client, &uri, JSON_PATCH, json!([change, operation])).await;
        let message = "the server rejected our request due to an error in our request";
        refused.refuses(422, "Invalid", message, &json!({}));
    }
    assert_eq!(read(&client, &uri).await, before);
}

async fn a_json_patch_is_lenient_about_missing_fields(client: Client) {
    create(&client, CONFIG_MAPS, config("lenient")).await;
    let operations = json!([
        { "op": "test", "path": "/data/q", "value": null },
        { "op": "replace", "path": "/data/q", "value": "x" },
        { "op": "copy", "from": "/data/none", "path": "/data/z" },
    ]);
    let patched = patch(&client, format!("{CONFIG_MAPS}/lenient"), JSON_PATCH, operations).await;
    patched.shows(json!({ "code": 200, "data": { "k": "v", "q": "x", "z": "" } }));
}

async fn a_json_patch_must_be_a_list_of_operations(client: Client) {
    create(&client, CONFIG_MAPS, config("list")).await;
    let uri = format!("{CONFIG_MAPS}/list");
    let object = patch(&client, uri, JSON_PATCH, json!({ "op": "add" })).await;
    object.is(400, "BadRequest");
    let why = "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
    object.says(400, &format!("error decoding patch: {why}"));
}

async fn a_json_patch_can_guard_itself_with_the_resource_version(client: Client) {
    let object = create(&client, CONFIG_MAPS, config("guard")).await;
    let uri = format!("{CONFIG_MAPS}/guard");
    let with_version = |version: u64| {
        json!([
            { "op": "replace", "path": "/metadata/resourceVersion", "value": version.to_string() },
            { "op": "add", "path": "/data/x", "value": "y" },
        ])
    };
    let stale = patch(&client, &uri, JSON_PATCH, with_version(1)).await;
    stale.is(409, "Conflict");
    let right = patch(&client, &uri, JSON_PATCH, with_version(version(&object))).await;
    assert_eq!(right.code, 200);
}

async fn broken_patches_are_refused_in_the_words_of_their_kind(client: Client) {
    create(&client, CONFIG_MAPS, config("broken")).await;
    let no_map = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    for (content_type, before) in [(MERGE, "error decoding patch: "), (STRATEGIC, "")] {
        let uri = format!("{CONFIG_MAPS}/broken");
        let refused = patch_text(&client, &uri, content_type, "[]").await;
        refused.is(400, "BadRequest");
        refused.says(400, &format!("{before}{no_map}"));
    }
}

async fn containers_merge_by_name_and_their_ports_by_number(client: Client) {
    let change = json!({ "containers": [
        { "name": "b", "image": "b:2" },
        { "name": "a", "ports": [{ "containerPort": 80, "name": "web" }, { "containerPort": 82 }] },
    ] });
    let spec = change_template(&client, "ports", &pod("p"), change).await;
    spec.shows(json!({
        "containers.0.name": "b",
        "containers.0.image": "b:2",
        "containers.1.name": "a",
        "containers.1.image": "a:1",
        "containers.1.ports": [
            { "containerPort": 80, "name": "web", "protocol": "TCP" },
            { "containerPort": 82, "protocol": "TCP" },
            { "containerPort": 81, "protocol": "TCP" },
        ],
    }));
}

async fn conditions_merge_by_type_in_the_status_of_a_pod(client: Client) {
    create(&client, PODS, pod("cond")).await;
    for (kind, status) in [
        ("Ready", "False"),
        ("DisruptionTarget", "True"),
        ("Ready", "True"),
    ] {
        let condition = json!({ "type": kind, "status": status });
        let body = json!({ "status": { "conditions": [condition] } });
        strategic(&client, format!("{PODS}/cond/status"), body).await;
    }
    let status = &read(&client, format!("{PODS}/cond")).await["status"];
    assert_eq!(each(&status["conditions"], "type"), ["DisruptionTarget", "Ready"]);
    assert_eq!(each(&status["conditions"], "status"), ["True", "True"]);
    assert_eq!(status["phase"], "Pending");
}

async fn lists_without_a_merge_key_are_replaced(client: Client) {
    let tolerations = |key: &str| json!([{ "key": key, "operator": "Exists" }]);
    let mut object = pod("args");
    object["spec"]["containers"][1]["args"] = json!(["a", "b"]);
    object["spec"]["tolerations"] = tolerations("a");
    let change = json!({ "containers": [{ "name": "b", "args": ["c"] }], "tolerations": tolerations("z") });
    let spec = change_template(&client, "args", &object, change).await;
    spec.shows(json!({
        "containers.1.name": "b",
        "containers.1.args": ["c"],
        "tolerations": tolerations("z"),
    }));
}

async fn finalizers_are_a_set_to_a_strategic_patch(client: Client) {
    let object = json!({ "metadata": { "name": "set", "finalizers": ["x/a", "x/b"] } });
    create(&client, CONFIG_MAPS, object).await;
    for (metadata, after) in rows! {
        json!({ "finalizers": ["x/b", "x/c"] }) => json!(["x/a", "x/b", "x/c"]);
        json!({ "$deleteFromPrimitiveList/finalizers": ["x/a", "x/c"] }) => json!(["x/b"]);
        json!({ "finalizers": null }) => Value::Null;
    } {
        let body = json!({ "metadata": metadata });
        let patched = strategic(&client, format!("{CONFIG_MAPS}/set"), body).await;
        assert_eq!(patched["metadata"]["finalizers"], after);
    }
}

async fn an_element_order_sorts_what_a_strategic_patch_merges(client: Client) {
    let object = json!({ "metadata": { "name": "order", "finalizers": ["x/a", "x/b", "x/c"] } });
    create(&client, CONFIG_MAPS, object).await;
    let sorted = json!({ "metadata": {
        "$setElementOrder/finalizers": ["x/c", "x/d", "x/b", "x/a"],
        "finalizers": ["x/d"],
    } });
    let uri = format!("{CONFIG_MAPS}/order");
    let sorted = strategic(&client, &uri, sorted).await;
    sorted.shows(json!({ "metadata.finalizers": ["x/c", "x/d", "x/b", "x/a"] }));
    release(&client, &uri).await;
}

async fn retained_keys_drop_all_others(client: Client) {
    let object = json!({ "metadata": { "name": "retain" }, "data": { "a": "1", "b": "2" } });
    create(&client, CONFIG_MAPS, object).await;
    let uri = format!("{CONFIG_MAPS}/retain");
    let kept = json!({ "data": { "$retainKeys": ["b", "c"], "c": "3" } });
    let kept = strategic(&client, &uri, kept).await;
    assert_eq!(kept["data"], json!({ "b": "2", "c": "3" }));
    let unlisted = json!({ "data": { "$retainKeys": ["b"], "c": "4" } });
    let unlisted = patch(&client, &uri, STRATEGIC, unlisted).await;
    unlisted.says(400, "invalid patch format of retainKeys");
}

async fn a_volume_changes_its_kind_with_retained_keys(client: Client) {
    let mut object = pod("p");
    object["spec"]["volumes"] = json!([{ "name": "v", "emptyDir": {} }, { "name": "w", "emptyDir": {} }]);
    let host_path = json!({ "path": "/x", "type": "" });
    let change = json!({ "volumes": [
        { "$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": host_path },
        { "$patch": "delete", "name": "w" },
    ] });
    let spec = change_template(&client, "volume", &object, change).await;
    spec.shows(json!({ "volumes": [{ "name": "v", "hostPath": host_path }] }));
}

async fn null_removes_a_field_and_what_was_below_it(client: Client) {
    create(&client, CONFIG_MAPS, config("null")).await;
    let uri = format!("{CONFIG_MAPS}/null");
    for content_type in [MERGE, STRATEGIC] {
        let removed = patch(&client, &uri, content_type, json!({ "data": null })).await;
        removed.shows(json!({ "code": 200, "data": null }));
        let back = patch(&client, &uri, content_type, json!({ "data": { "k": "v" } })).await;
        back.shows(json!({ "data": { "k": "v" } }));
    }
}

async fn claims_of_a_claim_status_merge_by_uid(client: Client) {
    create(&client, CLAIMS, claim("claim")).await;
    let uri = format!("{CLAIMS}/claim/status");
    let pod =
        |number: u8| json!({ "resource": "pods", "name": format!("p{number}"), "uid": format!("u{number}") });
    let result = json!({ "request": "r", "driver": "d", "pool": "p", "device": "x" });
    let allocation = json!({ "devices": { "results": [result] } });
    let allocated = json!({ "status": { "allocation": allocation, "reservedFor": [pod(1), pod(2)] } });
    strategic(&client, &uri, allocated).await;
    let less = json!({ "status": { "reservedFor": [{ "$patch": "delete", "uid": "u1" }] } });
    let less = strategic(&client, &uri, less).await;
    assert_eq!(less["status"]["reservedFor"], json!([pod(2)]));
    let none = json!({ "status": { "reservedFor": null, "allocation": null } });
    assert_eq!(strategic(&client, &uri, none).await["status"], json!({}));
}
