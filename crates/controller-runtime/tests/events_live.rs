//! A real API server accepts the events.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::time::Duration;

use controller_core::events::{Event, EventType, Recorder, reference};
use controller_core::meta::{ObjectKey, Uid};
use controller_runtime::api::limits::Limits;
use controller_runtime::clock::Clock;
use controller_runtime::events::{EventMetrics, Reporter};
use controller_runtime::metrics::encode;
use controller_runtime::tasks::TaskSet;
use controller_runtime::{events, shutdown};
use k8s_openapi::api::events::v1::Event as EventObject;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use local_control_plane::{Leased, Options, eventually};
use prometheus::Registry;

/// No limits.
const LIMITS: Limits = Limits { qps: 0.0, burst: 0 };
const SOON: Duration = Duration::from_secs(30);

fn on(kind: &'static str, key: &ObjectKey, note: &str) -> Event {
    Event {
        regarding: reference("v1", kind, key, &Uid::from("uid-1")),
        related: None,
        type_: EventType::Warning,
        reason: "Contested",
        action: "Patch",
        note: note.to_owned(),
    }
}

#[tokio::test]
#[ignore = "needs a control plane: cargo xtask test"]
async fn a_real_api_server_takes_events_and_their_series() {
    let control_plane = Leased::bare(Options::default()).await.unwrap();
    let registry = Registry::new();
    let reporter = Reporter {
        controller: "ttl-controller".to_owned(),
        instance: "pod-1".to_owned(),
    };
    let metrics = EventMetrics::register(&registry).unwrap();
    let (recorder, sender) = events::channel(reporter, LIMITS, Clock::system(), metrics);
    let (trigger, shutdown) = shutdown::channel();
    let mut tasks = TaskSet::new();
    tasks.spawn("events", sender.run(control_plane.client(), shutdown));

    let node = ObjectKey::cluster("node-1");
    let odd = ObjectKey::namespaced("kube-system", "system:Odd");
    let nowhere = ObjectKey::namespaced("nowhere", "pod");
    recorder.publish(on("Pod", &nowhere, "ignored"));
    recorder.publish(on("Node", &node, "a repeat"));
    recorder.publish(on("Node", &node, "a repeat"));
    recorder.publish(on("Node", &node, &"€".repeat(1000)));
    recorder.publish(on("Role", &odd, "an odd name"));

    let in_default = Api::<EventObject>::namespaced(control_plane.client(), "default");
    let found = async |note: &str| {
        let list = in_default.list(&ListParams::default()).await.ok()?;
        list.into_iter().find(|event| event.note.as_deref() == Some(note))
    };
    let count = |event: &EventObject| event.series.as_ref().map(|series| series.count);
    let in_system = Api::<EventObject>::namespaced(control_plane.client(), "kube-system");
    let odd = eventually(SOON, "the event with the odd name", async || {
        let list = in_system.list(&ListParams::default()).await.ok()?;
        list.into_iter()
            .find(|event| event.note.as_deref() == Some("an odd name"))
    });
    assert!(
        odd.await
            .unwrap()
            .metadata
            .name
            .unwrap()
            .starts_with("ttl-controller.")
    );
    let repeat = found("a repeat").await.unwrap();
    assert_eq!(count(&repeat), Some(2));
    assert_eq!(repeat.reporting_instance.as_deref(), Some("pod-1"));
    let name = repeat.metadata.name.unwrap();
    assert!(name.starts_with("node-1."), "{name}");
    assert!(found(&"€".repeat(341)).await.is_some(), "the note was not cut");

    // A deleted Event object is created again, with the count so far.
    in_default.delete(&name, &DeleteParams::default()).await.unwrap();
    recorder.publish(on("Node", &node, "a repeat"));
    trigger.advance();
    tasks.drain(&Clock::system(), SOON).await.unwrap();
    assert_eq!(count(&found("a repeat").await.unwrap()), Some(3));

    let text = encode(&registry).unwrap();
    assert!(!text.contains("} 1"), "none is dropped: {text}");
}
