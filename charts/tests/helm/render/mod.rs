//! The output of Helm for the charts, without a cluster.

mod placement;
mod refusals;
mod released;
mod umbrella;
mod values;

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
    // Permissions for evictions through budgets.
    golden(
        "taint-eviction-controller",
        "taint-eviction-controller/budgets.golden.yaml",
        &["--set=config.evictThroughBudgets=maintenance:24h"],
    );
    // Permissions of a process that only observes.
    golden(
        "disruption-controller",
        "disruption-controller/observer.golden.yaml",
        &["--set=config.observe=true"],
    );
    // Permissions to read owners without a scale.
    let rules = r#"rbac.extraRules=[{"apiGroups":["example.com"],"resources":["gadgets"],"verbs":["get"]}]"#;
    golden(
        "disruption-controller",
        "disruption-controller/owners.golden.yaml",
        &["--set=config.ownerChain=true", "--set-json", rules],
    );
    // Permissions for clean-up policies, next to the cluster's own loop.
    let policies = r#"config.policies=[{"name":"ci","kinds":["Job","Pod"],"ttlAfterSucceeded":"1h"}]"#;
    golden(
        "ttl-after-finished-controller",
        "ttl-after-finished-controller/policies.golden.yaml",
        &[
            "--set=config.onlyPolicies=true,admissionPolicy.enabled=true",
            "--set-json",
            policies,
        ],
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
