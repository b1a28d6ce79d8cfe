//! Tests of the charts without Helm; `charts/tests/helm/` uses Helm and a real API server.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use super::alerts::Alert;
use super::*;
use xtask::CONTROLLERS;

/// Metrics of every process, from Prometheus' own library, and of every target, from Prometheus.
const OF_EVERY_PROCESS: [&str; 3] = ["up", "process_cpu_seconds_total", "process_resident_memory_bytes"];

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
    assert_eq!(dependencies.len(), 5);
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
fn as_released() -> [Chart; 5] {
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
    assert_eq!(ports, BTreeSet::from([10271, 10272, 10273, 10274, 10275]));
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

#[test]
fn alerts_and_dashboards_ask_for_metrics_that_are_there() {
    for chart in charts() {
        let families = families(chart.name);
        let mut asked = 0;
        for expr in expressions(&chart) {
            for metric in metrics(&expr) {
                assert!(
                    families.contains(&metric),
                    "{}: no {metric} for {expr}",
                    chart.name
                );
                asked += 1;
            }
        }
        assert!(asked > 30, "{}: only {asked} found", chart.name);
    }
}

#[test]
fn metrics_are_found_in_expressions() {
    let expr = "histogram_quantile(0.9, sum by (job, le) (rate(lag_seconds_bucket{job=\"by_x\"}[10m]))) > 10 \
                and up == 1 unless on (job, instance) leader{name=~\"a|b\"} == 0";
    assert_eq!(metrics(expr), ["lag_seconds", "up", "leader"]);
}

#[test]
fn every_query_of_a_dashboard_keeps_to_its_variables() {
    let narrowed = r#",cluster="$cluster",namespace=~"$namespace",instance=~"$instance""#;
    for chart in charts() {
        let dashboard = dashboard::model(&chart).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        for target in panels
            .iter()
            .flat_map(|panel| panel["targets"].as_array().unwrap())
        {
            let expr = target["expr"].as_str().unwrap();
            let selectors = expr.matches('{').count();
            assert!(selectors > 0, "{}: {expr}", chart.name);
            assert_eq!(
                expr.matches(narrowed).count(),
                selectors,
                "{}: {expr}",
                chart.name
            );
        }
    }
}

#[test]
fn every_alert_says_what_to_do() {
    let operations = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    for chart in charts() {
        for alert in alerts::parsed(&alerts::rules(&chart).unwrap()).unwrap() {
            assert!(alert.annotations.contains_key("description"), "{}", alert.name);
            let runbook = &alert.annotations["runbook_url"];
            let anchor = runbook.strip_prefix("docs/operations.md#").unwrap();
            let heading = format!("\n#### {}\n", anchor.replace('-', " "));
            let there = operations.to_lowercase().contains(&heading);
            assert!(there, "{}: no heading for {runbook}", alert.name);
        }
    }
}

#[test]
fn every_metric_is_explained() {
    let operations = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    for controller in CONTROLLERS {
        for metric in families(controller) {
            let named = [format!("`{metric}`"), format!("`{metric}{{")];
            let there = named.iter().any(|name| operations.contains(name)) || metric == "up";
            assert!(
                there,
                "docs/operations.md does not explain {metric} of {controller}"
            );
        }
    }
}

#[test]
fn the_alerts_fire_for_their_faults() {
    for chart in charts() {
        let rules = root().join("charts").join(chart.name).join("files/alerts.yaml");
        let alerts = alerts::parsed(&alerts::rules(&chart).unwrap()).unwrap();
        let tests = AlertTests::of(&chart).in_all_worlds(&alerts);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tests.json");
        let suite = json!({"rule_files": [&rules], "evaluation_interval": "1m", "tests": tests});
        fs::write(&file, suite.to_string()).unwrap();
        promtool(&["check", "rules"], &rules);
        promtool(&["test", "rules"], &file);
    }
}

/// Fails unless promtool accepts the file.
fn promtool(args: &[&str], file: &Path) {
    let output = match Command::new("promtool").args(args).arg(file).output() {
        Ok(output) => output,
        Err(error) if std::env::var("CI").is_err() => {
            println!("left out: promtool, which comes with Debian's prometheus package ({error})");
            return;
        }
        Err(error) => panic!("promtool comes with Debian's prometheus package: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", file.display());
}

/// promtool's tests for the alerts of a chart: those for all charts and its own.
#[derive(Default)]
struct AlertTests {
    /// The series of a healthy cluster.
    healthy: Vec<Value>,
    tests: Vec<Value>,
}

impl AlertTests {
    fn of(chart: &Chart) -> Self {
        let mut all = Self::default();
        for folder in ["", chart.name] {
            let file = root().join("charts/tests").join(folder).join("alerts.yaml");
            let text = fs::read_to_string(file).unwrap();
            let mut file: Value = yaml(&alerts::filled_in(&text, chart.name)).unwrap();
            all.healthy.append(file["healthy"].as_array_mut().unwrap());
            all.tests.append(file["tests"].as_array_mut().unwrap());
        }
        all
    }

    /// Each test unchanged, next to a healthy cluster, and in two clusters at once; and two healthy clusters.
    fn in_all_worlds(mut self, alerts: &[Alert]) -> Vec<Value> {
        let mut worlds = vec![self.two_healthy_clusters(alerts)];
        for alert in alerts {
            self.assert_covers(alert);
        }
        for test in &mut self.tests {
            test["interval"] = json!("1m");
            complete(test, alerts);
            worlds.push(test.clone());
            if test["alone"] != true {
                worlds.push(in_clusters(
                    test,
                    "in one of two clusters",
                    &["west"],
                    &self.healthy,
                ));
                worlds.push(in_clusters(test, "in both clusters", &["east", "west"], &[]));
            }
        }
        for world in &mut worlds {
            world.as_object_mut().unwrap().remove("alone");
        }
        worlds
    }

    fn two_healthy_clusters(&self, alerts: &[Alert]) -> Value {
        let quiet = alerts.iter().map(|alert| &alert.name).flat_map(|name| {
            (1..=12).map(move |five| {
                json!({"eval_time": format!("{}m", 5 * five), "alertname": name, "exp_alerts": []})
            })
        });
        let test = json!({
            "name": "nothing is wrong", "interval": "1m", "input_series": self.healthy,
            "alert_rule_test": quiet.collect::<Vec<_>>(),
        });
        in_clusters(&test, "in two clusters", &["east", "west"], &[])
    }

    /// The alert fires in one case and does not in another.
    fn assert_covers(&self, alert: &Alert) {
        let cases = self
            .tests
            .iter()
            .flat_map(|test| test["alert_rule_test"].as_array().unwrap());
        let fires: BTreeSet<_> = cases
            .filter(|case| case["alertname"] == alert.name)
            .map(|case| expected(case).iter().any(|expected| is_of(expected, alert)))
            .collect();
        assert_eq!(fires, [false, true].into(), "{} {:?}", alert.name, alert.labels);
    }
}

fn expected(case: &Value) -> &Vec<Value> {
    case["exp_alerts"].as_array().unwrap()
}

/// True if an expected alert belongs to this rule; rules of the same name differ in severity.
fn is_of(expected: &Value, alert: &Alert) -> bool {
    expected["exp_labels"]["severity"] == alert.labels["severity"]
}

/// Adds the rule's annotations where an expected alert leaves them out; these have nothing to expand.
fn complete(test: &mut Value, alerts: &[Alert]) {
    for case in test["alert_rule_test"].as_array_mut().unwrap() {
        let name = case["alertname"].clone();
        for expected in case["exp_alerts"].as_array_mut().unwrap() {
            let rule = alerts
                .iter()
                .find(|alert| name == alert.name && is_of(expected, alert));
            for (annotation, text) in &rule.unwrap().annotations {
                let annotations = expected["exp_annotations"].as_object_mut().unwrap();
                annotations.entry(annotation).or_insert_with(|| json!(text));
            }
        }
    }
}

/// The same test with its series in these clusters, and the series `beside` in the cluster `east`.
fn in_clusters(test: &Value, what: &str, clusters: &[&str], beside: &[Value]) -> Value {
    let moved = |series: &Value, cluster: &str| {
        let mut series = series.clone();
        let labelled = series["series"].as_str().unwrap();
        series["series"] = json!(labelled.replacen('{', &format!("{{cluster=\"{cluster}\","), 1));
        series
    };
    let everywhere = |list: &Value, there: &dyn Fn(&Value, &str) -> Value| {
        let list = list.as_array().unwrap();
        let all = clusters
            .iter()
            .flat_map(|cluster| list.iter().map(|one| there(one, cluster)));
        all.collect::<Vec<_>>()
    };
    let mut test = test.clone();
    test["name"] = json!(format!("{}, {what}", test["name"].as_str().unwrap()));
    let mut series = everywhere(&test["input_series"], &moved);
    series.extend(beside.iter().map(|series| moved(series, "east")));
    test["input_series"] = json!(series);
    for case in test["alert_rule_test"].as_array_mut().unwrap() {
        let expected = everywhere(&case["exp_alerts"], &|expected, cluster| {
            let mut expected = expected.clone();
            expected["exp_labels"]["cluster"] = json!(cluster);
            expected
        });
        case["exp_alerts"] = json!(expected);
    }
    test
}

/// Prometheus expressions in the alerts and the dashboard of `chart`.
fn expressions(chart: &Chart) -> Vec<String> {
    let rules: Value = yaml(&alerts::rules(chart).unwrap()).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap().clone();
    let dashboard = dashboard::model(chart).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().clone();
    let targets = panels
        .into_iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap().clone());
    let with_expr = rules.into_iter().chain(targets);
    with_expr
        .map(|holder| holder["expr"].as_str().unwrap().to_owned())
        .collect()
}

/// Metric families in a Prometheus expression.
fn metrics(expr: &str) -> Vec<String> {
    // Texts in braces and brackets and after by and on are labels and windows.
    let mut bare = String::new();
    let mut depth = 0;
    for c in expr.replace(" # threshold", "").chars() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ if depth == 0 => bare.push(c),
            _ => {}
        }
    }
    for keyword in ["by (", "on ("] {
        while let Some(start) = bare.find(keyword) {
            let end = start + bare[start..].find(')').unwrap();
            bare.replace_range(start..=end, " ");
        }
    }
    let mut found = Vec::new();
    let mut rest = bare.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        let word = &rest[start..];
        let end = word
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        rest = after;
        let function = after.trim_start().starts_with('(');
        if !function && !["and", "or", "unless"].contains(&word) {
            let series = ["_bucket", "_count", "_sum"]
                .iter()
                .find_map(|suffix| word.strip_suffix(suffix));
            found.push(series.unwrap_or(word).to_owned());
        }
    }
    found
}

/// Metric families of a controller, from the snapshot of its `/metrics`.
fn families(controller: &str) -> BTreeSet<String> {
    let snapshots = root()
        .join("crates")
        .join(controller)
        .join("tests/sync/snapshots");
    let text = found(&snapshots).unwrap().into_values().collect::<String>();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.filter_map(|line| line.split(' ').next());
    names.chain(OF_EVERY_PROCESS).map(str::to_owned).collect()
}
