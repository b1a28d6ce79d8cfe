//! A node as a kubelet of a managed cluster reports it.

use serde_json::{Value, json};

use crate::embedded::object::uid;

/// The node `node-<number>`, about 5 KB of JSON.
pub(in crate::embedded) fn node(number: usize, identity: u64, now: &str) -> Value {
    let name = format!("node-{number}");
    let address = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
    let zone = format!("region-1{}", ["a", "b", "c"][number % 3]);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        })
    };
    let images: Vec<Value> = (0..10)
        .map(|image| {
            json!({
                "names": [
                    format!("registry.example.com/team/service-{image}@sha256:{:064x}", image + 1),
                    format!("registry.example.com/team/service-{image}:v1.{image}.0"),
                ],
                "sizeBytes": 73_000_000 + image * 1_000_003,
            })
        })
        .collect();
    json!({
        "metadata": {
            "name": name,
            "uid": uid(identity),
            "creationTimestamp": now,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "standard-4",
                "topology.kubernetes.io/region": "region-1",
                "topology.kubernetes.io/zone": zone,
            },
            "annotations": {
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "managedFields": managed_fields(now),
        },
        "spec": { "podCIDR": address.clone() + "/32", "podCIDRs": [address.clone() + "/32"] },
        "status": {
            "addresses": [
                { "type": "InternalIP", "address": address },
                { "type": "Hostname", "address": name },
            ],
            "capacity": capacity("4", "16384000Ki"),
            "allocatable": capacity("3920m", "15224000Ki"),
            "conditions": [
                condition(
                    "MemoryPressure",
                    "False",
                    "KubeletHasSufficientMemory",
                    "kubelet has sufficient memory available",
                ),
                condition(
                    "DiskPressure",
                    "False",
                    "KubeletHasNoDiskPressure",
                    "kubelet has no disk pressure",
                ),
                condition(
                    "PIDPressure",
                    "False",
                    "KubeletHasSufficientPID",
                    "kubelet has sufficient PID available",
                ),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": format!("00000000-0000-4000-9000-{number:012x}"),
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.0",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.3",
                "machineID": format!("{number:032x}"),
                "operatingSystem": "linux",
                "osImage": "Linux 12",
                "systemUUID": format!("00000000-0000-4000-a000-{number:012x}"),
            },
            "images": images,
        },
    })
}

fn capacity(cpu: &str, memory: &str) -> Value {
    json!({
        "cpu": cpu,
        "ephemeral-storage": "101430960Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": memory,
        "pods": "110",
    })
}

fn managed_fields(now: &str) -> Value {
    let condition = json!({
        "f:lastHeartbeatTime": {},
        "f:lastTransitionTime": {},
        "f:message": {},
        "f:reason": {},
        "f:status": {},
    });
    json!([
        {
            "manager": "kubelet",
            "operation": "Update",
            "apiVersion": "v1",
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {
                    "f:annotations": {
                        ".": {},
                        "f:volumes.kubernetes.io/controller-managed-attach-detach": {},
                    },
                    "f:labels": {
                        ".": {},
                        "f:beta.kubernetes.io/arch": {},
                        "f:beta.kubernetes.io/os": {},
                        "f:kubernetes.io/arch": {},
                        "f:kubernetes.io/hostname": {},
                        "f:kubernetes.io/os": {},
                        "f:node.kubernetes.io/instance-type": {},
                        "f:topology.kubernetes.io/region": {},
                        "f:topology.kubernetes.io/zone": {},
                    },
                },
            },
        },
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": { "f:podCIDR": {}, "f:podCIDRs": { ".": {} } } },
        },
        {
            "manager": "kubelet",
            "operation": "Update",
            "apiVersion": "v1",
            "time": now,
            "fieldsType": "FieldsV1",
            "subresource": "status",
            "fieldsV1": {
                "f:status": {
                    "f:conditions": {
                        "k:{\"type\":\"DiskPressure\"}": condition,
                        "k:{\"type\":\"MemoryPressure\"}": condition,
                        "k:{\"type\":\"PIDPressure\"}": condition,
                        "k:{\"type\":\"Ready\"}": condition,
                    },
                    "f:images": {},
                },
            },
        },
    ])
}
