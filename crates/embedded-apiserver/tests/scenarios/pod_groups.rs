//! `PodGroups` and their pods, on servers that serve `PodGroups`.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::pod;
use crate::protobuf_objects::compare;
use crate::rows;

crate::scenarios![with PodGroups:
    a_new_group_is_protected_and_has_no_status,
    a_group_keeps_its_claims_and_its_policy,
    a_group_has_one_policy,
    a_group_names_few_claims_and_each_once,
    a_group_tells_only_of_claims_that_it_names,
    an_apply_of_fewer_claims_of_a_group_takes_the_others_away,
    a_group_stays_until_it_is_released,
    a_pod_names_its_group,
    a_group_is_in_protobuf_what_it_is_in_json,
];

const PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";

fn group(name: &str, claims: &Value) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 2 } }, "resourceClaims": claims },
    })
}

fn from_template(name: &str) -> Value {
    json!({ "name": name, "resourceClaimTemplateName": "t" })
}

fn told(name: &str, claim: &str) -> Value {
    json!({ "name": name, "resourceClaimName": claim })
}

async fn a_new_group_is_protected_and_has_no_status(client: Client) {
    let claims = json!([from_template("a"), { "name": "b", "resourceClaimName": "c" }]);
    let mut object = group("new", &claims);
    object["status"] = json!({ "resourceClaimStatuses": [told("a", "x")] });
    let created = create(&client, POD_GROUPS, object).await;
    created.shows(json!({
        "kind": "PodGroup",
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "metadata.finalizers": [PROTECTION],
        "metadata.generation": null,
        "spec.disruptionMode": { "single": {} },
        "spec.schedulingPolicy": { "gang": { "minCount": 2 } },
        "spec.resourceClaims": claims,
        "status": {},
    }));
    let owned = created["metadata"]["managedFields"].to_string();
    assert!(!owned.contains("finalizers"), "{owned}");
}

async fn a_group_is_in_protobuf_what_it_is_in_json(client: Client) {
    compare(&client, POD_GROUPS, group("same", &json!([from_template("a")]))).await;
    release(&client, format!("{POD_GROUPS}/same")).await;
}

async fn a_group_keeps_its_claims_and_its_policy(client: Client) {
    let object = create(&client, POD_GROUPS, group("fixed", &json!([from_template("a")]))).await;
    let uri = format!("{POD_GROUPS}/fixed");
    let same = update(&client, &uri, object.clone()).await;
    assert_eq!(same["spec"], object["spec"]);
    for (spec, field, why) in rows! {
        json!({ "resourceClaims": [from_template("b")] }), "spec.resourceClaims" => "field is immutable";
        json!({ "workloadRef": { "workloadName": "w", "templateName": "t" } }), "spec.workloadRef" =>
            "field is immutable";
        json!({ "disruptionMode": { "single": null, "all": {} } }), "spec.disruptionMode" => "field is immutable";
        json!({ "schedulingPolicy": { "gang": { "minCount": 0 } } }), "spec.schedulingPolicy.gang.minCount" =>
            "Required value";
        json!({ "schedulingPolicy": { "gang": { "minCount": -1 } } }), "spec.schedulingPolicy.gang.minCount" =>
            "Invalid value: -1: must be greater than or equal to 1";
    } {
        let refused = patch(&client, &uri, MERGE, json!({ "spec": spec })).await;
        let text = message(&refused);
        assert!(
            text.contains(&format!("{field}: ")) && text.ends_with(why),
            "{refused:?}"
        );
    }
    let other = json!({ "spec": { "schedulingPolicy": { "basic": {}, "gang": null } } });
    patch(&client, &uri, MERGE, other).await.blames(&[
        ("spec.schedulingPolicy.basic", "Invalid"),
        ("spec.schedulingPolicy.gang", "Invalid"),
    ]);
    let larger = json!({ "spec": { "schedulingPolicy": { "gang": { "minCount": 3 } } } });
    let changed = merge(&client, &uri, larger).await;
    changed.shows(json!({ "spec.schedulingPolicy": { "gang": { "minCount": 3 } } }));
}

async fn a_group_has_one_policy(client: Client) {
    let with = async |policy: Value| {
        let spec = json!({ "schedulingPolicy": policy });
        let object = json!({ "metadata": { "name": "p" }, "spec": spec });
        message(&post(&client, POD_GROUPS, object).await).to_owned()
    };
    for (policy, why) in rows! {
        json!({}) => "spec.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`";
        json!({ "basic": {}, "gang": { "minCount": 1 } }) =>
            "spec.schedulingPolicy: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`";
        json!({ "gang": {} }) => "spec.schedulingPolicy.gang.minCount: Required value";
    } {
        let refused = with(policy).await;
        assert!(refused.ends_with(why), "{refused}");
    }
}

async fn a_group_names_few_claims_and_each_once(client: Client) {
    let many: Value = ["a", "b", "c", "d", "e"].into_iter().map(from_template).collect();
    let refused = post(&client, POD_GROUPS, group("many", &many)).await;
    let why = "spec.resourceClaims: Too many: 5: must have at most 4 items";
    let message = format!("PodGroup.scheduling.k8s.io \"many\" is invalid: {why}");
    refused.says(422, &message);
    let wrong = json!([
        from_template("a"),
        from_template("a"),
        { "name": "none" },
        { "name": "both", "resourceClaimName": "c", "resourceClaimTemplateName": "t" },
    ]);
    post(&client, POD_GROUPS, group("wrong", &wrong)).await.blames(&[
        ("spec.resourceClaims[1]", "Duplicate"),
        ("spec.resourceClaims[2]", "Invalid"),
        ("spec.resourceClaims[3]", "Invalid"),
    ]);
}

async fn a_group_tells_only_of_claims_that_it_names(client: Client) {
    let claims = json!([from_template("a"), from_template("b")]);
    create(&client, POD_GROUPS, group("teller", &claims)).await;
    let tell = async |statuses: &Value| {
        let body = json!({ "status": { "resourceClaimStatuses": statuses } });
        patch(&client, format!("{POD_GROUPS}/teller/status"), MERGE, body).await
    };
    tell(&json!([told("other", "x")])).await.says(
        422,
        "PodGroup.scheduling.k8s.io \"teller\" is invalid: status.resourceClaimStatuses[0].name: Invalid value: \
         \"other\": must match the name of an entry in `spec.resourceClaims`",
    );
    tell(&json!([told("a", "Wrong"), told("a", "x")])).await.blames(&[
        ("status.resourceClaimStatuses[1]", "Duplicate"),
        ("status.resourceClaimStatuses[0].resourceClaimName", "Invalid"),
    ]);
    let statuses = json!([{ "name": "a" }, told("b", "x")]);
    let answer = tell(&statuses).await;
    answer.shows(json!({ "code": 200, "status.resourceClaimStatuses": statuses }));
}

async fn an_apply_of_fewer_claims_of_a_group_takes_the_others_away(client: Client) {
    let claims = json!([from_template("a"), from_template("b")]);
    let created = create(&client, POD_GROUPS, group("applied", &claims)).await;
    let apply = async |statuses: Value| {
        let uri = format!("{POD_GROUPS}/applied/status?fieldManager=controller&force=true");
        let body = json!({
            "kind": "PodGroup",
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "metadata": { "name": "applied", "uid": created["metadata"]["uid"] },
            "status": { "resourceClaimStatuses": statuses },
        });
        let answer = patch(&client, uri, APPLY, body).await;
        assert_eq!(answer.code, 200, "{answer:?}");
        answer.body["status"]["resourceClaimStatuses"].clone()
    };
    let both = json!([told("a", "x"), told("b", "y")]);
    assert_eq!(apply(both.clone()).await, both);
    assert_eq!(apply(json!([told("b", "y")])).await, json!([told("b", "y")]));
}

async fn a_group_stays_until_it_is_released(client: Client) {
    create(&client, POD_GROUPS, group("going", &json!([]))).await;
    let uri = format!("{POD_GROUPS}/going");
    assert_eq!(delete(&client, &uri, json!({})).await.code, 200);
    assert!(read(&client, &uri).await["metadata"]["deletionTimestamp"].is_string());
    release(&client, &uri).await;
    is_gone(&client, &uri).await;
}

async fn a_pod_names_its_group(client: Client) {
    let in_group = |name: &str, group: &Value| pod(name, json!({ "schedulingGroup": group }));
    let named = json!({ "podGroupName": "g" });
    let created = create(&client, PODS, in_group("member", &named)).await;
    assert_eq!(created["spec"]["schedulingGroup"], named);
    for group in [json!({}), json!({ "podGroupName": "No" })] {
        let refused = post(&client, PODS, in_group("wrong", &group)).await;
        refused.blames(&[("spec.schedulingGroup.podGroupName", "Invalid")]);
    }
}
