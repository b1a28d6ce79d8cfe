//! The output of Helm for the charts, without a cluster.

use std::fs;
use std::process::Command;

use rstest::rstest;
use serde_json::{Value, json};

use crate::documents::in_blocks_of;
use crate::support::{CHARTS, UMBRELLA, chart, everything, helm, metrics_of, root, run_helm, said};
use crate::{static_pod, support};

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn helm_finds_no_fault() {
    let charts = CHARTS.map(chart);
    let mut lint = vec!["lint", "--strict", "--with-subcharts"];
    lint.extend(charts.iter().map(String::as_str));
    said(helm(&lint));
    said(helm(&["lint", "--strict", "--with-subcharts", &chart(UMBRELLA)]));
    let everything = everything();
    lint.push(&everything);
    said(helm(&lint));
}

/// `GOLDEN=write` rewrites the golden files.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn the_charts_render_as_the_goldens_have_it() {
    for name in CHARTS {
        golden(name, &format!("{name}/golden.yaml"), &[]);
        // The live tests of the controllers run under these policies.
        golden(
            name,
            &format!("{name}/admission.golden.yaml"),
            &[
                "--set=admissionPolicy.enabled=true",
                "--show-only=templates/common/admissionpolicy.yaml",
            ],
        );
    }
    // Permissions for a feature gate.
    golden(
        "resourceclaim-controller",
        "resourceclaim-controller/groups.golden.yaml",
        &["--set=config.featureGates=DRAWorkloadResourceClaims=true"],
    );
    // Permissions to authorize metrics readers, and the token of Prometheus.
    golden(
        "ttl-controller",
        "ttl-controller/metrics.golden.yaml",
        &["--set=config.metricsAuthorization=kubernetes,serviceMonitor.enabled=true"],
    );
    // Other charts differ in files/ only. Leaves out the dashboard, which is in files/ as JSON.
    golden(
        "ttl-controller",
        "ttl-controller/everything.golden.yaml",
        &[&everything(), "--set=dashboard.enabled=false"],
    );
    let on_nodes = "--set=controlPlane=require,hostNetwork=true,config.httpBindAddress=127.0.0.1:10299";
    golden(
        "ttl-controller",
        "ttl-controller/control-plane.golden.yaml",
        &[on_nodes, "--show-only=templates/common/deployment.yaml"],
    );
}

fn golden(name: &str, file: &str, args: &[&str]) {
    let chart = chart(name);
    let mut template = vec!["template", name, &chart, "--namespace=kube-system"];
    template.extend(args);
    let rendered = said(helm(&template));
    let path = support::file(file);
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

/// Mistake, value, and Helm's message.
const WRONG: &str = r"
a key that is none                | replica=3                                           | additional properties 'replica' not allowed
a key of the config that is none  | config.concurrentSincs=3                            | at '/config': additional properties 'concurrentSincs' not allowed
a key further down that is none   | serviceMonitor.every=3s                             | at '/serviceMonitor': additional properties 'every' not allowed
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
nothing to install                | enabled=false                                       | enabled: false is for a chart that depends on this one
no name for objects               | nameOverride=My_Lamps                               | at '/nameOverride': 'My_Lamps' does not match
an account of nobody              | serviceAccount.create=false                         | serviceAccount.name: needed with serviceAccount.create=false
the account of the built-in loop  | serviceAccount.name=ttl-controller,namespaceOverride=kube-system | serviceAccount.name: ttl-controller in kube-system
no user id                        | podSecurityContext.runAsUser=nobody                 | at '/podSecurityContext/runAsUser': got string, want integer
a context that pods have not      | podSecurityContext.privileged=true                  | at '/podSecurityContext': additional properties 'privileged' not allowed
a spread over nothing             | topologySpreadConstraints[0].maxSkew=1              | at '/topologySpreadConstraints/0': missing properties 'topologyKey', 'whenUnsatisfiable'
no strategy                       | strategy.type=Sometimes                             | at '/strategy/type': value must be one of
writers side by side              | replicas=1,config.leaderElect=false,strategy.type=RollingUpdate | strategy.type: without config.leaderElect
a label of pods that selects them | podLabels.app\.kubernetes\.io/instance=other        | at '/podLabels/app.kubernetes.io~1instance': false schema
a variable that the pod sets      | extraEnv[0].name=CONTROLLER_LEADER_ELECT_IDENTITY   | at '/extraEnv/0/name'
two affinities to nodes           | controlPlane=require,affinity.nodeAffinity.a=b      | affinity.nodeAffinity: controlPlane=require has its own
a yes to nodes of the control plane | controlPlane=true                                 | at '/controlPlane': value must be one of 'require', 'prefer', 'none'
a no to them                      | controlPlane=false                                  | at '/controlPlane': value must be one of 'require', 'prefer', 'none'
a probe of another path           | livenessProbe.httpGet.path=/                        | at '/livenessProbe': additional properties 'httpGet' not allowed
a container without an image      | extraContainers[0].name=a                           | at '/extraContainers/0': missing property 'image'
an address without a mask         | networkPolicy.apiServerCIDRs[0]=10.0.0.1            | at '/networkPolicy/apiServerCIDRs/0': '10.0.0.1' does not match
an alert of another controller    | prometheusRule.alerts.DisruptionControllerDown.enabled=false | at '/prometheusRule/alerts': additional properties 'DisruptionControllerDown' not allowed
a threshold of an alert without   | prometheusRule.alerts.TtlControllerDown.threshold=2 | at '/prometheusRule/alerts/TtlControllerDown': additional properties 'threshold' not allowed
a word for a threshold            | prometheusRule.alerts.TtlControllerRivalWriter.threshold=few | at '/prometheusRule/alerts/TtlControllerRivalWriter/threshold': 'few' does not match
a port that is none               | hostPort=0                                          | at '/hostPort': minimum: got 0, want 1
an address that no kubelet reaches | config.httpBindAddress=127.0.0.1:8080             | config.httpBindAddress: with hostNetwork alone
a monitor that reaches nothing    | hostNetwork=true,podMonitor.enabled=true,podMonitor.authorization.a=b,config.httpBindAddress=[::1]:8080 | podMonitor.enabled: no Prometheus reaches ::1
a policy that binds nobody        | hostNetwork=true,networkPolicy.enabled=true         | networkPolicy.enabled: it does not bind pods with hostNetwork
no timeout                        | podMonitor.scrapeTimeout=soon                       | at '/podMonitor/scrapeTimeout': 'soon' does not match
nothing that a policy does        | admissionPolicy.validationActions[0]=Refuse         | at '/admissionPolicy/validationActions/0': value must be one of
no registry                       | global.imageRegistry=5                              | at '/global/imageRegistry': got number, want string
no placement for all              | global.controlPlane=true                            | at '/global/controlPlane': value must be one of '', 'require', 'prefer', 'none'
a monitor for all that is none    | global.serviceMonitor.every=3s                      | at '/global/serviceMonitor': additional properties 'every' not allowed
";

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn a_wrong_value_is_refused_by_its_name() {
    for row in WRONG.trim().lines() {
        let [what, set, named] = *row.split(" | ").map(str::trim).collect::<Vec<_>>() else {
            panic!("no row: {row}");
        };
        refused(what, &["ttl-controller", "--set", set], named);
        // The same as a part of the umbrella, except for values that concern the umbrella itself and global ones.
        if !set.starts_with("enabled=") && !set.starts_with("global.") {
            let set = set.split(',').map(|set| format!("ttl-controller.{set}"));
            let set = format!(
                "ttl-controller.enabled=true,{}",
                set.collect::<Vec<_>>().join(",")
            );
            refused(what, &[UMBRELLA, "--set", &set], named);
        }
    }
}

/// Fails unless Helm refuses to render the chart with these values and its message contains `named`.
fn refused(what: &str, chart_and_values: &[&str], named: &str) {
    let (name, values) = chart_and_values.split_first().unwrap();
    let chart = chart(name);
    let output = helm(&[&["template", "a", &chart][..], values].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{what}: {name} takes {values:?}");
    assert!(errors.contains(named), "{what}: {name}: {errors}");
}

#[rstest]
#[case::a_controller_that_is_none(
    "ttl-controllers.enabled=true",
    "additional properties 'ttl-controllers' not allowed"
)]
#[case::a_word_for_yes_or_no(
    "ttl-controller.enabled=maybe",
    "at '/ttl-controller/enabled': got string, want boolean"
)]
#[case::no_registry(
    "global.imageRegistry=5",
    "at '/global/imageRegistry': got number, want string"
)]
#[case::no_placement("global.controlPlane=true", "at '/global/controlPlane': value must be one of")]
#[case::no_policy(
    "ttl-controller.enabled=true,global.networkPolicy.form=x",
    "at '/global/networkPolicy': additional properties 'form' not allowed"
)]
#[case::no_controller(
    "ttl-controller.enabled=false",
    "enable at least one controller, such as disruption-controller.enabled=true"
)]
#[ignore = "needs helm: cargo xtask test"]
fn the_umbrella_refuses_what_is_no_value_of_its_own(#[case] set: &str, #[case] named: &str) {
    refused("a value", &[UMBRELLA, "--set", set], named);
}

/// Documents that Helm renders, sorted by text.
fn documents(release: &[&str]) -> Vec<String> {
    let rendered = said(helm(&[&["template"][..], release].concat()));
    let documents = rendered.split("---\n").filter(|document| !document.is_empty());
    let from = format!("# Source: {UMBRELLA}/charts/");
    let mut documents: Vec<_> = documents
        .map(|document| document.trim().replace(&from, "# Source: "))
        .collect();
    documents.sort();
    documents
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn the_umbrella_renders_what_the_charts_do_that_are_enabled() {
    let values = "replicas=3,image.repository=ghcr.io/somebody/lamps";
    let global = "--set=global.imageRegistry=mirror.example";
    let mut alone = Vec::new();
    let mut enabled = vec!["c".to_owned(), chart(UMBRELLA), global.to_owned()];
    for name in &CHARTS[..2] {
        alone.extend(documents(&["c", &chart(name), global, "--set", values]));
        for value in format!("enabled=true,{values}").split(',') {
            enabled.push(format!("--set={name}.{value}"));
        }
    }
    alone.sort();
    let enabled: Vec<_> = enabled.iter().map(String::as_str).collect();
    let together = documents(&enabled);
    assert_eq!(together, alone);
    let image = "image: mirror.example/somebody/lamps:";
    let shown = together.iter().filter(|document| document.contains(image));
    // A Deployment and a test pod of each of the two charts.
    assert_eq!(shown.count(), 4);
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
#[case::a_registry_in_the_place_of_none(
    "global.imageRegistry=m.example,image.repository=lamps",
    "image: m.example/lamps:"
)]
#[case::a_registry_in_the_place_of_another(
    "global.imageRegistry=m:5000,image.repository=localhost/a/b",
    "image: m:5000/a/b:"
)]
#[case::no_part_of_a_name_is_a_registry(
    "global.imageRegistry=m.example,image.repository=a/b.c",
    "image: m.example/a/b.c:"
)]
#[case::a_name_for_another("nameOverride=lamps", "name: a-lamps-standalone\n")]
#[case::a_whole_name("fullnameOverride=lamps", "name: lamps-standalone\n")]
#[case::an_account_that_is_there(
    "serviceAccount.create=false,serviceAccount.name=lamps",
    "serviceAccountName: lamps\n"
)]
#[case::a_port_of_its_own_on_the_node("hostNetwork=true", "httpBindAddress: '[::]:10275'\n")]
#[case::no_replica_has_to_wait_for_the_port_of_another("hostNetwork=true", "maxSurge: 0\n")]
#[case::on_a_node_the_metrics_are_for_whom_the_api_server_allows(
    "hostNetwork=true",
    "metricsAuthorization: kubernetes\n"
)]
#[case::unless_the_config_says_otherwise(
    "hostNetwork=true,config.metricsAuthorization=none",
    "scheme: HTTP\n"
)]
#[case::a_tag_of_one_s_own("image.tag=mine", "image: registry.example/ttl-controller:mine\n")]
#[case::a_threshold_of_one_s_own(
    "prometheusRule.enabled=true,prometheusRule.alerts.TtlControllerRivalWriter.threshold=2.5",
    ">= 2.5 # threshold"
)]
#[case::a_wait_of_one_s_own(
    "prometheusRule.enabled=true,prometheusRule.alerts.TtlControllerNoLeader.for=7m",
    "for: 7m\n"
)]
#[case::a_chosen_address_on_the_node("hostNetwork=true,config.httpBindAddress=[::1]:7", "host: \"::1\"\n")]
#[ignore = "needs helm: cargo xtask test"]
fn a_value_shows_in_the_objects(#[case] set: &str, #[case] shown: &str) {
    let rendered = said(helm(&["template", "a", &chart("ttl-controller"), "--set", set]));
    assert!(rendered.contains(shown), "{rendered}");
}

/// Packages as a release does, but from folders instead of a registry.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn the_umbrella_is_packaged_with_the_charts_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let copied = folder.path().join("charts").display().to_string();
    let copy = ["-R", &root().join("charts").display().to_string(), &copied];
    said(Command::new("cp").args(copy).output().unwrap());
    let umbrella = format!("{copied}/{UMBRELLA}");
    fs::remove_dir_all(format!("{umbrella}/charts")).unwrap();
    let enabled = "--set=ttl-controller.enabled=true";
    let missing = helm(&["template", "c", &umbrella, enabled]);
    let errors = String::from_utf8_lossy(&missing.stderr);
    assert!(
        errors.contains("found in Chart.yaml, but missing in charts/"),
        "{errors}"
    );
    said(helm(&["dependency", "update", &umbrella]));
    let to = folder.path().display().to_string();
    said(helm(&["package", &umbrella, "--destination", &to]));
    let package = format!("{to}/{UMBRELLA}-0.1.0.tgz");
    assert_eq!(
        documents(&["c", &package, enabled]),
        documents(&["c", &chart(UMBRELLA), enabled])
    );
}

/// Flux reads a chart from a Git repository without its symbolic links.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn a_chart_without_its_templates_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let copied = folder.path().join("ttl-controller").display().to_string();
    said(
        Command::new("cp")
            .args(["-RL", &chart("ttl-controller"), &copied])
            .output()
            .unwrap(),
    );
    fs::remove_dir_all(format!("{copied}/templates/common")).unwrap();
    let output = run_helm(&["template", "a", &copied, "--set=image.repository=a"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("no template \"controller.notes\""), "{errors}");
}

/// Packages as a release does.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn a_package_needs_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().display().to_string();
    let value = "--set=image.repository=a";
    for name in CHARTS {
        said(helm(&["package", &chart(name), "--destination", &to]));
        let package = format!("{to}/{name}-0.1.0.tgz");
        said(helm(&["lint", "--strict", &package, value]));
        assert_eq!(
            documents(&["c", &package, value]),
            documents(&["c", &chart(name), value])
        );
    }
}

/// The values in the document about static pods.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn the_values_of_the_document_are_taken() {
    let document = fs::read_to_string(root().join(static_pod::DOCUMENT)).unwrap();
    let blocks: Vec<_> = in_blocks_of("yaml", &document).map(|(_, block)| block).collect();
    let folder = tempfile::tempdir().unwrap();
    let shown = ["hostNetwork: true\n", "fieldPath: status.hostIP\n"];
    assert_eq!(blocks.len(), shown.len());
    for (block, shown) in blocks.into_iter().zip(shown) {
        let values = folder.path().join("values.yaml");
        fs::write(&values, block).unwrap();
        let values = format!("--values={}", values.display());
        let rendered = said(helm(&["template", "a", &chart("ttl-controller"), &values]));
        assert!(rendered.contains(shown), "{rendered}");
    }
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn what_somebody_else_makes_is_left_to_them() {
    let chart = chart("ttl-controller");
    let without = ["--set=serviceAccount.create=false,serviceAccount.name=lamps,rbac.create=false"];
    let rendered = said(helm(&[&["template", "a", &chart], &without[..]].concat()));
    for kind in [
        "kind: ServiceAccount\nmetadata",
        "kind: ClusterRole",
        "kind: Role",
    ] {
        assert!(!rendered.contains(kind), "{rendered}");
    }
    assert!(!rendered.contains("standalone"), "{rendered}");
}

/// One release of all five controllers, with the longest name that Helm accepts.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn no_two_objects_of_a_release_have_one_name() {
    let release = "a".repeat(53);
    let enabled = CHARTS.map(|name| format!("--set={name}.enabled=true"));
    let mut template = vec!["template", &release];
    let umbrella = chart(UMBRELLA);
    template.push(&umbrella);
    template.extend(enabled.iter().map(String::as_str));
    let mut names: Vec<String> = said(helm(&template))
        .split("---\n")
        .filter_map(|document| {
            let line = |start| document.lines().find(|line| line.starts_with(start));
            Some(format!("{} {}", line("kind: ")?, line("  name: ")?))
        })
        .collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), all), (80, 80));
}

#[rstest]
#[case::a_disruption_budget_of_one_replica("replicas=1", "kind: PodDisruptionBudget")]
#[case::a_disruption_budget_that_nobody_wants(
    "podDisruptionBudget.enabled=false",
    "kind: PodDisruptionBudget"
)]
#[case::an_alert_that_is_switched_off(
    "prometheusRule.enabled=true,prometheusRule.alerts.TtlControllerRivalWriter.enabled=false",
    "alert: TtlControllerRivalWriter\n"
)]
#[case::the_control_plane_that_is_nothing_special("controlPlane=none", "node-role.kubernetes.io")]
#[ignore = "needs helm: cargo xtask test"]
fn a_value_takes_something_away(#[case] set: &str, #[case] gone: &str) {
    let chart = chart("ttl-controller");
    let rendered = |set: &str| said(helm(&["template", "a", &chart, "--set", set]));
    assert!(rendered("prometheusRule.enabled=true").contains(gone));
    assert!(!rendered(set).contains(gone), "{gone}");
}

/// The Deployment of ttl-controller, rendered by Helm.
fn deployment(args: &[&str]) -> Value {
    let chart = chart("ttl-controller");
    let only = [
        "template",
        "a",
        &chart,
        "--show-only=templates/common/deployment.yaml",
    ];
    serde_saphyr::from_str(&said(helm(&[&only, args].concat()))).unwrap()
}

#[test]
#[ignore = "needs helm: cargo xtask test"]
fn pods_prefer_the_control_plane_where_there_is_one_and_else_go_where_they_went() {
    let role = json!({"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"});
    let pods = |set: &str| deployment(&[set])["spec"]["template"]["spec"].clone();
    let by_default = pods("--set=replicas=2");
    assert_eq!(
        by_default["affinity"]["nodeAffinity"],
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": {"matchExpressions": [role]}}]})
    );
    assert_eq!(by_default["tolerations"][0], role);
    // Taints of failed or uninitialized nodes keep the pods away as before.
    assert_eq!(by_default["tolerations"].as_array().unwrap().len(), 3);

    let own = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key=a";
    let beside = &pods(&format!("--set={own}"))["affinity"]["nodeAffinity"];
    assert_eq!(beside.as_object().unwrap().len(), 2, "{beside}");
    let own = "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=7";
    let instead = &pods(&format!("--set={own}"))["affinity"]["nodeAffinity"];
    assert_eq!(
        *instead,
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7}]})
    );

    let required = pods("--set=controlPlane=require");
    assert_eq!(
        required["affinity"]["nodeAffinity"],
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [role]}]}})
    );
    assert_eq!(required["tolerations"].as_array().unwrap().len(), 6);
    let nowhere_special = pods("--set=controlPlane=none");
    assert!(nowhere_special["affinity"].is_null() && nowhere_special["tolerations"].is_null());
}

/// Chart.yaml of a released chart has the digest in its image annotation.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn a_released_chart_installs_the_image_of_the_release_and_no_other_of_its_tag() {
    let folder = tempfile::tempdir().unwrap();
    let released = folder.path().join("ttl-controller").display().to_string();
    said(
        Command::new("cp")
            .args(["-RL", &chart("ttl-controller"), &released])
            .output()
            .unwrap(),
    );
    let digest = format!("sha256:{}", "0a".repeat(32));
    let images = format!(
        "  artifacthub.io/images: |\n    - name: ttl-controller\n      image: r.example/ttl-controller:0.1.0@{digest}\n"
    );
    let file = format!("{released}/Chart.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replace("annotations:\n", &format!("annotations:\n{images}")),
    )
    .unwrap();
    for (set, image) in [
        ("", format!("r.example/ttl-controller:0.1.0@{digest}")),
        (
            ",global.imageRegistry=m.example",
            format!("m.example/ttl-controller:0.1.0@{digest}"),
        ),
        (",image.tag=mine", "r.example/ttl-controller:mine".to_owned()),
        (
            ",image.digest=sha256:00000000000000000000000000000000",
            "r.example/ttl-controller@sha256:00000000000000000000000000000000".to_owned(),
        ),
    ] {
        let set = format!("--set=image.repository=r.example/ttl-controller{set}");
        let rendered = said(run_helm(&["template", "a", &released, &set]));
        assert!(rendered.contains(&format!("image: {image}\n")), "{rendered}");
    }
}

/// All keys of the config that values.yaml shows, at once.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn every_key_of_the_config_can_be_uncommented() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.yaml");
    for name in CHARTS {
        let values = fs::read_to_string(format!("{}/values.yaml", chart(name))).unwrap();
        let (before, rest) = values.split_once("\nconfig:\n").unwrap();
        let (config, after) = rest.split_once("\n\n").unwrap();
        let config = config.replace("  # ", "  ");
        assert!(config.lines().count() > 20, "{config}");
        let repository = "image:\n  # Image without tag.";
        let named = after.replacen("  repository: \"\"", "  repository: registry.example/ours", 1);
        assert!(after.contains(repository));
        fs::write(&file, format!("{before}\nconfig:\n{config}\n\n{named}")).unwrap();
        let values = format!("--values={}", file.display());
        let rendered = said(helm(&["template", "a", &chart(name), &values]));
        for line in config.lines().filter(|line| !line.ends_with(" null")) {
            let key = line.trim().split(':').next().unwrap();
            assert!(
                rendered.contains(&format!("\n    {key}: ")),
                "{name}: {key}: {rendered}"
            );
        }
    }
}

/// The README's values for Prometheus Operator and cert-manager.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn the_example_of_metrics_is_taken() {
    for name in CHARTS {
        let example = metrics_of(name);
        let values = format!("--values={}", example.path().display());
        let rendered = documents(&[name, &chart(name), "--namespace=kube-system", &values]);
        let object = |kind: &str| -> Value {
            let found = rendered
                .iter()
                .find(|document| document.contains(&format!("kind: {kind}\n")));
            serde_saphyr::from_str(found.unwrap_or_else(|| panic!("{name}: no {kind}"))).unwrap()
        };
        let endpoint = &object("PodMonitor")["spec"]["podMetricsEndpoints"][0];
        assert_eq!(endpoint["scheme"], "https");
        // The generated certificate is the one that is mounted and that the monitor expects.
        let certificate = &object("Certificate")["spec"];
        let pods = &object("Deployment")["spec"]["template"]["spec"];
        assert_eq!(
            pods["volumes"][1]["secret"]["secretName"],
            certificate["secretName"]
        );
        assert_eq!(
            endpoint["tlsConfig"]["ca"]["secret"]["name"],
            certificate["secretName"]
        );
        assert_eq!(endpoint["tlsConfig"]["serverName"], certificate["dnsNames"][0]);
        // The token belongs to an account that may read the metrics.
        let token = object("Secret");
        assert_eq!(
            endpoint["authorization"]["credentials"]["name"],
            token["metadata"]["name"]
        );
        let roles: Vec<_> = rendered
            .iter()
            .filter(|document| document.contains("kind: ClusterRole\n"))
            .collect();
        let binding = rendered
            .iter()
            .find(|document| document.contains(&format!("name: {name}-scraper\nroleRef")));
        let binding: Value = serde_saphyr::from_str(binding.unwrap()).unwrap();
        let role = format!("name: {}\n", binding["roleRef"]["name"].as_str().unwrap());
        assert!(roles.iter().any(|document| document.contains(&role)), "{role}");
    }
}

/// Values in `global` apply to each enabled chart.
#[test]
#[ignore = "needs helm: cargo xtask test"]
fn the_values_of_all_charts_beat_those_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    let global = json!({"global": {
        "controlPlane": "require",
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "pool", "operator": "Exists"}],
        "priorityClassName": "ours",
        "clusterLabel": "k8s_cluster",
        "networkPolicy": {"enabled": true, "apiServerCIDRs": ["10.96.0.1/32"]},
        "serviceMonitor": {"enabled": true, "interval": "15s"},
        "prometheusRule": {"enabled": true},
        "dashboard": {"enabled": true},
    }});
    fs::write(&values, global.to_string()).unwrap();
    let values = format!("--values={}", values.display());
    let mut release = vec!["c".to_owned(), chart(UMBRELLA), values.clone()];
    for name in CHARTS {
        release.push(format!(
            "--set={name}.enabled=true,{name}.priorityClassName=theirs"
        ));
    }
    let release: Vec<_> = release.iter().map(String::as_str).collect();
    let rendered = documents(&release);
    let with = |text: &str| rendered.iter().filter(|document| document.contains(text)).count();
    for (text, count) in [
        ("requiredDuringSchedulingIgnoredDuringExecution", 5),
        ("        pool: system\n", 5),
        ("- key: pool\n", 5),
        ("priorityClassName: ours\n", 5),
        ("by (k8s_cluster, job)", 5),
        ("cidr: 10.96.0.1/32", 5),
        ("kind: ServiceMonitor\n", 5),
        ("interval: 15s\n", 5),
        ("kind: PrometheusRule\n", 5),
        (".json: |", 5),
        ("theirs", 0),
    ] {
        assert_eq!(with(text), count, "{text}");
    }
    // taint-eviction-controller would evict itself without these tolerations.
    let own = rendered.iter().filter(|document| {
        document.contains("kind: Deployment\n")
            && document.contains("- effect: NoExecute\n          operator: Exists\n")
    });
    assert_eq!(own.count(), 1);
    // A chart alone accepts them as well.
    let alone = documents(&["c", &chart("ttl-controller"), &values]);
    let theirs = rendered
        .iter()
        .filter(|document| document.contains("# Source: ttl-controller/"));
    assert_eq!(theirs.cloned().collect::<Vec<_>>(), alone);
}
