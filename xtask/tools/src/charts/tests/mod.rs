//! Tests of the charts without Helm; `charts/tests/helm/` uses Helm and a real API server.

mod firing;

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use super::alerts::Alert;
use super::*;

/// Metrics that no snapshot has: of every target, from Prometheus; of every process, from its library; of a dry run.
const IN_NO_SNAPSHOT: [&str; 4] = [
    "up",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "controller_planned_writes_total",
];

#[test]
fn the_charts_are_what_would_be_written() {
    let check = Args {
        check: true,
        registry: None,
        source: None,
        images: None,
    };
    run(&check).unwrap();
}

#[test]
fn a_chart_that_is_released_has_the_image_of_that_release_in_all_that_it_says() {
    let files = files(&as_released()).unwrap();
    let text = |file: &str| files[&Path::new("ttl-controller").join(file)].as_str();
    let image = "ghcr.io/somebody/ttl-controller";
    assert!(text("values.yaml").contains(&format!("\n  repository: {image}\n")));
    let schema: Value = serde_json::from_str(text("values.schema.json")).unwrap();
    assert_eq!(
        schema["properties"]["image"]["properties"]["repository"]["default"],
        image
    );
    let readme = text("README.md");
    assert!(readme.contains(&format!("| `image.repository` | string | `\"{image}\"` |")));
    assert!(readme.contains(
        "\nhelm install ttl-controller oci://ghcr.io/somebody/charts/ttl-controller --namespace kube-system \
         --set config.dryRun=true\n"
    ));
    let chart: Value = yaml(text("Chart.yaml")).unwrap();
    let version = chart["version"].as_str().unwrap();
    assert_eq!(
        chart["sources"],
        json!(["https://github.com/somebody/controllers"])
    );
    assert_eq!(
        chart["maintainers"],
        json!([{"name": "somebody", "url": "https://github.com/somebody"}])
    );
    let of_hub = |key: &str| -> Value {
        yaml(
            chart["annotations"][format!("artifacthub.io/{key}")]
                .as_str()
                .unwrap(),
        )
        .unwrap()
    };
    assert_eq!(of_hub("prerelease"), false);
    // The text that the templates take for the digest of the release.
    let digest = image::small().1;
    assert_eq!(
        of_hub("images")[0]["image"],
        format!("{image}:{version}@{digest}")
    );
    assert_eq!(of_hub("links").as_array().unwrap().len(), 3);

    let umbrella = |file: &str| files[&Path::new(umbrella::NAME).join(file)].as_str();
    let chart: Value = yaml(umbrella("Chart.yaml")).unwrap();
    assert_eq!(
        chart["sources"],
        json!(["https://github.com/somebody/controllers"])
    );
    let dependencies = chart["dependencies"].as_array().unwrap();
    assert_eq!(dependencies.len(), CONTROLLERS.len());
    for dependency in dependencies {
        assert_eq!(dependency["repository"], "oci://ghcr.io/somebody/charts");
    }
    assert!(umbrella("README.md").contains(" oci://ghcr.io/somebody/charts/kube-controllers "));
}

#[test]
fn a_link_of_a_chart_leads_to_a_file_of_the_release_or_of_the_checkout() {
    let links = |text: &str| -> Vec<String> {
        let ends = text
            .split("](")
            .skip(1)
            .map(|rest| rest.split(')').next().unwrap());
        ends.map(str::to_owned).collect()
    };
    let [released, checked_out] = [as_released(), charts()].map(|charts| files(&charts).unwrap());
    let names = charts().map(|chart| (chart.name, chart.version));
    for (name, version) in names.into_iter().chain([(umbrella::NAME, umbrella::VERSION)]) {
        let readme = Path::new(name).join("README.md");
        let base = format!("https://github.com/somebody/controllers/blob/{name}-v{version}/");
        let mut paths = Vec::new();
        for link in links(&released[&readme]) {
            paths.push(
                link.strip_prefix(&base)
                    .unwrap_or_else(|| panic!("{link}"))
                    .to_owned(),
            );
        }
        let here = links(&checked_out[&readme]);
        assert_eq!(
            paths
                .iter()
                .map(|path| format!("../../{path}"))
                .collect::<Vec<_>>(),
            here
        );
        let chart_yaml: Value = yaml(&released[&Path::new(name).join("Chart.yaml")]).unwrap();
        let text = chart_yaml.to_string();
        paths.extend(
            text.split(&base)
                .skip(1)
                .map(|rest| rest.split(['\\', '"']).next().unwrap().to_owned()),
        );
        assert!(paths.len() > 8, "{paths:?}");
        for path in paths {
            let file = root().join(path.split('#').next().unwrap());
            assert!(file.is_file(), "{name}: {path}");
        }
    }
}

#[test]
fn a_source_is_a_repository() {
    assert!(source_url("https://github.com/somebody/controllers").is_ok());
    for wrong in [
        "github.com/somebody/controllers",
        "https://github.com/somebody",
        "https://github.com/a/b/",
        "https:///a/b",
    ] {
        assert!(source_url(wrong).is_err(), "{wrong}");
    }
}

/// The charts as released, with an image of ttl-controller.
fn as_released() -> [Chart; CONTROLLERS.len()] {
    let images = tempfile::tempdir().unwrap();
    fs::write(images.path().join("ttl-controller.tar"), image::small().0).unwrap();
    let args = Args {
        check: false,
        registry: Some("ghcr.io/somebody".to_owned()),
        source: Some("https://github.com/somebody/controllers".to_owned()),
        images: Some(images.path().to_owned()),
    };
    released(&args).unwrap()
}

#[test]
fn a_runbook_of_a_release_is_where_anybody_can_read_it() {
    let files = files(&as_released()).unwrap();
    for Chart { name, version, .. } in charts() {
        let text = |file: &str| &files[&Path::new(name).join(file)];
        let base =
            format!("https://github.com/somebody/controllers/blob/{name}-v{version}/docs/operations.md");
        // In the value and thus in the templates, and in the file for use without them.
        let values: Value = yaml(text("values.yaml")).unwrap();
        assert_eq!(values["prometheusRule"]["runbookUrl"], base);
        let alerts = alerts::parsed(text("files/alerts.yaml")).unwrap();
        assert!(alerts.len() > 10);
        for alert in alerts {
            assert_eq!(
                alert.annotations["runbook_url"],
                format!("{base}#{}", alert.anchor())
            );
        }
    }
}

#[test]
fn each_key_of_the_config_can_be_uncommented_alone() {
    for chart in charts() {
        let values = values::Values::of(&chart).unwrap();
        let text = values.yaml().unwrap();
        let mut uncommented = 0;
        for (key, schema) in values.config_keys() {
            let commented = format!("\n  # {key}: ");
            if !text.contains(&commented) {
                continue;
            }
            let changed = text.replacen(&commented, &format!("\n  {key}: "), 1);
            let read: Value =
                yaml(&changed).unwrap_or_else(|error| panic!("{}: {key}: {error:#}", chart.name));
            let config = read["config"].as_object().unwrap();
            let default = schema.get("default").unwrap_or(&Value::Null);
            assert_eq!(config.get(key), Some(default), "{}: {key}", chart.name);
            uncommented += 1;
        }
        assert_eq!(uncommented + 1, values.config_keys().count());
    }
}

#[test]
fn what_a_value_may_change_of_an_alert_is_what_it_has() {
    let ttl = charts()
        .into_iter()
        .find(|chart| chart.name == "ttl-controller")
        .unwrap();
    let alerts = alerts::parsed(&alerts::rules(&ttl).unwrap()).unwrap();
    let thresholds: Vec<_> = alerts
        .iter()
        .filter_map(|alert| Some((alert.name.strip_prefix("TtlController")?, alert.threshold()?)))
        .collect();
    assert_eq!(
        thresholds,
        [
            ("RequestsRefused", "0"),
            ("RequestsFail", "0.5"),
            ("QueueStalled", "0"),
            ("RetriesGrow", "0.5"),
            ("EventsDropped", "0"),
            ("PlannedWritesUndone", "0"),
            ("NodesOutOfDate", "0"),
            ("RivalWriter", "3"),
        ]
    );
    let schema = alerts::schema(&alerts);
    let of = |name: &str| &schema["properties"][format!("TtlController{name}")]["properties"];
    assert!(of("RivalWriter")["threshold"].is_object());
    assert_eq!(of("NoLeader").as_object().unwrap().len(), 2);
}

#[test]
fn no_two_controllers_ask_for_one_port_of_a_node() {
    let ports: BTreeSet<_> = charts().iter().map(|chart| chart.host_port).collect();
    assert_eq!(ports.len(), CONTROLLERS.len());
}

#[test]
fn a_link_that_leads_elsewhere_differs() {
    let folder = tempfile::tempdir().unwrap();
    let charts = folder.path().join(umbrella::NAME).join("charts");
    fs::create_dir_all(&charts).unwrap();
    symlink("../../a", charts.join("a")).unwrap();
    let there = found(folder.path()).unwrap();
    let link = Path::new(umbrella::NAME).join("charts/a");
    assert!(is_link(&there[&link]));
    assert_eq!(there, BTreeMap::from([(link, "../../a".to_owned())]));
}

#[test]
fn every_controller_has_a_chart() {
    assert_eq!(charts().map(|chart| chart.name), CONTROLLERS);
}

#[test]
fn what_differs_is_named() {
    let files = |files: &[(&str, &str)]| {
        let files = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()));
        files.collect::<BTreeMap<_, _>>()
    };
    let wanted = files(&[("a/same", "1"), ("a/changed", "2"), ("a/missing", "3")]);
    let there = files(&[("a/same", "1"), ("a/changed", "0"), ("b/left-over", "4")]);
    assert_eq!(
        differences(&wanted, &there),
        [
            Path::new("a/changed"),
            Path::new("a/missing"),
            Path::new("b/left-over")
        ]
    );
    assert!(differences(&wanted, &wanted).is_empty());
}

#[test]
fn a_chart_takes_no_key_that_its_pods_set_themselves() {
    let ttl = charts()
        .into_iter()
        .find(|chart| chart.name == "ttl-controller")
        .unwrap();
    let schema = values::Values::of(&ttl).unwrap().schema();
    let config = &schema["properties"]["config"];
    assert_eq!(config["additionalProperties"], false);
    assert_eq!(config["properties"]["concurrentSyncs"]["default"], 5);
    assert_eq!(config["properties"]["leaderElectIdentity"], Value::Null);
    assert_eq!(config["properties"]["remove"], Value::Null);
}

#[test]
fn types_are_named_in_words() {
    for (schema, name) in [
        (json!({"type": "integer"}), "integer"),
        (json!({"type": "array"}), "list"),
        (json!({"type": ["string", "null"]}), "string"),
        (json!({"type": "string", "format": "go-duration"}), "duration"),
        (json!({"enum": ["", "a", "b"]}), "`a` or `b`"),
        (
            json!({"anyOf": [{"oneOf": [{"const": "text"}, {"const": "json"}]}, {"type": "null"}]}),
            "`text` or `json`",
        ),
    ] {
        assert_eq!(values::type_name(&schema), name, "{schema}");
    }
}
