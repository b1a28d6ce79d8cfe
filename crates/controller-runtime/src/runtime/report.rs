//! The subcommand that reports on many objects, also as a plugin of kubectl.

use std::ffi::OsString;
use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use controller_core::app::{App, Failure, Flag, Flags, Printed, Report, Takes};

use crate::args::Subcommand;
use crate::driver;
use crate::sender::Sender;

pub(super) fn subcommand<A: App>(report: &Report<A>) -> Subcommand {
    let command = Command::new(report.name).about(report.about);
    Subcommand {
        command: command.after_help(report.help).args(report.flags.iter().map(arg)),
        settings: report.settings,
    }
}

fn arg(flag: &Flag) -> Arg {
    let arg = Arg::new(flag.name).long(flag.name).help(flag.help);
    let arg = match flag.short {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    match flag.takes {
        Takes::Nothing => arg.action(ArgAction::SetTrue),
        Takes::Texts(name) => arg.value_name(name).action(ArgAction::Append),
        Takes::OneOf(values) => {
            let parser = PossibleValuesParser::new(values);
            let arg = arg.value_name("FORMAT").value_parser(parser);
            arg.default_value(values.first().copied().unwrap_or_default())
        }
    }
}

/// The flags of the report as given.
fn given(flags: &'static [Flag], matches: &ArgMatches) -> Flags {
    let values = |flag: &Flag| match flag.takes {
        Takes::Nothing => matches.get_flag(flag.name).then(Vec::new),
        Takes::Texts(_) | Takes::OneOf(_) => {
            let values = matches.get_many::<String>(flag.name)?;
            Some(values.cloned().collect())
        }
    };
    Flags(
        flags
            .iter()
            .filter_map(|flag| Some((flag.name, values(flag)?)))
            .collect(),
    )
}

pub(super) async fn printed<A: App>(
    report: &Report<A>,
    matches: &ArgMatches,
    config: &A::Config,
    sender: Sender,
) -> Result<Printed, Failure> {
    let flags = given(report.flags, matches);
    driver::explain(sender, |pass, now| (report.by)(config, pass, now, &flags)).await
}

/// The command line with the subcommand, if the binary is called by the name of the plugin.
pub(super) fn of_plugin<A: App>(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<_> = args.into_iter().collect();
    let called = args.first().map(Path::new).and_then(Path::file_stem);
    if let Some(report) = A::REPORT
        && called.is_some_and(|called| called == report.plugin)
    {
        args.insert(1, report.name.into());
    }
    args
}
