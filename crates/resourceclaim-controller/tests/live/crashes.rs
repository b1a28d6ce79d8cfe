//! A process that is killed again and again.

use std::collections::BTreeSet;
use std::time::Duration;

use controller_core::clock::{Clock, saturating_add};
use futures::{StreamExt, stream};
use harness::audit;
use serde_json::Value;
use testkit::real::eventually;

use crate::support::{CLAIM_OF, Cluster, Setup, claims_of, made, reserved_for, uid};

const PODS: usize = 300;
const ENTRIES: [&str; 2] = ["a", "b"];
/// How often it is killed, and for how long.
const LIFE: Duration = Duration::from_millis(500);
const KILLED_FOR: Duration = Duration::from_mins(1);
/// How long what is left may take.
const MADE_UP_WITHIN: Duration = Duration::from_mins(3);
/// As one container of a pod follows the other: under the uid of the pod it leads at once.
const SAME_POD: [&str; 1] = ["--leader-elect-identity=uid-of-the-pod"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_each_entry_has_one_claim_however_often_the_process_is_killed() {
    let cluster = Cluster::with(Setup {
        devices: PODS * ENTRIES.len(),
        ..Setup::default()
    })
    .await;
    cluster.template().await;
    let clock = Clock::system();
    let end = saturating_add(clock.now(), KILLED_FOR);
    // Pods come all the time, so that each life has something to do.
    let pods = async {
        let pause = KILLED_FOR / u32::try_from(PODS).unwrap();
        for number in 0..PODS {
            cluster.pod(&format!("p-{number}"), &ENTRIES.map(made)).await;
            clock.sleep(pause).await;
        }
    };
    let kills = async {
        let mut lives = 0;
        while clock.now() < end {
            let mut replica = cluster.spawn(&SAME_POD);
            clock.sleep(LIFE).await;
            replica.process.kill().unwrap();
            replica.process.wait_exit(LIFE * 10).await.unwrap();
            lives += 1;
        }
        lives
    };
    let ((), lives) = tokio::join!(pods, kills);
    assert!(lives >= 60, "only {lives} lives");
    let before = cluster.all("ResourceClaim").await.len();
    assert!(before > 0, "none of them did anything");

    let replica = cluster.start(&SAME_POD).await;
    let all_run = async || {
        let pods = cluster.all("Pod").await;
        let runs = |pod: &&Value| pod["status"]["phase"] == "Running";
        (pods.iter().filter(runs).count() == PODS).then_some(pods)
    };
    let pods = eventually(MADE_UP_WITHIN, "all pods run", all_run).await.unwrap();
    let claims = cluster.all("ResourceClaim").await;
    assert_eq!(claims.len(), PODS * ENTRIES.len());
    let mut told = BTreeSet::new();
    for pod in &pods {
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
        PODS * ENTRIES.len(),
        "no claim is that of two entries"
    );
    let requests = audit::requests(&cluster.control_plane);
    let deletes = requests
        .iter()
        .filter(|asked| asked.is("delete", "resourceclaims"));
    assert_eq!(deletes.count(), 0, "there never was one too many");
    cluster.kubelet.assert_sound();

    let ended = stream::iter(&pods).for_each_concurrent(16, |pod| async {
        cluster.finish(pod["metadata"]["name"].as_str().unwrap()).await;
    });
    ended.await;
    let none = async || cluster.all("ResourceClaim").await.is_empty().then_some(());
    eventually(MADE_UP_WITHIN, "all claims are given back", none)
        .await
        .unwrap();
    assert_eq!(replica.stop().await, Some(0));
}
