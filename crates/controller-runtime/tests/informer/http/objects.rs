use super::*;

#[tokio::test(start_paused = true)]
async fn a_bad_object_does_not_fail_its_page() {
    let (_, running) = start([
        page(
            "9",
            "",
            &[
                one("a"),
                object("bad", "2", &json!("text")),
                object("unlucky", "3", &json!(13)),
                one("c"),
            ],
        ),
        watch([]),
    ]);
    assert_eq!(running.told().await, ["+ns/a=1", "+ns/c=1", "synced"]);
    assert_eq!(running.metric("decode_errors_total"), 2);
    assert_eq!(running.last_error(), None);
}

#[tokio::test(start_paused = true)]
async fn a_bad_object_does_not_fail_its_watch_and_the_version_moves_on() {
    let closes = vec![
        event("ADDED", &object("b", "10", &json!(2))),
        event("MODIFIED", &object("a", "11", &json!({"not": "a number"}))),
        event("MODIFIED", &object("b", "12", &json!(3))),
        event("MODIFIED", &object("b", "13", &json!("text"))),
        Step::Pause(Duration::from_secs(10)),
    ];
    let (server, running) = start([page("9", "", &[one("a")]), Answer::Watch(closes), watch([])]);
    assert_eq!(
        running.told().await,
        ["+ns/a=1", "synced", "+ns/b=2", "~ns/b=2>3"]
    );
    assert_eq!(running.held(), ["a=1", "b=3"], "the last known views");
    running.clock.sleep(Duration::from_secs(20)).await;
    assert_eq!(
        server.asked()[2],
        "/apis/example.io/v1/things?watch=true&resourceVersion=13"
    );
    assert_eq!(running.metric("decode_errors_total"), 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_undecodable_in_a_new_list_is_not_deleted() {
    let (_, running) = start([
        page("9", "", &[one("a"), one("b")]),
        watch([expired()]),
        page("20", "", &[object("a", "19", &json!([]))]),
        watch([event("DELETED", &object("a", "21", &json!([])))]),
    ]);
    running.clock.sleep(Duration::from_secs(10)).await;
    assert_eq!(
        running.told.take(),
        ["+ns/a=1", "+ns/b=1", "synced", "-ns/b=1", "-ns/a=1"],
        "b went with the list, a only when it was deleted"
    );
}

#[tokio::test(start_paused = true)]
async fn hostile_objects_neither_panic_nor_stop_the_watch() {
    let nested = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let metadata = |value: &str| {
        format!(
            r#"{{"metadata":{{"name":"h","namespace":"ns","uid":"h","resourceVersion":"5"}},"spec":{{"value":{value}}}}}"#
        )
    };
    let hostile = [
        metadata("99999999999999999999999999999999"),
        metadata("1e999"),
        metadata("-9223372036854775809"),
        metadata(&nested),
        metadata("\"\\ud800\""),
        metadata("1").replace(r#""name":"h""#, r#""name":"""#),
        metadata("1").replace(r#""name":"h""#, r#""name":7"#),
        metadata("1").replace(r#""name":"h""#, r#""name":"h","name":"i""#),
        metadata("1").replace(r#""name":"h","#, ""),
        r#"{"metadata":[],"spec":{}}"#.to_owned(),
        r#"{"spec":{"value":1}}"#.to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        "7".to_owned(),
    ];
    let list = format!(
        r#"{{"kind":"ThingList","apiVersion":"example.io/v1","metadata":{{"resourceVersion":"9"}},"items":[{},{}]}}"#,
        hostile.join(","),
        object("z", "8", &json!(i64::MIN)),
    );
    let list = Answer::Watch(vec![Step::Line(list)]);
    // For a watch event without a resourceVersion, kube lists again; it is more than a bad object.
    let with_version = hostile
        .iter()
        .filter(|object| object.contains("resourceVersion") && !object.contains("\"i\""));
    let lines = with_version.map(|object| Step::Line(format!(r#"{{"type":"MODIFIED","object":{object}}}"#)));
    let harmless = event("ADDED", &object("y", "10", &json!(i64::MAX)));
    let (server, running) = start([list, watch(lines.chain([harmless]))]);
    assert_eq!(
        running.told().await,
        [
            format!("+ns/z={}", i64::MIN),
            "synced".to_owned(),
            format!("+ns/y={}", i64::MAX)
        ]
    );
    assert_eq!(running.metric("decode_errors_total"), 14 + 8);
    assert_eq!(server.asked().len(), 2);
    assert_eq!(running.last_error(), None);
}

#[tokio::test(start_paused = true)]
async fn fields_that_no_rule_reads_may_hold_anything() {
    let object = r#"{"metadata":{"name":"a","namespace":"ns","uid":"a","resourceVersion":"5",
        "creationTimestamp":"0001-01-01T00:00:00Z","labels":7},"spec":{"value":1,"huge":1e999,"deep":DEEP}}"#
        .replace("DEEP", &format!("{}{}", "[".repeat(5_000), "]".repeat(5_000)));
    let list = format!(
        r#"{{"kind":"ThingList","apiVersion":"example.io/v1","metadata":{{"resourceVersion":"9"}},"items":[{object}]}}"#
    );
    let (_, running) = start([Answer::Watch(vec![Step::Line(list)]), watch([])]);
    assert_eq!(running.told().await, ["+ns/a=1", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_event_that_cannot_be_read_leads_to_a_new_list() {
    let (server, running) = start([
        page("9", "", &[one("a")]),
        watch([Step::Line(
            r#"{"type":"MODIFIED","object":{"metadata":}}"#.to_owned(),
        )]),
        page("20", "", &[object("a", "19", &json!(2))]),
        watch([]),
    ]);
    running.clock.sleep(Duration::from_secs(10)).await;
    assert_eq!(running.told.take(), ["+ns/a=1", "synced", "~ns/a=1>2"]);
    assert_eq!(server.asked()[2], LIST);
}

#[tokio::test(start_paused = true)]
async fn an_object_made_again_is_deleted_and_added_also_when_the_watch_shows_one_change() {
    let mut again = object("a", "10", &json!(1));
    again["metadata"]["uid"] = json!("another");
    let (_, running) = start([page("9", "", &[one("a")]), watch([event("MODIFIED", &again)])]);
    assert_eq!(running.told().await, ["+ns/a=1", "synced", "-ns/a=1", "+ns/a=1"]);
}
