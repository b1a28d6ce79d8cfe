//! `maxPerHour` of a policy, with the permissions that the chart gives for policies.

use std::fs;

use controller_testing::soon;

use crate::policies::{file, flag};
use crate::support::{Cluster, Finish, Jobs};

const BRAKE: &str = "ttl_after_finished_controller_brake_engaged";
const CI: &str = "policy=\"ci\"";
/// Jobs that are due; the policy deletes two of them within an hour.
const JOBS: usize = 6;

fn policies(most: usize) -> String {
    format!(
        "policyGracePeriod: 1s\nonlyPolicies: true\npolicies: [{{name: ci, ttlAfterFailed: 1s, maxPerHour: {most}}}]\n"
    )
}

/// A restart and a change of the file are what `docs/clean-up.md` tells a person to do.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_policy_that_would_delete_too_much_stops_says_so_and_waits_for_a_person() {
    let cluster = Cluster::with_policies().await;
    for number in 0..JOBS {
        let name = format!("job-{number}");
        cluster.job(&name, None).await;
        cluster.finish(&name, Finish::Failed, 60).await;
    }
    let policies_of_two = file(&policies(2));
    let first = cluster.start_leading(&[&flag(&policies_of_two)]).await;
    first.until_metric(BRAKE, CI, 1).await;
    let note = "policy ci stops here, as it has reached its maxPerHour (2); change the policies or restart the \
                controller to release the brake";
    assert_eq!(first.said(note), 1, "{}", first.process.log());
    let deleted = async |jobs: usize| {
        let as_many = async || (cluster.deleting("Job").await == jobs).then_some(());
        soon(&format!("{jobs} Jobs are deleted"), as_many).await;
    };
    let told = async |times: usize| {
        let events = async || {
            let events = cluster.events().await;
            let told = events
                .iter()
                .filter(|event| event.ends_with(&format!("Warning BrakeEngaged {note}")));
            (told.count() == times).then_some(())
        };
        soon("the event is there", events).await;
    };
    told(1).await;
    deleted(2).await;
    assert_eq!(first.stop().await, Some(0));

    let second = cluster.start_leading(&[&flag(&policies_of_two)]).await;
    second.until_metric(BRAKE, CI, 1).await;
    told(2).await;
    deleted(4).await;

    fs::write(policies_of_two.path(), policies(10)).unwrap();
    deleted(JOBS).await;
    second.until_metric(BRAKE, CI, 0).await;
    assert_eq!(second.stop().await, Some(0));
    assert_eq!((cluster.refused(), cluster.beyond()), (vec![], vec![]));
}
