//! What objects may look like: field validation, types, defaults, generated values, the rules of kinds.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

crate::scenarios![
    unknown_fields_are_dropped_with_a_warning,
    duplicate_fields_warn_and_the_last_one_counts,
    strict_requests_refuse_unknown_fields,
    strict_patches_refuse_what_they_bring,
    ignored_fields_are_dropped_without_a_word,
    an_unknown_field_validation_is_refused,
    values_of_the_wrong_type_are_refused,
    a_patch_to_a_wrong_type_is_refused,
    times_and_quantities_must_be_such,
    zero_values_are_left_out_or_written_as_the_type_says,
    empty_objects_show_what_is_always_written,
    a_pod_gets_its_defaults_and_its_creator_owns_them,
    requests_are_taken_from_limits_and_make_the_quality_of_service,
    volumes_and_probes_have_defaults,
    workloads_have_one_replica_and_a_strategy,
    a_replication_controller_selects_what_its_template_makes,
    a_job_selects_its_own_pods,
    a_job_with_completions_keeps_them,
    a_namespace_is_active_and_labelled_with_its_name,
    claims_ask_for_one_device,
    bindings_name_the_group_of_their_role,
    a_status_cannot_be_created_with_the_object,
    names_follow_rfc_1123,
    labels_and_annotations_have_a_syntax,
    finalizers_and_owners_are_checked,
    a_pod_needs_containers_with_name_and_image,
    little_of_a_pod_can_change,
    selectors_of_workloads_match_their_templates_and_do_not_change,
    a_job_must_end_and_keeps_its_template,
    a_budget_has_one_bound,
    claims_do_not_change,
    roles_of_bindings_do_not_change,
    taints_and_provider_ids_are_checked,
    leases_last_some_time,
    immutable_config_maps_do_not_change,
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

fn job(name: &str) -> Value {
    let mut template = template();
    template["spec"]["restartPolicy"] = json!("Never");
    json!({ "metadata": { "name": name }, "spec": { "template": template } })
}

fn warnings(answer: &Answer) -> Vec<&str> {
    answer
        .headers
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect()
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

async fn unknown_fields_are_dropped_with_a_warning(client: Client) {
    let node = json!({ "metadata": { "name": "unknown" }, "spec": { "nope": 1, "providerID": "p" } });
    let created = post(&client, NODES, node).await;
    assert_eq!(
        (created.code, warnings(&created)),
        (201, vec!["299 - \"unknown field \\\"spec.nope\\\"\""])
    );
    assert_eq!(created.body["spec"].get("nope"), None);
    let uri = format!("{NODES}/unknown");
    for content_type in [MERGE, STRATEGIC] {
        let patched = patch(&client, &uri, content_type, json!({ "status": {}, "extra": {} })).await;
        assert_eq!(
            (patched.code, warnings(&patched)),
            (200, vec!["299 - \"unknown field \\\"extra\\\"\""])
        );
    }
    let added = json!([{ "op": "add", "path": "/spec/more", "value": 1 }]);
    let added = patch(&client, &uri, JSON_PATCH, added).await;
    assert_eq!(
        (added.code, warnings(&added)),
        (200, vec!["299 - \"unknown field \\\"spec.more\\\"\""])
    );
    let mut update = created.body.clone();
    update["metadata"]["resourceVersion"] = Value::Null;
    update["spec"]["nope"] = json!(2);
    let updated = put(&client, &uri, update).await;
    assert_eq!(warnings(&updated), ["299 - \"unknown field \\\"spec.nope\\\"\""]);
    assert_eq!(
        updated.body["metadata"]["resourceVersion"],
        created.body["metadata"]["resourceVersion"]
    );
}

async fn duplicate_fields_warn_and_the_last_one_counts(client: Client) {
    let text = r#"{"metadata":{"name":"twice"},"data":{"a":"1","a":"2"}}"#;
    let created = post_text(&client, CONFIG_MAPS, text).await;
    assert_eq!(
        (created.code, warnings(&created), &created.body["data"]),
        (
            201,
            vec!["299 - \"duplicate field \\\"data.a\\\"\""],
            &json!({ "a": "2" })
        )
    );
    let uri = format!("{CONFIG_MAPS}/twice");
    for content_type in [MERGE, STRATEGIC] {
        let patched = patch_text(&client, &uri, content_type, r#"{"data":{"b":"1","b":"2"}}"#).await;
        assert_eq!(
            (patched.code, warnings(&patched), &patched.body["data"]["b"]),
            (200, vec!["299 - \"duplicate field \\\"data.b\\\"\""], &json!("2"))
        );
    }
}

async fn strict_requests_refuse_unknown_fields(client: Client) {
    let strict = |uri: &str| format!("{uri}?fieldValidation=Strict");
    let node = json!({ "metadata": { "name": "strict" }, "spec": { "nope": 1 } });
    let refused = post(&client, strict(NODES), node.clone()).await;
    assert_eq!(
        refused.body,
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Node in version \"v1\" cannot be handled as a Node: strict decoding error: unknown field \
                        \"spec.nope\"",
            "reason": "BadRequest",
            "code": 400,
        })
    );
    create(&client, NODES, json!({ "metadata": { "name": "strict" } })).await;
    let refused = put(&client, strict(&format!("{NODES}/strict")), node).await;
    assert_eq!(refused.code, 400);
    let text = r#"{"metadata":{"name":"strict"},"data":{"a":"1","a":"2"}}"#;
    let refused = post_text(&client, strict(CONFIG_MAPS), text).await;
    assert_eq!(
        message(&refused),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \
         \"data.a\""
    );
}

async fn strict_patches_refuse_what_they_bring(client: Client) {
    create(&client, NODES, json!({ "metadata": { "name": "strict" } })).await;
    let uri = format!("{NODES}/strict?fieldValidation=Strict");
    let unknown = json!({ "spec": { "nope": 1 } });
    let operations = json!([{ "op": "add", "path": "/spec/nope", "value": 1 }]);
    for (content_type, body) in [
        (MERGE, &unknown),
        (STRATEGIC, &unknown),
        (JSON_PATCH, &operations),
    ] {
        let refused = patch(&client, &uri, content_type, body.clone()).await;
        assert_eq!(causes(&refused), [("patch", "FieldValueInvalid")]);
        assert!(
            message(&refused).starts_with(" \"\" is invalid: patch: Invalid value: ")
                && message(&refused).ends_with(": strict decoding error: unknown field \"spec.nope\""),
            "{refused:?}"
        );
    }
    let text = r#"{"spec":{"unschedulable":true,"unschedulable":false}}"#;
    for content_type in [MERGE, STRATEGIC] {
        let refused = patch_text(&client, &uri, content_type, text).await;
        assert!(
            message(&refused).ends_with(": strict decoding error: duplicate field \"spec.unschedulable\""),
            "{refused:?}"
        );
    }
}

async fn ignored_fields_are_dropped_without_a_word(client: Client) {
    let node = json!({ "metadata": { "name": "ignored" }, "spec": { "nope": 1 } });
    let created = post(&client, format!("{NODES}?fieldValidation=Ignore"), node).await;
    assert_eq!((created.code, warnings(&created).len()), (201, 0));
    assert_eq!(created.body["spec"].get("nope"), None);
}

async fn an_unknown_field_validation_is_refused(client: Client) {
    let refused = post(&client, format!("{NODES}?fieldValidation=Huh"), json!({})).await;
    assert_eq!(
        message(&refused),
        "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Huh\": supported values: \
         \"\", \"Ignore\", \"Strict\", \"Warn\""
    );
    assert_eq!(causes(&refused), [("fieldValidation", "FieldValueNotSupported")]);
}

async fn values_of_the_wrong_type_are_refused(client: Client) {
    let refusal = async |uri: &str, object: Value| {
        let refused = post(&client, uri, object).await;
        assert_eq!(
            (refused.code, &refused.body["reason"]),
            (400, &json!("BadRequest"))
        );
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

async fn requests_are_taken_from_limits_and_make_the_quality_of_service(client: Client) {
    let class = async |name: &str, resources: Value| {
        let mut object = pod(name);
        object["spec"]["containers"][0]["resources"] = resources;
        let object = create(&client, PODS, object).await;
        (
            object["status"]["qosClass"].as_str().unwrap().to_owned(),
            object["spec"]["containers"][0]["resources"]["requests"].clone(),
        )
    };
    let both = json!({ "cpu": "1", "memory": "1Gi" });
    assert_eq!(
        class("guaranteed", json!({ "limits": both })).await,
        ("Guaranteed".to_owned(), both)
    );
    let cpu = json!({ "cpu": "1" });
    assert_eq!(
        class("burstable", json!({ "requests": cpu })).await,
        ("Burstable".to_owned(), cpu)
    );
}

async fn volumes_and_probes_have_defaults(client: Client) {
    let mut object = pod("volumes");
    object["spec"]["volumes"] = json!([
        { "name": "a" },
        { "name": "b", "hostPath": { "path": "/x" } },
        { "name": "c", "configMap": { "name": "c" } },
    ]);
    object["spec"]["containers"][0]["livenessProbe"] = json!({ "httpGet": { "port": 80 } });
    object["spec"]["containers"][0]["env"] =
        json!([{ "name": "N", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }]);
    let object = create(&client, PODS, object).await;
    assert_eq!(
        object["spec"]["volumes"],
        json!([
            { "name": "a", "emptyDir": {} },
            { "name": "b", "hostPath": { "path": "/x", "type": "" } },
            { "name": "c", "configMap": { "name": "c", "defaultMode": 420 } },
        ])
    );
    assert_eq!(
        object["spec"]["containers"][0]["livenessProbe"],
        json!({
            "httpGet": { "path": "/", "port": 80, "scheme": "HTTP" },
            "failureThreshold": 3,
            "periodSeconds": 10,
            "successThreshold": 1,
            "timeoutSeconds": 1,
        })
    );
    assert_eq!(
        object["spec"]["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["apiVersion"],
        "v1"
    );
}

async fn workloads_have_one_replica_and_a_strategy(client: Client) {
    let deployment = create(&client, DEPLOYMENTS, workload("w")).await;
    let spec = &deployment["spec"];
    assert_eq!(
        (
            &spec["replicas"],
            &spec["revisionHistoryLimit"],
            &spec["progressDeadlineSeconds"]
        ),
        (&json!(1), &json!(10), &json!(600))
    );
    assert_eq!(
        spec["strategy"],
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } })
    );
    assert_eq!(
        deployment["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:strategy"],
        json!({ "f:rollingUpdate": { ".": {}, "f:maxSurge": {}, "f:maxUnavailable": {} }, "f:type": {} })
    );
    let mut recreate = workload("recreate");
    recreate["spec"]["strategy"] = json!({ "type": "Recreate" });
    let recreate = create(&client, DEPLOYMENTS, recreate).await;
    assert_eq!(recreate["spec"]["strategy"], json!({ "type": "Recreate" }));
    let set = create(&client, REPLICA_SETS, workload("w")).await;
    assert_eq!(set["spec"]["replicas"], 1);
    let set = create(&client, STATEFUL_SETS, workload("w")).await;
    assert_eq!(
        (
            &set["spec"]["replicas"],
            &set["spec"]["serviceName"],
            &set["spec"]["podManagementPolicy"],
            &set["spec"]["updateStrategy"],
            &set["spec"]["persistentVolumeClaimRetentionPolicy"],
        ),
        (
            &json!(1),
            &json!(""),
            &json!("OrderedReady"),
            &json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } }),
            &json!({ "whenDeleted": "Retain", "whenScaled": "Retain" }),
        )
    );
    let set = create(&client, DAEMON_SETS, workload("w")).await;
    assert_eq!(
        set["spec"]["updateStrategy"],
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } })
    );
    assert_eq!(
        set["metadata"]["annotations"],
        json!({ "deprecated.daemonset.template.generation": "1" })
    );
}

async fn a_replication_controller_selects_what_its_template_makes(client: Client) {
    let object = json!({ "metadata": { "name": "rc" }, "spec": { "template": template() } });
    let object = create(&client, REPLICATION_CONTROLLERS, object).await;
    assert_eq!(
        (
            &object["spec"]["selector"],
            &object["metadata"]["labels"],
            &object["spec"]["replicas"]
        ),
        (&json!({ "a": "b" }), &json!({ "a": "b" }), &json!(1))
    );
}

async fn a_job_selects_its_own_pods(client: Client) {
    let object = create(&client, JOBS, job("own")).await;
    let uid = &object["metadata"]["uid"];
    let labels = json!({
        "a": "b",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "own",
        "controller-uid": uid,
        "job-name": "own",
    });
    assert_eq!(object["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(
        object["spec"]["selector"],
        json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": uid } })
    );
    for (field, value) in [
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("completions", json!(1)),
        ("manualSelector", json!(false)),
        ("parallelism", json!(1)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
        ("suspend", json!(false)),
    ] {
        assert_eq!(object["spec"][field], value, "{field}");
    }
    // What is generated has no owner.
    let owned = &object["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    assert_eq!(
        (owned.get("f:selector"), &owned["f:template"]["f:metadata"]),
        (None, &json!({ "f:labels": { ".": {}, "f:a": {} } }))
    );
    assert_eq!(object["status"], json!({}));
}

async fn a_job_with_completions_keeps_them(client: Client) {
    let mut object = job("completions");
    object["spec"]["completions"] = json!(3);
    let object = create(&client, JOBS, object).await;
    assert_eq!(
        (&object["spec"]["completions"], &object["spec"]["parallelism"]),
        (&json!(3), &json!(1))
    );
    let mut object = job("queue");
    object["spec"]["parallelism"] = json!(2);
    let object = create(&client, JOBS, object).await;
    assert_eq!(
        (object["spec"].get("completions"), &object["spec"]["parallelism"]),
        (None, &json!(2))
    );
}

async fn a_namespace_is_active_and_labelled_with_its_name(client: Client) {
    // Namespaces cannot be swept.
    let uri = format!("{NAMESPACES}?dryRun=All");
    let namespace = post(&client, uri, json!({ "metadata": { "name": "labelled" } }))
        .await
        .body;
    assert_eq!(
        namespace["metadata"]["labels"],
        json!({ "kubernetes.io/metadata.name": "labelled" })
    );
    assert_eq!(
        (&namespace["spec"], &namespace["status"]),
        (
            &json!({ "finalizers": ["kubernetes"] }),
            &json!({ "phase": "Active" })
        )
    );
    assert_eq!(
        namespace["metadata"]["managedFields"][0]["fieldsV1"],
        json!({ "f:metadata": { "f:labels": { ".": {}, "f:kubernetes.io/metadata.name": {} } } })
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

fn binding(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "roleRef": { "kind": "ClusterRole", "name": "x" },
        "subjects": [
            { "kind": "User", "name": "u" },
            { "kind": "ServiceAccount", "name": "s", "namespace": "default" },
        ],
    })
}

async fn bindings_name_the_group_of_their_role(client: Client) {
    let group = "rbac.authorization.k8s.io";
    let object = create(&client, ROLE_BINDINGS, binding("b")).await;
    assert_eq!(
        object["roleRef"],
        json!({ "apiGroup": group, "kind": "ClusterRole", "name": "x" })
    );
    assert_eq!(
        object["subjects"],
        json!([
            { "apiGroup": group, "kind": "User", "name": "u" },
            { "kind": "ServiceAccount", "name": "s", "namespace": "default" },
        ])
    );
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
    let large = with(json!({ "annotations": { "a": "x".repeat(256 * 1024) } })).await;
    assert_eq!(causes(&large), [("metadata.annotations", "FieldValueTooLong")]);
    create(&client, CONFIG_MAPS, json!({ "metadata": { "name": "fine" } })).await;
    let patched = json!({ "metadata": { "labels": { "a b": "c" } } });
    let patched = patch(&client, format!("{CONFIG_MAPS}/fine"), MERGE, patched).await;
    let mut found = causes(&patched);
    // An update is checked several times.
    found.dedup();
    assert_eq!(found, [("metadata.labels", "FieldValueInvalid")]);
}

async fn finalizers_and_owners_are_checked(client: Client) {
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
    let spaced = with(json!({ "finalizers": ["x y/z"] })).await;
    assert_eq!(causes(&spaced), [("metadata.finalizers", "FieldValueInvalid")]);
    let nobody = with(json!({ "ownerReferences": [{ "kind": "Pod" }] })).await;
    assert_eq!(
        message(&nobody),
        "ConfigMap \"checked\" is invalid: [metadata.ownerReferences.apiVersion: Invalid value: \"\": version must \
         not be empty, metadata.ownerReferences.name: Invalid value: \"\": must not be empty, \
         metadata.ownerReferences.uid: Invalid value: \"\": must not be empty]"
    );
    let owner = |name: &str| json!({ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": true });
    let two = with(json!({ "ownerReferences": [owner("a"), owner("b")] })).await;
    assert_eq!(causes(&two), [("metadata.ownerReferences", "FieldValueInvalid")]);
    assert!(
        message(&two).ends_with(
            ": Only one reference can have Controller set to true. Found \"true\" in references for Pod/a and Pod/b"
        ),
        "{two:?}"
    );
}

async fn a_pod_needs_containers_with_name_and_image(client: Client) {
    let empty = post(&client, PODS, json!({ "metadata": { "name": "p" }, "spec": {} })).await;
    assert_eq!(
        message(&empty),
        "Pod \"p\" is invalid: spec.containers: Required value"
    );
    let mut bare = pod("p");
    bare["spec"]["containers"] = json!([{ "name": "C_" }, {}]);
    assert_eq!(
        causes(&post(&client, PODS, bare).await),
        [
            ("spec.containers[0].name", "FieldValueInvalid"),
            ("spec.containers[0].image", "FieldValueRequired"),
            ("spec.containers[1].name", "FieldValueRequired"),
            ("spec.containers[1].image", "FieldValueRequired"),
        ]
    );
    let mut tolerating = pod("p");
    tolerating["spec"]["tolerations"] = json!([
        { "key": "a", "operator": "Exists", "value": "x" },
        { "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3 },
    ]);
    assert_eq!(
        causes(&post(&client, PODS, tolerating).await),
        [
            ("spec.tolerations[0].operator", "FieldValueInvalid"),
            ("spec.tolerations[1].effect", "FieldValueInvalid"),
        ]
    );
    let mut deployment = workload("d");
    deployment["spec"]["template"]["spec"]["containers"] = json!([]);
    assert_eq!(
        causes(&post(&client, DEPLOYMENTS, deployment).await),
        [("spec.template.spec.containers", "FieldValueRequired")]
    );
}

async fn little_of_a_pod_can_change(client: Client) {
    let mut object = pod("fixed");
    object["spec"]["tolerations"] = json!([{ "key": "a", "operator": "Exists" }]);
    create(&client, PODS, object).await;
    let uri = format!("{PODS}/fixed");
    for change in [
        json!({ "nodeName": "n1" }),
        json!({ "restartPolicy": "Never" }),
        json!({ "containers": [{ "name": "c", "args": ["x"] }] }),
    ] {
        let refused = patch(&client, &uri, STRATEGIC, json!({ "spec": change })).await;
        assert_eq!(causes(&refused), [("spec", "FieldValueForbidden")]);
        assert!(
            message(&refused).starts_with(
                "Pod \"fixed\" is invalid: spec: Forbidden: pod updates may not change fields other than \
                 `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                 `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
                 (allow it to be set to 1 if it was previously negative)"
            ),
            "{refused:?}"
        );
    }
    // Tolerations are replaced as a whole, and admission adds two that a patch must not lose.
    let tolerations = get(&client, &uri).await.body["spec"]["tolerations"].clone();
    let mut more = tolerations.as_array().unwrap().clone();
    more.push(json!({ "key": "b", "operator": "Exists" }));
    let allowed = json!({ "spec": {
        "containers": [{ "name": "c", "image": "i:2" }],
        "activeDeadlineSeconds": 5,
        "tolerations": more,
    } });
    let changed = patch(&client, &uri, STRATEGIC, allowed).await;
    assert_eq!(
        (changed.code, &changed.body["metadata"]["generation"]),
        (200, &json!(2))
    );
    let refused = patch(&client, &uri, STRATEGIC, json!({ "spec": { "tolerations": [] } })).await;
    assert_eq!(
        message(&refused),
        "Pod \"fixed\" is invalid: spec.tolerations: Forbidden: existing toleration can not be modified except its \
         tolerationSeconds"
    );
    let refused = patch(
        &client,
        &uri,
        MERGE,
        json!({ "spec": { "activeDeadlineSeconds": null } }),
    )
    .await;
    assert_eq!(
        message(&refused),
        "Pod \"fixed\" is invalid: spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive \
         integer to nil value"
    );
    let second = json!({ "spec": { "containers": [{ "name": "d", "image": "x" }] } });
    let refused = patch(&client, &uri, STRATEGIC, second).await;
    assert_eq!(
        message(&refused),
        "Pod \"fixed\" is invalid: spec.containers: Forbidden: pod updates may not add or remove containers"
    );
}

async fn selectors_of_workloads_match_their_templates_and_do_not_change(client: Client) {
    let mut unmatched = workload("w");
    unmatched["spec"]["replicas"] = json!(-1);
    unmatched["spec"]["selector"] = json!({ "matchLabels": { "x": "y" } });
    let unmatched = post(&client, DEPLOYMENTS, unmatched).await;
    assert_eq!(
        message(&unmatched),
        "Deployment.apps \"w\" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, \
         spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`]"
    );
    let mut none = workload("w");
    none["spec"]["selector"] = Value::Null;
    let none = post(&client, DEPLOYMENTS, none).await;
    assert!(
        causes(&none).contains(&("spec.selector", "FieldValueRequired")),
        "{none:?}"
    );
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
    create(&client, STATEFUL_SETS, workload("w")).await;
    let renamed = json!({ "spec": { "serviceName": "other" } });
    let renamed = patch(&client, format!("{STATEFUL_SETS}/w"), MERGE, renamed).await;
    assert_eq!(causes(&renamed), [("spec", "FieldValueForbidden")]);
}

async fn a_job_must_end_and_keeps_its_template(client: Client) {
    let mut endless = job("j");
    endless["spec"]["backoffLimit"] = json!(-1);
    endless["spec"]["template"]["spec"]["restartPolicy"] = Value::Null;
    let endless = post(&client, JOBS, endless).await;
    assert_eq!(
        message(&endless),
        "Job.batch \"j\" is invalid: [spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0, \
         spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"]"
    );
    create(&client, JOBS, job("j")).await;
    let uri = format!("{JOBS}/j");
    let changed = json!({ "spec": { "completions": 5 } });
    assert_eq!(
        message(&patch(&client, &uri, MERGE, changed).await),
        "Job.batch \"j\" is invalid: spec.completions: Invalid value: 5: field is immutable"
    );
    let changed = json!({ "spec": { "template": { "metadata": { "labels": { "q": "r" } } } } });
    assert_eq!(
        causes(&patch(&client, &uri, MERGE, changed.clone()).await),
        [("spec.template", "FieldValueInvalid")]
    );
    let allowed = json!({ "spec": {
        "parallelism": 2,
        "suspend": true,
        "ttlSecondsAfterFinished": 5,
        "backoffLimit": 1,
    } });
    assert_eq!(patch(&client, &uri, MERGE, allowed).await.code, 200);
    // A suspended job that has not started may still be rewritten.
    assert_eq!(patch(&client, &uri, MERGE, changed).await.code, 200);
}

async fn a_budget_has_one_bound(client: Client) {
    let with = async |spec: Value| {
        post(
            &client,
            PDBS,
            json!({ "metadata": { "name": "b" }, "spec": spec }),
        )
        .await
    };
    let both = with(json!({ "minAvailable": 1, "maxUnavailable": 1 })).await;
    assert_eq!(causes(&both), [("spec", "FieldValueInvalid")]);
    assert!(
        message(&both).ends_with(": minAvailable and maxUnavailable cannot be both set"),
        "{both:?}"
    );
    let invalid = "PodDisruptionBudget.policy \"b\" is invalid: spec.";
    assert_eq!(
        message(&with(json!({ "minAvailable": -1 })).await),
        format!("{invalid}minAvailable: Invalid value: -1: must be greater than or equal to 0")
    );
    assert_eq!(
        message(&with(json!({ "maxUnavailable": "101%" })).await),
        format!("{invalid}maxUnavailable: Invalid value: \"101%\": must not be greater than 100%")
    );
    assert_eq!(
        message(&with(json!({ "maxUnavailable": "x" })).await),
        format!(
            "{invalid}maxUnavailable: Invalid value: \"x\": a valid percent string must be a numeric string followed by \
             an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
    );
    let expressions = json!({ "selector": { "matchExpressions": [
        { "key": "a", "operator": "Huh" },
        { "key": "a", "operator": "In" },
        { "key": "b", "operator": "Exists", "values": ["x"] },
    ] } });
    assert_eq!(
        causes(&with(expressions).await),
        [
            ("spec.selector.matchExpressions[0].operator", "FieldValueInvalid"),
            ("spec.selector.matchExpressions[1].values", "FieldValueRequired"),
            ("spec.selector.matchExpressions[2].values", "FieldValueForbidden"),
        ]
    );
    assert_eq!(with(json!({})).await.code, 201);
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

async fn roles_of_bindings_do_not_change(client: Client) {
    create(&client, ROLE_BINDINGS, binding("fixed")).await;
    let other = json!({ "roleRef": { "name": "y" } });
    let refused = patch(&client, format!("{ROLE_BINDINGS}/fixed"), MERGE, other).await;
    assert_eq!(causes(&refused), [("roleRef", "FieldValueInvalid")]);
    assert!(
        message(&refused).ends_with(": cannot change roleRef"),
        "{refused:?}"
    );
    let mut wrong = binding("wrong");
    wrong["roleRef"] = json!({});
    wrong["subjects"] = json!([{ "kind": "ServiceAccount", "name": "x" }, { "kind": "Foo", "name": "u" }]);
    assert_eq!(
        causes(&post(&client, ROLE_BINDINGS, wrong).await),
        [
            ("roleRef.kind", "FieldValueNotSupported"),
            ("roleRef.name", "FieldValueRequired"),
            ("subjects[1].kind", "FieldValueNotSupported"),
        ]
    );
}

async fn taints_and_provider_ids_are_checked(client: Client) {
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
    create(&client, NODES, json!({ "metadata": { "name": "provided" } })).await;
    let uri = format!("{NODES}/provided");
    let provider = |id: &str| json!({ "spec": { "providerID": id } });
    assert_eq!(patch(&client, &uri, MERGE, provider("x")).await.code, 200);
    assert_eq!(
        message(&patch(&client, &uri, MERGE, provider("y")).await),
        "Node \"provided\" is invalid: spec.providerID: Forbidden: node updates may not change providerID except from \
         \"\" to valid"
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

async fn immutable_config_maps_do_not_change(client: Client) {
    let object = json!({ "metadata": { "name": "fixed" }, "immutable": true, "data": { "a": "b" } });
    create(&client, CONFIG_MAPS, object).await;
    let uri = format!("{CONFIG_MAPS}/fixed");
    let refused = patch(&client, &uri, MERGE, json!({ "data": { "a": "c" } })).await;
    assert_eq!(
        message(&refused),
        "ConfigMap \"fixed\" is invalid: data: Forbidden: field is immutable when `immutable` is set"
    );
    let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
    assert_eq!(patch(&client, &uri, MERGE, labelled).await.code, 200);
}
