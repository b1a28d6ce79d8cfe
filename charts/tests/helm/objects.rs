//! A real API server accepts the objects that the charts render.

use controller_testing::soon;
use serde_json::{Value, json};

use crate::support::{CHARTS, Cluster, chart, everything, helm, kubectl, metrics_of, said};

/// An API server with the kinds of Prometheus Operator and cert-manager, and a namespace that admits only restricted
/// pods.
pub(crate) async fn prepared() -> Cluster {
    let cluster = Cluster::start().await;
    let restricted = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": "restricted", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let namespace = |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let objects = [
        restricted,
        namespace("leases"),
        namespace("monitoring"),
        service_monitors(),
        pod_monitors(),
        prometheus_rules(),
        certificates(),
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
    /// Fails unless the API server would create all of `objects` without unknown fields.
    fn takes(&self, objects: &str) -> String {
        let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        said(kubectl(&self.kubeconfig, &apply, objects))
    }

    /// A pod of the chart's Deployment.
    fn pod(&self, name: &str, args: &[&str]) -> Value {
        let only = ["--show-only=templates/common/deployment.yaml"];
        let deployment = self.read(&rendered(name, &[&only, args].concat()));
        let mut pod = deployment["spec"]["template"].clone();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!("pod");
        pod["metadata"]["namespace"] = json!("restricted");
        pod
    }

    /// Parses a YAML object.
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
    // With a PodMonitor instead of a ServiceMonitor.
    let pod_monitor = ["--set", "serviceMonitor.enabled=false,podMonitor.enabled=true"];
    for name in CHARTS {
        let by_default = rendered(name, &[]);
        let taken = cluster.takes(&by_default);
        assert_eq!(taken.lines().count(), 16, "{taken}");
        let taken = cluster.takes(&rendered(name, &[&everything]));
        let policies = taken
            .lines()
            .filter(|line| line.starts_with("validatingadmissionpolic"));
        assert_eq!(taken.lines().count() - policies.clone().count(), 22, "{taken}");
        assert!(policies.count() >= 6, "{taken}");
        assert!(
            taken.contains("servicemonitor") && taken.contains("prometheusrule"),
            "{taken}"
        );
        let taken = cluster.takes(&rendered(
            name,
            &[&[everything.as_str()], &pod_monitor[..]].concat(),
        ));
        assert!(taken.contains("podmonitor"), "{taken}");

        // A namespace with the restricted policy admits no pods with hostNetwork.
        let on_nodes = ["--set=controlPlane=require,hostNetwork=true,extraEnv[0].name=A"];
        let taken = cluster.takes(&rendered(
            name,
            &[&on_nodes, &["--namespace=leases"][..]].concat(),
        ));
        // One more is the ClusterRole for metrics readers.
        assert_eq!(taken.lines().count(), 17, "{taken}");

        // The README's example: a PodMonitor and six more objects.
        let example = metrics_of(name);
        let values = format!("--values={}", example.path().display());
        let taken = cluster.takes(&rendered(name, &[&values, "--namespace=kube-system"]));
        assert_eq!(taken.lines().count(), 22, "{taken}");

        let mut pod = cluster.pod(name, &[]);
        let admitted = cluster.takes(&pod.to_string());
        assert_eq!(admitted, "pod/pod created (server dry run)\n");
        // The same pod without hardening.
        pod["spec"]["containers"][0]["securityContext"] = json!({});
        let apply = ["apply", "--dry-run=server", "-f", "-"];
        let output = kubectl(&cluster.kubeconfig, &apply, &pod.to_string());
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("violates PodSecurity"),
            "{output:?}"
        );
    }
}

/// Does what the SCC `restricted-v2` of `OpenShift` does: each pod must run as the user and group of its namespace.
fn users_of_the_namespace() -> [Value; 4] {
    let pods = json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
    }]});
    let policy = |kind: &str, spec: Value| {
        let metadata = json!({"name": "restricted-v2"});
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
    };
    let none_yet = "!has(object.spec.securityContext) || !has(object.spec.securityContext.runAsUser)";
    let user = format!(
        "Object{{spec: Object.spec{{securityContext: Object.spec.securityContext{{runAsUser: {SOMEBODY}, fsGroup: {SOMEBODY}, \
         seLinuxOptions: Object.spec.securityContext.seLinuxOptions{{level: \"s0:c26,c5\"}}}}}}}}"
    );
    let in_range = format!(
        "object.spec.securityContext.runAsUser == {SOMEBODY} && object.spec.securityContext.fsGroup == {SOMEBODY}"
    );
    let gives = json!({
        "matchConstraints": pods, "failurePolicy": "Fail", "reinvocationPolicy": "Never",
        "matchConditions": [{"name": "none-yet", "expression": none_yet}],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": user}}],
    });
    let insists = json!({
        "matchConstraints": pods, "failurePolicy": "Fail",
        "validations": [{"expression": in_range, "message": "not in the range of the namespace"}],
    });
    let bound = json!({"policyName": "restricted-v2"});
    let denies = json!({"policyName": "restricted-v2", "validationActions": ["Deny"]});
    [
        policy("MutatingAdmissionPolicy", gives),
        policy("MutatingAdmissionPolicyBinding", bound),
        policy("ValidatingAdmissionPolicy", insists),
        policy("ValidatingAdmissionPolicyBinding", denies),
    ]
}

/// A user ID as `OpenShift` assigns one to a namespace.
const SOMEBODY: u64 = 1_000_650_000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn pods_run_as_whom_the_platform_chooses() {
    let cluster = prepared().await;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": users_of_the_namespace()}).to_string();
    said(kubectl(&cluster.kubeconfig, &["apply", "-f", "-"], &list));
    let create = ["create", "--dry-run=server", "-o=json", "-f", "-"];
    let own = cluster
        .pod("ttl-controller", &["--set=podSecurityContext.runAsUser=65532"])
        .to_string();
    // The API server receives the policies by watch, with a delay.
    let refused = async || {
        let output = kubectl(&cluster.kubeconfig, &create, &own);
        let errors = String::from_utf8_lossy(&output.stderr);
        errors.contains("not in the range of the namespace").then_some(())
    };
    soon("a user of one's own is refused", refused).await;
    for name in CHARTS {
        // null removes the default values.
        let nulled = ["--set=podSecurityContext.seccompProfile=null,podSecurityContext.runAsNonRoot=null"];
        assert!(cluster.pod(name, &nulled)["spec"]["securityContext"].is_null());

        let pod = cluster.pod(name, &[]).to_string();
        let given = async || {
            let created = said(kubectl(&cluster.kubeconfig, &create, &pod));
            let pod: Value = serde_json::from_str(&created).unwrap();
            let context = pod["spec"]["securityContext"].clone();
            (context["runAsUser"] == SOMEBODY).then_some(context)
        };
        let context = soon("the pod gets a user", given).await;
        assert_eq!(
            context,
            json!({
                "runAsUser": SOMEBODY, "fsGroup": SOMEBODY, "runAsNonRoot": true,
                "seccompProfile": {"type": "RuntimeDefault"}, "seLinuxOptions": {"level": "s0:c26,c5"},
            })
        );
    }
}

fn service_monitors() -> Value {
    let mut endpoint = endpoint();
    endpoint["bearerTokenFile"] = json!({"type": "string"});
    let spec = json!({
        "jobLabel": {"type": "string"},
        "sampleLimit": {"type": "integer"},
        "selector": selector(),
        "namespaceSelector": {"type": "object", "properties": {"matchNames": {"type": "array", "items": {"type": "string"}}}},
        "endpoints": {"type": "array", "items": {"type": "object", "properties": endpoint}},
    });
    kind("monitoring.coreos.com", "ServiceMonitor", &spec)
}

fn pod_monitors() -> Value {
    let spec = json!({
        "jobLabel": {"type": "string"},
        "sampleLimit": {"type": "integer"},
        "selector": selector(),
        "namespaceSelector": {"type": "object", "properties": {"matchNames": {"type": "array", "items": {"type": "string"}}}},
        "podMetricsEndpoints": {"type": "array", "items": {"type": "object", "properties": endpoint()}},
    });
    kind("monitoring.coreos.com", "PodMonitor", &spec)
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
    kind("monitoring.coreos.com", "PrometheusRule", &spec)
}

fn certificates() -> Value {
    let issuer = json!({"kind": {"type": "string"}, "name": {"type": "string"}});
    let spec = json!({
        "secretName": {"type": "string"},
        "dnsNames": {"type": "array", "items": {"type": "string"}},
        "issuerRef": {"type": "object", "properties": issuer},
    });
    kind("cert-manager.io", "Certificate", &spec)
}

fn selector() -> Value {
    let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "properties": {"matchLabels": labels}})
}

/// A `PodMonitor` has no `bearerTokenFile`.
fn endpoint() -> Value {
    let words = json!({"type": "array", "items": {"type": "string"}});
    let rule = json!({
        "action": {"type": "string"}, "regex": {"type": "string"}, "replacement": {"type": "string"},
        "sourceLabels": words, "targetLabel": {"type": "string"},
    });
    let relabelings = json!({"type": "array", "items": {"type": "object", "properties": rule}});
    let secret = json!({"name": {"type": "string"}, "key": {"type": "string"}});
    let authority = json!({"secret": {"type": "object", "properties": secret}});
    let tls = json!({
        "insecureSkipVerify": {"type": "boolean"}, "serverName": {"type": "string"},
        "ca": {"type": "object", "properties": authority},
    });
    let authorization = json!({"credentials": {"type": "object", "properties": secret}});
    json!({
        "scrapeTimeout": {"type": "string"}, "relabelings": relabelings, "metricRelabelings": relabelings,
        "authorization": {"type": "object", "properties": authorization},
        "port": {"type": "string"}, "path": {"type": "string"}, "interval": {"type": "string"},
        "scheme": {"type": "string", "enum": ["http", "https"]},
        "tlsConfig": {"type": "object", "properties": tls},
    })
}

/// A `CustomResourceDefinition` of the kind, with the fields that the charts use.
fn kind(group: &str, kind: &str, spec: &Value) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}
