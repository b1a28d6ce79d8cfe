//! The command line, the same for all controllers: `<controller> [run] [flags]`.
//!
//! Every setting of the controller's [`ControllerConfig`] can be given three ways, the first wins:
//!
//! | way | spelling of `kubeApiQps` |
//! |---|---|
//! | flag | `--kube-api-qps=50` |
//! | environment | `CONTROLLER_KUBE_API_QPS=50` |
//! | YAML file named by `--config` or `CONTROLLER_CONFIG` | `kubeApiQps: 50` |
//!
//! Nothing here reads the environment, writes, or ends the process: `main` passes in what it has and prints
//! what it gets.

mod command;
mod file;
mod layers;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::ArgMatches;

pub use crate::about;
use crate::config::{ControllerConfig, properties};

/// The Kubernetes versions that the controllers are tested against (CORE-18).
pub const SUPPORTED_KUBERNETES: [&str; 3] = ["1.35", "1.36", "1.37"];

/// The same for people: `1.35 to 1.37`.
pub fn supported_kubernetes() -> String {
    let [oldest, .., newest] = SUPPORTED_KUBERNETES;
    format!("{oldest} to {newest}")
}

/// The commit that is built: `$BUILD_COMMIT` at build time, else, of a release, what is checked out; else `unknown`.
pub const COMMIT: &str = env!("BUILD_COMMIT");

/// What a binary says about itself.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name of the binary, such as `ttl-controller`.
    pub name: &'static str,
    /// One line: what the controller does.
    pub about: &'static str,
    /// Version of the crate.
    pub version: &'static str,
    /// Commit it was built from.
    pub commit: &'static str,
}

/// [`About`] the crate that calls it, as its manifest says; an example, which has none, gives its name and line.
#[macro_export]
macro_rules! about {
    () => {
        $crate::about!(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_DESCRIPTION"))
    };
    ($name:expr, $about:expr) => {
        $crate::args::About {
            name: $name,
            about: $about,
            version: env!("CARGO_PKG_VERSION"),
            commit: $crate::args::COMMIT,
        }
    };
}

/// A command line that makes sense, with the config that flags, environment and file add up to.
#[derive(Debug)]
pub struct Invocation<C> {
    /// What to do.
    pub command: Command,
    /// The effective config; for [`Command::ConfigSchema`], which reads none, the defaults.
    pub config: C,
    /// Where each setting comes from.
    pub origins: Origins,
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    /// Run the controller; `run` or no subcommand.
    Run,
    /// Print [`crate::config::config_schema`].
    ConfigSchema,
    /// A subcommand of the controller's own: its name and arguments.
    Extra(String, ArgMatches),
}

/// A subcommand of a controller's own.
#[derive(Debug)]
pub struct Subcommand {
    /// Its name and arguments.
    pub command: clap::Command,
    /// The settings that it reads, by config-file key, besides those of the connection and the log. Only they are flags of
    /// it; the environment and the config file may hold all.
    pub settings: &'static [&'static str],
}

/// Why there is nothing to run: help or version was asked for, or something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What to print, with its line breaks: to stdout where `exit_code` is 0, else to stderr.
    pub text: String,
    /// 0 for help and version, 2 for bad flags or config.
    pub exit_code: u8,
}

/// Where the settings come from, by config-file key. A key that is not in it has its default.
pub type Origins = BTreeMap<String, Origin>;

/// Where the value of one setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The config file.
    File {
        /// As it was given.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
    },
    /// The environment variable of this name.
    Environment(String),
    /// The flag of this name, without dashes.
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
/// `extra` are subcommands of the controller's own. `args` begin with the name of the program. `env` looks up one environment variable; one that is empty counts as unset.
///
/// # Errors
/// [`Usage`] with code 0 where help or the version is asked for, with code 2 where anything is wrong. All
/// problems of the environment, the file and the values of flags come together, one a line, each after
/// the place that it was found at. A flag that does not exist is reported alone.
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
            });
        }
        Some((name, matches)) => Command::Extra(name.to_owned(), matches.clone()),
    };
    // A flag may stand on either side of the subcommand; the one after it is the later one.
    let flag = |name: &str| {
        // None where the subcommand has no such flag.
        let given = |matches: &ArgMatches| matches.try_get_one::<String>(name).ok().flatten().cloned();
        subcommand
            .and_then(|(_, matches)| given(matches))
            .or_else(|| given(&matches))
    };
    let env = |name: &str| env(name).filter(|value| !value.is_empty());

    match layers::merge::<C>(&properties, &flag, &env) {
        Ok((config, origins)) => Ok(Invocation {
            command,
            config,
            origins,
        }),
        Err(problems) => Err(Usage {
            text: problems.join("\n") + "\n",
            exit_code: BAD_USAGE,
        }),
    }
}
