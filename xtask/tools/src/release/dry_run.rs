//! `cargo xtask release --dry-run`: a first release and the next one, in a clone, with a temporary registry, keys and
//! cluster.
//!
//! The steps are those of the release workflow ([`jobs`](super::jobs)). Only GitHub and Sigstore's keyless signatures
//! are missing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use local_control_plane::{Process, eventually};
use tokio::runtime::Runtime;
use xtask::command::{self, git, root, target_dir};
use xtask::steps::Steps;

use super::cluster::Cluster;
use super::jobs::{CHECKS, Release, Runner, Variables};
use super::{Chart, notes, path_of_changelog};
use crate::charts::UMBRELLA;
use crate::{image, package};

/// Time limit for the registry to serve.
const SOON: Duration = Duration::from_secs(30);
#[derive(clap::Args)]
pub(super) struct Options {
    /// Release everything on this machine, as release.yml does, then one controller once more; install both
    #[arg(long, required = true)]
    dry_run: bool,
    /// Release this controller, and not all of them and the chart kube-controllers
    #[arg(long, value_name = "CONTROLLER")]
    controller: Vec<String>,
    /// Leave what was built and published, in dry-run/ in the target directory
    #[arg(long)]
    keep: bool,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let controllers = package::select(&options.controller)?;
    let mut names: Vec<_> = controllers.into_iter().map(|package| package.name).collect();
    names.sort();
    names.dedup();
    let work = Work::new(options.keep)?;
    let mut steps = Steps::default();
    let outcome = whole(&work.path, &mut steps, &names, options.controller.is_empty());
    println!("\n{steps}");
    outcome
}

/// Folder of a dry run. Always the same, as its path is in the compiler's flags.
struct Work {
    path: PathBuf,
    keep: bool,
}

impl Work {
    fn new(keep: bool) -> Result<Self> {
        let path = target_dir().join("dry-run");
        let work = Self { path, keep };
        work.clear()?;
        fs::create_dir_all(&work.path).with_context(|| format!("create {}", work.path.display()))?;
        Ok(work)
    }

    /// Removes the remains of the previous run, except cargo's output.
    fn clear(&self) -> Result<()> {
        let Ok(entries) = self.path.read_dir() else {
            return Ok(());
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name() == "target" {
                continue;
            }
            let removed = if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())
            } else {
                fs::remove_file(entry.path())
            };
            removed.with_context(|| format!("remove {}", entry.path().display()))?;
        }
        Ok(())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = self.clear()
        {
            eprintln!("{error:#}");
        }
    }
}

fn whole(work: &Path, steps: &mut Steps, controllers: &[String], with_umbrella: bool) -> Result<()> {
    let runtime = Runtime::new().context("start a runtime")?;
    let mut runner = Runner {
        clone: work.join("clone"),
        work: work.to_owned(),
        env: variables(work),
    };
    steps.run("clone", || clone(&runner))?;
    steps.run("crane and cosign", || runner.install_tools())?;
    let _registry = steps.run("registry and keys", || {
        let (registry, host) = runtime.block_on(registry(work))?;
        runner.env.insert("REGISTRY_HOST".to_owned(), host);
        keys(&runner)?;
        Ok(registry)
    })?;

    let mut all: Vec<_> = controllers.iter().map(String::as_str).collect();
    all.extend(with_umbrella.then_some(UMBRELLA));
    let tags = steps.run("changelogs and tags", || changelogs_and_tags(&runner, &all))?;
    let mut releases = Vec::new();
    for tag in &tags {
        releases.push(steps.run(tag, || release(&runner, tag))?);
    }

    releases.retain(|release| release.name != UMBRELLA);
    let mut cluster = steps.run("cluster", || runtime.block_on(Cluster::start()))?;
    for release in &releases {
        let step = format!("helm install {} {}", release.name, release.version);
        steps.run(&step, || {
            runtime.block_on(cluster.put(&runner, "install", release))
        })?;
    }

    // The last release, as it is the smallest.
    let first = releases.last().context("no controller was released")?;
    let tag = steps.run("changelog and tag of the next version", || {
        prepare_next(&runner, first)
    })?;
    let second = steps.run(&tag, || release(&runner, &tag))?;
    let step = format!("helm upgrade {} {}", second.name, second.version);
    steps.run(&step, || {
        let upgrade = cluster.put(&runner, "upgrade --reset-then-reuse-values", &second);
        runtime.block_on(upgrade)
    })?;
    steps.run("no version is published twice", || {
        let mut env = first.env.clone();
        env.insert("NEXT".to_owned(), second.folder.display().to_string());
        runner.shell(&format!("{CHECKS}\nnever_twice"), &first.folder, &env)
    })?;
    steps.run("everything stops", || runtime.block_on(cluster.stop()))
}

/// Variables that differ from GitHub's machines.
fn variables(work: &Path) -> Variables {
    let inherited = |name| std::env::var(name).unwrap_or_default();
    let folder = |name: &str| work.join(name).display().to_string();
    let control_plane = std::env::var("CONTROL_PLANE_CACHE")
        .unwrap_or_else(|_| root().join("target/control-plane").display().to_string());
    [
        (
            "PATH",
            format!("{}:{}:{}", folder("shims"), folder("bin"), inherited("PATH")),
        ),
        ("PLATFORMS", image::buildable()),
        // Without the permission to change roots, images do not run in an empty root; in CI that is an error.
        ("CI", inherited("CI")),
        ("CARGO_TARGET_DIR", folder("target")),
        ("CONTROL_PLANE_CACHE", control_plane),
        ("KEYS", folder("keys")),
        ("COSIGN_PASSWORD", String::new()),
        // Hides the user's own configuration.
        ("DOCKER_CONFIG", folder("docker")),
        ("HELM_CACHE_HOME", folder("helm")),
        ("HELM_CONFIG_HOME", folder("helm")),
        ("HELM_DATA_HOME", folder("helm")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Clones the committed state.
fn clone(runner: &Runner) -> Result<()> {
    if !command::output(&mut git(["status", "--porcelain"]))?.is_empty() {
        println!("What is not committed is left out.");
    }
    command::run(git(["clone", "--quiet"]).arg(root()).arg(&runner.clone))?;
    let settings = "git config user.name 'Dry run'; git config user.email dry-run@example.com
                    git config commit.gpgsign false; git config tag.gpgsign false";
    runner.shell(settings, &runner.clone, &Variables::new())
}

/// An empty registry on loopback, and its address.
async fn registry(work: &Path) -> Result<(Process, String)> {
    let serve = ["registry", "serve", "--address", "127.0.0.1:0"];
    let mut registry = Process::spawn(&work.join("bin/crane"), &serve, &[])?;
    let port = eventually(SOON, "the registry serves", async || {
        if registry.exited().is_ok_and(|status| status.is_some()) {
            return Some(None);
        }
        let log = registry.log();
        let port: String = log.split_once("serving on port ")?.1.lines().next()?.to_owned();
        Some(Some(port))
    });
    let port = port.await?.with_context(|| registry.log())?;
    Ok((registry, format!("localhost:{port}")))
}

/// Two keys of cosign, ours and another one, and one to sign tags; and programs that shadow those of the same name.
fn keys(runner: &Runner) -> Result<()> {
    let made = "mkdir keys shims
                cd keys
                cosign generate-key-pair --output-key-prefix ours
                cosign generate-key-pair --output-key-prefix other
                cosign signing-config create --out signing-config.json
                cosign trusted-root create --out trusted-root.json
                ssh-keygen -q -t ed25519 -N '' -f tags
                cd ../clone
                git config gpg.format ssh; git config user.signingKey \"$KEYS/tags.pub\"
                printf 'dry-run@example.com namespaces=\"git\" %s\\n' \"$(cat \"$KEYS/tags.pub\")\" >.github/allowed_signers";
    runner.shell(made, &runner.work, &Variables::new())?;
    let work = runner.work.display();
    let helm = std::env::var("HELM").unwrap_or_else(|_| "helm".to_owned());
    let path = std::env::var("PATH").unwrap_or_default();
    for (name, script) in [
        // The registry has no certificate.
        (
            "helm",
            format!(
                "case $1 in dependency | install | push | upgrade) set -- \"$@\" --plain-http ;; esac\n\
                 PATH='{path}' exec '{helm}' \"$@\""
            ),
        ),
        // Signs with a key and without a transparency log.
        (
            "cosign",
            format!(
                "case $1 in attest | sign) set -- \"$@\" --key '{work}/keys/ours.key' \
                 --signing-config '{work}/keys/signing-config.json' --trusted-root '{work}/keys/trusted-root.json' ;; esac\n\
                 exec '{work}/bin/cosign' \"$@\""
            ),
        ),
        // The files of a release must exist and not be empty.
        (
            "gh",
            "for word; do\n  case $word in\n  *.gz | *.json | *.md | *.tgz | *.yaml) test -s \"$word\" && echo \"attached: $word\" ;;\n  \
             esac || exit\ndone"
                .to_owned(),
        ),
    ] {
        let path = runner.work.join("shims").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n"))
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Turns unreleased changes into sections of the changelogs where missing, and makes a tag for each.
fn changelogs_and_tags(runner: &Runner, names: &[&str]) -> Result<Vec<String>> {
    let mut tags = Vec::new();
    let mut script = Vec::new();
    for name in names {
        let version = Chart::of(&runner.clone, name)?.version;
        if notes(&runner.clone, name, &version).is_err() {
            let changelog = path_of_changelog(&runner.clone, name);
            script.push(format!(
                "sed --in-place 's/^## Unreleased$/## {version}/' '{}'",
                changelog.display()
            ));
        }
        tags.push(format!("{name}-v{version}"));
    }
    script.push(merged("Release everything", &tags));
    runner.shell(&script.join("\n"), &runner.clone, &Variables::new())?;
    Ok(tags)
}

/// Commits as a merge would, and tags the commit.
fn merged(subject: &str, tags: &[String]) -> String {
    let tags = tags
        .iter()
        .map(|tag| format!("git tag --force --sign --message {tag} {tag}\n"));
    format!(
        "git commit --quiet --all --allow-empty --message '{subject}'
         git update-ref refs/remotes/origin/main HEAD
         {}",
        tags.collect::<String>()
    )
}

/// Changes the controller and prepares its next release as on a branch; returns the tag.
fn prepare_next(runner: &Runner, Release { name, version, .. }: &Release) -> Result<String> {
    let next = next_minor(version).with_context(|| format!("no version comes after {version}"))?;
    let tag = format!("{name}-v{next}");
    let script = format!(
        "git checkout --quiet --force {name}-v{version}; git clean -ffdxq
         echo '// Of version {next}.' >>crates/{name}/src/lib.rs
         git commit --quiet --all --message 'Say which version comes next'
         sed --in-place 's/^version = \"{version}\"$/version = \"{next}\"/' crates/{name}/Cargo.toml
         cargo xtask charts
         sed --in-place '0,/^## /s//## {next}\\n\\n- The next one.\\n\\n## /' crates/{name}/CHANGELOG.md
         {}",
        merged(&format!("Release {name} {next}"), std::slice::from_ref(&tag))
    );
    runner.shell(&script, &runner.clone, &Variables::new())?;
    Ok(tag)
}

/// Releases `tag` and checks the registry afterwards.
fn release(runner: &Runner, tag: &str) -> Result<Release> {
    let release = runner.release(tag)?;
    println!("\n--- Signatures, provenance and SBOMs");
    runner.shell(&format!("{CHECKS}\npublished"), &release.folder, &release.env)?;
    Ok(release)
}

/// `0.1.0` → `0.2.0`.
fn next_minor(version: &str) -> Option<String> {
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next()?, numbers.next()?.parse::<u32>().ok()?);
    Some(format!("{major}.{}.0", minor + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_after_another_is_a_minor_one() {
        assert_eq!(next_minor("0.1.0").as_deref(), Some("0.2.0"));
        assert_eq!(next_minor("1.9.3-rc.1").as_deref(), Some("1.10.0"));
        assert_eq!(next_minor("one"), None);
    }
}
