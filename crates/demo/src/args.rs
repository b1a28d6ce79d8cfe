//! The command line.

use std::time::Duration;

use clap::builder::PossibleValuesParser;

use crate::cluster::Target;
use crate::scenes;

/// Shows the controllers at work: a cluster in this process, or a disposable one of yours.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "demo", bin_name = "cargo xtask demo")]
pub(crate) struct Args {
    /// Play the scenes of this controller only; may be said again for further ones
    #[arg(long = "scene", value_name = "NAME", value_parser = PossibleValuesParser::new(scenes::names()))]
    pub(crate) scenes: Vec<String>,
    /// Stay up after the last step, until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,
    /// Leave no time to read
    #[arg(long)]
    pub(crate) fast: bool,
    /// Plain lines on a terminal too
    #[arg(long)]
    pub(crate) plain: bool,
    /// How many seconds the cluster may take to become what a step expects
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) within: u32,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Pauses for a viewer to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Between the announcement of a step and its action.
    pub(crate) before: Duration,
    /// Between the result of a step and the next step.
    pub(crate) after: Duration,
}

impl Args {
    pub(crate) fn pace(&self) -> Pace {
        let (before, after) = if self.fast { (0, 100) } else { (1_000, 1_500) };
        Pace {
            before: Duration::from_millis(before),
            after: Duration::from_millis(after),
        }
    }

    pub(crate) fn within(&self) -> Duration {
        Duration::from_secs(self.within.into())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
