use super::*;

/// Only labels: the API server may omit the rest.
#[derive(Clone, serde::Deserialize)]
struct LabelsWire {
    metadata: Labels,
}

#[derive(Clone, serde::Deserialize)]
struct Labels {
    #[serde(default)]
    labels: std::collections::BTreeMap<String, String>,
}

impl Wire for LabelsWire {
    type View = Thing;

    const METADATA_ONLY: bool = true;

    fn into_view(self, object: Identity) -> Result<Thing, DecodeError> {
        assert_eq!(object.uid, Uid::from("uid-a"));
        assert_eq!(object.version.as_deref(), Some("1"));
        let node = self.metadata.labels.get("node").map_or("", String::as_str);
        Ok(Thing {
            key: object.key,
            node: intern(node),
            value: 0,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_of_metadata_asks_for_metadata_only() {
    let clock = clock();
    let mut a = one("a");
    a["metadata"]["labels"] = json!({"node": "n7"});
    let server = Server::new(&clock, [page("9", "", &[a]), watch([])]);
    let source = ListWatch::<LabelsWire>::new(server.client(), things(), Encoding::default(), clock.clone());
    let running = Running::start(source, clock);
    assert_eq!(running.told().await, ["+ns/a=0", "synced"]);
    assert_eq!(&*running.store().get(&key("a")).unwrap().node, "n7");
    assert_eq!(running.store().get(&key("a")).unwrap().key(), &key("a"));
    let accepted: Vec<_> = server
        .asked
        .lock()
        .iter()
        .map(|asked| asked.accept.clone())
        .collect();
    assert_eq!(
        accepted,
        [
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn any_other_view_asks_for_the_whole_object() {
    let (server, running) = start([page("9", "", &[one("a")]), watch([])]);
    running.settle().await;
    let asked = server.asked.lock();
    assert_eq!(asked.len(), 2);
    assert!(
        asked
            .iter()
            .all(|asked| !asked.accept.contains("PartialObjectMetadata"))
    );
}

#[tokio::test(start_paused = true)]
async fn views_of_one_namespace_and_node_share_the_strings() {
    let (_, running) = start([page("9", "", &[one("a"), one("b")]), watch([])]);
    running.settle().await;
    let store = running.store();
    let (a, b) = (store.get(&key("a")).unwrap(), store.get(&key("b")).unwrap());
    assert!(Arc::ptr_eq(&a.node, &b.node));
    assert!(Arc::ptr_eq(
        a.key.namespace.as_ref().unwrap(),
        b.key.namespace.as_ref().unwrap()
    ));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_no_rule_acts_on_is_as_good_as_deleted() {
    let not_kept = json!(99);
    let (_server, running) = start([
        page("9", "", &[one("a"), object("b", "2", &not_kept)]),
        watch([
            event("MODIFIED", &object("a", "10", &not_kept)),
            event("MODIFIED", &object("a", "11", &json!(7))),
            event("ADDED", &object("c", "12", &not_kept)),
            event("DELETED", &object("c", "13", &not_kept)),
            event("DELETED", &object("a", "14", &not_kept)),
        ]),
    ]);
    assert_eq!(
        running.told().await,
        ["+ns/a=1", "synced", "-ns/a=1", "+ns/a=7", "-ns/a=7"]
    );
    assert_eq!(running.held(), Vec::<String>::new());
}
