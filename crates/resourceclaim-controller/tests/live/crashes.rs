//! A process that is killed again and again.

use std::collections::BTreeSet;
use std::time::Duration;

use controller_core::time::saturating_add;
use controller_runtime::clock::Clock;
use controller_testing::{audit, long_or_short};
use futures::{StreamExt, stream};
use local_control_plane::eventually;
use serde_json::Value;

use crate::support::{CLAIM_OF, Cluster, Setup, claims_of, made, reserved_for, uid};

const ENTRIES: [&str; 2] = ["a", "b"];
/// Pods come all the time, so that each life has something to do.
const PODS_A_SECOND: u32 = 5;
/// How often it is killed.
const LIFE: Duration = Duration::from_millis(500);
/// How long what is left may take.
const MADE_UP_WITHIN: Duration = Duration::from_mins(3);
/// As one container of a pod follows the other: under the uid of the pod it leads at once.
const SAME_POD: [&str; 1] = ["--leader-elect-identity=uid-of-the-pod"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_each_entry_has_one_claim_however_often_the_process_is_killed() {
    let seconds = long_or_short(60, 15);
    let pods = usize::try_from(seconds * PODS_A_SECOND).unwrap();
    let cluster = Cluster::with(Setup {
        devices: pods * ENTRIES.len(),
        ..Setup::PLAIN
    })
    .await;
    cluster.template().await;
    let clock = Clock::system();
    let end = saturating_add(clock.now(), Duration::from_secs(seconds.into()));
    let created = async {
        for number in 0..pods {
            cluster.pod(&format!("p-{number}"), &ENTRIES.map(made)).await;
            clock.sleep(Duration::from_secs(1) / PODS_A_SECOND).await;
        }
    };
    let kills = async {
        let mut lives = 0;
        while clock.now() < end {
            let mut replica = cluster.start(&SAME_POD);
            clock.sleep(LIFE).await;
            replica.process.kill().unwrap();
            replica.process.wait_exit(LIFE * 10).await.unwrap();
            lives += 1;
        }
        lives
    };
    let ((), lives) = tokio::join!(created, kills);
    assert!(lives >= seconds, "only {lives} lives");
    let before = cluster.all("ResourceClaim").await.len();
    assert!(before > 0, "none of them did anything");

    let replica = cluster.start_leading(&SAME_POD).await;
    let all_run = async || {
        let all = cluster.all("Pod").await;
        let runs = |pod: &&Value| pod["status"]["phase"] == "Running";
        (all.iter().filter(runs).count() == pods).then_some(all)
    };
    let running = eventually(MADE_UP_WITHIN, "all pods run", all_run).await.unwrap();
    let claims = cluster.all("ResourceClaim").await;
    assert_eq!(claims.len(), pods * ENTRIES.len());
    let mut told = BTreeSet::new();
    for pod in &running {
        let of_pod = claims_of(pod);
        assert_eq!(of_pod.keys().collect::<Vec<_>>(), ENTRIES);
        for (entry, name) in of_pod {
            let named = |claim: &&Value| claim["metadata"]["name"] == name.as_str();
            let claim = claims.iter().find(named).unwrap();
            assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], uid(pod));
            assert_eq!(claim["metadata"]["annotations"][CLAIM_OF], entry);
            assert_eq!(reserved_for(claim), [uid(pod)]);
            told.insert(name);
        }
    }
    assert_eq!(
        told.len(),
        pods * ENTRIES.len(),
        "no claim is that of two entries"
    );
    let requests = audit::requests(&cluster.control_plane);
    let deletes = requests
        .iter()
        .filter(|asked| asked.is("delete", "resourceclaims"));
    assert_eq!(deletes.count(), 0, "there never was one too many");
    cluster.kubelet.assert_sound();

    let ended = stream::iter(&running).for_each_concurrent(16, |pod| async {
        cluster.finish(pod["metadata"]["name"].as_str().unwrap()).await;
    });
    ended.await;
    let none = async || cluster.all("ResourceClaim").await.is_empty().then_some(());
    eventually(MADE_UP_WITHIN, "all claims are given back", none)
        .await
        .unwrap();
    assert_eq!(replica.stop().await, Some(0));
}
