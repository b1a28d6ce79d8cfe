//! Runs the jobs of the release workflow here, with the same steps and the same script. Each GitHub action has a
//! replacement.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::command::{self, forget_package};

use super::split;

/// Functions that attest and check what was published.
pub(super) const CHECKS: &str = include_str!("../checks.sh");

const SCRIPT: &str = ".github/release.sh";
/// Runs once, first.
const INSTALL_TOOLS: &str = "install_tools";
/// Steps of the building job, and of the publishing job before and after its attestations.
const BUILD: [&str; 9] = [
    "commit_is_on_main",
    "tag_is_signed",
    "versions_agree",
    "build_image",
    "verify_image",
    "package_chart",
    "write_manifests",
    "write_notes",
    "package_umbrella",
];
const PUSH: &str = "push";
const FINISH: [&str; 3] = ["attest_sboms", "sign", "create_github_release"];

pub(super) type Variables = BTreeMap<String, String>;

/// The machine that runs the jobs.
pub(super) struct Runner {
    /// The repository.
    pub(super) clone: PathBuf,
    /// Parent of the folders of each release.
    pub(super) work: PathBuf,
    /// Variables for every step.
    pub(super) env: Variables,
}

/// What was released.
pub(super) struct Release {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) commit: String,
    /// Variables of the last steps, with `CONTROLLER`, `VERSION` and the outputs of the push: `IMAGE`, `IMAGE_DIGEST`
    /// (empty without an image), `CHART` and `CHART_DIGEST`.
    pub(super) env: Variables,
    /// Folder that it was published from.
    pub(super) folder: PathBuf,
}

impl Runner {
    /// Installs the tools of the publishing job into `bin/` of the folder `work`.
    pub(super) fn install_tools(&self) -> Result<()> {
        self.step(INSTALL_TOOLS, &self.variables("", ""))
    }

    /// Runs both jobs for `tag`, which must exist in the clone.
    pub(super) fn release(&self, tag: &str) -> Result<Release> {
        let (name, version) = split(tag)?;
        let mut parse = command::git(["rev-list", "-1", tag]);
        let commit = command::output(parse.current_dir(&self.clone))?.trim().to_owned();
        let mut env = self.variables(tag, &commit);
        // Removes the remains of earlier releases.
        let check_out = format!("git checkout --quiet --force {tag}; git clean -ffdxq");
        self.shell(&check_out, &self.clone, &env)?;
        for step in BUILD {
            self.step(step, &env)?;
        }

        let outputs = self.work.join("outputs");
        fs::write(&outputs, "").with_context(|| format!("write {}", outputs.display()))?;
        env.insert("GITHUB_OUTPUT".to_owned(), outputs.display().to_string());
        self.step(PUSH, &env)?;
        let outputs = fs::read_to_string(&outputs).context("read the outputs of the push")?;
        let outputs = outputs.lines().filter_map(|line| line.split_once('='));
        env.extend(outputs.map(|(name, value)| (name.to_uppercase(), value.to_owned())));
        env.insert("CONTROLLER".to_owned(), name.to_owned());
        env.insert("VERSION".to_owned(), version.to_owned());
        let folder = self.work.join(tag).join("out");
        println!("\n--- Provenance");
        self.shell(&format!("{CHECKS}\nattest_provenance"), &folder, &env)?;
        for step in FINISH {
            self.step(step, &env)?;
        }
        Ok(Release {
            name: name.to_owned(),
            version: version.to_owned(),
            commit,
            env,
            folder,
        })
    }

    /// Variables that GitHub would set, and the path of the script.
    fn variables(&self, tag: &str, commit: &str) -> Variables {
        [
            ("GITHUB_PATH", "/dev/null".to_owned()),
            ("GITHUB_REF_NAME", tag.to_owned()),
            ("GITHUB_REPOSITORY", "Owner/controllers".to_owned()),
            ("GITHUB_REPOSITORY_OWNER", "Owner".to_owned()),
            // Would link to the sources.
            ("GITHUB_SERVER_URL", "https://github.example".to_owned()),
            ("GITHUB_SHA", commit.to_owned()),
            ("RUNNER_TEMP", self.work.join(tag).display().to_string()),
            ("SCRIPT", self.clone.join(SCRIPT).display().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn step(&self, step: &str, env: &Variables) -> Result<()> {
        println!("\n--- {step}");
        self.shell(&format!("\"$SCRIPT\" {step}"), &self.clone, env)
    }

    /// Runs a script as GitHub does.
    pub(super) fn shell(&self, script: &str, folder: &Path, env: &Variables) -> Result<()> {
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]);
        forget_package(&mut bash);
        let bash = bash.current_dir(folder).envs(env).envs(&self.env);
        let status = bash.status().context("start bash")?;
        if !status.success() {
            bail!("it ended with {status}:\n{}", script.trim());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
