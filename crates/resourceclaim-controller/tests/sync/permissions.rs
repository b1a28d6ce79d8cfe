//! The permissions that the chart gives: they suffice, and each is used.

use controller_testing::chart::Chart;
use controller_testing::permissions;
use embedded_apiserver::RESOURCE_CLAIM_TEMPLATES;

use crate::world::{World, made, own, process};

#[tokio::test(start_paused = true)]
async fn the_permissions_of_the_chart_suffice_and_are_used() {
    let world = World::new();
    let user = Chart::of("resourceclaim-controller").install_on(&world.server);
    world.template("t");
    world.claim("shared");
    world.pod("gone");
    world.allocate("shared", &["gone"]);
    world.delete("gone");
    let _controller = process().start(world.server.client_for(&user), &world.clock);
    world.pass(10).await;
    assert!(!world.is_allocated("shared"));
    world.pod_of("p", &[made("gpu", "t"), own("shared", "shared")]);
    world.pass(10).await;
    world.schedule("p");
    world.allocate("shared", &[]);
    world.pass(10).await;
    assert_eq!(world.reserved("shared"), ["p"]);
    world.delete_claim(&world.claim_of("p"));
    world.finish("p");
    world.pod("deleted");
    world.pass(10).await;
    world.finish("deleted");
    // The same event twice, soon: a series.
    for _ in 0..2 {
        world.pod_of("q", &[made("gpu", "none")]);
        world.pass(10).await;
        world.template("none");
        world.pass(10).await;
        world.delete_claim(&world.claim_of("q"));
        world.delete_of(&RESOURCE_CLAIM_TEMPLATES, "none");
        world.pass(10).await;
        world.delete("q");
    }
    world.pass(400).await;
    assert_eq!(world.claims(), ["shared"]);
    permissions::assert_sufficient_and_used(&world.server, &user);
}
