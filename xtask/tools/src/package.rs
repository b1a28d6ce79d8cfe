//! The controllers, from their manifests.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use xtask::CONTROLLERS;
use xtask::command::{self, cargo};

/// A controller, from its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Package {
    /// Name of crate, binary, image, chart and tags.
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) license: String,
}

/// Output of `cargo metadata`.
#[derive(Deserialize)]
struct Workspace {
    packages: Vec<serde_json::Value>,
}

/// The controllers of the workspace, sorted by name.
pub(crate) fn controllers() -> Result<Vec<Package>> {
    let mut metadata = cargo(["metadata", "--no-deps", "--format-version=1", "--locked"]);
    let workspace: Workspace =
        serde_json::from_str(&command::output(&mut metadata)?).context("read what cargo metadata prints")?;
    let mut found = workspace
        .packages
        .into_iter()
        .filter(|package| {
            package["name"]
                .as_str()
                .is_some_and(|name| CONTROLLERS.contains(&name))
        })
        .map(serde_json::from_value)
        .collect::<Result<Vec<Package>, _>>()
        .context("the manifest of a controller needs a description and a license")?;
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The controllers in `named`; all if empty.
pub(crate) fn select(named: &[String]) -> Result<Vec<Package>> {
    let all = controllers()?;
    if named.is_empty() {
        return Ok(all);
    }
    named.iter().map(|name| find(&all, name).cloned()).collect()
}

/// The controller of this name.
pub(crate) fn find<'a>(all: &'a [Package], name: &str) -> Result<&'a Package> {
    let Some(package) = all.iter().find(|package| package.name == name) else {
        let names: Vec<_> = all.iter().map(|package| package.name.as_str()).collect();
        bail!("{name} is no controller; they are {}", names.join(", "));
    };
    Ok(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controllers_are_found_and_nothing_else_is_one() {
        let names: Vec<_> = controllers().unwrap().into_iter().map(|p| p.name).collect();
        assert!(names.contains(&"ttl-controller".to_owned()), "{names:?}");
        assert!(!names.contains(&"controller-core".to_owned()));
        let wrong = select(&["ttl".to_owned()]).unwrap_err().to_string();
        assert!(wrong.starts_with("ttl is no controller; they are "), "{wrong}");
    }
}
