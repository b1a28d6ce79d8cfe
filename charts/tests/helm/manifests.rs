//! The charts as plain manifests and as Kustomize bases, on a real API server.

use std::fs;
use std::process::Command;

use controller_testing::chart::{Chart, NAMESPACE};
use local_control_plane::{Leased, Options};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process;
use crate::support::{CHARTS, kubectl, said};

/// Output of `cargo xtask manifests` with these additional values. Dropping it removes the folder.
pub(crate) fn written(values: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut manifests = Command::new(env!("CARGO_BIN_EXE_tools"));
    manifests
        .args(["manifests", "--set", "image.repository=registry.example/ours"])
        .args(values.iter().flat_map(|value| ["--set", value]))
        .arg("--output")
        .arg(folder.path());
    said(manifests.output().unwrap());
    folder
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn what_a_plain_manifest_starts_leads_and_is_ready() {
    let control_plane = Leased::bare(Options::default()).await.unwrap();
    let folder = written(&[]);
    for name in CHARTS {
        let file = folder.path().join(format!("{name}.yaml"));
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            !text.contains("helm.sh") && !text.contains("managed-by"),
            "{text}"
        );
        let apply = ["apply", "--validate=strict", "-f", file.to_str().unwrap()];
        let applied = said(kubectl(control_plane.kubeconfig(), &apply, ""));
        assert_eq!(
            applied.lines().filter(|line| line.ends_with(" created")).count(),
            11,
            "{applied}"
        );

        let token = Chart::of(name).installed(&control_plane).await;
        let (replica, _mounted) = process::start(&control_plane, name, &token).await;
        replica.until_leading().await;
        replica.until_ready().await;
        assert_eq!(replica.stop().await, Some(0));

        // Applying again changes nothing.
        let versions = [
            "get",
            "-o=jsonpath={.items[*].metadata.resourceVersion}",
            "-f",
            apply[3],
        ];
        let versions = || said(kubectl(control_plane.kubeconfig(), &versions, ""));
        let before = versions();
        assert_eq!(before.split(' ').count(), 11);
        said(kubectl(control_plane.kubeconfig(), &apply, ""));
        assert_eq!(versions(), before);
    }
}

/// Objects of a folder, built by Kustomize.
fn built(folder: &str) -> Vec<Value> {
    let kubectl = Command::new("kubectl")
        .args(["kustomize", folder])
        .output()
        .unwrap();
    serde_saphyr::from_multiple(&said(kubectl)).unwrap()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap()
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn a_base_is_what_the_plain_manifest_has_and_makes_its_config_itself() {
    let folder = written(&[]);
    for name in CHARTS {
        let mut base = built(
            &folder
                .path()
                .join(format!("{name}-kustomize"))
                .display()
                .to_string(),
        );
        let generated = of_kind(&base, "ConfigMap")["metadata"]["name"].clone();
        let generated = generated.as_str().unwrap();
        assert!(generated.starts_with(&format!("{name}-config-")), "{generated}");

        let text = fs::read_to_string(folder.path().join(format!("{name}.yaml"))).unwrap();
        let mut plain: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for object in &mut plain {
            if object["kind"] == "ConfigMap" {
                object["metadata"]["name"] = json!(generated);
            }
            if object["kind"] == "Deployment" {
                let pods = &mut object["spec"]["template"];
                pods["spec"]["volumes"][0]["configMap"]["name"] = json!(generated);
                let annotations = pods["metadata"]["annotations"].as_object_mut().unwrap();
                assert!(annotations.remove("checksum/config").is_some());
            }
        }
        let id = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
        base.sort_by_key(id);
        plain.sort_by_key(id);
        assert_eq!(base, plain, "{name}");
    }
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn a_static_pod_is_no_part_of_what_the_plain_manifest_has() {
    let folder = written(&[]);
    let objects = |file: String| -> Vec<Value> {
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        serde_saphyr::from_multiple(&text).unwrap()
    };
    for name in CHARTS {
        let plain = objects(format!("{name}.yaml"));
        let pod = objects(format!("{name}-static-pod.yaml"));
        assert!(pod[0]["spec"]["affinity"].is_null());
        let labels = &pod[0]["metadata"]["labels"];
        let selector = &of_kind(&plain, "Service")["spec"]["selector"];
        assert_ne!(
            labels["app.kubernetes.io/instance"],
            selector["app.kubernetes.io/instance"]
        );
        let permissions = objects(format!("{name}-static-pod-rbac.yaml"));
        assert_eq!(permissions.len(), 6);
        let id = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
        let plain: Vec<_> = plain.iter().map(id).collect();
        for object in &permissions {
            assert!(!plain.contains(&id(object)), "{object}");
        }
    }
}

/// Two differences: who reaches the port, and who may read its metrics.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn a_static_pod_has_a_variant_that_is_scraped_by_whom_the_api_server_allows() {
    let folder = written(&[]);
    let objects = |file: String| -> Vec<Value> {
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        serde_saphyr::from_multiple(&text).unwrap()
    };
    for name in CHARTS {
        let [mut near, far] =
            ["static-pod", "static-pod-metrics"].map(|file| objects(format!("{name}-{file}.yaml")));
        let container = &mut near[0]["spec"]["containers"][0];
        let address = container["args"][2].as_str().unwrap();
        let port = address
            .strip_prefix("--http-bind-address=127.0.0.1:")
            .unwrap()
            .to_owned();
        container["args"][2] = json!(format!("--http-bind-address=[::]:{port}"));
        container["args"]
            .as_array_mut()
            .unwrap()
            .push(json!("--metrics-authorization=kubernetes"));
        for probe in ["livenessProbe", "readinessProbe"] {
            assert_eq!(container[probe]["httpGet"]["scheme"], "HTTP");
            container[probe]["httpGet"]["scheme"] = json!("HTTPS");
        }
        assert_eq!(near, far);

        let [near, far] =
            ["static-pod-rbac", "static-pod-metrics-rbac"].map(|file| objects(format!("{name}-{file}.yaml")));
        let rules = |objects: &[Value]| {
            of_kind(objects, "ClusterRole")["rules"]
                .as_array()
                .unwrap()
                .clone()
        };
        let more = rules(&far).split_off(rules(&near).len());
        let resources: Vec<_> = more.iter().map(|rule| &rule["resources"][0]).collect();
        assert_eq!(resources, ["tokenreviews", "subjectaccessreviews"]);
        // The role of metrics readers.
        assert_eq!(far.len(), near.len() + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn an_overlay_moves_a_base_and_changes_its_config() {
    let control_plane = Leased::bare(Options::default()).await.unwrap();
    let create = ["create", "namespace", "elsewhere"];
    said(kubectl(control_plane.kubeconfig(), &create, ""));
    let folder = written(&[]);
    let overlay = |config: &str| {
        let overlay = folder.path().join("overlay");
        fs::create_dir_all(&overlay).unwrap();
        fs::write(overlay.join("config.yaml"), config).unwrap();
        let kustomization = json!({
            "namespace": "elsewhere",
            "resources": ["../ttl-controller-kustomize"],
            "images": [{"name": "registry.example/ours", "newName": "mirror.example/ours"}],
            "replicas": [{"name": "ttl-controller", "count": 3}],
            "configMapGenerator": [{
                "name": "ttl-controller-config", "namespace": NAMESPACE, "behavior": "replace", "files": ["config.yaml"],
            }],
        });
        fs::write(overlay.join("kustomization.yaml"), kustomization.to_string()).unwrap();
        built(&overlay.display().to_string())
    };
    let quiet = overlay("dryRun: true\n");
    let deployment = of_kind(&quiet, "Deployment");
    assert_eq!(deployment["spec"]["replicas"], 3);
    let pods = &deployment["spec"]["template"]["spec"];
    let image = pods["containers"][0]["image"].as_str().unwrap();
    assert!(image.starts_with("mirror.example/ours:"), "{image}");
    // A changed config gets a new name, so the pods are replaced.
    let mounted = |objects: &[Value]| {
        let pods = &of_kind(objects, "Deployment")["spec"]["template"]["spec"];
        assert_eq!(
            of_kind(objects, "ConfigMap")["metadata"]["name"],
            pods["volumes"][0]["configMap"]["name"]
        );
        pods["volumes"][0]["configMap"]["name"].clone()
    };
    assert_eq!(
        of_kind(&quiet, "ConfigMap")["data"]["config.yaml"],
        "dryRun: true\n"
    );
    assert_ne!(mounted(&quiet), mounted(&overlay("{}\n")));
    // The subjects of bindings move to the namespace as well.
    assert_eq!(
        of_kind(&quiet, "ClusterRoleBinding")["subjects"][0]["namespace"],
        "elsewhere"
    );
    assert_eq!(
        of_kind(&quiet, "RoleBinding")["subjects"][0]["namespace"],
        "elsewhere"
    );
    for schema in quiet.iter().filter(|object| object["kind"] == "FlowSchema") {
        let account = &schema["spec"]["rules"][0]["subjects"][0]["serviceAccount"];
        assert_eq!(account["namespace"], "elsewhere");
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": quiet}).to_string();
    let apply = ["apply", "--validate=strict", "-f", "-"];
    let applied = said(kubectl(control_plane.kubeconfig(), &apply, &list));
    assert_eq!(applied.lines().count(), 11, "{applied}");
}
