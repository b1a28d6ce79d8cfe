//! Which requests are made, and no others.

use std::time::Duration;

use embedded_apiserver::Fault;

use crate::world::{World, writes_of};

#[tokio::test(start_paused = true)]
async fn the_patch_holds_nothing_but_the_annotation() {
    let world = World::with_nodes(1, None);
    let _controller = world.start_and_pass(60).await;
    assert_eq!(
        world.writes(),
        [r#"patch nodes/node-0000 {"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"0"}}}"#]
    );
    assert_eq!(world.manager_of_ttl(0), "ttl-controller");
}

#[tokio::test(start_paused = true)]
async fn nodes_are_watched_as_metadata_only() {
    let world = World::with_nodes(3, Some("0"));
    let _controller = world.start_and_pass(60).await;
    let reads = world.reads_of_nodes();
    let lists = reads.iter().filter(|read| read.lists()).count();
    assert_eq!((lists, reads.len()), (1, 2), "a list and a watch: {reads:?}");
    assert!(reads.iter().all(|read| read.metadata_only), "{reads:?}");
}

#[tokio::test(start_paused = true)]
async fn crossing_a_boundary_rewrites_every_node_at_once() {
    let world = World::with_nodes(100, None);
    let _controller = world.start_and_pass(60).await;
    assert_eq!(world.carried(), [("0".to_owned(), 100)].into());

    world.add([100], None);
    // 101 writes at 50 a second with a burst of 100: no node update from outside is waited for.
    assert_eq!(world.carried_after(2).await, [("15".to_owned(), 101)].into());
    assert_eq!(world.writes().len(), 100 + 101);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_before_the_whole_list_is_counted() {
    // Twelve hundred nodes are three pages of the list: counted page by page, the first would be told 15.
    let world = World::with_nodes(1200, None);
    let _controller = world.start_and_pass(300).await;
    assert_eq!(world.carried(), [("60".to_owned(), 1200)].into());
    assert_eq!(world.writes().len(), 1200);
}

#[tokio::test(start_paused = true)]
async fn a_new_node_gets_the_value_of_the_others() {
    let world = World::with_nodes(95, Some("15"));
    let _controller = world.start_and_pass(10).await;
    world.add([95], None);
    world.pass(10).await;
    assert_eq!(world.writes(), writes_of(95, "15"));
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_wakes_nothing() {
    let world = World::with_nodes(3, Some("0"));
    let controller = world.start_and_pass(10).await;
    let before = controller.metric("workqueue_adds_total");
    for _ in 0..100 {
        world.heartbeat(1);
        world.pass(10).await;
    }
    assert_eq!(controller.metric("workqueue_adds_total"), before);
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_node_deleted_before_its_write_is_done() {
    let world = World::with_nodes(2, Some("0"));
    let controller = world.start_and_pass(10).await;
    // The patch is on its way when the node goes.
    world.fail_writes(1, Fault::Delay(Duration::from_secs(5)));
    world.annotate(1, "7");
    world.pass(1).await;
    world.remove([1]);
    world.pass(3600).await;
    assert_eq!(world.writes(), writes_of(1, "0"));
    assert_eq!(controller.metric("workqueue_retries_total"), 0);
}
