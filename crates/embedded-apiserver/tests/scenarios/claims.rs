//! A claim with many reservations.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::claim;

crate::scenarios![reservations_are_complete_and_not_too_many];

const STATUS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/full/status";

fn pod(name: &str, uid: &str) -> Value {
    json!({ "resource": "pods", "name": name, "uid": uid })
}

/// Fails unless the claim is refused for this one reason.
#[track_caller]
fn is_invalid(answer: &Answer, field: &str, reason: &str, why: &str) {
    answer.blames(&[(field, reason)]);
    answer.says(
        422,
        &format!("ResourceClaim.resource.k8s.io \"full\" is invalid: {field}: {why}"),
    );
}

async fn reservations_are_complete_and_not_too_many(client: Client) {
    create(&client, CLAIMS, claim("full")).await;
    let device = json!({ "driver": "gpu.example.com", "pool": "node", "device": "gpu-0", "request": "r" });
    let allocation = json!({ "allocation": { "devices": { "results": [device] } } });
    let allocated = merge(&client, STATUS, json!({ "status": allocation })).await;
    let object = without(allocated, "resourceVersion");
    let reserve = async |reserved: Value| {
        let mut object = object.clone();
        object["status"]["reservedFor"] = reserved;
        put(&client, STATUS, object).await
    };
    let many = |count: usize| -> Value { (0..count).map(|n| pod("p", &format!("u{n}"))).collect() };
    assert_eq!(reserve(many(256)).await.code, 200);
    let refused = reserve(many(257)).await;
    let why = "Too many: 257: must have at most 256 items";
    is_invalid(&refused, "status.reservedFor", "TooMany", why);
    let refused = reserve(json!([pod("a", "1"), pod("b", "1")])).await;
    let message = "Duplicate value: {\"resource\":\"pods\",\"name\":\"b\",\"uid\":\"1\"}";
    is_invalid(&refused, "status.reservedFor[1]", "Duplicate", message);
    reserve(json!([{ "apiGroup": "example.com" }])).await.blames(&[
        ("status.reservedFor[0].resource", "Required"),
        ("status.reservedFor[0].name", "Required"),
        ("status.reservedFor[0].uid", "Required"),
    ]);
    // A patch cannot add a reservation to a full claim either.
    assert_eq!(reserve(many(256)).await.code, 200);
    let refused = patch(
        &client,
        STATUS,
        STRATEGIC,
        json!({ "status": { "reservedFor": [pod("p", "more")] } }),
    )
    .await;
    refused.blames(&[("status.reservedFor", "TooMany")]);
}
