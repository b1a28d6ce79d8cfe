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
    let other = match &explain.by {
        Explainer::OneOr(_, other) => Some(other.flag),
        Explainer::One(_) | Explainer::All(_) => None,
    };
    let one = object
        .clone()
        .value_parser(move |text: &str| Named::parse(text, other));
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

/// An object that the argument names; `is_other` for one of the other kind, given as `pod/NAMESPACE/POD`.
#[derive(Clone)]
struct Named {
    is_other: bool,
    key: ObjectKey,
}

impl Named {
    fn parse(text: &str, other: Option<&str>) -> Result<Self, NotNamespaced> {
        let rest = other.and_then(|other| text.strip_prefix(other)?.strip_prefix('/'));
        // `pod/NAME` is an object called NAME in the namespace `pod`.
        let rest = rest.filter(|rest| rest.contains('/'));
        Ok(Self {
            is_other: rest.is_some(),
            key: ObjectKey::parse_namespaced(rest.unwrap_or(text))?,
        })
    }
}

pub(super) async fn text<A: App>(
    explain: &Explain<A>,
    matches: &ArgMatches,
    config: &A::Config,
    sender: Sender,
) -> Result<String, Failure> {
    let named = || matches.get_one::<Named>(OBJECT);
    let one = async |explain: &ExplainOne<A>, object: Option<&ObjectKey>| {
        let object = object.ok_or(NotNamespaced)?;
        driver::explain(sender.clone(), |pass, now| explain(config, pass, now, object)).await
    };
    match &explain.by {
        Explainer::One(explain) => one(explain, named().map(|named| &named.key)).await,
        Explainer::OneOr(explain, other) => match (matches.get_one(other.flag), named()) {
            (Some(object), _) => one(&other.by, Some(object)).await,
            (None, Some(named)) if named.is_other => one(&other.by, Some(&named.key)).await,
            (None, named) => one(explain, named.map(|named| &named.key)).await,
        },
        Explainer::All(explain) => {
            let only = matches.get_one(OBJECT).map(String::as_str);
            driver::explain(sender, |pass, now| explain(config, pass, now, only)).await
        }
    }
}
