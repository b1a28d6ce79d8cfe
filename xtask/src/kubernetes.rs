//! Minor releases of Kubernetes: the supported ones, and those that must be supported by today. docs/versions.md has
//! the dates.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::{self, root};

const DOCUMENT: &str = "docs/versions.md";
/// File that lists the minors which our releases support.
const SOURCE: &str = "crates/controller-core/src/version.rs";

/// A row of the table of releases.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Release {
    /// `1.37`.
    pub(crate) minor: String,
    /// Day by which it must be listed, such as `2026-10-26`.
    name_by: String,
    /// Version that the tests use, such as `v1.37.2`; empty before the release.
    pub(crate) version: String,
}

/// Fails for a release that should be listed by today but is not.
pub(crate) fn check() -> Result<()> {
    let today = command::output(Command::new("date").args(["-u", "+%F"]))?;
    let late = unnamed(&releases()?, &named()?, today.trim());
    ensure!(
        late.is_empty(),
        "Kubernetes {} is out for more than two months and not among the supported ones in {SOURCE}",
        late.join(", ")
    );
    Ok(())
}

/// The supported releases, oldest first.
pub(crate) fn supported() -> Result<Vec<Release>> {
    let named = named()?;
    let mut releases = releases()?;
    releases.retain(|release| named.contains(&release.minor));
    Ok(releases)
}

fn releases() -> Result<Vec<Release>> {
    let text = fs::read_to_string(root().join(DOCUMENT)).with_context(|| format!("read {DOCUMENT}"))?;
    let releases = table(&text);
    ensure!(!releases.is_empty(), "{DOCUMENT} has no table of releases");
    Ok(releases)
}

fn named() -> Result<Vec<String>> {
    let source = fs::read_to_string(root().join(SOURCE)).with_context(|| format!("read {SOURCE}"))?;
    minors(&source).with_context(|| format!("{SOURCE} has no SUPPORTED_KUBERNETES"))
}

/// The rows of `| minor | released | named by | tests |`.
fn table(text: &str) -> Vec<Release> {
    let rows = text.lines().filter(|line| line.starts_with("| 1."));
    let cells = rows.map(|row| {
        row.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
    });
    let releases = cells.filter_map(|mut cells| {
        Some(Release {
            minor: cells.next()?,
            name_by: cells.nth(1)?,
            version: cells.next()?,
        })
    });
    releases.collect()
}

/// The texts of the array `SUPPORTED_KUBERNETES`.
fn minors(source: &str) -> Option<Vec<String>> {
    let (_, after) = source.split_once("SUPPORTED_KUBERNETES: [&str; 3] = [")?;
    let (list, _) = after.split_once(']')?;
    let minors = list
        .split(',')
        .map(|minor| minor.trim().trim_matches('"').to_owned());
    Some(minors.collect())
}

/// Minors that should be listed by `today` but are not. Ignores those older than the oldest listed one.
fn unnamed(releases: &[Release], named: &[String], today: &str) -> Vec<String> {
    let oldest = releases.iter().position(|release| named.contains(&release.minor));
    let later = releases.iter().skip(oldest.unwrap_or_default());
    let late = later.filter(|release| *release.name_by < *today && !named.contains(&release.minor));
    late.map(|release| release.minor.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| minor | released | named by | the tests run on |
|---|---|---|---|
| 1.9 | 2025-08-27 | 2025-10-27 | v1.9.4 |
| 1.10 | 2025-12-17 | 2026-02-17 | v1.10.4 |
| 1.11 | expected in May 2026 | 2026-07-31 | |
";

    #[test]
    fn a_release_must_be_named_after_its_two_months() {
        let releases = table(TABLE);
        let named = ["1.10".to_owned()];
        assert_eq!(unnamed(&releases, &named, "2026-02-17"), Vec::<String>::new());
        assert_eq!(unnamed(&releases, &named, "2026-07-31"), Vec::<String>::new());
        assert_eq!(unnamed(&releases, &named, "2026-08-01"), ["1.11"]);
        assert_eq!(unnamed(&releases, &[], "2026-02-18"), ["1.9", "1.10"]);
    }

    #[test]
    fn a_row_says_what_is_tested() {
        let versions: Vec<String> = table(TABLE).into_iter().map(|release| release.version).collect();
        assert_eq!(versions, ["v1.9.4", "v1.10.4", ""]);
    }

    #[test]
    fn every_supported_release_has_a_row_with_a_version() {
        let supported = supported().unwrap();
        let minors: Vec<&str> = supported.iter().map(|release| &*release.minor).collect();
        assert_eq!(minors, ["1.35", "1.36", "1.37"]);
        for release in supported {
            assert!(
                release.version.starts_with(&format!("v{}.", release.minor)),
                "{release:?}"
            );
        }
    }
}
