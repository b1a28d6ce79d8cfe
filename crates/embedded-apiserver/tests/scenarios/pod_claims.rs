//! The claims of pods, and the status of these claims.

use kube::Client;
use serde_json::{Value, json};

use crate::claims::*;
use crate::http::*;
use crate::objects::pod as pod_with;

crate::scenarios![
    pods_name_each_claim_once_and_in_one_way,
    pods_tell_only_of_claims_that_they_name,
    an_apply_of_fewer_claims_of_a_pod_takes_the_others_away,
    claims_of_a_pod_are_told_apart_by_name,
    a_claim_for_extended_resources_is_of_a_container_that_asks_for_them,
];

fn from_template(name: &str) -> Value {
    json!({ "name": name, "resourceClaimTemplateName": "t" })
}

async fn create_pod(client: &Client, name: &str, claims: &Value) -> Value {
    create(client, PODS, pod_with(name, json!({ "resourceClaims": claims }))).await
}

async fn pods_name_each_claim_once_and_in_one_way(client: Client) {
    let claims = json!([
        from_template("one"),
        from_template("one"),
        { "name": "none" },
        { "name": "both", "resourceClaimName": "c", "resourceClaimTemplateName": "t" },
        { "resourceClaimName": "c" },
        { "name": "No", "resourceClaimName": "C" },
        { "name": "template", "resourceClaimTemplateName": "T" },
    ]);
    let refused = post(
        &client,
        PODS,
        pod_with("wrong", json!({ "resourceClaims": claims })),
    )
    .await;
    refused.blames(&[
        ("spec.resourceClaims[1].name", "Duplicate"),
        ("spec.resourceClaims[2]", "Invalid"),
        ("spec.resourceClaims[3]", "Invalid"),
        ("spec.resourceClaims[4].name", "Required"),
        ("spec.resourceClaims[5].name", "Invalid"),
        ("spec.resourceClaims[5].resourceClaimName", "Invalid"),
        ("spec.resourceClaims[6].resourceClaimTemplateName", "Invalid"),
    ]);
    let right = json!([from_template("one"), { "name": "two", "resourceClaimName": "c" }]);
    assert_eq!(
        create_pod(&client, "right", &right).await["spec"]["resourceClaims"],
        right
    );
}

async fn pods_tell_only_of_claims_that_they_name(client: Client) {
    let entries = json!([from_template("a"), from_template("b")]);
    create_pod(&client, "teller", &entries).await;
    let tell = async |statuses: &Value| {
        let body = status(json!({ "resourceClaimStatuses": statuses }));
        patch(&client, format!("{PODS}/teller/status"), MERGE, body).await
    };
    let refused = tell(&json!([{ "name": "other", "resourceClaimName": "x" }])).await;
    refused.says(
        422,
        "Pod \"teller\" is invalid: status.resourceClaimStatuses[0].name: Invalid value: \"other\": must match the \
         name of an entry in `spec.resourceClaims`",
    );
    let refused = tell(&json!([{ "name": "a", "resourceClaimName": "Wrong" }, { "name": "a" }])).await;
    refused.blames(&[
        ("status.resourceClaimStatuses[0].resourceClaimName", "Invalid"),
        ("status.resourceClaimStatuses[1].name", "Duplicate"),
    ]);
    let told = json!([{ "name": "a" }, { "name": "b", "resourceClaimName": "x" }]);
    tell(&told)
        .await
        .shows(json!({ "code": 200, "status.resourceClaimStatuses": told }));
}

/// The claim statuses of a pod or group, sorted by name.
fn told_claims(object: &Value) -> Value {
    let mut told = object["status"]["resourceClaimStatuses"].clone();
    told.as_array_mut()
        .unwrap()
        .sort_by_key(|entry| entry["name"].to_string());
    told
}

async fn an_apply_of_fewer_claims_of_a_pod_takes_the_others_away(client: Client) {
    let created = create_pod(
        &client,
        "applied",
        &json!([from_template("a"), from_template("b")]),
    )
    .await;
    let apply = async |manager: &str, uid: &Value, statuses: Value| {
        let body = json!({
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": { "name": "applied", "uid": uid },
            "status": { "resourceClaimStatuses": statuses },
        });
        let uri = format!("{PODS}/applied/status?fieldManager={manager}&force=true");
        patch(&client, uri, APPLY, body).await
    };
    let uid = &created["metadata"]["uid"];
    let [a, b] =
        [("a", "x"), ("b", "y")].map(|(name, claim)| json!({ "name": name, "resourceClaimName": claim }));
    let both = apply("controller", uid, json!([a, b])).await;
    both.shows(json!({ "code": 200, "status.resourceClaimStatuses": [a, b] }));
    assert_eq!(apply("controller", uid, json!([b, a])).await.code, 200);
    let fewer = apply("controller", uid, json!([b])).await;
    fewer.shows(json!({ "status.resourceClaimStatuses": [b] }));
    // The entries of other managers stay.
    apply("other", uid, json!([a])).await;
    let new = json!({ "name": "b", "resourceClaimName": "z" });
    let changed = apply("controller", uid, json!([new])).await;
    assert_eq!(told_claims(&changed.body), json!([a, new]));
    let gone = apply("controller", &json!("other"), json!([b])).await;
    let message = "Pod \"applied\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable";
    gone.says(422, message);
}

async fn claims_of_a_pod_are_told_apart_by_name(client: Client) {
    let entries = json!([from_template("a"), from_template("b")]);
    create_pod(&client, "merged", &entries).await;
    let tell = async |entry: &Value| {
        let body = status(json!({ "resourceClaimStatuses": [entry] }));
        told_claims(&strategic(&client, format!("{PODS}/merged/status"), body).await)
    };
    let [a, b] =
        [("a", "x"), ("b", "y")].map(|(name, claim)| json!({ "name": name, "resourceClaimName": claim }));
    assert_eq!(tell(&a).await, json!([a]));
    assert_eq!(tell(&b).await, json!([a, b]));
    assert_eq!(
        tell(&json!({ "$patch": "delete", "name": "a" })).await,
        json!([b])
    );
}

async fn a_claim_for_extended_resources_is_of_a_container_that_asks_for_them(client: Client) {
    const RESOURCE: &str = "example.com/gpu";
    let mut asking = pod_with("extended", json!({}));
    let one = json!({ RESOURCE: "1" });
    asking["spec"]["containers"][0]["resources"] = json!({ "requests": one, "limits": one });
    create(&client, PODS, asking).await;
    let mapping = |container: &str, resource: &str, request: &str| json!({ "containerName": container, "resourceName": resource, "requestName": request });
    let told =
        |claim: &str, mappings: &[Value]| json!({ "resourceClaimName": claim, "requestMappings": mappings });
    let tell = async |told: &Value| {
        let body = status(json!({ "extendedResourceClaimStatus": told }));
        patch(&client, format!("{PODS}/extended/status"), MERGE, body).await
    };
    tell(&told("", &[])).await.blames(&[
        ("status.extendedResourceClaimStatus.requestMappings", "Required"),
        ("status.extendedResourceClaimStatus.resourceClaimName", "Required"),
    ]);
    let wrong = [
        mapping("other", RESOURCE, "r"),
        mapping("c", "example.com/other", "r"),
        mapping("c", RESOURCE, "Wrong"),
        mapping("c", RESOURCE, "r"),
        mapping("c", RESOURCE, "r"),
    ];
    let refused = tell(&told("Wrong", &wrong)).await;
    let fields: Vec<_> = refused
        .causes()
        .into_iter()
        .map(|(field, reason)| {
            (
                field.trim_start_matches("status.extendedResourceClaimStatus."),
                reason,
            )
        })
        .collect();
    assert_eq!(
        fields,
        [
            ("requestMappings[0].containerName", "Invalid"),
            ("requestMappings[1].resourceName", "Invalid"),
            ("requestName", "Invalid"),
            ("requestMappings[4].containerName", "Duplicate"),
            ("requestMappings[4].resourceName", "Duplicate"),
            ("requestMappings[4].requestName", "Duplicate"),
            ("resourceClaimName", "Invalid"),
        ]
    );
    let right = told("c-1", &[mapping("c", RESOURCE, "r")]);
    tell(&right)
        .await
        .shows(json!({ "code": 200, "status.extendedResourceClaimStatus": right }));
}
