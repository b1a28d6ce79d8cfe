//! The API server away.

use std::time::Duration;

use controller_testing::stories::StoryStage;
use controller_testing::{SOON, soon};

use crate::stories::Nodes;

crate::told![an_outage_of_a_minute_in_a_roll_out_loses_nothing_and_writes_nothing_twice];

const AWAY: Duration = Duration::from_mins(1);

async fn an_outage_of_a_minute_in_a_roll_out_loses_nothing_and_writes_nothing_twice(mut stage: StoryStage) {
    stage.add(0..100, None).await;
    // Slow enough that the outage falls into the roll-out.
    let controller = stage.start(&["--kube-api-qps=20", "--kube-api-burst=1"]);
    stage.until_all_carry(100, "0").await;
    stage.add([100, 101], None).await;
    soon("the roll-out of 15 has begun", async || {
        let carried = stage.carried().await;
        let begun = carried.get("15").is_some_and(|nodes| (10..90).contains(nodes));
        begun.then_some(())
    })
    .await;

    stage.away(AWAY).await;
    stage.until_all_carry_within(AWAY + SOON, 102, "15").await;
    controller
        .until_metric("informer_watching", "resource=\"nodes\"", 1)
        .await;

    // 102 nodes were written 15 once, 100 of them 0 once before. A server that is killed may not have logged its last
    // answers.
    let least = if stage.on_real().is_some() { 190 } else { 202 };
    let accepted = stage.requests().into_iter();
    let accepted = accepted
        .filter(|asked| asked.is("patch", "nodes") && asked.code == 200)
        .count();
    assert!(
        (least..=202).contains(&accepted),
        "{accepted} accepted patches for 202 changes"
    );
    controller.stop().await;
}
