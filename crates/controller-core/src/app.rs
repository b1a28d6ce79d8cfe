//! A controller as a program: everything that its binary, its chart and its tests need to know.

use std::collections::BTreeMap;

use k8s_openapi::Resource;
use prometheus::Registry;

use crate::about::About;
use crate::cache::Wire;
use crate::config::ControllerConfig;
use crate::controller::{Controller, Now, Pass, StoreOf, Watches};
use crate::meta::ObjectKey;

/// Why a run failed; printed once, with its chain of errors.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A controller that has a binary.
pub trait App: Controller {
    /// The configuration: flags, environment variables and file.
    type Config: ControllerConfig + Clone + Send + Sync + 'static;

    /// Name, help and defaults of the binary.
    const ABOUT: About;

    /// The subcommand `explain`; `None`: no such subcommand.
    const EXPLAIN: Option<Explain<Self>> = None;

    /// The subcommand that reports on many objects; `None`: no such subcommand.
    const REPORT: Option<Report<Self>> = None;

    /// The subcommand `preflight`; `None`: no such subcommand.
    const PREFLIGHT: Option<Preflight<Self>> = None;

    /// What a changed config file changes while the process runs; `None`: nothing.
    const RELOAD: Option<Reload<Self>> = None;

    /// Makes the controller from its configuration and the answers in `pass`. An error is logged, and `start` is called
    /// again with an empty pass.
    fn start(config: &Self::Config, pass: &Pass<Self>, registry: &Registry) -> Started<Self>;

    /// Names each watched kind and the store that it fills.
    fn watch(&self, informers: &mut impl Informers<Self>);
}

/// What a changed config file changes while the process runs.
pub struct Reload<A: App> {
    /// Returns whether the file is read again when it changes.
    pub is_on: fn(&A::Config) -> bool,
    /// What a valid new configuration changes, or why this process cannot take it.
    pub change: fn(&A, &A::Config) -> Result<A::StateChange, String>,
}

/// The controller, or the queries to send first. An error of its metrics ends the process.
pub type Started<C> = Result<Prepared<<C as Controller>::Query, prometheus::Result<C>>, Failure>;

/// A result that may need queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prepared<Q, T = String> {
    /// The queries to send first.
    Queries(Vec<Q>),
    /// The result.
    Ready(T),
}

/// Receives the kinds that a controller watches.
pub trait Informers<C: Controller> {
    /// Fills the store that `of` names with the objects of kind `K`, decoded as `W`.
    fn fill<K, W>(&mut self, of: StoreOf<C, W::View>)
    where
        K: kube_core::Resource<DynamicType = ()> + Resource,
        W: Wire,
        C: Watches<W::View>,
    {
        self.fill_selected::<K, W>(None, of);
    }

    /// [`fill`](Self::fill) with the objects that match a field selector, such as `spec.unschedulable=true`.
    fn fill_selected<K, W>(&mut self, fields: Option<&'static str>, of: StoreOf<C, W::View>)
    where
        K: kube_core::Resource<DynamicType = ()> + Resource,
        W: Wire,
        C: Watches<W::View>;
}

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

/// Objects of another kind that `explain` takes by a flag instead of its argument.
pub struct ExplainOther<A: App> {
    /// Name of the flag.
    pub flag: &'static str,
    /// The value's name in the help, such as `NAMESPACE/POD`.
    pub object: &'static str,
    /// Help for the flag.
    pub help: &'static str,
    /// Makes the explanation.
    pub by: ExplainOne<A>,
}

/// Explains from the query results of a pass.
pub enum Explainer<A: App> {
    /// Explains one object, which must be named.
    One(ExplainOne<A>),
    /// Explains one object, or one of another kind.
    OneOr(ExplainOne<A>, ExplainOther<A>),
    /// Explains all objects, or only the named one.
    All(ExplainAll<A>),
}

/// Explains one object, given by namespace and name.
pub type ExplainOne<A> = fn(&<A as App>::Config, &Pass<A>, Now, &ObjectKey) -> Explanation<A>;
/// Explains all objects, or the one of this name.
pub type ExplainAll<A> = fn(&<A as App>::Config, &Pass<A>, Now, Option<&str>) -> Explanation<A>;

/// The text, or the queries to send first.
pub type Explanation<C> = Result<Prepared<<C as Controller>::Query>, Failure>;

/// A subcommand that only reads, prints a report, and ends with a code.
pub struct Report<A: App> {
    /// Name of the subcommand.
    pub name: &'static str,
    /// What the subcommand prints, for the help.
    pub about: &'static str,
    /// More of the help, such as the exit codes.
    pub help: &'static str,
    /// The binary is this subcommand if it is called by this name: a plugin of kubectl.
    pub plugin: &'static str,
    /// Flags besides those of the connection and the log.
    pub flags: &'static [Flag],
    /// The settings of the controller that change what is printed, by config-file key.
    pub settings: &'static [&'static str],
    /// Makes the report.
    pub by: ReportBy<A>,
}

/// Makes a report, or names the queries to send first.
pub type ReportBy<A> = fn(
    &<A as App>::Config,
    &Pass<A>,
    Now,
    &Flags,
) -> Result<Prepared<<A as Controller>::Query, Printed>, Failure>;

/// A flag of a [`Report`].
pub struct Flag {
    /// Name, without dashes.
    pub name: &'static str,
    /// A letter that is the same flag, as kubectl has it.
    pub short: Option<char>,
    /// What the flag takes.
    pub takes: Takes,
    /// Help for the flag.
    pub help: &'static str,
}

/// What a [`Flag`] takes.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// A text, and may be given several times. Its name in the help.
    Texts(&'static str),
    /// One of these; the first is the default.
    OneOf(&'static [&'static str]),
}

/// The flags as given, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub BTreeMap<&'static str, Vec<String>>);

impl Flags {
    /// The values of a flag; none if the flag is not given.
    pub fn texts(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The last value of a flag.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts(name).last().map(String::as_str)
    }

    /// True if the flag is given.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// What a report prints, and the code of its exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// For stdout, with its line breaks.
    pub text: String,
    /// The exit code.
    pub code: u8,
}

/// The properties of a controller that `preflight` needs.
pub struct Preflight<A: App> {
    /// The loop that the controller replaces. It has the controller's name in `--controllers`.
    pub built_in: BuiltIn,
    /// True if the loop must keep running, because a part of its work is left to it.
    pub shares_work: fn(&A::Config) -> bool,
    /// The rules of the controller's `ClusterRole`, as YAML: the chart's.
    pub rules: &'static str,
    /// The rules needed only with a feature gate or a setting.
    pub rules_of_gates: Option<RulesOfGates<A>>,
}

/// Rules needed only with a feature gate or a setting.
pub struct RulesOfGates<A: App> {
    /// The rules by gate, or by config-file key, as YAML: the chart's.
    pub rules: &'static str,
    /// Returns whether the named gate or setting is on.
    pub is_on: fn(&A::Config, &str) -> bool,
}

/// A loop of kube-controller-manager, by what it leaves behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltIn {
    /// Another name of the loop in `--controllers`. Source: `aliases` of its `ControllerDescriptor`.
    pub alias: Option<&'static str>,
    /// Fields that only this loop of kube-controller-manager writes.
    pub writes: Option<Fields>,
    /// `source.component` of its events, if no other loop of kube-controller-manager uses it.
    pub events: Option<&'static str>,
}

/// Fields of one kind of objects.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// URL path of the collection, in all namespaces.
    pub path: &'static str,
    /// The subresource through which the fields are written; empty for the object itself.
    pub subresource: &'static str,
    /// The path to the fields as `fieldsV1` spells it: `["f:metadata", "f:annotations", "f:example.com/key"]`.
    pub fields: &'static [&'static str],
}
