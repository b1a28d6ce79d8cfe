use super::*;

#[tokio::test]
async fn where_no_certificate_is_given_one_is_made() {
    let (bench, _) = reviewed(Some(Certificate::SelfSigned)).await;
    let url = format!("https://{}", bench.addr).parse().unwrap();
    let mut config = kube::Config::new(url);
    config.accept_invalid_certs = true;
    config.auth_info.token = Some("reader".to_owned().into());
    let client = kube::Client::try_from(config).unwrap();
    let get = |path: &str| Request::get(path).body(Vec::new()).unwrap();
    let metrics = client.request_text(get("/metrics")).await.unwrap();
    assert!(metrics.contains("controller_build_info"), "{metrics}");
    assert_eq!(client.request_text(get("/livez")).await.unwrap(), "ok");
}

/// Returns whether the server presents exactly the certificate `trusted`.
async fn shows(addr: SocketAddr, trusted: &CertificateDer<'static>) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = within_deadline(TcpStream::connect(addr)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let Ok(stream) = within_deadline(TlsConnector::from(Arc::new(config)).connect(name, stream)).await else {
        return false;
    };
    let (head, body) = exchange(stream, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert_eq!((&*status_line(&head), &*body), ("HTTP/1.1 200 OK", "ok"));
    true
}

#[tokio::test]
async fn a_changed_certificate_is_taken_and_a_broken_one_is_not() {
    let pair = Pair::new();
    let limits = AdminLimits {
        tls_check: Duration::ZERO,
        ..patient()
    };
    let bench = Bench::with(Some(pair.certificate()), limits).await;
    let (new, new_cert, new_key) = certificate();
    assert!(shows(bench.addr, &pair.cert).await);
    assert!(!shows(bench.addr, &new).await);

    std::fs::write(&pair.paths.cert, new_cert).unwrap();
    assert!(shows(bench.addr, &pair.cert).await, "the key does not fit yet");
    std::fs::write(&pair.paths.key, new_key).unwrap();
    assert!(shows(bench.addr, &new).await);

    std::fs::write(&pair.paths.key, "no key").unwrap();
    assert!(shows(bench.addr, &new).await, "a broken key");
    std::fs::remove_file(&pair.paths.cert).unwrap();
    assert!(shows(bench.addr, &new).await, "no certificate");
}

#[tokio::test]
async fn the_files_are_not_looked_at_for_every_connection() {
    let pair = Pair::new();
    let limits = AdminLimits {
        tls_check: Duration::from_hours(1),
        ..patient()
    };
    let bench = Bench::with(Some(pair.certificate()), limits).await;
    let (new, new_cert, new_key) = certificate();
    std::fs::write(&pair.paths.cert, new_cert).unwrap();
    std::fs::write(&pair.paths.key, new_key).unwrap();
    assert!(shows(bench.addr, &pair.cert).await);
    assert!(!shows(bench.addr, &new).await);
}

#[tokio::test]
async fn a_client_without_tls_gets_no_answer_and_does_no_harm() {
    let pair = Pair::new();
    let bench = Bench::with(Some(pair.certificate()), patient()).await;
    let answer = exchange(bench.connect().await, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(!matches!(answer, Ok((head, _)) if head.starts_with("HTTP/")));
    assert!(shows(bench.addr, &pair.cert).await);
}

#[tokio::test]
async fn a_pair_that_cannot_be_used_at_the_start_is_an_error_that_names_it() {
    let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap();

    let pair = Pair::new();
    std::fs::remove_file(&pair.paths.key).unwrap();
    assert_eq!(
        pair.error().await,
        "read TLS file DIR/tls.key: No such file or directory (os error 2)"
    );

    let pair = Pair::new();
    write(&pair.paths.cert, "");
    assert_eq!(
        pair.error().await,
        "take a certificate from TLS file DIR/tls.crt: no items found"
    );

    let pair = Pair::new();
    let lines_lost = certificate().2.replace('\n', " ");
    write(&pair.paths.key, &lines_lost);
    assert_eq!(
        pair.error().await,
        "take the private key from TLS file DIR/tls.key: a section has no end",
        "a word of the key is one too many"
    );

    let pair = Pair::new();
    write(&pair.paths.key, &certificate().2);
    let said = pair.error().await;
    assert!(
        said.starts_with("use certificate DIR/tls.crt with private key DIR/tls.key: "),
        "{said}"
    );
}

#[tokio::test]
async fn a_pair_that_cannot_be_used_takes_no_port() {
    let pair = Pair::new();
    std::fs::remove_file(&pair.paths.cert).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let error = AdminServer::bind(
        any,
        Some(pair.certificate()),
        Clock::system(),
        AdminLimits::default(),
    )
    .await
    .unwrap_err();
    assert!(matches!(error, Error::Tls(tls_files::Error::Read { path, .. }) if path == pair.paths.cert));
}
