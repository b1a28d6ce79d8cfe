use super::*;

/// Backoff of the informer after each of these failures.
async fn waits(script: &Script<Thing>, running: &mut Running, failures: Vec<SourceError>) -> Vec<Duration> {
    let mut waits = Vec::new();
    running.state.borrow_and_update();
    let mut last = None;
    for (n, mut failure) in failures.into_iter().enumerate() {
        failure.message = format!("failure {n}");
        script.send(SourceEvent::Failed(failure));
        running.state.changed().await.unwrap();
        let now = running.clock.instant();
        waits.extend(last.map(|last| now - last));
        last = Some(now);
    }
    script.send(SourceEvent::Healthy);
    running.state.changed().await.unwrap();
    waits.extend(last.map(|last| running.clock.instant() - last));
    waits
}

fn failure(kind: ErrorKind) -> SourceError {
    SourceError {
        kind,
        retry_after: None,
        message: String::new(),
    }
}

#[track_caller]
fn assert_within(wait: Duration, from_ms: u64, to_ms: u64) {
    // Timers fire on the next millisecond.
    let (from, to) = (Duration::from_millis(from_ms), Duration::from_millis(to_ms + 1));
    assert!(
        from <= wait && wait <= to,
        "{wait:?} is not within {from:?} and {to:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_later_and_later() {
    let (script, mut running) = synced().await;
    let failures = vec![failure(ErrorKind::Other); 8];
    let waits = waits(&script, &mut running, failures).await;
    for (n, base) in [800, 1_600, 3_200, 6_400, 12_800, 15_000, 15_000, 15_000]
        .into_iter()
        .enumerate()
    {
        assert_within(waits[n], base, 2 * base);
    }
}

#[tokio::test(start_paused = true)]
async fn a_healthy_watch_or_an_event_starts_the_waits_over() {
    let (script, mut running) = synced().await;
    for proof in 0..3 {
        let failed = vec![failure(ErrorKind::Forbidden); 4];
        let waits = waits(&script, &mut running, failed.clone()).await;
        assert_within(waits[0], 800, 1_600);
        assert_within(waits[3], 6_400, 12_800);
        for failure in failed {
            script.send(SourceEvent::Failed(failure));
        }
        match proof {
            0 => script.applied(thing("a", 5), "A"),
            1 => script.deleted(thing("a", 5), "A"),
            _ => script.send(undecodable("a", None)),
        }
        running.clock.sleep(Duration::from_mins(1)).await;
        assert_eq!(running.last_error(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_alone_does_not_start_the_waits_over() {
    let (script, mut running) = synced().await;
    for _ in 0..6 {
        script.failed(ErrorKind::Other, "watch refused");
        script.list([(thing("a", 1), "A"), (thing("b", 2), "B")]);
    }
    running.clock.sleep(Duration::from_secs(200)).await;
    let waits = waits(&script, &mut running, vec![failure(ErrorKind::Other)]).await;
    assert_within(waits[0], 15_000, 30_000);
}

/// Items that are not kept or cannot be decoded are reported while the list runs. They do not prove progress.
#[tokio::test(start_paused = true)]
async fn a_list_that_keeps_failing_on_a_later_page_is_asked_for_later_and_later() {
    let (script, mut running) = synced().await;
    for _ in 0..6 {
        script.send(SourceEvent::Init);
        script.deleted(thing("not kept", 1), "N");
        script.send(undecodable("odd", None));
        script.failed(ErrorKind::Other, "the second page is refused");
    }
    running.clock.sleep(Duration::from_secs(200)).await;
    assert_eq!(
        running.last_error().unwrap(),
        "Other: the second page is refused",
        "no watch stands"
    );
    let waits = waits(&script, &mut running, vec![failure(ErrorKind::Other)]).await;
    assert_within(waits[0], 15_000, 30_000);
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_has_failed_for_longer_than_a_minute_is_not_ready_and_says_since_when() {
    let (script, running) = synced().await;
    let why = format!(
        "changes are not seen since {:.0}: failed again",
        running.clock.now()
    );
    script.failed(ErrorKind::Other, "failed");
    // A list between two failures does not prove that the watch works.
    script.list([(thing("a", 1), "A")]);
    script.failed(ErrorKind::Other, "failed again");
    for (passes, expected) in [(59, Ok(())), (2, Err(why.clone()))] {
        running.clock.sleep(Duration::from_secs(passes)).await;
        let state = running.state.borrow().clone();
        assert_eq!(state.ready(running.clock.instant()), expected);
        assert_eq!(state.notes(), std::slice::from_ref(&why), "noted at once");
    }
    script.send(SourceEvent::Healthy);
    running.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(running.state.borrow().ready(running.clock.instant()), Ok(()));
    assert_eq!(running.state.borrow().notes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_state_says_what_failed_until_the_watch_is_healthy() {
    let (script, running) = synced().await;
    script.failed(ErrorKind::Forbidden, "pods is forbidden");
    running.settle().await;
    assert_eq!(running.last_error().unwrap(), "Forbidden: pods is forbidden");
    assert!(running.state.borrow().forbidden());
    assert!(running.state.borrow().synced, "what was listed stays");
    script.send(SourceEvent::Healthy);
    running.clock.sleep(Duration::from_secs(2)).await;
    assert_eq!(running.last_error(), None);
    assert!(!running.state.borrow().forbidden());
}
