//! Helm for the tests of the charts: `$HELM`, else the one in `PATH`, else one that is built from its Go module into
//! `target/helm/`, once.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::command::{self, root};

/// Version to build, as in `.ci/run`.
const VERSION: &str = "v4.3.1";

/// Path of Helm, which is first built in some minutes if missing. Fails without Go.
pub(crate) fn find() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("HELM").filter(|given| !given.is_empty()) {
        return Ok(given.into());
    }
    if runs("helm".into()) {
        return Ok("helm".into());
    }
    let folder = root().join("target/helm").join(VERSION);
    let built = folder.join("helm");
    if !runs(built.clone()) {
        println!("building Helm: some minutes the first time");
        let mut install = Command::new("go");
        install
            .arg("install")
            .arg(format!("helm.sh/helm/v4/cmd/helm@{VERSION}"))
            .env("CGO_ENABLED", "0")
            .env("GOBIN", &folder);
        command::run(&mut install).context("no helm in the PATH, and none could be built")?;
    }
    Ok(built)
}

fn runs(helm: PathBuf) -> bool {
    let mut version = Command::new(helm);
    version.arg("version").stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}
