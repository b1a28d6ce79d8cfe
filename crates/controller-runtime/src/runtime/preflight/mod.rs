//! The subcommand `preflight`: may this controller be switched on in this cluster, and what must be done before?
//!
//! `read` asks the API server and collects [`Facts`]; [`decide`] only makes a [`PreflightReport`] of them.

mod decide;
mod distributions;
mod facts;
mod parse;
mod permissions;
mod read;
mod report;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command};
use controller_core::app::{App, Failure, Preflight};
use controller_core::config::ControllerConfig;

pub use self::decide::decide;
pub use self::distributions::{DISTRIBUTIONS, Distribution, Sign};
pub use self::facts::{Controllers, Facts, Lease, Manager, Node, Read, Trace, Version};
pub use self::permissions::{Permission, Rule};
pub use self::report::{Check, CheckState, Finding, Level, PreflightReport};
use crate::api::Http;
use crate::args::Subcommand;
use crate::clock::Clock;

/// The name of the subcommand.
pub(super) const PREFLIGHT: &str = "preflight";
const OUTPUT: &str = "output";
const JSON: &str = "json";

/// The settings that `preflight` uses.
const SETTINGS: &[&str] = &[
    "dryRun",
    "featureGates",
    "leaderElect",
    "leaderElectResourceName",
    "leaderElectResourceNamespace",
    "metricsAuthorization",
    "onlyPolicies",
];

pub(super) fn subcommand() -> Subcommand {
    let command = Command::new(PREFLIGHT)
        .about("Print whether this controller may be switched on in this cluster, and what to do before")
        .arg(
            Arg::new(OUTPUT)
                .long(OUTPUT)
                .value_name("FORMAT")
                .value_parser(PossibleValuesParser::new(["text", JSON]))
                .default_value("text")
                .help("Format of the report"),
        )
        .after_help(
            "Exit code 0: nothing is in the way. 1: an error, or something that matters could not be found out. \
             2: something blocks, such as the built-in loop that is still on. With --dry-run the question is whether \
             a dry run may begin: the built-in loop and other leaders are no more than a warning then.",
        );
    Subcommand {
        command,
        settings: SETTINGS,
    }
}

/// True if the report must be printed as JSON.
pub(super) fn wants_json(matches: &ArgMatches) -> bool {
    matches
        .get_one::<String>(OUTPUT)
        .is_some_and(|format| format == JSON)
}

/// Reads the facts from the API server and decides; fails if the API server does not answer.
pub async fn preflight<A: App>(
    preflight: &Preflight<A>,
    config: &A::Config,
    http: &Http,
    clock: &Clock,
) -> Result<PreflightReport, Failure> {
    let common = config.common();
    let gates = preflight.rules_of_gates.as_ref();
    let lease = common.lease(A::ABOUT.name);
    let lease = read::LeaseName {
        namespace: lease.namespace.as_deref().unwrap_or_default().to_owned(),
        name: lease.name.to_string(),
    };
    let mut permissions = permissions::of_rules(preflight.rules)?;
    if let Some(gates) = gates {
        permissions.extend(permissions::of_gates(gates.rules, |gate| {
            (gates.is_on)(config, gate)
        })?);
    }
    if common.dry_run {
        permissions.retain(Permission::only_reads);
    } else if common.leader_elect {
        permissions.extend(permissions::on_lease(&lease));
    }
    permissions.extend(permissions::of_metrics(common.metrics_authorization));
    let subject = read::Subject {
        controller: A::ABOUT.name,
        built_in: preflight.built_in,
        shares_work: (preflight.shares_work)(config),
        dry_run: common.dry_run,
        permissions,
        lease,
    };
    let facts = read::facts(subject, http, clock).await?;
    Ok(decide(&facts))
}
