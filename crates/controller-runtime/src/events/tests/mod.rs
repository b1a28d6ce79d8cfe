mod sending;
mod spam;

use std::convert::Infallible;
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use controller_core::events::{EventType, reference};
use controller_core::meta::{ObjectKey, Uid};

use super::*;
use crate::shutdown::{self, Trigger};
use crate::tasks::TaskSet;

/// Ten events a second, a hundred at once.
const LIMITS: Limits = Limits {
    qps: 10.0,
    burst: 100,
};

/// A request as the API server saw it.
#[derive(Clone, Debug)]
struct Seen {
    /// Milliseconds since the start.
    at: u128,
    method: Method,
    path: String,
    body: Value,
}

type Answer = Box<dyn Fn(&Seen) -> (u16, Value) + Send + Sync>;

/// A recorder, its sender, and an API server that records requests and answers as the test says.
struct Bench {
    recorder: EventRecorder,
    clock: Clock,
    start: Instant,
    seen: Arc<Mutex<Vec<Seen>>>,
    answer: Arc<Mutex<Answer>>,
    dropped: EventMetrics,
    trigger: Trigger,
    tasks: TaskSet,
}

impl Bench {
    fn new() -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let start = clock.instant();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Box::new(accept)));
        let metrics = EventMetrics::register(&Registry::new()).unwrap();
        let reporter = Reporter {
            controller: "ttl-controller".to_owned(),
            instance: "pod-1".to_owned(),
        };
        let (recorder, sender) = channel(reporter, LIMITS, clock.clone(), metrics.clone());
        let client = api_server(clock.clone(), Arc::clone(&seen), Arc::clone(&answer));
        let (trigger, shutdown) = shutdown::channel();
        let mut tasks = TaskSet::new();
        tasks.spawn("events", sender.run(client, shutdown));
        Self {
            recorder,
            clock,
            start,
            seen,
            answer,
            dropped: metrics,
            trigger,
            tasks,
        }
    }

    fn answers(&self, answer: impl Fn(&Seen) -> (u16, Value) + Send + Sync + 'static) {
        *self.answer.lock() = Box::new(answer);
    }

    /// Advances time by `seconds`; returns the requests in that time.
    async fn after(&self, seconds: u64) -> Vec<Seen> {
        self.clock.sleep(Duration::from_secs(seconds)).await;
        std::mem::take(&mut *self.seen.lock())
    }

    /// [`after`](Self::after) as text: `POST` or `PATCH`, and the count of the series.
    async fn counts_after(&self, seconds: u64) -> Vec<String> {
        let seen = self.after(seconds).await;
        seen.iter()
            .map(|seen| format!("{} {}", seen.method, seen.body["series"]["count"]))
            .collect()
    }

    /// Number of dropped events, for any reason.
    fn dropped(&self) -> u64 {
        let reasons = Dropped::ALL.map(|reason| self.dropped.dropped.with_label_values(&[reason.as_str()]));
        reasons.iter().map(prometheus::IntCounter::get).sum()
    }

    async fn stop(&mut self) {
        self.trigger.advance();
        self.tasks
            .drain(&self.clock, Duration::from_secs(10))
            .await
            .unwrap();
    }
}

fn api_server(clock: Clock, seen: Arc<Mutex<Vec<Seen>>>, answer: Arc<Mutex<Answer>>) -> Client {
    let start = clock.instant();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (clock, seen, answer) = (clock.clone(), Arc::clone(&seen), Arc::clone(&answer));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let request = Seen {
                at: clock.instant().duration_since(start).as_millis(),
                method: head.method,
                path: head.uri.path().to_owned(),
                body: serde_json::from_slice(&body).unwrap(),
            };
            let (code, reply) = answer.lock()(&request);
            seen.lock().push(request);
            let body = Full::from(reply.to_string());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

fn accept(seen: &Seen) -> (u16, Value) {
    let name = seen.path.rsplit('/').next().unwrap();
    (200, json!({"metadata": {"name": name}}))
}

fn status(code: u16, reason: &str, cause: &str) -> (u16, Value) {
    let details = json!({"causes": [{"reason": cause}]});
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": reason, "details": details}),
    )
}

fn on_job(note: &str) -> Event {
    let key = ObjectKey::namespaced("batch", "job-1");
    Event {
        regarding: reference("batch/v1", "Job", &key, &Uid::from("uid-1")),
        related: None,
        type_: EventType::Normal,
        reason: "TTLExpired",
        action: "Delete",
        note: note.to_owned(),
    }
}

/// An event for an object with no other event.
fn on_job_number(number: usize) -> Event {
    let mut event = on_job("note");
    event.regarding.key.name = format!("job-{number}").into();
    event
}

#[tokio::test(start_paused = true)]
async fn an_event_is_created_with_all_that_kubernetes_asks_for() {
    let bench = Bench::new();
    bench.recorder.publish(on_job("gone"));
    let seen = bench.after(1).await;
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].method, Method::POST);
    assert_eq!(seen[0].path, "/apis/events.k8s.io/v1/namespaces/batch/events");
    assert_eq!(
        seen[0].body,
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": "job-1.18867251edfa0000", "namespace": "batch"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "ttl-controller",
            "reportingInstance": "pod-1",
            "action": "Delete",
            "reason": "TTLExpired",
            "regarding": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "batch", "name": "job-1",
                "uid": "uid-1"},
            "note": "gone",
            "type": "Normal",
        })
    );
}

#[tokio::test(start_paused = true)]
async fn the_event_of_a_cluster_scoped_object_lives_in_default() {
    let bench = Bench::new();
    let mut event = on_job("note");
    event.regarding = reference("v1", "Node", &ObjectKey::cluster("node-1"), &Uid::from("uid-2"));
    bench.recorder.publish(event);
    let seen = bench.after(1).await;
    assert_eq!(seen[0].path, "/apis/events.k8s.io/v1/namespaces/default/events");
    assert_eq!(seen[0].body["metadata"]["namespace"], "default");
    assert_eq!(
        seen[0].body["regarding"],
        json!({"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "uid-2"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_written_at_once_and_further_ones_together_once_a_minute() {
    let bench = Bench::new();
    bench.recorder.publish(on_job("note"));
    assert_eq!(bench.counts_after(1).await, ["POST null"]);
    bench.recorder.publish(on_job("note"));
    let seen = bench.after(1).await;
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].method, Method::PATCH);
    assert_eq!(
        seen[0].path,
        "/apis/events.k8s.io/v1/namespaces/batch/events/job-1.18867251edfa0000"
    );
    assert_eq!(
        seen[0].body,
        json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}})
    );
    for _ in 0..30 {
        bench.recorder.publish(on_job("note"));
        assert_eq!(bench.counts_after(1).await, [""; 0]);
    }
    assert_eq!(bench.counts_after(30).await, ["PATCH 32"]);
    assert_eq!(bench.counts_after(3600).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_differs_in_anything_is_another_event() {
    let bench = Bench::new();
    let mut others = vec![on_job("note"), on_job("another note")];
    for change in [
        (|event| event.reason = "Other") as fn(&mut Event),
        |event| event.action = "Other",
        |event| event.type_ = EventType::Warning,
        |event| event.regarding.uid = Uid::from("uid-2"),
        |event| event.related = Some(Box::new(event.regarding.clone())),
    ] {
        let mut event = on_job("note");
        change(&mut event);
        others.push(event);
    }
    for event in others {
        bench.recorder.publish(event);
    }
    let seen = bench.after(1).await;
    assert!(seen.iter().all(|seen| seen.method == Method::POST), "{seen:?}");
    let mut names: Vec<_> = seen
        .iter()
        .map(|seen| seen.body["metadata"]["name"].to_string())
        .collect();
    names.dedup();
    assert_eq!(names.len(), 7, "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_series_ends_after_six_minutes_without_a_repeat() {
    let bench = Bench::new();
    bench.recorder.publish(on_job("note"));
    assert_eq!(bench.counts_after(359).await, ["POST null"]);
    bench.recorder.publish(on_job("note"));
    assert_eq!(bench.counts_after(360).await, ["PATCH 2"]);
    bench.recorder.publish(on_job("note"));
    assert_eq!(bench.counts_after(1).await, ["POST null"]);
}

#[tokio::test(start_paused = true)]
async fn long_notes_are_cut_between_two_characters() {
    let bench = Bench::new();
    bench.recorder.publish(on_job(&"€".repeat(400)));
    let seen = bench.after(1).await;
    assert_eq!(seen[0].body["note"], "€".repeat(341));
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_name_cannot_name_an_event_lends_it_the_controllers() {
    let bench = Bench::new();
    for name in ["system:node", &"a".repeat(250), "Upper", ""] {
        let mut event = on_job(name);
        event.regarding.key.name = name.into();
        bench.recorder.publish(event);
    }
    let seen = bench.after(1).await;
    let names: Vec<_> = seen
        .iter()
        .map(|seen| seen.body["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "ttl-controller.18867251edfa0000",
            "ttl-controller.18867251edfa0001",
            "ttl-controller.18867251edfa0002",
            "ttl-controller.18867251edfa0003",
        ]
    );
}
