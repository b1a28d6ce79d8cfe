//! `cargo xtask test`: all tests.
//!
//! | file | holds |
//! |---|---|
//! | `binary` | the test binaries, and which need a control plane |
//! | `cost` | time and CPU of each, control planes that it started, fault seeds a second |
//! | `pool` | the control planes that they share |
//! | `passed` | which ones passed before, with the same content |
//! | `side_by_side` | runs them side by side |
//!
//! Live tests are ignored by default, as they need a control plane; they run if one is available. Otherwise the last
//! lines say that they were left out, which is a failure with `CI=true`.

mod binary;
mod cost;
mod passed;
mod pool;
mod side_by_side;

use std::cmp::Reverse;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::command::{self, cargo};
use crate::control_plane::{self, Availability};
use crate::helm;
use binary::{Binary, Built};
use passed::Passed;
use pool::Pool;

/// The tests of the charts, which also need Helm.
const CHARTS: &str = "charts";
/// The demo in its full length, which takes its time on every machine.
const STORY: &str = "end_to_end";
/// Live tests of a binary that run at a time: each has its own API server of 400 MB.
const LIVE_TESTS: &str = "4";
/// The garbage collection of the Go programs that live tests start, unless the environment sets it. With Go's own value,
/// 100, the charts' tests take a tenth more time.
const GARBAGE: (&str, &str) = ("GOGC", "200");

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many cases of each property test to try, instead of 256
    #[arg(long, value_name = "N")]
    pub(crate) property_cases: Option<u32>,
    /// The seed that the property tests draw from; a new one is drawn otherwise
    #[arg(long, value_name = "N")]
    pub(crate) property_seed: Option<u64>,
    /// How many seeds of each suite of fault histories to try, instead of 50: a number, or FROM up to and without TO
    #[arg(long, value_name = "N|FROM..TO")]
    pub(crate) fault_seeds: Option<String>,
    /// Run the live tests that can be long at their full length
    #[arg(long)]
    pub(crate) long: bool,
    /// Also run the test binaries that passed before with the same content: programs, files, arguments, variables and
    /// tools. Without --property-seed, no content is the same
    #[arg(long)]
    pub(crate) again: bool,
    /// Only the binaries with live tests, on the control plane of this release, such as v1.36.3
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes: Option<String>,
}

/// Live tests that are left out on a minor release, by part of their names, and why.
const WITHOUT: [(&str, &[&str]); 2] = [
    (
        "v1.35.",
        &[
            // This release has no PodGroups.
            "groups",
            // The gate is off, so an extended resource gets no claim.
            "extended_resources",
            // Here, the permission to write a claim's status includes binding it.
            "without_the_right_to_bind",
            // MutatingAdmissionPolicy is beta here.
            "pods_run_as_whom_the_platform_chooses",
            OF_THE_REFERENCE,
            OF_THE_NEWEST,
        ],
    ),
    // The embedded API server has PodGroups as `v1beta1`.
    ("v1.36.", &["live_pod_groups", OF_THE_REFERENCE, OF_THE_NEWEST]),
];
/// `docs/flags.md` has the flags of the newest release only.
const OF_THE_REFERENCE: &str = "the_table_of_flags_has_those_of_kube_controller_manager";
/// The embedded API server answers in the words of the newest release.
const OF_THE_NEWEST: &str = "live_drawn_sequences_have_the_same_answers";

pub(crate) fn run(args: &Args) -> Result<()> {
    run_next_to(args, || Ok(()))
}

/// Runs the tests, and `checks` next to them, once the tests are built.
pub(crate) fn run_next_to(args: &Args, checks: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    let (tools, built) = std::thread::scope(|scope| {
        let tools = scope.spawn(|| Tools::find(args.kubernetes.as_deref()));
        let built = binary::build();
        let tools = tools
            .join()
            .unwrap_or_else(|_| bail!("the search for the tools panicked"));
        anyhow::Ok((tools?, built?))
    })?;
    let (mut live, mut others): (Vec<&Binary>, Vec<_>) =
        built.tests.iter().partition(|binary| tools.are_there_for(binary));
    if args.kubernetes.is_some() {
        others.clear();
    }
    // The slowest first, so that none of them runs alone at the end.
    live.sort_by_key(|binary| Reverse((binary.target == STORY, binary.live.count)));
    let property_seed = args.property_seed.unwrap_or_else(drawn_seed);
    let passed = known(args, &built);
    let pool = (!live.is_empty()).then(|| Pool::of(&built)).transpose()?;
    let command = |binary: &Binary| {
        let mut tests = binary.command();
        tests.env("PROPTEST_RNG_SEED", property_seed.to_string());
        if let Some(cases) = args.property_cases {
            tests.env("PROPTEST_CASES", cases.to_string());
        }
        if let Some(seeds) = &args.fault_seeds {
            tests.env("FAULT_SEEDS", seeds);
        }
        if args.long {
            tests.env("LONG_TESTS", "1");
        }
        if tools.are_there_for(binary) {
            tests.args(["--include-ignored", "--test-threads", LIVE_TESTS]);
            let version = args.kubernetes.as_deref().unwrap_or_default();
            let without = WITHOUT.iter().filter(|(release, _)| version.starts_with(release));
            for name in without.flat_map(|(_, names)| *names) {
                tests.args(["--skip", name]);
            }
            for name in tools.left_out(binary) {
                tests.args(["--skip", name]);
            }
            tools.give_to(&mut tests);
            if std::env::var_os(GARBAGE.0).is_none() {
                tests.env(GARBAGE.0, GARBAGE.1);
            }
            tests.envs(pool.as_ref().map(|pool| (pool::DIR, &pool.dir)));
        }
        tests
    };
    let (outcome, checked) = std::thread::scope(|scope| {
        let checks = scope.spawn(|| {
            side_by_side::give_way();
            checks()
        });
        let outcome = side_by_side::run(live, others, passed.as_ref(), command);
        let checked = checks
            .join()
            .unwrap_or_else(|_| bail!("a thread that ran checks panicked"));
        (outcome, checked)
    });
    drop(pool);
    let outcome = outcome?;
    println!("{}\n", cost::table(outcome.costs));
    println!(
        "{} of {} test binaries passed before with the same content and were not run again (--again runs them).",
        outcome.passed_before,
        built.tests.len()
    );
    println!("The property tests drew from seed {property_seed} (--property-seed {property_seed}).\n");
    let mut failed = outcome.failed;
    failed.extend(checked.err().map(|error| format!("{error:#}")));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    if args.kubernetes.is_some() {
        return Ok(());
    }
    // Cargo compiles and runs doc tests in one command.
    command::run(&mut cargo(["test", "--workspace", "--doc"]))?;
    tools.say_what_was_left_out(&built);
    Ok(())
}

/// The runs that passed before; none where all shall run again, or where Git does not know the files.
fn known<'a>(args: &Args, built: &'a Built) -> Option<Passed<'a>> {
    if args.again {
        return None;
    }
    Passed::of(built)
        .inspect_err(|error| println!("All test binaries run, whatever passed before: {error:#}."))
        .ok()
}

/// A number that nobody knows before.
fn drawn_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// What the live tests need, or the reason why it is missing.
struct Tools {
    control_plane: Result<PathBuf, String>,
    helm: Result<PathBuf, String>,
    /// The programs that the directory of the control plane does not hold.
    lacks: Vec<String>,
}

impl Tools {
    /// Builds what can be built. With `CI=true`, nothing may be missing.
    fn find(release: Option<&str>) -> Result<Self> {
        let control_plane = match release {
            Some(version) => Ok(control_plane::of_release(version)?),
            None => match control_plane::availability()? {
                Availability::Given(assets) => Ok(assets),
                Availability::Buildable(go) => Ok(control_plane::build(&go)?),
                Availability::Missing(why) => Err(why),
            },
        };
        let helm = match &control_plane {
            Ok(_) => helm::find().map_err(|error| format!("{error:#}")),
            Err(_) => Err("They need the control plane, too".to_owned()),
        };
        let lacks = control_plane.as_ref().map(|assets| control_plane::lacks(assets));
        let lacks = lacks.unwrap_or_else(|_| Ok(Vec::new()))?;
        let found = Self {
            control_plane,
            helm,
            lacks,
        };
        if std::env::var("CI").is_ok_and(|ci| ci == "true") {
            let missing = found.control_plane.as_ref().err().or(found.helm.as_ref().err());
            ensure!(
                missing.is_none(),
                "with CI=true all tests must run, but some cannot: {}",
                missing.map_or("", String::as_str)
            );
            ensure!(
                found.lacks.is_empty(),
                "with CI=true all tests must run, but $KUBEBUILDER_ASSETS lacks {}",
                found.lacks.join(" and ")
            );
        }
        Ok(found)
    }

    /// True if the binary has live tests and they can run.
    fn are_there_for(&self, binary: &Binary) -> bool {
        let helm = self.helm.is_ok() || binary.target != CHARTS;
        binary.live.count > 0 && self.control_plane.is_ok() && helm
    }

    /// The live tests of `binary` that cannot run without the programs that are missing.
    fn left_out<'a>(&self, binary: &'a Binary) -> &'a [String] {
        if self.lacks.is_empty() {
            &[]
        } else {
            &binary.live.with_all_programs
        }
    }

    fn give_to(&self, tests: &mut Command) {
        let assets = self.control_plane.as_ref().ok();
        tests.envs(assets.map(|assets| ("KUBEBUILDER_ASSETS", assets)));
        tests.envs(self.helm.as_ref().ok().map(|helm| ("HELM", helm)));
    }

    fn say_what_was_left_out(&self, built: &Built) {
        if let Err(why) = &self.control_plane {
            println!("Left out: the live tests, which run against a real Kubernetes control plane. {why}.");
            println!("To run them, install Go 1.26 or newer, or name a directory with etcd, kube-apiserver,");
            println!("kube-controller-manager and kube-scheduler in $KUBEBUILDER_ASSETS.");
        } else if let Err(why) = &self.helm {
            println!("Left out: the tests that install the charts. {why}.");
        }
        if !self.lacks.is_empty() {
            println!(
                "Left out, as $KUBEBUILDER_ASSETS lacks {}:",
                self.lacks.join(" and ")
            );
            for binary in &built.tests {
                for test in self.left_out(binary) {
                    println!("  {binary} {test}");
                }
            }
        }
    }
}
