//! Which Jobs are deleted, and when.

use std::time::Duration;

use controller_testing::cluster::whole;
use controller_testing::objects::text;
use controller_testing::stories::StoryStage;
use jiff::{SignedDuration, Timestamp};

use crate::stories::{Finish, Jobs, LATE};

/// Who records an event in an API server that is slow to start: about its Service, or their addresses or ports.
const OF_THE_API_SERVER: [&str; 3] = [
    "ipallocator-repair-controller",
    "kubernetes-service-cidr-controller",
    "portallocator-repair-controller",
];

crate::told![jobs_are_deleted_when_their_ttl_has_passed_and_no_others];

const fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

async fn finish(stage: &StoryStage, name: &str, how: Finish, ago: i64) -> Timestamp {
    let finish = whole(stage.now()) - seconds(ago);
    stage.finish_at(name, how, finish).await;
    finish
}

async fn jobs_are_deleted_when_their_ttl_has_passed_and_no_others(stage: StoryStage) {
    let controller = stage.start_leading(&[]).await;
    let pending = "ttl_after_finished_controller_jobs_pending";
    stage.job("without-ttl", None).await;
    for name in ["unfinished", "failed", "at-once"] {
        stage.job(name, Some(0)).await;
    }
    for name in ["soon", "raised", "removed", "last"] {
        stage.job(name, Some(5)).await;
    }
    stage.set_ttl("last", Some(7)).await;
    finish(&stage, "raised", Finish::Complete, 0).await;
    stage.set_ttl("raised", Some(3600)).await;
    finish(&stage, "removed", Finish::Failed, 0).await;
    stage.set_ttl("removed", None).await;
    finish(&stage, "without-ttl", Finish::Complete, 3600).await;
    let at_once = finish(&stage, "at-once", Finish::Complete, 0).await;
    let failed = finish(&stage, "failed", Finish::Failed, 0).await;
    let soon = finish(&stage, "soon", Finish::Complete, 0).await;
    let last = finish(&stage, "last", Finish::Complete, 0).await;

    let late = stage.late(LATE);
    stage.until_deleted_by("at-once", at_once, late).await;
    stage.until_deleted_by("failed", failed, late).await;
    stage.until_deleted_by("soon", soon + seconds(5), late).await;
    // Later than the others would have been.
    stage.until_deleted_by("last", last + seconds(7), late).await;
    stage.advance(Duration::from_mins(30)).await;
    assert_eq!(stage.deleting("Job").await, 4);
    assert_eq!(stage.deleted("raised").await, None);
    assert_eq!(stage.deleted("removed").await, None);
    stage.until_requests("delete", "jobs", 4).await;
    // The one whose ttl was raised.
    assert_eq!(controller.total(pending).await, 1);

    let at = soon + seconds(5);
    let lag = stage.on_real().map_or("0.000 s later", |_| "");
    let told = format!("soon Normal TTLExpired finished at {soon}, expired at {at}, deleted {lag}");
    stage.until_event(&told).await;
    let events = stage.all("Event").await;
    let by = events.iter().map(|event| text(&event["reportingController"]));
    let by = by.filter(|by| !OF_THE_API_SERVER.contains(&by.as_str()));
    assert_eq!(by.collect::<Vec<_>>(), ["ttl-after-finished-controller"; 4]);
    controller.stop().await;
}
