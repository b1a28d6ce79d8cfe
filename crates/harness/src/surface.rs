//! What a binary prints without an API server: what others build upon.

use std::process::Command;

/// The Kubernetes versions that every controller supports.
const SUPPORTED: &str = "1.34 to 1.36";

/// The tests of what a controller shows of itself, as `tests/surface.rs` has them: a change of a flag, a default or a
/// message shows in their snapshots. `explains` is how its `explain` calls what it explains.
#[macro_export]
macro_rules! surface {
    ($controller:literal, explains: $explained:literal) => {
        const BINARY: &str = env!(concat!("CARGO_BIN_EXE_", $controller));

        #[test]
        fn the_help() {
            insta::assert_snapshot!($crate::surface::printed_by(BINARY, &["--help"]));
        }

        #[test]
        fn the_help_of_explain_names_what_it_explains() {
            let help = $crate::surface::printed_by(BINARY, &["explain", "--help"]);
            assert!(help.contains($explained), "{help}");
        }

        #[test]
        fn the_config_schema() {
            insta::assert_snapshot!($crate::surface::printed_by(BINARY, &["config-schema"]));
        }

        #[test]
        fn the_version_names_the_supported_kubernetes_versions() {
            $crate::surface::assert_version(BINARY, $controller, env!("CARGO_PKG_VERSION"));
        }
    };
}

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
