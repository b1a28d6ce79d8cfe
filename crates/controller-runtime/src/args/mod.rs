//! The command line, the same for all controllers: `<controller> [run] [flags]`.
//!
//! Every setting of the controller's [`ControllerConfig`] can be set in three ways; the first one wins:
//!
//! | way | spelling of `kubeApiQps` |
//! |---|---|
//! | flag | `--kube-api-qps=50` |
//! | environment | `CONTROLLER_KUBE_API_QPS=50` |
//! | YAML file named by `--config` or `CONTROLLER_CONFIG` | `kubeApiQps: 50` |
//!
//! Nothing here reads the environment, writes, or ends the process: `main` passes the environment in and prints the
//! result.

mod command;
mod file;
mod layers;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::ArgMatches;
use controller_core::about::About;
use controller_core::config::ControllerConfig;

pub use self::layers::Layers;
use crate::config::properties;

/// A valid command line, with the config merged from flags, environment and file.
#[derive(Debug)]
pub struct Invocation<C> {
    /// The subcommand.
    pub command: Command,
    /// The effective config; the defaults for [`Command::ConfigSchema`], which reads no config.
    pub config: C,
    /// Source of each setting; settings at their default have none.
    pub origins: Origins,
    /// The flags and the environment, to read the config file again.
    pub layers: Layers,
}

/// The subcommand on the command line.
#[derive(Debug)]
pub enum Command {
    /// Run the controller; `run` or no subcommand.
    Run,
    /// Print [`crate::config::config_schema`].
    ConfigSchema,
    /// A subcommand from [`Subcommand`]: its name and arguments.
    Extra(String, ArgMatches),
}

/// A subcommand that a controller adds.
#[derive(Debug)]
pub struct Subcommand {
    /// Name and arguments, without the flags for settings.
    pub command: clap::Command,
    /// Config-file keys of the settings that the subcommand reads, in addition to those of the connection and the log.
    /// Only these settings are flags of the subcommand; environment and config file may set all.
    pub settings: &'static [&'static str],
}

/// Why there is nothing to run: a request for help or version, or bad flags or config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Text to print, with its line breaks: to stdout if `exit_code` is 0, else to stderr.
    pub text: String,
    /// 0 for help and version, 2 for bad flags or config.
    pub exit_code: u8,
}

/// Source of each setting, by config-file key. Settings at their default have no entry.
pub type Origins = BTreeMap<String, Origin>;

/// Source of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The config file.
    File {
        /// Path from the flag or the environment, unchanged.
        path: PathBuf,
        /// Line of the key, counted from 1.
        line: u64,
    },
    /// Name of the environment variable.
    Environment(String),
    /// Name of the flag, without leading dashes.
    Flag(String),
}

/// `<path>:<line>`, the name of the variable, or the flag with its dashes.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", file::shown(path)),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

impl From<clap::Error> for Usage {
    fn from(error: clap::Error) -> Self {
        Self {
            text: error.render().to_string(),
            exit_code: if error.use_stderr() { BAD_USAGE } else { 0 },
        }
    }
}

const BAD_USAGE: u8 = 2;

/// Reads the command line, the environment and the config file.
///
/// `extra` are the controller's own subcommands. `args` begin with the name of the program. `env` looks up one
/// environment variable; an empty one counts as unset.
///
/// # Errors
/// [`Usage`] with code 0 for help and version, with code 2 for any problem. It reports all problems of the
/// environment, the file and the values of flags together, one a line, each after its place. An unknown flag is
/// reported alone.
pub fn parse<C: ControllerConfig>(
    about: About,
    extra: Vec<Subcommand>,
    args: impl IntoIterator<Item = OsString>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Invocation<C>, Usage> {
    let properties = properties::<C>();
    let matches = command::build(about, &properties, extra).try_get_matches_from(args)?;
    let subcommand = matches.subcommand();
    let command = match subcommand {
        None | Some((command::RUN, _)) => Command::Run,
        Some((command::CONFIG_SCHEMA, _)) => {
            return Ok(Invocation {
                command: Command::ConfigSchema,
                config: C::default(),
                origins: Origins::new(),
                layers: Layers::default(),
            });
        }
        Some((name, matches)) => Command::Extra(name.to_owned(), matches.clone()),
    };
    // A flag may come before or after the subcommand; the later one wins.
    let flag = |name: &str| {
        // An error means that the subcommand has no such flag.
        let given = |matches: &ArgMatches| matches.try_get_one::<String>(name).ok().flatten().cloned();
        subcommand
            .and_then(|(_, matches)| given(matches))
            .or_else(|| given(&matches))
    };
    let env = |name: &str| env(name).filter(|value| !value.is_empty());

    let layers = Layers::of(&properties, flag, env);
    match layers::merge::<C>(&properties, &layers) {
        Ok((config, origins)) => Ok(Invocation {
            command,
            config,
            origins,
            layers,
        }),
        Err(problems) => Err(Usage {
            text: problems.join("\n") + "\n",
            exit_code: BAD_USAGE,
        }),
    }
}
