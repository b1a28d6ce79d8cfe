//! `cargo xtask release`: checks and releases what a tag names.
//!
//! | file | holds |
//! |---|---|
//! | `dry_run` | a first release and the one after it, on this machine |
//! | `jobs` | the jobs of the release workflow, run here |
//! | `cluster` | an install and an upgrade from the registry |
//!
//! `ttl-controller-v0.2.0` is version 0.2.0 of ttl-controller only: its crate, image and chart. Tag, crate, chart and
//! changelog must have the same version; each controller has its own. `kube-controllers-v0.2.0` is only a chart,
//! without crate and image.

mod cluster;
mod dry_run;
mod jobs;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use serde::Deserialize;

use crate::charts::UMBRELLA;
use crate::package;
use xtask::command::root;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    dry_run: dry_run::Options,
}

#[derive(Subcommand)]
enum Part {
    /// Whether tag, crate, chart and changelog name the same version; prints controller and version
    Check(Tagged),
    /// What changed, as the controller's changelog tells it
    Notes(Tagged),
}

#[derive(clap::Args)]
struct Tagged {
    /// For example ttl-controller-v0.2.0
    tag: String,
}

/// The fields of a chart that are checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chart {
    version: String,
    app_version: Option<String>,
}

impl Chart {
    fn of(root: &Path, name: &str) -> Result<Self> {
        let path = root.join("charts").join(name).join("Chart.yaml");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("read {}: {error}", path.display()))
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.part {
        None => dry_run::run(&args.dry_run)?,
        Some(Part::Check(Tagged { tag })) => {
            let (controller, version) = split(tag)?;
            check(
                root(),
                controller,
                version,
                version_of_crate(controller)?.as_deref(),
            )
            .with_context(|| format!("{tag} cannot be released"))?;
            // In the format that the release workflow reads.
            println!("controller={controller}\nversion={version}");
        }
        Some(Part::Notes(Tagged { tag })) => {
            let (controller, version) = split(tag)?;
            println!("{}", notes(root(), controller, version)?);
        }
    }
    Ok(())
}

/// `None` for a chart without a crate.
fn version_of_crate(name: &str) -> Result<Option<String>> {
    if name == UMBRELLA {
        return Ok(None);
    }
    Ok(Some(
        package::find(&package::controllers()?, name)?.version.clone(),
    ))
}

/// `ttl-controller-v0.2.0` → `ttl-controller`, `0.2.0`.
fn split(tag: &str) -> Result<(&str, &str)> {
    let parts = tag
        .rsplit_once("-v")
        .filter(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()));
    parts.with_context(|| format!("{tag:?} is no tag of a release: <controller>-v<version>"))
}

fn check(root: &Path, controller: &str, version: &str, of_crate: Option<&str>) -> Result<()> {
    ensure!(
        !version.contains('+'),
        "the tag of an image cannot hold the + of {version}"
    );
    if let Some(of_crate) = of_crate {
        ensure!(of_crate == version, "its crate has version {of_crate}");
    }
    let chart = Chart::of(root, controller)?;
    ensure!(
        chart.version == version,
        "its chart has version {}",
        chart.version
    );
    // The version of the crate, if there is one.
    let installs = chart.app_version.as_deref();
    ensure!(
        installs == of_crate,
        "its chart installs version {}",
        installs.unwrap_or("none")
    );
    notes(root, controller, version)?;
    Ok(())
}

/// The section of `version` in the changelog, without its heading.
fn notes(root: &Path, controller: &str, version: &str) -> Result<String> {
    let path = path_of_changelog(root, controller);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let notes = section(&text, version).unwrap_or_default();
    let path = path.display();
    ensure!(!notes.is_empty(), "{path} says nothing under `## {version}`");
    let sections = text.lines().filter(|line| names(line, version));
    ensure!(sections.count() == 1, "{path} has two sections `## {version}`");
    Ok(notes)
}

fn path_of_changelog(root: &Path, controller: &str) -> PathBuf {
    let folder = if controller == UMBRELLA {
        "charts/src"
    } else {
        "crates"
    };
    root.join(folder).join(controller).join("CHANGELOG.md")
}

/// True if the line is the heading `## version`, with or without a date.
fn names(line: &str, version: &str) -> bool {
    let heading = line.strip_prefix("## ");
    heading.and_then(|heading| heading.split(' ').next()) == Some(version)
}

/// The text below the heading of the version.
fn section(changelog: &str, version: &str) -> Option<String> {
    let mut lines = changelog.lines();
    lines.find(|line| names(line, version))?;
    let body: Vec<_> = lines.take_while(|line| !line.starts_with("## ")).collect();
    Some(body.join("\n").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_a_controller_and_a_version() {
        assert_eq!(
            split("ttl-controller-v0.2.0").unwrap(),
            ("ttl-controller", "0.2.0")
        );
        assert_eq!(
            split("ttl-after-finished-controller-v1.0.0-rc.1").unwrap(),
            ("ttl-after-finished-controller", "1.0.0-rc.1")
        );
        for wrong in [
            "v0.2.0",
            "ttl-controller",
            "ttl-controller-0.2.0",
            "ttl-controller-vnext",
        ] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }

    /// A repository whose chart and changelog have these versions.
    fn repository(chart: &str, app: &str, changelog: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let charts = root.path().join("charts/ttl-controller");
        let sources = root.path().join("crates/ttl-controller");
        fs::create_dir_all(&charts).unwrap();
        fs::create_dir_all(&sources).unwrap();
        let chart =
            format!("apiVersion: v2\nname: ttl-controller\nversion: {chart}\nappVersion: \"{app}\"\n");
        fs::write(charts.join("Chart.yaml"), chart).unwrap();
        let changelog =
            format!("# Changelog\n\n## Unreleased\n\n- Next.\n\n## {changelog} - 2026-11-21\n\n- Works.\n");
        fs::write(sources.join("CHANGELOG.md"), changelog).unwrap();
        root
    }

    #[test]
    fn what_a_tag_releases_has_one_version_everywhere() {
        let check = |[chart, app, changelog, crate_version]: [&str; 4]| {
            let root = repository(chart, app, changelog);
            let outcome = check(root.path(), "ttl-controller", "0.2.0", Some(crate_version));
            let text = outcome.err().map(|error| error.to_string());
            text.map(|text| text.replace(&root.path().display().to_string(), ""))
        };
        let (new, old) = ("0.2.0", "0.1.0");
        assert_eq!(check([new; 4]), None);
        for (versions, why) in [
            ([new, new, new, old], "its crate has version 0.1.0"),
            ([old, new, new, new], "its chart has version 0.1.0"),
            ([new, old, new, new], "its chart installs version 0.1.0"),
            (
                [new, new, old, new],
                "/crates/ttl-controller/CHANGELOG.md says nothing under `## 0.2.0`",
            ),
        ] {
            assert_eq!(check(versions).as_deref(), Some(why));
        }
    }

    #[test]
    fn a_version_that_an_image_cannot_have_is_not_released() {
        let root = repository("0.2.0+1", "0.2.0+1", "0.2.0+1");
        let refused = check(root.path(), "ttl-controller", "0.2.0+1", Some("0.2.0+1")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the tag of an image cannot hold the + of 0.2.0+1"
        );
    }

    #[test]
    fn a_chart_without_a_crate_has_one_version_too() {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in [
            (
                "charts/kube-controllers/Chart.yaml",
                "apiVersion: v2\nname: kube-controllers\nversion: 0.2.0\n",
            ),
            (
                "charts/src/kube-controllers/CHANGELOG.md",
                "# Changelog\n\n## 0.2.0\n\n- Works.\n",
            ),
        ] {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        check(root.path(), UMBRELLA, "0.2.0", None).unwrap();
        let refused = check(root.path(), UMBRELLA, "0.1.0", None).unwrap_err();
        assert_eq!(refused.to_string(), "its chart has version 0.2.0");
        assert_eq!(split("kube-controllers-v0.2.0").unwrap(), (UMBRELLA, "0.2.0"));
    }

    #[test]
    fn every_controller_has_a_changelog_for_what_comes_next_or_is_there() {
        for package in package::controllers().unwrap() {
            let path = root().join("crates").join(&package.name).join("CHANGELOG.md");
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let sections = [section(&text, "Unreleased"), section(&text, &package.version)];
            assert!(
                sections.iter().flatten().any(|text| !text.is_empty()),
                "{}",
                package.name
            );
        }
    }

    #[test]
    fn the_notes_are_the_section_of_the_version_alone() {
        let text = "# Changelog\n\n## 0.2.0 - 2026-11-21\n\n### Fixed\n\n- This.\n\n## 0.1.0\n\n- That.\n";
        assert_eq!(section(text, "0.2.0").as_deref(), Some("### Fixed\n\n- This."));
        assert_eq!(section(text, "0.1.0").as_deref(), Some("- That."));
        assert_eq!(section(text, "0.1"), None);
    }

    #[test]
    fn a_version_has_one_section_that_says_something() {
        let notes = |sections: &str| {
            let root = repository("0.2.0", "0.2.0", sections);
            let outcome = notes(root.path(), "ttl-controller", "0.2.0");
            outcome.map_err(|error| error.to_string().rsplit_once(".md ").unwrap().1.to_owned())
        };
        let nothing = Err("says nothing under `## 0.2.0`".to_owned());
        assert_eq!(notes("0.2.0"), Ok("- Works.".to_owned()));
        // The heading is still `## Unreleased`.
        assert_eq!(notes("0.1.0"), nothing);
        assert_eq!(notes("0.2.0\n\n## 0.1.0"), nothing);
        assert_eq!(
            notes("0.2.0\n\n- New.\n\n## 0.2.0"),
            Err("has two sections `## 0.2.0`".to_owned())
        );
    }
}
