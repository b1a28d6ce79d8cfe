//! Requests on the Lease: each bounded in time, each error names its verb.

use std::future::Future;
use std::time::Duration;

use controller_core::api::{AnswerClass, Denial, Verb};
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::PostParams;
use kube::core::Status;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

use super::config::ElectionConfig;
use super::lease::Lease;
use crate::api::classify::classify;
use crate::clock::Clock;

/// Reads and writes the Lease.
#[derive(Clone)]
pub(super) struct Requests {
    leases: Api<Lease>,
    clock: Clock,
    namespace: String,
    name: String,
    limit: Duration,
}

/// Why a request on the Lease failed; `what` is for example `get lease kube-system/ttl-controller`.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// A permission is missing.
    #[error("{what}: no right to {verb} leases.coordination.k8s.io in namespace {namespace}")]
    Forbidden {
        what: String,
        verb: &'static str,
        namespace: String,
        source: Box<Status>,
    },
    /// The Lease has changed since it was read.
    #[error("{what}: it has changed meanwhile")]
    Stale { what: String, source: Box<Status> },
    /// The API server refused the request.
    #[error("{what}")]
    Refused { what: String, source: Box<Status> },
    /// No usable answer.
    #[error("{what}")]
    Failed { what: String, source: Box<kube::Error> },
    /// No answer in time.
    #[error("{what}: no answer within {limit:?}")]
    TimedOut { what: String, limit: Duration },
}

/// The stream of changes to the Lease, retried for ever with backoff.
pub(super) type Events = BoxStream<'static, watcher::Result<watcher::Event<Lease>>>;

impl Requests {
    /// Requests on the Lease that `config` names. Each is answered within half the renew deadline (as Kubernetes'
    /// components set it for client-go), so that one lost answer does not cost the term.
    pub(super) fn new(client: Client, clock: Clock, config: &ElectionConfig) -> Self {
        Self {
            leases: Api::namespaced(client, &config.namespace),
            clock,
            namespace: config.namespace.clone(),
            name: config.name.clone(),
            limit: config.renew_deadline / 2,
        }
    }

    /// Reads the Lease; `None` if there is none.
    pub(super) async fn get(&self) -> Result<Option<Lease>, Error> {
        self.bounded(Verb::Get, self.leases.get_opt(&self.name)).await
    }

    pub(super) async fn create(&self, lease: &Lease) -> Result<Lease, Error> {
        let params = PostParams::default();
        self.bounded(Verb::Create, self.leases.create(&params, lease))
            .await
    }

    /// Replaces the Lease; fails if its resourceVersion is no longer that of `lease`.
    pub(super) async fn update(&self, lease: &Lease) -> Result<Lease, Error> {
        let params = PostParams::default();
        let replace = self.leases.replace(&self.name, &params, lease);
        self.bounded(Verb::Update, replace).await
    }

    /// Watches the Lease; sends nothing before it is polled.
    pub(super) fn watch(&self) -> Events {
        let only_ours = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        watcher(self.leases.clone(), only_ours).default_backoff().boxed()
    }

    /// `namespace/name`.
    pub(super) fn lease(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    async fn bounded<T>(
        &self,
        verb: Verb,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        let what = format!("{} lease {}", verb.as_str(), self.lease());
        let Ok(answer) = self.clock.timeout(self.limit, request).await else {
            return Err(Error::TimedOut {
                what,
                limit: self.limit,
            });
        };
        answer.map_err(|error| {
            let outcome = classify(verb, &error);
            let kube::Error::Api(source) = error else {
                let source = Box::new(error);
                return Error::Failed { what, source };
            };
            match outcome {
                AnswerClass::Forbidden(Denial::MissingPermission) => Error::Forbidden {
                    what,
                    verb: verb.as_str(),
                    namespace: self.namespace.clone(),
                    source,
                },
                AnswerClass::Conflict | AnswerClass::AlreadyExists | AnswerClass::Gone => {
                    Error::Stale { what, source }
                }
                _ => Error::Refused { what, source },
            }
        })
    }
}

impl Error {
    /// True if the Lease must be read again before another write.
    pub(super) const fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }

    /// True if a permission is missing.
    pub(super) const fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden { .. })
    }
}
