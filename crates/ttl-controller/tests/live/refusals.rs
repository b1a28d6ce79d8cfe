//! What the user reads when something is wrong: one clear message, and the exit code.

use std::path::Path;
use std::time::Duration;

use controller_testing::cluster::binary;
use controller_testing::soon;
use controller_testing::surface::kubeconfig_of;
use local_control_plane::{Process, eventually};
use rstest::rstest;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{BUILT, Cluster, Nodes, Replica, SOON};

/// Runs the binary with `args` and a file `content` named in them as `FILE`; its exit code and output.
async fn outcome(args: &[&str], content: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file.yaml");
    std::fs::write(&file, content).unwrap();
    let args: Vec<String> = args
        .iter()
        .map(|arg| arg.replace("FILE", file.to_str().unwrap()))
        .collect();
    let mut process = Process::spawn(&binary(BUILT), &args, &[]).unwrap();
    let code = process.wait_exit(SOON).await.unwrap().code();
    (code, process.log().replace(file.to_str().unwrap(), "FILE"))
}

#[rstest]
#[case::an_unknown_flag(&["--concurrent-sincs=3"], "", 2, &["--concurrent-sincs", "--concurrent-syncs"])]
#[case::a_wrong_number(&["--concurrent-syncs=many"], "", 2, &["--concurrent-syncs", "many"])]
#[case::a_number_out_of_range(&["--concurrent-syncs=0"], "", 2, &["--concurrent-syncs", "invalid value 0: expected a whole number from 1 to 1000"])]
#[case::two_wrong_flags(&["--concurrent-syncs=many", "--kube-api-qps=fast"], "", 2, &["many", "fast"])]
#[case::lease_times_that_contradict(&["--leader-elect-lease-duration=5s"], "", 2, &["leaderElectLeaseDuration", "5s", "10s"])]
#[case::an_unknown_key(&["--config=FILE"], "concurrentSyncs: 3\nkubeApiQsp: 5\n", 2, &["FILE:2", "kubeApiQsp", "kubeApiQps"])]
#[case::wrong_yaml(&["--config=FILE"], "concurrentSyncs: [3\n", 2, &["FILE:"])]
#[case::a_config_that_is_not_there(&["--config=/nowhere/config.yaml"], "", 2, &["/nowhere/config.yaml"])]
#[case::a_log_filter_that_is_none(&["--log-level=a=b=c", "--kubeconfig=FILE"], "", 2, &["a=b=c"])]
#[case::a_kubeconfig_that_is_not_there(&["--kubeconfig=/nowhere/kubeconfig"], "", 1, &["cannot read kubeconfig /nowhere/kubeconfig", "No such file"])]
#[case::a_kubeconfig_that_is_none(&["--kubeconfig=FILE"], "clusters: 3\n", 1, &["cannot use kubeconfig FILE"])]
#[case::a_context_that_is_not_in_it(&["--kubeconfig=FILE", "--context=blue"], "apiVersion: v1\nkind: Config\n", 1, &["cannot use kubeconfig FILE", "blue"])]
#[case::no_api_server_at_all(&[], "", 1, &["no API server configured", "--kubeconfig"])]
#[tokio::test]
async fn a_mistake_is_named_and_ends_the_process(
    #[case] args: &[&str],
    #[case] content: &str,
    #[case] code: i32,
    #[case] named: &[&str],
) {
    let (exit, output) = outcome(args, content).await;
    assert_eq!(exit, Some(code), "{output}");
    for text in named {
        assert!(output.contains(text), "{text:?} is not in:\n{output}");
    }
    assert!(!output.contains("panicked"), "{output}");
    assert!(
        output.matches("error").count() <= 1,
        "more than one message:\n{output}"
    );
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let kubeconfig = kubeconfig_of("127.0.0.1:1");
    let bind = format!("--http-bind-address={address}");
    let (code, output) = outcome(&["--kubeconfig=FILE", &bind], &kubeconfig).await;
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains(&address) && output.contains("in use"), "{output}");
}

/// CORE-18: it tells its version, and answers nothing else.
#[tokio::test]
async fn an_api_server_that_is_newer_than_any_that_was_tested_is_named_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, kubeconfig_of(&listener.local_addr().unwrap().to_string())).unwrap();
    let answers = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let (status, body) = if request[..length].starts_with(b"GET /version ") {
                ("200 OK", r#"{"major":"1","minor":"38","gitVersion":"v1.38.0"}"#)
            } else {
                ("503 Service Unavailable", "")
            };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    };
    let replica = Replica::start(&binary(BUILT), &file, &[]);
    let said = "not tested with 1.38: this release is for Kubernetes 1.35 to 1.37";
    let told = eventually(SOON, said, async || (replica.said(said) > 0).then_some(()));
    tokio::select! {
        () = answers => {}
        told = told => told.unwrap(),
    }
    assert_eq!(replica.said(said), 1);
    assert_eq!(replica.get("/livez").await.0, 200, "it works on");
}

/// CORE-12: nothing listens at the API server's address.
#[tokio::test]
async fn an_unreachable_api_server_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, kubeconfig_of("127.0.0.1:1")).unwrap();
    let replica = Replica::start(&binary(BUILT), &file, &[]);
    soon("readiness says why", async || {
        let (code, text) = replica.get("/readyz").await;
        (code == 500
            && text.contains("[-]informer-nodes")
            && text.to_lowercase().contains("connection refused"))
        .then_some(())
    })
    .await;
    assert_eq!(replica.get("/livez").await.0, 200);
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_permissions_of_the_chart_are_enough_and_none_is_unused() {
    let cluster = Cluster::with_nodes(0..120, None).await;
    let replica = cluster.start(&[]);
    cluster.until_all_carry(120, "15").await;
    // A standby watches the lease.
    let standby = cluster.start(&[]);
    // A rival, for the event.
    for _ in 0..4 {
        cluster.annotate(1, "7").await;
        let put_right = async || {
            (cluster.carried().await.get("15") == Some(&120) || replica.said("\"manager\"") > 0).then_some(())
        };
        soon("the value is put right or the rival named", put_right).await;
    }
    cluster.until_all_used().await;
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(standby.stop().await, Some(0));
    assert_eq!(cluster.refused(), []);
    assert_eq!(cluster.beyond(), []);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_missing_permission_is_named_and_used_once_it_is_granted() {
    let cluster = Cluster::with_nodes(0..3, None).await;
    cluster.grant(json!([])).await;
    let replica = cluster.start(&[]);
    soon("readiness names the missing permission to watch", async || {
        let (code, text) = replica.get("/readyz").await;
        (code == 500 && text.contains("cannot watch resource \"nodes\"")).then_some(())
    })
    .await;
    assert_eq!(
        replica.said("cannot watch resource"),
        1,
        "{}",
        replica.process.log()
    );

    let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]);
    cluster.grant(rules).await;
    eventually(
        Duration::from_secs(90),
        "the missing write right is a note, not a failure",
        async || {
            let (code, text) = replica.get("/readyz?verbose").await;
            (code == 200 && text.contains("cannot patch resource \"nodes\"")).then_some(())
        },
    )
    .await
    .unwrap();

    let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]}]);
    cluster.grant(rules).await;
    cluster
        .until_all_carry_within(Duration::from_secs(90), 3, "0")
        .await;
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_wrong_token_is_retried_and_named() {
    let cluster = Cluster::new().await;
    let kubeconfig = cluster.control_plane.kubeconfig_for("nobody's-token").unwrap();
    let replica = Replica::start(&binary(BUILT), Path::new(&kubeconfig), &[]);
    soon("readiness says why", async || {
        let (code, text) = replica.get("/readyz").await;
        (code == 500 && text.contains("Unauthorized")).then_some(())
    })
    .await;
    assert_eq!(replica.stop().await, Some(0));
}
