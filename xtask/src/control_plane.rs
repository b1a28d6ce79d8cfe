//! `cargo xtask control-plane`: builds the binaries of the test control plane from their Go modules.
//!
//! They go to `target/control-plane/`, or to `$CONTROL_PLANE_CACHE`, which can outlive a clone. A build takes minutes,
//! so nothing is built while the `stamp` next to the binaries matches their sources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::command::{self, root};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// The oldest Go release that builds the modules, `1.minor`.
const GO_MINOR: u32 = 26;
/// The programs that every test of the control plane needs.
const REQUIRED: [&str; 2] = ["etcd", "kube-apiserver"];
/// The module whose version the binaries report.
const KUBERNETES: &str = "k8s.io/kubernetes";

/// Whether a control plane is available, without building it.
pub(crate) enum Availability {
    /// From the directory in `$KUBEBUILDER_ASSETS`.
    Given(PathBuf),
    /// Can be built with the Go release of this name.
    Buildable(String),
    /// Not available, with the reason.
    Missing(String),
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// That of another release than the tests are for, such as v1.36.3, in a directory of its own
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
}

/// Builds the control plane unless it is up to date, and prints its directory.
pub(crate) fn run(args: &Args) -> Result<()> {
    let assets = match &args.kubernetes {
        None => match go() {
            Ok(go) => build(&go)?,
            Err(missing) => bail!("{missing}"),
        },
        Some(version) => of_release(version)?,
    };
    println!("{}", assets.display());
    Ok(())
}

/// The control plane of Kubernetes `version`.
pub(crate) fn of_release(version: &str) -> Result<PathBuf> {
    let go = go().map_err(anyhow::Error::msg)?;
    if Sources::read(&module())?.version()? == version {
        return build(&go);
    }
    let target = cache().join(version);
    let module = target.join("module");
    if !module.join("go.sum").is_file() {
        write_module(&module, version)?;
    }
    build_module(&go, &module, &target)
}

/// A module that builds the same programs of another release, with the replacements for that release's staging modules.
fn write_module(to: &Path, version: &str) -> Result<()> {
    let download = format!("{KUBERNETES}@{version}");
    let found = command::output(Command::new("go").args(["mod", "download", "-json", &download]))
        .with_context(|| format!("there is no release {version} of Kubernetes"))?;
    let found: Download = serde_json::from_str(&found).context("go mod download says something else")?;
    let of_release =
        fs::read_to_string(&found.go_mod).with_context(|| format!("read {}", found.go_mod.display()))?;
    for program in programs()? {
        let folder = to.join("cmd").join(&program);
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let source = module().join("cmd").join(&program).join("main.go");
        fs::copy(&source, folder.join("main.go")).with_context(|| format!("copy {}", source.display()))?;
    }
    fs::write(to.join("go.mod"), go_mod(&of_release, version)?).context("write go.mod")?;
    command::run(Command::new("go").args(["mod", "tidy"]).current_dir(to))
}

/// Output of `go mod download -json`.
#[derive(Deserialize)]
struct Download {
    #[serde(rename = "GoMod")]
    go_mod: PathBuf,
}

/// The `go.mod` to build `version`, whose own `go.mod` is `of_release`.
fn go_mod(of_release: &str, version: &str) -> Result<String> {
    let staging = version
        .strip_prefix("v1.")
        .with_context(|| format!("{version} is no release v1.MINOR.PATCH"))?;
    let staged = of_release
        .lines()
        .filter_map(|line| line.trim().split_once(" => ./staging/"));
    let replaced: Vec<String> = staged
        .map(|(name, _)| format!("replace {name} => {name} v0.{staging}"))
        .collect();
    ensure!(
        !replaced.is_empty(),
        "the go.mod of {version} replaces nothing by ./staging"
    );
    Ok(format!(
        "module control-plane\n\ngo 1.{GO_MINOR}\n\nrequire {KUBERNETES} {version}\n\n{}\n",
        replaced.join("\n")
    ))
}

/// The control plane that [`build`] or the environment can provide.
pub(crate) fn availability() -> Result<Availability> {
    if let Some(given) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty()) {
        let given = PathBuf::from(given);
        for program in REQUIRED {
            ensure!(
                given.join(program).is_file(),
                "$KUBEBUILDER_ASSETS is {}, which holds no {program}",
                given.display()
            );
        }
        return Ok(Availability::Given(given));
    }
    Ok(go().map_or_else(Availability::Missing, Availability::Buildable))
}

/// The programs that `assets` does not hold: those of `setup-envtest` lack some.
pub(crate) fn lacks(assets: &Path) -> Result<Vec<String>> {
    let mut programs = programs()?;
    programs.retain(|program| !assets.join(program).is_file());
    Ok(programs)
}

/// The control plane, which is built if needed; an error if unavailable.
pub(crate) fn assets() -> Result<PathBuf> {
    match availability()? {
        Availability::Given(assets) => Ok(assets),
        Availability::Buildable(go) => build(&go),
        Availability::Missing(why) => bail!("there is no control plane: {why}"),
    }
}

/// Builds with the Go release `go` unless the binaries are up to date.
pub(crate) fn build(go: &str) -> Result<PathBuf> {
    build_module(go, &module(), &cache())
}

fn cache() -> PathBuf {
    std::env::var_os("CONTROL_PLANE_CACHE").map_or_else(|| root().join("target/control-plane"), PathBuf::from)
}

/// One build at a time: `ci` begins one before its first step, and the tests wait for it.
static BUILD: Mutex<()> = Mutex::new(());

/// Builds the programs of `module` into `target`.
fn build_module(go: &str, module: &Path, target: &Path) -> Result<PathBuf> {
    let _one = BUILD.lock();
    let programs = programs()?;
    let sources = Sources::read(module)?;
    let flags = sources.linker_flags()?;
    let stamp = format!("{go}\n{flags}\n{}", sources.text);
    let stamp_file = target.join("stamp");
    if programs.iter().all(|program| target.join(program).is_file())
        && fs::read_to_string(&stamp_file).is_ok_and(|found| found == stamp)
    {
        println!("the control plane in {} is up to date", target.display());
        return Ok(target.to_owned());
    }

    fs::create_dir_all(target).with_context(|| format!("create {}", target.display()))?;
    // In a separate directory, so that an interrupted build leaves the previous binaries intact.
    let fresh = tempfile::tempdir_in(target).context("create a directory for the build")?;
    println!("building the control plane: some minutes the first time");
    command::run(
        Command::new("go")
            .current_dir(module)
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
    Ok(target.to_owned())
}

/// The release of Go that builds the module, or why none can.
fn go() -> Result<String, String> {
    // Run in the module, where an older Go may fetch the release in go.mod.
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
    root().join("crates/local-control-plane/programs")
}

/// Programs in the module: etcd, kube-apiserver and so on.
fn programs() -> Result<Vec<String>> {
    command::folders(&module().join("cmd"))
}

/// All sources of the binaries except Go itself.
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

    /// The Kubernetes version that the module requires.
    fn version(&self) -> Result<&str> {
        let mut lines = self
            .go_mod
            .lines()
            .map(|line| line.trim().trim_start_matches("require "));
        lines
            .find_map(|line| line.strip_prefix(KUBERNETES)?.strip_prefix(' '))
            .context("go.mod requires no version of Kubernetes")
    }

    /// No symbols; sets the version that the module requires.
    fn linker_flags(&self) -> Result<String> {
        let version = self.version()?;
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
            go_mod: "require (\n\tk8s.io/kubernetes-other v0.1.0\n\tk8s.io/kubernetes v1.37.2\n)\n"
                .to_owned(),
            text: String::new(),
        };
        assert_eq!(
            sources.linker_flags().unwrap(),
            "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2 \
             -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"
        );
    }

    #[test]
    fn another_release_is_built_with_what_it_replaces_itself() {
        let of_release = "replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tother => other v1.0.0\n)\n";
        assert_eq!(
            go_mod(of_release, "v1.35.4").unwrap(),
            "module control-plane\n\ngo 1.26\n\nrequire k8s.io/kubernetes v1.35.4\n\n\
             replace k8s.io/api => k8s.io/api v0.35.4\n"
        );
        let refused = go_mod(of_release, "1.35").unwrap_err();
        assert_eq!(refused.to_string(), "1.35 is no release v1.MINOR.PATCH");
    }

    #[test]
    fn releases_of_go_are_distinguished_by_their_second_number() {
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
        assert!(sources.text.contains("k8s.io/kubernetes v1.37.2 h1:"));
        assert!(sources.text.contains("app.NewSchedulerCommand()"));
    }
}
