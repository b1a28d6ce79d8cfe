//! Which informers tell the loop.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use kube::Resource;
use kube::discovery::ApiResource;
use tokio::sync::watch;

use super::{Controller, Driver, Observed, Watches};
use crate::informer::{
    Applied, Handler, Informer, InformerMetrics, InformerState, ListWatch, Source, Store, View, Wire,
};
use crate::runtime::Env;
use crate::tasks::TaskSet;

/// Makes the informers of a controller.
pub struct Watching<C: Controller> {
    env: Env,
    metrics: InformerMetrics,
    start: Vec<Start<C>>,
    synced: Vec<BoxFuture<'static, ()>>,
}

type Start<C> = Box<dyn FnOnce(&Arc<Driver<C>>, &mut TaskSet) + Send>;

impl<C: Controller> Watching<C> {
    pub(super) fn new(env: &Env) -> prometheus::Result<Self> {
        Ok(Self {
            metrics: InformerMetrics::register(&env.registry)?,
            env: env.clone(),
            start: Vec::new(),
            synced: Vec::new(),
        })
    }

    /// All objects of `K`, listed and watched; `/readyz` waits for them. Must be called within a tokio runtime.
    pub fn of<K, W>(&mut self) -> Store<W::View>
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
            None => self.over::<K, _>(source),
            Some(over) => self.over::<K, _>(over(source)),
        }
    }

    fn over<K, S>(&mut self, source: S) -> Store<S::View>
    where
        K: Resource<DynamicType = ()> + k8s_openapi::Resource,
        S: Source,
        C: Watches<S::View>,
    {
        let resource = K::plural(&());
        let metrics = self.metrics.for_resource(&resource);
        let informer = Informer::new(source, self.env.clock.clone(), metrics);
        let name = format!("informer-{resource}");
        let state = informer.state();
        let noted = state.clone();
        let readiness = &self.env.readiness;
        let clock = self.env.clock.clone();
        readiness.check(name.clone(), move || state.borrow().ready(clock.instant()));
        readiness.notes(name, move || noted.borrow().notes());
        let store = informer.store();
        let synced = store.clone();
        self.synced.push(async move { synced.synced().await }.boxed());
        self.start.push(Box::new(move |driver, tasks| {
            start::<K, _, C>(informer, driver, tasks);
        }));
        store
    }

    /// Starts the informers; completes when their caches are full.
    pub(super) fn start(
        self,
        driver: &Arc<Driver<C>>,
        tasks: &mut TaskSet,
    ) -> impl Future<Output = ()> + use<C> {
        for start in self.start {
            start(driver, tasks);
        }
        let mut synced = stream::iter(self.synced);
        async move {
            while let Some(synced) = synced.next().await {
                synced.await;
            }
        }
    }
}

fn start<K, S, C>(informer: Informer<S>, driver: &Arc<Driver<C>>, tasks: &mut TaskSet)
where
    K: k8s_openapi::Resource,
    S: Source,
    C: Watches<S::View>,
{
    let state = informer.state();
    tasks.spawn("informer", informer.handler(Arc::clone(driver)).run());
    let driver = Arc::clone(driver);
    tasks.spawn("watch health", async move {
        tell_health(&driver, K::URL_PATH_SEGMENT, state).await;
    });
}

/// Tells the loop, for ever, whether the watch stands.
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
            driver.act(|event_loop, now| event_loop.observe(Observed::Watching(resource, stands), now));
        }
        if state.changed().await.is_err() {
            // The informer is gone, and with it the process.
            std::future::pending::<()>().await;
        }
    }
}

/// The store takes an event, and the loop hears of it, under the lock of the loop: whoever looks sees both or neither.
impl<C: Watches<V>, V: View> Handler<V> for Arc<Driver<C>> {
    fn handle(&self, _: &Store<V>, apply: &mut dyn FnMut() -> Applied<V>) {
        self.act(|event_loop, now| event_loop.applied(&apply(), now));
    }
}
