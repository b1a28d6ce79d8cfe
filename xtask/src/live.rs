//! The live tests: those that are ignored because they [need a control plane](NEEDS). They mostly wait, so several
//! test binaries run side by side.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::command::{self, cargo};

/// How a live test says that it is one: `#[ignore = "needs a control plane: …"]`.
const NEEDS: &str = "#[ignore = \"needs a control plane";
/// How many test binaries run at a time.
const BINARIES: usize = 2;
/// How many tests of each: every one has an API server of its own, 400 MB.
const TESTS_OF_EACH: &str = "4";

/// A test binary.
#[derive(Debug, PartialEq, Eq)]
struct Binary {
    /// The folder of its package.
    folder: PathBuf,
    /// The name of its target.
    target: String,
    executable: PathBuf,
}

/// A line of `cargo --message-format=json`; each says of one artifact what it is.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Builds and runs them with the control plane in `assets`; all of them, also when one fails.
pub(crate) fn run(assets: &Path) -> Result<()> {
    let waiting = Mutex::new(build()?.into_iter());
    let next = || waiting.lock().ok()?.next();
    let work = || {
        let mut failed = Vec::new();
        while let Some(binary) = next() {
            if !binary.passes(assets)? {
                failed.push(binary.to_string());
            }
        }
        anyhow::Ok(failed)
    };
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..BINARIES).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let Ok(result) = worker.join() else {
                bail!("a thread that ran live tests panicked");
            };
            failed.extend(result?);
        }
        Ok(())
    })?;
    if !failed.is_empty() {
        bail!("live tests failed: {}", failed.join(", "));
    }
    Ok(())
}

fn build() -> Result<Vec<Binary>> {
    // Of the whole workspace: a package alone would compile its dependencies once more, with other features.
    let mut build = cargo(["test", "--workspace", "--no-run"]);
    for target in targets()? {
        build.args(["--test", &target]);
    }
    let messages = command::output(build.arg("--message-format=json-render-diagnostics"))?;
    binaries(&messages)
}

fn binaries(messages: &str) -> Result<Vec<Binary>> {
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).with_context(|| format!("cargo said {line:?}"))?;
        if let (Some(manifest), Some(target), Some(executable)) =
            (message.manifest_path, message.target, message.executable)
            && let Some(folder) = manifest.parent()
            // Binaries that the tests start are built too.
            && needs_control_plane(&sources(&folder.join("tests"), &target.name))?
        {
            found.push(Binary {
                folder: folder.to_owned(),
                target: target.name,
                executable,
            });
        }
    }
    Ok(found)
}

impl Binary {
    /// Runs it, and prints what it said when it has ended.
    fn passes(&self, assets: &Path) -> Result<bool> {
        println!("Started the live tests of {self}");
        let mut tests = Command::new(&self.executable);
        tests
            .args(["--ignored", "--test-threads", TESTS_OF_EACH])
            .current_dir(&self.folder)
            .env("KUBEBUILDER_ASSETS", assets);
        let output = tests.output().with_context(|| format!("start {self}"))?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nThe live tests of {self}: {}", output.status)?;
        out.write_all(&output.stdout)?;
        out.write_all(&output.stderr)?;
        Ok(output.status.success())
    }
}

impl std::fmt::Display for Binary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", command::name(&self.folder), self.target)
    }
}

/// The names of the integration tests with live ones among them. Crates may have one of the same name.
fn targets() -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for folder in command::crates()? {
        for test in entries(&folder.join("tests")) {
            let target = test
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if needs_control_plane(&sources(&folder.join("tests"), &target))? {
                found.insert(target);
            }
        }
    }
    Ok(found)
}

/// The files of an integration test: one, or a folder with a `main.rs`.
fn sources(tests: &Path, target: &str) -> Vec<PathBuf> {
    let folder = tests.join(target);
    if folder.join("main.rs").is_file() {
        entries(&folder)
    } else {
        let file = tests.join(format!("{target}.rs"));
        file.is_file().then_some(file).into_iter().collect()
    }
}

/// What a folder holds, by name; nothing if there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = folder
        .read_dir()
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

fn needs_control_plane(files: &[PathBuf]) -> Result<bool> {
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
    {
        let source = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        if source.contains(NEEDS) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_tests_are_found_in_files_and_folders() {
        let found = targets().unwrap();
        assert!(found.contains("real"));
        assert!(found.contains("live"), "a folder of test files is one test");
        assert!(!found.contains("sync"));
    }

    #[test]
    fn of_what_cargo_built_only_the_live_tests_run() {
        let testkit = command::root().join("crates/testkit");
        let built = |target: &str, executable: Option<&str>| {
            let manifest = testkit.join("Cargo.toml");
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": manifest, "target": {"name": target, "kind": ["test"]},
                "executable": executable,
            })
            .to_string()
        };
        let messages = [
            built("testkit", None),
            built("kubectl", Some("/target/kubectl-1")),
            built("real", Some("/target/real-1")),
            r#"{"reason": "build-finished", "success": true}"#.to_owned(),
        ];
        let real = Binary {
            folder: testkit.clone(),
            target: "real".to_owned(),
            executable: "/target/real-1".into(),
        };
        assert_eq!(binaries(&messages.join("\n")).unwrap(), [real]);
    }
}
