//! The subcommand `explain`: prints what a controller would do now, and why.

use clap::{Arg, ArgMatches, Command};
use controller_core::app::{App, Explain, ExplainOne, Explainer, Failure};
use controller_core::meta::{NotNamespaced, ObjectKey};

use crate::args::Subcommand;
use crate::driver;
use crate::sender::Sender;

/// Name of the argument.
const OBJECT: &str = "object";

pub(super) fn subcommand<A: App>(explain: &Explain<A>) -> Subcommand {
    let command = Command::new("explain").about(explain.about);
    let object = Arg::new(OBJECT).value_name(explain.object).help(explain.help);
    let one = object.clone().value_parser(ObjectKey::parse_namespaced);
    let command = match &explain.by {
        Explainer::One(_) => command.arg(one.required(true)),
        Explainer::OneOr(_, other) => {
            let flag = Arg::new(other.flag).long(other.flag).value_name(other.object);
            let flag = flag.value_parser(ObjectKey::parse_namespaced).help(other.help);
            let one = one.required_unless_present(other.flag);
            command.arg(one.conflicts_with(other.flag)).arg(flag)
        }
        Explainer::All(_) => command.arg(object),
    };
    Subcommand {
        command,
        settings: explain.settings,
    }
}

pub(super) async fn text<A: App>(
    explain: &Explain<A>,
    matches: &ArgMatches,
    config: &A::Config,
    sender: Sender,
) -> Result<String, Failure> {
    let named = |name: &str| matches.get_one::<ObjectKey>(name);
    let one = async |explain: &ExplainOne<A>, object: Option<&ObjectKey>| {
        let object = object.ok_or(NotNamespaced)?;
        driver::explain(sender.clone(), |pass, now| explain(config, pass, now, object)).await
    };
    match &explain.by {
        Explainer::One(explain) => one(explain, named(OBJECT)).await,
        Explainer::OneOr(explain, other) => match named(other.flag) {
            Some(object) => one(&other.by, Some(object)).await,
            None => one(explain, named(OBJECT)).await,
        },
        Explainer::All(explain) => {
            let only = matches.get_one(OBJECT).map(String::as_str);
            driver::explain(sender, |pass, now| explain(config, pass, now, only)).await
        }
    }
}
