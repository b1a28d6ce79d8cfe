use super::*;

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_being_deleted_is_not_reserved_and_goes_when_nobody_uses_it() {
    let world = sharing(&["a", "b"]);
    world.allocate("shared", &["a"]);
    world.bind("a");
    world.delete_claim("shared");
    let mark = world.server.mark();
    let _controller = world.start();
    world.bind("b");
    world.pass(60).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    world.finish("a");
    world.settle().await;
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_allocated_claim_without_users_goes_when_it_is_deleted_and_not_before() {
    let world = sharing(&[]);
    world.allocate("shared", &[]);
    let _controller = world.start_and_pass(600).await;
    assert!(world.is_allocated("shared"));
    world.delete_claim("shared");
    world.settle().await;
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn other_finalizers_stay() {
    let world = sharing(&["p"]);
    world.allocate("shared", &["p"]);
    let finalizers = json!(["example.com/a", FINALIZER, "example.com/b"]);
    world.edit_claim("shared", |claim| claim["metadata"]["finalizers"] = finalizers);
    let _controller = world.start();
    world.finish("p");
    world.pass(310).await;
    let claim = world.get_claim("shared");
    assert_eq!(
        claim["metadata"]["finalizers"],
        json!(["example.com/a", "example.com/b"])
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_finalizer_goes_after_five_minutes_in_which_nothing_changed() {
    let world = sharing(&[]);
    world.edit_claim("shared", |claim| {
        claim["metadata"]["finalizers"] = json!([FINALIZER]);
    });
    let _controller = world.start_and_pass(299).await;
    assert!(world.is_protected("shared"));
    // Any change of it starts the time anew, its age does not count.
    world.edit_claim("shared", |claim| {
        claim["metadata"]["labels"] = json!({ "a": "b" });
    });
    world.pass(300).await;
    assert!(world.is_protected("shared"));
    world.pass(10).await;
    assert!(!world.is_protected("shared"));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_the_scheduler_has_just_added_stays() {
    let world = sharing(&["p"]);
    let _controller = world.start_and_pass(600).await;
    world.edit_claim("shared", |claim| {
        claim["metadata"]["finalizers"] = json!([FINALIZER]);
    });
    world.pass(290).await;
    world.allocate("shared", &["p"]);
    world.bind("p");
    world.pass(600).await;
    assert!(world.is_protected("shared"));
    assert_eq!(world.reserved("shared"), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_stays_keeps_its_finalizer_for_a_while() {
    let world = sharing(&["first", "second"]);
    world.allocate("shared", &["first"]);
    world.bind("first");
    let _controller = world.start_and_settle().await;
    let mark = world.server.mark();
    world.finish("first");
    world.pass(290).await;
    assert_eq!(world.calls_since(mark), ["patch resourceclaims/status 200"]);
    assert!(!world.is_allocated("shared") && world.is_protected("shared"));
    world.pass(20).await;
    assert!(!world.is_protected("shared"));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_kept_its_finalizer_can_be_deleted_at_once() {
    let world = sharing(&["first", "second"]);
    world.allocate("shared", &["first"]);
    world.bind("first");
    let _controller = world.start_and_settle().await;
    world.finish("first");
    world.pass(1).await;
    world.delete_claim("shared");
    world.pass(1).await;
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_a_pod_that_was_never_scheduled_is_deleted_with_it() {
    let world = World::with_template();
    let _controller = world.start();
    world.pod("p");
    world.settle().await;
    let mark = world.server.mark();
    world.terminate("p");
    world.pass(60).await;
    assert_eq!(world.calls_since(mark), ["delete resourceclaims 200"]);
    assert_eq!(world.claims(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_a_pod_that_the_cache_does_not_show_stays() {
    let world = World::with_template();
    world.pod("p");
    world.lag("pods", 3600);
    let controller = world.start_and_settle().await;
    let claim = world.claim_of("p");
    // The pod comes again, and another process makes its claim; our cache shows the pod before it.
    world.delete("p");
    let uid = world.pod("p");
    world.insert(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": "p-gpu-other", "annotations": { "resource.kubernetes.io/pod-claim-name": "gpu" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true }],
        },
        "spec": {},
    }));
    world.pass(60).await;
    assert!(world.claims().contains(&"p-gpu-other".to_owned()), "not {claim}");
    drop(controller);
}
