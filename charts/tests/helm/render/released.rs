use super::*;

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
        assert!(config.lines().count() > 15, "{config}");
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
        ("requiredDuringSchedulingIgnoredDuringExecution", CHARTS.len()),
        ("        pool: system\n", CHARTS.len()),
        ("- key: pool\n", CHARTS.len()),
        ("priorityClassName: ours\n", CHARTS.len()),
        ("by (k8s_cluster, job)", CHARTS.len()),
        ("cidr: 10.96.0.1/32", CHARTS.len()),
        ("kind: ServiceMonitor\n", CHARTS.len()),
        ("interval: 15s\n", CHARTS.len()),
        ("kind: PrometheusRule\n", CHARTS.len()),
        (".json: |", CHARTS.len()),
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
