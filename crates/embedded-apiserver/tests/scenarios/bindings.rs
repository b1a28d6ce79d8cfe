//! Bindings of pods to nodes.

use kube::Client;
use serde_json::{Value, json};

use crate::evictions::is_done;
use crate::http::*;
use crate::rows;
use crate::subresources::{STORAGE, pod};

crate::scenarios![
    a_binding_assigns_a_pod_to_a_node,
    a_pod_that_cannot_be_bound_is_a_conflict,
    a_binding_must_mean_this_pod_and_a_node,
];

const CONFLICT: &str = "Operation cannot be fulfilled on pods/binding";

fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": name },
        "target": { "kind": "Node", "name": "n1" },
    })
}

async fn a_binding_assigns_a_pod_to_a_node(client: Client) {
    let created = create(&client, PODS, pod("p")).await;
    let uri = format!("{PODS}/p");
    let tried = post(&client, format!("{uri}/binding?dryRun=All"), binding("p")).await;
    assert_eq!(tried.code, 201);
    assert_eq!(read(&client, &uri).await, created);
    let mut annotated = binding("p");
    annotated["metadata"]["annotations"] = json!({ "k": "v" });
    annotated["metadata"]["labels"] = json!({ "zone": "z" });
    is_done(&post(&client, format!("{uri}/binding"), annotated).await);
    let bound = read(&client, &uri).await;
    bound.shows(json!({
        "spec.nodeName": "n1",
        "metadata.annotations": { "k": "v" },
        "metadata.labels": { "app": "a", "zone": "z" },
        "metadata.generation": 1,
        "metadata.managedFields": created["metadata"]["managedFields"],
        "status.conditions.0.type": "PodScheduled",
        "status.conditions.0.status": "True",
        "status.conditions.0.reason": null,
    }));
    assert!(bound["status"]["conditions"][0]["lastTransitionTime"].is_string());
    let selected = read(&client, format!("{PODS}?fieldSelector=spec.nodeName%3Dn1")).await;
    assert_eq!(names(&selected), ["p"]);
    let again = post(&client, format!("{uri}/binding"), binding("p")).await;
    let message = format!("{CONFLICT} \"p\": pod p is already assigned to node \"n1\"");
    let details = json!({ "name": "p", "kind": "pods/binding" });
    again.refuses(409, "Conflict", &message, &details);
}

async fn a_pod_that_cannot_be_bound_is_a_conflict(client: Client) {
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{ "name": "x/y" }]);
    let gated = create(&client, PODS, gated).await;
    gated.shows(json!({
        "status.conditions.0.type": "PodScheduled",
        "status.conditions.0.status": "False",
        "status.conditions.0.reason": "SchedulingGated",
    }));
    let mut doomed = pod("doomed");
    doomed["metadata"]["finalizers"] = json!(["x/y"]);
    create(&client, PODS, doomed).await;
    let uri = format!("{PODS}/doomed");
    delete(&client, &uri, json!({ "gracePeriodSeconds": 0 })).await;
    for (name, why) in rows! {
        "gated" => "pod gated has non-empty .spec.schedulingGates";
        "doomed" => "pod doomed is being deleted, cannot be assigned to a host";
    } {
        let refused = post(&client, format!("{PODS}/{name}/binding"), binding(name)).await;
        refused.says(409, &format!("{CONFLICT} \"{name}\": {why}"));
    }
    release(&client, &uri).await;
}

async fn a_binding_must_mean_this_pod_and_a_node(client: Client) {
    let created = create(&client, PODS, pod("p")).await;
    let uri = format!("{PODS}/p/binding");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut binding = binding("p");
        change(&mut binding);
        binding
    };
    let nowhere = with(&|binding| binding["target"] = json!({ "kind": "Node" }));
    let elsewhere = with(&|binding| binding["target"]["kind"] = json!("Pod"));
    for (body, code, message) in rows! {
        binding("q"), 400 => "name in URL does not match name in Binding object";
        nowhere, 500 => "target.name: Required value";
        elsewhere, 500 => "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"";
    } {
        post(&client, &uri, body).await.says(code, message);
    }
    for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let other = with(&|binding| binding["metadata"][field] = json!("1"));
        let found = created["metadata"][field].as_str().unwrap();
        let message = format!("{STORAGE}{called} in precondition: 1, {called} in object meta: {found}");
        post(&client, &uri, other).await.says(409, &message);
    }
    let missing = post(&client, format!("{PODS}/nope/binding"), binding("nope")).await;
    missing.says(404, "pods \"nope\" not found");
    assert_eq!(get(&client, &uri).await.code, 405);
}
