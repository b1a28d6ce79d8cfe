use super::*;

#[tokio::test]
async fn a_rotated_client_certificate_is_used_within_10_s_over_new_connections() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let client = files.client().await;
    assert_eq!(name_of(&client).await.unwrap(), "before");

    files.write_identity(&server.after);
    pass(LOOK_EVERY / 2).await;
    assert_eq!(name_of(&client).await.unwrap(), "before", "not looked at yet");
    assert_eq!(server.opened(), 1);

    pass(LOOK_EVERY / 2).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
    assert_eq!(server.opened(), 2);
    server.only_is_open(1).await;

    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
    assert_eq!(server.opened(), 2, "a connection without a change");
}

/// Expiry from the metrics.
fn expiry(registry: &Registry) -> Option<u64> {
    let metrics = encode(registry).unwrap();
    let name = "controller_client_certificate_expiration_timestamp_seconds ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.parse().unwrap())
}

#[tokio::test]
async fn the_metrics_tell_when_the_client_certificate_in_use_expires() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let (files, registry) = (server.files(&ca), Registry::new());
    let client = metered(&files.0.path().join("kubeconfig"), &registry)
        .await
        .unwrap();
    assert_eq!(expiry(&registry), Some(EXPIRIES[0]));

    files.write("tls.crt", &server.after.cert);
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "before");
    assert_eq!(expiry(&registry), Some(EXPIRIES[0]), "the key does not fit");

    files.write("tls.key", &server.after.key);
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
    assert_eq!(expiry(&registry), Some(EXPIRIES[1]));
}

#[tokio::test]
async fn the_metrics_tell_of_a_certificate_in_the_kubeconfig_and_of_none_where_there_is_none() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let inline = json!({
        "client-certificate-data": STANDARD.encode(&server.before.cert),
        "client-key-data": STANDARD.encode(&server.before.key),
    });
    for (user, expected) in [(inline, Some(EXPIRIES[0])), (json!({ "token": "t" }), None)] {
        files.write_kubeconfig(&server.cluster(ca.path()), &user);
        let registry = Registry::new();
        metered(&files.0.path().join("kubeconfig"), &registry)
            .await
            .unwrap();
        assert_eq!(expiry(&registry), expected, "{user}");
    }
}

#[tokio::test]
async fn a_half_written_pair_changes_nothing_until_its_other_half_is_there() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let client = files.client().await;

    files.write("tls.crt", &server.after.cert);
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "before", "the key does not fit");
    files.write("tls.key", "");
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "before", "there is no key");
    std::fs::remove_file(files.0.path().join("tls.key")).unwrap();
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "before", "there is no file");
    assert_eq!(server.opened(), 1);

    files.write("tls.key", &server.after.key);
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
}

#[tokio::test]
async fn a_pair_behind_a_symbolic_link_is_rotated_by_swapping_the_link() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let at = |name: &str| files.0.path().join(name);
    // The layout of a Secret volume by the kubelet.
    for (version, identity) in [("..1", &server.before), ("..2", &server.after)] {
        std::fs::create_dir(at(version)).unwrap();
        files.write(&format!("{version}/tls.crt"), &identity.cert);
        files.write(&format!("{version}/tls.key"), &identity.key);
    }
    std::os::unix::fs::symlink("..1", at("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        std::fs::remove_file(at(name)).unwrap();
        std::os::unix::fs::symlink(format!("..data/{name}"), at(name)).unwrap();
    }
    let client = files.client().await;
    assert_eq!(name_of(&client).await.unwrap(), "before");

    std::os::unix::fs::symlink("..2", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
}

#[tokio::test]
async fn a_watch_goes_on_over_its_old_connection_which_is_closed_when_it_ends() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let client = files.client().await;
    let request = Request::get("/api/v1/nodes?watch=true")
        .body(Body::empty())
        .unwrap();
    let mut watch = client.send(request).await.unwrap().into_body();

    files.write_identity(&server.after);
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
    server.events.send("event").unwrap();
    let event = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(event, "event");
    server.only_is_open(2).await;

    drop(watch);
    server.only_is_open(1).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
    assert_eq!(server.opened(), 2);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_at_the_start_is_an_error_that_shows_nothing_of_the_key() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let on_one_line = server.before.key.replace('\n', " ");
    let cut_off = &on_one_line[..on_one_line.len() / 2];
    files.write("tls.key", &on_one_line);
    assert_eq!(
        files.error().await,
        "cannot set up the connection with the client certificate of the kubeconfig: take the private key from TLS file DIR/tls.key: a section has no end"
    );

    std::fs::remove_file(files.0.path().join("tls.key")).unwrap();
    assert_eq!(
        files.error().await,
        "cannot set up the connection with the client certificate of the kubeconfig: read TLS file DIR/tls.key: No such file or directory (os error 2)"
    );

    let inline = |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.into())).unwrap();
    files.write_kubeconfig(
        &server.cluster(ca.path()),
        &json!({ "client-certificate-data": inline(&server.before.cert), "client-key-data": inline(cut_off) }),
    );
    assert_eq!(
        files.error().await,
        "cannot take the client certificate and its key from the kubeconfig: a section does not start as it must"
    );
}

// === a real API server ===
