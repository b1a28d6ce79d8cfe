use super::*;

#[tokio::test(start_paused = true)]
async fn a_paged_list_and_then_a_watch_feed_the_store() {
    let (server, running) = start([
        page("9", "page-2", &[one("a"), one("b")]),
        page("9", "", &[one("c")]),
        watch([
            event("ADDED", &object("d", "10", &json!(4))),
            event("MODIFIED", &object("a", "11", &json!(5))),
            bookmark("12"),
            event("DELETED", &object("b", "13", &json!(6))),
        ]),
    ]);
    let told = "+ns/a=1 +ns/b=1 +ns/c=1 synced +ns/d=4 ~ns/a=1>5 -ns/b=6";
    assert_eq!(running.told().await.join(" "), told);
    let second = "/apis/example.io/v1/things?limit=200&continue=page-2";
    assert_eq!(server.asked(), [LIST, second, WATCH_9]);
    assert_eq!(running.names_by(&By::Node("n1".into())), ["a", "c", "d"]);
    assert_eq!(running.metric("events_total"), 3);
}

/// As in a mass eviction, whose writes have taken all permits of the next minutes.
#[tokio::test(start_paused = true)]
async fn a_list_does_not_wait_for_the_client_side_limit() {
    let clock = clock();
    let pages = [
        page("9", "page-2", &[one("a")]),
        page("9", "page-3", &[one("b")]),
        page("9", "", &[one("c")]),
        watch([]),
    ];
    let server = Server::new(&clock, pages);
    let permits = Permits::new(Limits { qps: 0.001, burst: 1 }, &clock);
    let metrics = RequestMetrics::register(&Registry::new()).unwrap();
    let client = limited(server.client(), permits, &clock, &metrics, "test".to_owned());
    let source = ListWatch::<ThingWire>::new(client, things(), Encoding::default(), clock.clone());
    let running = Running::start(source, clock);
    assert_eq!(running.told().await, ["+ns/a=1", "+ns/b=1", "+ns/c=1", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_stood_goes_on_from_the_last_bookmark_at_once() {
    let minute = |version| [bookmark(version), Step::Pause(Duration::from_secs(58))];
    let closes = ["8", "9", "10", "11", "12"]
        .into_iter()
        .flat_map(minute)
        .collect();
    let (server, running) = start([page("9", "", &[one("a")]), Answer::Watch(closes), watch([])]);
    running.clock.sleep(Duration::from_mins(5)).await;
    assert_eq!(server.gaps()[1], Duration::from_secs(290), "without a wait");
    assert_eq!(
        server.asked(),
        [
            LIST,
            WATCH_9,
            "/apis/example.io/v1/things?watch=true&resourceVersion=12"
        ]
    );
    assert_eq!(running.last_error(), None);
}

/// As behind a load balancer that keeps acknowledging for a dead server.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_for_two_minutes_ends_and_another_goes_on_from_there() {
    let (server, running) = start([
        page("9", "", &[one("a")]),
        watch([bookmark("12")]),
        watch([event("MODIFIED", &object("a", "13", &json!(2)))]),
    ]);
    running.clock.sleep(Duration::from_secs(119)).await;
    assert_eq!(server.gaps().len(), 1, "a bookmark each minute keeps it");
    running.clock.sleep(Duration::from_secs(5)).await;
    assert_eq!(running.held(), ["a=2"]);
    assert_eq!(
        server.asked(),
        [
            LIST,
            WATCH_9,
            "/apis/example.io/v1/things?watch=true&resourceVersion=12"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_410_on_the_watch_leads_to_a_new_list() {
    let (server, running) = start([
        page("9", "", &[one("a"), one("b")]),
        watch([Step::Pause(Duration::from_mins(1)), expired()]),
        page("20", "", &[one("b"), one("c")]),
        watch([]),
    ]);
    running.clock.sleep(Duration::from_secs(70)).await;
    assert_eq!(
        running.told.take(),
        ["+ns/a=1", "+ns/b=1", "synced", "-ns/a=1", "+ns/c=1"],
        "the missed deletion is told"
    );
    assert_eq!(server.asked(), [LIST, WATCH_9, LIST, WATCH_20]);
    assert_eq!(running.metric("relists_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_410_at_the_start_of_a_watch_leads_to_a_new_list() {
    let (server, running) = start([
        page("9", "", &[one("a")]),
        refusal(410, "Expired"),
        page("20", "", &[one("b")]),
        watch([]),
    ]);
    running.settle().await;
    assert_eq!(
        running.last_error().unwrap(),
        "Expired: start the watch: 410 Expired: answer 410"
    );
    running.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(running.told.take(), ["+ns/a=1", "synced", "-ns/a=1", "+ns/b=1"]);
    assert_eq!(server.asked(), [LIST, WATCH_9, LIST, WATCH_20]);
    assert_eq!(running.last_error(), None, "the quiet watch has proven healthy");
}

#[tokio::test(start_paused = true)]
async fn a_410_between_pages_starts_the_list_over() {
    let (server, running) = start([
        page("9", "page-2", &[one("a")]),
        refusal(410, "Expired"),
        page("20", "", &[one("b")]),
        watch([]),
    ]);
    running.synced().await;
    assert_eq!(running.told().await, ["+ns/b=1", "synced"]);
    assert_eq!(
        server.asked()[..3],
        [LIST, "/apis/example.io/v1/things?limit=200&continue=page-2", LIST]
    );
}

#[tokio::test(start_paused = true)]
async fn a_429_is_asked_again_after_the_time_it_names_or_a_minute() {
    let throttled = |seconds| {
        Answer::Json(
            429,
            status(429, "TooManyRequests", &json!({"retryAfterSeconds": seconds})),
        )
    };
    let (server, running) = start([throttled(86_400), page("9", "", &[]), throttled(45), watch([])]);
    running.settle().await;
    assert!(running.last_error().unwrap().starts_with("Throttled: "));
    running.clock.sleep(Duration::from_secs(200)).await;
    assert_eq!(server.gaps()[0].as_secs(), 60, "the list, and no day");
    assert_eq!(server.gaps()[2].as_secs(), 45, "the watch");
    assert_eq!(server.asked(), [LIST, LIST, WATCH_9, WATCH_9]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_reported_and_retried() {
    let (server, running) = start([refusal(403, "Forbidden"), page("9", "", &[]), watch([])]);
    running.settle().await;
    assert!(running.state.borrow().forbidden());
    assert_eq!(
        running.last_error().unwrap(),
        "Forbidden: list: 403 Forbidden: answer 403"
    );
    running.synced().await;
    running.clock.sleep(Duration::from_secs(10)).await;
    assert!(!running.state.borrow().forbidden());
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_not_served_is_looked_for_every_30_s() {
    let missing = Answer::Text(404, "404 page not found");
    let (server, running) = start([
        missing.clone(),
        missing.clone(),
        missing,
        page("9", "", &[]),
        watch([]),
    ]);
    running.settle().await;
    assert!(running.state.borrow().not_served());
    running.synced().await;
    running.clock.sleep(Duration::from_secs(10)).await;
    assert!(!running.state.borrow().not_served());
    let seconds: Vec<_> = server.gaps().iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [30, 30, 30, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_breaks_is_retried() {
    let (server, running) = start([
        Answer::Text(500, "oops"),
        Answer::Text(200, "{\"items\": 3}"),
        page("9", "", &[one("a")]),
        refusal(503, "ServiceUnavailable"),
        watch([event("ADDED", &object("b", "10", &json!(2)))]),
    ]);
    running.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(running.told.take(), ["+ns/a=1", "synced", "+ns/b=2"]);
    assert_eq!(server.asked(), [LIST, LIST, LIST, WATCH_9, WATCH_9]);
}
