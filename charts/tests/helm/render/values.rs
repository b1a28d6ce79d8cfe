use super::*;

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
    assert_eq!((names.len(), all), (16 * CHARTS.len(), 16 * CHARTS.len()));
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
