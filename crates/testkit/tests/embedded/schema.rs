//! What objects may look like: types, defaults, generated values, the rules of kinds.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

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

fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] } })
}

fn template() -> Value {
    json!({ "metadata": { "labels": { "a": "b" } }, "spec": pod("p")["spec"] })
}

fn workload(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": template() },
    })
}

/// The fields that a refusal is about, with the reasons.
pub(crate) fn causes(answer: &Answer) -> Vec<(&str, &str)> {
    assert_eq!(
        (answer.code, &answer.body["reason"]),
        (422, &json!("Invalid")),
        "{answer:?}"
    );
    answer.body["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| {
            (
                cause["field"].as_str().unwrap(),
                cause["reason"].as_str().unwrap(),
            )
        })
        .collect()
}

pub(crate) fn message(answer: &Answer) -> &str {
    answer.body["message"].as_str().unwrap_or_default()
}

async fn values_of_the_wrong_type_are_refused(client: Client) {
    let refusal = async |uri: &str, object: Value| {
        let refused = post(&client, uri, object).await;
        refused.is(400, "BadRequest");
        message(&refused).to_owned()
    };
    let node = "Node in version \"v1\" cannot be handled as a Node: json: cannot unmarshal";
    assert_eq!(
        refusal(
            NODES,
            json!({ "metadata": { "name": "t" }, "spec": { "unschedulable": "yes" } })
        )
        .await,
        format!("{node} string into Go struct field NodeSpec.spec.unschedulable of type bool")
    );
    assert_eq!(
        refusal(
            NODES,
            json!({ "metadata": { "name": "t" }, "spec": { "taints": [{ "key": 1 }] } })
        )
        .await,
        format!("{node} number into Go struct field Taint.spec.taints.key of type string")
    );
    assert_eq!(
        refusal(
            NODES,
            json!({ "metadata": { "name": "t", "labels": { "a": 1 } } })
        )
        .await,
        format!("{node} number into Go struct field ObjectMeta.metadata.labels of type string")
    );
    let lease = "Lease in version \"v1\" cannot be handled as a Lease: json: cannot unmarshal number";
    let seconds =
        |seconds: Value| json!({ "metadata": { "name": "t" }, "spec": { "leaseDurationSeconds": seconds } });
    assert_eq!(
        refusal(LEASES, seconds(json!(3_000_000_000_u64))).await,
        format!("{lease} 3000000000 into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32")
    );
    assert_eq!(
        refusal(LEASES, seconds(json!(1.5))).await,
        format!("{lease} 1.5 into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32")
    );
    assert!(
        refusal(NODES, json!({ "metadata": { "name": "t" }, "spec": [] }))
            .await
            .starts_with(&format!("{node} array into Go struct field Node.spec of type "))
    );
}

async fn a_patch_to_a_wrong_type_is_refused(client: Client) {
    create(&client, NODES, json!({ "metadata": { "name": "type" } })).await;
    let uri = format!("{NODES}/type");
    let wrong = json!({ "spec": { "unschedulable": "yes" } });
    let operations = json!([{ "op": "add", "path": "/spec/unschedulable", "value": "yes" }]);
    for (content_type, body) in [(MERGE, wrong.clone()), (JSON_PATCH, operations)] {
        let refused = patch(&client, &uri, content_type, body).await;
        assert_eq!(causes(&refused), [("patch", "FieldValueInvalid")]);
        assert!(
            message(&refused).ends_with(
                ": json: cannot unmarshal string into Go struct field NodeSpec.spec.unschedulable of type bool"
            ),
            "{refused:?}"
        );
    }
    let refused = patch(&client, &uri, STRATEGIC, wrong).await;
    assert_eq!(causes(&refused), [("patch", "FieldValueInvalid")]);
}

async fn times_and_quantities_must_be_such(client: Client) {
    let time = json!({ "metadata": { "name": "t", "creationTimestamp": "x" } });
    let time = post(&client, NODES, time).await;
    assert_eq!(
        (time.code, message(&time)),
        (
            400,
            "Node in version \"v1\" cannot be handled as a Node: parsing time \"x\" as \
             \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\""
        )
    );
    let quantity = json!({ "metadata": { "name": "t" }, "status": { "capacity": { "cpu": "x" } } });
    let quantity = post(&client, NODES, quantity).await;
    assert_eq!(
        (quantity.code, message(&quantity)),
        (
            400,
            "Node in version \"v1\" cannot be handled as a Node: quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    );
    let lease = json!({
        "metadata": { "name": "zone" },
        "spec": { "renewTime": "2026-01-01T02:00:00.500000+01:00" },
    });
    let lease = create(&client, LEASES, lease).await;
    assert_eq!(lease["spec"]["renewTime"], "2026-01-01T01:00:00.500000Z");
}

async fn zero_values_are_left_out_or_written_as_the_type_says(client: Client) {
    let lease =
        json!({ "metadata": { "name": "zero" }, "spec": { "holderIdentity": "", "leaseTransitions": 0 } });
    let lease = create(&client, LEASES, lease).await;
    assert_eq!(
        lease["spec"],
        json!({ "holderIdentity": "", "leaseTransitions": 0 })
    );
    let mut object = pod("zero");
    object["spec"]["hostNetwork"] = json!(false);
    object["spec"]["nodeName"] = json!("");
    object["spec"]["automountServiceAccountToken"] = json!(false);
    let object = create(&client, PODS, object).await;
    let spec = &object["spec"];
    assert_eq!((spec.get("hostNetwork"), spec.get("nodeName")), (None, None));
    assert_eq!(spec["automountServiceAccountToken"], false);
    let node = json!({ "metadata": { "name": "zero", "labels": {} }, "spec": { "unschedulable": true } });
    create(&client, NODES, node).await;
    let schedulable = json!({ "spec": { "unschedulable": false } });
    let node = patch(&client, format!("{NODES}/zero"), STRATEGIC, schedulable)
        .await
        .body;
    assert_eq!(node["spec"].get("unschedulable"), None);
}

async fn empty_objects_show_what_is_always_written(client: Client) {
    let status = async |uri: &str, object: Value| create(&client, uri, object).await["status"].clone();
    assert_eq!(
        status(NODES, json!({ "metadata": { "name": "empty" } })).await,
        json!({
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
        })
    );
    assert_eq!(
        status(PDBS, json!({ "metadata": { "name": "empty" } })).await,
        json!({ "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0 })
    );
    assert_eq!(status(DEPLOYMENTS, workload("empty")).await, json!({}));
    assert_eq!(
        status(REPLICA_SETS, workload("empty")).await,
        json!({ "replicas": 0 })
    );
    assert_eq!(
        status(STATEFUL_SETS, workload("empty")).await,
        json!({ "replicas": 0, "availableReplicas": 0 })
    );
    let lease = create(&client, LEASES, json!({ "metadata": { "name": "empty" } })).await;
    assert_eq!(lease["spec"], json!({}));
    let role = create(&client, ROLES, json!({ "metadata": { "name": "empty" } })).await;
    assert_eq!(role.get("rules"), Some(&Value::Null));
}

async fn a_pod_gets_its_defaults_and_its_creator_owns_them(client: Client) {
    let mut object = pod("defaults");
    object["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 80 }]);
    let object = create(&client, PODS, object).await;
    assert_eq!(
        object["spec"]["containers"],
        json!([{
            "name": "c",
            "image": "i:1",
            "imagePullPolicy": "IfNotPresent",
            "ports": [{ "containerPort": 80, "protocol": "TCP" }],
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }])
    );
    for (field, value) in [
        ("dnsPolicy", json!("ClusterFirst")),
        ("enableServiceLinks", json!(true)),
        ("restartPolicy", json!("Always")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
        ("terminationGracePeriodSeconds", json!(30)),
    ] {
        assert_eq!(object["spec"][field], value, "{field}");
    }
    assert_eq!(
        object["status"],
        json!({ "phase": "Pending", "qosClass": "BestEffort" })
    );
    assert_eq!(object["metadata"]["generation"], 1);
    assert_eq!(
        object["metadata"]["managedFields"][0]["fieldsV1"],
        json!({ "f:spec": {
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
        } })
    );
}

pub(crate) fn claim(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "c" } }] } },
    })
}

async fn claims_ask_for_one_device(client: Client) {
    let object = create(&client, CLAIMS, claim("one")).await;
    assert_eq!(
        object["spec"]["devices"]["requests"],
        json!([{ "name": "r", "exactly": {
            "deviceClassName": "c",
            "allocationMode": "ExactCount",
            "count": 1,
        } }])
    );
    assert_eq!(object["status"], json!({}));
}

async fn a_status_cannot_be_created_with_the_object(client: Client) {
    let mut object = pod("status");
    object["status"] = json!({ "phase": "Running", "podIP": "10.0.0.1" });
    let object = create(&client, PODS, object).await;
    assert_eq!(
        object["status"],
        json!({ "phase": "Pending", "qosClass": "BestEffort" })
    );
    let mut object = workload("status");
    object["status"] = json!({ "replicas": 3 });
    let object = create(&client, REPLICA_SETS, object).await;
    assert_eq!(object["status"], json!({ "replicas": 0 }));
}

async fn names_follow_rfc_1123(client: Client) {
    let bad = post(&client, PODS, pod("Bad_Name")).await;
    assert_eq!(
        bad.body,
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": format!("Pod \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": {SUBDOMAIN}"),
            "reason": "Invalid",
            "details": { "name": "Bad_Name", "kind": "Pod", "causes": [{
                "reason": "FieldValueInvalid",
                "message": format!("Invalid value: \"Bad_Name\": {SUBDOMAIN}"),
                "field": "metadata.name",
            }] },
            "code": 422,
        })
    );
    let dotted = post(&client, NAMESPACES, json!({ "metadata": { "name": "a.b" } })).await;
    assert_eq!(
        message(&dotted),
        "Namespace \"a.b\" is invalid: metadata.name: Invalid value: \"a.b\": must not contain dots"
    );
    let long = post(
        &client,
        CONFIG_MAPS,
        json!({ "metadata": { "name": "a".repeat(254) } }),
    )
    .await;
    assert!(
        message(&long).ends_with(": must be no more than 253 characters"),
        "{long:?}"
    );
    let generated = post(
        &client,
        CONFIG_MAPS,
        json!({ "metadata": { "generateName": "Bad_" } }),
    )
    .await;
    assert_eq!(
        causes(&generated),
        [
            ("metadata.generateName", "FieldValueInvalid"),
            ("metadata.name", "FieldValueInvalid")
        ]
    );
    // Roles may be called almost anything.
    create(
        &client,
        ROLES,
        json!({ "metadata": { "name": "system:Any_Thing" } }),
    )
    .await;
    let slash = post(&client, ROLES, json!({ "metadata": { "name": "a/b" } })).await;
    assert_eq!(
        message(&slash),
        "Role.rbac.authorization.k8s.io \"a/b\" is invalid: metadata.name: Invalid value: \"a/b\": may not contain \
         '/'"
    );
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

async fn labels_and_annotations_have_a_syntax(client: Client) {
    let with = async |metadata: Value| {
        let mut metadata = metadata;
        metadata["name"] = json!("syntax");
        post(&client, CONFIG_MAPS, json!({ "metadata": metadata })).await
    };
    let labels = with(json!({ "labels": { "a b": "x", "ok": "b c", "x/y/z": "1" } })).await;
    assert_eq!(causes(&labels), [("metadata.labels", "FieldValueInvalid"); 3]);
    let key = with(json!({ "labels": { "a b": "x" } })).await;
    assert_eq!(
        message(&key),
        "ConfigMap \"syntax\" is invalid: metadata.labels: Invalid value: \"a b\": name part must consist of \
         alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
         'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    );
    let value = with(json!({ "labels": { "ok": "b c" } })).await;
    assert_eq!(
        message(&value),
        "ConfigMap \"syntax\" is invalid: metadata.labels: Invalid value: \"b c\": a valid label must be an empty string \
         or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
         (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
         '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    );
    let long = with(json!({ "labels": { "a": "a".repeat(64) } })).await;
    assert!(
        message(&long).ends_with(": must be no more than 63 bytes"),
        "{long:?}"
    );
    let annotations = with(json!({ "annotations": { "a b": "x", "Example.COM/Ok": "any thing" } })).await;
    assert_eq!(
        causes(&annotations),
        [("metadata.annotations", "FieldValueInvalid")]
    );
    create(&client, CONFIG_MAPS, json!({ "metadata": { "name": "fine" } })).await;
    let patched = json!({ "metadata": { "labels": { "a b": "c" } } });
    let patched = patch(&client, format!("{CONFIG_MAPS}/fine"), MERGE, patched).await;
    let mut found = causes(&patched);
    // An update is checked several times.
    found.dedup();
    assert_eq!(found, [("metadata.labels", "FieldValueInvalid")]);
}

async fn finalizers_are_fully_qualified(client: Client) {
    let with = async |metadata: Value| {
        let mut metadata = metadata;
        metadata["name"] = json!("checked");
        post(&client, CONFIG_MAPS, json!({ "metadata": metadata })).await
    };
    let short = with(json!({ "finalizers": ["x"] })).await;
    assert_eq!(
        message(&short),
        "ConfigMap \"checked\" is invalid: metadata.finalizers[0]: Invalid value: \"x\": name is neither a standard \
         finalizer name nor is it fully qualified"
    );
}

async fn claims_do_not_change(client: Client) {
    create(&client, CLAIMS, claim("fixed")).await;
    let change = json!({ "spec": { "devices": { "requests": [
        { "name": "other", "exactly": { "deviceClassName": "c" } },
    ] } } });
    let refused = patch(&client, format!("{CLAIMS}/fixed"), MERGE, change).await;
    assert_eq!(causes(&refused), [("spec", "FieldValueInvalid")]);
    assert!(message(&refused).ends_with(": field is immutable"), "{refused:?}");
    let mut vague = claim("vague");
    vague["spec"]["devices"]["requests"] = json!([{ "name": "r" }]);
    assert_eq!(
        message(&post(&client, CLAIMS, vague).await),
        "ResourceClaim.resource.k8s.io \"vague\" is invalid: spec.devices.requests[0]: Required value: exactly one of \
         `exactly` or `firstAvailable` is required"
    );
}

async fn leases_last_some_time(client: Client) {
    let lease = json!({
        "metadata": { "name": "never" },
        "spec": { "leaseDurationSeconds": 0, "leaseTransitions": -1 },
    });
    let mut found = Vec::new();
    let refused = post(&client, LEASES, lease).await;
    found.extend(causes(&refused));
    found.sort_unstable();
    assert_eq!(
        found,
        [
            ("spec.leaseDurationSeconds", "FieldValueInvalid"),
            ("spec.leaseTransitions", "FieldValueInvalid"),
        ]
    );
}

async fn workloads_have_one_replica(client: Client) {
    for uri in [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS] {
        let created = create(&client, uri, workload("w")).await;
        assert_eq!(created["spec"]["replicas"], 1, "{uri}");
    }
}

async fn selectors_do_not_change(client: Client) {
    create(&client, DEPLOYMENTS, workload("w")).await;
    let moved = json!({ "spec": {
        "selector": { "matchLabels": { "a": "c" } },
        "template": { "metadata": { "labels": { "a": "c" } } },
    } });
    let moved = patch(&client, format!("{DEPLOYMENTS}/w"), MERGE, moved).await;
    assert_eq!(
        message(&moved),
        "Deployment.apps \"w\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is \
         immutable"
    );
}

async fn numbers_are_not_negative(client: Client) {
    let mut below = workload("w");
    below["spec"]["replicas"] = json!(-1);
    assert_eq!(
        message(&post(&client, DEPLOYMENTS, below).await),
        "Deployment.apps \"w\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    );
    let below = json!({ "metadata": { "name": "b" }, "spec": { "minAvailable": -1 } });
    assert_eq!(
        message(&post(&client, PDBS, below).await),
        "PodDisruptionBudget.policy \"b\" is invalid: spec.minAvailable: Invalid value: -1: must be greater than or \
         equal to 0"
    );
}

async fn taints_have_a_key_and_an_effect(client: Client) {
    let node = json!({ "metadata": { "name": "tainted" }, "spec": { "taints": [
        { "key": "a", "effect": "Huh" },
        { "key": "b b", "effect": "NoSchedule" },
        { "key": "c" },
    ] } });
    let refused = post(&client, NODES, node).await;
    assert_eq!(
        causes(&refused),
        [
            ("metadata.taints[0].effect", "FieldValueNotSupported"),
            ("metadata.taints[1].key", "FieldValueInvalid"),
            ("metadata.taints[2].effect", "FieldValueRequired"),
        ]
    );
}
