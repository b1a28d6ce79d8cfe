//! Builds the flags from the settings.

use clap::{Arg, ArgAction, Command};

use controller_core::version::supported_kubernetes;

use super::{About, Subcommand};
use crate::config::{Kind, Property};

/// Runs the controller; also the default without a subcommand.
pub(super) const RUN: &str = "run";
/// Prints the JSON Schema of the config file. It takes no settings.
pub(super) const CONFIG_SCHEMA: &str = "config-schema";
/// The flag that names the config file.
pub(super) const CONFIG: &str = "config";
/// Environment variable for [`CONFIG`].
pub(super) const CONFIG_ENV: &str = "CONTROLLER_CONFIG";

/// Settings that every additional subcommand reads: connection and log.
const READ_BY_ALL: [&str; 5] = [
    "context",
    "kubeApiContentType",
    "kubeconfig",
    "logFormat",
    "logLevel",
];

/// Columns of the help, independent of the terminal, so that snapshots can compare it.
const WIDTH: usize = 100;

/// The command line of one controller.
///
/// Accepts any value: values are checked later, together with those of the environment and the file, so that all
/// problems are reported at once.
pub(super) fn build(about: About, properties: &[Property], extra: Vec<Subcommand>) -> Command {
    let config = Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("PATH")
        .help(format!("YAML file with settings\n[env: {CONFIG_ENV}]"));
    let flags_of = |is_read: &dyn Fn(&str) -> bool| {
        let read = properties
            .iter()
            .filter(|property| property.has_flag() && is_read(&property.key));
        let flags = read.map(|property| flag(about.name, property));
        [config.clone()].into_iter().chain(flags).collect::<Vec<_>>()
    };
    let flags = flags_of(&|_| true);
    let run = Command::new(RUN).about("Run the controller (the default)");
    let config_schema = Command::new(CONFIG_SCHEMA).about("Print the JSON Schema of the config file");
    Command::new(about.name)
        .bin_name(about.name)
        .about(about.about)
        .version(format!(
            "{} (commit {}, Kubernetes {})",
            about.version,
            about.commit,
            supported_kubernetes()
        ))
        .after_help(
            "Each flag can also be given as the environment variable shown, or in the config file under the \
             flag's name in camelCase (kubeApiQps). A flag wins over the environment, the environment over \
             the file.",
        )
        .term_width(WIDTH)
        .next_line_help(true)
        .disable_help_subcommand(true)
        .args_override_self(true)
        .args(&flags)
        .subcommand(run.args_override_self(true).args(&flags))
        .subcommand(config_schema)
        .subcommands(extra.into_iter().map(|Subcommand { command, settings }| {
            let is_read = |key: &str| READ_BY_ALL.contains(&key) || settings.contains(&key);
            command.args_override_self(true).args(flags_of(&is_read))
        }))
}

fn flag(controller: &'static str, property: &Property) -> Arg {
    let Property { help, env, .. } = property;
    let default = match &property.default {
        Some(default) => format!(" [default: {default}]"),
        None => String::new(),
    };
    let arg = Arg::new(property.flag.clone())
        .long(property.flag.clone())
        .value_name(property.kind.value_name())
        .help(format!("{help}\n[env: {env}]{default}"))
        .help_heading(property.heading.clone().unwrap_or_else(|| controller.to_owned()))
        .action(ArgAction::Set)
        .allow_negative_numbers(true);
    match property.kind {
        Kind::Boolean => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        _ => arg,
    }
}
