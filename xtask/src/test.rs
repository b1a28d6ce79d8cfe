//! `cargo xtask test`: all tests.
//!
//! The [live] tests run where a control plane can be had. Leaving them out is said in the last lines, and with
//! `CI=true` it is a failure.

use anyhow::{Result, bail};

use crate::command::{self, cargo};
use crate::control_plane::{self, Availability};
use crate::live;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many cases of each property test to try, instead of 256
    #[arg(long, value_name = "N")]
    pub(crate) property_cases: Option<u32>,
    /// How many seeds of each suite of fault histories to try, instead of 200
    #[arg(long, value_name = "N")]
    pub(crate) fault_seeds: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let available = control_plane::availability()?;
    if let Availability::Missing(why) = &available
        && std::env::var("CI").is_ok_and(|ci| ci == "true")
    {
        bail!("with CI=true the live tests must run, but there is no control plane: {why}");
    }
    let mut tests = cargo(["test", "--workspace"]);
    if let Some(cases) = args.property_cases {
        tests.env("PROPTEST_CASES", cases.to_string());
    }
    if let Some(seeds) = args.fault_seeds {
        tests.env("FAULT_SEEDS", seeds.to_string());
    }
    command::run(&mut tests)?;
    let assets = match available {
        Availability::Given(assets) => assets,
        Availability::Buildable(go) => control_plane::build(&go)?,
        Availability::Missing(why) => {
            println!("Left out: the live tests, which run against a real Kubernetes control plane. {why}.");
            println!("To run them, install Go 1.26 or newer, or name a directory with etcd, kube-apiserver,");
            println!("kube-controller-manager and kube-scheduler in $KUBEBUILDER_ASSETS.");
            return Ok(());
        }
    };
    live::run(assets.dir())
}
