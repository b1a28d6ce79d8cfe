//! `cargo xtask fault`: repeats histories of steps and faults, each drawn from a seed.
//!
//! A controller's suite is the module `histories` of its test `sync`; a second suite is a module in it. This runs the
//! test `tell` of the suite, which prints each history in words and how it ended.

use anyhow::{Result, bail};

use crate::command::{self, cargo};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The seed to repeat, as a failing test names it
    #[arg(long, value_name = "N", required_unless_present = "seeds")]
    seed: Option<u64>,
    /// Several seeds, FROM up to and without TO
    #[arg(long, value_name = "FROM..TO", conflicts_with = "seed")]
    seeds: Option<String>,
    /// The controller whose histories they are, or CONTROLLER/MODULE
    #[arg(long, value_name = "CONTROLLER", default_value = "ttl-controller")]
    suite: String,
    /// Print each request of the controller, too
    #[arg(long)]
    verbose: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let seeds = match (args.seed, &args.seeds) {
        (Some(seed), _) => format!("{seed}..{}", seed.saturating_add(1)),
        (None, Some(seeds)) => seeds.clone(),
        (None, None) => bail!("which seed? --seed N or --seeds FROM..TO"),
    };
    let (package, tell) = match args.suite.split_once('/') {
        Some((package, module)) => (package, format!("histories::{module}::tell")),
        None => (&*args.suite, "histories::tell".to_owned()),
    };
    let mut test = cargo(["test", "--quiet", "--package", package, "--test", "sync"]);
    test.args(["--", "--exact", &tell, "--ignored", "--nocapture"]);
    test.env("FAULT_SEEDS", seeds);
    if args.verbose {
        test.env("FAULT_VERBOSE", "true");
    }
    command::run(&mut test)
}
