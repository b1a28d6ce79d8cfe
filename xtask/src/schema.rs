//! `cargo xtask schema`: writes what objects of Kubernetes look like, for the embedded API server.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{self, root};

/// The generator and what it writes, without their endings.
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
    // From the module whose release of Kubernetes it describes.
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
