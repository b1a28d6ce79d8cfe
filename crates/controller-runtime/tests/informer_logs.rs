//! What an informer logs, and how often.
//!
//! A separate binary: tracing caches for each callsite whether a subscriber is interested, so tests with and without a
//! subscriber cannot run in one process.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests fail by panicking")]

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use controller_core::cache::{DecodeError, ErrorKind, Skipped, SourceEvent, Store, Taken, View};
use controller_core::meta::ObjectKey;
use controller_runtime::clock::Clock;
use controller_runtime::informer::{Handler, Informer, InformerMetrics, set_back};
use controller_runtime::tasks::TaskSet;
use controller_testing::scripted::{Script, scripted};
use parking_lot::Mutex;
use prometheus::Registry;
use tokio::sync::Notify;
use tracing::subscriber::DefaultGuard;

/// A handler that only fills a store.
#[derive(Default)]
struct Filled(Mutex<Store<Thing>>);

impl Handler<Thing> for Filled {
    fn handle(&self, event: SourceEvent<Thing>) -> Taken {
        let changes = self.0.lock().apply(event).deltas.len();
        Taken { changes, objects: 0 }
    }

    fn list_again(&self) -> Arc<Notify> {
        set_back(&mut self.0.lock())
    }
}

#[derive(PartialEq)]
struct Thing(ObjectKey, u8);

impl View for Thing {
    type Index = Infallible;

    fn key(&self) -> &ObjectKey {
        &self.0
    }

    fn index(&self, _: &mut Vec<Infallible>) {}
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn count(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock()).matches(text).count()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Listening {
    log: Log,
    script: Script<Thing>,
    clock: Clock,
    _tasks: TaskSet,
    _guard: DefaultGuard,
}

/// An informer, and its log at `info`.
fn listen() -> Listening {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::INFO)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let metrics = InformerMetrics::register(&Registry::new()).unwrap();
    let (script, source) = scripted();
    let mut tasks = TaskSet::new();
    let informer = Informer::new(
        source,
        clock.clone(),
        metrics.for_resource("things"),
        Filled::default(),
    );
    tasks.spawn("informer-things", informer.run());
    Listening {
        log,
        script,
        clock,
        _tasks: tasks,
        _guard: guard,
    }
}

impl Listening {
    async fn settle(&self) {
        self.clock.sleep(Duration::from_millis(1)).await;
    }

    fn undecodable(&self, key: ObjectKey) {
        self.script.send(SourceEvent::Skipped(Skipped {
            key: Some(key),
            uid: None,
            version: Some("7".into()),
            error: DecodeError::Unrepresentable("spec.value is 13".to_owned()),
        }));
    }
}

fn thing(name: &str, value: u8) -> Thing {
    Thing(ObjectKey::cluster(name), value)
}

/// A tenant writes these objects, and each list reports all of them again.
#[tokio::test(start_paused = true)]
async fn a_thousand_undecodable_objects_are_one_line_of_their_namespace_in_ten_minutes() {
    let listening = listen();
    let list = || {
        listening.script.send(SourceEvent::Init);
        for number in 0..1_000 {
            listening.undecodable(ObjectKey::namespaced("tenant", format!("bad-{number}")));
        }
        listening.undecodable(ObjectKey::namespaced("other", "bad"));
        listening.undecodable(ObjectKey::cluster("bad"));
        listening.script.send(SourceEvent::InitDone { version: None });
    };
    list();
    listening.settle().await;
    let line = |key: &str| {
        format!(
            "object skipped: it cannot be decoded resource=\"things\" key={key} version=\"7\" error=spec.value is 13"
        )
    };
    for key in ["tenant/bad-0", "other/bad", "bad"] {
        assert_eq!(listening.log.count(&line(key)), 1, "{key}");
    }
    assert_eq!(listening.log.count("object skipped"), 3);
    list();
    listening.settle().await;
    assert_eq!(listening.log.count("object skipped"), 3, "a list soon after");
    listening.clock.sleep(Duration::from_mins(10)).await;
    list();
    listening.settle().await;
    assert_eq!(listening.log.count("object skipped"), 6);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_repeats_is_logged_once_and_so_is_its_end() {
    let listening = listen();
    for _ in 0..10 {
        listening.script.failed(ErrorKind::Other, "connection refused");
    }
    listening.script.send(SourceEvent::Healthy);
    listening.script.send(SourceEvent::Healthy);
    listening.clock.sleep(Duration::from_mins(10)).await;
    assert_eq!(listening.log.count("list or watch failed"), 1);
    assert_eq!(listening.log.count("connection refused"), 1);
    assert_eq!(listening.log.count("watch is healthy again"), 1);
}

#[tokio::test(start_paused = true)]
async fn changes_are_not_logged_at_info() {
    let listening = listen();
    listening.script.list([(thing("a", 1), "A")]);
    listening.script.applied(thing("a", 2), "A");
    listening.script.deleted(thing("a", 2), "A");
    listening.settle().await;
    assert_eq!(listening.log.count("\n"), 0);
    listening.script.failed(ErrorKind::Other, "the log is open");
    listening.settle().await;
    assert_eq!(listening.log.count("the log is open"), 1);
}
