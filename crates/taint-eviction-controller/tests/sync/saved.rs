//! A taint that goes in time saves the pod.

use std::time::Duration;

use embedded_apiserver::{Fault, RequestVerb};
use serde_json::json;
use taint_eviction_controller::decide::TAINTS_OF_A_FAILED_NODE;

use crate::brake::{ENGAGED, limited};
use crate::world::{CANCELLED, For, PENDING, World, process};

#[tokio::test(start_paused = true)]
async fn a_taint_that_is_removed_saves_the_pods_that_are_queued() {
    let world = World::with_pods(100, For::No);
    let _controller = world.start_with(process().configured(|config| config.eviction_qps = 10.0));
    world.pass(10).await;
    world.taint("n");
    world.pass(2).await;
    world.untaint("n");
    world.settle().await;
    let left = world.alive();
    assert!((78..=80).contains(&left), "{left} left");
    assert_eq!(world.alive_after(1000).await, left);
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_is_gone_before_the_watch_tells_saves_the_pod() {
    let world = World::with_pod(For::Seconds(20));
    let _controller = world.start();
    world.taint("n");
    world.pass(10).await;
    // The watch of the nodes is broken and does not come back; the rest of the API server answers.
    let fault = Fault::Delay(Duration::from_hours(1));
    world.fail_next(usize::MAX, RequestVerb::Watch, "nodes", fault);
    world.server.close_watches();
    world.untaint("n");
    assert!(world.lives_after(600, "p").await);
}

#[tokio::test(start_paused = true)]
async fn a_failure_behind_a_watch_that_lags_is_distinguished_from_a_swap() {
    for (is_swap, lives) in [(true, false), (false, true)] {
        let world = World::with_pod(For::No);
        let tolerates = |key| json!({ "key": key, "operator": "Exists", "tolerationSeconds": 20 });
        let both = TAINTS_OF_A_FAILED_NODE.map(tolerates);
        world.edit("p", |pod| pod["spec"]["tolerations"] = json!(both));
        let lag = Fault::WatchLags(Duration::from_secs(10));
        world.fail_next(usize::MAX, RequestVerb::Watch, "nodes", lag);
        let _controller = world.start_and_pass(1).await;
        let taint = |key| json!({ "key": key, "effect": "NoExecute", "timeAdded": world.seconds(0) });
        let [not_ready, unreachable] = TAINTS_OF_A_FAILED_NODE;
        let first = taint(not_ready);
        world.set_taints("n", json!([first]));
        world.pass(18).await;
        let second = taint(unreachable);
        world.set_taints(
            "n",
            if is_swap {
                json!([first, second])
            } else {
                json!([])
            },
        );
        world.pass(1).await;
        world.set_taints("n", json!([second]));
        // The first toleration has ended, and the watch has shown the first taint alone.
        assert!(world.lives_after(7, "p").await);
        assert_eq!(world.lives_after(9, "p").await, lives);
        // So has the second one.
        assert!(!world.lives_after(5, "p").await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_goes_while_the_condition_is_written_saves_the_pod() {
    let world = World::with_pod(For::No);
    let _controller = world.start_and_pass(10).await;
    let fault = Fault::Delay(Duration::from_secs(5));
    world.fail_those(1, |request| request.verb == RequestVerb::Patch, fault);
    world.taint("n");
    world.pass(2).await;
    world.untaint("n");
    assert!(world.lives_after(100, "p").await);
    assert_eq!(world.deletes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_goes_as_the_pods_lose_their_tolerations_saves_them() {
    let world = World::with_pods(50, For::Seconds(10));
    world.taint("n");
    let controller = world.start_and_pass(1).await;
    for number in 0..50 {
        let name = format!("n-{number:04}");
        world.edit(&name, |pod| pod["spec"]["tolerations"] = json!([]));
    }
    world.untaint("n");
    assert_eq!(world.alive_after(100).await, 50);
    assert_eq!(controller.metric(CANCELLED), 50);
}

#[tokio::test(start_paused = true)]
async fn events_tell_who_was_to_go_and_who_stays() {
    let world = World::with_nodes(["n"]);
    world.pod("goes", "n", For::Seconds(5));
    world.pod("stays", "n", For::Seconds(50));
    world.pod("was-never-to-go", "n", For::Ever);
    let uid = world.uid("goes");
    let _controller = world.start_and_pass(10).await;
    world.set_taints(
        "n",
        json!([{ "key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:10Z" }]),
    );
    world.pass(10).await;
    world.untaint("n");
    world.pass(10).await;
    assert_eq!(
        world.events_of("goes"),
        [
            "Normal TaintManagerEviction Marking for deletion Pod default/goes: taint k=v:NoExecute of node n, \
          deadline 2026-01-01T00:00:15Z"
        ]
    );
    assert_eq!(
        world.events_of("stays"),
        [
            "Normal TaintManagerEviction Cancelling deletion of Pod default/stays: taint k=v:NoExecute of node n, \
          deadline 2026-01-01T00:01:00Z"
        ]
    );
    assert_eq!(world.events_of("was-never-to-go"), Vec::<String>::new());
    let events = world.server.list(&embedded_apiserver::EVENTS);
    assert!(
        events.iter().any(|event| event["regarding"]["uid"] == uid),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_event_says_that_a_pod_is_kept_which_its_user_deletes() {
    let world = World::with_pod(For::Seconds(50));
    let controller = world.start();
    world.taint("n");
    world.pass(10).await;
    world.delete("p");
    world.settle().await;
    assert_eq!(controller.metric(PENDING), 0);
    world.pass(100).await;
    assert_eq!(controller.metric(CANCELLED), 0);
    assert_eq!(world.events_of("p"), Vec::<String>::new());
}

/// The API server has a taint that is not exempt, and the watch lags.
#[tokio::test(start_paused = true)]
async fn what_a_taint_evicts_that_no_watch_has_shown_is_held_back() {
    let world = World::with_pods(6, For::No);
    let exempt = limited().configured(|config| config.eviction_brake_exempt_taints = Some("k".to_owned()));
    let lag = Fault::WatchLags(Duration::from_secs(10));
    world.fail_next(usize::MAX, RequestVerb::Watch, "nodes", lag);
    let controller = world.start_with(exempt);
    world.pass(20).await;
    world.taint("n");
    world.pass(9).await;
    world.set_taints("n", json!([{ "key": "other", "effect": "NoExecute" }]));
    assert_eq!(world.alive_after(60).await, 6);
    assert_eq!(controller.metric(ENGAGED), 1);
}
