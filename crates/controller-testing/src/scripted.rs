//! An informer's source that a test scripts.

use controller_core::cache::{ErrorKind, Removed, SourceError, SourceEvent, Versioned, View};
use controller_core::meta::Uid;
use controller_runtime::informer::Source;
use tokio::sync::mpsc;

/// The test's end: the informer sees the events in the order in which they are sent.
///
/// Every method is a no-op once the informer is gone.
#[derive(Clone, Debug)]
pub struct Script<V>(mpsc::UnboundedSender<SourceEvent<V>>);

/// The informer's end; silent once the script is over.
#[derive(Debug)]
pub struct ScriptedSource<V>(mpsc::UnboundedReceiver<SourceEvent<V>>);

/// A script and the source that plays it.
pub fn scripted<V: View>() -> (Script<V>, ScriptedSource<V>) {
    let (script, source) = mpsc::unbounded_channel();
    (Script(script), ScriptedSource(source))
}

impl<V: View> Script<V> {
    pub fn send(&self, event: SourceEvent<V>) {
        // A test may drop its informer while it still scripts.
        let _ = self.0.send(event);
    }

    /// Sends a full list of `items`, each with its uid.
    pub fn list<'a>(&self, items: impl IntoIterator<Item = (V, &'a str)>) {
        self.send(SourceEvent::Init);
        for (view, uid) in items {
            self.send(SourceEvent::InitItem(observed(view, uid)));
        }
        self.send(SourceEvent::InitDone { version: None });
    }

    /// Sends an object that was added or modified.
    pub fn applied(&self, view: V, uid: &str) {
        self.send(SourceEvent::Applied(observed(view, uid)));
    }

    /// Sends an object that was deleted, with its last state.
    pub fn deleted(&self, view: V, uid: &str) {
        self.send(SourceEvent::Deleted(Removed {
            key: view.key().clone(),
            uid: Uid::from(uid),
            view: Some(view),
            version: None,
        }));
    }

    /// Sends a failure without `Retry-After`.
    pub fn failed(&self, kind: ErrorKind, message: &str) {
        self.send(SourceEvent::Failed(SourceError {
            kind,
            retry_after: None,
            message: message.to_owned(),
        }));
    }
}

impl<V: View> Source for ScriptedSource<V> {
    type View = V;

    async fn next(&mut self) -> SourceEvent<V> {
        match self.0.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

fn observed<V>(view: V, uid: &str) -> Versioned<V> {
    Versioned {
        view,
        uid: Uid::from(uid),
        version: None,
    }
}
