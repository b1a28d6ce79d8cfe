use super::*;

#[tokio::test]
async fn readiness_and_liveness_follow_their_checks() {
    let bench = Bench::new().await;
    let synced = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&synced);
    let answer = move || {
        if asked.load(SeqCst) {
            Ok(())
        } else {
            Err("not listed yet".to_owned())
        }
    };
    bench.readiness.check("informer-nodes", answer);
    let (status, body) = bench.get("/readyz").await;
    assert_eq!(status, "HTTP/1.1 500 Internal Server Error");
    assert_eq!(
        body,
        "[-]informer-nodes failed: not listed yet\nreadyz check failed\n"
    );
    synced.store(true, SeqCst);
    assert_eq!(
        bench.get("/readyz").await,
        ("HTTP/1.1 200 OK".to_owned(), "ok".to_owned())
    );
    for query in ["?verbose", "?verbose=1", "?a=b&verbose"] {
        let (_, body) = bench.get(&format!("/readyz{query}")).await;
        assert_eq!(body, "[+]informer-nodes ok\nreadyz check passed\n", "{query}");
    }
    assert_eq!(bench.get("/readyz?terse&verbosely").await.1, "ok");

    assert_eq!(bench.get("/livez").await.1, "ok");
    bench.liveness.queue("nodes", || Duration::from_secs(301));
    for endpoint in ["livez", "healthz"] {
        let (status, body) = bench.get(&format!("/{endpoint}")).await;
        assert_eq!(status, "HTTP/1.1 500 Internal Server Error");
        let expected = "[-]queue-nodes failed: a worker is busy with one item for 301 s";
        assert_eq!(body, format!("{expected}\n{endpoint} check failed\n"));
    }
}

#[tokio::test]
async fn metrics_have_the_content_type_of_prometheus() {
    let bench = Bench::new().await;
    let (head, body) = bench.exchange("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(status_line(&head), "HTTP/1.1 200 OK");
    assert!(
        head.contains("\r\ncontent-type: text/plain; version=0.0.4\r\n"),
        "{head}"
    );
    assert!(
        body.contains("\ncontroller_build_info{commit=\"abc\",version=\"1.2.3\"} 1\n"),
        "{body}"
    );
}

#[tokio::test]
async fn the_version_and_a_config_of_any_size_are_json() {
    let bench = Bench::new().await;
    let (_, body) = bench.get("/version").await;
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap(),
        json!({"version": "1.2.3", "commit": "abc", "kubernetesVersions": ["1.35", "1.36", "1.37"]})
    );
    let (head, body) = bench.exchange("GET /configz HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
    let config: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(config["dryRun"], true);
}

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

/// Head and body of the answer to a client that accepts `accept`.
async fn accepted(bench: &Bench, path: &str, accept: &str) -> (String, String) {
    let accept = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
    bench.exchange(&accept).await
}

#[tokio::test]
async fn flagz_lists_the_flags_without_secrets_as_text_or_as_an_object() {
    let toy = CommonConfig {
        kubeconfig: Some("https://me:secret@host/config".into()),
        ..CommonConfig::default()
    };
    let bench = Bench::showing(effective(&toy), None, patient(), None).await;
    let (head, body) = accepted(&bench, "/flagz", "*/*").await;
    assert!(
        head.contains("\r\ncontent-type: text/plain; charset=utf-8\r\n"),
        "{head}"
    );
    let start = format!("\ntoy-controller flagz\n{WARNING}\n");
    let flags: Vec<_> = body.strip_prefix(&start).expect(&body).lines().collect();
    let names = flags.iter().map(|flag| flag.split('=').next());
    assert!(names.is_sorted(), "{flags:?}");
    for flag in [
        "context=",
        "dry-run=false",
        "kube-api-qps=50",
        "kubeconfig=https://***@host/config",
        "leader-elect-lease-duration=15s",
    ] {
        assert!(flags.contains(&flag), "{flag} in {flags:?}");
    }

    let object = "application/json;g=config.k8s.io;v=v1beta1;as=Flagz";
    let (head, body) = accepted(&bench, "/flagz", object).await;
    assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
    let found: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        [&found["kind"], &found["apiVersion"], &found["metadata"]["name"]],
        ["Flagz", "config.k8s.io/v1beta1", "toy-controller"]
    );
    assert_eq!(found["flags"]["kube-api-qps"], "50");
    assert_eq!(found["flags"].as_object().unwrap().len(), flags.len());

    let (head, body) = accepted(&bench, "/flagz", "application/json").await;
    assert_eq!(status_line(&head), "HTTP/1.1 406 Not Acceptable");
    assert_eq!(
        body,
        "there are text/plain and application/json;g=config.k8s.io;v=v1beta1;as=Flagz\n"
    );
}

#[tokio::test]
async fn statusz_tells_since_when_which_version_runs() {
    let bench = Bench::new().await;
    let (_, body) = bench.get("/statusz").await;
    let lines: Vec<_> = body.lines().collect();
    let [empty, name, warning, gap, started, up, version, paths] = *lines else {
        panic!("{body}");
    };
    assert_eq!(
        [empty, name, warning, gap],
        ["", "toy-controller statusz", WARNING, ""]
    );
    assert!(
        started.starts_with("Started: ") && started.contains(" UTC 2"),
        "{started}"
    );
    assert!(up.starts_with("Up: 0 hr 0"), "{up}");
    assert_eq!(version, "Binary version: 1.2.3");
    assert_eq!(
        paths,
        "Paths: /configz /flagz /healthz /livez /metrics /readyz /statusz /version"
    );

    let object = "application/json;g=config.k8s.io;v=v1beta1;as=Statusz";
    let (_, body) = accepted(&bench, "/statusz", object).await;
    let found: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(found["kind"], "Statusz");
    assert_eq!(found["binaryVersion"], "1.2.3");
    assert!(found["uptimeSeconds"].as_u64().unwrap() < 60, "{found}");
    found["startTime"].as_str().unwrap().parse::<Timestamp>().unwrap();
}

#[tokio::test]
async fn an_unknown_path_lists_the_known_ones() {
    let (status, body) = Bench::new().await.get("/").await;
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert_eq!(
        body,
        "not found; there are /configz /flagz /healthz /livez /metrics /readyz /statusz /version\n"
    );
}
