//! The rate at which events are sent, and the fate of those that cannot be sent.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_hundred_events_go_out_at_once_and_ten_a_second_after_them() {
    let bench = Bench::new();
    for n in 0..150 {
        bench.recorder.publish(on_job_number(n));
    }
    let seen = bench.after(60).await;
    assert_eq!(seen.len(), 150);
    assert!(seen[..100].iter().all(|seen| seen.at < 100), "{:?}", seen[99]);
    for second in 0..5 {
        let sent = seen[100..]
            .iter()
            .filter(|seen| (second * 1000 + 1..=second * 1000 + 1000).contains(&seen.at))
            .count();
        assert_eq!(sent, 10, "in second {second}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_for_which_there_is_no_room_are_dropped_and_counted() {
    let bench = Bench::new();
    for n in 0..QUEUE_LENGTH + 200 {
        bench.recorder.publish(on_job_number(n));
    }
    assert_eq!(bench.dropped(), 200);
    let queue_full = bench.dropped.dropped.with_label_values(&["queue_full"]);
    assert_eq!(queue_full.get(), 200);
}

#[tokio::test(start_paused = true)]
async fn no_event_of_a_mass_eviction_is_lost_however_slow_they_are_sent() {
    let bench = Bench::new();
    for n in 0..2_000 {
        bench.recorder.publish(on_job_number(n));
    }
    assert_eq!(bench.after(191).await.len(), 2_000);
    assert_eq!(bench.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_a_while_loses_no_event() {
    let bench = Bench::new();
    bench.answers(|_| status(503, "ServiceUnavailable", ""));
    bench.recorder.publish(on_job("note"));
    bench.recorder.publish(on_job("note"));
    assert_eq!(bench.counts_after(1).await, ["POST null"]);
    bench.answers(accept);
    assert_eq!(bench.counts_after(57).await, [""; 0]);
    let seen = bench.after(5).await;
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].method, Method::POST);
    assert_eq!(
        seen[0].body["series"],
        json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"})
    );
    assert_eq!(bench.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_costs_one_try_a_minute_until_the_series_has_ended() {
    let bench = Bench::new();
    bench.answers(|_| status(500, "InternalError", ""));
    bench.recorder.publish(on_job("note"));
    let seen = bench.after(3600).await;
    let minutes: Vec<_> = seen.iter().map(|seen| seen.at / 60_000).collect();
    assert_eq!(minutes, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(bench.dropped(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_refused_is_counted_and_not_tried_again() {
    let bench = Bench::new();
    bench.answers(|_| status(403, "Forbidden", ""));
    bench.recorder.publish(on_job("note"));
    assert_eq!(bench.counts_after(3600).await, ["POST null"]);
    assert_eq!(bench.dropped(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_goes_away_takes_its_events_along_uncounted() {
    let bench = Bench::new();
    bench.answers(|_| status(403, "Forbidden", "NamespaceTerminating"));
    bench.recorder.publish(on_job("one"));
    assert_eq!(bench.counts_after(3600).await, ["POST null"]);
    bench.answers(|_| status(404, "NotFound", ""));
    bench.recorder.publish(on_job("two"));
    assert_eq!(bench.counts_after(3600).await, ["POST null"]);
    assert_eq!(bench.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_event_object_that_was_deleted_is_made_again_with_its_count() {
    let bench = Bench::new();
    bench.recorder.publish(on_job("note"));
    bench.after(1).await;
    bench.answers(|seen| match seen.method {
        Method::PATCH => status(404, "NotFound", ""),
        _ => accept(seen),
    });
    bench.recorder.publish(on_job("note"));
    assert_eq!(bench.counts_after(1).await, ["PATCH 2", "POST 2"]);
    assert_eq!(bench.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_exists_already_came_through_the_first_time() {
    let bench = Bench::new();
    bench.answers(|_| status(409, "AlreadyExists", ""));
    bench.recorder.publish(on_job("note"));
    assert_eq!(bench.counts_after(1).await, ["POST null"]);
    bench.answers(accept);
    bench.recorder.publish(on_job("note"));
    assert_eq!(bench.counts_after(3600).await, ["PATCH 2"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_latest_thousand_series_are_remembered() {
    let bench = Bench::new();
    for n in 0..1025 {
        bench.recorder.publish(on_job_number(n));
        bench.clock.sleep(Duration::from_millis(100)).await;
    }
    bench.recorder.publish(on_job_number(1));
    bench.recorder.publish(on_job_number(0));
    assert_eq!(
        bench
            .after(1)
            .await
            .split_off(1025)
            .iter()
            .map(|seen| &seen.method)
            .collect::<Vec<_>>(),
        [Method::PATCH, Method::POST]
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stops_sends_what_it_may_and_gives_up_the_rest() {
    let mut bench = Bench::new();
    bench.recorder.publish(on_job_number(0));
    bench.recorder.publish(on_job_number(0));
    bench.after(1).await;
    bench.recorder.publish(on_job_number(0));
    for n in 1..200 {
        bench.recorder.publish(on_job_number(n));
    }
    bench.stop().await;
    let sent = bench.seen.lock().len();
    // The burst, plus a write that was waiting for its permit, if any.
    assert!((100..=101).contains(&sent), "{sent} sent");
    assert_eq!(usize::try_from(bench.dropped()).unwrap() + sent, 200);
    assert!(bench.clock.instant() - bench.start < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stops_tries_a_dead_server_once() {
    let mut bench = Bench::new();
    bench.answers(|_| status(503, "ServiceUnavailable", ""));
    bench.recorder.publish(on_job("one"));
    bench.after(1).await;
    bench.recorder.publish(on_job("two"));
    bench.recorder.publish(on_job("three"));
    bench.stop().await;
    assert!(bench.seen.lock().len() <= 3, "{:?}", bench.seen.lock());
    assert_eq!(bench.dropped(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_disabled_recorder_records_nothing() {
    let bench = Bench::new();
    EventRecorder::disabled().publish(on_job("note"));
    assert_eq!(bench.counts_after(60).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_an_instance_the_controller_reports() {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let metrics = EventMetrics::register(&Registry::new()).unwrap();
    for (instance, reported) in [
        ("", "ttl-controller".to_owned()),
        (&*"h".repeat(200), "h".repeat(128)),
    ] {
        let reporter = Reporter {
            controller: "ttl-controller".to_owned(),
            instance: instance.to_owned(),
        };
        let (recorder, sender) = channel(reporter, LIMITS, clock.clone(), metrics.clone());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Box::new(accept)));
        let client = api_server(clock.clone(), Arc::clone(&seen), answer);
        recorder.publish(on_job("note"));
        drop(recorder);
        sender.run(client, shutdown::channel().1).await;
        assert_eq!(seen.lock()[0].body["reportingInstance"], reported);
    }
}
