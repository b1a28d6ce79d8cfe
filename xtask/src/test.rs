//! `cargo xtask test`: all tests.
//!
//! A live test is one that is ignored because it [needs a control plane](NEEDS); it runs where one can
//! be had. Leaving the live tests out is said in the last lines, and with `CI=true` it is a failure.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::{self, cargo};
use crate::control_plane::{self, Availability};

/// How a live test says that it is one: `#[ignore = "needs a control plane: …"]`.
const NEEDS: &str = "#[ignore = \"needs a control plane";
/// How many live tests of one crate run side by side: each has an API server of its own, 400 MB.
const SIDE_BY_SIDE: &str = "4";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many cases of each property test to try, instead of 256
    #[arg(long, value_name = "N")]
    pub(crate) property_cases: Option<u32>,
    /// How many seeds of each suite of fault histories to try, instead of 200
    #[arg(long, value_name = "N")]
    pub(crate) fault_seeds: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let available = control_plane::availability()?;
    if let Availability::Missing(why) = &available
        && std::env::var("CI").is_ok_and(|ci| ci == "true")
    {
        bail!("with CI=true the live tests must run, but there is no control plane: {why}");
    }
    let mut tests = cargo(["test", "--workspace"]);
    if let Some(cases) = args.property_cases {
        tests.env("PROPTEST_CASES", cases.to_string());
    }
    if let Some(seeds) = args.fault_seeds {
        tests.env("FAULT_SEEDS", seeds.to_string());
    }
    command::run(&mut tests)?;
    let assets = match available {
        Availability::Given(assets) => assets,
        Availability::Buildable(go) => control_plane::build(&go)?,
        Availability::Missing(why) => {
            println!("Left out: the live tests, which run against a real Kubernetes control plane. {why}.");
            println!("To run them, install Go 1.26 or newer, or name a directory with etcd, kube-apiserver,");
            println!("kube-controller-manager and kube-scheduler in $KUBEBUILDER_ASSETS.");
            return Ok(());
        }
    };
    // Of the whole workspace: a package alone would compile its dependencies once more, with other features.
    let mut live = cargo(["test", "--workspace"]);
    for target in live_tests()? {
        live.args(["--test", &target]);
    }
    live.args(["--", "--ignored", "--test-threads", SIDE_BY_SIDE]);
    command::run(live.env("KUBEBUILDER_ASSETS", assets.dir()))
}

/// The names of the integration tests with live ones among them. Crates may have one of the same name.
fn live_tests() -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for folder in command::crates()? {
        for test in entries(&folder.join("tests")) {
            // A file is a test of its own, and so is a folder with a `main.rs`.
            let files = if test.join("main.rs").is_file() {
                entries(&test)
            } else {
                vec![test.clone()]
            };
            if needs_control_plane(&files)? {
                let target = test.file_stem().unwrap_or_default();
                found.insert(target.to_string_lossy().into_owned());
            }
        }
    }
    Ok(found)
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
    #[test]
    fn the_live_tests_are_found_in_files_and_folders() {
        let found = super::live_tests().unwrap();
        assert!(found.contains("real"));
        assert!(found.contains("live"), "a folder of test files is one test");
        assert!(!found.contains("sync"));
    }
}
