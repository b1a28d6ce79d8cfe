//! Whether a real API server takes what the charts render.

use serde_json::{Value, json};

use crate::support::{CHARTS, Cluster, chart, everything, helm, kubectl, said};

/// An API server with the kinds of Prometheus Operator and a namespace that admits restricted pods only.
async fn prepared() -> Cluster {
    let cluster = Cluster::start().await;
    let restricted = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": "restricted", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let leases = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leases"}});
    let objects = [
        restricted,
        leases,
        service_monitors(),
        pod_monitors(),
        prometheus_rules(),
    ];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    said(kubectl(&cluster.kubeconfig, &["apply", "-f", "-"], &list));
    let wait = [
        "wait",
        "--for=condition=Established",
        "crd",
        "--all",
        "--timeout=60s",
    ];
    said(kubectl(&cluster.kubeconfig, &wait, ""));
    cluster
}

impl Cluster {
    /// Fails unless the API server would create all of `objects`, each with no key that it does not know.
    fn takes(&self, objects: &str) -> String {
        let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        said(kubectl(&self.kubeconfig, &apply, objects))
    }

    /// An object in YAML.
    fn read(&self, object: &str) -> Value {
        let create = ["create", "--dry-run=client", "-o=json", "-f", "-"];
        serde_json::from_str(&said(kubectl(&self.kubeconfig, &create, object))).unwrap()
    }
}

fn rendered(name: &str, args: &[&str]) -> String {
    let chart = chart(name);
    let mut template = vec!["template", name, &chart, "--namespace=restricted"];
    template.extend(args);
    said(helm(&template))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn the_api_server_takes_every_object_and_admits_the_pods() {
    let cluster = prepared().await;
    let everything = everything();
    // A PodMonitor instead of a ServiceMonitor.
    let pod_monitor = ["--set", "serviceMonitor.enabled=false,podMonitor.enabled=true"];
    for name in CHARTS {
        let by_default = rendered(name, &[]);
        let taken = cluster.takes(&by_default);
        assert_eq!(taken.lines().count(), 11, "{taken}");
        let taken = cluster.takes(&rendered(name, &[&everything]));
        assert_eq!(taken.lines().count(), 17, "{taken}");
        assert!(
            taken.contains("servicemonitor") && taken.contains("prometheusrule"),
            "{taken}"
        );
        let taken = cluster.takes(&rendered(
            name,
            &[&[everything.as_str()], &pod_monitor[..]].concat(),
        ));
        assert!(taken.contains("podmonitor"), "{taken}");

        let deployment = cluster.read(&rendered(name, &["--show-only=templates/deployment.yaml"]));
        let mut pod = deployment["spec"]["template"].clone();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!("pod");
        pod["metadata"]["namespace"] = json!("restricted");
        let admitted = cluster.takes(&pod.to_string());
        assert_eq!(admitted, "pod/pod created (server dry run)\n");
        // The same, were it not hardened.
        pod["spec"]["containers"][0]["securityContext"] = json!({});
        let apply = ["apply", "--dry-run=server", "-f", "-"];
        let output = kubectl(&cluster.kubeconfig, &apply, &pod.to_string());
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("violates PodSecurity"),
            "{output:?}"
        );
    }
}

fn service_monitors() -> Value {
    let mut endpoint = endpoint();
    endpoint["bearerTokenFile"] = json!({"type": "string"});
    let spec = json!({
        "jobLabel": {"type": "string"},
        "selector": selector(),
        "endpoints": {"type": "array", "items": {"type": "object", "properties": endpoint}},
    });
    kind("ServiceMonitor", "servicemonitors", &spec)
}

fn pod_monitors() -> Value {
    let spec = json!({
        "jobLabel": {"type": "string"},
        "selector": selector(),
        "podMetricsEndpoints": {"type": "array", "items": {"type": "object", "properties": endpoint()}},
    });
    kind("PodMonitor", "podmonitors", &spec)
}

fn prometheus_rules() -> Value {
    let words = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let alert = json!({
        "alert": {"type": "string"}, "expr": {"type": "string"}, "for": {"type": "string"},
        "labels": words, "annotations": words,
    });
    let alerts = json!({"type": "array", "items": {"type": "object", "properties": alert}});
    let group = json!({"name": {"type": "string"}, "rules": alerts});
    let spec = json!({"groups": {"type": "array", "items": {"type": "object", "properties": group}}});
    kind("PrometheusRule", "prometheusrules", &spec)
}

fn selector() -> Value {
    let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "properties": {"matchLabels": labels}})
}

/// A PodMonitor knows no `bearerTokenFile`.
fn endpoint() -> Value {
    let secret = json!({"name": {"type": "string"}, "key": {"type": "string"}});
    let authorization = json!({"credentials": {"type": "object", "properties": secret}});
    json!({
        "authorization": {"type": "object", "properties": authorization},
        "port": {"type": "string"}, "path": {"type": "string"}, "interval": {"type": "string"},
        "scheme": {"type": "string", "enum": ["http", "https"]},
        "tlsConfig": {"type": "object", "properties": {"insecureSkipVerify": {"type": "boolean"}}},
    })
}

/// The definition of a kind of Prometheus Operator, with those of its fields that the charts use.
fn kind(kind: &str, plural: &str, spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}
