use super::*;

/// The error of the first list from a server at `address`.
async fn failure_at(address: SocketAddr) -> ErrorKind {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_of(&address.to_string())).unwrap();
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig),
        context: None,
        limits: Limits { qps: 0.0, burst: 1 },
        user_agent: "test".to_owned(),
    };
    let clock = Clock::system();
    let metrics = RequestMetrics::register(&Registry::new()).unwrap();
    let client = connect(&options, &clock, &metrics).await.unwrap().http;
    let mut source = ListWatch::<ThingWire>::new(client, things(), Encoding::Json, clock);
    loop {
        if let SourceEvent::Failed(error) = source.next().await {
            return error.kind;
        }
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_distinguished_from_one_that_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let closes_each_connection = async {
        loop {
            let mut connection = listener.accept().await.unwrap().0;
            connection.read_u8().await.unwrap();
        }
    };
    tokio::select! {
        failure = failure_at(address) => assert_eq!(failure, ErrorKind::Other),
        () = closes_each_connection => {}
    }
    drop(listener);
    assert_eq!(failure_at(address).await, ErrorKind::Unreachable);
}
