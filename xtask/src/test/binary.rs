//! Finds the test binaries and the tests that need a control plane.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command::{self, cargo};

/// Mark of a live test: `#[ignore = "needs a control plane: …"]`.
const NEEDS: &str = "#[ignore = \"needs a control plane";
/// Mark of one that starts kube-controller-manager or kube-scheduler, which the assets of `setup-envtest` lack.
const NEEDS_ALL: &str = "#[ignore = \"needs a control plane with all programs";

/// What cargo built for the tests of the workspace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Built {
    pub(super) tests: Vec<Binary>,
    pub(super) programs: Vec<Program>,
}

/// A program that tests start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Folder of the package.
    pub(super) folder: PathBuf,
    pub(super) executable: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binary {
    /// Folder of the package.
    pub(super) folder: PathBuf,
    /// Folder of the package in which its sources are. It may be another one.
    pub(super) sources: PathBuf,
    /// Name of the target.
    pub(super) target: String,
    pub(super) executable: PathBuf,
    pub(super) live: Live,
}

/// The tests of a binary that need a control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) count: usize,
    /// The names of those that need all of its programs.
    pub(super) with_all_programs: Vec<String>,
}

/// A line of `cargo --message-format=json`, which describes one artifact.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

pub(super) fn build() -> Result<Built> {
    let mut build = cargo(["test", "--workspace", "--no-run"]);
    let messages = command::output(build.arg("--message-format=json-render-diagnostics"))?;
    built(&messages)
}

fn built(messages: &str) -> Result<Built> {
    let mut found = Built::default();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).with_context(|| format!("cargo said {line:?}"))?;
        if let (Some(manifest), Some(target), Some(profile), Some(executable)) = (
            message.manifest_path,
            message.target,
            message.profile,
            message.executable,
        ) && let Some(folder) = manifest.parent()
        {
            let folder = folder.to_owned();
            if profile.test {
                found.tests.push(Binary {
                    folder,
                    sources: package(&target.src_path)?,
                    live: live_tests(&target.src_path)?,
                    target: target.name,
                    executable,
                });
            } else if target.kind == ["bin"] {
                found.programs.push(Program { folder, executable });
            }
        }
    }
    Ok(found)
}

impl Binary {
    /// Runs the tests as cargo would.
    pub(super) fn command(&self) -> Command {
        let mut tests = Command::new(&self.executable);
        tests
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        tests
    }
}

impl std::fmt::Display for Binary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", command::name(&self.folder), self.target)
    }
}

/// The folder of the package in which `source` is.
fn package(source: &Path) -> Result<PathBuf> {
    let source = source
        .canonicalize()
        .with_context(|| format!("find {}", source.display()))?;
    let mut folders = source.ancestors();
    let package = folders.find(|folder| folder.join("Cargo.toml").is_file());
    Ok(package.unwrap_or(&source).to_owned())
}

/// The tests that need a control plane, below the root `source` of an integration test.
fn live_tests(source: &Path) -> Result<Live> {
    let mut files = vec![source.to_owned()];
    if source.ends_with("main.rs") {
        files = source.parent().map(entries).unwrap_or_default();
    }
    let mut live = Live::default();
    for file in files {
        if file.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
            live.add(&text);
        }
    }
    Ok(live)
}

impl Live {
    /// Adds the tests of a source file.
    fn add(&mut self, text: &str) {
        let mut needs_all = false;
        for line in text.lines().map(str::trim_start) {
            self.count += usize::from(line.starts_with(NEEDS));
            needs_all |= line.starts_with(NEEDS_ALL);
            if needs_all && let Some((_, rest)) = line.split_once("fn ") {
                let name = rest.split(['(', '<']).next();
                self.with_all_programs.extend(name.map(str::to_owned));
                needs_all = false;
            }
        }
    }
}

/// Entries of a folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_tests_are_counted_in_files_and_folders() {
        let of = |path: &str| live_tests(&command::root().join(path)).unwrap().count;
        assert_eq!(of("crates/local-control-plane/tests/processes.rs"), 8);
        // In a folder of its own.
        assert!(of("crates/ttl-controller/tests/live/main.rs") > 10);
        // In `charts/tests`.
        assert!(of("charts/tests/helm/main.rs") > 0);
        assert_eq!(of("crates/ttl-controller/tests/sync/main.rs"), 0);
        assert_eq!(of("crates/ttl-controller/src/main.rs"), 0);
    }

    #[test]
    fn sources_may_be_in_another_package() {
        let core = command::root().join("crates/controller-core");
        let tests = "crates/controller-runtime/../controller-core/tests/event_loop/main.rs";
        assert_eq!(package(&command::root().join(tests)).unwrap(), core);
        let charts = command::root().join("charts/tests/alerts/main.rs");
        assert_eq!(package(&charts).unwrap(), command::root());
    }

    #[test]
    fn a_test_that_needs_all_programs_is_named() {
        let mut live = Live::default();
        live.add(
            "#[ignore = \"needs a control plane: cargo xtask test\"]\nasync fn live_a() {}\n\
             #[ignore = \"needs a control plane with all programs: cargo xtask test\"]\n\
             #[allow(clippy::print_stdout, reason = \"what it was worth\")]\nasync fn live_b() {}\n\
             async fn helper() {}\n",
        );
        let expected = Live {
            count: 2,
            with_all_programs: vec!["live_b".to_owned()],
        };
        assert_eq!(live, expected);
    }

    #[test]
    fn tests_and_the_programs_that_they_start_are_distinguished() {
        let package = command::root().join("crates/local-control-plane");
        let artifact = |target: &str, kind: &str, test: bool, executable: Option<&str>| {
            let source = package.join("tests").join(target).with_extension("rs");
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": package.join("Cargo.toml"), "profile": {"test": test},
                "target": {"name": target, "kind": [kind], "src_path": source}, "executable": executable,
            })
            .to_string()
        };
        let messages = [
            artifact("kubectl", "test", true, None),
            artifact("kubectl", "bin", false, Some("/target/kubectl")),
            // No test starts an example.
            artifact("leases", "example", false, Some("/target/examples/leases")),
            artifact("processes", "test", true, Some("/target/processes-1")),
            r#"{"reason": "build-finished", "success": true}"#.to_owned(),
        ];
        let processes = Binary {
            folder: package.clone(),
            sources: package.clone(),
            target: "processes".to_owned(),
            executable: "/target/processes-1".into(),
            live: live_tests(&package.join("tests/processes.rs")).unwrap(),
        };
        let kubectl = Program {
            folder: package,
            executable: "/target/kubectl".into(),
        };
        assert_eq!(
            built(&messages.join("\n")).unwrap(),
            Built {
                tests: vec![processes],
                programs: vec![kubectl],
            }
        );
    }
}
