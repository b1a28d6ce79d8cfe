use rstest::rstest;
use serde_json::json;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[rstest]
#[case::the_same("12:00:00.2", "12:00:00.3", 0)]
#[case::the_fraction_is_unknown("12:00:00.9", "12:00:01.0", 0)]
#[case::the_answer_took_long("11:59:58", "12:00:05", 0)]
#[case::ahead("12:00:08", "12:00:09", 7)]
#[case::behind("11:59:49", "11:59:50", -10)]
fn the_skew_is_what_the_time_on_the_way_cannot_explain(
    #[case] before: &str,
    #[case] after: &str,
    #[case] seconds: i64,
) {
    let [before, after] = [before, after].map(|time| at(&format!("2026-01-01T{time}Z")));
    let skew = ahead(before, after, at("2026-01-01T12:00:00Z"));
    assert_eq!(skew, SignedDuration::from_secs(seconds));
}

const TTL: Fields = Fields {
    path: "/api/v1/nodes",
    subresource: "",
    fields: &["f:metadata", "f:annotations", "f:node.alpha.kubernetes.io/ttl"],
};
const PDB: Fields = Fields {
    path: "/apis/policy/v1/poddisruptionbudgets",
    subresource: "status",
    fields: &["f:status"],
};

/// An object created at 10:00 whose managedFields have one entry from 11:00.
fn owned(manager: &str, subresource: &str, fields: &Value) -> Value {
    json!({"metadata": {
        "name": "a", "creationTimestamp": "2026-01-01T10:00:00Z",
        "managedFields": [{
            "manager": manager, "operation": "Update", "subresource": subresource, "time": "2026-01-01T11:00:00Z",
            "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        }],
    }})
}

fn trace(fields: &Fields, object: Value) -> Option<(String, Timestamp)> {
    written(fields, "things", object).map(|trace| (trace.what, trace.at))
}

#[test]
fn an_entry_of_nothing_else_tells_when_the_loop_wrote() {
    let status = json!({"f:status": {"f:currentHealthy": {}, "f:disruptionsAllowed": {}}});
    let expected = ("it wrote things a".to_owned(), at("2026-01-01T11:00:00Z"));
    assert_eq!(
        trace(&PDB, owned(MANAGER, "status", &status)),
        Some(expected.clone())
    );
    let annotation =
        json!({"f:metadata": {"f:annotations": {".": {}, "f:node.alpha.kubernetes.io/ttl": {}}}});
    assert_eq!(trace(&TTL, owned(MANAGER, "", &annotation)), Some(expected));
}

#[test]
fn where_other_loops_share_the_entry_the_object_is_all_that_tells_the_time() {
    let shared = json!({
        "f:metadata": {"f:annotations": {"f:node.alpha.kubernetes.io/ttl": {}}}, "f:spec": {"f:podCIDR": {}},
    });
    let expected = ("it wrote things a".to_owned(), at("2026-01-01T10:00:00Z"));
    assert_eq!(trace(&TTL, owned(MANAGER, "", &shared)), Some(expected));
}

#[test]
fn what_others_wrote_or_elsewhere_is_no_trace() {
    let status = json!({"f:status": {"f:currentHealthy": {}}});
    assert_eq!(
        trace(&PDB, owned("disruption-controller", "status", &status)),
        None
    );
    assert_eq!(trace(&PDB, owned(MANAGER, "", &status)), None);
    let taints = json!({"f:spec": {"f:taints": {}}});
    assert_eq!(trace(&TTL, owned(MANAGER, "", &taints)), None);
    assert_eq!(trace(&TTL, json!({"metadata": {"name": "a"}})), None);
}

#[test]
fn an_event_of_the_built_in_loop_is_distinguished_from_one_of_ours() {
    let of_theirs = json!({
        "deprecatedSource": {"component": "taint-eviction-controller"},
        "reportingController": "taint-eviction-controller",
        "deprecatedLastTimestamp": "2026-01-01T11:00:00Z", "eventTime": null,
        "regarding": {"namespace": "default", "name": "p"},
    });
    let trace = told("taint-eviction-controller", &of_theirs).unwrap();
    assert_eq!(trace.what, "it wrote an event about default/p");
    assert_eq!(trace.at, at("2026-01-01T11:00:00Z"));
    let mut ours = of_theirs;
    ours["deprecatedSource"] = json!({});
    assert!(told("taint-eviction-controller", &ours).is_none());
}

#[rstest]
#[case::it_leads_and_runs_it(
    "[+]leaderElection ok\n[+]ttl-controller ok\n[+]namespace-controller ok\n",
    Some(true)
)]
#[case::it_fails("[-]ttl-controller failed: reason withheld\n", Some(true))]
#[case::it_leads_without_it(
    "[+]leaderElection ok\n[+]namespace-controller ok\nhealthz check passed\n",
    Some(false)
)]
#[case::it_does_not_lead("[+]leaderElection ok\nhealthz check passed\n", None)]
#[case::not_verbose("ok", None)]
fn the_health_of_a_leader_names_its_loops(#[case] page: &str, #[case] runs: Option<bool>) {
    assert_eq!(named_by_health(page, "ttl-controller"), runs);
}

#[test]
fn a_pod_that_has_ended_runs_nothing() {
    let mut pod = json!({
        "metadata": {"name": "kube-controller-manager-a"},
        "spec": {"nodeName": "a", "containers": [
            {"name": "kube-controller-manager", "command": ["kube-controller-manager", "--controllers=*"]},
        ]},
        "status": {"phase": "Running"},
    });
    let (name, manager) = manager_of_pod(&pod).unwrap();
    assert_eq!((&*name, &*manager.node), ("kube-controller-manager-a", "a"));
    assert_eq!(manager.controllers, Controllers::Set("*".to_owned()));
    pod["status"]["phase"] = json!("Failed");
    assert!(manager_of_pod(&pod).is_none());
}

#[test]
fn a_lease_ends_after_its_duration() {
    let lease = lease_of(&json!({
        "metadata": {"namespace": "kube-system"},
        "spec": {
            "holderIdentity": "a_1", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T10:00:00.000000Z",
            "renewTime": "2026-01-01T12:00:00.000000Z",
        },
    }));
    assert!(lease.is_held(at("2026-01-01T12:00:14Z")));
    assert!(!lease.is_held(at("2026-01-01T12:00:15Z")));
    assert_eq!(lease.host(), "a");
}
