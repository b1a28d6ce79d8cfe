//! Runs what a pod of a chart would run, next to a real API server: arguments and environment from the Deployment, the
//! file from the `ConfigMap`, the token of the `ServiceAccount`.

use std::fs;
use std::path::{Path, PathBuf};

use controller_testing::Replica;
use controller_testing::chart::{Chart, NAMESPACE};
use controller_testing::permissions::refused;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Container};
use kube::Api;
use local_control_plane::{AuditLevel, ControlPlane, Leased, Options, Process};
use tempfile::TempDir;

use crate::support::{CHARTS, chart, helm, said};

/// Where the config is mounted in the pod.
const MOUNTED: &str = "/etc/controller";
pub(crate) const UID: &str = "the-uid-of-the-pod";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn a_pod_of_each_chart_would_lead_and_be_ready_with_the_permissions_that_it_has() {
    let options = Options {
        audit: Some(AuditLevel::Metadata),
        ..Options::default()
    };
    let control_plane = Leased::bare(options).await.unwrap();
    for name in CHARTS {
        let kubeconfig = format!("--kubeconfig={}", control_plane.kubeconfig().display());
        let set = "--set=config.kubeApiQps=75";
        said(helm(&[
            "install",
            name,
            &chart(name),
            "-n",
            NAMESPACE,
            set,
            &kubeconfig,
        ]));
        let token = Chart::of(name).installed(&control_plane).await;
        let (replica, _mounted) = start(&control_plane, name, &token).await;
        replica.until_leading().await;
        replica.until_ready().await;
        let (_, configuration) = replica.get("/configz").await;
        assert!(configuration.contains("75"), "{configuration}");
        let leases: Api<Lease> = Api::namespaced(control_plane.client(), NAMESPACE);
        let holder = leases.get(name).await.unwrap().spec.unwrap().holder_identity;
        assert_eq!(holder.as_deref(), Some(UID));
        assert_eq!(replica.stop().await, Some(0));

        assert_eq!(refused(&control_plane, name), []);
    }
}

/// Starts the command of the Deployment's container; the folder holds its config.
pub(crate) async fn start(control_plane: &ControlPlane, name: &str, kubeconfig: &Path) -> (Replica, TempDir) {
    let deployments: Api<Deployment> = Api::namespaced(control_plane.client(), NAMESPACE);
    let deployment = deployments.get(name).await.unwrap();
    let pod = deployment.spec.template.spec.unwrap();
    let container: Container = pod.containers.into_iter().next().unwrap();

    let config_maps: Api<ConfigMap> = Api::namespaced(control_plane.client(), NAMESPACE);
    let files = config_maps.get(name).await.unwrap().data.unwrap();
    let mounted = tempfile::tempdir().unwrap();
    for (file, text) in files {
        fs::write(mounted.path().join(file), text).unwrap();
    }
    let more = [
        format!("--kubeconfig={}", kubeconfig.display()),
        "--http-bind-address=127.0.0.1:0".to_owned(),
    ];
    let replica = run(
        name,
        &container,
        &[(MOUNTED, &mounted.path().display().to_string())],
        &more,
    );
    (replica, mounted)
}

/// Starts a container of the controller, with the replacements `instead` in its arguments, and `more` arguments.
pub(crate) fn run(name: &str, container: &Container, instead: &[(&str, &str)], more: &[String]) -> Replica {
    let mut args = container.args.clone().unwrap();
    for (there, here) in instead {
        for arg in &mut args {
            *arg = arg.replace(there, here);
        }
    }
    args.extend_from_slice(more);
    let variables = container.env.iter().flatten();
    let fields = variables.map(|variable| {
        let from = variable.value_from.as_ref().unwrap().field_ref.as_ref().unwrap();
        assert_eq!(from.field_path, "metadata.uid");
        (variable.name.as_str(), UID)
    });
    let process = Process::spawn(&binary(name), &args, &fields.collect::<Vec<_>>()).unwrap();
    Replica { process }
}

/// A program of the workspace, built together with this test.
pub(crate) fn binary(name: &str) -> PathBuf {
    let binary = built(name);
    assert!(
        binary.is_file(),
        "`cargo build --workspace` builds {}",
        binary.display()
    );
    binary
}

/// A file in the build folder.
pub(crate) fn built(name: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_tools")).with_file_name(name)
}
