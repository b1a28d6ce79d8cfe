use super::*;

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

/// The same test with its series in these clusters, and the series `elsewhere` in the cluster `east`.
fn in_clusters(test: &Value, what: &str, clusters: &[&str], elsewhere: &[Value]) -> Value {
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
    series.extend(elsewhere.iter().map(|series| moved(series, "east")));
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
    assert!(
        text.contains("# TYPE "),
        "{controller} has no snapshot of its metrics"
    );
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.filter_map(|line| line.split(' ').next());
    names.chain(IN_NO_SNAPSHOT).map(str::to_owned).collect()
}
