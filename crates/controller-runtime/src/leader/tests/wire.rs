//! The Lease on the wire.

use serde_json::{Value, json};

use crate::leader::lease::{Lease, micro_time};

fn round_trip(lease: &Value) -> Value {
    let lease: Lease = serde_json::from_value(lease.clone()).unwrap();
    serde_json::to_value(lease).unwrap()
}

#[test]
fn a_lease_goes_back_as_it_came() {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "ttl-controller",
            "namespace": "kube-system",
            "resourceVersion": "7",
            "labels": {"team": "a"},
            "managedFields": [{"manager": "x", "time": "9999-12-31T23:59:59Z"}],
            "somethingNew": {"deep": [1, 2]},
        },
        "spec": {
            "holderIdentity": "foo",
            "leaseDurationSeconds": 10,
            "acquireTime": "2026-01-01T00:00:00.000001Z",
            "renewTime": "2026-01-01T00:00:00.000002Z",
            "leaseTransitions": 1,
        },
    });
    assert_eq!(round_trip(&lease), lease);
}

#[test]
fn strange_but_legal_leases_are_read() {
    for spec in [
        json!(null),
        json!({}),
        json!({"holderIdentity": null, "renewTime": null}),
        json!({"renewTime": "0001-01-01T00:00:00.000000Z", "acquireTime": "9999-12-31T23:59:59.999999Z"}),
        json!({"leaseDurationSeconds": i32::MIN, "leaseTransitions": i32::MAX}),
        json!({"strategy": "OldestEmulationVersion", "preferredHolder": "b"}),
    ] {
        round_trip(&json!({"metadata": {"name": "a", "resourceVersion": "7"}, "spec": spec}));
    }
}

#[test]
fn an_answer_that_is_no_object_is_no_lease() {
    for answer in [
        json!({}),
        json!({"message": "Sign in to continue"}),
        json!({"metadata": {"name": "a"}}),
        json!({"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "us"}}),
    ] {
        assert!(serde_json::from_value::<Lease>(answer).is_err());
    }
}

#[test]
fn times_have_six_digits_and_utc() {
    for (time, text) in [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z"),
        ("2026-01-01T00:00:00.1234567Z", "2026-01-01T00:00:00.123456Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.000000Z"),
    ] {
        assert_eq!(micro_time(time.parse().unwrap()), text);
    }
}
