//! Properties of watches that informers rely on.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::pod;
use crate::rows;

crate::scenarios![
    a_watch_of_one_name_tells_of_that_name_only,
    a_read_of_one_object_is_no_watch,
    two_watches_tell_the_same_story,
    a_watch_from_any_version_tells_the_rest_of_the_story,
    a_changed_status_is_a_modification,
    a_field_selector_turns_changes_into_additions_and_deletions,
    finalizers_are_let_go_before_an_object_is_gone,
    an_object_that_comes_again_is_another_one,
    a_streaming_list_can_be_left_out,
    a_streaming_list_is_at_least_as_new_as_asked,
    a_streaming_list_of_nothing_ends_at_once,
    a_limit_does_not_bound_a_watch,
    a_bookmark_comes_shortly_before_the_end_and_says_something_new,
    a_watch_that_cannot_start_is_refused,
    an_event_is_followed_in_both_of_its_groups,
    a_watch_of_an_unknown_namespace_waits_for_its_objects,
    a_deletion_with_a_selector_is_seen_by_who_could_see_the_object,
];

async fn lease(client: &Client, name: &str) -> Value {
    create(client, LEASES, named(name)).await
}

async fn label(client: &Client, name: &str, value: &str) -> Value {
    let body = json!({ "metadata": { "labels": { "a": value } } });
    merge(client, format!("{LEASES}/{name}"), body).await
}

/// A watch of leases that starts now.
async fn from_now(client: &Client, more: &str) -> Watch {
    let now = read(client, LEASES).await;
    Watch::since(client, format!("{LEASES}?{more}"), &now).await
}

async fn a_watch_of_one_name_tells_of_that_name_only(client: Client) {
    let mut one = from_now(&client, "fieldSelector=metadata.name%3Done").await;
    let mut others = from_now(&client, "fieldSelector=metadata.name!%3Done").await;
    lease(&client, "two").await;
    lease(&client, "one").await;
    label(&client, "two", "1").await;
    label(&client, "one", "1").await;
    remove(&client, LEASES, "one").await;
    lease(&client, "one").await;
    lease(&client, "end").await;
    one.tells_of(&["ADDED one", "MODIFIED one", "DELETED one", "ADDED one"])
        .await;
    others.tells_of(&["ADDED two", "MODIFIED two", "ADDED end"]).await;
}

async fn a_read_of_one_object_is_no_watch(client: Client) {
    let created = lease(&client, "one").await;
    let uri = format!("{LEASES}/one");
    for query in ["watch=true", "watch=1&fieldSelector=metadata.name%3Dtwo"] {
        let read = get(&client, format!("{uri}?{query}")).await;
        assert_eq!((read.code, read.body), (200, created.clone()));
    }
    let missing = get(&client, format!("{LEASES}/two?watch=true")).await;
    missing.is(404, "NotFound");
}

async fn two_watches_tell_the_same_story(client: Client) {
    let mut first = from_now(&client, "").await;
    let mut second = from_now(&client, "").await;
    for name in ["c", "a", "b"] {
        lease(&client, name).await;
        label(&client, name, "1").await;
    }
    remove(&client, LEASES, "a").await;
    label(&client, "c", "2").await;
    for watch in [&mut first, &mut second] {
        watch
            .tells_of(&["ADDED c", "MODIFIED c", "ADDED a", "MODIFIED a"])
            .await;
        watch
            .tells_of(&["ADDED b", "MODIFIED b", "DELETED a", "MODIFIED c"])
            .await;
    }
}

async fn a_watch_from_any_version_tells_the_rest_of_the_story(client: Client) {
    let start = lease(&client, "one").await;
    label(&client, "one", "1").await;
    lease(&client, "two").await;
    remove(&client, LEASES, "one").await;
    lease(&client, "end").await;
    let uri = |version: u64| format!("{LEASES}?watch=1&resourceVersion={version}");
    let mut watch = Watch::open(&client, uri(version(&start))).await;
    let mut story = Vec::new();
    for _ in 0..4 {
        story.push(watch.event().await);
    }
    let versions: Vec<u64> = story.iter().map(|event| version(&event["object"])).collect();
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    // A watch from the version of an event shows the events after it.
    for (place, from) in versions.iter().enumerate().take(3) {
        let mut rest = Watch::open(&client, uri(*from)).await;
        for event in &story[place + 1..] {
            assert_eq!(rest.event().await, *event);
        }
    }
}

async fn a_changed_status_is_a_modification(client: Client) {
    let pod = create(&client, PODS, pod("p", Value::Null)).await;
    let mut watch = Watch::since(&client, PODS, &pod).await;
    let running = json!({ "status": { "phase": "Running" } });
    let running = merge(&client, format!("{PODS}/p/status"), running).await;
    assert_eq!(running["status"]["phase"], "Running");
    // The main resource does not write the status; a write that changes nothing causes no event.
    let ignored = json!({ "status": { "phase": "Failed" } });
    let ignored = merge(&client, format!("{PODS}/p"), ignored).await;
    assert_eq!(ignored["status"]["phase"], "Running");
    let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
    let labelled = merge(&client, format!("{PODS}/p"), labelled).await;
    for expected in [&running, &labelled] {
        watch.tells("MODIFIED", expected).await;
    }
    running.shows(json!({ "metadata.uid": pod["metadata"]["uid"], "spec": pod["spec"] }));
    // Changes of the status do not change the generation.
    assert_eq!(labelled["metadata"]["generation"], pod["metadata"]["generation"]);
}

async fn a_field_selector_turns_changes_into_additions_and_deletions(client: Client) {
    let pod = create(&client, PODS, pod("p", Value::Null)).await;
    let mut versions = Vec::new();
    for phase in ["Running", "Succeeded"] {
        let body = json!({ "status": { "phase": phase } });
        versions.push(version(&merge(&client, format!("{PODS}/p/status"), body).await));
    }
    // An object enters with its new state and leaves with its last selected state.
    for (selector, at_first, then, at_last) in rows! {
        "status.phase%3DRunning", "ADDED", "DELETED" => "Running";
        "status.phase!%3DSucceeded,status.phase!%3DFailed", "MODIFIED", "DELETED" => "Running";
        "spec.nodeName%3D", "MODIFIED", "MODIFIED" => "Succeeded";
    } {
        let uri = format!("{PODS}?fieldSelector={selector}");
        let mut watch = Watch::since(&client, uri, &pod).await;
        for (kind, phase, at) in [(at_first, "Running", versions[0]), (then, at_last, versions[1])] {
            let event = watch.event().await;
            event.shows(json!({ "type": kind, "object.status.phase": phase }));
            assert_eq!(version(&event["object"]), at, "{selector}");
        }
    }
}

async fn finalizers_are_let_go_before_an_object_is_gone(client: Client) {
    let [first, second] = ["a.example.com/x", "b.example.com/y"];
    let held = json!({ "metadata": { "name": "held", "finalizers": [first, second] } });
    let held = create(&client, LEASES, held).await;
    let mut watch = Watch::since(&client, LEASES, &held).await;
    assert_eq!(remove(&client, LEASES, "held").await.code, 200);
    for finalizers in [json!([second]), Value::Null] {
        let body = json!({ "metadata": { "finalizers": finalizers } });
        merge(&client, format!("{LEASES}/held"), body).await;
    }
    let mut last = version(&held);
    for (kind, finalizers) in [
        ("MODIFIED", json!([first, second])),
        ("MODIFIED", json!([second])),
        // The write that removes the last finalizer is the deletion; the event shows the state before it.
        ("DELETED", json!([second])),
    ] {
        let event = watch.event().await;
        event.shows(json!({ "type": kind, "object.metadata.finalizers": finalizers }));
        assert!(event["object"]["metadata"]["deletionTimestamp"].is_string());
        assert!(version(&event["object"]) > last, "{event}");
        last = version(&event["object"]);
    }
}

async fn an_object_that_comes_again_is_another_one(client: Client) {
    let first = lease(&client, "again").await;
    let mut watch = Watch::since(&client, LEASES, &first).await;
    remove(&client, LEASES, "again").await;
    let second = lease(&client, "again").await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    let gone = watch.event().await;
    gone.shows(json!({ "type": "DELETED", "object.metadata.uid": first["metadata"]["uid"] }));
    assert!(version(&gone["object"]) < version(&second));
    watch.tells("ADDED", &second).await;
}

const STREAMING: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn a_streaming_list_can_be_left_out(client: Client) {
    let first = lease(&client, "one").await;
    lease(&client, "two").await;
    let without = STREAMING.replace("sendInitialEvents=true", "sendInitialEvents=false");
    let mut now = Watch::open(&client, format!("{LEASES}?{without}")).await;
    let mut then = Watch::since(&client, format!("{LEASES}?{without}"), &first).await;
    assert_eq!(then.line().await, "ADDED two");
    lease(&client, "three").await;
    assert_eq!(now.line().await, "ADDED three");
    assert_eq!(then.line().await, "ADDED three");
    // Any other value means true.
    let yes = STREAMING.replace("sendInitialEvents=true", "sendInitialEvents=maybe");
    let mut list = Watch::open(&client, format!("{LEASES}?{yes}")).await;
    list.tells_of(&["ADDED one", "ADDED three", "ADDED two"]).await;
    assert_eq!(list.event().await["type"], "BOOKMARK");
}

async fn a_streaming_list_is_at_least_as_new_as_asked(client: Client) {
    let first = lease(&client, "one").await;
    let mut current = label(&client, "one", "1").await;
    for asked in [0, version(&first), version(&current)] {
        catch_up(&client, LEASES).await;
        let uri = format!("{LEASES}?{STREAMING}&resourceVersion={asked}");
        let mut list = Watch::open(&client, uri).await;
        list.tells("ADDED", &current).await;
        let end = list.event().await;
        end.shows(json!({ "object.metadata.annotations": { "k8s.io/initial-events-end": "true" } }));
        // A watch from the bookmark misses no event and repeats none.
        let from = version(&end["object"]);
        assert!(from >= version(&current));
        let mut rest = Watch::open(&client, format!("{LEASES}?watch=1&resourceVersion={from}")).await;
        current = label(&client, "one", &format!("after-{asked}")).await;
        let expected = json!({ "type": "MODIFIED", "object": current });
        assert_eq!(rest.event().await, expected);
        assert_eq!(list.event().await, expected);
    }
}

async fn a_streaming_list_of_nothing_ends_at_once(client: Client) {
    let written = create(&client, NODES, named("n")).await;
    let uri = format!("{LEASES}?{STREAMING}&labelSelector=nobody%3Dhas");
    let end = Watch::open(&client, uri).await.event().await;
    end.shows(json!({
        "type": "BOOKMARK",
        "object.metadata.annotations": { "k8s.io/initial-events-end": "true" },
    }));
    assert!(version(&end["object"]) >= version(&written));
}

async fn a_limit_does_not_bound_a_watch(client: Client) {
    for name in ["a", "b", "c"] {
        lease(&client, name).await;
    }
    for query in ["watch=1&limit=1", &format!("{STREAMING}&limit=1")] {
        let mut watch = Watch::open(&client, format!("{LEASES}?{query}")).await;
        watch.tells_of(&["ADDED a", "ADDED b", "ADDED c"]).await;
    }
}

async fn a_bookmark_comes_shortly_before_the_end_and_says_something_new(client: Client) {
    let bookmarks = "timeoutSeconds=3&allowWatchBookmarks=true";
    let mut with = from_now(&client, bookmarks).await;
    let mut without = from_now(&client, "timeoutSeconds=3").await;
    // No selected object changes, but the bookmark advances.
    let nobody = format!("{bookmarks}&fieldSelector=metadata.name%3Dnobody");
    let mut idle = from_now(&client, &nobody).await;
    let created = lease(&client, "one").await;
    let rest = async |watch: &mut Watch| {
        let mut events = Vec::new();
        loop {
            match watch.next_within(Duration::from_secs(10)).await {
                Next::Event(event) => events.push(event),
                Next::End => return events,
                other => panic!("{other:?}"),
            }
        }
    };
    let added = json!({ "type": "ADDED", "object": created });
    assert_eq!(rest(&mut without).await, [added]);
    let told = rest(&mut with).await;
    assert_eq!(told[0]["type"], "ADDED");
    assert!(told.len() > 1, "{told:?}");
    let also = rest(&mut idle).await;
    assert!(!also.is_empty());
    for bookmark in told[1..].iter().chain(&also) {
        assert_eq!(bookmark["type"], "BOOKMARK");
        let object = &bookmark["object"];
        let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
        let expected =
            json!({ "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata });
        object.shows(expected);
        assert!(version(object) >= version(&created));
    }
}

async fn a_watch_that_cannot_start_is_refused(client: Client) {
    let number = |text: &str| {
        format!(
            "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
        )
    };
    for (query, code, message) in rows! {
        "resourceVersion=abc", 500 => &*number("abc");
        "resourceVersion=-1", 500 => &number("-1");
        "labelSelector=a%20in", 400 => "unable to parse requirement: found '' expected: '('";
        "fieldSelector=metadata.name", 400 => "invalid selector: 'metadata.name'; can't understand 'metadata.name'";
        "timeoutSeconds=soon", 400 => "strconv.ParseInt: parsing \"soon\": invalid syntax";
    } {
        let refused = get(&client, format!("{NODES}?watch=1&{query}")).await;
        let reason = (code == 400).then_some("BadRequest");
        refused.shows(json!({ "code": code, "message": message, "kind": "Status", "reason": reason }));
    }
    let text = get_as(&client, format!("{NODES}?watch=1"), "text/plain").await;
    text.is(406, "NotAcceptable");
}

async fn an_event_is_followed_in_both_of_its_groups(client: Client) {
    let start = version(&read(&client, CORE_EVENTS).await);
    let watch = |uri: &str| format!("{uri}?watch=1&resourceVersion={start}");
    let mut core = Watch::open(&client, watch(CORE_EVENTS)).await;
    let mut new = Watch::open(&client, watch(EVENTS)).await;
    let event = json!({
        "metadata": { "name": "both" },
        "involvedObject": { "kind": "Pod", "namespace": "default", "name": "p" },
        "reason": "Went",
        "message": "hello",
        "type": "Normal",
        "count": 3,
    });
    let event = create(&client, CORE_EVENTS, event).await;
    core.tells("ADDED", &event).await;
    let told = new.event().await;
    assert_eq!(told["type"], "ADDED");
    let told = &told["object"];
    told.shows(json!({
        "apiVersion": "events.k8s.io/v1",
        "metadata.uid": event["metadata"]["uid"],
        "note": "hello",
        "regarding.name": "p",
        "deprecatedCount": 3,
        "message": null,
    }));
    remove(&client, EVENTS, "both").await;
    assert_eq!(core.line().await, "DELETED both");
    assert_eq!(new.line().await, "DELETED both");
}

async fn a_watch_of_an_unknown_namespace_waits_for_its_objects(client: Client) {
    let nowhere = LEASES.replace("default", "nowhere");
    let now = read(&client, &nowhere).await;
    let mut none = Watch::since(&client, format!("{nowhere}?timeoutSeconds=1"), &now).await;
    lease(&client, "here").await;
    assert_eq!(none.next_within(Duration::from_secs(5)).await, Next::End);
}

async fn a_deletion_with_a_selector_is_seen_by_who_could_see_the_object(client: Client) {
    let mut reds = from_now(&client, "labelSelector=a%3Dred").await;
    let mut blues = from_now(&client, "labelSelector=a%3Dblue").await;
    for (name, colour) in [("one", "red"), ("two", "blue")] {
        create(&client, LEASES, labelled(name, &json!({ "a": colour }))).await;
    }
    label(&client, "one", "blue").await;
    remove(&client, LEASES, "one").await;
    remove(&client, LEASES, "two").await;
    for colour in ["red", "blue"] {
        create(&client, LEASES, labelled("end", &json!({ "a": colour }))).await;
        remove(&client, LEASES, "end").await;
    }
    reds.tells_of(&["ADDED one", "DELETED one", "ADDED end"]).await;
    blues
        .tells_of(&[
            "ADDED two",
            "ADDED one",
            "DELETED one",
            "DELETED two",
            "ADDED end",
        ])
        .await;
}
