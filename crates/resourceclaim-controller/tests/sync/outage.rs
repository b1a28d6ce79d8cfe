//! An API server that is away, closed watches, compaction.

use embedded_apiserver::{Fault, RequestVerb};

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn what_happens_while_the_server_is_away_is_found_afterwards() {
    let world = World::with_template();
    let _controller = world.start();
    for pod in ["stays", "done", "deleted"] {
        world.pod(pod);
    }
    world.settle().await;
    for pod in ["stays", "done", "deleted"] {
        world.schedule(pod);
    }
    let stays = world.claim_of("stays");
    world.settle().await;
    world.server.down();
    world.pass(60).await;
    world.finish("done");
    world.delete("deleted");
    world.pod("new");
    world.server.compact();
    world.server.up();
    world.pass(120).await;
    assert_eq!(world.reserved(&stays), ["stays"]);
    let claims = world.claims();
    // That of the deleted pod is free, and the garbage collector's.
    let left: Vec<_> = claims.iter().filter(|claim| !world.is_allocated(claim)).collect();
    assert_eq!(claims.len(), 3, "{claims:?}");
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(world.claim_of("new").starts_with("new-gpu-"));
}

#[tokio::test(start_paused = true)]
async fn closed_watches_and_relists_make_no_second_claim() {
    let world = World::with_template();
    let _controller = world.start();
    for n in 0..20 {
        world.pod(&format!("p{n}"));
        world.server.close_watches();
        world.pass_millis(50).await;
        if n % 5 == 0 {
            world.server.compact();
        }
        world.pass(7).await;
    }
    world.pass(60).await;
    assert_eq!(world.claims().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_for_a_while_delays_and_loses_nothing() {
    let world = World::with_template();
    let _controller = world.start_and_settle().await;
    world.fail_next(
        40,
        RequestVerb::Create,
        "resourceclaims",
        Fault::Throttled {
            retry_after: std::time::Duration::from_secs(1),
        },
    );
    for n in 0..10 {
        world.pod(&format!("p{n}"));
    }
    world.pass(60).await;
    assert_eq!(world.claims().len(), 10);
    assert_eq!(world.events(), Vec::<String>::new());
}
