//! What others build upon: a change of a flag, a default or a metric shows here.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

use harness::surface;

const BINARY: &str = env!("CARGO_BIN_EXE_resourceclaim-controller");

fn printed_by(args: &[&str]) -> String {
    surface::printed_by(BINARY, args)
}

#[test]
fn the_help() {
    insta::assert_snapshot!(printed_by(&["--help"]));
}

#[test]
fn the_help_of_explain_names_the_pod_and_the_claim() {
    assert!(printed_by(&["explain", "--help"]).contains("<NAMESPACE/POD|NAMESPACE/CLAIM>"));
}

#[test]
fn the_config_schema() {
    insta::assert_snapshot!(printed_by(&["config-schema"]));
}

#[test]
fn the_version_names_the_supported_kubernetes_versions() {
    surface::assert_version(BINARY, "resourceclaim-controller", env!("CARGO_PKG_VERSION"));
}
