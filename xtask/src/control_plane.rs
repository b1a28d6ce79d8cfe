//! `cargo xtask control-plane`: builds the binaries of the test control plane from their Go modules.
//!
//! They land in `target/control-plane/`, or in `$CONTROL_PLANE_CACHE`, which can outlive a clone. A build
//! takes minutes, so nothing is built while the `stamp` beside the binaries still says what they would be
//! built from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, root};
use anyhow::{Context, Result, bail, ensure};

/// The oldest Go release that builds the modules, `1.minor`.
const GO_MINOR: u32 = 26;
/// The module whose version the binaries report.
const KUBERNETES: &str = "k8s.io/kubernetes";

/// Whether a control plane can be had, without building it.
pub(crate) enum Availability {
    /// In the directory that `$KUBEBUILDER_ASSETS` names.
    Given(PathBuf),
    /// To be built with the Go release of this name.
    Buildable(String),
    /// Not at all: why.
    Missing(String),
}

/// Builds whatever is not up to date.
pub(crate) fn run() -> Result<()> {
    match go() {
        Ok(version) => build(&version).map(|assets| println!("{}", assets.display())),
        Err(missing) => bail!("{missing}"),
    }
}

/// What [`build`] or the environment can provide.
pub(crate) fn availability() -> Result<Availability> {
    if let Some(given) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty()) {
        let given = PathBuf::from(given);
        for program in programs()? {
            ensure!(
                given.join(&program).is_file(),
                "$KUBEBUILDER_ASSETS is {}, which holds no {program}",
                given.display()
            );
        }
        return Ok(Availability::Given(given));
    }
    Ok(go().map_or_else(Availability::Missing, Availability::Buildable))
}

/// The control plane, built where that is needed; an error where it cannot be had.
pub(crate) fn assets() -> Result<PathBuf> {
    match availability()? {
        Availability::Given(assets) => Ok(assets),
        Availability::Buildable(go) => build(&go),
        Availability::Missing(why) => bail!("there is no control plane: {why}"),
    }
}

/// Builds with the Go release `go` unless the binaries are up to date.
pub(crate) fn build(go: &str) -> Result<PathBuf> {
    let target = std::env::var_os("CONTROL_PLANE_CACHE")
        .map_or_else(|| root().join("target/control-plane"), PathBuf::from);
    let programs = programs()?;
    let sources = Sources::read(&module())?;
    let flags = sources.linker_flags()?;
    let stamp = format!("{go}\n{flags}\n{}", sources.text);
    let stamp_file = target.join("stamp");
    if programs.iter().all(|program| target.join(program).is_file())
        && fs::read_to_string(&stamp_file).is_ok_and(|found| found == stamp)
    {
        println!("the control plane in {} is up to date", target.display());
        return Ok(target);
    }

    fs::create_dir_all(&target).with_context(|| format!("create {}", target.display()))?;
    // Built aside, so that a build that is cut off leaves the former binaries whole.
    let fresh = tempfile::tempdir_in(&target).context("create a directory for the build")?;
    println!("building the control plane: some minutes the first time");
    command::run(
        Command::new("go")
            .current_dir(module())
            .env("CGO_ENABLED", "0")
            .args(["build", "-trimpath", "-ldflags", &flags, "-o"])
            .arg(fresh.path())
            .arg("./cmd/..."),
    )?;
    match fs::remove_file(&stamp_file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).context("remove the former stamp");
        }
        _ => {}
    }
    for program in programs {
        fs::rename(fresh.path().join(&program), target.join(&program))
            .with_context(|| format!("move {program} to {}", target.display()))?;
    }
    fs::write(&stamp_file, stamp).context("write the stamp")?;
    Ok(target)
}

/// The release of Go that builds the module, or why there is none.
fn go() -> Result<String, String> {
    // Asked in the module, where an older Go may fetch the release that go.mod wants.
    let output = Command::new("go")
        .args(["env", "GOVERSION"])
        .current_dir(module())
        .output()
        .map_err(|error| format!("Go is not there ({error})"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match minor(&version) {
        Some(found) if found >= GO_MINOR => Ok(version),
        _ => Err(format!("Go 1.{GO_MINOR} or newer is needed, not {version:?}")),
    }
}

/// `go1.26.8` → 26.
fn minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("go1.")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn module() -> PathBuf {
    root().join("crates/testkit/control-plane")
}

/// What the module builds: etcd, kube-apiserver and so on.
fn programs() -> Result<Vec<String>> {
    command::folders(&module().join("cmd"))
}

/// All that the binaries are made of, but for Go itself.
struct Sources {
    go_mod: String,
    text: String,
}

impl Sources {
    fn read(module: &Path) -> Result<Self> {
        let read = |path: &Path| {
            fs::read_to_string(module.join(path)).with_context(|| format!("read {}", path.display()))
        };
        let go_mod = read(Path::new("go.mod"))?;
        let mut text = go_mod.clone() + &read(Path::new("go.sum"))?;
        for program in programs()? {
            text += &read(&Path::new("cmd").join(program).join("main.go"))?;
        }
        Ok(Self { go_mod, text })
    }

    /// Without symbols, and with the version that the module requires.
    fn linker_flags(&self) -> Result<String> {
        let version = self
            .go_mod
            .lines()
            .find_map(|line| line.trim().strip_prefix(KUBERNETES)?.strip_prefix(' '))
            .context("go.mod requires no version of Kubernetes")?;
        let mut numbers = version.trim_start_matches('v').split('.');
        let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
            bail!("{version} is no version");
        };
        let set = |name: &str, value: &str| format!(" -X k8s.io/component-base/version.{name}={value}");
        Ok("-s -w".to_owned()
            + &set("gitVersion", version)
            + &set("gitMajor", major)
            + &set("gitMinor", minor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binaries_report_the_version_that_the_module_requires() {
        let sources = Sources {
            go_mod: "require (\n\tk8s.io/kubernetes-other v0.1.0\n\tk8s.io/kubernetes v1.36.3\n)\n"
                .to_owned(),
            text: String::new(),
        };
        assert_eq!(
            sources.linker_flags().unwrap(),
            "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
             -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
        );
    }

    #[test]
    fn releases_of_go_are_told_apart_by_their_second_number() {
        assert_eq!(minor("go1.26.8"), Some(26));
        assert_eq!(minor("go1.27rc1"), Some(27));
        assert_eq!(minor("go1.9"), Some(9));
        assert_eq!(minor(""), None);
        assert_eq!(minor("devel"), None);
    }

    #[test]
    fn the_stamp_covers_every_source_of_the_module() {
        let sources = Sources::read(&module()).unwrap();
        assert!(sources.text.contains("module control-plane"));
        assert!(sources.text.contains("k8s.io/kubernetes v1.36.3 h1:"));
        assert!(sources.text.contains("app.NewSchedulerCommand()"));
    }
}
