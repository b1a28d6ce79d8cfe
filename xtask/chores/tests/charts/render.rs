//! What Helm makes of the charts, without a cluster.

use std::fs;

use rstest::rstest;

use crate::support::{CHARTS, chart, everything, helm, run_helm, said, source};

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn helm_finds_no_fault() {
    let charts = CHARTS.map(chart);
    let mut lint = vec!["lint", "--strict", "--with-subcharts"];
    lint.extend(charts.iter().map(String::as_str));
    said(helm(&lint));
    let everything = everything();
    lint.push(&everything);
    said(helm(&lint));
}

/// `GOLDEN=write` writes them anew.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn the_charts_render_as_the_goldens_have_it() {
    for name in CHARTS {
        golden(name, &format!("{name}/golden.yaml"), &[]);
    }
    // The permissions that a feature gate needs.
    golden(
        "resourceclaim-controller",
        "resourceclaim-controller/groups.golden.yaml",
        &["--set=config.featureGates=DRAWorkloadResourceClaims=true"],
    );
    // The permissions to ask who may read the metrics, and who shows which token.
    golden(
        "ttl-controller",
        "ttl-controller/metrics.golden.yaml",
        &["--set=config.metricsAuthorization=kubernetes,serviceMonitor.enabled=true"],
    );
    // The others differ in what stands in files/ alone; the dashboard is there to be read.
    golden(
        "ttl-controller",
        "everything.golden.yaml",
        &[&everything(), "--set=dashboard.enabled=false"],
    );
}

fn golden(name: &str, file: &str, args: &[&str]) {
    let chart = chart(name);
    let mut template = vec!["template", name, &chart, "--namespace=kube-system"];
    template.extend(args);
    let rendered = said(helm(&template));
    let path = source(file);
    if std::env::var("GOLDEN").is_ok_and(|golden| golden == "write") {
        fs::write(&path, &rendered).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap();
    let differs = wanted
        .lines()
        .zip(rendered.lines())
        .find(|(wanted, rendered)| wanted != rendered);
    assert!(
        wanted == rendered,
        "{file} differs, at first in {differs:?}; GOLDEN=write writes it anew"
    );
}

/// What is wrong, the value, and how it is named.
const WRONG: &str = r"
a key that is none                | replica=3                                           | additional properties 'replica' not allowed
a key of the config that is none  | config.concurrentSincs=3                            | at '/config': additional properties 'concurrentSincs' not allowed
a key further down that is none   | serviceMonitor.intervall=3s                         | at '/serviceMonitor': additional properties 'intervall' not allowed
a key that the pod sets           | config.leaderElectIdentity=a                        | at '/config': additional properties 'leaderElectIdentity' not allowed
a word for a number               | replicas=two                                        | at '/replicas': got string, want integer
a word for a number of the config | config.kubeApiQps=fast                              | at '/config/kubeApiQps': got string, want number
a number for a duration           | config.leaderElectLeaseDuration=15                  | at '/config/leaderElectLeaseDuration': got number, want string
no duration                       | config.leaderElectLeaseDuration=soon                | at '/config/leaderElectLeaseDuration': 'soon' does not match
no choice                         | image.pullPolicy=Sometimes                          | at '/image/pullPolicy': value must be one of
no log format                     | config.logFormat=xml                                | at '/config/logFormat'
no workers                        | config.concurrentSyncs=0                            | at '/config/concurrentSyncs': minimum: got 0, want 1
a map for a list                  | extraArgs.a=b                                       | at '/extraArgs': got object, want array
nothing where something must be   | config=null                                         | missing property 'config'
a label that selects the pods     | labels.app\.kubernetes\.io/name=other               | at '/labels/app.kubernetes.io~1name': false schema
an annotation that the pods have  | annotations.checksum/config=none                    | at '/annotations/checksum~1config': false schema
a severity for all alerts         | prometheusRule.additionalRuleLabels.severity=info   | at '/prometheusRule/additionalRuleLabels/severity': false schema
a cluster label that is none      | clusterLabel=k8s-cluster                            | at '/clusterLabel': 'k8s-cluster' does not match
several writers                   | config.leaderElect=false                            | replicas: more than one needs config.leaderElect
two scrapes                       | serviceMonitor.enabled=true,podMonitor.enabled=true | serviceMonitor.enabled, podMonitor.enabled: both
nobody who reviews                | config.metricsAuthorization=rbac                    | at '/config/metricsAuthorization'
a monitor without a token         | config.metricsAuthorization=kubernetes,podMonitor.enabled=true | podMonitor.authorization: needed
a monitor of no service           | serviceMonitor.enabled=true,service.enabled=false   | serviceMonitor.enabled: needs service.enabled
";

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn a_wrong_value_is_refused_by_its_name() {
    for row in WRONG.trim().lines() {
        let [what, set, named] = *row.split(" | ").map(str::trim).collect::<Vec<_>>() else {
            panic!("no row: {row}");
        };
        let output = helm(&["template", "a", &chart("ttl-controller"), "--set", set]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{what}: {set} is taken");
        assert!(errors.contains(named), "{what}: {errors}");
    }
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn a_chart_that_was_not_released_wants_to_be_told_of_an_image() {
    for name in CHARTS {
        let output = run_helm(&["template", "a", &chart(name)]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("image.repository: must be set")
                && errors.contains(&format!("the image of {name}")),
            "{name}: {errors}"
        );
    }
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn every_chart_refuses_a_key_that_its_config_has_not() {
    for name in CHARTS {
        let output = helm(&["template", "a", &chart(name), "--set", "config.concurrentSincs=3"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("additional properties 'concurrentSincs' not allowed"),
            "{name}: {errors}"
        );
    }
}

#[rstest]
#[case::one_replica_needs_no_lease("config.leaderElect=false,replicas=1", "type: Recreate")]
#[case::a_dry_run_needs_none("config.leaderElect=false,config.dryRun=true", "replicas: 2")]
#[case::whole_numbers_stay_whole("config.kubeApiBurst=10000000", "kubeApiBurst: 10000000\n")]
#[case::a_dashboard_by_another_cluster_label(
    "clusterLabel=k8s_cluster,dashboard.enabled=true",
    r#"label_values(up{job=\"ttl-controller\",k8s_cluster=\"$cluster\"}, namespace)"#
)]
#[case::as_a_part_of_another_chart("global.any=thing", "kind: Deployment")]
#[ignore = "needs helm: cargo xtask test"]
fn a_value_shows_in_the_objects(#[case] set: &str, #[case] shown: &str) {
    let rendered = said(helm(&["template", "a", &chart("ttl-controller"), "--set", set]));
    assert!(rendered.contains(shown), "{rendered}");
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn one_replica_has_no_disruption_budget() {
    let chart = chart("ttl-controller");
    let with = |replicas| said(helm(&["template", "a", &chart, "--set", replicas]));
    assert!(with("replicas=2").contains("kind: PodDisruptionBudget"));
    assert!(!with("replicas=1").contains("kind: PodDisruptionBudget"));
}
