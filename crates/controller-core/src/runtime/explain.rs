//! The subcommand `explain`: what a controller would do now, and why.

use clap::{Arg, ArgMatches, Command};

use super::{App, Failure};
use crate::args::Subcommand;
use crate::controller::{self, Controller, Explained, Now, Pass, Sender};
use crate::meta::{NotNamespaced, ObjectKey};

/// The argument's name.
const OBJECT: &str = "object";

/// The subcommand `explain` of one controller.
pub struct Explain<A: App> {
    /// What it prints.
    pub about: &'static str,
    /// What the help calls its argument, such as `NAMESPACE/POD`.
    pub object: &'static str,
    /// What that is.
    pub help: &'static str,
    /// The settings of the controller that change what is printed, by config-file key.
    pub settings: &'static [&'static str],
    /// Who explains.
    pub by: Explainer<A>,
}

/// Explains from the answers in the pass.
pub enum Explainer<A: App> {
    /// One object, which must be named.
    One(ExplainOne<A>),
    /// All objects, or only the one of this name.
    All(ExplainAll<A>),
}

/// Explains one object, by its namespace and name.
pub type ExplainOne<A> = fn(&<A as App>::Config, &Pass<A>, Now, &ObjectKey) -> Explanation<A>;
/// Explains all objects, or the one of this name.
pub type ExplainAll<A> = fn(&<A as App>::Config, &Pass<A>, Now, Option<&str>) -> Explanation<A>;

/// What is to be asked first, or the text.
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
