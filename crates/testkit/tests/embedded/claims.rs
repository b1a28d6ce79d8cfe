//! Claims of resources: who may write what of their status, and how pods name them.

use std::time::Duration;

use http::header;
use kube::Client;
use serde_json::{Value, json};
use testkit::embedded::User;
use tokio::time::sleep;

use crate::access::{alice, binding, grant_everywhere, resources};
use crate::http::*;
use crate::schema::{causes, claim, message};
use crate::twin::{Ground, ground_of};

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
    whoever_binds_claims_has_a_right_of_its_own,
    pods_name_each_claim_once_and_in_one_way,
    pods_tell_only_of_claims_that_they_name,
    an_apply_of_fewer_claims_of_a_pod_takes_the_others_away,
    claims_of_a_pod_are_told_apart_by_name,
    a_claim_for_extended_resources_is_of_a_container_that_asks_for_them,
];

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

fn status_of(name: &str) -> String {
    format!("{CLAIMS}/{name}/status")
}

fn pod(name: &str, uid: &str) -> Value {
    json!({ "resource": "pods", "name": name, "uid": uid })
}

fn result(request: &str) -> Value {
    json!({ "request": request, "driver": "gpu.example.com", "pool": "node", "device": "gpu-0" })
}

fn allocation(request: &str) -> Value {
    json!({ "devices": { "results": [result(request)] } })
}

fn status(status: impl Into<Value>) -> Value {
    json!({ "status": status.into() })
}

/// A claim that is allocated, protected and reserved for `pods`.
async fn allocated(client: &Client, name: &str, pods: &[Value]) -> Value {
    let mut object = claim(name);
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    create(client, CLAIMS, object).await;
    let wanted = status(json!({ "allocation": allocation("r"), "reservedFor": pods }));
    let answer = patch(client, status_of(name), MERGE, wanted).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    answer.body
}

async fn a_new_claim_is_neither_allocated_nor_reserved(client: Client) {
    let mut object = claim("new");
    object["status"] = json!({ "allocation": allocation("r"), "reservedFor": [pod("p", "1")] });
    let created = create(&client, CLAIMS, object).await;
    assert_eq!(created["status"], json!({}));
    assert_eq!(created["metadata"].get("finalizers"), None);
    // Nor does a write that is not of the status reserve it.
    let wanted = status(json!({ "allocation": allocation("r") }));
    let answer = patch(&client, format!("{CLAIMS}/new"), MERGE, wanted).await;
    assert_eq!((answer.code, &answer.body), (200, &created));
}

async fn a_claim_may_bring_a_name_beside_a_prefix(client: Client) {
    let mut object = claim("p-gpu-12345");
    object["metadata"]["generateName"] = json!("p-gpu-");
    let created = create(&client, CLAIMS, object.clone()).await;
    assert_eq!(created["metadata"]["name"], "p-gpu-12345");
    assert_eq!(created["metadata"]["generateName"], "p-gpu-");
    let again = post(&client, CLAIMS, object).await;
    assert_eq!(
        (again.code, &again.body["reason"], message(&again)),
        (
            409,
            &json!("AlreadyExists"),
            "resourceclaims.resource.k8s.io \"p-gpu-12345\" already exists, the server was not able to generate a \
             unique name for the object"
        )
    );
    assert_eq!(again.headers[header::RETRY_AFTER], "1");
}

async fn reservations_are_told_apart_by_uid(client: Client) {
    allocated(&client, "shared", &[pod("a", "1")]).await;
    let reserve = async |entry: Value| {
        let body = status(json!({ "reservedFor": [entry] }));
        let answer = patch(&client, status_of("shared"), STRATEGIC, body).await;
        assert_eq!(answer.code, 200, "{answer:?}");
        answer.body["status"]["reservedFor"].clone()
    };
    // The newest stands first.
    assert_eq!(
        reserve(pod("b", "2")).await,
        json!([pod("b", "2"), pod("a", "1")])
    );
    assert_eq!(
        reserve(pod("b", "2")).await,
        json!([pod("b", "2"), pod("a", "1")])
    );
    assert_eq!(
        reserve(json!({ "$patch": "delete", "uid": "1" })).await,
        json!([pod("b", "2")])
    );
    assert_eq!(
        reserve(json!({ "$patch": "delete", "uid": "none" })).await,
        json!([pod("b", "2")])
    );
}

async fn an_allocation_and_its_reservations_end_in_one_write(client: Client) {
    allocated(&client, "done", &[pod("a", "1"), pod("b", "2")]).await;
    let clear = status(json!({ "allocation": null, "reservedFor": null }));
    let cleared = patch(&client, status_of("done"), STRATEGIC, clear).await;
    assert_eq!((cleared.code, &cleared.body["status"]), (200, &json!({})));
    assert_eq!(cleared.body["metadata"]["finalizers"], json!([FINALIZER]));
    allocated(&client, "one", &[pod("a", "1")]).await;
    let clear = status(json!({ "allocation": null, "reservedFor": [{ "$patch": "delete", "uid": "1" }] }));
    let cleared = patch(&client, status_of("one"), STRATEGIC, clear).await;
    assert_eq!((cleared.code, &cleared.body["status"]), (200, &json!({})));
}

async fn a_claim_is_reserved_only_while_it_is_allocated(client: Client) {
    const WHY: &str =
        "is invalid: status.reservedFor: Forbidden: may not be specified when `allocated` is not set";
    create(&client, CLAIMS, claim("free")).await;
    let reserve = status(json!({ "reservedFor": [pod("a", "1")] }));
    let refused = patch(&client, status_of("free"), STRATEGIC, reserve).await;
    assert_eq!(
        message(&refused),
        format!("ResourceClaim.resource.k8s.io \"free\" {WHY}")
    );
    assert_eq!(causes(&refused), [("status.reservedFor", "FieldValueForbidden")]);
    allocated(&client, "taken", &[pod("a", "1")]).await;
    let clear = status(json!({ "allocation": null }));
    let refused = patch(&client, status_of("taken"), STRATEGIC, clear).await;
    assert_eq!(
        message(&refused),
        format!("ResourceClaim.resource.k8s.io \"taken\" {WHY}")
    );
}

async fn reservations_are_complete_and_not_too_many(client: Client) {
    let object = allocated(&client, "full", &[]).await;
    let reserve = async |reserved: Value| {
        let mut object = object.clone();
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        object["status"]["reservedFor"] = reserved;
        put(&client, status_of("full"), object).await
    };
    let many = |count: usize| -> Value { (0..count).map(|n| pod("p", &format!("u{n}"))).collect() };
    assert_eq!(reserve(many(256)).await.code, 200);
    let refused = reserve(many(257)).await;
    assert_eq!(
        message(&refused),
        "ResourceClaim.resource.k8s.io \"full\" is invalid: status.reservedFor: Too many: 257: must have at most 256 \
         items"
    );
    assert_eq!(causes(&refused), [("status.reservedFor", "FieldValueTooMany")]);
    let refused = reserve(json!([pod("a", "1"), pod("b", "1")])).await;
    assert_eq!(
        message(&refused),
        "ResourceClaim.resource.k8s.io \"full\" is invalid: status.reservedFor[1]: Duplicate value: \"1\""
    );
    assert_eq!(
        causes(&refused),
        [("status.reservedFor[1]", "FieldValueDuplicate")]
    );
    assert_eq!(
        causes(&reserve(json!([{ "apiGroup": "example.com" }])).await),
        [
            ("status.reservedFor[0].resource", "FieldValueRequired"),
            ("status.reservedFor[0].name", "FieldValueRequired"),
            ("status.reservedFor[0].uid", "FieldValueRequired"),
        ]
    );
    // A full claim takes nobody more by a patch either.
    assert_eq!(reserve(many(256)).await.code, 200);
    let one_more = status(json!({ "reservedFor": [pod("p", "more")] }));
    let refused = patch(&client, status_of("full"), STRATEGIC, one_more).await;
    assert_eq!(causes(&refused), [("status.reservedFor", "FieldValueTooMany")]);
}

async fn an_allocation_does_not_change_until_it_is_gone(client: Client) {
    allocated(&client, "fixed", &[]).await;
    let other = json!({ "devices": { "results": [
        { "request": "r", "driver": "gpu.example.com", "pool": "node", "device": "gpu-1" },
    ] } });
    let change = status(json!({ "allocation": other }));
    let refused = patch(&client, status_of("fixed"), MERGE, change.clone()).await;
    assert_eq!(causes(&refused), [("status.allocation", "FieldValueInvalid")]);
    assert!(message(&refused).ends_with(": field is immutable"), "{refused:?}");
    let clear = status(json!({ "allocation": null }));
    assert_eq!(patch(&client, status_of("fixed"), MERGE, clear).await.code, 200);
    let again = patch(&client, status_of("fixed"), MERGE, change).await;
    assert_eq!((again.code, &again.body["status"]["allocation"]), (200, &other));
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
    let allocate = async |results: Value| {
        let wanted = status(json!({ "allocation": { "devices": { "results": results } } }));
        patch(
            &client,
            format!("{}?dryRun=All", status_of("asked")),
            MERGE,
            wanted,
        )
        .await
    };
    for request in ["r", "any", "any/small"] {
        assert_eq!(allocate(json!([result(request)])).await.code, 200, "{request}");
    }
    for request in ["other", "any/medium", "r/big", "any/big/x"] {
        let refused = allocate(json!([result(request)])).await;
        assert_eq!(
            message(&refused),
            format!(
                "ResourceClaim.resource.k8s.io \"asked\" is invalid: status.allocation.devices.results[0].request: \
                 Invalid value: \"{request}\": must be the name of a request in the claim or the name of a request \
                 and a subrequest separated by '/'"
            )
        );
    }
    let at = |field: &str| format!("status.allocation.devices.results[0].{field}");
    let refused = allocate(json!([{ "request": "r" }])).await;
    let mut fields: Vec<_> = causes(&refused);
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            (&*at("device"), "FieldValueInvalid"),
            (&*at("driver"), "FieldValueRequired"),
            (&*at("pool"), "FieldValueRequired"),
        ]
    );
}

async fn what_drivers_report_ends_with_the_allocation(client: Client) {
    allocated(&client, "told", &[]).await;
    let report = |device: &str| {
        status(json!({ "devices": [{ "driver": "gpu.example.com", "pool": "node", "device": device }] }))
    };
    let refused = patch(&client, status_of("told"), STRATEGIC, report("other")).await;
    assert_eq!(causes(&refused), [("status.devices[0]", "FieldValueInvalid")]);
    let told = patch(&client, status_of("told"), STRATEGIC, report("gpu-0")).await;
    assert_eq!(told.code, 200, "{told:?}");
    assert_eq!(told.body["status"]["devices"][0]["device"], "gpu-0");
    let clear = status(json!({ "allocation": null }));
    let cleared = patch(&client, status_of("told"), STRATEGIC, clear).await;
    assert_eq!((cleared.code, &cleared.body["status"]), (200, &json!({})));
}

async fn a_write_of_the_status_leaves_the_rest(client: Client) {
    let before = allocated(&client, "kept", &[]).await;
    let body = json!({
        "metadata": { "labels": { "a": "b" }, "finalizers": [] },
        "spec": { "devices": { "requests": [] } },
    });
    let answer = patch(&client, status_of("kept"), MERGE, body).await;
    assert_eq!((answer.code, &answer.body), (200, &before));
}

async fn a_claim_that_is_being_deleted_loses_reservations_and_gets_none(client: Client) {
    allocated(&client, "going", &[pod("a", "1"), pod("b", "2")]).await;
    let answer = delete(&client, format!("{CLAIMS}/going"), json!({})).await;
    assert_eq!(answer.code, 200);
    assert!(answer.body["metadata"]["deletionTimestamp"].is_string());
    let again = post(&client, CLAIMS, claim("going")).await;
    assert_eq!(
        (again.code, message(&again)),
        (
            409,
            "object is being deleted: resourceclaims.resource.k8s.io \"going\" already exists"
        )
    );
    let reserve = |entry: Value| status(json!({ "reservedFor": [entry] }));
    let refused = patch(&client, status_of("going"), STRATEGIC, reserve(pod("c", "3"))).await;
    assert_eq!(
        message(&refused),
        "ResourceClaim.resource.k8s.io \"going\" is invalid: status.reservedFor: Forbidden: new entries may not be \
         added while `deallocationRequested` or `deletionTimestamp` are set"
    );
    let fewer = reserve(json!({ "$patch": "delete", "uid": "1" }));
    let answer = patch(&client, status_of("going"), STRATEGIC, fewer).await;
    assert_eq!(answer.body["status"]["reservedFor"], json!([pod("b", "2")]));
    let clear = status(json!({ "allocation": null, "reservedFor": null }));
    assert_eq!(
        patch(&client, status_of("going"), STRATEGIC, clear).await.code,
        200
    );
    let release = json!({ "metadata": { "finalizers": null } });
    assert_eq!(
        patch(&client, format!("{CLAIMS}/going"), MERGE, release)
            .await
            .code,
        200
    );
    assert_eq!(get(&client, format!("{CLAIMS}/going")).await.code, 404);
}

async fn a_finalizer_holds_a_claim_until_it_is_taken_away(client: Client) {
    let object = allocated(&client, "held", &[]).await;
    let uri = format!("{CLAIMS}/held");
    let release = |version: &Value| {
        json!({ "metadata": {
            "uid": object["metadata"]["uid"],
            "resourceVersion": version,
            "finalizers": [],
        } })
    };
    // The merge patch replaces the list, the strategic one merges it.
    let stale = patch(&client, &uri, MERGE, release(&json!("1"))).await;
    stale.is(409, "Conflict");
    let version = &object["metadata"]["resourceVersion"];
    let kept = patch(&client, &uri, STRATEGIC, release(version)).await;
    assert_eq!(kept.body["metadata"]["finalizers"], json!([FINALIZER]));
    let one = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [FINALIZER] } });
    let released = patch(&client, &uri, STRATEGIC, one).await;
    assert_eq!(released.code, 200, "{released:?}");
    assert_eq!(released.body["metadata"].get("finalizers"), None);
    // Without a deletion it stays, even if it is still allocated.
    assert_eq!(get(&client, &uri).await.body, released.body);
}

async fn a_reservation_is_judged_on_the_version_that_it_names(client: Client) {
    let object = allocated(&client, "raced", &[]).await;
    let reserve = |uid: &Value, version: &Value, of: &str| {
        json!({
            "metadata": { "uid": uid, "resourceVersion": version },
            "status": { "reservedFor": [pod(of, of)] },
        })
    };
    let uid = &object["metadata"]["uid"];
    let version = &object["metadata"]["resourceVersion"];
    let first = patch(&client, status_of("raced"), STRATEGIC, reserve(uid, version, "a")).await;
    assert_eq!(first.code, 200, "{first:?}");
    let second = patch(&client, status_of("raced"), STRATEGIC, reserve(uid, version, "b")).await;
    second.is(409, "Conflict");
    let fresh = &first.body["metadata"]["resourceVersion"];
    let other = patch(
        &client,
        status_of("raced"),
        STRATEGIC,
        reserve(&json!("other"), fresh, "b"),
    )
    .await;
    assert_eq!(
        (other.code, message(&other)),
        (
            422,
            "ResourceClaim.resource.k8s.io \"raced\" is invalid: metadata.uid: Invalid value: \"other\": field is \
             immutable"
        )
    );
}

async fn admin_access_takes_a_label_of_the_namespace(client: Client) {
    const LABEL: &str = "resource.kubernetes.io/admin-access";
    const WHY: &str = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the \
                       containing namespace";
    let mut object = claim("admin");
    object["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = json!(true);
    let template = json!({ "metadata": { "name": "admin" }, "spec": { "spec": object["spec"] } });
    for (collection, object, kind) in [
        (CLAIMS, &object, "ResourceClaim"),
        (CLAIM_TEMPLATES, &template, "ResourceClaimTemplate"),
    ] {
        let refused = post(&client, collection, object.clone()).await;
        assert_eq!(
            message(&refused),
            format!(
                "{kind}.resource.k8s.io \"admin\" is invalid: spec.devices.requests[0].adminAccess: Forbidden: {WHY}"
            )
        );
        assert_eq!(
            causes(&refused),
            [("spec.devices.requests[0].adminAccess", "FieldValueForbidden")]
        );
    }
    create(&client, CLAIMS, claim("plain")).await;
    let mut granted = result("r");
    granted["adminAccess"] = json!(true);
    let wanted = status(json!({ "allocation": { "devices": { "results": [granted] } } }));
    let refused = patch(&client, status_of("plain"), MERGE, wanted).await;
    assert_eq!(
        message(&refused),
        format!(
            "ResourceClaim.resource.k8s.io \"plain\" is invalid: status.allocation.devices.results[0].adminAccess: \
             Forbidden: {WHY}"
        )
    );
    let namespace = json!({ "metadata": { "name": "admins", "labels": { LABEL: "true" } } });
    create(&client, NAMESPACES, namespace).await;
    for (collection, object) in [(CLAIMS, object), (CLAIM_TEMPLATES, template)] {
        create(&client, &collection.replace("/default/", "/admins/"), object).await;
    }
}

/// Reserves the claim `bound` as alice until the right that was given last counts: the answer is of this code.
async fn bind_until(alice: &Client, reserved: Value, code: u16) -> Answer {
    let body = status(json!({ "reservedFor": [reserved] }));
    for _ in 0..500 {
        let answer = patch(alice, status_of("bound"), STRATEGIC, body.clone()).await;
        if answer.code == code {
            return answer;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("never {code}")
}

async fn whoever_binds_claims_has_a_right_of_its_own(ground: Ground) {
    const GROUP: &str = "resource.k8s.io";
    let object = allocated(&ground.admin, "bound", &[pod("a", "1")]).await;
    grant_everywhere(
        &ground,
        "claim-status",
        json!([resources(GROUP, &["resourceclaims/status"], &["patch", "update"])]),
    )
    .await;
    let refused = bind_until(&ground.alice, pod("b", "2"), 422).await;
    let refusal = |verb: &str| {
        format!(
            "ResourceClaim.resource.k8s.io \"bound\" is invalid: status.allocation: Forbidden: changing \
             status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"{verb}\" \
             permission: resourceclaims.resource.k8s.io is forbidden: User \"alice\" cannot {verb} resource \
             \"resourceclaims/binding\" in API group \"resource.k8s.io\" at the cluster scope"
        )
    };
    assert_eq!(message(&refused), refusal("patch"));
    assert_eq!(causes(&refused), [("status.allocation", "FieldValueForbidden")]);
    let mut fewer = object.clone();
    fewer["status"]["reservedFor"] = json!([]);
    let refused = put(&ground.alice, status_of("bound"), fewer).await;
    assert_eq!(message(&refused), refusal("update"));
    // What changes nothing of it needs no more than the right to the status.
    let nothing = patch(
        &ground.alice,
        status_of("bound"),
        STRATEGIC,
        json!({ "status": {} }),
    )
    .await;
    assert_eq!((nothing.code, &nothing.body), (200, &object));

    // A right in the namespace is not enough.
    let rules = json!([resources(GROUP, &["resourceclaims/binding"], &["patch"])]);
    let role = json!({ "metadata": { "name": "binders" }, "rules": rules });
    create(&ground.admin, ROLES, role).await;
    create(&ground.admin, ROLE_BINDINGS, binding("binders", "Role", &alice())).await;
    let still = bind_until(&ground.alice, pod("b", "2"), 422).await;
    assert_eq!(message(&still), refusal("patch"));
    grant_everywhere(&ground, "claim-binding", rules).await;
    let bound = bind_until(&ground.alice, pod("b", "2"), 200).await;
    assert_eq!(
        bound.body["status"]["reservedFor"],
        json!([pod("b", "2"), pod("a", "1")])
    );
    let mut fewer = bound.body.clone();
    fewer["status"]["reservedFor"] = json!([]);
    let refused = put(&ground.alice, status_of("bound"), fewer).await;
    assert_eq!(message(&refused), refusal("update"));
}

fn pod_with(name: &str, claims: &Value) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "c", "image": "i" }], "resourceClaims": claims },
    })
}

fn from_template(name: &str) -> Value {
    json!({ "name": name, "resourceClaimTemplateName": "t" })
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
    let refused = post(&client, PODS, pod_with("wrong", &claims)).await;
    assert_eq!(
        causes(&refused),
        [
            ("spec.resourceClaims[1].name", "FieldValueDuplicate"),
            ("spec.resourceClaims[2]", "FieldValueInvalid"),
            ("spec.resourceClaims[3]", "FieldValueInvalid"),
            ("spec.resourceClaims[4].name", "FieldValueRequired"),
            ("spec.resourceClaims[5].name", "FieldValueInvalid"),
            ("spec.resourceClaims[5].resourceClaimName", "FieldValueInvalid"),
            (
                "spec.resourceClaims[6].resourceClaimTemplateName",
                "FieldValueInvalid"
            ),
        ]
    );
    let right = json!([from_template("one"), { "name": "two", "resourceClaimName": "c" }]);
    let created = create(&client, PODS, pod_with("right", &right)).await;
    assert_eq!(created["spec"]["resourceClaims"], right);
}

async fn pods_tell_only_of_claims_that_they_name(client: Client) {
    create(
        &client,
        PODS,
        pod_with("teller", &json!([from_template("a"), from_template("b")])),
    )
    .await;
    let uri = format!("{PODS}/teller/status");
    let tell = async |statuses: Value| {
        patch(
            &client,
            &uri,
            MERGE,
            status(json!({ "resourceClaimStatuses": statuses })),
        )
        .await
    };
    let refused = tell(json!([{ "name": "other", "resourceClaimName": "x" }])).await;
    assert_eq!(
        message(&refused),
        "Pod \"teller\" is invalid: status.resourceClaimStatuses[0].name: Invalid value: \"other\": must match the \
         name of an entry in `spec.resourceClaims`"
    );
    let refused = tell(json!([{ "name": "a", "resourceClaimName": "Wrong" }, { "name": "a" }])).await;
    assert_eq!(
        causes(&refused),
        [
            (
                "status.resourceClaimStatuses[0].resourceClaimName",
                "FieldValueInvalid"
            ),
            ("status.resourceClaimStatuses[1].name", "FieldValueDuplicate"),
        ]
    );
    let told = json!([{ "name": "a" }, { "name": "b", "resourceClaimName": "x" }]);
    let answer = tell(told.clone()).await;
    assert_eq!(
        (answer.code, &answer.body["status"]["resourceClaimStatuses"]),
        (200, &told)
    );
}

async fn an_apply_of_fewer_claims_of_a_pod_takes_the_others_away(client: Client) {
    let claims = json!([from_template("a"), from_template("b")]);
    let created = create(&client, PODS, pod_with("applied", &claims)).await;
    let apply = async |manager: &str, uid: &Value, statuses: Value| {
        let uri = format!("{PODS}/applied/status?fieldManager={manager}&force=true");
        let body = json!({
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": { "name": "applied", "uid": uid },
            "status": { "resourceClaimStatuses": statuses },
        });
        patch(&client, uri, APPLY, body).await
    };
    let uid = &created["metadata"]["uid"];
    let (a, b) = (
        json!({ "name": "a", "resourceClaimName": "x" }),
        json!({ "name": "b", "resourceClaimName": "y" }),
    );
    let both = apply("controller", uid, json!([a, b])).await;
    assert_eq!(
        (both.code, &both.body["status"]["resourceClaimStatuses"]),
        (200, &json!([a, b]))
    );
    let same = apply("controller", uid, json!([b, a])).await;
    assert_eq!(same.code, 200, "{same:?}");
    let fewer = apply("controller", uid, json!([b])).await;
    assert_eq!(fewer.body["status"]["resourceClaimStatuses"], json!([b]));
    // Another manager's entries stay.
    apply("other", uid, json!([a])).await;
    let new = json!({ "name": "b", "resourceClaimName": "z" });
    let changed = apply("controller", uid, json!([new])).await;
    let mut left = changed.body["status"]["resourceClaimStatuses"].clone();
    left.as_array_mut()
        .unwrap()
        .sort_by_key(|entry| entry["name"].to_string());
    assert_eq!(left, json!([a, new]));
    let gone = apply("controller", &json!("other"), json!([b])).await;
    assert_eq!(
        (gone.code, message(&gone)),
        (
            422,
            "Pod \"applied\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable"
        )
    );
}

async fn claims_of_a_pod_are_told_apart_by_name(client: Client) {
    let claims = json!([from_template("a"), from_template("b")]);
    create(&client, PODS, pod_with("merged", &claims)).await;
    let uri = format!("{PODS}/merged/status");
    let tell = async |statuses: Value| {
        let body = status(json!({ "resourceClaimStatuses": statuses }));
        let answer = patch(&client, &uri, STRATEGIC, body).await;
        assert_eq!(answer.code, 200, "{answer:?}");
        let mut told = answer.body["status"]["resourceClaimStatuses"].clone();
        told.as_array_mut()
            .unwrap()
            .sort_by_key(|entry| entry["name"].to_string());
        told
    };
    let (a, b) = (
        json!({ "name": "a", "resourceClaimName": "x" }),
        json!({ "name": "b", "resourceClaimName": "y" }),
    );
    assert_eq!(tell(json!([a])).await, json!([a]));
    assert_eq!(tell(json!([b])).await, json!([a, b]));
    assert_eq!(
        tell(json!([{ "$patch": "delete", "name": "a" }])).await,
        json!([b])
    );
}

async fn a_claim_for_extended_resources_is_of_a_container_that_asks_for_them(client: Client) {
    const AT: &str = "status.extendedResourceClaimStatus";
    const RESOURCE: &str = "example.com/gpu";
    let mut asking = pod_with("extended", &json!([]));
    asking["spec"]["containers"][0]["resources"] =
        json!({ "requests": { RESOURCE: "1" }, "limits": { RESOURCE: "1" } });
    create(&client, PODS, asking).await;
    let uri = format!("{PODS}/extended/status");
    let mapping = |container: &str, resource: &str, request: &str| json!({ "containerName": container, "resourceName": resource, "requestName": request });
    let tell = async |claim: &str, mappings: Value| {
        let told = json!({ "resourceClaimName": claim, "requestMappings": mappings });
        patch(
            &client,
            &uri,
            MERGE,
            status(json!({ "extendedResourceClaimStatus": told })),
        )
        .await
    };
    let refused = tell("", json!([])).await;
    assert_eq!(
        causes(&refused),
        [
            (&*format!("{AT}.requestMappings"), "FieldValueRequired"),
            (&*format!("{AT}.resourceClaimName"), "FieldValueRequired"),
        ]
    );
    let wrong = json!([
        mapping("other", RESOURCE, "r"),
        mapping("c", "example.com/other", "r"),
        mapping("c", RESOURCE, "Wrong"),
        mapping("c", RESOURCE, "r"),
        mapping("c", RESOURCE, "r"),
    ]);
    let refused = tell("Wrong", wrong).await;
    assert_eq!(
        causes(&refused),
        [
            (
                &*format!("{AT}.requestMappings[0].containerName"),
                "FieldValueInvalid"
            ),
            (
                &*format!("{AT}.requestMappings[1].resourceName"),
                "FieldValueInvalid"
            ),
            (&*format!("{AT}.requestName"), "FieldValueInvalid"),
            (
                &*format!("{AT}.requestMappings[4].containerName"),
                "FieldValueDuplicate"
            ),
            (
                &*format!("{AT}.requestMappings[4].resourceName"),
                "FieldValueDuplicate"
            ),
            (
                &*format!("{AT}.requestMappings[4].requestName"),
                "FieldValueDuplicate"
            ),
            (&*format!("{AT}.resourceClaimName"), "FieldValueInvalid"),
        ]
    );
    let answer = tell("c-1", json!([mapping("c", RESOURCE, "r")])).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    assert_eq!(
        answer.body["status"]["extendedResourceClaimStatus"],
        json!({ "resourceClaimName": "c-1", "requestMappings": [mapping("c", RESOURCE, "r")] })
    );
}

#[tokio::test(start_paused = true)]
async fn the_right_to_bind_claims_is_used_by_who_binds_them() {
    const GROUP: &str = "resource.k8s.io";
    let server = crate::server();
    let ground = ground_of(&server);
    allocated(&ground.admin, "bound", &[]).await;
    let (parts, verbs) = (["resourceclaims/status", "resourceclaims/binding"], ["patch"]);
    grant_everywhere(&ground, "claims", json!([resources(GROUP, &parts, &verbs)])).await;
    let unused = || server.unused_permissions(&User::new("alice", &["dev"]));
    assert_eq!(
        unused(),
        [
            "patch resourceclaims.resource.k8s.io/binding",
            "patch resourceclaims.resource.k8s.io/status",
        ]
    );
    let nothing = json!({ "status": {} });
    patch(&ground.alice, status_of("bound"), STRATEGIC, nothing).await;
    assert_eq!(unused(), ["patch resourceclaims.resource.k8s.io/binding"]);
    bind_until(&ground.alice, pod("a", "1"), 200).await;
    assert_eq!(unused(), [""; 0]);
}

mod without_a_right_of_its_own {
    use super::*;

    crate::scenarios![with CoarseClaimStatus: whoever_writes_the_status_binds_claims];

    async fn whoever_writes_the_status_binds_claims(ground: Ground) {
        allocated(&ground.admin, "bound", &[]).await;
        grant_everywhere(
            &ground,
            "claim-status",
            json!([resources(
                "resource.k8s.io",
                &["resourceclaims/status"],
                &["patch"]
            )]),
        )
        .await;
        let bound = bind_until(&ground.alice, pod("a", "1"), 200).await;
        assert_eq!(bound.body["status"]["reservedFor"], json!([pod("a", "1")]));
    }
}
