//! A controller as a program: everything that its binary, its chart and its tests need to know.

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

    /// The subcommand `preflight`; `None`: no such subcommand.
    const PREFLIGHT: Option<Preflight<Self>> = None;

    /// Makes the controller from its configuration and the answers in `pass`. An error is logged, and `start` is called
    /// again with an empty pass.
    fn start(config: &Self::Config, pass: &Pass<Self>, registry: &Registry) -> Started<Self>;

    /// Names each watched kind and the store that it fills.
    fn watch(&self, informers: &mut impl Informers<Self>);
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
pub type Explanation<C> = Result<Prepared<<C as Controller>::Query>, Failure>;

/// The properties of a controller that `preflight` needs.
pub struct Preflight<A: App> {
    /// The loop that the controller replaces. It has the controller's name in `--controllers`.
    pub built_in: BuiltIn,
    /// The rules of the controller's `ClusterRole`, as YAML: the chart's.
    pub rules: &'static str,
    /// The rules needed only with a feature gate.
    pub rules_of_gates: Option<RulesOfGates<A>>,
}

/// Rules needed only with a feature gate.
pub struct RulesOfGates<A: App> {
    /// The rules by gate, as YAML: the chart's.
    pub rules: &'static str,
    /// Returns whether the named gate is on.
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
