//! `ResourceClaims`: writes of their status.

use http::header;
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::claim;

crate::scenarios![
    a_new_claim_is_neither_allocated_nor_reserved,
    a_claim_may_bring_a_name_beside_a_prefix,
    reservations_are_told_apart_by_uid,
    an_allocation_and_its_reservations_end_in_one_write,
    a_claim_is_reserved_only_while_it_is_allocated,
    reservations_are_complete_and_not_too_many,
    an_allocation_does_not_change_until_it_is_gone,
    an_allocation_is_of_what_the_claim_asks_for,
    what_drivers_report_ends_with_the_allocation,
    a_write_of_the_status_leaves_the_rest,
    a_claim_that_is_being_deleted_loses_reservations_and_gets_none,
    a_finalizer_holds_a_claim_until_it_is_taken_away,
    a_reservation_is_judged_on_the_version_that_it_names,
    admin_access_takes_a_label_of_the_namespace,
];

pub(crate) const GROUP: &str = "resource.k8s.io";
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

pub(crate) fn status_of(name: &str) -> String {
    format!("{CLAIMS}/{name}/status")
}

pub(crate) fn pod(name: &str, uid: &str) -> Value {
    json!({ "resource": "pods", "name": name, "uid": uid })
}

fn device(name: &str) -> Value {
    json!({ "driver": "gpu.example.com", "pool": "node", "device": name })
}

fn result(request: &str) -> Value {
    let mut result = device("gpu-0");
    result["request"] = json!(request);
    result
}

pub(crate) fn allocation(results: &[Value]) -> Value {
    json!({ "devices": { "results": results } })
}

pub(crate) fn status(status: impl Into<Value>) -> Value {
    json!({ "status": status.into() })
}

/// A status that removes the allocation and all reservations.
fn deallocation() -> Value {
    status(json!({ "allocation": null, "reservedFor": null }))
}

/// Creates a claim that is allocated, has the finalizer, and is reserved for `pods`.
pub(crate) async fn allocated(client: &Client, name: &str, pods: &[Value]) -> Value {
    let mut object = claim(name);
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    create(client, CLAIMS, object).await;
    let wanted = json!({ "allocation": allocation(&[result("r")]), "reservedFor": pods });
    merge(client, status_of(name), status(wanted)).await
}

pub(crate) async fn try_status(client: &Client, name: &str, wanted: Value) -> Answer {
    patch(client, status_of(name), STRATEGIC, status(wanted)).await
}

/// Fails unless a claim is refused for this one reason.
#[track_caller]
pub(crate) fn is_invalid(answer: &Answer, name: &str, field: &str, reason: &str, why: &str) {
    answer.blames(&[(field, reason)]);
    let refusal = format!("ResourceClaim.resource.k8s.io \"{name}\" is invalid: {field}: {why}");
    assert_eq!(message(answer), refusal);
}

async fn a_new_claim_is_neither_allocated_nor_reserved(client: Client) {
    let mut object = claim("new");
    let allocation = allocation(&[result("r")]);
    object["status"] = json!({ "allocation": allocation, "reservedFor": [pod("p", "1")] });
    let created = create(&client, CLAIMS, object).await;
    created.shows(json!({ "status": {}, "metadata.finalizers": null }));
    // A write of the main resource does not reserve it either.
    let uri = format!("{CLAIMS}/new");
    let written = merge(&client, uri, status(json!({ "allocation": allocation }))).await;
    assert_eq!(written, created);
}

async fn a_claim_may_bring_a_name_beside_a_prefix(client: Client) {
    let mut object = claim("p-gpu-12345");
    object["metadata"]["generateName"] = json!("p-gpu-");
    let created = create(&client, CLAIMS, object.clone()).await;
    created.shows(json!({ "metadata.name": "p-gpu-12345", "metadata.generateName": "p-gpu-" }));
    let again = post(&client, CLAIMS, object).await;
    again.is(409, "AlreadyExists");
    again.says(
        409,
        "resourceclaims.resource.k8s.io \"p-gpu-12345\" already exists, the server was not able to generate a unique \
         name for the object",
    );
    assert_eq!(again.headers[header::RETRY_AFTER], "1");
}

async fn reservations_are_told_apart_by_uid(client: Client) {
    allocated(&client, "shared", &[pod("a", "1")]).await;
    // The newest reservation comes first.
    for (entry, reserved) in [
        (pod("b", "2"), json!([pod("b", "2"), pod("a", "1")])),
        (pod("b", "2"), json!([pod("b", "2"), pod("a", "1")])),
        (json!({ "$patch": "delete", "uid": "1" }), json!([pod("b", "2")])),
        (
            json!({ "$patch": "delete", "uid": "none" }),
            json!([pod("b", "2")]),
        ),
    ] {
        let written = strategic(
            &client,
            status_of("shared"),
            status(json!({ "reservedFor": [entry] })),
        )
        .await;
        assert_eq!(written["status"]["reservedFor"], reserved);
    }
}

async fn an_allocation_and_its_reservations_end_in_one_write(client: Client) {
    allocated(&client, "done", &[pod("a", "1"), pod("b", "2")]).await;
    let cleared = strategic(&client, status_of("done"), deallocation()).await;
    cleared.shows(json!({ "status": {}, "metadata.finalizers": [FINALIZER] }));
    allocated(&client, "one", &[pod("a", "1")]).await;
    let clear = json!({ "allocation": null, "reservedFor": [{ "$patch": "delete", "uid": "1" }] });
    let cleared = strategic(&client, status_of("one"), status(clear)).await;
    assert_eq!(cleared["status"], json!({}));
}

async fn a_claim_is_reserved_only_while_it_is_allocated(client: Client) {
    const WHY: &str = "Forbidden: may not be specified when `allocated` is not set";
    create(&client, CLAIMS, claim("free")).await;
    let refused = try_status(&client, "free", json!({ "reservedFor": [pod("a", "1")] })).await;
    is_invalid(&refused, "free", "status.reservedFor", "Forbidden", WHY);
    allocated(&client, "taken", &[pod("a", "1")]).await;
    let refused = try_status(&client, "taken", json!({ "allocation": null })).await;
    is_invalid(&refused, "taken", "status.reservedFor", "Forbidden", WHY);
}

async fn reservations_are_complete_and_not_too_many(client: Client) {
    let object = without(allocated(&client, "full", &[]).await, "resourceVersion");
    let reserve = async |reserved: Value| {
        let mut object = object.clone();
        object["status"]["reservedFor"] = reserved;
        put(&client, status_of("full"), object).await
    };
    let many = |count: usize| -> Value { (0..count).map(|n| pod("p", &format!("u{n}"))).collect() };
    assert_eq!(reserve(many(256)).await.code, 200);
    let refused = reserve(many(257)).await;
    let why = "Too many: 257: must have at most 256 items";
    is_invalid(&refused, "full", "status.reservedFor", "TooMany", why);
    let refused = reserve(json!([pod("a", "1"), pod("b", "1")])).await;
    let message = "Duplicate value: {\"resource\":\"pods\",\"name\":\"b\",\"uid\":\"1\"}";
    is_invalid(&refused, "full", "status.reservedFor[1]", "Duplicate", message);
    reserve(json!([{ "apiGroup": "example.com" }])).await.blames(&[
        ("status.reservedFor[0].resource", "Required"),
        ("status.reservedFor[0].name", "Required"),
        ("status.reservedFor[0].uid", "Required"),
    ]);
    // A patch cannot add a reservation to a full claim either.
    assert_eq!(reserve(many(256)).await.code, 200);
    let refused = try_status(&client, "full", json!({ "reservedFor": [pod("p", "more")] })).await;
    refused.blames(&[("status.reservedFor", "TooMany")]);
}

async fn an_allocation_does_not_change_until_it_is_gone(client: Client) {
    allocated(&client, "fixed", &[]).await;
    let mut other = device("gpu-1");
    other["request"] = json!("r");
    let change = status(json!({ "allocation": allocation(&[other]) }));
    let refused = patch(&client, status_of("fixed"), MERGE, change.clone()).await;
    refused.blames(&[("status.allocation", "Invalid")]);
    let once = "Invalid value: null: field cannot be modified once set";
    is_invalid(&refused, "fixed", "status.allocation", "Invalid", once);
    merge(&client, status_of("fixed"), deallocation()).await;
    let again = merge(&client, status_of("fixed"), change.clone()).await;
    assert_eq!(again["status"]["allocation"], change["status"]["allocation"]);
}

async fn an_allocation_is_of_what_the_claim_asks_for(client: Client) {
    let mut object = claim("asked");
    object["spec"]["devices"]["requests"] = json!([
        { "name": "r", "exactly": { "deviceClassName": "c" } },
        { "name": "any", "firstAvailable": [
            { "name": "big", "deviceClassName": "c" },
            { "name": "small", "deviceClassName": "c" },
        ] },
    ]);
    create(&client, CLAIMS, object).await;
    let uri = format!("{}?dryRun=All", status_of("asked"));
    let allocate = async |result: Value| {
        let wanted = json!({ "allocation": allocation(&[result]) });
        patch(&client, &uri, MERGE, status(wanted)).await
    };
    for request in ["r", "any", "any/small"] {
        assert_eq!(allocate(result(request)).await.code, 200, "{request}");
    }
    for request in ["other", "any/medium", "r/big", "any/big/x"] {
        let refused = allocate(result(request)).await;
        let why = format!(
            "Invalid value: \"{request}\": must be the name of a request in the claim or the name of a request and a \
             subrequest separated by '/'"
        );
        let field = "status.allocation.devices.results[0].request";
        is_invalid(&refused, "asked", field, "Invalid", &why);
    }
    let refused = allocate(json!({ "request": "r" })).await;
    let mut fields = refused.causes();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            ("status.allocation.devices.results[0].device", "Invalid"),
            ("status.allocation.devices.results[0].driver", "Required"),
            ("status.allocation.devices.results[0].pool", "Required"),
        ]
    );
}

async fn what_drivers_report_ends_with_the_allocation(client: Client) {
    allocated(&client, "told", &[]).await;
    let refused = try_status(&client, "told", json!({ "devices": [device("other")] })).await;
    refused.blames(&[("status.devices[0]", "Invalid")]);
    let told = strategic(
        &client,
        status_of("told"),
        status(json!({ "devices": [device("gpu-0")] })),
    )
    .await;
    told.shows(json!({ "status.devices.0.device": "gpu-0" }));
    let cleared = strategic(&client, status_of("told"), status(json!({ "allocation": null }))).await;
    assert_eq!(cleared["status"], json!({}));
}

async fn a_write_of_the_status_leaves_the_rest(client: Client) {
    let before = allocated(&client, "kept", &[]).await;
    let body = json!({
        "metadata": { "labels": { "a": "b" }, "finalizers": [] },
        "spec": { "devices": { "requests": [] } },
    });
    assert_eq!(merge(&client, status_of("kept"), body).await, before);
}

async fn a_claim_that_is_being_deleted_loses_reservations_and_gets_none(client: Client) {
    allocated(&client, "going", &[pod("a", "1"), pod("b", "2")]).await;
    let uri = format!("{CLAIMS}/going");
    let deleted = delete(&client, &uri, json!({})).await;
    assert_eq!(deleted.code, 200);
    assert!(deleted.body["metadata"]["deletionTimestamp"].is_string());
    let again = post(&client, CLAIMS, claim("going")).await;
    let message = "object is being deleted: resourceclaims.resource.k8s.io \"going\" already exists";
    again.says(409, message);
    let refused = try_status(&client, "going", json!({ "reservedFor": [pod("c", "3")] })).await;
    let why = "Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
    is_invalid(&refused, "going", "status.reservedFor", "Forbidden", why);
    let fewer = json!({ "reservedFor": [{ "$patch": "delete", "uid": "1" }] });
    let fewer = strategic(&client, status_of("going"), status(fewer)).await;
    assert_eq!(fewer["status"]["reservedFor"], json!([pod("b", "2")]));
    strategic(&client, status_of("going"), deallocation()).await;
    release(&client, &uri).await;
    is_gone(&client, &uri).await;
}

async fn a_finalizer_holds_a_claim_until_it_is_taken_away(client: Client) {
    let object = allocated(&client, "held", &[]).await;
    let uri = format!("{CLAIMS}/held");
    let let_go = |version: &Value| {
        let uid = &object["metadata"]["uid"];
        json!({ "metadata": { "uid": uid, "resourceVersion": version, "finalizers": [] } })
    };
    // The merge patch would replace the list; the strategic merge patch merges it.
    let stale = patch(&client, &uri, MERGE, let_go(&json!("1"))).await;
    stale.is(409, "Conflict");
    let kept = strategic(&client, &uri, let_go(&object["metadata"]["resourceVersion"])).await;
    assert_eq!(kept["metadata"]["finalizers"], json!([FINALIZER]));
    let one = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [FINALIZER] } });
    let released = strategic(&client, &uri, one).await;
    assert_eq!(released["metadata"].get("finalizers"), None);
    // The claim is not being deleted, so it stays, even though it is allocated.
    assert_eq!(read(&client, &uri).await, released);
}

async fn a_reservation_is_judged_on_the_version_that_it_names(client: Client) {
    let object = allocated(&client, "raced", &[]).await;
    let reserve = async |uid: &Value, version: &Value, of: &str| {
        let body = json!({
            "metadata": { "uid": uid, "resourceVersion": version },
            "status": { "reservedFor": [pod(of, of)] },
        });
        patch(&client, status_of("raced"), STRATEGIC, body).await
    };
    let (uid, version) = (&object["metadata"]["uid"], &object["metadata"]["resourceVersion"]);
    let first = reserve(uid, version, "a").await;
    assert_eq!(first.code, 200, "{first:?}");
    reserve(uid, version, "b").await.is(409, "Conflict");
    let fresh = &first.body["metadata"]["resourceVersion"];
    let other = reserve(&json!("other"), fresh, "b").await;
    let message = "Invalid value: \"other\": field is immutable";
    is_invalid(&other, "raced", "metadata.uid", "Invalid", message);
}

async fn admin_access_takes_a_label_of_the_namespace(client: Client) {
    const LABEL: &str = "resource.kubernetes.io/admin-access";
    const WHY: &str = "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` \
                       label on the containing namespace";
    let mut object = claim("admin");
    object["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = json!(true);
    let template = json!({ "metadata": { "name": "admin" }, "spec": { "spec": object["spec"] } });
    let both = [
        (CLAIMS, "ResourceClaim", object),
        (CLAIM_TEMPLATES, "ResourceClaimTemplate", template),
    ];
    for (collection, kind, object) in &both {
        let refused = post(&client, collection, object.clone()).await;
        let field = "spec.devices.requests[0].adminAccess";
        refused.blames(&[(field, "Forbidden")]);
        let message = format!("{kind}.resource.k8s.io \"admin\" is invalid: {field}: {WHY}");
        refused.says(422, &message);
    }
    create(&client, CLAIMS, claim("plain")).await;
    let mut granted = result("r");
    granted["adminAccess"] = json!(true);
    let refused = try_status(&client, "plain", json!({ "allocation": allocation(&[granted]) })).await;
    let field = "status.allocation.devices.results[0].adminAccess";
    is_invalid(&refused, "plain", field, "Forbidden", WHY);
    let namespace = json!({ "metadata": { "name": "admins", "labels": { LABEL: "true" } } });
    create(&client, NAMESPACES, namespace).await;
    for (collection, _, object) in both {
        create(&client, &collection.replace("/default/", "/admins/"), object).await;
    }
}
