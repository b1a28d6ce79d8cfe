//! Objects in protobuf: the embedded server's encoding is that of the real one.
//!
//! Each scenario reads objects of a server in JSON and in protobuf, and converts each into the other. On the real
//! server this proves that the embedded server would write the same bytes.

use bytes::Bytes;
use embedded_apiserver::{from_protobuf, to_protobuf};
use kube::Client;
use serde_json::{Value, json};

use crate::claims::{self, allocated};
use crate::http::*;
use crate::kinds::every_kind;
use crate::objects::{job, labels, pod, workload};
use crate::protobuf::fetch;

crate::scenarios![
    every_kind_is_in_protobuf_what_it_is_in_json,
    a_rich_pod_is_in_protobuf_what_it_is_in_json,
    a_rich_node_is_in_protobuf_what_it_is_in_json,
    workloads_are_in_protobuf_what_they_are_in_json,
    budgets_claims_and_their_kin_are_in_protobuf_what_they_are_in_json,
    leases_and_events_are_in_protobuf_what_they_are_in_json,
    roles_and_texts_are_in_protobuf_what_they_are_in_json,
];

/// Fails unless JSON and protobuf show the same object.
async fn is_the_same(client: &Client, uri: &str) {
    let in_json = read(client, uri).await;
    let in_protobuf = fetch(client, uri, PROTOBUF).await;
    in_protobuf.is(200, "application/vnd.kubernetes.protobuf");
    is_of(&in_protobuf.body, &in_json);
}

/// Fails unless the bytes encode this object.
fn is_of(body: &Bytes, in_json: &Value) {
    let read = from_protobuf(body).unwrap();
    assert_eq!(format!("{read:#}"), format!("{in_json:#}"));
    is_written(in_json, body);
}

fn is_written(in_json: &Value, body: &Bytes) {
    let written = to_protobuf(in_json).unwrap();
    assert_eq!(
        written.escape_ascii().to_string(),
        body.escape_ascii().to_string()
    );
}

/// Creates an object and compares its encodings.
pub(crate) async fn compare(client: &Client, collection: &str, object: Value) {
    let name = create(client, collection, object).await["metadata"]["name"].clone();
    is_the_same(client, &format!("{collection}/{}", name.as_str().unwrap())).await;
}

async fn every_kind_is_in_protobuf_what_it_is_in_json(client: Client) {
    for kind in every_kind() {
        compare(&client, kind.uri, kind.object("same")).await;
        let mut list = read(&client, kind.uri).await;
        let in_protobuf = fetch(&client, kind.uri, PROTOBUF).await;
        in_protobuf.is(200, "application/vnd.kubernetes.protobuf");
        // The server's own writes in between change the version of a list.
        let version = in_protobuf.read()["metadata"]["resourceVersion"].clone();
        list["metadata"]["resourceVersion"] = version;
        is_of(&in_protobuf.body, &list);
    }
}

fn rich_containers() -> Value {
    json!([{
        "name": "c",
        "image": "registry.example.com/c:1",
        "command": ["sh", "-c", ""],
        "ports": [{ "name": "http", "containerPort": 80, "protocol": "TCP" }, { "containerPort": 53, "protocol": "UDP" }],
        "env": [
            { "name": "A", "value": "b" },
            { "name": "EMPTY" },
            { "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
            { "name": "KEY", "valueFrom": { "configMapKeyRef": { "name": "m", "key": "k", "optional": false } } },
            { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1m" } } },
        ],
        "envFrom": [{ "prefix": "P_", "secretRef": { "name": "s" } }],
        "resources": {
            "limits": { "memory": "1Gi", "cpu": "500m" },
            "requests": { "memory": "1Gi", "cpu": "250m" },
            "claims": [{ "name": "gpu", "request": "r" }],
        },
        "volumeMounts": [{ "name": "data", "mountPath": "/data", "readOnly": true }],
        "readinessProbe": { "httpGet": { "path": "/", "port": "http", "scheme": "HTTPS" }, "periodSeconds": 7 },
        "livenessProbe": { "tcpSocket": { "port": 80 }, "initialDelaySeconds": 3 },
        "lifecycle": { "preStop": { "sleep": { "seconds": 1 } } },
        "securityContext": { "runAsUser": 0, "privileged": false, "capabilities": { "drop": ["ALL"] } },
    }])
}

fn rich_pod() -> Value {
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a", "b"] }] }],
    } } });
    let mut pod = pod(
        "rich",
        json!({
            "containers": rich_containers(),
            "initContainers": [{ "name": "i", "image": "i", "restartPolicy": "Always" }],
            "volumes": [
                { "name": "data", "emptyDir": { "sizeLimit": "1Gi" } },
                { "name": "host", "hostPath": { "path": "/var", "type": "" } },
                { "name": "all", "projected": { "defaultMode": 420, "sources": [
                    { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
                    { "downwardAPI": { "items": [{ "path": "ns", "fieldRef": { "fieldPath": "metadata.namespace" } }] } },
                ] } },
            ],
            "terminationGracePeriodSeconds": 2,
            "serviceAccountName": "s",
            "activeDeadlineSeconds": 100,
            "tolerations": [
                { "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0 },
                { "operator": "Exists" },
            ],
            "affinity": affinity,
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {},
            }],
            "resourceClaims": [{ "name": "gpu", "resourceClaimName": "claim" }],
            "hostAliases": [{ "ip": "10.0.0.1", "hostnames": ["h"] }],
            "schedulingGates": [{ "name": "example.com/gate" }],
            "readinessGates": [{ "conditionType": "example.com/ready" }],
            "enableServiceLinks": false,
            "hostname": "h",
            "dnsConfig": { "options": [{ "name": "ndots", "value": "2" }, { "name": "edns0" }] },
        }),
    );
    pod["spec"]["nodeSelector"] = json!({ "zone": "a", "arch": "b" });
    pod["metadata"] = json!({
        "name": "rich",
        "labels": { "b": "2", "a": "", "example.com/c": "3" },
        "annotations": { "text": "grüße\n\"<&>\"", "empty": "" },
        "finalizers": ["example.com/f"],
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "u", "controller": true,
            "blockOwnerDeletion": false,
        }],
    });
    pod
}

async fn a_rich_pod_is_in_protobuf_what_it_is_in_json(client: Client) {
    compare(&client, PODS, rich_pod()).await;
    let status = json!({ "status": {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "podIP": "10.0.0.2",
        "podIPs": [{ "ip": "10.0.0.2" }],
        "conditions": [
            { "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:01Z", "reason": "R", "message": "m" },
            { "type": "Initialized", "status": "True", "lastProbeTime": "2026-01-01T00:00:02Z", "lastTransitionTime": null },
        ],
        "containerStatuses": [{
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 3, "started": false,
            "state": { "running": { "startedAt": "2026-01-01T00:00:03Z" } },
            "lastState": { "terminated": { "exitCode": 137, "startedAt": null, "finishedAt": "2026-01-01T00:00:03Z" } },
        }],
    } });
    let uri = format!("{PODS}/rich");
    merge(&client, format!("{uri}/status"), status).await;
    is_the_same(&client, &uri).await;
    // A waiting deletion has a time and a grace period.
    let options = json!({ "gracePeriodSeconds": 0 });
    assert_eq!(delete(&client, &uri, options).await.code, 200);
    is_the_same(&client, &uri).await;
    release(&client, &uri).await;
}

async fn a_rich_node_is_in_protobuf_what_it_is_in_json(client: Client) {
    let node = json!({
        "metadata": { "name": "rich", "labels": labels() },
        "spec": {
            "podCIDR": "10.0.0.0/24",
            "podCIDRs": ["10.0.0.0/24"],
            "providerID": "p://1",
            "unschedulable": true,
            "taints": [
                { "key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" },
                { "key": "b", "value": "v", "effect": "NoSchedule" },
            ],
        },
        "status": {
            "capacity": { "cpu": "4", "memory": "16Gi", "pods": "110" },
            "allocatable": { "cpu": "3500m" },
            "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z" }],
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "nodeInfo": { "kubeletVersion": "v1.37.2" },
            "images": [{ "names": ["i"], "sizeBytes": 7_000_000_000_i64 }],
        },
    });
    compare(&client, NODES, node).await;
}

async fn workloads_are_in_protobuf_what_they_are_in_json(client: Client) {
    let mut deployment = workload("w", &pod("p", json!({ "containers": rich_containers() })));
    deployment["spec"]["template"]["spec"]["volumes"] = json!([{ "name": "data", "emptyDir": {} }]);
    deployment["spec"]["template"]["spec"]["resourceClaims"] =
        json!([{ "name": "gpu", "resourceClaimTemplateName": "t" }]);
    deployment["spec"]["replicas"] = json!(0);
    deployment["spec"]["strategy"] =
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 0 } });
    compare(&client, DEPLOYMENTS, deployment).await;
    let status = json!({ "status": { "replicas": 2, "observedGeneration": 1 } });
    merge(&client, format!("{DEPLOYMENTS}/w/status"), status).await;
    is_the_same(&client, &format!("{DEPLOYMENTS}/w")).await;

    let plain = workload("w", &pod("p", Value::Null));
    compare(&client, REPLICA_SETS, plain.clone()).await;
    compare(&client, DAEMON_SETS, plain.clone()).await;
    let mut stateful_set = plain.clone();
    stateful_set["spec"]["serviceName"] = json!("s");
    stateful_set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "v" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    let created = create(&client, STATEFUL_SETS, stateful_set).await;
    // Protobuf omits the kind of a volume claim template, so the object cannot be restored from it.
    let body = fetch(&client, &format!("{STATEFUL_SETS}/w"), PROTOBUF).await.body;
    is_written(&created, &body);
    let mut controller = plain;
    controller["spec"]["selector"] = labels();
    compare(&client, REPLICATION_CONTROLLERS, controller).await;

    let mut job = job("j");
    job["spec"]["ttlSecondsAfterFinished"] = json!(0);
    job["spec"]["completionMode"] = json!("Indexed");
    job["spec"]["completions"] = json!(3);
    job["spec"]["parallelism"] = json!(2);
    job["spec"]["podFailurePolicy"] = json!({ "rules": [{
        "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }],
    }] });
    compare(&client, JOBS, job).await;
}

async fn budgets_claims_and_their_kin_are_in_protobuf_what_they_are_in_json(client: Client) {
    let budget = json!({
        "metadata": { "name": "b" },
        "spec": {
            "minAvailable": "50%",
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": { "matchExpressions": [{ "key": "a", "operator": "Exists" }] },
        },
    });
    compare(&client, PDBS, budget).await;
    let status = json!({ "status": {
        "disruptedPods": { "p": "2026-01-01T00:00:00Z", "o": "2026-01-01T00:00:01Z" },
        "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1,
        "conditions": [{
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        }],
    } });
    merge(&client, format!("{PDBS}/b/status"), status).await;
    is_the_same(&client, &format!("{PDBS}/b")).await;

    allocated(&client, "c", &[claims::pod("p", "1")]).await;
    is_the_same(&client, &format!("{CLAIMS}/c")).await;
    release(&client, format!("{CLAIMS}/c")).await;
    let spec = json!({ "devices": {
        "requests": [
            { "name": "one", "exactly": {
                "deviceClassName": "gpu.example.com", "count": 2, "allocationMode": "ExactCount",
                "selectors": [{ "cel": { "expression": "device.driver == 'gpu.example.com'" } }],
                "tolerations": [{ "key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5 }],
            } },
            { "name": "first", "firstAvailable": [{ "name": "a", "deviceClassName": "a.example.com" }] },
        ],
        "constraints": [{ "requests": ["one"], "matchAttribute": "example.com/numa" }],
        "config": [{ "requests": ["one"], "opaque": { "driver": "gpu.example.com", "parameters": { "a": [1, "b"] } } }],
    } });
    compare(
        &client,
        CLAIMS,
        json!({ "metadata": { "name": "d" }, "spec": spec }),
    )
    .await;
    let template =
        json!({ "metadata": { "name": "t" }, "spec": { "metadata": { "labels": labels() }, "spec": spec } });
    compare(&client, CLAIM_TEMPLATES, template).await;
}

async fn leases_and_events_are_in_protobuf_what_they_are_in_json(client: Client) {
    let lease = json!({
        "metadata": { "name": "l" },
        "spec": {
            "holderIdentity": "", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-01-01T00:00:00.000001Z", "renewTime": "1969-12-31T23:59:59.500000Z",
        },
    });
    compare(&client, LEASES, lease).await;
    let event = json!({
        "metadata": { "name": "e" },
        "involvedObject": { "kind": "Pod", "namespace": "default", "name": "p", "fieldPath": "spec" },
        "reason": "Tried", "message": "again", "type": "Normal", "count": 2,
        "source": { "component": "c", "host": "h" }, "reportingComponent": "c", "reportingInstance": "h",
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:01Z",
    });
    compare(&client, CORE_EVENTS, event).await;
    is_the_same(&client, &format!("{EVENTS}/e")).await;
}

async fn roles_and_texts_are_in_protobuf_what_they_are_in_json(client: Client) {
    let rule =
        json!({ "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"] });
    compare(
        &client,
        ROLES,
        json!({ "metadata": { "name": "r" }, "rules": [rule] }),
    )
    .await;
    let binding = json!({
        "metadata": { "name": "b" },
        "subjects": [
            { "kind": "ServiceAccount", "name": "s", "namespace": "default" },
            { "kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io" },
        ],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
    });
    compare(&client, ROLE_BINDINGS, binding).await;
    let texts = json!({
        "metadata": { "name": "m" },
        "immutable": false,
        "data": { "b": "", "a": "1" },
        "binaryData": { "c": "AP8=", "d": "" },
    });
    compare(&client, CONFIG_MAPS, texts).await;
    let account = json!({
        "metadata": { "name": "s" },
        "imagePullSecrets": [{ "name": "i" }],
        "automountServiceAccountToken": false,
    });
    compare(&client, SERVICE_ACCOUNTS, account).await;
    compare(&client, NAMESPACES, named("protobuf")).await;
}
