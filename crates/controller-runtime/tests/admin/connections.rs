use super::*;

#[tokio::test]
async fn only_get_and_head_without_a_body_are_taken() {
    let bench = Bench::new().await;
    for (request, status) in [
        (
            "POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 405 Method Not Allowed",
        ),
        (
            "DELETE /nowhere HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 405 Method Not Allowed",
        ),
        (
            "GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 413 Payload Too Large",
        ),
        (
            "GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK",
        ),
        ("GET /livez HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK"),
    ] {
        let (head, _) = bench.exchange(request).await;
        assert_eq!(status_line(&head), status, "{request}");
    }
    let (head, body) = bench.exchange("HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(status_line(&head), "HTTP/1.1 200 OK");
    assert!(head.contains("\r\ncontent-length: 2\r\n"), "{head}");
    assert_eq!(body, "");
}

#[tokio::test]
async fn a_request_that_is_none_or_too_large_is_refused() {
    let bench = Bench::new().await;
    let (head, _) = bench.exchange("nonsense\r\n\r\n").await;
    assert_eq!(status_line(&head), "HTTP/1.1 400 Bad Request");
    // Exactly the size that the server reads, as unread bytes would reset the connection.
    let begin = "GET /livez HTTP/1.1\r\nHost: a\r\nX-Long: ";
    let long = format!("{begin}{}", "x".repeat(8192 - begin.len()));
    let (head, _) = bench.exchange(&long).await;
    assert_eq!(status_line(&head), "HTTP/1.1 431 Request Header Fields Too Large");
}

#[tokio::test]
async fn a_request_that_never_ends_is_cut() {
    let limits = AdminLimits {
        request: Duration::from_millis(50),
        ..AdminLimits::default()
    };
    let bench = Bench::with(None, limits).await;
    for begun in ["", "GET /live", "GET /livez HTTP/1.1\r\nHost: a\r\n"] {
        let mut stream = bench.connect().await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        assert!(is_closed(&mut stream).await, "{begun:?}");
    }
    let pair = Pair::new();
    let bench = Bench::with(Some(pair.certificate()), limits).await;
    // A handshake that the client never begins.
    assert!(is_closed(&mut bench.connect().await).await);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_makes_room_for_the_next() {
    let limits = AdminLimits {
        request: Duration::from_millis(100),
        connections: 1,
        ..AdminLimits::default()
    };
    let bench = Bench::with(None, limits).await;
    let mut lazy = bench.connect().await;
    lazy.write_all(b"GET /configz HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    lazy.readable().await.unwrap();
    within_deadline(async {
        // Refused until the server has cut the lazy client.
        while !matches!(
            exchange(bench.connect().await, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await,
            Ok((head, _)) if status_line(&head) == "HTTP/1.1 200 OK"
        ) {}
    })
    .await;
}

#[tokio::test]
async fn the_oldest_connection_makes_room_for_one_too_many() {
    let limits = AdminLimits {
        connections: 2,
        ..patient()
    };
    let bench = Bench::with(None, limits).await;
    let mut first = bench.connect().await;
    let second = bench.connect().await;
    assert_eq!(bench.get("/livez").await.1, "ok");
    assert!(is_closed(&mut first).await);
    let request = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
    let (head, _) = exchange(second, request).await.unwrap();
    assert_eq!(status_line(&head), "HTTP/1.1 200 OK", "the younger one stays");
}

#[tokio::test]
async fn a_flood_of_idle_connections_keeps_no_probe_from_its_answer() {
    let bench = Bench::with(None, patient()).await;
    let mut idle = Vec::new();
    for number in 1..=400 {
        idle.push(bench.connect().await);
        if number % 20 == 0 {
            assert_eq!(
                bench.get("/livez").await.1,
                "ok",
                "next to {number} idle connections"
            );
        }
    }
}

/// The default address also serves IPv4 clients.
#[tokio::test]
async fn the_unspecified_address_serves_ipv4() {
    let every = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let server = AdminServer::bind(every, None, Clock::system(), AdminLimits::default())
        .await
        .unwrap();
    let port = server.local_addr().port();
    within_deadline(TcpStream::connect((Ipv4Addr::LOCALHOST, port)))
        .await
        .unwrap();
}

#[tokio::test]
async fn stopping_ends_the_server_although_a_client_holds_on() {
    let mut bench = Bench::new().await;
    assert_eq!(bench.get("/livez").await.1, "ok");
    let idle = bench.connect().await;
    bench.trigger.advance();
    within_deadline(bench.tasks.first_failure()).await;
    TcpStream::connect(bench.addr).await.unwrap_err();
    drop(idle);
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let bench = Bench::new().await;
    let error = AdminServer::bind(bench.addr, None, Clock::system(), AdminLimits::default())
        .await
        .unwrap_err();
    let said = Chain(&error).to_string();
    let start = format!("bind the admin server to {}: Address already in use", bench.addr);
    assert!(said.starts_with(&start), "{said}");
}
