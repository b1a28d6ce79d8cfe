//! The demo on the API server that it starts itself.

use std::path::Path;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rustix::process::{Pid, Signal, kill_process};

use crate::demo::{Demo, is_controller, turn, word_after};

const KUBECTL: &str = "kubectl --kubeconfig ";

/// What the story says, among other things.
const STORY: &[&str] = &[
    "Scene 1 of 8, ttl-controller: It tells each kubelet, by the number of nodes, how long it may cache secrets \
     and config maps.",
    "Step 1 of 7, 90 nodes. No controller runs yet, so nobody tells their kubelets how long to cache.",
    "ttl-controller says: step chosen (nodes=90, step=0, ttl_seconds=0)",
    "more: TTL set to 0 s, was none",
    ": 90 × 0 s; 90 writes",
    "Step 4 of 7, 95 nodes. Inside the overlap of the two steps, 90 to 100: nothing is written, so nothing flips to \
     and fro.",
    ": 95 × 15 s; no writes",
    ": 520 × 30 s; ",
    "ttl-controller wrote demo-node-0007: TTL set to 0 s, was 999",
    ": 80 × 0 s; 1 write\n",
    "Scene 2 of 8, taint-eviction-controller: It evicts pods from nodes that fail, each when its own toleration \
     ends.",
    "get pods -o wide -w",
    "wrote default/demo-0001-intolerant: pod deleted: taint node.kubernetes.io/not-ready:NoExecute of node \
     demo-node-0001, deadline ",
    ": 6 × demo-node-0001, 6 × demo-node-0002, 7 × demo-node-0003; 6 writes",
    "more: eviction called off: taint node.kubernetes.io/not-ready:NoExecute of node demo-node-0001, deadline ",
    ": 6 × demo-node-0001, 6 × demo-node-0002, 7 × demo-node-0003; 5 writes",
    "more: condition DisruptionTarget written: taint node.kubernetes.io/unreachable:NoExecute of node \
     demo-node-0002, deadline ",
    ": 6 × demo-node-0001, 1 × demo-node-0002, 7 × demo-node-0003; 15 writes",
    "Scene 3 of 8, taint-eviction-controller: Its brake holds a mistake back, and maintenance waits for budgets.",
    "taint-eviction-controller says: ERROR: The brake holds evictions back: 9 pods of 3 nodes are due or were evicted \
     within 5s, and the limit is 5 pods\n",
    ": 3 × demo-node-0031, 3 × demo-node-0032, 3 × demo-node-0033; 3 writes\n",
    "  Event BrakeEngaged on demo-node-003",
    "taint-eviction-controller says: WARN: The brake lets evictions go: what is due is within the limits again\n",
    ": 2 × demo-node-0031, 3 × demo-node-0032, 3 × demo-node-0033; 10 writes\n",
    "  Event EvictionWaits on demo-shop-",
    ": waits for a budget that refuses its eviction, as long as it does: ",
    "wrote default/demo-shop-",
    ": pod evicted as its budgets allow: taint example.com/maintenance:NoExecute of node demo-node-0031, deadline ",
    ": 1 × demo-node-0031, 4 × demo-node-0032, 3 × demo-node-0033; 2 writes\n",
    ": 1 × demo-node-0031, 4 × demo-node-0032, 3 × demo-node-0033; 1 write\n",
    "Scene 4 of 8, ttl-after-finished-controller: It deletes Jobs that have finished, when their \
     ttlSecondsAfterFinished are over.",
    "more: Job deleted: finished at ",
    "Jobs by ttl: 1 × no ttl: stays, ",
    " s left, 2 × ttl 8 s: ",
    ": 4 × ttl 3 s, 4 × ttl 8 s; 8 writes",
    ": 1 × no ttl, 1 × ttl 3600 s, 2 × ttl 8 s; 8 writes",
    ": 1 × no ttl, 1 × ttl 3600 s; 4 writes",
    "Scene 5 of 8, ttl-after-finished-controller: Its policies clean up Jobs that have no ttl.",
    ": 6 × run; no writes",
    ": 1 × failed, 1 × succeeded; 8 writes",
    "  │ would leave it: it is annotated ttl-after-finished-controller/keep: \"true\"\n",
    "Scene 6 of 8, disruption-controller: It tells the Eviction API how many pods of a PodDisruptionBudget may go.",
    "wrote default/demo-web: status written: disruptionsAllowed 1: 6 healthy, 5 desired, 6 expected",
    ": 3 × demo-node-0011, 3 × demo-node-0012; 1 write\n",
    "  $ disruption-controller explain default/demo-web\n",
    "  │   Deployment demo-web wants 6, has 6\n",
    "  │ disruptionsAllowed 1: 6 healthy less 5 desired\n",
    "  The eviction of demo-web-2 is refused: The disruption budget demo-web needs 5 healthy pods and has 5 \
     currently\n",
    ": 2 × demo-node-0011, 3 × demo-node-0012; ",
    "  │ disruptionsAllowed 0: 5 healthy less 5 desired\n",
    ": 1 × demo-node-0011, 4 × demo-node-0012; ",
    "  │ desiredHealthy 3: 6 expected less 3 that may be unavailable (50%, rounded up)\n",
    ": 4 × demo-node-0012; ",
    "Scene 7 of 8, disruption-controller: Its `blockers` says why a drain hangs, and what to change.",
    "  The eviction of demo-api-1 is refused: The disruption budget demo-api needs 2 healthy pods and has 2 \
     currently\n",
    "  $ disruption-controller blockers --node demo-node-0021\n",
    "  │ never: PodDisruptionBudget demo-api keeps 2 pods healthy, and has no more than 2 (minAvailable 2). Pod \
     default/demo-api-2 on demo-node-0021. Fix: set maxUnavailable: 1 instead of minAvailable in demo-api.\n",
    "  │ 2 pods on 1 node: 2 never go\n",
    "  │ waits: PodDisruptionBudget demo-api keeps 1 pod healthy, and has 1; waits for 1 pod more of \
     Deployment demo-api. Pod default/demo-api-2 on demo-node-0021.\n",
    ": 1 × demo-node-0022; ",
    "Scene 8 of 8, resourceclaim-controller: It makes the ResourceClaims through which pods get devices, and gives \
     the devices back.",
    ": 1 × not allocated; no writes",
    "ResourceClaim created for entry gpu of Pod default/demo-train-1",
    ": 7 × not allocated; 9 writes\n",
    "  $ resourceclaim-controller explain default/demo-train-1\n",
    "  │ gpu: a claim from ResourceClaimTemplate demo-gpu\n",
    "  │   demo-train-1-gpu-",
    " was deleted. The gpu of demo-train-2 is demo-train-2-gpu-",
    ": 7 × not allocated; 2 writes\n",
    ": 6 × held by 1 pod, 1 × held by 3 pods; no writes\n",
    ": 6 × held by 1 pod, 1 × held by 4 pods; 1 write\n",
    "  $ resourceclaim-controller explain default/demo-switch\n",
    "  │ ResourceClaim default/demo-switch: allocated, reserved for 4, protected by its finalizer\n",
    "  │   pod demo-train-1 stays reserved\n",
    "default/demo-switch: ResourceClaim written: reserved for pod demo-probe\n",
    ": 2 × held by 1 pod, 1 × held by 2 pods; 1",
    "ResourceClaim deleted: pod demo-train-",
    ": 1 × not allocated; ",
    "\nttl-controller: 7 steps\n  1  90 nodes                 no writes",
    "\ntaint-eviction-controller: 4 steps\n  1  three nodes, all well    no writes",
    "\ntaint-eviction-controller: 4 steps\n  1  three nodes are tainted  3 writes",
    "\nttl-after-finished-controller: 4 steps\n  1  twelve Jobs run          no writes",
    "\ndisruption-controller: 5 steps\n  1  a budget of six pods     no writes",
    "\ndisruption-controller: 3 steps\n  1  a drain hangs            ",
    "\nresourceclaim-controller: 7 steps\n  1  three pods want devices",
];

#[tokio::test]
async fn the_story_is_told_in_plain_lines_and_every_step_is_checked() {
    let _turn = turn().await;
    let ended = Demo::start(&["--fast", "--within=60"]).end().await;
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let story = ended.stdout.join("\n");
    for expected in STORY {
        assert!(story.contains(expected), "{expected:?} is not in:\n{story}");
    }
    let (_, writes) = story.split_once(": 120 × 15 s; ").unwrap();
    let writes: usize = writes.split_once(" writes").unwrap().0.parse().unwrap();
    // The nodes come one by one: each of the first ten may get 0 s before there are more than 100.
    assert!((120..=130).contains(&writes), "{writes} writes");
    assert_eq!(
        ended
            .stdout
            .iter()
            .filter(|line| line.contains("  As expected after "))
            .count(),
        7 + 4 + 4 + 4 + 2 + 5 + 3 + 7
    );
    assert!(ended.stdout.last().unwrap().starts_with("All as expected, in "));
    let is_plain = |line: &String| !line.contains(char::is_control);
    assert!(ended.stdout.iter().all(is_plain), "{story}");
}

#[tokio::test]
async fn ctrl_c_ends_the_controllers_and_removes_the_files() {
    let mut demo = Demo::start(&[]);
    let kubeconfig = word_after(&demo.until(KUBECTL).await, KUBECTL);
    let pid = word_after(&demo.until("runs as process").await, "runs as process ");
    assert!(Path::new(&kubeconfig).is_file() && is_controller(&pid));
    demo.signal(Signal::INT);
    let ended = demo.end().await;
    assert_eq!(ended.status.code(), Some(130));
    assert_eq!(ended.stderr, "stopped before the end; everything is cleaned up\n");
    assert!(!is_controller(&pid));
    assert!(!Path::new(&kubeconfig).parent().unwrap().exists());
}

#[tokio::test]
async fn what_is_kept_answers_until_ctrl_c() {
    let mut demo = Demo::start(&["--fast", "--within=60", "--keep", "--scene=ttl-controller"]);
    let kubeconfig = word_after(&demo.until(KUBECTL).await, KUBECTL);
    demo.until("stay up until Ctrl-C").await;
    let file = Kubeconfig::read_from(&kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.unwrap();
    config.proxy_url = None;
    let nodes = Api::<Node>::all(Client::try_from(config).unwrap());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 80);
    demo.signal(Signal::INT);
    let ended = demo.end().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stdout.last().unwrap().starts_with("All as expected, in "));
}

#[tokio::test]
async fn a_controller_that_ends_by_itself_ends_the_demo() {
    let mut demo = Demo::start(&[]);
    let pid = word_after(&demo.until("runs as process").await, "runs as process ");
    assert!(is_controller(&pid));
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let ended = demo.end().await;
    assert_eq!(ended.status.code(), Some(1));
    let message = "error: ttl-controller ended by itself (signal: 9 (SIGKILL))";
    assert!(ended.stderr.starts_with(message), "{}", ended.stderr);
}

#[tokio::test]
async fn only_the_scenes_that_are_named_are_played_and_others_are_no_scenes() {
    let _turn = turn().await;
    let name = "resourceclaim-controller";
    let ended = Demo::start(&["--fast", "--within=60", "--scene", name])
        .end()
        .await;
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let begins = |line: &&String| line.contains("  Scene ");
    let scenes: Vec<_> = ended.stdout.iter().filter(begins).collect();
    assert!(
        scenes.len() == 1 && scenes[0].contains(&format!("Scene 1 of 1, {name}: ")),
        "{scenes:?}"
    );

    let ended = Demo::start(&["--scene=node-controller"]).end().await;
    assert_eq!(ended.status.code(), Some(2));
    let expected = "[possible values: ttl-controller, taint-eviction-controller, ttl-after-finished-controller, \
                    disruption-controller, resourceclaim-controller]";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
}
