use super::*;

/// Number of requests in an hour to a server that plays these steps on every watch.
async fn requests_in_an_hour(each_watch: Vec<Step>) -> (usize, Running) {
    let (server, running) = start([page("9", "", &[one("a")]), Answer::Watch(each_watch)]);
    running.clock.sleep(Duration::from_hours(1)).await;
    let requests = server.asked.lock().len();
    (requests, running)
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_closed_at_once_do_not_become_a_hot_loop() {
    for each_watch in [
        vec![],
        vec![bookmark("10")],
        vec![Step::Break(io::ErrorKind::UnexpectedEof)],
        vec![Step::Break(io::ErrorKind::TimedOut)],
        vec![Step::Break(io::ErrorKind::ConnectionReset)],
        vec![event("ERROR", &status(500, "InternalError", &json!(null)))],
        vec![Step::Pause(Duration::from_secs(4))],
    ] {
        let (requests, running) = requests_in_an_hour(each_watch).await;
        // The backoff settles between 15 s and 30 s.
        assert!((100..=250).contains(&requests), "{requests} requests");
        // The error is visible.
        assert!(running.last_error().unwrap().starts_with("Other: "));
        assert_eq!(running.held(), ["a=1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_tell_one_thing_and_close_do_not_become_a_hot_loop() {
    let (requests, _) = requests_in_an_hour(vec![event("MODIFIED", &object("a", "10", &json!(2)))]).await;
    // Each event resets the backoff to 0.8 s to 1.6 s.
    assert!((2_000..=4_600).contains(&requests), "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn a_410_on_every_watch_does_not_become_a_hot_loop_of_lists() {
    let round = || [page("9", "", &[one("a")]), Answer::Watch(vec![expired()])];
    let (server, running) = start((0..1_000).flat_map(|_| round()));
    running.clock.sleep(Duration::from_hours(1)).await;
    let requests = server.asked().len();
    assert!((200..=500).contains(&requests), "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_that_has_stood_is_resumed() {
    for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset] {
        let breaks = vec![Step::Pause(Duration::from_secs(100)), Step::Break(kind)];
        let (server, running) = start([page("9", "", &[one("a")]), Answer::Watch(breaks), watch([])]);
        running.clock.sleep(Duration::from_secs(200)).await;
        assert_eq!(server.asked(), [LIST, WATCH_9, WATCH_9]);
        assert_eq!(running.last_error(), None);
    }
}
