//! The permissions that the chart gives: they suffice, and each is used.

use controller_testing::chart::Chart;
use controller_testing::permissions;
use serde_json::json;

use crate::budget::numbers;
use crate::world::{World, process};

#[tokio::test(start_paused = true)]
async fn the_permissions_of_the_chart_suffice_and_are_used() {
    let world = World::new();
    let user = Chart::of("disruption-controller").install_on(&world.server);
    world.define_widgets(true);
    let widget = world.workload("Widget", "web", 3);
    world.pods(2, Some(&widget));
    world.pod("naked", None);
    let since = world.seconds(-121);
    world.edit("web-0", |pod| {
        pod["status"]["conditions"] =
            json!([{ "type": "DisruptionTarget", "status": "True", "lastTransitionTime": since }]);
    });
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = process().start(world.server.client_for(&user), &world.clock);
    world.pass(10).await;
    assert_eq!(world.numbers("web"), numbers(0, 2, 2, 3));
    assert_eq!(world.count_events("UnmanagedPods"), 1);
    // The same again, soon: a series.
    for app in ["none", "web"] {
        world.relabel("naked", app);
        world.pass(10).await;
    }
    assert_eq!(world.count_events("UnmanagedPods"), 2);
    world.pass(400).await;
    permissions::assert_sufficient_and_used(&world.server, &user);
}
