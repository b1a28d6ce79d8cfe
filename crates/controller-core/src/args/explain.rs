//! The subcommand `explain` of controllers that explain one object.

use clap::{Arg, ArgMatches, Command};

use crate::meta::{NotNamespaced, ObjectKey};

/// The argument's name.
const OBJECT: &str = "object";

/// `explain`, which takes the name of an object. The help calls it `value_name`, such as `NAMESPACE/POD`, and says
/// what it is.
pub fn explain(about: &'static str, value_name: &'static str, help: &'static str) -> Command {
    let object = Arg::new(OBJECT)
        .value_name(value_name)
        .required(true)
        .value_parser(ObjectKey::parse_namespaced)
        .help(help);
    Command::new("explain").about(about).arg(object)
}

/// The object that [`explain`] was given.
pub fn explained(matches: &ArgMatches) -> Result<&ObjectKey, NotNamespaced> {
    matches.get_one(OBJECT).ok_or(NotNamespaced)
}
