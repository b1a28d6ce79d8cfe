//! Bookmarks at the end of watches.

use std::time::Duration;

use kube::Client;
use serde_json::json;

use crate::http::*;

crate::scenarios![a_bookmark_comes_shortly_before_the_end_and_says_something_new,];

/// A watch of leases that starts now.
async fn from_now(client: &Client, more: &str) -> Watch {
    let now = read(client, LEASES).await;
    Watch::since(client, format!("{LEASES}?{more}"), &now).await
}

async fn a_bookmark_comes_shortly_before_the_end_and_says_something_new(client: Client) {
    let bookmarks = "timeoutSeconds=3&allowWatchBookmarks=true";
    let mut with = from_now(&client, bookmarks).await;
    let mut without = from_now(&client, "timeoutSeconds=3").await;
    // No selected object changes, but the bookmark advances.
    let nobody = format!("{bookmarks}&fieldSelector=metadata.name%3Dnobody");
    let mut idle = from_now(&client, &nobody).await;
    let created = create(&client, LEASES, named("one")).await;
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
