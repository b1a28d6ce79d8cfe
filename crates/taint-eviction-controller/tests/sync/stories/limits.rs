//! Evictions that wait for the client-side limits.

use controller_testing::soon;
use controller_testing::stories::StoryStage;
use jiff::SignedDuration;

use crate::stories::{Evicted, For, seconds_after};

crate::told![no_delete_is_sent_once_the_watch_shows_that_the_taint_is_gone];

/// Until the watch shows a change; where time is paused, the rest is nothing.
const WATCH_LAG: SignedDuration = SignedDuration::from_millis(50);
/// Deletes that may come after the taint has gone, until a real watch shows it: those of one second, by the default
/// limits and with a request for the condition of each pod.
const ON_THEIR_WAY: usize = 25;
/// How long is looked for deletes that come all the same: with the default limits all 600 pods take half a minute.
const LOOKED_FOR: u64 = 20;

async fn no_delete_is_sent_once_the_watch_shows_that_the_taint_is_gone(stage: StoryStage) {
    stage.nodes(["n"]).await;
    stage.pods(600, "p", "n", For::No).await;
    let controller = stage.start_leading(&[]).await;
    let tainted = stage.now();
    stage.taint("n").await;
    let begun = async || (stage.deleting("Pod").await > 20).then_some(());
    soon("evictions have begun", begun).await;
    stage.until_time(seconds_after(tainted, 4)).await;
    stage.untaint("n").await;
    let untainted = stage.now();

    stage.until_time(seconds_after(untainted, LOOKED_FOR)).await;
    let evicted = stage.deleting("Pod").await;
    assert!((20..590).contains(&evicted), "{evicted} evicted");
    let requests = stage.requests();
    let late = requests
        .iter()
        .filter(|asked| asked.is("delete", "pods") && asked.received > untainted + WATCH_LAG);
    let (late, most) = (late.count(), stage.on_real().map_or(0, |_| ON_THEIR_WAY));
    assert!(late <= most, "{late} deletes came after the taint had gone");
    controller.stop().await;
}
