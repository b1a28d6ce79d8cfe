//! The limit of events for each object.

use super::super::series::{Ledger, OBJECT_LIMIT};
use super::*;

fn too_many_of_object(bench: &Bench) -> u64 {
    let dropped = &bench.dropped.dropped;
    dropped.with_label_values(&["too_many_of_object"]).get()
}

#[tokio::test(start_paused = true)]
async fn one_object_gets_25_events_and_then_one_in_five_minutes() {
    let bench = Bench::new();
    for n in 0..1_000 {
        bench.recorder.publish(on_job(&n.to_string()));
    }
    bench.recorder.publish(on_job_number(2));
    let seen = bench.after(10).await;
    assert_eq!(seen.len(), 26);
    assert_eq!(
        seen[25].body["regarding"]["name"], "job-2",
        "the limit counts per object"
    );
    assert_eq!(too_many_of_object(&bench), 975);

    for second in 0..1_200 {
        bench.recorder.publish(on_job(&format!("at {second}")));
        bench.clock.sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(bench.after(1).await.len(), 4);
    assert_eq!(too_many_of_object(&bench), 975 + 1_196);
}

/// Suppressed repeats still count.
#[tokio::test(start_paused = true)]
async fn a_series_of_an_object_that_had_25_requests_is_written_once_in_five_minutes() {
    let bench = Bench::new();
    let mut counts = Vec::new();
    for _ in 0..60 * 60 {
        bench.recorder.publish(on_job("note"));
        counts.extend(bench.counts_after(1).await);
    }
    // 25, then one in five minutes, the last of which is still to come.
    assert_eq!(counts.len(), 25 + 60 / 5 - 1, "{counts:?}");
    assert_eq!(counts[..2], ["POST null", "PATCH 2"]);
    assert_eq!(bench.counts_after(300).await, ["PATCH 3600"]);
    assert_eq!(bench.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_requests_of_only_the_latest_4096_objects_are_counted() {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let metrics = EventMetrics::register(&Registry::new()).unwrap();
    let mut ledger = Ledger::new(metrics, clock.instant());
    let mut observe = |event: Event| {
        let (at, now) = (clock.now(), clock.instant());
        ledger.observe(Occurrence { event, at }, now).is_some()
    };
    let sent = (0..100).filter(|n| observe(on_job(&n.to_string()))).count();
    assert_eq!(sent, 25);
    for number in 2..=OBJECT_LIMIT + 1 {
        clock.sleep(Duration::from_millis(1)).await;
        assert!(observe(on_job_number(number)));
    }
    assert!(
        observe(on_job("forgotten")),
        "the object used longest ago is forgotten"
    );
    assert_eq!(ledger.objects.len(), OBJECT_LIMIT);
}
