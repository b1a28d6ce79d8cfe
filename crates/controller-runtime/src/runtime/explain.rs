//! The subcommand `explain`: prints what a controller would do now, and why.

use clap::{Arg, ArgMatches, Command};
use controller_core::app::{App, Explain, Explainer, Failure};
use controller_core::meta::{NotNamespaced, ObjectKey};

use crate::args::Subcommand;
use crate::driver;
use crate::sender::Sender;

/// Name of the argument.
const OBJECT: &str = "object";

pub(super) fn subcommand<A: App>(explain: &Explain<A>) -> Subcommand {
    let object = Arg::new(OBJECT).value_name(explain.object).help(explain.help);
    let object = match explain.by {
        Explainer::One(_) => object.required(true).value_parser(ObjectKey::parse_namespaced),
        Explainer::All(_) => object,
    };
    Subcommand {
        command: Command::new("explain").about(explain.about).arg(object),
        settings: explain.settings,
    }
}

pub(super) async fn text<A: App>(
    explain: &Explain<A>,
    matches: &ArgMatches,
    config: &A::Config,
    sender: Sender,
) -> Result<String, Failure> {
    match explain.by {
        Explainer::One(explain) => {
            let object = matches.get_one(OBJECT).ok_or(NotNamespaced)?;
            driver::explain(sender, |pass, now| explain(config, pass, now, object)).await
        }
        Explainer::All(explain) => {
            let only = matches.get_one(OBJECT).map(String::as_str);
            driver::explain(sender, |pass, now| explain(config, pass, now, only)).await
        }
    }
}
