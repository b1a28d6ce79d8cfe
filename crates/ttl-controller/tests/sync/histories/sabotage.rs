//! Bugs put in on purpose: the histories must find them, and shrink them to what matters.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::informer::{Observed, Source, SourceEvent, WatcherSource};
use controller_core::leader::{Leadership, Term};
use controller_core::meta::ObjectKey;
use controller_core::runtime::App;
use controller_core::workers::{Next, Reconciler};
use futures::FutureExt;
use testkit::history::{Failure, first_failure};
use ttl_controller::controller::Controller;
use ttl_controller::error::Error;
use ttl_controller::view::{NodeView, NodeWire};
use ttl_controller::{Parts, TtlController, nodes};

use super::suite::Nodes;

/// Within so many seeds each bug must show.
const SEEDS: u64 = 200;

/// Once leader, always leader: writes go on, on what this replica believes, after the lease was lost.
const DEAF_TO_A_LOST_LEASE: Nodes = Nodes {
    run: |config, mut env| {
        async move {
            env.leadership.lead().await;
            env.leadership = Leadership::always();
            TtlController::run(config, env).await
        }
        .boxed()
    },
};

/// A relist is added to what is known, instead of taking its place: what was deleted meanwhile stays.
const KEEPS_WHAT_A_RELIST_LACKS: Nodes = Nodes {
    run: |config, env| {
        async move {
            let parts = Parts::assemble(&config, &env, Hoarding::new(nodes(&env)))?;
            let controller = Arc::clone(&parts.controller);
            parts.run(&*controller, &env).await
        }
        .boxed()
    },
};

/// A sync that fails is not tried again.
const FORGETS_TO_RETRY: Nodes = Nodes {
    run: |config, env| {
        async move {
            let parts = Parts::assemble(&config, &env, nodes(&env))?;
            let careless = Careless(Arc::clone(&parts.controller));
            parts.run(&careless, &env).await
        }
        .boxed()
    },
};

#[test]
fn a_write_on_stale_state_after_a_lost_lease_is_found() {
    let failure = found(&DEAF_TO_A_LOST_LEASE);
    assert!(
        failure.what.contains("writes while the lease is held by"),
        "{failure}"
    );
}

#[test]
fn a_missed_delete_after_a_relist_is_found() {
    let failure = found(&KEEPS_WHAT_A_RELIST_LACKS);
    assert!(failure.what.contains("after the last fault node-"), "{failure}");
}

#[test]
fn a_forgotten_retry_is_found() {
    let failure = found(&FORGETS_TO_RETRY);
    assert!(failure.what.contains("after the last fault node-"), "{failure}");
}

/// The failure that the seeds find, shrunk to three troubles at most.
fn found(bug: &Nodes) -> Failure {
    let failure = first_failure(bug, 0..SEEDS).expect("the bug shows");
    assert!((1..=3).contains(&failure.troubles.len()), "{failure}");
    failure
}

/// A source whose relists leave nothing out.
struct Hoarding {
    source: WatcherSource<NodeWire>,
    known: BTreeMap<ObjectKey, Observed<NodeView>>,
    /// While a list is under way, what it has not named yet.
    unnamed: BTreeMap<ObjectKey, Observed<NodeView>>,
    /// The end of the list, held back until everything is named.
    end: Option<SourceEvent<NodeView>>,
}

impl Hoarding {
    fn new(source: WatcherSource<NodeWire>) -> Self {
        Self {
            source,
            known: BTreeMap::new(),
            unnamed: BTreeMap::new(),
            end: None,
        }
    }
}

impl Source for Hoarding {
    type View = NodeView;

    async fn next(&mut self) -> SourceEvent<NodeView> {
        if self.end.is_none() {
            let event = self.source.next().await;
            match &event {
                SourceEvent::Init => self.unnamed = self.known.clone(),
                SourceEvent::InitItem(node) | SourceEvent::Applied(node) => {
                    self.unnamed.remove(&node.view.key);
                    self.known.insert(node.view.key.clone(), node.clone());
                }
                SourceEvent::Deleted(node) => {
                    self.known.remove(&node.key);
                }
                _ => {}
            }
            if !matches!(event, SourceEvent::InitDone { .. }) {
                return event;
            }
            self.end = Some(event);
        }
        match self.unnamed.pop_first() {
            Some((_, node)) => SourceEvent::InitItem(node),
            None => self.end.take().expect("a list that ended"),
        }
    }
}

/// Calls the controller and takes every failure for a success.
struct Careless(Arc<Controller>);

impl Reconciler for Careless {
    type Key = ObjectKey;
    type Error = Error;

    fn begin(&self) {
        self.0.begin();
    }

    fn end(&self) {
        self.0.end();
    }

    async fn sync(&self, key: &ObjectKey, term: &Term) -> Result<Next, Error> {
        Ok(self.0.sync(key, term).await.unwrap_or(Next::Settled))
    }
}
