//! What informers rely on in a watch.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::kinds::remove;
use crate::objects::pod;

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
    create(client, LEASES, json!({ "metadata": { "name": name } })).await
}

async fn label(client: &Client, name: &str, value: &str) -> Value {
    let body = json!({ "metadata": { "labels": { "a": value } } });
    let answer = patch(client, format!("{LEASES}/{name}"), MERGE, body).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    answer.body
}

/// A watch of leases from the present.
async fn from_now(client: &Client, more: &str) -> Watch {
    let now = version(&read(client, LEASES).await);
    Watch::open(client, format!("{LEASES}?watch=1&resourceVersion={now}{more}")).await
}

/// The next events as `TYPE name`, up to one about `last`.
async fn lines_to(watch: &mut Watch, last: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let line = watch.line().await;
        if line.ends_with(last) {
            return lines;
        }
        lines.push(line);
    }
}

async fn a_watch_of_one_name_tells_of_that_name_only(client: Client) {
    let mut one = from_now(&client, "&fieldSelector=metadata.name%3Done").await;
    let mut others = from_now(&client, "&fieldSelector=metadata.name!%3Done").await;
    lease(&client, "two").await;
    lease(&client, "one").await;
    label(&client, "two", "1").await;
    label(&client, "one", "1").await;
    remove(&client, LEASES, "one").await;
    lease(&client, "one").await;
    lease(&client, "end").await;
    for expected in ["ADDED one", "MODIFIED one", "DELETED one", "ADDED one"] {
        assert_eq!(one.line().await, expected);
    }
    assert_eq!(lines_to(&mut others, "end").await, ["ADDED two", "MODIFIED two"]);
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
    lease(&client, "end").await;
    let story = lines_to(&mut first, "end").await;
    assert_eq!(
        story,
        [
            "ADDED c",
            "MODIFIED c",
            "ADDED a",
            "MODIFIED a",
            "ADDED b",
            "MODIFIED b",
            "DELETED a",
            "MODIFIED c",
        ]
    );
    assert_eq!(lines_to(&mut second, "end").await, story);
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
    // To go on from the version of an event is to see what follows it.
    for (place, from) in versions.iter().enumerate().take(3) {
        let mut rest = Watch::open(&client, uri(*from)).await;
        for event in &story[place + 1..] {
            assert_eq!(rest.event().await, *event);
        }
    }
}

async fn a_changed_status_is_a_modification(client: Client) {
    let pod = pod("p", Value::Null);
    let pod = create(&client, PODS, pod).await;
    let mut watch = Watch::since(&client, PODS, &pod).await;
    let running = json!({ "status": { "phase": "Running" } });
    let running = merge(&client, format!("{PODS}/p/status"), running).await;
    assert_eq!(running["status"]["phase"], "Running");
    // The main resource does not write the status, and a write of nothing is no event.
    let ignored = json!({ "status": { "phase": "Failed" } });
    let ignored = merge(&client, format!("{PODS}/p"), ignored).await;
    assert_eq!(ignored["status"]["phase"], "Running");
    let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
    let labelled = merge(&client, format!("{PODS}/p"), labelled).await;
    for expected in [&running, &labelled] {
        watch.tells("MODIFIED", expected).await;
    }
    running.shows(json!({ "metadata.uid": pod["metadata"]["uid"], "spec": pod["spec"] }));
    // The status is not counted.
    assert_eq!(labelled["metadata"]["generation"], pod["metadata"]["generation"]);
}

async fn a_field_selector_turns_changes_into_additions_and_deletions(client: Client) {
    let pod = pod("p", Value::Null);
    let pod = create(&client, PODS, pod).await;
    let mut versions = vec![version(&pod)];
    for phase in ["Running", "Succeeded"] {
        let body = json!({ "status": { "phase": phase } });
        let changed = merge(&client, format!("{PODS}/p/status"), body).await;
        versions.push(version(&changed));
    }
    let open = async |selector: &str| {
        let uri = format!(
            "{PODS}?watch=1&fieldSelector={selector}&resourceVersion={}",
            versions[0]
        );
        Watch::open(&client, uri).await
    };
    let mut running = open("status.phase%3DRunning").await;
    let mut unfinished = open("status.phase!%3DSucceeded,status.phase!%3DFailed").await;
    let mut nowhere = open("spec.nodeName%3D").await;
    let seen = async |watch: &mut Watch| {
        let event = watch.event().await;
        let object = &event["object"];
        let (kind, phase) = (event["type"].clone(), object["status"]["phase"].clone());
        (kind, phase, version(object))
    };
    // It enters with its new state and leaves with its last one.
    let (added, modified, deleted) = (json!("ADDED"), json!("MODIFIED"), json!("DELETED"));
    let (is_running, is_over) = (json!("Running"), json!("Succeeded"));
    assert_eq!(seen(&mut running).await, (added, is_running.clone(), versions[1]));
    assert_eq!(
        seen(&mut running).await,
        (deleted.clone(), is_running.clone(), versions[2])
    );
    assert_eq!(
        seen(&mut unfinished).await,
        (modified.clone(), is_running.clone(), versions[1])
    );
    assert_eq!(
        seen(&mut unfinished).await,
        (deleted, is_running.clone(), versions[2])
    );
    assert_eq!(
        seen(&mut nowhere).await,
        (modified.clone(), is_running, versions[1])
    );
    assert_eq!(seen(&mut nowhere).await, (modified, is_over, versions[2]));
}

async fn finalizers_are_let_go_before_an_object_is_gone(client: Client) {
    let held =
        json!({ "metadata": { "name": "held", "finalizers": ["a.example.com/x", "b.example.com/y"] } });
    let held = create(&client, LEASES, held).await;
    let mut watch = Watch::since(&client, LEASES, &held).await;
    assert_eq!(remove(&client, LEASES, "held").await.code, 200);
    for finalizers in [json!(["b.example.com/y"]), Value::Null] {
        let body = json!({ "metadata": { "finalizers": finalizers } });
        merge(&client, format!("{LEASES}/held"), body).await;
    }
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(watch.event().await);
    }
    let told: Vec<Value> = events
        .iter()
        .map(|event| {
            let metadata = &event["object"]["metadata"];
            assert!(metadata["deletionTimestamp"].is_string());
            json!([event["type"], metadata["finalizers"]])
        })
        .collect();
    assert_eq!(
        json!(told),
        json!([
            ["MODIFIED", ["a.example.com/x", "b.example.com/y"]],
            ["MODIFIED", ["b.example.com/y"]],
            // The write that lets go of the last one is the deletion; it shows the state before it.
            ["DELETED", ["b.example.com/y"]],
        ])
    );
    let versions: Vec<u64> = events.iter().map(|event| version(&event["object"])).collect();
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
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
    let from = format!("{LEASES}?{without}&resourceVersion={}", version(&first));
    let mut then = Watch::open(&client, from).await;
    assert_eq!(then.line().await, "ADDED two");
    lease(&client, "three").await;
    assert_eq!(now.line().await, "ADDED three");
    assert_eq!(then.line().await, "ADDED three");
    // Any other value means yes.
    let yes = STREAMING.replace("sendInitialEvents=true", "sendInitialEvents=maybe");
    let mut list = Watch::open(&client, format!("{LEASES}?{yes}")).await;
    for name in ["one", "three", "two"] {
        assert_eq!(list.line().await, format!("ADDED {name}"));
    }
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
        // To go on from the mark is to miss nothing and to see nothing twice.
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
    let written = create(&client, NODES, json!({ "metadata": { "name": "n" } })).await;
    let uri = format!("{LEASES}?{STREAMING}&labelSelector=nobody%3Dhas");
    let mut list = Watch::open(&client, uri).await;
    let end = list.event().await;
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(
        end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    assert!(version(&end["object"]) >= version(&written));
}

async fn a_limit_does_not_bound_a_watch(client: Client) {
    for name in ["a", "b", "c"] {
        lease(&client, name).await;
    }
    for query in ["watch=1&limit=1", &format!("{STREAMING}&limit=1")] {
        let mut watch = Watch::open(&client, format!("{LEASES}?{query}")).await;
        for name in ["a", "b", "c"] {
            assert_eq!(watch.line().await, format!("ADDED {name}"));
        }
    }
}

async fn a_bookmark_comes_shortly_before_the_end_and_says_something_new(client: Client) {
    let mut with = from_now(&client, "&timeoutSeconds=3&allowWatchBookmarks=true").await;
    let mut without = from_now(&client, "&timeoutSeconds=3").await;
    // Nothing happens to what this one selects, but its bookmark moves on.
    let mut idle = from_now(
        &client,
        "&timeoutSeconds=3&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dnobody",
    )
    .await;
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
    assert_eq!(
        rest(&mut without).await,
        [json!({ "type": "ADDED", "object": created })]
    );
    let told = rest(&mut with).await;
    assert_eq!(told[0]["type"], "ADDED");
    assert!(told.len() > 1, "{told:?}");
    let also = rest(&mut idle).await;
    assert!(!also.is_empty());
    for bookmark in told[1..].iter().chain(&also) {
        assert_eq!(bookmark["type"], "BOOKMARK");
        let object = &bookmark["object"];
        object.shows(json!({ "kind": "Lease", "apiVersion": "coordination.k8s.io/v1" }));
        let metadata = object["metadata"].as_object().unwrap();
        assert_eq!(metadata.keys().collect::<Vec<_>>(), ["resourceVersion"]);
        assert!(version(object) >= version(&created));
    }
}

async fn a_watch_that_cannot_start_is_refused(client: Client) {
    for (query, code, message) in [
        (
            "resourceVersion=abc",
            500,
            "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        (
            "resourceVersion=-1",
            500,
            "resourceVersion: Invalid value: \"-1\": strconv.ParseUint: parsing \"-1\": invalid syntax",
        ),
        (
            "labelSelector=a%20in",
            400,
            "unable to parse requirement: found '' expected: '('",
        ),
        (
            "fieldSelector=metadata.name",
            400,
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        (
            "timeoutSeconds=soon",
            400,
            "strconv.ParseInt: parsing \"soon\": invalid syntax",
        ),
    ] {
        let refused = get(&client, format!("{NODES}?watch=1&{query}")).await;
        refused.shows(json!({ "code": code, "message": message, "kind": "Status" }));
        let reason = (code == 400).then(|| json!("BadRequest"));
        assert_eq!(refused.body.get("reason"), reason.as_ref());
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
    let now = version(&read(&client, &nowhere).await);
    let mut none = Watch::open(
        &client,
        format!("{nowhere}?watch=1&resourceVersion={now}&timeoutSeconds=1"),
    )
    .await;
    lease(&client, "here").await;
    assert_eq!(none.next_within(Duration::from_secs(5)).await, Next::End);
}

async fn a_deletion_with_a_selector_is_seen_by_who_could_see_the_object(client: Client) {
    let mut reds = from_now(&client, "&labelSelector=a%3Dred").await;
    let mut blues = from_now(&client, "&labelSelector=a%3Dblue").await;
    for (name, colour) in [("one", "red"), ("two", "blue")] {
        let lease = json!({ "metadata": { "name": name, "labels": { "a": colour } } });
        create(&client, LEASES, lease).await;
    }
    label(&client, "one", "blue").await;
    remove(&client, LEASES, "one").await;
    remove(&client, LEASES, "two").await;
    for name in ["red-end", "blue-end"] {
        let colour = name.split('-').next().unwrap();
        let lease = json!({ "metadata": { "name": name, "labels": { "a": colour } } });
        create(&client, LEASES, lease).await;
    }
    assert_eq!(lines_to(&mut reds, "end").await, ["ADDED one", "DELETED one"]);
    assert_eq!(
        lines_to(&mut blues, "end").await,
        ["ADDED two", "ADDED one", "DELETED one", "DELETED two"]
    );
}
