//! What `explain` prints.

use controller_core::config::Encoding;
use controller_core::meta::ObjectKey;
use controller_runtime::driver;
use controller_runtime::sender::{Caller, Sender};
use resourceclaim_controller::decide::Gates;
use resourceclaim_controller::explain::explain;
use serde_json::json;

use crate::world::{FINALIZER, World, made, own};

async fn explained(world: &World, name: &str) -> Option<String> {
    let sender = Sender::new(
        world.server.client(),
        Caller::new(world.clock.clone()),
        Encoding::default(),
    );
    let key = ObjectKey::namespaced("default", name);
    let explanation = driver::explain(sender, move |pass, _| explain(pass, Gates::default(), &key));
    explanation.await.ok()
}

#[tokio::test(start_paused = true)]
async fn the_entries_of_a_pod() {
    let world = World::with_template();
    world.claim("shared");
    world.pod_of(
        "p",
        &[
            own("shared", "shared"),
            own("missing", "none"),
            made("kept", "t"),
            made("new", "t"),
            made("gone", "t"),
            made("waits", "none"),
            made("free", "t"),
        ],
    );
    let controller = world.start_and_settle().await;
    controller.stop().await;
    let claims = world.claims_of("p");
    world.allocate("shared", &[]);
    world.allocate(&claims["kept"], &["p"]);
    world.delete_claim(&claims["new"]);
    world.delete_claim(&claims["gone"]);
    world.bind("p");
    world.edit("p", |pod| {
        let statuses = pod["status"]["resourceClaimStatuses"].as_array_mut().unwrap();
        statuses.retain(|status| status["name"] != "new");
        for status in statuses {
            if status["name"] == "free" {
                status.as_object_mut().unwrap().remove("resourceClaimName");
            }
        }
    });
    let text = explained(&world, "p").await.unwrap();
    let uid = world.consumer("p")["uid"].as_str().unwrap().into();
    let name = |entry, n| resourceclaim_controller::decide::claim_name("p", &uid, entry, n);
    let expected = format!(
        "Pod default/p, on node n\n\
         free: a claim from ResourceClaimTemplate t\n  \
           its status says that it needs none\n\
         gone: a claim from ResourceClaimTemplate t\n  \
           {} is gone, and stays recorded: the kubelet goes by its name\n\
         kept: a claim from ResourceClaimTemplate t\n  \
           {}: allocated, reserved for 1, protected by its finalizer\n\
         missing: ResourceClaim none\n  \
           none is not there; its user has to make it\n\
         new: a claim from ResourceClaimTemplate t\n  \
           to be made: {}\n\
         shared: ResourceClaim shared\n  \
           shared: allocated, reserved for nobody, protected by its finalizer\n  \
           to be reserved for pod p\n\
         waits: a claim from ResourceClaimTemplate none\n  \
           no claim can be made: ResourceClaimTemplate \"none\" not found\n",
        name("gone", 0),
        claims["kept"],
        name("new", 0),
    );
    assert_eq!(text, expected);
}

#[tokio::test(start_paused = true)]
async fn the_users_of_a_claim() {
    let world = World::with_template();
    let controller = world.start();
    world.pod("p");
    world.pod("q");
    world.settle().await;
    controller.stop().await;
    let claim = world.claim_of("p");
    world.allocate(&claim, &["p", "q"]);
    world.delete("q");
    world.finish("p");
    let text = explained(&world, &claim).await.unwrap();
    assert_eq!(
        text,
        format!(
            "ResourceClaim default/{claim}: allocated, reserved for 2, protected by its finalizer\n  \
               pod p is done\n  \
               pod q is gone\n\
             was made for pod p, which needs it no more\n\
             to be done: take 2 reservations off it, and its allocation\n\
             to be done: delete it\n\
             to be done: remove its finalizer\n"
        )
    );
    let of_pod = explained(&world, "p").await.unwrap();
    assert!(
        of_pod.starts_with(
            "Pod default/p, on no node yet\ngets no claims and no reservations any more: it has finished\n"
        ),
        "{of_pod}"
    );
    assert!(of_pod.ends_with(&text), "{of_pod}");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_a_crash_left() {
    let world = World::new();
    world.claim("left");
    world.edit_claim("left", |claim| {
        claim["metadata"]["finalizers"] = json!([FINALIZER]);
    });
    assert_eq!(
        explained(&world, "left").await.unwrap(),
        "ResourceClaim default/left: not allocated, reserved for nobody, protected by its finalizer\n\
         to be done: remove its finalizer, once it has stayed so for 5 min\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_claims_and_nothing_at_all() {
    let world = World::new();
    world.pod_with("p", &json!({ "containers": [] }));
    assert_eq!(
        explained(&world, "p").await.unwrap(),
        "Pod default/p, on no node yet\nuses no ResourceClaims\n"
    );
    assert_eq!(explained(&world, "none").await, None);
}
