//! `cargo xtask schema`: writes the schema of Kubernetes objects for the embedded API server.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{self, root};

/// Path of the generator and its output, without their extensions.
const TABLE: &str = "crates/embedded-apiserver/src/schema/kubernetes";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if the file is not what would be written
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let generator = root().join(format!("{TABLE}.go"));
    let target = format!("{TABLE}.txt");
    // Runs in the module that requires the described release of Kubernetes.
    let mut go = Command::new("go");
    go.arg("run")
        .arg(generator)
        .current_dir(root().join("crates/local-control-plane/programs"));
    let text = command::output(&mut go)?;
    let file = root().join(&target);
    if args.check {
        if fs::read_to_string(&file).with_context(|| format!("read {target}"))? != text {
            bail!("{target} is stale: cargo xtask schema");
        }
        return Ok(());
    }
    fs::write(&file, text).with_context(|| format!("write {target}"))?;
    println!("wrote {target}");
    Ok(())
}
