//! `--remove`.

use embedded_apiserver::Fault;

use crate::world::{World, removal};

#[tokio::test(start_paused = true)]
async fn removal_takes_the_annotation_off_every_node_and_ends() {
    let world = World::with_nodes(700, Some("30"));
    world.annotate(1, "soon");
    let mut removal = world.start_with(removal());
    removal.ended().await.unwrap();
    assert_eq!(world.carried(), [("none".to_owned(), 700)].into());
    assert_eq!(world.writes().len(), 700);
    assert_eq!(
        world.writes()[0],
        r#"patch nodes/node-0000 {"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":null}}}"#
    );
}

#[tokio::test(start_paused = true)]
async fn removal_where_there_is_nothing_writes_nothing() {
    let world = World::with_nodes(3, None);
    world.start_with(removal()).ended().await.unwrap();
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn removal_goes_on_after_failures() {
    let world = World::with_nodes(30, Some("0"));
    world.fail_writes(40, Fault::status(503, "InternalError"));
    world.start_with(removal()).ended().await.unwrap();
    assert_eq!(world.carried(), [("none".to_owned(), 30)].into());
}

#[tokio::test(start_paused = true)]
async fn removal_gives_up_when_another_writer_puts_it_back() {
    let world = World::with_nodes(3, Some("0"));
    let mut removal = world.start_removal_against("kube-controller-manager", 1);
    let failure = removal.ended().await.unwrap_err();
    assert_eq!(
        failure,
        "kube-controller-manager puts the TTL annotation back on node node-0001: switch it off first \
         (append -ttl-controller to kube-controller-manager's --controllers)"
    );
    assert!(world.writes().len() <= 5);
}

#[tokio::test(start_paused = true)]
async fn a_dry_removal_writes_nothing() {
    let world = World::with_nodes(3, Some("0"));
    let dry = removal().configured(|config| config.common.dry_run = true);
    world.start_with(dry).ended().await.unwrap();
    assert_eq!(world.all_writes(), Vec::<String>::new());
    assert_eq!(world.carried(), [("0".to_owned(), 3)].into());
}
