//! Pages and versions of lists.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::rows;

crate::scenarios![
    pages_together_are_the_whole_list_at_one_version,
    a_page_says_how_much_is_left_where_nothing_is_filtered,
    a_limit_of_the_whole_list_ends_it,
    a_limit_that_is_no_positive_number,
    pages_outlive_the_objects_that_they_show,
    a_further_page_takes_the_selectors_and_the_limit_of_its_own_request,
    a_page_goes_on_across_namespaces,
    a_token_goes_with_no_version,
    numbers_that_are_none_are_refused,
    a_list_is_never_older_than_the_write_before_it,
    a_list_at_an_exact_version_shows_what_was_deleted_since,
    a_list_not_older_than_a_version_shows_the_present,
    a_list_of_a_namespace_that_nobody_made_is_empty,
    lists_are_in_order_of_namespace_and_name,
    parameters_that_nobody_knows_are_ignored,
    a_flag_is_false_only_by_name,
];

async fn leases(client: &Client, names: &[&str]) -> Vec<Value> {
    let mut created = Vec::new();
    for name in names {
        created.push(create(client, LEASES, named(name)).await);
    }
    created
}

fn token(page: &Value) -> &str {
    page["metadata"]["continue"].as_str().unwrap()
}

async fn next(client: &Client, uri: &str, page: &Value) -> Value {
    read(client, format!("{uri}&continue={}", token(page))).await
}

async fn pages_together_are_the_whole_list_at_one_version(client: Client) {
    let all = ["a", "b", "c", "d", "e"];
    leases(&client, &all).await;
    let whole = read(&client, LEASES).await;
    for limit in 1..=4 {
        let uri = format!("{LEASES}?limit={limit}");
        let mut page = read(&client, &uri).await;
        let shown = version(&page);
        let mut items = page["items"].as_array().unwrap().clone();
        while page["metadata"].get("continue").is_some() {
            assert_eq!(page["items"].as_array().unwrap().len(), limit);
            // Writes to other resources do not change the version of the list.
            create(&client, NODES, json!({ "metadata": { "generateName": "n-" } })).await;
            page = next(&client, &uri, &page).await;
            assert_eq!(version(&page), shown);
            items.extend(page["items"].as_array().unwrap().clone());
        }
        assert_eq!(json!(items), whole["items"]);
    }
}

async fn a_page_says_how_much_is_left_where_nothing_is_filtered(client: Client) {
    leases(&client, &["a", "b", "c", "d", "e"]).await;
    let left = |page: &Value| page["metadata"].get("remainingItemCount").cloned();
    let uri = format!("{LEASES}?limit=2");
    let first = read(&client, &uri).await;
    assert_eq!(left(&first), Some(json!(3)));
    let second = next(&client, &uri, &first).await;
    assert_eq!((names(&second), left(&second)), (vec!["c", "d"], Some(json!(1))));
    let third = next(&client, &uri, &second).await;
    assert_eq!((names(&third), left(&third)), (vec!["e"], None));
    assert_eq!(third["metadata"].get("continue"), None);
    for selector in ["labelSelector=!x", "fieldSelector=metadata.name!%3Dx"] {
        let page = read(&client, format!("{uri}&{selector}")).await;
        assert_eq!((names(&page), left(&page)), (vec!["a", "b"], None));
        assert!(page["metadata"].get("continue").is_some());
    }
}

async fn a_limit_of_the_whole_list_ends_it(client: Client) {
    leases(&client, &["a", "b", "c"]).await;
    for (query, expected) in rows! {
        "limit=3" => &["a", "b", "c"][..];
        "limit=4" => &["a", "b", "c"];
        "limit=500" => &["a", "b", "c"];
        "limit=9223372036854775807" => &["a", "b", "c"];
        "limit=1&fieldSelector=metadata.name%3Db" => &["b"];
    } {
        let page = read(&client, format!("{LEASES}?{query}")).await;
        assert_eq!(names(&page), expected);
        page.shows(json!({ "metadata.continue": null, "metadata.remainingItemCount": null }));
    }
}

async fn a_limit_that_is_no_positive_number(client: Client) {
    leases(&client, &["a", "b", "c"]).await;
    catch_up(&client, LEASES).await;
    for query in ["limit=0", "limit=-1", "limit=2&resourceVersion=0"] {
        let list = read(&client, format!("{LEASES}?{query}")).await;
        assert_eq!(names(&list), ["a", "b", "c"], "{query}");
        list.shows(json!({ "metadata.continue": null }));
    }
}

async fn pages_outlive_the_objects_that_they_show(client: Client) {
    let created = leases(&client, &["a", "b", "c", "d"]).await;
    let uri = format!("{LEASES}?limit=1");
    let first = read(&client, &uri).await;
    for name in ["a", "b", "c", "d"] {
        delete(&client, format!("{LEASES}/{name}"), Value::Null).await;
    }
    leases(&client, &["aa", "b", "z"]).await;
    let second = next(&client, &uri, &first).await;
    assert_eq!(names(&second), ["b"]);
    second.shows(json!({
        "items.0.metadata.uid": created[1]["metadata"]["uid"],
        "metadata.remainingItemCount": 2,
    }));
    let third = next(&client, &uri, &second).await;
    let last = next(&client, &uri, &third).await;
    assert_eq!((names(&third), names(&last)), (vec!["c"], vec!["d"]));
    // A token can be used again.
    assert_eq!(next(&client, &uri, &first).await, second);
}

async fn a_further_page_takes_the_selectors_and_the_limit_of_its_own_request(client: Client) {
    for (name, even) in [
        ("a", "false"),
        ("b", "true"),
        ("c", "false"),
        ("d", "true"),
        ("e", "false"),
    ] {
        create(&client, LEASES, labelled(name, &json!({ "even": even }))).await;
    }
    let first = read(&client, format!("{LEASES}?limit=1")).await;
    for (query, expected) in rows! {
        "labelSelector=even%3Dtrue" => &["b", "d"][..];
        "fieldSelector=metadata.name%3De" => &["e"];
        "limit=3" => &["b", "c", "d"];
        "foo=bar" => &["b", "c", "d", "e"];
    } {
        let page = next(&client, &format!("{LEASES}?{query}"), &first).await;
        assert_eq!(names(&page), expected, "{query}");
    }
    // With a selector, a page continues after the last object shown.
    let uri = format!("{LEASES}?limit=1&labelSelector=even%3Dtrue");
    let page = read(&client, &uri).await;
    assert_eq!(names(&page), ["b"]);
    assert_eq!(names(&next(&client, &uri, &page).await), ["d"]);
}

async fn a_page_goes_on_across_namespaces(client: Client) {
    let there = LEASES.replace("default", "kube-public");
    for (uri, name) in [(LEASES, "b"), (LEASES, "a"), (&there, "a"), (&there, "c")] {
        create(&client, uri, labelled(name, &json!({ "pages": "all" }))).await;
    }
    let uri = "/apis/coordination.k8s.io/v1/leases?labelSelector=pages%3Dall&limit=1";
    let mut page = read(&client, uri).await;
    for (namespace, name) in rows! {
        "default" => "a";
        "default" => "b";
        "kube-public" => "a";
        "kube-public" => "c";
    } {
        assert_eq!(names(&page), [name]);
        page.shows(json!({ "items.0.metadata.namespace": namespace }));
        if page["metadata"].get("continue").is_some() {
            page = next(&client, uri, &page).await;
        }
    }
    page.shows(json!({ "metadata.continue": null }));
    for name in ["a", "c"] {
        delete(&client, format!("{there}/{name}"), Value::Null).await;
    }
}

async fn a_token_goes_with_no_version(client: Client) {
    leases(&client, &["a", "b"]).await;
    let uri = format!("{LEASES}?limit=1");
    let page = read(&client, &uri).await;
    let further = format!("{uri}&continue={}", token(&page));
    lists(&client, format!("{further}&resourceVersion=0"), &["b"]).await;
    lists(&client, format!("{further}&resourceVersion="), &["b"]).await;
    let versioned = get(&client, format!("{further}&resourceVersion=5")).await;
    let message = "specifying resource version is not allowed when using continue";
    versioned.says(400, message);
    lists(&client, format!("{uri}&continue="), &["a"]).await;
    let broken = get(&client, format!("{uri}&continue=%21")).await;
    broken.is(400, "BadRequest");
    broken.begins(400, "invalid continue token: continue key is not valid");
}

async fn numbers_that_are_none_are_refused(client: Client) {
    for (parameter, value, why) in rows! {
        "limit", "abc" => "invalid syntax";
        "limit", "" => "invalid syntax";
        "limit", "1.5" => "invalid syntax";
        "limit", "99999999999999999999" => "value out of range";
        "timeoutSeconds", "10s" => "invalid syntax";
        "timeoutSeconds", "-99999999999999999999" => "value out of range";
    } {
        for watch in ["", "&watch=1"] {
            let refused = get(&client, format!("{LEASES}?{parameter}={value}{watch}")).await;
            refused.is(400, "BadRequest");
            refused.says(400, &format!("strconv.ParseInt: parsing \"{value}\": {why}"));
        }
    }
    for value in ["-1", "1x"] {
        let why = format!(
            "invalid resource version: resourceVersion: Invalid value: \"{value}\": strconv.ParseUint: parsing \
             \"{value}\": invalid syntax"
        );
        let refused = get(&client, format!("{LEASES}?resourceVersion={value}")).await;
        refused.says(400, &why);
    }
    read(&client, format!("{LEASES}?resourceVersion=01")).await;
}

async fn a_list_is_never_older_than_the_write_before_it(client: Client) {
    for number in 0..20 {
        let name = format!("w-{number:02}");
        let created = create(&client, LEASES, named(&name)).await;
        for uri in [
            LEASES.to_owned(),
            format!("{LEASES}?limit=500"),
            format!("{LEASES}?resourceVersion={}", version(&created)),
        ] {
            let list = read(&client, uri).await;
            assert!(version(&list) >= version(&created));
            assert_eq!(names(&list).len(), number + 1);
        }
    }
}

async fn a_list_at_an_exact_version_shows_what_was_deleted_since(client: Client) {
    let created = leases(&client, &["a", "b"]).await;
    let label = json!({ "metadata": { "labels": { "x": "y" } } });
    patch(&client, format!("{LEASES}/a"), MERGE, label).await;
    delete(&client, format!("{LEASES}/b"), Value::Null).await;
    let at = |version: u64| format!("{LEASES}?resourceVersionMatch=Exact&resourceVersion={version}");
    let then = read(&client, at(version(&created[1]))).await;
    assert_eq!(names(&then), ["a", "b"]);
    assert_eq!(version(&then), version(&created[1]));
    assert_eq!(then["items"][0]["metadata"].get("labels"), None);
    let before = read(&client, at(version(&created[0]))).await;
    assert_eq!(names(&before), ["a"]);
    // Pages of a past version show that version.
    let uri = format!("{}&limit=1", at(version(&created[1])));
    let page = read(&client, &uri).await;
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let rest = next(&client, &format!("{LEASES}?limit=1"), &page).await;
    assert_eq!((names(&rest), version(&rest)), (vec!["b"], version(&then)));
}

async fn a_list_not_older_than_a_version_shows_the_present(client: Client) {
    let created = leases(&client, &["a", "b", "c"]).await;
    let old = version(&created[0]);
    catch_up(&client, LEASES).await;
    for query in [
        format!("resourceVersion={old}"),
        format!("resourceVersion={old}&resourceVersionMatch=NotOlderThan"),
        "resourceVersion=0".to_owned(),
        "resourceVersion=0&resourceVersionMatch=NotOlderThan".to_owned(),
    ] {
        let list = read(&client, format!("{LEASES}?{query}")).await;
        assert_eq!(names(&list), ["a", "b", "c"], "{query}");
        assert!(version(&list) >= version(&created[2]));
    }
    let uri = format!("{LEASES}?resourceVersion={old}&resourceVersionMatch=NotOlderThan&limit=2");
    let page = read(&client, uri).await;
    assert_eq!(names(&page), ["a", "b"]);
    let rest = next(&client, &format!("{LEASES}?limit=2"), &page).await;
    assert_eq!(names(&rest), ["c"]);
    for query in ["resourceVersion=0", &format!("resourceVersion={old}")] {
        let read = get(&client, format!("{LEASES}/c?{query}")).await;
        assert_eq!(read.body, created[2]);
    }
}

async fn a_list_of_a_namespace_that_nobody_made_is_empty(client: Client) {
    let nowhere = LEASES.replace("default", "nowhere");
    let list = read(&client, &nowhere).await;
    list.shows(json!({ "items": [], "kind": "LeaseList" }));
    let one = get(&client, format!("{nowhere}/x")).await;
    one.says(404, "leases.coordination.k8s.io \"x\" not found");
}

async fn lists_are_in_order_of_namespace_and_name(client: Client) {
    leases(&client, &["b", "a-1", "a", "a.b", "ab", "c0", "c-0", "10", "9"]).await;
    let in_order = ["10", "9", "a", "a-1", "a.b", "ab", "b", "c-0", "c0"];
    lists(&client, LEASES, &in_order).await;
    catch_up(&client, LEASES).await;
    lists(&client, format!("{LEASES}?resourceVersion=0"), &in_order).await;
}

async fn parameters_that_nobody_knows_are_ignored(client: Client) {
    leases(&client, &["a"]).await;
    for query in "foo=bar Limit=0 pretty=false dryRun=All fieldManager=x && gracePeriodSeconds=x".split(' ') {
        lists(&client, format!("{LEASES}?{query}"), &["a"]).await;
    }
    let one = format!("{LEASES}/a?labelSelector=a%20in&limit=x&fieldSelector=x");
    read(&client, one).await.shows(json!({ "metadata.name": "a" }));
}

async fn a_flag_is_false_only_by_name(client: Client) {
    leases(&client, &["a"]).await;
    for query in ["watch=false", "watch=0", "watch=False"] {
        let list = get(&client, format!("{LEASES}?{query}")).await;
        assert_eq!(list.body["kind"], "LeaseList", "{query}");
    }
    for query in [
        "watch=true",
        "watch=1",
        "watch=yes",
        "watch=",
        "watch",
        "watch=TRUE",
    ] {
        let mut watch = Watch::open(&client, format!("{LEASES}?{query}")).await;
        assert_eq!(watch.line().await, "ADDED a", "{query}");
    }
}
