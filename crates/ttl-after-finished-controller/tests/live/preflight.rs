//! What `preflight` says next to the built-in loop.

use controller_testing::preflight::finding;
use serde_json::json;

use crate::policies::{file, flag};
use crate::support::Cluster;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_preflight_lets_the_built_in_loop_run_with_policies_alone() {
    let cluster = Cluster::new().await;
    let on = ["ttl-after-finished-controller"];
    let _manager = cluster.start_manager(&on).await;
    cluster.show_manager(&on).await;
    let alone = file("onlyPolicies: true\n");
    for (args, level, code) in [
        (vec![], "blocks", 2),
        (vec!["--only-policies".to_owned()], "ok", 0),
        (vec![flag(&alone)], "ok", 0),
    ] {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let (ended, report) = cluster.preflight(&args).await;
        let finding = finding(&report, "builtInLoop");
        assert_eq!(
            (ended, &report["builtInLoop"], &finding["level"]),
            (code, &json!("on"), &json!(level)),
            "{args:?}: {report:#}"
        );
    }
}
