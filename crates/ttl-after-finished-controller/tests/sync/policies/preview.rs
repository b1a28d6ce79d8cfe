//! What `preview` and `explain` print.

use controller_core::app::Flags;
use controller_core::config::{Encoding, GoDuration};
use controller_core::meta::ObjectKey;
use controller_runtime::driver;
use controller_runtime::sender::{Caller, Sender};
use embedded_apiserver::PODS;
use serde_json::{Value, json};
use ttl_after_finished_controller::config::Config;
use ttl_after_finished_controller::explain::explain;
use ttl_after_finished_controller::policy::FinishedKind;
use ttl_after_finished_controller::policy::preview::REPORT;

use crate::world::World;

fn config(policies: &Value) -> Config {
    Config {
        policies: serde_json::from_value(policies.clone()).unwrap(),
        policy_grace_period: GoDuration::from_secs(3_600),
        ..Config::default()
    }
}

fn sender(world: &World) -> Sender {
    Sender::new(
        world.client(),
        Caller::new(world.clock.clone()),
        Encoding::default(),
    )
}

async fn preview(world: &World, config: &Config, output: &str) -> String {
    let mut flags = Flags::default();
    flags.0.insert("output", vec![output.to_owned()]);
    let printed = driver::explain(sender(world), |pass, now| (REPORT.by)(config, pass, now, &flags)).await;
    printed.unwrap().text
}

fn policies() -> Value {
    json!([
        { "name": "ci", "kinds": ["Job", "Pod"], "ttlAfterSucceeded": "1h", "ttlAfterFailed": "1h",
          "keepLastFailed": 1, "maxPerHour": 3, "selector": { "matchExpressions": [{ "key": "app", "operator": "DoesNotExist" }] } },
        { "name": "rest", "ttlAfterSucceeded": "24h" },
    ])
}

#[tokio::test(start_paused = true)]
async fn a_preview_names_what_would_go_within_the_hour_and_deletes_nothing() {
    let world = World::new();
    world.succeeded("due", -4_000);
    world.succeeded("soon", -10);
    world.failed("failed-first", -5_000);
    world.failed("failed-last", -4_000);
    world.pod("pod", "Succeeded", -4_000);
    world.ended("tomorrow", "Complete", -10, &json!({ "app": "a" }));
    world.finished_job("by-ttl", 60, 0);
    let config = config(&policies());
    assert_eq!(
        preview(&world, &config, "text").await,
        "Job default/by-ttl: its own ttl: succeeded at 2026-01-01T00:00:00Z, will be due at 2026-01-01T00:01:00Z\n\
         Job default/due: policy ci: succeeded at 2025-12-31T22:53:20Z, is due at 2025-12-31T23:53:20Z\n\
         Job default/failed-first: policy ci: failed at 2025-12-31T22:36:40Z, is due at 2025-12-31T23:36:40Z\n\
         Job default/soon: policy ci: succeeded at 2025-12-31T23:59:50Z, will be due at 2026-01-01T00:59:50Z\n\
         Pod default/pod: policy ci: succeeded at 2025-12-31T22:53:20Z, is due at 2025-12-31T23:53:20Z\n\
         namespace default: Jobs 4, pods 1\n\
         policy ci: 4, more than its maxPerHour: it would stop and wait for a person\n\
         policy rest: 0\n\
         5 would go within an hour\n"
    );
    let report: Value = serde_json::from_str(&preview(&world, &config, "json").await).unwrap();
    assert_eq!(
        report["namespaces"],
        json!({ "default": { "jobs": 4, "pods": 1 } })
    );
    assert_eq!(report["policies"], json!({ "ci": 4, "rest": 0 }));
    assert_eq!(report["brakes"], json!(["ci"]));
    assert_eq!(report["items"].as_array().unwrap().len(), 5);
    assert_eq!(
        report["items"][4],
        json!({
            "namespace": "default", "kind": "Pod", "name": "pod", "policy": "ci",
            "finished": "2025-12-31T22:53:20Z", "due": "2025-12-31T23:53:20Z",
            "message": "policy ci: succeeded at 2025-12-31T22:53:20Z, is due at 2025-12-31T23:53:20Z",
        })
    );
    assert_eq!(world.all_writes(), Vec::<String>::new());
}

async fn explained(world: &World, config: &Config, kind: FinishedKind, name: &str) -> String {
    let key = ObjectKey::namespaced("default", name);
    let explained = driver::explain(sender(world), |pass, _| explain(config, pass, kind, &key)).await;
    explained.unwrap()
}

#[tokio::test(start_paused = true)]
async fn explain_names_the_policy_the_deadline_and_what_overrides_it() {
    let world = World::new();
    let config = config(&policies());
    world.succeeded("job", -10);
    assert_eq!(
        explained(&world, &config, FinishedKind::Job, "job").await,
        "Job default/job: ttlSecondsAfterFinished not set\n\
         policy ci (number 0) is the first that selects it\n\
         finished at 2025-12-31T23:59:50Z, due at 2026-01-01T00:59:50Z: would delete it in 59m 50s, but not before \
         the policy has applied to it for 1h in the process that leads\n"
    );
    world.pod("pod", "Failed", -4_000);
    assert_eq!(
        explained(&world, &config, FinishedKind::Pod, "pod").await,
        "Pod default/pod\n\
         policy ci (number 0) is the first that selects it\n\
         the last 1 that failed in its namespace stay longer\n\
         finished at 2025-12-31T22:53:20Z, due at 2025-12-31T23:53:20Z: would delete it now, but not before the \
         policy has applied to it for 1h in the process that leads\n"
    );
    world.edit_of(&PODS, "pod", |pod| {
        pod["metadata"]["finalizers"] = json!(["example.com/a"]);
    });
    assert!(
        explained(&world, &config, FinishedKind::Pod, "pod")
            .await
            .ends_with("would leave it: its finalizers would hold it\n")
    );
    world.finished_job("with-ttl", 60, 0);
    assert_eq!(
        explained(&world, &config, FinishedKind::Job, "with-ttl").await,
        "Job default/with-ttl: ttlSecondsAfterFinished 60 s\n\
         finished at 2026-01-01T00:00:00Z, expires at 2026-01-01T00:01:00Z: would delete it in 1m\n"
    );
    let only = Config {
        only_policies: true,
        ..config.clone()
    };
    assert_eq!(
        explained(&world, &only, FinishedKind::Job, "with-ttl").await,
        "Job default/with-ttl: ttlSecondsAfterFinished 60 s\n\
         would leave it: a Job with a ttl is left to the cluster's own loop (onlyPolicies)\n"
    );
    world.annotate_namespace(&json!({ "ttl-after-finished-controller/keep": "true" }));
    assert_eq!(
        explained(&world, &config, FinishedKind::Job, "job").await,
        "Job default/job: ttlSecondsAfterFinished not set\n\
         would leave it: its namespace is annotated ttl-after-finished-controller/keep: \"true\"\n"
    );
}
