//! Another writer that keeps undoing ours (CORE-17).

use controller_core::rival::manager_of;
use controller_testing::objects::{find, text};
use embedded_apiserver::{PODS, RESOURCE_CLAIMS};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{FINALIZER, World, made, request};

const RECORD: &str = "patch pods/status 200";
const WRITE_STATUS: &str = "patch resourceclaims/status 200";
const DELETE: &str = "delete resourceclaims 200";

/// A pod with the entries `a` and `b`, both of which have a claim.
async fn two_entries(world: &World) -> Vec<String> {
    world.template("t");
    world.pod_of("p", &[made("a", "t"), made("b", "t")]);
    world.settle().await;
    world.claims_of("p").into_values().collect()
}

/// How many of our calls were this.
fn count(calls: &[String], wanted: &str) -> usize {
    calls.iter().filter(|call| *call == wanted).count()
}

fn rivals_named(world: &World) -> Vec<String> {
    let mut events = world.events();
    events.retain(|event| event.contains("RivalWriter"));
    events
}

#[tokio::test(start_paused = true)]
async fn a_rival_that_drops_an_entry_gets_three_writes_and_then_ever_longer_peace() {
    let world = World::new();
    let controller = world.start();
    let claims = two_entries(&world).await;
    let mut per_ten_minutes = Vec::new();
    for _ in 0..6 {
        let mark = world.server.mark();
        for _ in 0..600 {
            if world.claims_of("p").len() == 2 {
                world.edit("p", |pod| {
                    let statuses = pod["status"]["resourceClaimStatuses"].as_array_mut().unwrap();
                    statuses.retain(|status| status["name"] != "b");
                });
            }
            world.pass(1).await;
        }
        per_ten_minutes.push(count(&world.calls_since(mark), RECORD));
    }
    // Two at once, for the first was that of both entries, then 1, 2, 4, 8, … minutes apart.
    assert_eq!(per_ten_minutes, [5, 1, 0, 1, 0, 0]);
    assert!(controller.metric("controller_rival_writes_total") >= 3);
    assert_eq!(
        rivals_named(&world),
        [
            "p Warning RivalWriter ResourceClaimController keeps undoing what is written to \
             status.resourceClaimStatuses of this and perhaps other objects; writes to them back off. Does the \
             built-in resourceclaim controller still run?"
        ]
    );
    world.pass(3600).await;
    assert_eq!(world.claims_of("p").into_values().collect::<Vec<_>>(), claims);
    assert_eq!(world.claims(), claims);
}

#[tokio::test(start_paused = true)]
async fn a_rival_that_names_another_claim_is_named_itself() {
    let world = World::new();
    let _controller = world.start();
    let claims = two_entries(&world).await;
    let mark = world.server.mark();
    let pods: Api<Pod> = Api::namespaced(world.server.client_as("meddler/1"), "default");
    for _ in 0..100 {
        let status = json!({ "status": { "resourceClaimStatuses": [
            { "name": "b", "resourceClaimName": "elsewhere" },
        ] } });
        pods.patch_status("p", &PatchParams::default(), &Patch::Strategic(status))
            .await
            .unwrap();
        world.settle().await;
    }
    let pod = world.get_of(&PODS, "p");
    let managed: Vec<_> = serde_json::from_value(pod["metadata"]["managedFields"].clone()).unwrap();
    let field = [
        "f:status",
        "f:resourceClaimStatuses",
        r#"k:{"name":"b"}"#,
        "f:resourceClaimName",
    ];
    assert_eq!(manager_of(&managed, &field).as_deref(), Some("meddler"));
    assert_eq!(count(&world.calls_since(mark), RECORD), 2);
    let named = rivals_named(&world);
    assert_eq!(named.len(), 1, "{named:?}");
    assert!(
        named[0].starts_with("p Warning RivalWriter meddler keeps"),
        "{named:?}"
    );
    world.pass(60).await;
    assert_eq!(world.claims_of("p").into_values().collect::<Vec<_>>(), claims);
    assert_eq!(world.claims(), claims);
}

#[tokio::test(start_paused = true)]
async fn the_built_in_loop_that_records_one_entry_at_a_time_starts_no_war() {
    let world = World::new();
    let _controller = world.start();
    let claims = two_entries(&world).await;
    let uid = world.get_of(&PODS, "p")["metadata"]["uid"].clone();
    let pods: Api<Pod> = Api::namespaced(world.server.client_as("kube-controller-manager/1"), "default");
    let mark = world.server.mark();
    for turn in 0..600 {
        let (entry, claim) = [("a", &claims[0]), ("b", &claims[1])][turn % 2];
        let apply = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "uid": uid },
            "status": { "resourceClaimStatuses": [{ "name": entry, "resourceClaimName": claim }] },
        });
        pods.patch_status(
            "p",
            &PatchParams::apply("ResourceClaimController").force(),
            &Patch::Apply(apply),
        )
        .await
        .unwrap();
        world.settle().await;
    }
    // Each of two entries twice at once, in the first minute of back-off nothing.
    assert_eq!(count(&world.calls_since(mark), RECORD), 4);
    assert_eq!(rivals_named(&world).len(), 1);
    world.pass(60).await;
    assert_eq!(world.claims_of("p").into_values().collect::<Vec<_>>(), claims);
    assert_eq!(world.claims(), claims);
}

#[tokio::test(start_paused = true)]
async fn what_is_new_in_a_status_is_written_whatever_another_keeps_undoing() {
    let world = World::new();
    let controller = world.start();
    world.template("t");
    let entries: Vec<_> = (0..6).map(|n| made(&format!("e{n}"), &format!("t{n}"))).collect();
    world.pod_of("p", &entries);
    // Six writes within a second, none of which undoes another.
    for n in 0..5 {
        world.template(&format!("t{n}"));
        world.settle().await;
        assert_eq!(world.claims_of("p").len(), n + 1);
    }
    assert_eq!(controller.metric("controller_rival_writes_total"), 0);
    for _ in 0..10 {
        world.edit("p", |pod| pod["status"]["resourceClaimStatuses"] = Value::Null);
        world.settle().await;
    }
    assert_eq!(world.claims_of("p").len(), 0);
    world.template("t5");
    world.settle().await;
    assert_eq!(world.claims_of("p").len(), 6);
}

#[tokio::test(start_paused = true)]
async fn records_of_ours_that_the_watch_shows_late_are_no_rivals() {
    let world = World::new();
    world.lag("pods", 3);
    let controller = world.start();
    let entries: Vec<_> = (0..6).map(|n| made(&format!("e{n}"), &format!("t{n}"))).collect();
    world.pod_of("p", &entries);
    world.pass(5).await;
    for n in 0..6 {
        world.template(&format!("t{n}"));
        world.settle().await;
        assert_eq!(world.claims_of("p").len(), n + 1);
    }
    world.pass(10).await;
    assert_eq!(world.claims_of("p").len(), 6);
    assert_eq!(controller.metric("controller_rival_writes_total"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_made_again_and_again_has_no_rival() {
    let world = World::new();
    let controller = world.start();
    world.template("t");
    for _ in 0..10 {
        world.pod("p");
        world.settle().await;
        world.schedule("p");
        world.finish("p");
        world.settle().await;
        world.delete("p");
        world.settle().await;
        assert_eq!(world.claims(), Vec::<String>::new());
    }
    assert_eq!(controller.metric("controller_rival_writes_total"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_another_keeps_undoing_keeps_nobody_from_the_reservation() {
    let world = World::new();
    let _controller = world.start();
    let claims = two_entries(&world).await;
    for _ in 0..10 {
        world.edit("p", |pod| pod["status"]["resourceClaimStatuses"] = Value::Null);
        world.settle().await;
    }
    assert_eq!(world.claims_of("p").len(), 0);
    for claim in &claims {
        world.allocate(claim, &[]);
    }
    world.bind("p");
    world.settle().await;
    for claim in &claims {
        assert_eq!(world.reserved(claim), ["p"]);
    }
    // And given back, recorded or not.
    world.finish("p");
    world.settle().await;
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_another_keeps_taking_off_is_back_within_a_minute() {
    let world = World::new();
    let controller = world.start();
    world.template("t");
    world.pod("p");
    world.settle().await;
    let claim = world.claim_of("p");
    world.schedule("p");
    world.settle().await;
    let mark = world.server.mark();
    for _ in 0..600 {
        if !world.reserved(&claim).is_empty() {
            world.edit_claim(&claim, |claim| claim["status"]["reservedFor"] = Value::Null);
        }
        world.pass(1).await;
    }
    // Three at once, then 1, 2, 4, … seconds apart, and a minute at most.
    let writes = count(&world.calls_since(mark), WRITE_STATUS);
    assert!((15..=18).contains(&writes), "{writes}");
    assert!(controller.metric("controller_rival_writes_total") >= 3);
    let named = rivals_named(&world);
    assert_eq!(named.len(), 1, "{named:?}");
    assert!(named[0].starts_with(&format!(
        "{claim} Warning RivalWriter an unknown field manager keeps taking a pod that runs off status.reservedFor"
    )));
    world.pass(60).await;
    assert_eq!(world.reserved(&claim), ["p"]);
    assert!(world.is_allocated(&claim));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_made_for_a_done_pod_again_and_again_is_left_for_a_while() {
    let world = World::new();
    let controller = world.start();
    world.template("t");
    world.pod("p");
    world.settle().await;
    let first = world.get_claim(&world.claim_of("p"));
    world.finish("p");
    world.settle().await;
    assert_eq!(world.claims(), Vec::<String>::new());
    let mark = world.server.mark();
    for n in 0..100 {
        if world.claims().is_empty() {
            world.insert(json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {
                    "name": format!("p-gpu-{n}"),
                    "annotations": first["metadata"]["annotations"],
                    "ownerReferences": first["metadata"]["ownerReferences"],
                },
                "spec": { "devices": { "requests": [request()] } },
            }));
        }
        world.pass_millis(200).await;
    }
    assert_eq!(count(&world.calls_since(mark), DELETE), 2);
    assert_eq!(controller.metric("controller_rival_writes_total"), 3);
    assert_eq!(rivals_named(&world).len(), 1);
    let last = world.claims().pop().unwrap();
    // A device that it holds is given back at once, and the claim goes with it.
    world.allocate(&last, &["p"]);
    world.settle().await;
    let left = find(&world.server, &RESOURCE_CLAIMS, &last);
    assert!(left.is_none_or(|claim| claim["status"]["allocation"].is_null()));
    world.pass(60).await;
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn no_release_is_ever_put_off() {
    let world = World::new();
    let _controller = world.start();
    world.claim("shared");
    world.settle().await;
    for n in 0..100 {
        world.edit_claim("shared", |claim| {
            claim["metadata"]["finalizers"] = json!([FINALIZER]);
            claim["status"]["allocation"] = json!({ "devices": { "results": [
                { "request": "r", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0" },
            ] } });
            claim["status"]["reservedFor"] = json!([{ "resource": "pods", "name": "ghost", "uid": "ghost" }]);
        });
        world.settle().await;
        let claim = world.get_of(&RESOURCE_CLAIMS, "shared");
        assert!(claim["status"]["allocation"].is_null(), "allocated after {n}");
        assert_eq!(text(&claim["status"]["reservedFor"][0]["name"]), "");
    }
}
