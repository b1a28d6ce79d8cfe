//! The jobs of `.github/workflows/release.yml`, run here: what stands under `run` as it stands there, one step after the
//! other. What is an action there, or needs GitHub, has something else in its place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::split;
use xtask::command::{self, forget_package};

const FILE: &str = ".github/workflows/release.yml";
/// Installs what the rest needs: run once.
const TOOLS: &str = "crane and cosign, checked against Go's checksum database";
/// Where the sources would be read.
const SERVER: &str = "https://github.example";
const OWNER: &str = "Owner";
const REPOSITORY: &str = "Owner/controllers";

/// What is done in the place of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instead {
    /// Checks the tag out, without what earlier releases left behind.
    CheckOut,
    /// Gives the publishing job a copy of what was built.
    HandOver,
    /// Attests the same by a key.
    Attest,
    Nothing(&'static str),
}

/// By action, or by the name of the step.
const INSTEAD: [(&str, Instead); 7] = [
    ("actions/checkout", Instead::CheckOut),
    (
        "actions/upload-artifact",
        Instead::Nothing("it stays where it is"),
    ),
    ("actions/download-artifact", Instead::HandOver),
    ("actions/attest-build-provenance", Instead::Attest),
    (
        "Compiler for linux/arm64",
        Instead::Nothing("it installs packages"),
    ),
    (TOOLS, Instead::Nothing("they are there")),
    ("Log in to the registry", Instead::Nothing("it lets everybody in")),
];

#[derive(Deserialize)]
pub(super) struct Workflow {
    env: Variables,
    jobs: Jobs,
}

#[derive(Deserialize)]
struct Jobs {
    build: Job,
    publish: Job,
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    outputs: Variables,
    env: Variables,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    name: Option<String>,
    id: Option<String>,
    #[serde(rename = "if")]
    condition: Option<String>,
    uses: Option<String>,
    run: Option<String>,
    #[serde(default)]
    with: BTreeMap<String, Value>,
    #[serde(default)]
    env: Variables,
}

pub(super) type Variables = BTreeMap<String, String>;

impl Step {
    /// What it is called in the list above.
    fn key(&self) -> &str {
        let action = self.uses.as_deref().and_then(|uses| uses.split('@').next());
        action.or(self.name.as_deref()).unwrap_or_default()
    }

    fn instead(&self) -> Result<Option<Instead>> {
        let found = INSTEAD.iter().find(|(key, _)| *key == self.key());
        if found.is_none() && self.run.is_none() {
            bail!("{FILE} uses {}, which the dry run does not know", self.key());
        }
        Ok(found.map(|(_, instead)| *instead))
    }
}

/// The machine that runs the jobs.
pub(super) struct Runner {
    pub(super) clone: PathBuf,
    /// Where each release has a folder.
    pub(super) work: PathBuf,
    /// Of every step; those of the workflow do not replace them.
    pub(super) env: Variables,
}

pub(super) struct Release {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) commit: String,
    /// What the steps of the publishing job saw, `IMAGE_DIGEST` (empty without an image) and `CHART_DIGEST`.
    pub(super) env: Variables,
    /// Where it was published from.
    pub(super) folder: PathBuf,
}

/// What expressions name, such as `steps.tag.outputs.controller`.
struct Contexts(Variables);

impl Contexts {
    fn value(&self, name: &str) -> Result<&str> {
        let name = name.trim();
        let value = self.0.get(name);
        Ok(value.with_context(|| format!("{FILE} names {name}, which the dry run does not know"))?)
    }

    /// The text with values in the place of expressions.
    fn expand(&self, text: &str) -> Result<String> {
        let mut pieces = text.split("${{");
        let mut expanded = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (name, rest) = piece.split_once("}}").context("an expression without an end")?;
            expanded += self.value(name)?;
            expanded += rest;
        }
        Ok(expanded)
    }

    /// Whether `name`, `name == 'text'`, or `name != 'text'`.
    fn holds(&self, condition: &str) -> Result<bool> {
        let is = |name, text: &str| anyhow::Ok(self.value(name)? == text.trim_matches('\''));
        match (condition.split_once(" == "), condition.split_once(" != ")) {
            (Some((name, text)), _) => is(name, text),
            (_, Some((name, text))) => Ok(!is(name, text)?),
            (None, None) => Ok(!self.value(condition)?.is_empty()),
        }
    }
}

impl Workflow {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("read {FILE}"))?;
        serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("read {FILE}: {error}"))
    }

    /// What either job runs as `id`, or as the step of that name.
    pub(super) fn script(&self, step: &str) -> Result<&str> {
        let Jobs { build, publish } = &self.jobs;
        let mut steps = build.steps.iter().chain(&publish.steps);
        let found = steps.find(|found| found.id.as_deref() == Some(step) || found.key() == step);
        let script = found.and_then(|found| found.run.as_deref());
        script.with_context(|| format!("{FILE} has no step {step:?}"))
    }
}

impl Runner {
    /// Installs the tools of the publishing job into `bin/` of the folder `work`.
    pub(super) fn install_tools(&self, workflow: &Workflow) -> Result<()> {
        let env = [
            ("GITHUB_PATH", "/dev/null".to_owned()),
            ("RUNNER_TEMP", self.work.display().to_string()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value)).into();
        self.shell(workflow.script(TOOLS)?, &self.work, &env)
    }

    /// Runs both jobs for `tag`, which is in the clone.
    pub(super) fn release(&self, workflow: &Workflow, tag: &str) -> Result<Release> {
        let (name, version) = split(tag)?;
        let commit = self.commit(tag)?;
        let folder = self.work.join(tag);
        let published = folder.join("published");
        fs::create_dir_all(&published).with_context(|| format!("create {}", published.display()))?;
        let mut env = workflow.env.clone();
        for (variable, value) in [
            ("GITHUB_REF_NAME", tag),
            ("GITHUB_SHA", &commit),
            ("GITHUB_REPOSITORY_OWNER", OWNER),
            ("RUNNER_TEMP", &folder.display().to_string()),
        ] {
            env.insert(variable.to_owned(), value.to_owned());
        }
        let mut contexts = Contexts(Variables::new());
        for (name, value) in [
            ("github.server_url", SERVER),
            ("github.repository", REPOSITORY),
            ("github.token", ""),
            ("runner.temp", env["RUNNER_TEMP"].as_str()),
        ] {
            contexts.0.insert(name.to_owned(), value.to_owned());
        }
        let Jobs { build, publish } = &workflow.jobs;
        self.job(build, &env, &mut contexts, &self.clone)?;
        for (name, value) in &build.outputs {
            let value = contexts.expand(value)?;
            contexts.0.insert(format!("needs.build.outputs.{name}"), value);
        }
        let mut env = self.job(publish, &env, &mut contexts, &published)?;
        for (name, output) in [("IMAGE_DIGEST", "image"), ("CHART_DIGEST", "chart")] {
            let digest = contexts.value(&format!("steps.push.outputs.{output}"))?;
            env.insert(name.to_owned(), digest.to_owned());
        }
        Ok(Release {
            name: name.to_owned(),
            version: version.to_owned(),
            commit,
            env,
            folder: published,
        })
    }

    /// Runs the steps of a job; the variables that they saw.
    fn job(&self, job: &Job, outer: &Variables, contexts: &mut Contexts, folder: &Path) -> Result<Variables> {
        let mut env = outer.clone();
        for (name, value) in &job.env {
            env.insert(name.clone(), contexts.expand(value)?);
        }
        for (name, value) in &env {
            contexts.0.insert(format!("env.{name}"), value.clone());
        }
        for step in &job.steps {
            let applies = step
                .condition
                .as_deref()
                .map(|condition| contexts.holds(condition));
            if !applies.transpose()?.unwrap_or(true) {
                continue;
            }
            let name = step.name.as_deref().unwrap_or_else(|| step.key());
            let outcome = self.step(step, &env, contexts, folder);
            for (key, value) in outcome.with_context(|| format!("step {name:?} of {FILE}"))? {
                let id = step.id.as_deref().unwrap_or_default();
                contexts.0.insert(format!("steps.{id}.outputs.{key}"), value);
            }
        }
        Ok(env)
    }

    /// Runs a step; its outputs.
    fn step(&self, step: &Step, env: &Variables, contexts: &Contexts, folder: &Path) -> Result<Variables> {
        let name = step.name.as_deref().unwrap_or_else(|| step.key());
        println!("\n--- {name}");
        match step.instead()? {
            Some(Instead::Nothing(why)) => println!("left out: {why}"),
            Some(Instead::CheckOut) => self.shell(
                "git checkout --quiet --force \"$GITHUB_REF_NAME\"; git clean -ffdxq",
                folder,
                env,
            )?,
            Some(Instead::HandOver) => self.shell("cp -r \"$RUNNER_TEMP/out/.\" .", folder, env)?,
            Some(Instead::Attest) => {
                let with = |key: &str| {
                    let text = step.with.get(key).and_then(Value::as_str);
                    contexts.expand(text.with_context(|| format!("no {key}"))?)
                };
                let of = format!("{}@{}", with("subject-name")?, with("subject-digest")?);
                let statement = self.provenance(env)?;
                fs::write(folder.join("provenance.json"), statement.to_string())
                    .context("write the provenance")?;
                let attest = "cosign attest --yes --type slsaprovenance1 --predicate provenance.json";
                self.shell(&format!("{attest} {of}"), folder, env)?;
            }
            None => {
                let outputs = self.work.join("outputs");
                fs::write(&outputs, "").with_context(|| format!("write {}", outputs.display()))?;
                let mut env = env.clone();
                env.insert("GITHUB_OUTPUT".to_owned(), outputs.display().to_string());
                for (name, value) in &step.env {
                    env.insert(name.clone(), contexts.expand(value)?);
                }
                self.shell(step.run.as_deref().unwrap_or_default(), folder, &env)?;
                let text = fs::read_to_string(&outputs).context("read the outputs of a step")?;
                let pairs = text.lines().filter_map(|line| line.split_once('='));
                return Ok(pairs
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect());
            }
        }
        Ok(Variables::new())
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

    fn commit(&self, tag: &str) -> Result<String> {
        let mut parse = command::git(["rev-list", "-1", tag]);
        Ok(command::output(parse.current_dir(&self.clone))?.trim().to_owned())
    }

    /// The predicate of <https://slsa.dev/provenance/v1>, as GitHub would make it of this run.
    fn provenance(&self, env: &Variables) -> Result<Value> {
        let lock = fs::read(self.clone.join("Cargo.lock")).context("read Cargo.lock")?;
        let reference = format!("refs/tags/{}", env["GITHUB_REF_NAME"]);
        let source = format!("{SERVER}/{REPOSITORY}");
        Ok(json!({
            "buildDefinition": {
                "buildType": format!("{source}/blob/{}/docs/releasing.md", env["GITHUB_REF_NAME"]),
                "externalParameters": {"workflow": {"ref": reference, "repository": source, "path": FILE}},
                "resolvedDependencies": [
                    {"uri": format!("git+{source}@{reference}"), "digest": {"gitCommit": env["GITHUB_SHA"]}},
                    {"uri": "Cargo.lock", "digest": {"sha256": crate::image::sha256(&lock)}},
                ],
            },
            "runDetails": {"builder": {"id": format!("{source}/dry-run")}},
        }))
    }
}

#[cfg(test)]
mod tests;
