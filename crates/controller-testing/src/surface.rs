//! What a binary prints and does without an API server: the interface that users build on.

use std::path::Path;
use std::process::Command;

use crate::replica::{Replica, SOON};

/// The Kubernetes versions that every controller supports.
const SUPPORTED: &str = "1.35 to 1.37";

/// Tests of a controller's visible interface, for `tests/surface.rs`: a change of a flag, a default or a message shows
/// in their snapshots.
#[macro_export]
macro_rules! surface {
    ($controller:literal) => {
        const BINARY: &str = env!(concat!("CARGO_BIN_EXE_", $controller));

        #[test]
        fn the_help() {
            insta::assert_snapshot!($crate::surface::printed_by(BINARY, &["--help"]));
        }

        #[test]
        fn the_help_of_explain() {
            insta::assert_snapshot!($crate::surface::printed_by(BINARY, &["explain", "--help"]));
        }

        #[test]
        fn the_config_schema() {
            insta::assert_snapshot!($crate::surface::printed_by(BINARY, &["config-schema"]));
        }

        #[test]
        fn the_version_names_the_supported_kubernetes_versions() {
            $crate::surface::assert_version(BINARY, $controller, env!("CARGO_PKG_VERSION"));
        }

        #[tokio::test]
        async fn it_ends_well_as_soon_as_somebody_can_see_it() {
            $crate::surface::assert_early_ends_are_good_ones(BINARY).await;
        }
    };
}

/// The output of the binary, run without any environment variable.
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

/// Fails unless the process exits with code 0 if SIGTERM follows its first line at once. That moment is short, so the
/// test repeats it.
pub async fn assert_early_ends_are_good_ones(binary: &str) {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_of("127.0.0.1:1")).unwrap();
    for _ in 0..20 {
        let mut process = Replica::start(Path::new(binary), &kubeconfig, &["--leader-elect=false"]).process;
        let first_line = async {
            while process.log().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, first_line).await.unwrap();
        process.terminate().unwrap();
        let exit = process.wait_exit(SOON).await.unwrap();
        assert_eq!(exit.code(), Some(0), "{}", process.log());
    }
}

/// The kubeconfig of an API server at `address` that needs no credentials.
pub fn kubeconfig_of(address: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
         clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}]\nusers: [{{name: a, user: {{}}}}]\n"
    )
}
