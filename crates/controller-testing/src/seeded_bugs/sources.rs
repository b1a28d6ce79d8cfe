//! Bugs between an informer and its source.

use std::collections::BTreeMap;

use controller_core::cache::{SourceEvent, Versioned, View, Wire};
use controller_core::meta::ObjectKey;
use controller_runtime::informer::{BoxSource, Source};

use super::Surroundings;

/// Failures in a row until a [`Tired`] source gives up.
const PATIENCE: usize = 100;

/// Changes the events of a source.
pub type Retell<V> = Box<dyn FnMut(&mut SourceEvent<V>) + Send>;

/// A source whose relists remove nothing: objects that a list no longer names are kept.
struct Hoarding<S: Source> {
    source: S,
    known: BTreeMap<ObjectKey, Versioned<S::View>>,
    /// Objects that the list in progress has not named yet.
    unnamed: Option<BTreeMap<ObjectKey, Versioned<S::View>>>,
    /// The end of the list, held back until every object is named.
    end: Option<SourceEvent<S::View>>,
}

/// Adds a relist of one kind to the known objects instead of replacing them: objects deleted in the meantime stay.
pub fn hoarding<W: Wire>(env: Surroundings) -> Surroundings
where
    Versioned<W::View>: Clone,
{
    env.over_source::<W>(|source| BoxSource::new(Hoarding::new(source)))
}

/// Passes the events of one kind's informer through `retell`, made anew for each of its sources.
pub fn retold<W: Wire>(
    env: Surroundings,
    retell: impl Fn() -> Retell<W::View> + Send + Sync + 'static,
) -> Surroundings {
    env.over_source::<W>(move |source| {
        let retell = retell();
        BoxSource::new(Retold { source, retell })
    })
}

/// Does not list one kind again when the API server was set back.
pub fn never_lists_again<W: Wire>(env: Surroundings) -> Surroundings {
    env.over_source::<W>(|source| BoxSource::new(Stubborn(source)))
}

/// A source that lists no more than it must.
struct Stubborn<S>(S);

impl<S: Source> Source for Stubborn<S> {
    type View = S::View;

    async fn next(&mut self) -> SourceEvent<S::View> {
        self.0.next().await
    }
}

/// Gives one kind up for good once its lists and watches have failed 100 times in a row, which takes minutes.
pub fn tires<W: Wire>(env: Surroundings) -> Surroundings {
    env.over_source::<W>(|source| BoxSource::new(Tired { source, failures: 0 }))
}

struct Tired<S> {
    source: S,
    /// In a row.
    failures: usize,
}

impl<S: Source> Source for Tired<S> {
    type View = S::View;

    async fn next(&mut self) -> SourceEvent<S::View> {
        if self.failures == PATIENCE {
            return std::future::pending().await;
        }
        let event = self.source.next().await;
        let has_failed = matches!(event, SourceEvent::Failed(_));
        self.failures = if has_failed { self.failures + 1 } else { 0 };
        event
    }

    fn list_again(&mut self) {
        self.source.list_again();
    }
}

struct Retold<S: Source> {
    source: S,
    retell: Retell<S::View>,
}

impl<S: Source> Source for Retold<S> {
    type View = S::View;

    async fn next(&mut self) -> SourceEvent<S::View> {
        let mut event = self.source.next().await;
        (self.retell)(&mut event);
        event
    }

    fn list_again(&mut self) {
        self.source.list_again();
    }
}

impl<S: Source> Hoarding<S> {
    fn new(source: S) -> Self {
        Self {
            source,
            known: BTreeMap::new(),
            unnamed: None,
            end: None,
        }
    }
}

impl<S: Source> Source for Hoarding<S>
where
    Versioned<S::View>: Clone,
{
    type View = S::View;

    async fn next(&mut self) -> SourceEvent<S::View> {
        while self.end.is_none() {
            let event = self.source.next().await;
            match &event {
                SourceEvent::Init => self.unnamed = Some(self.known.clone()),
                SourceEvent::InitItem(object) | SourceEvent::Applied(object) => {
                    let key = object.view.key();
                    if let Some(unnamed) = &mut self.unnamed {
                        unnamed.remove(key);
                    }
                    self.known.insert(key.clone(), object.clone());
                }
                // The list names an object on which no rule may act.
                SourceEvent::Deleted(_) if self.unnamed.is_some() => continue,
                SourceEvent::Deleted(object) => {
                    self.known.remove(&object.key);
                }
                SourceEvent::InitDone { .. } => {
                    self.end = Some(event);
                    continue;
                }
                _ => {}
            }
            return event;
        }
        if let Some((_, object)) = self.unnamed.as_mut().and_then(BTreeMap::pop_first) {
            return SourceEvent::InitItem(object);
        }
        self.unnamed = None;
        self.end.take().unwrap()
    }

    fn list_again(&mut self) {
        self.source.list_again();
    }
}
