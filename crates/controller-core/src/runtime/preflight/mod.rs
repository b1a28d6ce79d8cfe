//! The subcommand `preflight`: may this controller be switched on in this cluster, and what must be done before?
//!
//! `read` asks the API server and collects [`Facts`]; [`decide`] makes a [`Report`] of them and does nothing else.

mod decide;
mod distributions;
mod facts;
mod parse;
mod permissions;
mod read;
mod report;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command};

pub use self::decide::decide;
pub use self::distributions::{DISTRIBUTIONS, Distribution, Sign};
pub use self::facts::{Controllers, Facts, Lease, Manager, Node, Read, Trace, Version};
pub use self::permissions::{Permission, Rule};
pub use self::report::{Check, Finding, Level, Report, State};
use super::identity::lease_namespace;
use super::{App, Failure};
use crate::api::Http;
use crate::args::Subcommand;
use crate::clock::Clock;
use crate::config::ControllerConfig;

/// The name of the subcommand.
pub(super) const PREFLIGHT: &str = "preflight";
const OUTPUT: &str = "output";
const JSON: &str = "json";

/// What `preflight` must know of one controller.
pub struct Preflight<A: App> {
    /// The loop that the controller replaces. In `--controllers` it has the controller's name.
    pub built_in: BuiltIn,
    /// The rules of its `ClusterRole`, as YAML: those of the chart.
    pub rules: &'static str,
    /// The rules that only a feature gate needs.
    pub rules_of_gates: Option<RulesOfGates<A>>,
}

/// Rules that only a feature gate needs.
pub struct RulesOfGates<A: App> {
    /// The rules by the name of the gate, as YAML: those of the chart.
    pub rules: &'static str,
    /// Whether the gate of this name is on.
    pub is_on: fn(&A::Config, &str) -> bool,
}

/// A loop of kube-controller-manager, by what it leaves behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltIn {
    /// Another name that `--controllers` takes for it. Source: `aliases` of its `ControllerDescriptor`.
    pub alias: Option<&'static str>,
    /// Fields that no other loop of kube-controller-manager writes.
    pub writes: Option<Fields>,
    /// `source.component` of its events, if no other loop of kube-controller-manager has it.
    pub events: Option<&'static str>,
}

/// Fields of a kind of objects.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// The URL path of the collection, in all namespaces.
    pub path: &'static str,
    /// The subresource by which they are written; empty for the object itself.
    pub subresource: &'static str,
    /// Where they are, as `fieldsV1` spells it: `["f:metadata", "f:annotations", "f:example.com/key"]`.
    pub fields: &'static [&'static str],
}

/// What it asks the settings about.
const SETTINGS: &[&str] = &[
    "dryRun",
    "featureGates",
    "leaderElect",
    "leaderElectResourceName",
    "leaderElectResourceNamespace",
    "metricsAuthorization",
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

/// Whether the report is printed as JSON.
pub(super) fn wants_json(matches: &ArgMatches) -> bool {
    matches
        .get_one::<String>(OUTPUT)
        .is_some_and(|format| format == JSON)
}

/// Reads what matters from the API server and decides; fails if the API server does not answer.
pub async fn preflight<A: App>(
    preflight: &Preflight<A>,
    config: &A::Config,
    http: &Http,
    clock: &Clock,
) -> Result<Report, Failure> {
    let common = config.common();
    let gates = preflight.rules_of_gates.as_ref();
    let lease = read::LeaseName {
        namespace: lease_namespace(common.leader_elect_resource_namespace.as_deref()),
        name: (common.leader_elect_resource_name.clone()).unwrap_or_else(|| A::ABOUT.name.to_owned()),
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
        dry_run: common.dry_run,
        permissions,
        lease,
    };
    let facts = read::facts(subject, http, clock).await?;
    Ok(decide(&facts))
}
