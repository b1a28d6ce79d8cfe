//! The informers of a controller, and how they feed the loop.

use std::sync::Arc;

use kube::Resource;
use kube::discovery::ApiResource;
use tokio::sync::{Notify, watch};

use super::{Controller, Driver, LoopEvent, StoreOf, Watches};
use crate::informer::{
    Handler, Informer, InformerMetrics, InformerState, ListWatch, Source, SourceEvent, Taken, View, Wire,
};
use crate::runtime::Env;
use crate::tasks::TaskSet;

/// Declares which informers fill the stores of a controller.
pub struct InformerSet<C: Controller> {
    env: Env,
    metrics: InformerMetrics,
    start: Vec<Start<C>>,
}

type Start<C> = Box<dyn FnOnce(&Arc<Driver<C>>, &mut TaskSet) -> watch::Receiver<InformerState> + Send>;

/// Applies the events of one informer to its store in the loop.
struct Filling<C: Controller, V: View> {
    driver: Arc<Driver<C>>,
    of: StoreOf<C, V>,
}

impl<C: Controller> InformerSet<C> {
    pub(super) fn new(env: &Env) -> prometheus::Result<Self> {
        Ok(Self {
            metrics: InformerMetrics::register(&env.registry)?,
            env: env.clone(),
            start: Vec::new(),
        })
    }

    /// Fills the store that `of` names with all objects of `K`, listed and watched; `/readyz` waits for them. Must be
    /// called within a tokio runtime.
    pub fn fill<K, W>(&mut self, of: StoreOf<C, W::View>)
    where
        K: Resource<DynamicType = ()> + k8s_openapi::Resource,
        W: Wire,
        C: Watches<W::View>,
    {
        let source = ListWatch::new(
            self.env.http.clone(),
            ApiResource::erase::<K>(&()),
            self.env.encoding,
            self.env.clock.clone(),
        );
        match self.env.source_of::<W>() {
            None => self.fill_from::<K, _>(source, of),
            Some(over) => self.fill_from::<K, _>(over(source), of),
        }
    }

    fn fill_from<K, S>(&mut self, source: S, of: StoreOf<C, S::View>)
    where
        K: Resource<DynamicType = ()> + k8s_openapi::Resource,
        S: Source,
        C: Watches<S::View>,
    {
        let resource = K::plural(&());
        let metrics = self.metrics.for_resource(&resource);
        let env = self.env.clone();
        self.start.push(Box::new(move |driver, tasks| {
            let filling = Filling {
                driver: Arc::clone(driver),
                of,
            };
            let informer = Informer::new(source, env.clock.clone(), metrics, filling);
            let state = informer.state();
            let name = format!("informer-{resource}");
            let (checked, noted) = (state.clone(), state.clone());
            env.readiness
                .check(name.clone(), move || checked.borrow().ready(env.clock.instant()));
            env.readiness.notes(name, move || noted.borrow().notes());
            tasks.spawn("informer", informer.run());
            let (driver, told) = (Arc::clone(driver), state.clone());
            tasks.spawn("watch health", async move {
                tell_health(&driver, K::URL_PATH_SEGMENT, told).await;
            });
            state
        }));
    }

    /// Starts the informers; completes when their caches are full.
    pub(super) fn start(
        self,
        driver: &Arc<Driver<C>>,
        tasks: &mut TaskSet,
    ) -> impl Future<Output = ()> + use<C> {
        let started = self.start.into_iter().map(|start| start(driver, tasks));
        let states: Vec<_> = started.collect();
        async move {
            for mut state in states {
                if state.wait_for(|state| state.synced).await.is_err() {
                    // The informer is gone, and with it the process.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

/// Tells the loop, for ever, when the watch is established or broken.
async fn tell_health<C: Controller>(
    driver: &Driver<C>,
    resource: &'static str,
    mut state: watch::Receiver<InformerState>,
) {
    let mut told = false;
    loop {
        let stands = {
            let state = state.borrow_and_update();
            state.watching()
        };
        if std::mem::replace(&mut told, stands) != stands {
            driver.act(|event_loop, now| event_loop.on_event(LoopEvent::Watching(resource, stands), now));
        }
        if state.changed().await.is_err() {
            // The informer is gone, and with it the process.
            std::future::pending::<()>().await;
        }
    }
}

impl<C: Watches<V>, V: View> Handler<V> for Filling<C, V> {
    fn handle(&self, event: SourceEvent<V>) -> Taken {
        let mut taken = Taken::default();
        self.driver
            .act(|event_loop, now| taken = event_loop.apply(self.of, event, now));
        taken
    }

    fn list_again(&self) -> Arc<Notify> {
        let mut event_loop = self.driver.event_loop.lock();
        event_loop.store_of(self.of).list_again()
    }
}
