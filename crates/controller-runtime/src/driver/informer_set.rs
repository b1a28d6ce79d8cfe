//! The informers of a controller, and how they feed the loop.

use std::sync::Arc;

use controller_core::app::Informers;
use controller_core::cache::{SourceEvent, Taken, View, Wire};
use controller_core::controller::{Controller, LoopEvent, StoreOf, Watches};
use kube::Resource;
use kube::discovery::ApiResource;
use tokio::sync::{Notify, oneshot, watch};

use super::{Driver, Env};
use crate::informer::{Handler, Informer, InformerMetrics, InformerState, ListWatch, Source, set_back};
use crate::leader::SetBacks;
use crate::tasks::TaskSet;

/// The source of each kind of objects.
pub trait Sources: Send + 'static {
    /// Where the objects that `watched` lists and watches come from.
    fn source<W: Wire>(&self, watched: ListWatch<W>) -> impl Source<View = W::View>;
}

/// The API server is the source of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Watched;

/// The informers that fill the stores of a controller.
pub struct InformerSet<C: Controller, S> {
    env: Env,
    sources: S,
    metrics: InformerMetrics,
    start: Vec<Start<C>>,
}

impl Sources for Watched {
    fn source<W: Wire>(&self, watched: ListWatch<W>) -> impl Source<View = W::View> {
        watched
    }
}

/// Returns what tells that the informer has synced, and what makes it list again.
type Start<C> = Box<dyn FnOnce(&Arc<Driver<C>>, &mut TaskSet) -> Started + Send>;
type Started = (oneshot::Receiver<()>, Arc<Notify>);

/// Applies the events of one informer to its store in the loop.
struct Filling<C: Controller, V: View> {
    /// Its place among the informers.
    place: usize,
    driver: Arc<Driver<C>>,
    of: StoreOf<C, V>,
}

impl<C: Controller, S: Sources> Informers<C> for InformerSet<C, S> {
    /// Must be called within a tokio runtime. `/readyz` waits until the store is filled.
    fn fill_selected<K, W>(&mut self, fields: Option<&'static str>, of: StoreOf<C, W::View>)
    where
        K: Resource<DynamicType = ()> + k8s_openapi::Resource,
        W: Wire,
        C: Watches<W::View>,
    {
        let watched = ListWatch::<W>::new(
            self.env.http.clone(),
            ApiResource::erase::<K>(&()),
            self.env.encoding,
            self.env.clock.clone(),
        );
        let watched = watched.with_fields(fields);
        let source = self.sources.source(watched);
        let resource = K::plural(&());
        let metrics = self.metrics.for_resource(&resource);
        let (env, place) = (self.env.clone(), self.start.len());
        self.start.push(Box::new(move |driver, tasks| {
            let filling = Filling {
                place,
                driver: Arc::clone(driver),
                of,
            };
            let informer = Informer::new(source, env.clock.clone(), metrics, filling);
            let state = informer.state();
            let list_again = informer.lists_again();
            let name = format!("informer-{resource}");
            let (checked, noted) = (state.clone(), state.clone());
            env.readiness
                .check(name.clone(), move || checked.borrow().ready(env.clock.instant()));
            env.readiness.notes(name, move || noted.borrow().notes());
            tasks.spawn("informer", informer.run());
            let driver = Arc::clone(driver);
            let (tell, synced) = oneshot::channel();
            tasks.spawn("watch health", async move {
                tell_health(&driver, K::URL_PATH_SEGMENT, state, tell).await;
            });
            (synced, list_again)
        }));
    }
}

impl<C: Controller, S> InformerSet<C, S> {
    pub(super) fn new(env: &Env, sources: S) -> prometheus::Result<Self> {
        Ok(Self {
            metrics: InformerMetrics::register(&env.registry)?,
            env: env.clone(),
            sources,
            start: Vec::new(),
        })
    }

    /// Starts the informers; completes when their caches are full.
    pub(super) fn start(
        self,
        driver: &Arc<Driver<C>>,
        tasks: &mut TaskSet,
    ) -> impl Future<Output = ()> + use<C, S> {
        let started = self.start.into_iter().map(|start| start(driver, tasks));
        let (synced, list_again): (Vec<_>, Vec<_>) = started.unzip();
        let driver = Arc::clone(driver);
        tasks.spawn("set-backs", async move {
            pass_on(&driver, self.env.leadership.set_backs(), list_again).await;
        });
        async move {
            for synced in synced {
                if synced.await.is_err() {
                    // The informer is gone, and with it the process.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

/// Has the informers list everything again, for ever, when the API server may have been set back.
async fn pass_on<C: Controller>(
    driver: &Driver<C>,
    mut set_backs: watch::Receiver<SetBacks>,
    list_again: Vec<Arc<Notify>>,
) {
    let mut noticed = 0;
    while set_backs.changed().await.is_ok() {
        let times = set_backs.borrow_and_update().noticed;
        if std::mem::replace(&mut noticed, times) != times {
            driver.distrust(0..list_again.len());
            driver.act(|event_loop, now| event_loop.on_event(LoopEvent::SetBack, now));
        }
        for informer in &list_again {
            informer.notify_one();
        }
    }
    // The elector is gone.
    std::future::pending::<()>().await;
}

/// Tells the loop, for ever, when the watch is established or broken, also where it is broken from the start; and once that
/// the informer has synced. The one task that waits for the state: Tokio wakes several in random order.
async fn tell_health<C: Controller>(
    driver: &Driver<C>,
    resource: &'static str,
    mut state: watch::Receiver<InformerState>,
    tell_synced: oneshot::Sender<()>,
) {
    let (mut told, mut tell_synced) = (None, Some(tell_synced));
    loop {
        let (stands, synced) = {
            let state = state.borrow_and_update();
            (state.watching(), state.synced)
        };
        let is_news = (stands || synced) && told.replace(stands) != Some(stands);
        let tell_watching =
            || driver.act(|event_loop, now| event_loop.on_event(LoopEvent::Watching(resource, stands), now));
        // Before the loop begins to write.
        if is_news && !stands {
            tell_watching();
        }
        if let Some(tell) = tell_synced.take_if(|_| synced) {
            // Nobody waits if the process ends.
            let _ = tell.send(());
        }
        if is_news && stands {
            tell_watching();
        }
        if state.changed().await.is_err() {
            // The informer is gone, and with it the process.
            std::future::pending::<()>().await;
        }
    }
}

impl<C: Watches<V>, V: View> Handler<V> for Filling<C, V> {
    fn handle(&self, event: SourceEvent<V>) -> Taken {
        let (mut taken, is_listed) = (Taken::default(), matches!(event, SourceEvent::InitDone { .. }));
        self.driver
            .act(|event_loop, now| taken = event_loop.apply(self.of, event, now));
        if is_listed {
            self.driver.trust(self.place);
        }
        taken
    }

    fn list_again(&self) -> Arc<Notify> {
        set_back(self.driver.event_loop.lock().store_of(self.of))
    }
}
