//! Pods of a busy cluster: two containers, probes, environment, status, managed fields.

use bytes::Bytes;
use serde_json::{Value, json};

use super::template::{Template, address};
use crate::PODS;
use crate::managed_fields::{self, Part, Writer};
use crate::object::{remove, uid};

/// Number of namespaces that hold the pods.
const NAMESPACES: usize = 50;
/// Pods per ReplicaSet.
const REPLICAS: usize = 20;

/// Renders running pods, about 11 KB of JSON each.
#[derive(Debug)]
pub(crate) struct Pods {
    form: Template,
    nodes: usize,
}

impl Pods {
    /// Pods on the nodes `node-1` to `node-<nodes>`; unbound if there are no nodes.
    pub(crate) fn new(nodes: usize) -> Self {
        let whole = serde_json::from_str(include_str!("pod.json")).unwrap_or_default();
        Self {
            form: Template::new(&form(&whole, nodes > 0)),
            nodes,
        }
    }

    /// Namespace and name of the pod with this number, counted from 1.
    pub(crate) fn place(number: usize) -> (String, String) {
        let set = (number - 1) / REPLICAS;
        (
            format!("seed-{}", set % NAMESPACES),
            format!("app-{set}-{number:06}"),
        )
    }

    /// The stored form of the pod with this number.
    pub(crate) fn pod(&self, number: usize, identity: u64, version: u64, now: &str) -> Bytes {
        let (namespace, name) = Self::place(number);
        let set = (number - 1) / REPLICAS;
        let node = number.checked_rem(self.nodes).map_or(0, |node| node + 1);
        self.form.fill(&[
            ("namespace", namespace),
            ("name", name),
            ("uid", uid(identity)),
            ("version", version.to_string()),
            ("now", now.to_owned()),
            ("app", format!("app-{set}")),
            ("set-uid", format!("00000000-0000-4000-b000-{set:012x}")),
            ("node", format!("node-{node}")),
            ("host-ip", address(10, node)),
            ("pod-ip", address(100, number)),
            ("container", format!("{number:064x}")),
        ])
    }
}

/// The template: a pod as its controller creates it, with a kubelet's status if it is bound, and with managed fields.
fn form(whole: &Value, bound: bool) -> Value {
    let writer = |manager| Writer {
        manager,
        now: "«now»",
    };
    let mut pod = whole.clone();
    remove(&mut pod["spec"], "nodeName");
    pod["status"] = json!({ "phase": "Pending", "qosClass": "Burstable" });
    let creator = writer("kube-controller-manager");
    managed_fields::track(&PODS, None, &mut pod, Part::WithoutStatus, creator);
    if bound {
        pod["spec"]["nodeName"] = whole["spec"]["nodeName"].clone();
        let pending = pod.clone();
        pod["status"] = whole["status"].clone();
        managed_fields::track(&PODS, Some(&pending), &mut pod, Part::Status, writer("kubelet"));
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seeded_pod_is_as_large_as_a_real_one() {
        let bytes = Pods::new(10).pod(7, 99, 1234, "2026-01-01T00:00:00Z");
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
