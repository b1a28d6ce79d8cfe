//! What a binary prints without an API server: what others build upon.

use std::process::Command;

/// The Kubernetes versions that every controller supports.
const SUPPORTED: &str = "1.34 to 1.36";

/// What the binary prints, without any variable set.
pub fn printed_by(binary: &str, args: &[&str]) -> String {
    let output = Command::new(binary).args(args).env_clear().output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Fails unless `--version` names the controller, its version and the supported Kubernetes versions.
pub fn assert_version(binary: &str, controller: &str, version: &str) {
    let printed = printed_by(binary, &["--version"]);
    assert!(
        printed.starts_with(&format!("{controller} {version}")),
        "{printed}"
    );
    assert!(printed.contains(SUPPORTED), "{printed}");
}
