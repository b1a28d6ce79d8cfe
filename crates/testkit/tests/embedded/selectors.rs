//! Selectors: their grammar, and the fields of each kind.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::kinds::pod_spec;

crate::scenarios![
    pods_are_selected_by_their_node,
    pods_are_selected_by_their_phase,
    pods_are_selected_by_what_their_spec_says,
    pods_are_selected_by_what_their_status_says,
    events_are_selected_by_what_they_are_about,
    events_are_selected_by_reason_type_and_reporter,
    jobs_are_selected_by_how_many_succeeded,
    field_terms_must_all_hold,
    broken_field_selectors_are_refused,
    label_selectors_take_blanks_and_empty_values,
    label_terms_about_an_absent_label,
    broken_label_selectors_are_refused_word_for_word,
    label_and_field_selectors_apply_together,
    a_selector_that_is_repeated_counts_once,
];

/// A query value: what the URL would take for its own is escaped.
fn escaped(selector: &str) -> String {
    selector
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// The names that a selector selects; the code and message of a refusal.
async fn selected(client: &Client, uri: &str, parameter: &str, selector: &str) -> String {
    let answer = get(client, format!("{uri}?{parameter}={}", escaped(selector))).await;
    match answer.code {
        200 => names(&answer.body).join(" "),
        code => {
            assert_eq!(answer.body["kind"], "Status");
            format!("{code} {}", answer.body["message"].as_str().unwrap())
        }
    }
}

async fn assert_fields(client: &Client, uri: &str, expected: &[(&str, &str)]) {
    for (selector, names) in expected {
        let found = selected(client, uri, "fieldSelector", selector).await;
        assert_eq!(found, *names, "{selector}");
    }
}

async fn assert_labels(client: &Client, uri: &str, expected: &[(&str, &str)]) {
    for (selector, names) in expected {
        let found = selected(client, uri, "labelSelector", selector).await;
        assert_eq!(found, *names, "{selector}");
    }
}

/// A pod whose spec says more than that there is a container.
async fn pod(client: &Client, name: &str, more: Value) -> Value {
    let mut spec = pod_spec();
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    create(
        client,
        PODS,
        json!({ "metadata": { "name": name }, "spec": spec }),
    )
    .await
}

async fn status(client: &Client, name: &str, status: Value) -> Value {
    let uri = format!("{PODS}/{name}/status");
    let answer = patch(client, uri, MERGE, json!({ "status": status })).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    answer.body
}

async fn pods_are_selected_by_their_node(client: Client) {
    pod(&client, "here", json!({ "nodeName": "n1" })).await;
    pod(&client, "there", json!({ "nodeName": "n2" })).await;
    pod(&client, "waiting", json!({})).await;
    assert_fields(
        &client,
        PODS,
        &[
            ("spec.nodeName=n1", "here"),
            ("spec.nodeName!=n1", "there waiting"),
            ("spec.nodeName=", "waiting"),
            ("spec.nodeName!=", "here there"),
            ("spec.nodeName=n1,spec.nodeName=n2", ""),
        ],
    )
    .await;
    assert_fields(&client, "/api/v1/pods", &[("spec.nodeName=n2", "there")]).await;
}

async fn pods_are_selected_by_their_phase(client: Client) {
    pod(&client, "new", json!({})).await;
    for (name, phase) in [("runs", "Running"), ("ended", "Succeeded"), ("broke", "Failed")] {
        pod(&client, name, json!({})).await;
        status(&client, name, json!({ "phase": phase })).await;
    }
    assert_fields(
        &client,
        PODS,
        &[
            ("status.phase=Running", "runs"),
            ("status.phase=Pending", "new"),
            ("status.phase!=Running", "broke ended new"),
            ("status.phase!=Succeeded,status.phase!=Failed", "new runs"),
            ("status.phase=running", ""),
        ],
    )
    .await;
}

async fn pods_are_selected_by_what_their_spec_says(client: Client) {
    pod(&client, "plain", json!({})).await;
    let special = json!({
        "restartPolicy": "Never",
        "schedulerName": "mine",
        "serviceAccountName": "robot",
        "hostNetwork": true,
    });
    pod(&client, "special", special).await;
    assert_fields(
        &client,
        PODS,
        &[
            ("spec.restartPolicy=Never", "special"),
            ("spec.restartPolicy=Always", "plain"),
            ("spec.schedulerName=mine", "special"),
            ("spec.schedulerName=default-scheduler", "plain"),
            ("spec.serviceAccountName=robot", "special"),
            ("spec.serviceAccountName=", "plain"),
            ("spec.hostNetwork=true", "special"),
            ("spec.hostNetwork=false", "plain"),
            ("spec.hostNetwork=True", ""),
        ],
    )
    .await;
}

async fn pods_are_selected_by_what_their_status_says(client: Client) {
    pod(&client, "plain", json!({})).await;
    pod(&client, "placed", json!({})).await;
    let placed = json!({
        "podIP": "10.1.2.3",
        "podIPs": [{ "ip": "10.1.2.3" }],
        "nominatedNodeName": "n7",
    });
    status(&client, "placed", placed).await;
    assert_fields(
        &client,
        PODS,
        &[
            ("status.podIP=10.1.2.3", "placed"),
            ("status.podIP=", "plain"),
            ("status.nominatedNodeName=n7", "placed"),
            ("status.nominatedNodeName!=n7", "plain"),
            ("status.hostIP=x", "400 field label not supported: status.hostIP"),
            ("metadata.uid=x", "400 field label not supported: metadata.uid"),
            (
                "metadata.labels=x",
                "400 field label not supported: metadata.labels",
            ),
        ],
    )
    .await;
}

async fn event(client: &Client, name: &str, about: Value, reason: &str) -> Value {
    let mut involved = about;
    involved["namespace"] = json!("default");
    let event = json!({
        "metadata": { "name": name },
        "involvedObject": involved,
        "reason": reason,
        "type": if reason == "Broke" { "Warning" } else { "Normal" },
        "reportingComponent": "reporter.example.com/one",
        "message": "something happened",
    });
    create(client, CORE_EVENTS, event).await
}

async fn events_are_selected_by_what_they_are_about(client: Client) {
    let pod = json!({ "kind": "Pod", "name": "p", "uid": "u1", "apiVersion": "v1", "resourceVersion": "7" });
    let container = json!({ "kind": "Pod", "name": "p", "uid": "u2", "fieldPath": "spec.containers{c}" });
    event(&client, "of-pod", pod, "Went").await;
    event(&client, "of-part", container, "Went").await;
    event(&client, "of-node", json!({ "kind": "Node", "name": "n" }), "Went").await;
    assert_fields(
        &client,
        CORE_EVENTS,
        &[
            ("involvedObject.kind=Pod", "of-part of-pod"),
            ("involvedObject.kind=Pod,involvedObject.uid=u1", "of-pod"),
            ("involvedObject.name=n", "of-node"),
            ("involvedObject.namespace=default", "of-node of-part of-pod"),
            ("involvedObject.apiVersion=v1", "of-pod"),
            ("involvedObject.resourceVersion=7", "of-pod"),
            ("involvedObject.fieldPath=spec.containers{c}", "of-part"),
            ("involvedObject.fieldPath=", "of-node of-pod"),
        ],
    )
    .await;
    assert_fields(
        &client,
        EVENTS,
        &[
            ("regarding.kind=Pod", "of-part of-pod"),
            ("regarding.uid=u2", "of-part"),
            (
                "involvedObject.kind=Pod",
                "400 field label not supported: involvedObject.kind",
            ),
        ],
    )
    .await;
}

async fn events_are_selected_by_reason_type_and_reporter(client: Client) {
    event(&client, "fine", json!({ "kind": "Pod", "name": "p" }), "Went").await;
    event(&client, "sad", json!({ "kind": "Pod", "name": "p" }), "Broke").await;
    assert_fields(
        &client,
        CORE_EVENTS,
        &[
            ("reason=Broke", "sad"),
            ("type=Normal", "fine"),
            ("type!=Normal,reason=Broke", "sad"),
            ("reportingComponent=reporter.example.com/one", "fine sad"),
            ("reportingComponent=", ""),
            ("message=something", "400 field label not supported: message"),
        ],
    )
    .await;
}

async fn jobs_are_selected_by_how_many_succeeded(client: Client) {
    let mut once = pod_spec();
    once["restartPolicy"] = json!("Never");
    let job = json!({ "metadata": { "name": "job" }, "spec": { "template": { "spec": once } } });
    create(&client, JOBS, job).await;
    assert_fields(
        &client,
        JOBS,
        &[
            ("status.successful=0", "job"),
            ("status.successful=1", ""),
            ("status.successful!=1", "job"),
        ],
    )
    .await;
}

async fn field_terms_must_all_hold(client: Client) {
    pod(&client, "one", json!({ "nodeName": "n1" })).await;
    pod(&client, "two", json!({ "nodeName": "n1" })).await;
    assert_fields(
        &client,
        PODS,
        &[
            ("metadata.name=one,spec.nodeName=n1", "one"),
            ("metadata.name=one,spec.nodeName=n2", ""),
            ("metadata.name==two,spec.nodeName==n1", "two"),
            ("metadata.name!=one,metadata.name!=two", ""),
            ("", "one two"),
            (",", "one two"),
            ("metadata.name=one,", "one"),
        ],
    )
    .await;
}

async fn broken_field_selectors_are_refused(client: Client) {
    assert_fields(
        &client,
        PODS,
        &[
            (
                "metadata.name",
                "400 invalid selector: 'metadata.name'; can't understand 'metadata.name'",
            ),
            (
                "metadata.name=a,b",
                "400 invalid selector: 'metadata.name=a,b'; can't understand 'b'",
            ),
            ("=a", "400 field label not supported: "),
            (
                "metadata.name =a",
                "400 field label not supported: metadata.name ",
            ),
        ],
    )
    .await;
}

async fn labelled(client: &Client, name: &str, labels: Value) -> Value {
    create(
        client,
        LEASES,
        json!({ "metadata": { "name": name, "labels": labels } }),
    )
    .await
}

async fn label_selectors_take_blanks_and_empty_values(client: Client) {
    labelled(&client, "b", json!({ "a": "b" })).await;
    labelled(&client, "empty", json!({ "a": "" })).await;
    labelled(&client, "long", json!({ "example.com/x.y_z": "V-1.0_a" })).await;
    labelled(&client, "words", json!({ "in": "notin" })).await;
    assert_labels(
        &client,
        LEASES,
        &[
            ("a = b", "b"),
            ("  a  in  ( b , c )  ", "b"),
            ("a\tin\t(b)", "b"),
            ("a in(b)", "b"),
            ("a=", "empty"),
            ("a==", "empty"),
            ("a in ()", "empty"),
            ("a in (b,)", "b empty"),
            ("a in (,b)", "b empty"),
            ("a!=", "b long words"),
            ("example.com/x.y_z=V-1.0_a", "long"),
            ("example.com/x.y_z", "long"),
            ("in", "words"),
            ("in in (notin)", "words"),
            ("in notin (in)", "b empty long words"),
            ("! a", "long words"),
            ("", "b empty long words"),
        ],
    )
    .await;
}

async fn label_terms_about_an_absent_label(client: Client) {
    labelled(&client, "with", json!({ "a": "x" })).await;
    labelled(&client, "without", json!({ "b": "x" })).await;
    create(&client, LEASES, json!({ "metadata": { "name": "bare" } })).await;
    assert_labels(
        &client,
        LEASES,
        &[
            ("a!=x", "bare without"),
            ("a notin (x)", "bare without"),
            ("a notin (y)", "bare with without"),
            ("!a", "bare without"),
            ("!a,!b", "bare"),
            ("a,b", ""),
            ("a in (x),!b", "with"),
            ("a=x,a=y", ""),
            ("a=x,a!=y", "with"),
        ],
    )
    .await;
}

async fn broken_label_selectors_are_refused_word_for_word(client: Client) {
    const OPERATORS: &str = "expected: in, notin, =, ==, !=, gt, lt";
    let unknown = |found: &str| format!("400 unable to parse requirement: found '{found}', {OPERATORS}");
    for (selector, refusal) in [
        ("a gt 1", unknown("gt")),
        ("a b", unknown("b")),
        ("a!", unknown("!")),
    ] {
        let found = selected(&client, LEASES, "labelSelector", selector).await;
        assert_eq!(found, refusal);
    }
    assert_labels(
        &client,
        LEASES,
        &[
            ("!a=b", "400 found '=', expected: ',' or 'end of string'"),
            ("a=b c", "400 found 'c', expected: ',' or 'end of string'"),
            ("a in (b))", "400 found ')', expected: ',' or 'end of string'"),
            ("a,", "400 found '', expected: identifier after ','"),
            ("a,,b", "400 found ',', expected: identifier after ','"),
            (",a", "400 found ',', expected: !, identifier, or 'end of string'"),
            ("=a", "400 found '=', expected: !, identifier, or 'end of string'"),
            (
                "(a)",
                "400 found '(', expected: !, identifier, or 'end of string'",
            ),
            (
                "!",
                "400 unable to parse requirement: found '', expected: identifier",
            ),
            (
                "a=!b",
                "400 unable to parse requirement: found '!', expected: identifier",
            ),
            (
                "a===b",
                "400 unable to parse requirement: found '=', expected: identifier",
            ),
            ("a in ", "400 unable to parse requirement: found '' expected: '('"),
            (
                "a in b",
                "400 unable to parse requirement: found 'b' expected: '('",
            ),
            (
                "a in (b",
                "400 unable to parse requirement: found '', expected: ',' or ')'",
            ),
            (
                "a in (b c)",
                "400 unable to parse requirement: found 'c', expected: ',' or ')'",
            ),
        ],
    )
    .await;
}

async fn label_and_field_selectors_apply_together(client: Client) {
    for (name, value) in [("one", "x"), ("two", "x"), ("three", "y")] {
        labelled(&client, name, json!({ "a": value })).await;
    }
    let uri = format!("{LEASES}?labelSelector=a%3Dx&fieldSelector=metadata.name!%3Done");
    assert_eq!(names(&get(&client, &uri).await.body), ["two"]);
    let uri = format!("{LEASES}?labelSelector=a%3Dy&fieldSelector=metadata.name%3Done");
    assert_eq!(names(&get(&client, &uri).await.body), [""; 0]);
    let both = format!("{LEASES}?labelSelector=a%3D-&fieldSelector=nothing%3Da");
    assert_eq!(get(&client, &both).await.code, 400);
}

async fn a_selector_that_is_repeated_counts_once(client: Client) {
    labelled(&client, "one", json!({ "a": "x" })).await;
    labelled(&client, "two", json!({ "a": "y" })).await;
    let uri = format!("{LEASES}?labelSelector=a%3Dx&labelSelector=a%3Dy");
    assert_eq!(names(&get(&client, &uri).await.body), ["one"]);
}
