//! The permission to allocate and reserve `ResourceClaims`.

use embedded_apiserver::User;
use kube::Client;
use serde_json::{Value, json};

use crate::access::{alice, binding, grant_everywhere, resources};
use crate::claims::*;
use crate::http::*;
use crate::twin::{Ground, ground_of, repeated};

crate::scenarios![whoever_binds_claims_has_a_right_of_its_own];

/// Reserves the claim `bound` as alice until the answer has this code: new permissions take a moment.
async fn bind_until(alice: &Client, reserved: Value, code: u16) -> Answer {
    let wanted = json!({ "reservedFor": [reserved] });
    let bind = || try_status(alice, "bound", wanted.clone());
    repeated("binding", bind, |answer| answer.code == code).await
}

async fn grant_claims(ground: &Ground, name: &str, parts: &[&str], verbs: &[&str]) {
    grant_everywhere(ground, name, json!([resources(GROUP, parts, verbs)])).await;
}

async fn whoever_binds_claims_has_a_right_of_its_own(ground: Ground) {
    let object = allocated(&ground.admin, "bound", &[pod("a", "1")]).await;
    grant_claims(
        &ground,
        "claim-status",
        &["resourceclaims/status"],
        &["patch", "update"],
    )
    .await;
    let is_refused = |answer: &Answer, verb: &str| {
        let why = format!(
            "Forbidden: changing status.allocation or status.reservedFor requires \
             resource=\"resourceclaims/binding\", verb=\"{verb}\" permission: resourceclaims.resource.k8s.io is \
             forbidden: User \"alice\" cannot {verb} resource \"resourceclaims/binding\" in API group \
             \"resource.k8s.io\" at the cluster scope"
        );
        is_invalid(answer, "bound", "status.allocation", "Forbidden", &why);
    };
    is_refused(&bind_until(&ground.alice, pod("b", "2"), 422).await, "patch");
    let put_fewer = async |mut object: Value| {
        object["status"]["reservedFor"] = json!([]);
        put(&ground.alice, status_of("bound"), object).await
    };
    is_refused(&put_fewer(object.clone()).await, "update");
    // A write that changes neither needs only the permission for the status.
    let nothing = strategic(&ground.alice, status_of("bound"), status(json!({}))).await;
    assert_eq!(nothing, object);

    // The permission must be cluster-wide.
    let rules = json!([resources(GROUP, &["resourceclaims/binding"], &["patch"])]);
    create(
        &ground.admin,
        ROLES,
        json!({ "metadata": { "name": "binders" }, "rules": rules }),
    )
    .await;
    create(&ground.admin, ROLE_BINDINGS, binding("binders", "Role", &alice())).await;
    is_refused(&bind_until(&ground.alice, pod("b", "2"), 422).await, "patch");
    grant_everywhere(&ground, "claim-binding", rules).await;
    let bound = bind_until(&ground.alice, pod("b", "2"), 200).await;
    bound.shows(json!({ "status.reservedFor": [pod("b", "2"), pod("a", "1")] }));
    is_refused(&put_fewer(bound.body).await, "update");
}

#[tokio::test(start_paused = true)]
async fn the_right_to_bind_claims_is_used_by_who_binds_them() {
    let server = crate::server();
    let ground = ground_of(&server);
    allocated(&ground.admin, "bound", &[]).await;
    let parts = ["resourceclaims/status", "resourceclaims/binding"];
    grant_claims(&ground, "claims", &parts, &["patch"]).await;
    let unused = || server.unused_permissions(&User::new("alice", &["dev"]));
    let (to_bind, to_write) = (
        "patch resourceclaims.resource.k8s.io/binding",
        "patch resourceclaims.resource.k8s.io/status",
    );
    assert_eq!(unused(), [to_bind, to_write]);
    strategic(&ground.alice, status_of("bound"), status(json!({}))).await;
    assert_eq!(unused(), [to_bind]);
    bind_until(&ground.alice, pod("a", "1"), 200).await;
    assert_eq!(unused(), [""; 0]);
}

pub(crate) mod without_a_right_of_its_own {
    use super::*;

    crate::scenarios![with CoarseClaimStatus: whoever_writes_the_status_binds_claims];

    async fn whoever_writes_the_status_binds_claims(ground: Ground) {
        allocated(&ground.admin, "bound", &[]).await;
        grant_claims(&ground, "claim-status", &["resourceclaims/status"], &["patch"]).await;
        let bound = bind_until(&ground.alice, pod("a", "1"), 200).await;
        bound.shows(json!({ "status.reservedFor": [pod("a", "1")] }));
    }
}
