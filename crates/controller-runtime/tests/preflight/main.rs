//! Conclusions of `preflight` from its findings: cases in words, with the output.
#![allow(clippy::unwrap_used, reason = "a test")]

mod built_in;
mod cluster;

use controller_runtime::runtime::preflight::{
    Check, CheckState, Controllers, DISTRIBUTIONS, Facts, Finding, Lease, Level, Manager, Node,
    PreflightReport, Trace, Version, decide,
};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;

const NAME: &str = "disruption-controller";
const OFF: &str = "*,bootstrapsigner,tokencleaner,-disruption-controller";

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn seconds_ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn node(name: &str) -> Node {
    let annotation = "kubeadm.alpha.kubernetes.io/cri-socket".to_owned();
    Node {
        name: name.to_owned(),
        annotations: [(annotation, String::new())].into(),
        ..Node::default()
    }
}

fn manager(node: &str, controllers: &str) -> Manager {
    Manager {
        name: format!("pod kube-system/kube-controller-manager-{node}"),
        node: node.to_owned(),
        controllers: Controllers::Set(controllers.to_owned()),
        runs: None,
    }
}

/// Held for an hour, renewed a second ago.
fn held(namespace: &str, holder: &str) -> Lease {
    Lease {
        namespace: namespace.to_owned(),
        holder: holder.to_owned(),
        acquired: Some(seconds_ago(3600)),
        ends: Some(now() + SignedDuration::from_secs(14)),
    }
}

/// A kubeadm cluster with two control plane nodes where everything is in order.
fn ready() -> Facts {
    Facts {
        controller: NAME,
        built_in: controller_core::app::BuiltIn {
            alias: Some("disruption"),
            ..Default::default()
        },
        shares_work: false,
        dry_run: false,
        version: Ok(release("v1.36.3", 36)),
        supported: 35..=37,
        ahead: Some(SignedDuration::ZERO),
        now: now(),
        permissions: vec![("patch pods/status".to_owned(), Ok(true))],
        control_plane: Ok(vec![node("a"), node("b")]),
        some_node: None,
        managers: Ok(vec![manager("a", OFF), manager("b", OFF)]),
        manager_lease: Ok(Some(held("kube-system", "a_4711"))),
        traces: Ok(vec![]),
        leases: Ok(vec![]),
        lease_namespace: "kube-system".to_owned(),
        elsewhere: Ok(()),
    }
}

fn release(release: &str, minor: u32) -> Version {
    Version {
        release: release.to_owned(),
        minor: Some(minor),
    }
}

fn of(report: &PreflightReport, check: Check) -> Vec<&Finding> {
    report
        .findings
        .iter()
        .filter(|finding| finding.check == check)
        .collect()
}

/// Level and text of the only finding.
fn only(facts: &Facts, check: Check) -> (Level, String) {
    let report = decide(facts);
    let findings = of(&report, check);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    (findings[0].level, findings[0].text.clone())
}

fn built_in(facts: &Facts) -> (CheckState, Level, String) {
    let (level, text) = only(facts, Check::BuiltInLoop);
    (decide(facts).built_in_loop, level, text)
}

#[test]
fn where_all_is_as_it_should_be_the_controller_may_be_switched_on() {
    let report = decide(&ready());
    assert_eq!(report.exit_code(), 0);
    assert_eq!(
        report.text(),
        "\
ok       version: Kubernetes v1.36.3; this release is tested with 1.35 to 1.37
ok       clock: the same as the API server's
ok       permissions: this account has all 1 that it needs
ok       lease: nobody leads
ok       distribution: kubeadm
ok       built-in loop: off: each of 2 kube-controller-managers has it switched off
         seen: pod kube-system/kube-controller-manager-a: --controllers=*,bootstrapsigner,tokencleaner,-disruption-controller
         seen: pod kube-system/kube-controller-manager-b: --controllers=*,bootstrapsigner,tokencleaner,-disruption-controller
         seen: kube-controller-manager's Lease: a_4711
disruption-controller may be switched on
"
    );
}
