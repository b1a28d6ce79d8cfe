use super::*;

/// Method, path, `Authorization`, and status code.
const REQUESTS: &str = "
GET  /metrics |               | 401
GET  /metrics | Basic reader  | 401
GET  /metrics | Bearer        | 401
GET  /metrics | Bearer madeup | 401
GET  /metrics | Bearer reader | 200
GET  /metrics | bearer reader | 200
GET  /metrics | Bearer other  | 403
GET  /metrics | Bearer torn   | 403
GET  /metrics | Bearer broken | 500
GET  /metrics?name[]=up | Bearer reader | 200
HEAD /metrics | Bearer reader | 403
GET  /configz |               | 401
GET  /configz | Bearer reader | 403
POST /metrics |               | 405
GET  /livez   |               | 200
GET  /readyz  |               | 200
GET  /readyz  | Bearer madeup | 200
GET  /healthz |               | 200
GET  /version |               | 200
GET  /metric  |               | 404
";

/// As `REQUESTS`, sent to a server without cached reviews.
const OPERATORS: &str = "
GET  /configz | Bearer operator | 200
GET  /flagz   |                 | 401
GET  /flagz   | Bearer reader   | 403
GET  /flagz   | Bearer operator | 200
GET  /statusz |                 | 401
GET  /statusz | Bearer reader   | 403
GET  /statusz | Bearer operator | 200
GET  /metrics | Bearer operator | 403
";

#[tokio::test]
async fn metrics_and_config_are_for_those_whom_the_api_server_allows_it() {
    for table in [REQUESTS, OPERATORS] {
        let (bench, _) = reviewed(None).await;
        bench.readiness.check("informer-nodes", || Ok(()));
        for row in table.trim().lines() {
            let [request, authorization, code] = *row.split('|').map(str::trim).collect::<Vec<_>>() else {
                panic!("no row: {row}");
            };
            let (method, path) = request.split_once(' ').unwrap();
            let path = path.trim();
            let header = match authorization {
                "" => String::new(),
                authorization => format!("Authorization: {authorization}\r\n"),
            };
            let (head, _) = bench
                .exchange(&format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{header}\r\n"))
                .await;
            assert_eq!(head.split(' ').nth(1), Some(code), "{row}");
        }
    }
}

/// Without authorization: client address, path, and status code.
const UNREVIEWED: &str = "
127.0.0.1 | /metrics | 200
127.0.0.2 | /metrics | 200
127.0.0.1 | /configz | 200
127.0.0.2 | /configz | 403
127.0.0.1 | /flagz   | 200
127.0.0.2 | /flagz   | 403
127.0.0.1 | /statusz | 200
127.0.0.2 | /statusz | 403
127.0.0.2 | /livez   | 200
127.0.0.2 | /readyz  | 200
127.0.0.2 | /healthz | 200
127.0.0.2 | /version | 200
";

#[tokio::test]
async fn where_nobody_is_asked_the_config_is_for_callers_from_localhost() {
    let bench = Bench::new().await;
    bench.readiness.check("informer-nodes", || Ok(()));
    for row in UNREVIEWED.trim().lines() {
        let [from, path, code] = *row.split('|').map(str::trim).collect::<Vec<_>>() else {
            panic!("no row: {row}");
        };
        let stream = match from {
            "127.0.0.1" => bench.connect().await,
            _ => bench.connect_from_elsewhere().await,
        };
        // Without TLS the server ignores tokens: any listener could have stolen them.
        let (head, body) = exchange(stream, &with_token("operator", path)).await.unwrap();
        assert_eq!(head.split(' ').nth(1), Some(code), "{row}");
        if code == "403" {
            let why = "this path is for callers from localhost, as through kubectl port-forward, and with \
                       --metrics-authorization=kubernetes for bearer tokens\n";
            assert_eq!(body, why, "{row}");
        }
    }
}

/// Authorization, client address, token, and whether the answer tells the reasons.
const REASONS: &str = "
no  | 127.0.0.1 |          | told
no  | 127.0.0.2 |          | withheld
no  | 127.0.0.2 | operator | withheld
yes | 127.0.0.1 |          | withheld
yes | 127.0.0.2 |          | withheld
yes | 127.0.0.2 | madeup   | withheld
yes | 127.0.0.2 | reader   | withheld
yes | 127.0.0.2 | other    | withheld
yes | 127.0.0.2 | broken   | withheld
yes | 127.0.0.2 | operator | told
";

#[tokio::test]
async fn the_reasons_are_for_whom_the_config_is_and_the_names_for_everybody() {
    for row in REASONS.trim().lines() {
        let [is_asked, from, token, expected] = *row.split('|').map(str::trim).collect::<Vec<_>>() else {
            panic!("no row: {row}");
        };
        let bench = match is_asked {
            "yes" => reviewed(None).await.0,
            _ => Bench::new().await,
        };
        bench.readiness.check("lease", || Ok(()));
        bench
            .readiness
            .check("informer-nodes", || Err("forbidden".to_owned()));
        bench
            .readiness
            .notes("missing permission", || vec!["patch nodes".to_owned()]);
        bench.liveness.queue("nodes", || Duration::from_secs(301));
        let (why, note, stuck) = match expected {
            "told" => (
                "forbidden",
                "patch nodes",
                "a worker is busy with one item for 301 s",
            ),
            _ => ("reason withheld", "reason withheld", "reason withheld"),
        };
        let failed = format!("[-]informer-nodes failed: {why}\n");
        let end = "readyz check failed\n";
        for (path, expected) in [
            ("/readyz", format!("{failed}{end}")),
            (
                "/readyz?verbose",
                format!("[+]lease ok\n{failed}[!]missing permission: {note}\n{end}"),
            ),
            (
                "/livez",
                format!("[-]queue-nodes failed: {stuck}\nlivez check failed\n"),
            ),
        ] {
            let stream = match from {
                "127.0.0.1" => bench.connect().await,
                _ => bench.connect_from_elsewhere().await,
            };
            let request = match token {
                "" => format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"),
                token => with_token(token, path),
            };
            let (head, body) = exchange(stream, &request).await.unwrap();
            assert_eq!(status_line(&head), "HTTP/1.1 500 Internal Server Error", "{row}");
            assert_eq!(body, expected, "{row} {path}");
        }
    }
}

fn with_token(token: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n")
}

#[tokio::test]
async fn the_api_server_is_asked_about_the_token_and_then_about_its_user_once() {
    let (bench, asked) = reviewed(None).await;
    for _ in 0..5 {
        bench.exchange(&with_token("reader", "/metrics")).await;
        bench.exchange(&with_token("madeup", "/metrics")).await;
    }
    let user = json!({
        "user": "reader", "uid": "1", "groups": ["readers"], "extra": {"of": ["a", "b"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    });
    assert_eq!(
        *asked.lock(),
        [
            (TOKEN_REVIEWS.to_owned(), json!({"token": "reader"})),
            (ACCESS_REVIEWS.to_owned(), user),
            (TOKEN_REVIEWS.to_owned(), json!({"token": "madeup"})),
        ]
    );
}

#[tokio::test]
async fn a_refusal_says_what_is_missing_and_to_whom() {
    let (bench, _) = reviewed(None).await;
    let (head, body) = bench.exchange("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(head.contains("\r\nwww-authenticate: Bearer\r\n"), "{head}");
    assert_eq!(body, "a bearer token is needed that the API server knows\n");
    let (_, body) = bench.exchange(&with_token("other", "/metrics")).await;
    assert_eq!(body, "user \"other\" may not read this path\n");
}

#[tokio::test]
async fn a_flood_of_made_up_tokens_is_turned_away() {
    let (bench, asked) = reviewed(None).await;
    let mut codes = Vec::new();
    for token in 0..40 {
        let (head, _) = bench
            .exchange(&with_token(&format!("madeup-{token}"), "/metrics"))
            .await;
        codes.push(head.split(' ').nth(1).unwrap().to_owned());
    }
    assert_eq!(
        codes.iter().filter(|code| *code == "401").count(),
        asked.lock().len()
    );
    assert!(codes.contains(&"429".to_owned()), "{codes:?}");

    // A new token of a scraper is reviewed, as the scraper has another address.
    let elsewhere = bench.connect_from_elsewhere().await;
    let (head, _) = exchange(elsewhere, &with_token("reader", "/metrics"))
        .await
        .unwrap();
    assert_eq!(status_line(&head), "HTTP/1.1 200 OK");
}
