//! Patches in all their forms.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

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

async fn a_json_patch_does_its_operations_in_order(client: Client) {
    create(&client, CONFIG_MAPS, config("ops")).await;
    let patched = patch(
        &client,
        format!("{CONFIG_MAPS}/ops"),
        JSON_PATCH,
        json!([
            { "op": "add", "path": "/metadata/labels/a~1b", "value": "x" },
            { "op": "copy", "from": "/data/k", "path": "/data/copied" },
            { "op": "move", "from": "/data/k", "path": "/data/moved" },
            { "op": "test", "path": "/data/moved", "value": "v" },
            { "op": "replace", "path": "/data/copied", "value": "w" },
            { "op": "add", "path": "/metadata/finalizers", "value": ["x/y"] },
            { "op": "add", "path": "/metadata/finalizers/0", "value": "x/x" },
            { "op": "add", "path": "/metadata/finalizers/-", "value": "x/z" },
            { "op": "remove", "path": "/metadata/labels/a" },
        ]),
    )
    .await;
    assert_eq!(patched.code, 200, "{patched:?}");
    assert_eq!(patched.body["data"], json!({ "copied": "w", "moved": "v" }));
    assert_eq!(patched.body["metadata"]["labels"], json!({ "a/b": "x" }));
    assert_eq!(
        patched.body["metadata"]["finalizers"],
        json!(["x/x", "x/y", "x/z"])
    );
    let freed = json!([{ "op": "remove", "path": "/metadata/finalizers" }]);
    let freed = patch(&client, format!("{CONFIG_MAPS}/ops"), JSON_PATCH, freed).await;
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
        assert_eq!(
            refused.body,
            json!({
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "the server rejected our request due to an error in our request",
                "reason": "Invalid",
                "details": {},
                "code": 422,
            }),
            "{operation}"
        );
    }
    assert_eq!(get(&client, &uri).await.body, before);
}

async fn a_json_patch_is_lenient_about_missing_fields(client: Client) {
    create(&client, CONFIG_MAPS, config("lenient")).await;
    let operations = json!([
        { "op": "test", "path": "/data/q", "value": null },
        { "op": "replace", "path": "/data/q", "value": "x" },
        { "op": "copy", "from": "/data/none", "path": "/data/z" },
    ]);
    let patched = patch(&client, format!("{CONFIG_MAPS}/lenient"), JSON_PATCH, operations).await;
    assert_eq!(patched.code, 200, "{patched:?}");
    assert_eq!(patched.body["data"], json!({ "k": "v", "q": "x", "z": "" }));
}

async fn a_json_patch_must_be_a_list_of_operations(client: Client) {
    create(&client, CONFIG_MAPS, config("list")).await;
    let object = patch(
        &client,
        format!("{CONFIG_MAPS}/list"),
        JSON_PATCH,
        json!({ "op": "add" }),
    )
    .await;
    assert_eq!(
        (object.code, &object.body["reason"], &object.body["message"]),
        (
            400,
            &json!("BadRequest"),
            &json!(
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
            )
        )
    );
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
    let uri = format!("{CONFIG_MAPS}/broken");
    let no_map = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    let cases = [
        (MERGE, "[]", format!("error decoding patch: {no_map}")),
        (STRATEGIC, "[]", no_map.to_owned()),
    ];
    for (content_type, body, message) in cases {
        let refused = patch_text(&client, &uri, content_type, body).await;
        assert_eq!(
            (refused.code, &refused.body["reason"], &refused.body["message"]),
            (400, &json!("BadRequest"), &json!(message)),
            "{content_type} {body}"
        );
    }
}

async fn containers_merge_by_name_and_their_ports_by_number(client: Client) {
    let deployment = json!({
        "metadata": { "name": "ports" },
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } }, "spec": pod("p")["spec"] },
        },
    });
    create(&client, DEPLOYMENTS, deployment).await;
    let change = json!({ "spec": { "template": { "spec": { "containers": [
        { "name": "b", "image": "b:2" },
        { "name": "a", "ports": [{ "containerPort": 80, "name": "web" }, { "containerPort": 82 }] },
    ] } } } });
    let patched = patch(&client, format!("{DEPLOYMENTS}/ports"), STRATEGIC, change).await;
    assert_eq!(patched.code, 200, "{patched:?}");
    let containers = &patched.body["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        (&containers[0]["name"], &containers[0]["image"]),
        (&json!("b"), &json!("b:2"))
    );
    assert_eq!(
        (&containers[1]["name"], &containers[1]["image"]),
        (&json!("a"), &json!("a:1"))
    );
    assert_eq!(
        containers[1]["ports"],
        json!([
            { "containerPort": 80, "name": "web", "protocol": "TCP" },
            { "containerPort": 82, "protocol": "TCP" },
            { "containerPort": 81, "protocol": "TCP" },
        ])
    );
}

async fn conditions_merge_by_type_in_the_status_of_a_pod(client: Client) {
    create(&client, PODS, pod("cond")).await;
    let uri = format!("{PODS}/cond/status");
    let condition = |kind: &str, status: &str| json!({ "status": { "conditions": [{ "type": kind, "status": status }] } });
    for (kind, status) in [
        ("Ready", "False"),
        ("DisruptionTarget", "True"),
        ("Ready", "True"),
    ] {
        let patched = patch(&client, &uri, STRATEGIC, condition(kind, status)).await;
        assert_eq!(patched.code, 200, "{patched:?}");
    }
    let read = get(&client, format!("{PODS}/cond")).await.body;
    let conditions: Vec<(&str, &str)> = read["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| {
            (
                condition["type"].as_str().unwrap(),
                condition["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(conditions, [("DisruptionTarget", "True"), ("Ready", "True")]);
    assert_eq!(read["status"]["phase"], "Pending");
}

async fn lists_without_a_merge_key_are_replaced(client: Client) {
    let mut object = pod("args");
    object["spec"]["containers"][1]["args"] = json!(["a", "b"]);
    object["spec"]["tolerations"] = json!([{ "key": "a", "operator": "Exists" }]);
    let deployment = json!({
        "metadata": { "name": "args" },
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } }, "spec": object["spec"] },
        },
    });
    create(&client, DEPLOYMENTS, deployment).await;
    let change = json!({ "spec": { "template": { "spec": {
        "containers": [{ "name": "b", "args": ["c"] }],
        "tolerations": [{ "key": "z", "operator": "Exists" }],
    } } } });
    let patched = patch(&client, format!("{DEPLOYMENTS}/args"), STRATEGIC, change)
        .await
        .body;
    let spec = &patched["spec"]["template"]["spec"];
    assert_eq!(spec["containers"][1]["name"], "b");
    assert_eq!(spec["containers"][1]["args"], json!(["c"]));
    assert_eq!(spec["tolerations"], json!([{ "key": "z", "operator": "Exists" }]));
}

async fn finalizers_are_a_set_to_a_strategic_patch(client: Client) {
    let object = json!({ "metadata": { "name": "set", "finalizers": ["x/a", "x/b"] } });
    create(&client, CONFIG_MAPS, object).await;
    let uri = format!("{CONFIG_MAPS}/set");
    let after = async |metadata: Value| {
        let patched = patch(&client, &uri, STRATEGIC, json!({ "metadata": metadata })).await;
        assert_eq!(patched.code, 200, "{patched:?}");
        patched.body["metadata"]["finalizers"].clone()
    };
    assert_eq!(
        after(json!({ "finalizers": ["x/b", "x/c"] })).await,
        json!(["x/a", "x/b", "x/c"])
    );
    assert_eq!(
        after(json!({ "$deleteFromPrimitiveList/finalizers": ["x/a", "x/c"] })).await,
        json!(["x/b"])
    );
    assert_eq!(after(json!({ "finalizers": null })).await, Value::Null);
}

async fn an_element_order_sorts_what_a_strategic_patch_merges(client: Client) {
    let object = json!({ "metadata": { "name": "order", "finalizers": ["x/a", "x/b", "x/c"] } });
    create(&client, CONFIG_MAPS, object).await;
    let sorted = json!({ "metadata": {
        "$setElementOrder/finalizers": ["x/c", "x/d", "x/b", "x/a"],
        "finalizers": ["x/d"],
    } });
    let uri = format!("{CONFIG_MAPS}/order");
    let sorted = patch(&client, &uri, STRATEGIC, sorted).await.body;
    assert_eq!(
        sorted["metadata"]["finalizers"],
        json!(["x/c", "x/d", "x/b", "x/a"])
    );
    let freed = json!({ "metadata": { "finalizers": null } });
    assert_eq!(patch(&client, &uri, MERGE, freed).await.code, 200);
}

async fn retained_keys_drop_all_others(client: Client) {
    let object = json!({ "metadata": { "name": "retain" }, "data": { "a": "1", "b": "2" } });
    create(&client, CONFIG_MAPS, object).await;
    let uri = format!("{CONFIG_MAPS}/retain");
    let kept = json!({ "data": { "$retainKeys": ["b", "c"], "c": "3" } });
    let kept = patch(&client, &uri, STRATEGIC, kept).await.body;
    assert_eq!(kept["data"], json!({ "b": "2", "c": "3" }));
    let unlisted = json!({ "data": { "$retainKeys": ["b"], "c": "4" } });
    let unlisted = patch(&client, &uri, STRATEGIC, unlisted).await;
    unlisted.says(400, "invalid patch format of retainKeys");
}

async fn a_volume_changes_its_kind_with_retained_keys(client: Client) {
    let mut template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": pod("p")["spec"] });
    template["spec"]["volumes"] = json!([{ "name": "v", "emptyDir": {} }, { "name": "w", "emptyDir": {} }]);
    let deployment = json!({
        "metadata": { "name": "volume" },
        "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": template },
    });
    create(&client, DEPLOYMENTS, deployment).await;
    let change = json!({ "spec": { "template": { "spec": { "volumes": [
        { "$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": { "path": "/x", "type": "" } },
        { "$patch": "delete", "name": "w" },
    ] } } } });
    let patched = patch(&client, format!("{DEPLOYMENTS}/volume"), STRATEGIC, change)
        .await
        .body;
    assert_eq!(
        patched["spec"]["template"]["spec"]["volumes"],
        json!([{ "name": "v", "hostPath": { "path": "/x", "type": "" } }])
    );
}

async fn null_removes_a_field_and_what_was_below_it(client: Client) {
    create(&client, CONFIG_MAPS, config("null")).await;
    let uri = format!("{CONFIG_MAPS}/null");
    for content_type in [MERGE, STRATEGIC] {
        let removed = patch(&client, &uri, content_type, json!({ "data": null })).await;
        assert_eq!((removed.code, removed.body.get("data")), (200, None));
        let back = patch(&client, &uri, content_type, json!({ "data": { "k": "v" } })).await;
        assert_eq!(back.body["data"], json!({ "k": "v" }));
    }
}

async fn claims_of_a_claim_status_merge_by_uid(client: Client) {
    let claim = json!({
        "metadata": { "name": "claim" },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "c" } }] } },
    });
    create(&client, CLAIMS, claim).await;
    let uri = format!("{CLAIMS}/claim/status");
    let allocated = json!({ "status": {
        "allocation": { "devices": { "results": [
            { "request": "r", "driver": "d", "pool": "p", "device": "x" },
        ] } },
        "reservedFor": [
            { "resource": "pods", "name": "p1", "uid": "u1" },
            { "resource": "pods", "name": "p2", "uid": "u2" },
        ],
    } });
    let allocated = patch(&client, &uri, STRATEGIC, allocated).await;
    assert_eq!(allocated.code, 200, "{allocated:?}");
    let less = json!({ "status": { "reservedFor": [{ "$patch": "delete", "uid": "u1" }] } });
    let less = patch(&client, &uri, STRATEGIC, less).await.body;
    assert_eq!(
        less["status"]["reservedFor"],
        json!([{ "resource": "pods", "name": "p2", "uid": "u2" }])
    );
    let none = json!({ "status": { "reservedFor": null, "allocation": null } });
    let none = patch(&client, &uri, STRATEGIC, none).await.body;
    assert_eq!(none["status"], json!({}));
}
