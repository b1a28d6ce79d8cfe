//! Pods as a busy cluster has them: two containers, probes, environment, status, managed fields.

use bytes::Bytes;
use serde_json::{Value, json};

use super::template::Template;
use crate::embedded::PODS;
use crate::embedded::managed_fields::{self, Part, Writer};
use crate::embedded::object::uid;

/// How many namespaces the pods are spread over.
const NAMESPACES: usize = 50;
/// How many pods belong to one ReplicaSet.
const REPLICAS: usize = 20;
/// Environment variables of each container beside those that every one has.
const VARIABLES: usize = 2;

/// A source of running pods, about 11 KB of JSON each.
#[derive(Debug)]
pub(in crate::embedded) struct Pods {
    form: Template,
    nodes: usize,
}

impl Pods {
    /// Pods on the nodes `node-1` to `node-<nodes>`; without nodes they are not bound.
    pub(in crate::embedded) fn new(nodes: usize, now: &str) -> Self {
        Self {
            form: Template::new(&form(nodes > 0, now)),
            nodes,
        }
    }

    /// Where the pod of this number, from 1, lives: `(namespace, name)`.
    pub(in crate::embedded) fn place(number: usize) -> (String, String) {
        let set = (number - 1) / REPLICAS;
        (
            format!("seed-{}", set % NAMESPACES),
            format!("app-{set}-{number:06}"),
        )
    }

    /// The stored form of the pod of this number, under `version`.
    pub(in crate::embedded) fn pod(&self, number: usize, identity: u64, version: u64) -> Bytes {
        let (namespace, name) = Self::place(number);
        let set = (number - 1) / REPLICAS;
        let node = if self.nodes == 0 {
            0
        } else {
            number % self.nodes + 1
        };
        let address = |network: u8, number: usize| {
            format!(
                "{network}.{}.{}.{}",
                number >> 16 & 255,
                number >> 8 & 255,
                number & 255
            )
        };
        self.form.fill(&[
            ("namespace", namespace),
            ("name", name),
            ("uid", uid(identity)),
            ("version", version.to_string()),
            ("app", format!("app-{set}")),
            ("set-uid", format!("00000000-0000-4000-b000-{set:012x}")),
            ("node", format!("node-{node}")),
            ("host-ip", address(10, node)),
            ("pod-ip", address(100, number)),
            ("container", format!("{number:064x}")),
        ])
    }
}

fn form(bound: bool, now: &str) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": "«name»",
            "generateName": "«app»-",
            "namespace": "«namespace»",
            "uid": "«uid»",
            "resourceVersion": "«version»",
            "generation": 1,
            "creationTimestamp": now,
            "labels": {
                "app.kubernetes.io/name": "«app»",
                "app.kubernetes.io/part-of": "«namespace»",
                "app.kubernetes.io/version": "1.17.3",
                "pod-template-hash": "7d4f8c6b9d",
            },
            "annotations": {
                "checksum/config": "5f2a9c0d3e8b71466a1fe0c9d27b8354«name»",
                "prometheus.io/path": "/metrics",
                "prometheus.io/port": "9090",
                "prometheus.io/scrape": "true",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "«app»",
                "uid": "«set-uid»",
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": spec(),
        "status": { "phase": "Pending", "qosClass": "Burstable" },
    });
    let creator = Writer {
        manager: "kube-controller-manager",
        now,
    };
    managed_fields::track(&PODS, None, &mut pod, Part::WithoutStatus, creator);
    if bound {
        pod["spec"]["nodeName"] = json!("«node»");
        let pending = pod.clone();
        pod["status"] = status(now);
        let kubelet = Writer {
            manager: "kubelet",
            now,
        };
        managed_fields::track(&PODS, Some(&pending), &mut pod, Part::Status, kubelet);
    }
    pod
}

fn spec() -> Value {
    json!({
        "containers": [container("server", 8080), container("proxy", 15090)],
        "volumes": [
            { "name": "config", "configMap": { "name": "«app»", "defaultMode": 420 } },
            { "name": "tmp", "emptyDir": {} },
            { "name": "kube-api-access", "projected": { "defaultMode": 420, "sources": [
                { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                { "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{ "key": "ca.crt", "path": "ca.crt" }],
                } },
            ] } },
        ],
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "labelSelector": { "matchLabels": { "app.kubernetes.io/name": "«app»" } },
                "topologyKey": "kubernetes.io/hostname",
            },
        }] } },
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": true,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": { "runAsNonRoot": true, "runAsUser": 65532, "fsGroup": 65532 },
        "serviceAccount": "«app»",
        "serviceAccountName": "«app»",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
        ],
    })
}

fn container(name: &str, port: u16) -> Value {
    let probe = |path: &str| {
        json!({
            "httpGet": { "path": path, "port": port, "scheme": "HTTP" },
            "initialDelaySeconds": 5,
            "periodSeconds": 10,
            "timeoutSeconds": 1,
            "successThreshold": 1,
            "failureThreshold": 3,
        })
    };
    let mut variables = vec![
        json!({ "name": "POD_NAME", "valueFrom": {
            "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" },
        } }),
        json!({ "name": "PASSWORD", "valueFrom": {
            "secretKeyRef": { "name": "«app»", "key": "password" },
        } }),
    ];
    variables.extend((0..VARIABLES).map(|number| {
        let value = format!("https://service-{number}.«namespace».svc.cluster.local:8443/v1");
        json!({ "name": format!("{}_UPSTREAM_{number}", name.to_uppercase()), "value": value })
    }));
    json!({
        "name": name,
        "image": format!("registry.example.com/team/«app»-{name}:1.17.3"),
        "imagePullPolicy": "IfNotPresent",
        "args": ["--listen", format!(":{port}"), "--config", "/etc/config/app.yaml", "--log-level=info"],
        "env": variables,
        "ports": [
            { "name": "http", "containerPort": port, "protocol": "TCP" },
            { "name": "metrics", "containerPort": port + 1, "protocol": "TCP" },
        ],
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "resources": {
            "limits": { "cpu": "1", "memory": "512Mi" },
            "requests": { "cpu": "100m", "memory": "256Mi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            { "name": "config", "mountPath": "/etc/config", "readOnly": true },
            { "name": "tmp", "mountPath": "/tmp" },
            {
                "name": "kube-api-access",
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "readOnly": true,
            },
        ],
    })
}

fn status(now: &str) -> Value {
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now });
    let container = |name: &str| {
        json!({
            "name": name,
            "containerID": "containerd://«container»",
            "image": format!("registry.example.com/team/«app»-{name}:1.17.3"),
            "imageID": format!("registry.example.com/team/«app»-{name}@sha256:«container»"),
            "ready": true,
            "started": true,
            "restartCount": 0,
            "state": { "running": { "startedAt": now } },
            "lastState": {},
        })
    };
    json!({
        "phase": "Running",
        "qosClass": "Burstable",
        "observedGeneration": 1,
        "hostIP": "«host-ip»",
        "hostIPs": [{ "ip": "«host-ip»" }],
        "podIP": "«pod-ip»",
        "podIPs": [{ "ip": "«pod-ip»" }],
        "startTime": now,
        "conditions": [
            condition("PodReadyToStartContainers"),
            condition("Initialized"),
            condition("Ready"),
            condition("ContainersReady"),
            condition("PodScheduled"),
        ],
        "containerStatuses": [container("server"), container("proxy")],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seeded_pod_is_as_large_as_a_real_one() {
        let pods = Pods::new(10, "2026-01-01T00:00:00Z");
        let bytes = pods.pod(7, 99, 1234);
        assert!((10_500..12_500).contains(&bytes.len()), "{} bytes", bytes.len());
        let pod: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(pod["metadata"]["name"], "app-0-000007");
        assert_eq!(pod["metadata"]["namespace"], "seed-0");
        assert_eq!(pod["metadata"]["uid"], "00000000-0000-4000-8000-000000000063");
        assert_eq!(pod["metadata"]["resourceVersion"], "1234");
        assert_eq!(pod["spec"]["nodeName"], "node-8");
        assert_eq!(pod["status"]["podIP"], "100.0.0.7");
        assert!(!std::str::from_utf8(&bytes).unwrap().contains(['«', '»']));
    }

    #[test]
    fn pods_of_one_replica_set_share_a_namespace_and_no_two_share_a_name() {
        assert_eq!(Pods::place(1).0, Pods::place(20).0);
        assert_eq!(Pods::place(21), ("seed-1".to_owned(), "app-1-000021".to_owned()));
        assert_eq!(
            Pods::place(150_000),
            ("seed-49".to_owned(), "app-7499-150000".to_owned())
        );
    }
}
