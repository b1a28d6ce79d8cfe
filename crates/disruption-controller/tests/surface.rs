//! What others build upon: a change of a flag, a default or a metric shows here.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

use std::process::Command;

fn printed_by(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_disruption-controller"))
        .args(args)
        .env_clear()
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_help() {
    insta::assert_snapshot!(printed_by(&["--help"]));
}

#[test]
fn the_help_of_explain_names_the_budget() {
    assert!(printed_by(&["explain", "--help"]).contains("<NAMESPACE/PDB>"));
}

#[test]
fn the_config_schema() {
    insta::assert_snapshot!(printed_by(&["config-schema"]));
}

#[test]
fn the_version_names_the_supported_kubernetes_versions() {
    let version = printed_by(&["--version"]);
    assert!(
        version.starts_with(&format!("disruption-controller {}", env!("CARGO_PKG_VERSION"))),
        "{version}"
    );
    assert!(version.contains("1.34 to 1.36"), "{version}");
}
