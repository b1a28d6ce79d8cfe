//! What every controller's `run` is put together from, with its metrics, known to readiness and liveness.

use std::sync::Arc;

use kube::Resource;
use kube::discovery::ApiResource;

use super::Env;
use crate::informer::{Informer, InformerMetrics, Interner, Source, WatcherSource, Wire};
use crate::workqueue::QueueMetrics;

/// Makes informers that share their metrics and the strings of their views.
pub struct Informers<'a> {
    env: &'a Env,
    metrics: InformerMetrics,
    interner: Arc<Interner>,
}

impl Env {
    /// The metrics of the queue of this name, or of several that share it; `/livez` watches what takes too long in
    /// them. An error if there are such metrics already.
    pub fn queue_metrics(&self, name: &'static str) -> prometheus::Result<QueueMetrics> {
        let metrics = QueueMetrics::register(&self.registry, self.clock.clone(), name)?;
        let watched = metrics.clone();
        self.liveness.queue(name, move || watched.longest_running());
        Ok(metrics)
    }

    /// What makes the informers; an error if it was asked for before.
    pub fn informers(&self) -> prometheus::Result<Informers<'_>> {
        Ok(Informers {
            env: self,
            metrics: InformerMetrics::register(&self.registry)?,
            interner: Interner::new(),
        })
    }
}

impl Informers<'_> {
    /// Where the views' strings are.
    pub fn interner(&self) -> &Arc<Interner> {
        &self.interner
    }

    /// All objects of `K`, listed and watched. Must be called within a tokio runtime.
    pub fn source<K: Resource<DynamicType = ()>, W: Wire>(&self) -> WatcherSource<W> {
        WatcherSource::new(
            self.env.client.clone(),
            ApiResource::erase::<K>(&()),
            Arc::clone(&self.interner),
            self.env.clock.clone(),
        )
    }

    /// An informer of `K` over `source`; `/readyz` waits for it.
    pub fn over<K: Resource<DynamicType = ()>, S: Source>(&self, source: S) -> Informer<S> {
        let resource = K::plural(&());
        let metrics = self.metrics.for_resource(&resource);
        let informer = Informer::new(source, self.env.clock.clone(), metrics);
        let state = informer.state();
        self.env
            .readiness
            .check(format!("informer-{resource}"), move || state.borrow().ready());
        informer
    }
}
