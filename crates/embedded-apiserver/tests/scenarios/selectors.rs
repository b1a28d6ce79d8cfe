//! Selectors: their syntax, and the selectable fields of each kind.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::{job, pod};
use crate::rows;

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

/// A selector, and the names that it selects, or code and message of the refusal.
type Case<'a> = (&'a str, &'a str);

async fn by(parameter: &str, client: &Client, uri: &str, cases: &[Case<'_>]) {
    for (selector, expected) in cases {
        let answer = get(client, format!("{uri}?{parameter}={}", escaped(selector))).await;
        let found = match answer.code {
            200 => names(&answer.body).join(" "),
            code => format!("{code} {}", message(&answer)),
        };
        assert_eq!(found, *expected, "{selector}");
    }
}

async fn by_fields(client: &Client, uri: &str, cases: &[Case<'_>]) {
    by("fieldSelector", client, uri, cases).await;
}

async fn by_labels(client: &Client, cases: &[Case<'_>]) {
    by("labelSelector", client, LEASES, cases).await;
}

async fn create_pod(client: &Client, name: &str, more: Value) {
    create(client, PODS, pod(name, more)).await;
}

async fn set_status(client: &Client, name: &str, status: Value) {
    let uri = format!("{PODS}/{name}/status");
    merge(client, uri, json!({ "status": status })).await;
}

async fn pods_are_selected_by_their_node(client: Client) {
    create_pod(&client, "here", json!({ "nodeName": "n1" })).await;
    create_pod(&client, "there", json!({ "nodeName": "n2" })).await;
    create_pod(&client, "waiting", json!({})).await;
    let cases = rows! {
        "spec.nodeName=n1" => "here";
        "spec.nodeName!=n1" => "there waiting";
        "spec.nodeName=" => "waiting";
        "spec.nodeName!=" => "here there";
        "spec.nodeName=n1,spec.nodeName=n2" => "";
    };
    by_fields(&client, PODS, &cases).await;
    by_fields(&client, "/api/v1/pods", &[("spec.nodeName=n2", "there")]).await;
}

async fn pods_are_selected_by_their_phase(client: Client) {
    create_pod(&client, "new", json!({})).await;
    for (name, phase) in [("runs", "Running"), ("ended", "Succeeded"), ("broke", "Failed")] {
        create_pod(&client, name, json!({})).await;
        set_status(&client, name, json!({ "phase": phase })).await;
    }
    let cases = rows! {
        "status.phase=Running" => "runs";
        "status.phase=Pending" => "new";
        "status.phase!=Running" => "broke ended new";
        "status.phase!=Succeeded,status.phase!=Failed" => "new runs";
        "status.phase=running" => "";
    };
    by_fields(&client, PODS, &cases).await;
}

async fn pods_are_selected_by_what_their_spec_says(client: Client) {
    create_pod(&client, "plain", json!({})).await;
    let special = json!({
        "restartPolicy": "Never",
        "schedulerName": "mine",
        "serviceAccountName": "robot",
        "hostNetwork": true,
    });
    create_pod(&client, "special", special).await;
    let cases = rows! {
        "spec.restartPolicy=Never" => "special";
        "spec.restartPolicy=Always" => "plain";
        "spec.schedulerName=mine" => "special";
        "spec.schedulerName=default-scheduler" => "plain";
        "spec.serviceAccountName=robot" => "special";
        "spec.serviceAccountName=" => "plain";
        "spec.hostNetwork=true" => "special";
        "spec.hostNetwork=false" => "plain";
        "spec.hostNetwork=True" => "";
    };
    by_fields(&client, PODS, &cases).await;
}

async fn pods_are_selected_by_what_their_status_says(client: Client) {
    create_pod(&client, "plain", json!({})).await;
    create_pod(&client, "placed", json!({})).await;
    let placed = json!({ "podIP": "10.1.2.3", "podIPs": [{ "ip": "10.1.2.3" }], "nominatedNodeName": "n7" });
    set_status(&client, "placed", placed).await;
    let cases = rows! {
        "status.podIP=10.1.2.3" => "placed";
        "status.podIP=" => "plain";
        "status.nominatedNodeName=n7" => "placed";
        "status.nominatedNodeName!=n7" => "plain";
        "status.hostIP=x" => "400 field label not supported: status.hostIP";
        "metadata.uid=x" => "400 field label not supported: metadata.uid";
        "metadata.labels=x" => "400 field label not supported: metadata.labels";
    };
    by_fields(&client, PODS, &cases).await;
}

async fn event(client: &Client, name: &str, mut about: Value, reason: &str) {
    about["namespace"] = json!("default");
    let event = json!({
        "metadata": { "name": name },
        "involvedObject": about,
        "reason": reason,
        "type": if reason == "Broke" { "Warning" } else { "Normal" },
        "reportingComponent": "reporter.example.com/one",
        "message": "something happened",
    });
    create(client, CORE_EVENTS, event).await;
}

async fn events_are_selected_by_what_they_are_about(client: Client) {
    let pod = json!({ "kind": "Pod", "name": "p", "uid": "u1", "apiVersion": "v1", "resourceVersion": "7" });
    let container = json!({ "kind": "Pod", "name": "p", "uid": "u2", "fieldPath": "spec.containers{c}" });
    event(&client, "of-pod", pod, "Went").await;
    event(&client, "of-part", container, "Went").await;
    event(&client, "of-node", json!({ "kind": "Node", "name": "n" }), "Went").await;
    let cases = rows! {
        "involvedObject.kind=Pod" => "of-part of-pod";
        "involvedObject.kind=Pod,involvedObject.uid=u1" => "of-pod";
        "involvedObject.name=n" => "of-node";
        "involvedObject.namespace=default" => "of-node of-part of-pod";
        "involvedObject.apiVersion=v1" => "of-pod";
        "involvedObject.resourceVersion=7" => "of-pod";
        "involvedObject.fieldPath=spec.containers{c}" => "of-part";
        "involvedObject.fieldPath=" => "of-node of-pod";
    };
    by_fields(&client, CORE_EVENTS, &cases).await;
    let cases = rows! {
        "regarding.kind=Pod" => "of-part of-pod";
        "regarding.uid=u2" => "of-part";
        "involvedObject.kind=Pod" => "400 field label not supported: involvedObject.kind";
    };
    by_fields(&client, EVENTS, &cases).await;
}

async fn events_are_selected_by_reason_type_and_reporter(client: Client) {
    event(&client, "fine", json!({ "kind": "Pod", "name": "p" }), "Went").await;
    event(&client, "sad", json!({ "kind": "Pod", "name": "p" }), "Broke").await;
    let cases = rows! {
        "reason=Broke" => "sad";
        "type=Normal" => "fine";
        "type!=Normal,reason=Broke" => "sad";
        "reportingComponent=reporter.example.com/one" => "fine sad";
        "reportingComponent=" => "";
        "message=something" => "400 field label not supported: message";
    };
    by_fields(&client, CORE_EVENTS, &cases).await;
}

async fn jobs_are_selected_by_how_many_succeeded(client: Client) {
    create(&client, JOBS, job("job")).await;
    let cases = rows! {
        "status.successful=0" => "job";
        "status.successful=1" => "";
        "status.successful!=1" => "job";
    };
    by_fields(&client, JOBS, &cases).await;
}

async fn field_terms_must_all_hold(client: Client) {
    create_pod(&client, "one", json!({ "nodeName": "n1" })).await;
    create_pod(&client, "two", json!({ "nodeName": "n1" })).await;
    let cases = rows! {
        "metadata.name=one,spec.nodeName=n1" => "one";
        "metadata.name=one,spec.nodeName=n2" => "";
        "metadata.name==two,spec.nodeName==n1" => "two";
        "metadata.name!=one,metadata.name!=two" => "";
        "" => "one two";
        "," => "one two";
        "metadata.name=one," => "one";
    };
    by_fields(&client, PODS, &cases).await;
}

async fn broken_field_selectors_are_refused(client: Client) {
    let cases = rows! {
        "metadata.name" => "400 invalid selector: 'metadata.name'; can't understand 'metadata.name'";
        "metadata.name=a,b" => "400 invalid selector: 'metadata.name=a,b'; can't understand 'b'";
        "=a" => "400 field label not supported: ";
        "metadata.name =a" => "400 field label not supported: metadata.name ";
    };
    by_fields(&client, PODS, &cases).await;
}

async fn labelled(client: &Client, name: &str, labels: Value) {
    let object = json!({ "metadata": { "name": name, "labels": labels } });
    create(client, LEASES, object).await;
}

async fn label_selectors_take_blanks_and_empty_values(client: Client) {
    labelled(&client, "b", json!({ "a": "b" })).await;
    labelled(&client, "empty", json!({ "a": "" })).await;
    labelled(&client, "long", json!({ "example.com/x.y_z": "V-1.0_a" })).await;
    labelled(&client, "words", json!({ "in": "notin" })).await;
    let cases = rows! {
        "a = b" => "b";
        "  a  in  ( b , c )  " => "b";
        "a\tin\t(b)" => "b";
        "a in(b)" => "b";
        "a=" => "empty";
        "a==" => "empty";
        "a in ()" => "empty";
        "a in (b,)" => "b empty";
        "a in (,b)" => "b empty";
        "a!=" => "b long words";
        "example.com/x.y_z=V-1.0_a" => "long";
        "example.com/x.y_z" => "long";
        "in" => "words";
        "in in (notin)" => "words";
        "in notin (in)" => "b empty long words";
        "! a" => "long words";
        "" => "b empty long words";
    };
    by_labels(&client, &cases).await;
}

async fn label_terms_about_an_absent_label(client: Client) {
    labelled(&client, "with", json!({ "a": "x" })).await;
    labelled(&client, "without", json!({ "b": "x" })).await;
    create(&client, LEASES, named("bare")).await;
    let cases = rows! {
        "a!=x" => "bare without";
        "a notin (x)" => "bare without";
        "a notin (y)" => "bare with without";
        "!a" => "bare without";
        "!a,!b" => "bare";
        "a,b" => "";
        "a in (x),!b" => "with";
        "a=x,a=y" => "";
        "a=x,a!=y" => "with";
    };
    by_labels(&client, &cases).await;
}

async fn broken_label_selectors_are_refused_word_for_word(client: Client) {
    const OPERATORS: &str = "expected: in, notin, =, ==, !=, gt, lt";
    for (selector, found) in [("a gt 1", "gt"), ("a b", "b"), ("a!", "!")] {
        let refusal = format!("400 unable to parse requirement: found '{found}', {OPERATORS}");
        by_labels(&client, &[(selector, &refusal)]).await;
    }
    let cases = rows! {
        "!a=b" => "400 found '=', expected: ',' or 'end of string'";
        "a=b c" => "400 found 'c', expected: ',' or 'end of string'";
        "a in (b))" => "400 found ')', expected: ',' or 'end of string'";
        "a," => "400 found '', expected: identifier after ','";
        "a,,b" => "400 found ',', expected: identifier after ','";
        ",a" => "400 found ',', expected: !, identifier, or 'end of string'";
        "=a" => "400 found '=', expected: !, identifier, or 'end of string'";
        "(a)" => "400 found '(', expected: !, identifier, or 'end of string'";
        "!" => "400 unable to parse requirement: found '', expected: identifier";
        "a=!b" => "400 unable to parse requirement: found '!', expected: identifier";
        "a===b" => "400 unable to parse requirement: found '=', expected: identifier";
        "a in " => "400 unable to parse requirement: found '' expected: '('";
        "a in b" => "400 unable to parse requirement: found 'b' expected: '('";
        "a in (b" => "400 unable to parse requirement: found '', expected: ',' or ')'";
        "a in (b c)" => "400 unable to parse requirement: found 'c', expected: ',' or ')'";
    };
    by_labels(&client, &cases).await;
}

async fn label_and_field_selectors_apply_together(client: Client) {
    for (name, value) in [("one", "x"), ("two", "x"), ("three", "y")] {
        labelled(&client, name, json!({ "a": value })).await;
    }
    let uri = format!("{LEASES}?labelSelector=a%3Dx&fieldSelector=metadata.name!%3Done");
    lists(&client, &uri, &["two"]).await;
    let uri = format!("{LEASES}?labelSelector=a%3Dy&fieldSelector=metadata.name%3Done");
    lists(&client, &uri, &[]).await;
    let both = format!("{LEASES}?labelSelector=a%3D-&fieldSelector=nothing%3Da");
    assert_eq!(get(&client, &both).await.code, 400);
}

async fn a_selector_that_is_repeated_counts_once(client: Client) {
    labelled(&client, "one", json!({ "a": "x" })).await;
    labelled(&client, "two", json!({ "a": "y" })).await;
    let uri = format!("{LEASES}?labelSelector=a%3Dx&labelSelector=a%3Dy");
    lists(&client, &uri, &["one"]).await;
}
