//! The form of objects: types, defaults, generated values, rules of kinds.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::{self, claim};
use crate::rows;

crate::scenarios![
    values_of_the_wrong_type_are_refused,
    a_patch_to_a_wrong_type_is_refused,
    times_and_quantities_must_be_such,
    zero_values_are_left_out_or_written_as_the_type_says,
    empty_objects_show_what_is_always_written,
    a_pod_gets_its_defaults_and_its_creator_owns_them,
    claims_ask_for_one_device,
    a_status_cannot_be_created_with_the_object,
    names_follow_rfc_1123,
    labels_and_annotations_have_a_syntax,
    finalizers_are_fully_qualified,
    claims_do_not_change,
    workloads_have_one_replica,
    selectors_do_not_change,
    numbers_are_not_negative,
    taints_have_a_key_and_an_effect,
    leases_last_some_time,
];

/// A pod whose image has a fixed tag.
fn pod(name: &str) -> Value {
    let mut pod = objects::pod(name, Value::Null);
    pod["spec"]["containers"][0]["image"] = json!("i:1");
    pod
}

fn workload(name: &str) -> Value {
    objects::workload(name, &pod("p"))
}

async fn values_of_the_wrong_type_are_refused(client: Client) {
    const NODE: &str = "Node in version \"v1\" cannot be handled as a Node: json: cannot unmarshal";
    const LEASE: &str = "Lease in version \"v1\" cannot be handled as a Lease: json: cannot unmarshal number";
    let with = |field: &str, value: Value| json!({ "metadata": { "name": "t" }, "spec": { field: value } });
    let labelled = json!({ "metadata": { "name": "t", "labels": { "a": 1 } } });
    let seconds = |seconds: Value| with("leaseDurationSeconds", seconds);
    let of_seconds = "into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32";
    for (uri, object, message) in rows! {
        NODES, with("unschedulable", json!("yes")) =>
            format!("{NODE} string into Go struct field NodeSpec.spec.unschedulable of type bool");
        NODES, with("taints", json!([{ "key": 1 }])) =>
            format!("{NODE} number into Go struct field Taint.spec.taints.key of type string");
        NODES, labelled => format!("{NODE} number into Go struct field ObjectMeta.metadata.labels of type string");
        LEASES, seconds(json!(3_000_000_000_u64)) => format!("{LEASE} 3000000000 {of_seconds}");
        LEASES, seconds(json!(1.5)) => format!("{LEASE} 1.5 {of_seconds}");
    } {
        let refused = post(&client, uri, object).await;
        refused.is(400, "BadRequest");
        refused.says(400, &message);
    }
    let array = post(&client, NODES, json!({ "metadata": { "name": "t" }, "spec": [] })).await;
    array.begins(
        400,
        &format!("{NODE} array into Go struct field Node.spec of type "),
    );
}

async fn a_patch_to_a_wrong_type_is_refused(client: Client) {
    create(&client, NODES, named("type")).await;
    let uri = format!("{NODES}/type");
    let wrong = json!({ "spec": { "unschedulable": "yes" } });
    let operations = json!([{ "op": "add", "path": "/spec/unschedulable", "value": "yes" }]);
    for (content_type, body) in [(MERGE, wrong.clone()), (JSON_PATCH, operations)] {
        let refused = patch(&client, &uri, content_type, body).await;
        refused.blames(&[("patch", "Invalid")]);
        let why = "cannot unmarshal string into Go struct field NodeSpec.spec.unschedulable of type bool";
        assert!(
            message(&refused).ends_with(&format!(": json: {why}")),
            "{refused:?}"
        );
    }
    patch(&client, &uri, STRATEGIC, wrong)
        .await
        .blames(&[("patch", "Invalid")]);
}

async fn times_and_quantities_must_be_such(client: Client) {
    let time = json!({ "metadata": { "name": "t", "creationTimestamp": "x" } });
    post(&client, NODES, time).await.says(
        400,
        "Node in version \"v1\" cannot be handled as a Node: parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot \
         parse \"x\" as \"2006\"",
    );
    let quantity = json!({ "metadata": { "name": "t" }, "status": { "capacity": { "cpu": "x" } } });
    post(&client, NODES, quantity).await.says(
        400,
        "Node in version \"v1\" cannot be handled as a Node: quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
    let zone = json!({ "renewTime": "2026-01-01T02:00:00.500000+01:00" });
    let lease = json!({ "metadata": { "name": "zone" }, "spec": zone });
    let lease = create(&client, LEASES, lease).await;
    assert_eq!(lease["spec"]["renewTime"], "2026-01-01T01:00:00.500000Z");
}

async fn zero_values_are_left_out_or_written_as_the_type_says(client: Client) {
    let zeros = json!({ "holderIdentity": "", "leaseTransitions": 0 });
    let lease = json!({ "metadata": { "name": "zero" }, "spec": zeros });
    assert_eq!(create(&client, LEASES, lease).await["spec"], zeros);
    let zeros = json!({ "hostNetwork": false, "nodeName": "", "automountServiceAccountToken": false });
    let object = create(&client, PODS, objects::pod("zero", zeros)).await;
    object.shows(json!({
        "spec.hostNetwork": null,
        "spec.nodeName": null,
        "spec.automountServiceAccountToken": false,
    }));
    let node = json!({ "metadata": { "name": "zero", "labels": {} }, "spec": { "unschedulable": true } });
    create(&client, NODES, node).await;
    let schedulable = json!({ "spec": { "unschedulable": false } });
    let node = strategic(&client, format!("{NODES}/zero"), schedulable).await;
    assert_eq!(node["spec"].get("unschedulable"), None);
}

async fn empty_objects_show_what_is_always_written(client: Client) {
    let node = json!({
        "daemonEndpoints": { "kubeletEndpoint": { "Port": 0 } },
        "nodeInfo": {
            "architecture": "",
            "bootID": "",
            "containerRuntimeVersion": "",
            "kernelVersion": "",
            "kubeProxyVersion": "",
            "kubeletVersion": "",
            "machineID": "",
            "operatingSystem": "",
            "osImage": "",
            "systemUUID": "",
        },
    });
    let budget =
        json!({ "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0 });
    for (uri, object, status) in rows! {
        NODES, named("empty") => node;
        PDBS, named("empty") => budget;
        DEPLOYMENTS, workload("empty") => json!({});
        REPLICA_SETS, workload("empty") => json!({ "replicas": 0 });
        STATEFUL_SETS, workload("empty") => json!({ "replicas": 0, "availableReplicas": 0 });
    } {
        assert_eq!(create(&client, uri, object).await["status"], status);
    }
    assert_eq!(create(&client, LEASES, named("empty")).await["spec"], json!({}));
    let role = create(&client, ROLES, named("empty")).await;
    assert_eq!(role.get("rules"), Some(&Value::Null));
}

async fn a_pod_gets_its_defaults_and_its_creator_owns_them(client: Client) {
    let mut object = pod("defaults");
    object["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 80 }]);
    create(&client, PODS, object).await.shows(json!({
        "metadata.generation": 1,
        "status": { "phase": "Pending", "qosClass": "BestEffort" },
        "spec.containers": [{
            "name": "c",
            "image": "i:1",
            "imagePullPolicy": "IfNotPresent",
            "ports": [{ "containerPort": 80, "protocol": "TCP" }],
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }],
        "spec.dnsPolicy": "ClusterFirst",
        "spec.enableServiceLinks": true,
        "spec.restartPolicy": "Always",
        "spec.schedulerName": "default-scheduler",
        "spec.securityContext": {},
        "spec.terminationGracePeriodSeconds": 30,
        "metadata.managedFields.0.fieldsV1": { "f:spec": {
            "f:containers": { "k:{\"name\":\"c\"}": {
                ".": {},
                "f:image": {},
                "f:imagePullPolicy": {},
                "f:name": {},
                "f:ports": {
                    ".": {},
                    "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                        ".": {},
                        "f:containerPort": {},
                        "f:protocol": {},
                    },
                },
                "f:resources": {},
                "f:terminationMessagePath": {},
                "f:terminationMessagePolicy": {},
            } },
            "f:dnsPolicy": {},
            "f:enableServiceLinks": {},
            "f:restartPolicy": {},
            "f:schedulerName": {},
            "f:securityContext": {},
            "f:terminationGracePeriodSeconds": {},
        } },
    }));
}

async fn claims_ask_for_one_device(client: Client) {
    let one = json!({ "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1 });
    let object = create(&client, CLAIMS, claim("one")).await;
    object.shows(json!({ "spec.devices.requests": [{ "name": "r", "exactly": one }], "status": {} }));
}

async fn a_status_cannot_be_created_with_the_object(client: Client) {
    let mut object = pod("status");
    object["status"] = json!({ "phase": "Running", "podIP": "10.0.0.1" });
    let object = create(&client, PODS, object).await;
    object.shows(json!({ "status": { "phase": "Pending", "qosClass": "BestEffort" } }));
    let mut object = workload("status");
    object["status"] = json!({ "replicas": 3 });
    let object = create(&client, REPLICA_SETS, object).await;
    assert_eq!(object["status"], json!({ "replicas": 0 }));
}

async fn names_follow_rfc_1123(client: Client) {
    let bad = post(&client, PODS, pod("Bad_Name")).await;
    let why = format!("Invalid value: \"Bad_Name\": {SUBDOMAIN}");
    let cause = json!({ "reason": "FieldValueInvalid", "message": why, "field": "metadata.name" });
    let message = format!("Pod \"Bad_Name\" is invalid: metadata.name: {why}");
    let details = json!({ "name": "Bad_Name", "kind": "Pod", "causes": [cause] });
    bad.refuses(422, "Invalid", &message, &details);
    let dotted = post(&client, NAMESPACES, named("a.b")).await;
    let why = "metadata.name: Invalid value: \"a.b\": must not contain dots";
    dotted.says(422, &format!("Namespace \"a.b\" is invalid: {why}"));
    let long = post(&client, CONFIG_MAPS, named(&"a".repeat(254))).await;
    ends(&long, ": must be no more than 253 characters");
    let generated = json!({ "metadata": { "generateName": "Bad_" } });
    let generated = post(&client, CONFIG_MAPS, generated).await;
    generated.blames(&[("metadata.generateName", "Invalid"), ("metadata.name", "Invalid")]);
    // Names of roles may have almost any characters.
    create(&client, ROLES, named("system:Any_Thing")).await;
    let slash = post(&client, ROLES, named("a/b")).await;
    let why = "metadata.name: Invalid value: \"a/b\": may not contain '/'";
    slash.says(
        422,
        &format!("Role.rbac.authorization.k8s.io \"a/b\" is invalid: {why}"),
    );
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

#[track_caller]
fn ends(answer: &Answer, end: &str) {
    assert!(answer.code == 422 && message(answer).ends_with(end), "{answer:?}");
}

/// Tries to create the config map `syntax` with this metadata.
async fn post_with(client: &Client, mut metadata: Value) -> Answer {
    metadata["name"] = json!("syntax");
    post(client, CONFIG_MAPS, json!({ "metadata": metadata })).await
}

async fn labels_and_annotations_have_a_syntax(client: Client) {
    const REFUSED: &str = "ConfigMap \"syntax\" is invalid: metadata.labels: Invalid value: ";
    let labels = post_with(
        &client,
        json!({ "labels": { "a b": "x", "ok": "b c", "x/y/z": "1" } }),
    )
    .await;
    labels.blames(&[("metadata.labels", "Invalid"); 3]);
    let key = post_with(&client, json!({ "labels": { "a b": "x" } })).await;
    let why = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
               alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
               '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    key.says(422, &format!("{REFUSED}\"a b\": {why}"));
    let value = post_with(&client, json!({ "labels": { "ok": "b c" } })).await;
    let why = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
               start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
               for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    value.says(422, &format!("{REFUSED}\"b c\": {why}"));
    let long = post_with(&client, json!({ "labels": { "a": "a".repeat(64) } })).await;
    ends(&long, ": must be no more than 63 bytes");
    let annotations = json!({ "annotations": { "a b": "x", "Example.COM/Ok": "any thing" } });
    post_with(&client, annotations)
        .await
        .blames(&[("metadata.annotations", "Invalid")]);
    create(&client, CONFIG_MAPS, named("fine")).await;
    let patched = json!({ "metadata": { "labels": { "a b": "c" } } });
    let patched = patch(&client, format!("{CONFIG_MAPS}/fine"), MERGE, patched).await;
    let mut found = patched.causes();
    // kube-apiserver checks an update several times.
    found.dedup();
    assert_eq!(found, [("metadata.labels", "Invalid")]);
}

async fn finalizers_are_fully_qualified(client: Client) {
    post_with(&client, json!({ "finalizers": ["x"] })).await.says(
        422,
        "ConfigMap \"syntax\" is invalid: metadata.finalizers[0]: Invalid value: \"x\": name is neither a standard \
         finalizer name nor is it fully qualified",
    );
}

async fn claims_do_not_change(client: Client) {
    create(&client, CLAIMS, claim("fixed")).await;
    let other = json!({ "name": "other", "exactly": { "deviceClassName": "c" } });
    let change = json!({ "spec": { "devices": { "requests": [other] } } });
    let refused = patch(&client, format!("{CLAIMS}/fixed"), MERGE, change).await;
    refused.blames(&[("spec", "Invalid")]);
    ends(&refused, ": field is immutable");
    let mut vague = claim("vague");
    vague["spec"]["devices"]["requests"] = json!([{ "name": "r" }]);
    post(&client, CLAIMS, vague).await.says(
        422,
        "ResourceClaim.resource.k8s.io \"vague\" is invalid: spec.devices.requests[0]: Required value: exactly one of \
         `exactly` or `firstAvailable` is required",
    );
}

async fn leases_last_some_time(client: Client) {
    let short = json!({ "leaseDurationSeconds": 0, "leaseTransitions": -1 });
    let lease = json!({ "metadata": { "name": "never" }, "spec": short });
    let refused = post(&client, LEASES, lease).await;
    let mut found = refused.causes();
    found.sort_unstable();
    let expected = ["spec.leaseDurationSeconds", "spec.leaseTransitions"];
    assert_eq!(found, expected.map(|field| (field, "Invalid")));
}

async fn workloads_have_one_replica(client: Client) {
    for uri in [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS] {
        let created = create(&client, uri, workload("w")).await;
        assert_eq!(created["spec"]["replicas"], 1, "{uri}");
    }
}

async fn selectors_do_not_change(client: Client) {
    create(&client, DEPLOYMENTS, workload("w")).await;
    let labels = json!({ "a": "c" });
    let moved = json!({ "spec": {
        "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels } },
    } });
    patch(&client, format!("{DEPLOYMENTS}/w"), MERGE, moved).await.says(
        422,
        "Deployment.apps \"w\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is \
         immutable",
    );
}

async fn numbers_are_not_negative(client: Client) {
    const WHY: &str = "Invalid value: -1: must be greater than or equal to 0";
    let mut below = workload("w");
    below["spec"]["replicas"] = json!(-1);
    let refused = post(&client, DEPLOYMENTS, below).await;
    refused.says(
        422,
        &format!("Deployment.apps \"w\" is invalid: spec.replicas: {WHY}"),
    );
    let below = json!({ "metadata": { "name": "b" }, "spec": { "minAvailable": -1 } });
    let refused = post(&client, PDBS, below).await;
    let message = format!("PodDisruptionBudget.policy \"b\" is invalid: spec.minAvailable: {WHY}");
    refused.says(422, &message);
}

async fn taints_have_a_key_and_an_effect(client: Client) {
    let node = json!({ "metadata": { "name": "tainted" }, "spec": { "taints": [
        { "key": "a", "effect": "Huh" },
        { "key": "b b", "effect": "NoSchedule" },
        { "key": "c" },
    ] } });
    post(&client, NODES, node).await.blames(&[
        ("metadata.taints[0].effect", "NotSupported"),
        ("metadata.taints[1].key", "Invalid"),
        ("metadata.taints[2].effect", "Required"),
    ]);
}
