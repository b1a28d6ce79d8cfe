//! The config file changes while the process runs.

use std::fs;
use std::time::Duration;

use embedded_apiserver::{Fault, FaultRule, RequestVerb};
use serde_json::json;
use tempfile::TempDir;

use crate::world::{World, process};

const REFUSED: &str = "controller_config_file_refused";

/// A config file that is replaced as a kubelet does it: by a symbolic link.
struct File {
    dir: TempDir,
    number: u32,
}

impl File {
    fn new(text: &str) -> Self {
        let mut file = Self {
            dir: TempDir::new().unwrap(),
            number: 0,
        };
        file.write(text);
        file
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("config.yaml")
    }

    fn write(&mut self, text: &str) {
        self.number += 1;
        let data = self.dir.path().join(format!("data-{}", self.number));
        fs::write(&data, text).unwrap();
        let link = self.dir.path().join("new");
        std::os::unix::fs::symlink(&data, &link).unwrap();
        fs::rename(&link, self.path()).unwrap();
    }
}

const ONLY_A: &str = r"
policyGracePeriod: 1h
policies:
- {name: a, ttlAfterSucceeded: 1m, selector: {matchLabels: {app: a}}}
";
const A_AND_B: &str = r"
policyGracePeriod: 1h
policies:
- {name: a, ttlAfterSucceeded: 1m, selector: {matchLabels: {app: a}}}
- {name: b, ttlAfterSucceeded: 1m, selector: {matchLabels: {app: b}}}
";

fn world() -> World {
    let world = World::new();
    world.ended("a", "Complete", -100_000, &json!({ "app": "a" }));
    world.ended("b", "Complete", -100_000, &json!({ "app": "b" }));
    world
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_counts_an_hour_after_its_change() {
    let (world, mut file) = (world(), File::new(ONLY_A));
    let controller = world.start_with(process().config_file(&file.path()));
    world.pass(1_000).await;
    file.write(A_AND_B);
    assert!(
        world.lives_after(3_590, "a").await,
        "the file has changed for all of its policies"
    );
    world.pass(40).await;
    assert_eq!(world.left(), Vec::<String>::new());
    assert_eq!(controller.metric(REFUSED), 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_with_the_same_policies_changes_nothing() {
    let (world, mut file) = (world(), File::new(ONLY_A));
    let _controller = world.start_with(process().config_file(&file.path()));
    world.pass(3_000).await;
    file.write(&format!("# A comment.\n{ONLY_A}"));
    assert!(!world.lives_after(610, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_taken_out_deletes_nothing_more() {
    let (world, mut file) = (world(), File::new(A_AND_B));
    let _controller = world.start_with(process().config_file(&file.path()));
    world.pass(3_000).await;
    file.write(ONLY_A);
    world.pass(10_000).await;
    assert_eq!(world.left(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_file_keeps_the_last_good_one_and_readiness_and_a_metric_say_so() {
    let (world, mut file) = (world(), File::new(ONLY_A));
    let controller = world.start_with(process().config_file(&file.path()));
    world.pass(20).await;
    assert!(
        controller.readyz().contains("[+]config-file ok"),
        "{}",
        controller.readyz()
    );
    for broken in [
        "policies: [{name: a, ttlAfterSucceeded: 1x}]",
        "policies: [",
        "policies: {}",
        "policies: [{name: a, ttlAfterSucceeded: 1m, kinds: [Pod]}]",
    ] {
        file.write(broken);
        world.pass(20).await;
        assert_eq!(controller.metric(REFUSED), 1, "{broken}");
    }
    file.write("policies: [{name: a, ttlAfterSucceeded: 1x}]");
    world.pass(20).await;
    let readyz = controller.readyz();
    assert!(
        readyz.contains("[-]config-file failed: the last good file counts: ")
            && readyz.contains("config.yaml:1: policies: [0] \"a\": ttlAfterSucceeded: invalid value \"1x\""),
        "{readyz}"
    );
    // The last good one counts, and since the start.
    assert!(!world.lives_after(3_600, "a").await);
    assert_eq!(world.left(), ["b"]);
    file.write(ONLY_A);
    world.pass(20).await;
    assert_eq!(controller.metric(REFUSED), 0);
    assert!(controller.readyz().contains("[+]config-file ok"));
}

/// The first lists take half a minute.
#[tokio::test(start_paused = true)]
async fn a_file_that_changes_before_the_caches_are_full_counts() {
    let (world, mut file) = (world(), File::new(ONLY_A));
    let slow = Fault::Delay(Duration::from_secs(30));
    world.server.fail(FaultRule::new(slow).resource("jobs").times(1));
    let _controller = world.start_with(process().config_file(&file.path()));
    world.pass(5).await;
    file.write(&A_AND_B.replace("name: a,", "name: a, maxPerHour: 1,"));
    world.pass(3_700).await;
    assert_eq!(world.left(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_releases_the_brake() {
    let world = World::new();
    for number in 0..5 {
        world.succeeded(&format!("job-{number}"), -60);
    }
    let policy = |most: u32| {
        format!("policyGracePeriod: 0s\npolicies: [{{name: p, ttlAfterSucceeded: 1s, maxPerHour: {most}}}]")
    };
    let mut file = File::new(&policy(2));
    let controller = world.start_with(process().config_file(&file.path()));
    world.pass(60).await;
    assert_eq!(
        (
            world.alive(),
            controller.metric("ttl_after_finished_controller_brake_engaged")
        ),
        (3, 1)
    );
    file.write(&policy(10));
    world.pass(60).await;
    assert_eq!(
        (
            world.alive(),
            controller.metric("ttl_after_finished_controller_brake_engaged")
        ),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn without_policies_the_file_is_not_read_again() {
    let (world, mut file) = (world(), File::new("concurrentSyncs: 3\n"));
    let controller = world.start_with(process().config_file(&file.path()));
    world.pass(20).await;
    file.write(A_AND_B);
    world.pass(10_000).await;
    assert_eq!(world.left(), ["a", "b"]);
    assert!(!controller.scrape().contains(REFUSED));
    let reads = world
        .ours()
        .only(|read| read.verb == RequestVerb::List && read.resource == "namespaces");
    assert_eq!(reads.len(), 0);
}
