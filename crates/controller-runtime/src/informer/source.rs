//! What an informer takes its events from, and what it passes them to.

use std::future::Future;
use std::sync::Arc;

use controller_core::cache::{SourceEvent, Store, Taken, View};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::Notify;

/// Lists a resource, then watches it, for ever.
pub trait Source: Send + 'static {
    /// What it decodes each object to.
    type View: View;

    /// The next event. After [`SourceEvent::Failed`] the informer waits before it calls again; the source itself does
    /// not wait. Cancel safe.
    fn next(&mut self) -> impl Future<Output = SourceEvent<Self::View>> + Send;

    /// What it has delivered may never have existed: it lists again, if it can.
    fn list_again(&mut self) {}
}

/// A source of any type.
pub struct BoxSource<V: View> {
    events: BoxStream<'static, SourceEvent<V>>,
    list_again: Arc<Notify>,
}

impl<V: View> BoxSource<V> {
    /// Hides the type of a source.
    pub fn new(source: impl Source<View = V>) -> Self {
        let list_again = Arc::new(Notify::new());
        let told = Arc::clone(&list_again);
        let events = stream::unfold((source, told), |(mut source, told)| async move {
            loop {
                tokio::select! {
                    biased;
                    () = told.notified() => source.list_again(),
                    event = source.next() => return Some((event, (source, told))),
                }
            }
        });
        Self {
            events: events.boxed(),
            list_again,
        }
    }
}

impl<V: View> Source for BoxSource<V> {
    type View = V;

    async fn next(&mut self) -> SourceEvent<V> {
        match self.events.next().await {
            Some(event) => event,
            // Unreachable: the stream has no end.
            None => std::future::pending().await,
        }
    }

    fn list_again(&mut self) {
        self.list_again.notify_one();
    }
}

/// Notified whenever `store` learns that the API server has been set back.
pub fn set_back<V: View>(store: &mut Store<V>) -> Arc<Notify> {
    let list_again = Arc::new(Notify::new());
    let told = Arc::clone(&list_again);
    store.when_set_back(move || told.notify_one());
    list_again
}

/// Has a store, and receives every change of it, in order.
///
/// An object that was deleted and created again under its name is `Deleted`, then `Added`, even if one event showed
/// both. A relist reports deletions first, then the rest, each ordered by key; the store then already holds all of it.
pub trait Handler<V: View>: Send + Sync {
    /// Applies an event to the store and receives what that changes, before anybody reads the store again.
    fn handle(&self, event: SourceEvent<V>) -> Taken;

    /// Notified when the informer must list everything again.
    fn list_again(&self) -> Arc<Notify>;
}
