//! What `preflight` finds out, from the requests to the report.

use controller_core::app::App;
use controller_runtime::runtime::preflight::{Check, CheckState, Level, PreflightReport, preflight};
use controller_testing::chart::Chart;
use disruption_controller::DisruptionController;
use disruption_controller::config::Config;
use embedded_apiserver::Fault;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::world::World;

const MANAGER: &str = "kube-controller-manager";

/// A cluster of kubeadm with one control plane node, whose kube-controller-manager has this flag and leads for an hour.
fn kubeadm(controllers: &str) -> World {
    let world = World::new();
    world.insert(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "a", "labels": {"node-role.kubernetes.io/control-plane": ""},
            "annotations": {"kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/containerd/containerd.sock"},
        },
    }));
    world.insert(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "kube-controller-manager-a", "namespace": "kube-system",
            "labels": {"component": MANAGER, "tier": "control-plane"},
        },
        "spec": {
            "nodeName": "a",
            "containers": [{"name": MANAGER, "image": "i", "command": [MANAGER, format!("--controllers={controllers}")]}],
        },
    }));
    world.insert(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": MANAGER, "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "a_4711", "leaseDurationSeconds": 15,
            "acquireTime": micros(&world.seconds(-3600)), "renewTime": micros(&world.seconds(0)),
        },
    }));
    world
}

fn micros(seconds: &str) -> String {
    seconds.replace('Z', ".000000Z")
}

async fn report_to(world: &World, client: kube::Client, config: &Config) -> PreflightReport {
    let known = DisruptionController::PREFLIGHT.unwrap();
    preflight(&known, config, &client.into(), &world.clock)
        .await
        .unwrap()
}

async fn report(world: &World) -> PreflightReport {
    report_to(world, world.client(), &Config::default()).await
}

fn texts(report: &PreflightReport, check: Check) -> Vec<&str> {
    let findings = report.findings.iter().filter(|finding| finding.check == check);
    findings.map(|finding| &*finding.text).collect()
}

#[tokio::test(start_paused = true)]
async fn beside_the_built_in_loop_preflight_blocks_and_changes_nothing() {
    let world = kubeadm("*,bootstrapsigner,tokencleaner");
    let report = report(&world).await;
    assert_eq!((report.built_in_loop, report.exit_code()), (CheckState::On, 2));
    assert_eq!(
        texts(&report, Check::BuiltInLoop),
        ["on: pod kube-system/kube-controller-manager-a runs it"]
    );
    assert_eq!(report.distribution, Some("kubeadm"));
    let writes = world.ours().writes();
    let reviews = writes.to("selfsubjectaccessreviews");
    assert_eq!(writes.lines(), reviews.lines());
}

#[tokio::test(start_paused = true)]
async fn where_it_is_off_preflight_lets_go() {
    let world = kubeadm("*,bootstrapsigner,tokencleaner,-disruption-controller");
    let report = report(&world).await;
    assert_eq!(report.verdict, Level::Ok, "{}", report.text());
    assert_eq!(report.built_in_loop, CheckState::Off);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_the_leader_wrote_says_more_than_its_flags() {
    let world = kubeadm("*,-disruption-controller");
    world.pdb("web", "minAvailable", &json!(1));
    let pdbs: Api<PodDisruptionBudget> =
        Api::default_namespaced(world.server.client_as("kube-controller-manager/v1.36.3"));
    let status = json!({"status": {"currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1}});
    let params = PatchParams::default();
    pdbs.patch_status("web", &params, &Patch::Merge(status))
        .await
        .unwrap();
    let report = report(&world).await;
    assert_eq!(
        texts(&report, Check::BuiltInLoop),
        ["on: it wrote poddisruptionbudgets default/web, since a_4711 leads"]
    );
}

#[tokio::test(start_paused = true)]
async fn each_permission_that_the_account_lacks_is_named_and_what_it_may_not_read_is_unknown() {
    let world = kubeadm("*,-disruption-controller");
    // Those in the whole cluster: that on the Lease is in a role of its own.
    let user = Chart::of("disruption-controller").install_on(&world.server);
    let lacking = report_to(&world, world.server.client_for(&user), &Config::default()).await;
    assert_eq!(
        texts(&lacking, Check::Permissions),
        [
            "missing: create leases.coordination.k8s.io in kube-system",
            "missing: get leases.coordination.k8s.io disruption-controller in kube-system",
            "missing: update leases.coordination.k8s.io disruption-controller in kube-system",
            "missing: list leases.coordination.k8s.io disruption-controller in kube-system",
            "missing: watch leases.coordination.k8s.io disruption-controller in kube-system",
        ]
    );
    assert_eq!(
        texts(&lacking, Check::BuiltInLoop),
        ["cannot tell whether it is off: may not list nodes"]
    );
    assert_eq!(lacking.exit_code(), 2);

    let mut dry_run = Config::default();
    dry_run.common.dry_run = true;
    let report = report_to(&world, world.server.client_for(&user), &dry_run).await;
    assert_eq!(report.exit_code(), 0, "{}", report.text());
}

#[tokio::test(start_paused = true)]
async fn a_404_of_a_proxy_does_not_say_that_there_is_nothing() {
    let world = kubeadm("*,-disruption-controller");
    world.fail_those(
        usize::MAX,
        |request| request.resource == "leases",
        Fault::NoSuchPage,
    );
    let report = report(&world).await;
    assert_eq!(
        texts(&report, Check::Lease),
        ["cannot get the Lease disruption-controller in kube-system: 404 page not found"]
    );
    assert_eq!(report.verdict, Level::Unknown);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_an_error() {
    let world = kubeadm("*");
    world.server.down();
    let known = DisruptionController::PREFLIGHT.unwrap();
    let http = world.client().into();
    let failed = preflight(&known, &Config::default(), &http, &world.clock).await;
    assert!(failed.is_err());
}
