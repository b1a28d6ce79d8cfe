//! The subcommand `explain`: prints what a controller would do now, and why.

use clap::{Arg, ArgMatches, Command};

use super::{App, Failure};
use crate::args::Subcommand;
use crate::controller::{self, Controller, Explained, Now, Pass, Sender};
use crate::meta::{NotNamespaced, ObjectKey};

/// Name of the argument.
const OBJECT: &str = "object";

/// The subcommand `explain` of one controller.
pub struct Explain<A: App> {
    /// What the subcommand prints, for the help.
    pub about: &'static str,
    /// The argument's name in the help, such as `NAMESPACE/POD`.
    pub object: &'static str,
    /// Help for the argument.
    pub help: &'static str,
    /// The settings of the controller that change what is printed, by config-file key.
    pub settings: &'static [&'static str],
    /// Makes the explanation.
    pub by: Explainer<A>,
}

/// Explains from the query results of a pass.
pub enum Explainer<A: App> {
    /// Explains one object, which must be named.
    One(ExplainOne<A>),
    /// Explains all objects, or only the named one.
    All(ExplainAll<A>),
}

/// Explains one object, given by namespace and name.
pub type ExplainOne<A> = fn(&<A as App>::Config, &Pass<A>, Now, &ObjectKey) -> Explanation<A>;
/// Explains all objects, or the one of this name.
pub type ExplainAll<A> = fn(&<A as App>::Config, &Pass<A>, Now, Option<&str>) -> Explanation<A>;

/// The text, or the queries to send first.
pub type Explanation<C> = Result<Explained<<C as Controller>::Query>, Failure>;

impl<A: App> Explain<A> {
    pub(super) fn subcommand(&self) -> Subcommand {
        let object = Arg::new(OBJECT).value_name(self.object).help(self.help);
        let object = match self.by {
            Explainer::One(_) => object.required(true).value_parser(ObjectKey::parse_namespaced),
            Explainer::All(_) => object,
        };
        Subcommand {
            command: Command::new("explain").about(self.about).arg(object),
            settings: self.settings,
        }
    }

    pub(super) async fn text(
        &self,
        matches: &ArgMatches,
        config: &A::Config,
        sender: Sender,
    ) -> Result<String, Failure> {
        match self.by {
            Explainer::One(explain) => {
                let object = matches.get_one(OBJECT).ok_or(NotNamespaced)?;
                controller::explain(sender, |pass, now| explain(config, pass, now, object)).await
            }
            Explainer::All(explain) => {
                let only = matches.get_one(OBJECT).map(String::as_str);
                controller::explain(sender, |pass, now| explain(config, pass, now, only)).await
            }
        }
    }
}
