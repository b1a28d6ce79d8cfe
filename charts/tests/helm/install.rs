//! Releases on a real API server: installed, upgraded, rolled back and uninstalled, alone and next to each other.

use std::collections::BTreeMap;

use controller_testing::soon;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::documents::blocks;
use crate::objects::prepared;
use crate::release::{CLUSTER_WIDE, NAMESPACE, OF_A_RELEASE, OF_OVERLAYS};
use crate::support::{CHARTS, Cluster, UMBRELLA, chart, everything, kubectl, said};

pub(crate) const README_OF_THE_UMBRELLA: &str = "charts/kube-controllers/README.md";

/// Values for an upgrade to change.
const OTHER: &str = "serviceAccount.name=lamps,strategy.type=Recreate,revisionHistoryLimit=1,podLabels.tier=controllers,\
                     podAnnotations.mesh=off,podSecurityContext.runAsUser=1000,controlPlane=require,hostNetwork=true,\
                     dnsPolicy=Default,extraEnv[0].name=A,extraEnv[0].value=b,\
                     topologySpreadConstraints[0].topologyKey=topology.kubernetes.io/zone,\
                     topologySpreadConstraints[0].maxSkew=1,topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn each_chart_is_installed_upgraded_rolled_back_and_uninstalled_alone() {
    let cluster = Cluster::start().await;
    for name in CHARTS {
        let notes = cluster.put("install", name, &["--set", "config.dryRun=true"]);
        assert!(
            notes.contains("It decides and reports, and writes nothing"),
            "{notes}"
        );
        assert_eq!(
            cluster.objects(name).await.into_keys().collect::<Vec<_>>(),
            [
                format!("ClusterRole {name}"),
                format!("ClusterRoleBinding {name}"),
                format!("ConfigMap {name}"),
                format!("Deployment {name}"),
                format!("FlowSchema {name}"),
                format!("FlowSchema {name}-lease"),
                format!("PodDisruptionBudget {name}"),
                format!("Role {name}"),
                format!("RoleBinding {name}"),
                format!("Service {name}"),
                format!("ServiceAccount {name}-standalone"),
            ]
        );
        let first = cluster.config(name).await;
        assert_eq!(first.1, "dryRun: true\n");

        // The command from NOTES.txt.
        let upgrade = ["--reset-then-reuse-values", "--set", "config.dryRun=false"];
        let notes = cluster.put("upgrade", name, &upgrade);
        assert!(notes.contains("It writes."), "{notes}");
        let second = cluster.config(name).await;
        assert_eq!(second.1, "dryRun: false\n");
        assert_ne!(second.0, first.0, "the pods are not replaced");

        let wrong = cluster.helm(&["upgrade", name, &chart(name), "--set", "config.dryRum=true"]);
        assert!(!wrong.status.success());
        let errors = String::from_utf8_lossy(&wrong.stderr);
        assert!(
            errors.contains("additional properties 'dryRum' not allowed"),
            "{errors}"
        );
        assert_eq!(cluster.config(name).await, second);

        said(cluster.helm(&["rollback", name, "1"]));
        assert_eq!(cluster.config(name).await, first);

        let before = cluster.specs(name).await;
        cluster.put("upgrade", name, &["--reset-then-reuse-values", "--set", OTHER]);
        let after = cluster.specs(name).await;
        assert!(after.contains_key("ServiceAccount lamps"), "{after:?}");
        assert!(!after.contains_key(&format!("ServiceAccount {name}-standalone")));
        let deployment = &after[&format!("Deployment {name}")];
        assert_eq!(deployment["strategy"], json!({"type": "Recreate"}));
        assert_eq!(deployment["revisionHistoryLimit"], 1);
        let pods = &deployment["template"];
        assert_eq!(pods["metadata"]["labels"]["tier"], "controllers");
        assert_eq!(pods["metadata"]["annotations"]["mesh"], "off");
        assert_eq!(pods["spec"]["serviceAccountName"], "lamps");
        assert_eq!(pods["spec"]["hostNetwork"], true);
        assert_eq!(pods["spec"]["dnsPolicy"], "Default");
        assert_eq!(pods["spec"]["securityContext"]["runAsUser"], 1000);
        assert_eq!(
            pods["spec"]["topologySpreadConstraints"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        assert_eq!(
            pods["spec"]["containers"][0]["env"][1],
            json!({"name": "A", "value": "b"})
        );
        said(cluster.helm(&["rollback", name, "3"]));
        assert_eq!(cluster.specs(name).await, before);

        said(cluster.helm(&["uninstall", name]));
        assert_eq!(cluster.objects(name).await, BTreeMap::new());
    }
}

/// For a cluster with its own control plane nodes.
const ON_THE_CONTROL_PLANE: &str = "controlPlane=require,hostNetwork=true,replicas=3";
/// For a cluster with Prometheus Operator, where only Prometheus may read the metrics.
const WATCHED: &str = "serviceMonitor.enabled=true,serviceMonitor.sampleLimit=9000,prometheusRule.enabled=true,\
                       dashboard.enabled=true,networkPolicy.enabled=true,networkPolicy.apiServerCIDRs[0]=10.96.0.1/32";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn each_chart_is_installed_by_default_and_with_each_of_three_overlays() {
    let cluster = prepared().await;
    let everything = everything();
    for name in CHARTS {
        cluster.put("install", name, &[]);
        let overlaid = async |namespace| cluster.listed(&OF_OVERLAYS, Some(namespace), name).await.len();
        let by_default = cluster.objects(name).await;
        assert_eq!((by_default.len(), overlaid(NAMESPACE).await), (11, 0));
        let deployment = format!("Deployment {name}");
        let pods =
            |objects: &BTreeMap<String, Value>| objects[&deployment]["spec"]["template"]["spec"].clone();
        let prefers = "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/weight";
        assert_eq!(pods(&by_default).pointer(prefers), Some(&json!(100)));

        let overlay = |set: &str| cluster.put("upgrade", name, &["--reset-values", "--set", set]);
        overlay(ON_THE_CONTROL_PLANE);
        let on_nodes = cluster.objects(name).await;
        assert_eq!(on_nodes[&deployment]["spec"]["replicas"], 3);
        let requires = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        assert!(pods(&on_nodes).pointer(requires).is_some());
        assert!(
            cluster
                .config(name)
                .await
                .1
                .contains("metricsAuthorization: kubernetes\n")
        );
        assert!(on_nodes.contains_key(&format!("ClusterRole {name}-metrics-reader")));

        overlay(WATCHED);
        assert_eq!(overlaid(NAMESPACE).await, 3);
        assert_eq!(pods(&cluster.objects(name).await), pods(&by_default));

        cluster.put("upgrade", name, &["--reset-values", &everything]);
        assert_eq!(
            (overlaid("restricted").await, overlaid("monitoring").await),
            (1, 2)
        );
        let deployments = cluster.listed(&["apis/apps/v1/deployments"], Some("restricted"), name);
        assert_eq!(deployments.await.len(), 1);
        // This overlay has another namespace, so nothing remains in the first one.
        let namespaced = [&OF_A_RELEASE[CLUSTER_WIDE..], &OF_OVERLAYS].concat();
        let left = cluster.listed(&namespaced, Some(NAMESPACE), name).await;
        assert_eq!(left, BTreeMap::new());

        // With default values, nothing of an overlay remains.
        cluster.put("upgrade", name, &["--reset-values"]);
        let specs = cluster.specs(name).await;
        assert_eq!(
            specs.keys().collect::<Vec<_>>(),
            by_default.keys().collect::<Vec<_>>()
        );
        assert_eq!(specs[&deployment], by_default[&deployment]["spec"]);
        assert_eq!(
            (overlaid("restricted").await, overlaid("monitoring").await),
            (0, 0)
        );
        said(cluster.helm(&["uninstall", name]));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn of_five_side_by_side_each_is_upgraded_rolled_back_and_goes_without_a_write_to_the_others() {
    let cluster = Cluster::start().await;
    for name in CHARTS {
        cluster.put("install", name, &[]);
    }
    let others = async |name: &str| {
        let others = CHARTS.into_iter().filter(|other| *other != name);
        join_all(others.map(|other| cluster.versions(other))).await
    };
    for name in CHARTS {
        let (before, own) = (others(name).await, cluster.versions(name).await);
        cluster.put(
            "upgrade",
            name,
            &["--set", "config.kubeApiQps=100,labels.team=platform"],
        );
        assert_ne!(cluster.versions(name).await, own);
        assert_eq!(others(name).await, before, "{name}");
    }
    for name in CHARTS {
        let before = others(name).await;
        assert_eq!(cluster.config(name).await.1, "dryRun: false\nkubeApiQps: 100\n");
        said(cluster.helm(&["rollback", name, "1"]));
        assert_eq!(cluster.config(name).await.1, "dryRun: false\n");
        assert_eq!(others(name).await, before, "{name}");
    }
    for name in CHARTS {
        let before = others(name).await;
        said(cluster.helm(&["uninstall", name]));
        assert_eq!(cluster.objects(name).await, BTreeMap::new());
        assert_eq!(others(name).await, before, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn of_the_umbrella_one_controller_is_added_and_goes_without_a_write_to_the_others() {
    let cluster = Cluster::start().await;
    let of = async |controller: &str| {
        let all = cluster.versions(UMBRELLA).await.into_iter();
        let name = format!("{UMBRELLA}-{controller}");
        all.filter(|(id, _)| id.contains(&name))
            .collect::<BTreeMap<_, _>>()
    };
    // The commands from the umbrella's README.
    let commands = blocks(README_OF_THE_UMBRELLA);
    let [install, upgrade] = commands.as_slice() else {
        panic!("other steps than these are not followed: {commands:#?}");
    };
    let notes = cluster.typed(&install.command);
    assert!(
        notes.contains("disruption-controller 0.1.0 decides and reports, and writes nothing"),
        "{notes}"
    );
    let notes = cluster.typed(&upgrade.command);
    assert!(notes.contains("disruption-controller 0.1.0 writes"), "{notes}");
    assert!(notes.contains("\n  ,-disruption-controller\n"), "{notes}");
    let first = of("disruption-controller").await;
    assert_eq!(first.len(), 11);
    assert_eq!(cluster.versions(UMBRELLA).await, first);

    let set = |set| ["--reset-then-reuse-values", "--set", set];
    let notes = cluster.put("upgrade", UMBRELLA, &set("ttl-controller.enabled=true"));
    assert!(
        notes.contains("\n  ,-disruption-controller,-ttl-controller\n"),
        "{notes}"
    );
    assert_eq!(of("ttl-controller").await.len(), 11);
    assert_eq!(of("disruption-controller").await, first);

    cluster.put("upgrade", UMBRELLA, &set("disruption-controller.enabled=false"));
    assert_eq!(of("disruption-controller").await, BTreeMap::new());
    assert_eq!(of("ttl-controller").await.len(), 11);
    said(cluster.helm(&["rollback", UMBRELLA, "2"]));
    assert_eq!(of("disruption-controller").await.len(), 11);
    assert_eq!(of("ttl-controller").await, BTreeMap::new());

    said(cluster.helm(&["uninstall", UMBRELLA]));
    assert_eq!(cluster.objects(UMBRELLA).await, BTreeMap::new());
}

/// kube-controller-manager creates these accounts with `--use-service-account-credentials`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn the_service_accounts_of_the_built_in_loops_are_in_nobody_s_way() {
    let cluster = Cluster::start().await;
    for name in CHARTS {
        let create = ["create", "serviceaccount", name, "-n", NAMESPACE];
        said(kubectl(&cluster.kubeconfig, &create, ""));
        cluster.put("install", name, &[]);
        let rules = &cluster.objects(name).await[&format!("ClusterRole {name}")]["rules"];
        let account = format!("system:serviceaccount:{NAMESPACE}:{name}-standalone");
        let can_i = ["auth", "can-i", "--list", "--no-headers", "--as", &account];
        let resources = rules
            .as_array()
            .unwrap()
            .iter()
            .map(|rule| rule["resources"].as_array().unwrap().len());
        let wanted = resources.sum::<usize>();
        // The authorizer receives the bindings by watch, with a delay.
        let theirs = async || {
            let listed = said(kubectl(&cluster.kubeconfig, &can_i, ""));
            // In addition to its own, every account may review itself, read trust bundles and use discovery.
            let of_all = ["selfsubject", "clustertrustbundles"];
            let own = listed.lines().filter(|line| {
                !of_all.iter().any(|name| line.contains(name)) && !line.trim_start().starts_with('[')
            });
            (own.count() == wanted).then_some(())
        };
        let what = format!("{account} has {wanted} permissions in the namespace");
        soon(&what, theirs).await;
    }
}
