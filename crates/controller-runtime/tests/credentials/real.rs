use super::*;

#[tokio::test]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_rotated_client_certificate_is_used_without_a_restart() {
    let (authority, ca) = (Authority::new(), tempfile::tempdir().unwrap());
    let ca = ca.path().join("ca.crt");
    std::fs::write(&ca, &authority.cert).unwrap();
    let options = Options {
        api_server_args: vec![format!("--client-ca-file={}", ca.display())],
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let kubeconfig = std::fs::read_to_string(control_plane.kubeconfig()).unwrap();
    let kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
    let cluster = &kubeconfig["clusters"][0]["cluster"];

    let soon = u64::try_from(Clock::system().now().as_second()).unwrap() + 8;
    let before = authority.user_until("before", soon);
    let (rotated, left) = (Files::new(cluster, &before), Files::new(cluster, &before));
    let (client, client_of_before) = (rotated.client().await, left.client().await);
    assert_eq!(name_of(&client).await.unwrap(), "before");
    assert_eq!(name_of(&client_of_before).await.unwrap(), "before");

    rotated.write_identity(&authority.user("after"));
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");

    let refused = eventually(DEADLINE, "the certificate of before has expired", async || {
        name_of(&client_of_before).await.err()
    });
    let refused = refused.await.unwrap();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 401),
        "{refused}"
    );
    assert_eq!(name_of(&client).await.unwrap(), "after");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_rotated_token_is_used_without_a_restart() {
    let (before, after) = (TokenUser::new("before"), TokenUser::new("after"));
    let tokens = (before.token.clone(), after.token.clone());
    let options = Options {
        users: vec![before, after],
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();

    let directory = tempfile::tempdir().unwrap();
    let token_file = directory.path().join("token");
    std::fs::write(&token_file, &tokens.0).unwrap();
    let kubeconfig = control_plane.kubeconfig_for(&tokens.0).unwrap();
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let with_file = text
        .replace(&tokens.0, "TOKEN")
        .replace("\"token\"", "\"tokenFile\"")
        .replace("token:", "tokenFile:");
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, with_file.replace("TOKEN", token_file.to_str().unwrap())).unwrap();

    let client = client(&path).await.unwrap();
    assert_eq!(name_of(&client).await.unwrap(), "before");

    std::fs::write(&token_file, &tokens.1).unwrap();
    eventually(Duration::from_secs(90), "the new token is used", async || {
        (name_of(&client).await.ok().as_deref() == Some("after")).then_some(())
    })
    .await
    .unwrap();
}
