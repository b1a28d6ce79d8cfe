//! Claims are reserved, given back and deleted.

mod ends;
mod extended;

use embedded_apiserver::{Fault, RequestVerb};
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{FINALIZER, World, claim, made, own};

/// A world with the user's claim `shared`, pods that use it, and our loop.
fn sharing(pods: &[&str]) -> World {
    let world = World::new();
    world.claim("shared");
    for pod in pods {
        world.pod_of(pod, &[own("gpu", "shared")]);
    }
    world
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_node_gets_its_claim_reserved() {
    let world = sharing(&["a", "b", "unbound"]);
    world.allocate("shared", &["a"]);
    world.bind("a");
    let _controller = world.start_and_settle().await;
    let mark = world.server.mark();
    let claim = world.get_claim("shared");
    world.bind("b");
    world.pass(60).await;
    let metadata = json!({
        "resourceVersion": claim["metadata"]["resourceVersion"], "uid": claim["metadata"]["uid"],
    });
    let patch = json!({ "metadata": metadata, "status": { "reservedFor": [world.consumer("b")] } });
    assert_eq!(
        world.requests_since(mark),
        [format!("patch default/resourceclaims/shared/status {patch}")]
    );
    assert_eq!(world.reserved("shared"), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_its_user_has_not_made_does_not_hold_up_the_others() {
    let world = World::new();
    world.claim("shared");
    world.pod_of("p", &[own("a", "missing"), own("b", "shared")]);
    world.allocate("shared", &[]);
    world.bind("p");
    let _controller = world.start_and_settle().await;
    assert_eq!(world.reserved("shared"), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_share_a_claim_do_not_conflict_with_each_other() {
    let pods: Vec<_> = (0..20).map(|n| format!("p{n:02}")).collect();
    let pods: Vec<_> = pods.iter().map(String::as_str).collect();
    let world = sharing(&pods);
    let _controller = world.start_and_settle().await;
    let mark = world.server.mark();
    world.allocate("shared", &[]);
    for pod in &pods {
        world.bind(pod);
    }
    world.pass(60).await;
    assert_eq!(world.calls_since(mark), ["patch resourceclaims/status 200"; 20]);
    assert_eq!(world.reserved("shared").len(), 20);
    let mark = world.server.mark();
    for pod in &pods[..19] {
        world.finish(pod);
    }
    world.pass(60).await;
    assert_eq!(world.reserved("shared"), ["p19"]);
    assert!(world.is_allocated("shared"));
    assert!(world.calls_since(mark).iter().all(|call| call.ends_with(" 200")));
    world.finish("p19");
    world.settle().await;
    assert_eq!(world.reserved("shared"), Vec::<String>::new());
    assert!(!world.is_allocated("shared"));
    world.pass(310).await;
    assert!(!world.is_protected("shared"));
}

#[rstest]
#[case::done(|world: &World| world.finish("p"))]
#[case::failed(|world: &World| world.edit("p", |pod| pod["status"]["phase"] = json!("Failed")))]
#[case::deleted_before_it_was_scheduled(|world: &World| world.terminate("p"))]
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_done_gets_nothing_reserved(#[case] end: fn(&World)) {
    let world = sharing(&["p"]);
    end(&world);
    world.allocate("shared", &[]);
    let mark = world.server.mark();
    let _controller = world.start_and_pass(600).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_being_deleted_on_its_node_keeps_its_reservation_until_it_is_gone() {
    let world = sharing(&["p"]);
    world.allocate("shared", &["p"]);
    world.bind("p");
    let _controller = world.start();
    world.terminate("p");
    world.pass(600).await;
    assert_eq!(world.reserved("shared"), ["p"]);
    world.edit("p", |pod| pod["metadata"]["finalizers"] = Value::Null);
    world.settle().await;
    assert_eq!(world.reserved("shared"), Vec::<String>::new());
    assert!(!world.is_allocated("shared"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_gives_its_claims_back_without_a_read() {
    let world = World::with_template();
    world.claim("shared");
    let _controller = world.start();
    world.pod_of("p", &[made("gpu", "t"), own("shared", "shared")]);
    world.settle().await;
    world.allocate("shared", &["p"]);
    world.schedule("p");
    world.settle().await;
    let mark = world.server.mark();
    world.delete("p");
    world.pass(60).await;
    assert!(!world.is_allocated("shared"));
    let reads = world.calls_since(mark);
    assert!(reads.iter().all(|call| !call.starts_with("get")), "{reads:?}");
    let of_pod = world.claims().into_iter().find(|claim| claim != "shared");
    // Its own claim is free; to delete it is the garbage collector's.
    assert!(!world.is_allocated(&of_pod.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_back_with_a_backup_of_etcd_keeps_its_reservation() {
    let world = sharing(&["p"]);
    world.allocate("shared", &["p"]);
    world.bind("p");
    let _controller = world.start_with(world.process().elected_as("leader"));
    world.pass(60).await;
    let backup = world.server.version();
    world.pass(10).await;
    world.delete("p");
    world.pass(60).await;
    assert_eq!(world.reserved("shared"), Vec::<String>::new());
    assert!(world.server.set_back(backup));
    world.server.up();
    world.pass(600).await;
    assert_eq!(world.reserved("shared"), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_the_cache_does_not_show_keeps_its_reservation_if_it_is_there() {
    let world = sharing(&["old"]);
    world.lag("pods", 3600);
    let _controller = world.start_and_settle().await;
    // One that the watch will not show for an hour, and one that took the name of the pod that it still shows.
    world.pod_of("new", &[own("gpu", "shared")]);
    world.delete("old");
    world.pod_of("old", &[own("gpu", "shared")]);
    world.allocate("shared", &["new", "old"]);
    let mark = world.server.mark();
    world.pass(60).await;
    assert_eq!(world.reserved("shared"), ["new", "old"]);
    assert_eq!(world.calls_since(mark), ["get pods 200", "get pods 200"]);
}

#[rstest]
#[case::gone(false)]
#[case::replaced(true)]
#[tokio::test(start_paused = true)]
async fn a_pod_that_the_api_server_says_is_gone_gets_no_reservation_when_the_cache_shows_it(
    #[case] is_replaced: bool,
) {
    let world = sharing(&["stays"]);
    world.bind("stays");
    world.lag("pods", 20);
    let _controller = world.start_and_settle().await;
    world.pod_of("p", &[own("gpu", "shared")]);
    world.bind("p");
    world.pass(10).await;
    world.allocate("shared", &["stays", "p"]);
    world.delete("p");
    if is_replaced {
        world.pod_of("p", &[own("gpu", "shared")]);
    }
    world.pass(5).await;
    assert_eq!(world.reserved("shared"), ["stays"]);
    // Now the cache shows the pod on its node, and for ten seconds not that it is gone.
    let mark = world.server.mark();
    world.pass(60).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_api_server_says_is_done_gets_no_reservation_when_the_cache_shows_it_running() {
    let world = sharing(&["stays"]);
    world.bind("stays");
    world.lag("pods", 20);
    let _controller = world.start_and_settle().await;
    world.pod_of("p", &[own("gpu", "shared")]);
    world.bind("p");
    world.pass(10).await;
    world.allocate("shared", &["stays", "p"]);
    world.finish("p");
    world.pass(5).await;
    assert_eq!(world.reserved("shared"), ["stays"]);
    // Now the cache shows the pod on its node, and for ten seconds not that it is done.
    let mark = world.server.mark();
    world.pass(60).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn reservations_stay_as_long_as_the_api_server_does_not_say_that_the_pod_is_gone() {
    let world = sharing(&[]);
    world.pod("gone");
    world.allocate("shared", &["gone"]);
    world.delete("gone");
    world.fail_next(5, RequestVerb::Get, "pods", Fault::status(500, "InternalError"));
    let _controller = world.start();
    world.pass_millis(20).await;
    assert_eq!(world.reserved("shared"), ["gone"]);
    world.pass(10).await;
    assert_eq!(world.reserved("shared"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn consumers_of_other_kinds_stay() {
    let world = sharing(&["p"]);
    world.allocate("shared", &["p"]);
    let other = json!({ "apiGroup": "example.com", "resource": "pods", "name": "p", "uid": "other" });
    world.edit_claim("shared", |claim| {
        claim["status"]["reservedFor"]
            .as_array_mut()
            .unwrap()
            .push(other.clone());
    });
    let _controller = world.start();
    world.delete("p");
    world.settle().await;
    let claim = world.get_claim("shared");
    assert_eq!(claim["status"]["reservedFor"], json!([other]));
    assert!(world.is_allocated("shared"));
}

#[tokio::test(start_paused = true)]
async fn a_full_claim_is_reported_once_and_waited_for() {
    let world = sharing(&["late"]);
    world.allocate("shared", &[]);
    let others: Vec<_> = (0..256)
        .map(
            |n| json!({ "apiGroup": "example.com", "resource": "things", "name": "x", "uid": n.to_string() }),
        )
        .collect();
    world.edit_claim("shared", |claim| claim["status"]["reservedFor"] = json!(others));
    world.bind("late");
    let mark = world.server.mark();
    let _controller = world.start_and_pass(600).await;
    world.edit("late", |pod| pod["metadata"]["labels"] = json!({ "a": "b" }));
    world.edit_claim("shared", |claim| {
        claim["metadata"]["labels"] = json!({ "a": "b" });
    });
    world.pass(600).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    assert_eq!(
        world.events(),
        [
            "shared Warning ResourceClaimFull It is reserved for 256 consumers, more than which it cannot have: pod late \
             waits for one of them to be done"
        ]
    );
    world.edit_claim("shared", |claim| {
        claim["status"]["reservedFor"] = json!(others[1..]);
    });
    world.settle().await;
    assert_eq!(world.reserved("shared")[0], "late");
}
