//! Tells a source's lists: what was written before a list began is in it, or gone (RC-4).

use std::sync::Arc;

use controller_core::informer::{Source, SourceEvent};

/// Is told of lists.
pub trait Lists: Send + Sync + 'static {
    /// A list begins.
    fn list_began(&self);

    /// The list that began last is complete, and the store holds it.
    fn list_finished(&self);
}

/// A source whose lists are told.
#[derive(Debug)]
pub struct Listed<S> {
    source: S,
    told: Arc<dyn Lists>,
    finished: bool,
}

impl std::fmt::Debug for dyn Lists {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lists")
    }
}

impl<S: Source> Listed<S> {
    /// Tells the lists of `source` to `told`.
    pub fn new(source: S, told: &Arc<impl Lists>) -> Self {
        Self {
            source,
            told: Arc::clone(told) as _,
            finished: false,
        }
    }
}

impl<S: Source> Source for Listed<S> {
    type View = S::View;

    async fn next(&mut self) -> SourceEvent<S::View> {
        // The informer asks for the next event once it has dealt with the one before.
        if std::mem::take(&mut self.finished) {
            self.told.list_finished();
        }
        let event = self.source.next().await;
        match event {
            SourceEvent::Init => self.told.list_began(),
            SourceEvent::InitDone { .. } => self.finished = true,
            _ => {}
        }
        event
    }
}
