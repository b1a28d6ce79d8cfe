//! Many concurrent clients and writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use futures::{StreamExt, stream};
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

crate::scenarios![
    a_storm_of_writes_arrives_whole_and_in_order,
    increments_of_twenty_clients_are_all_counted,
    of_many_who_create_one_object_one_does,
    pages_of_a_large_list_stay_whole_while_it_changes,
    of_two_who_take_a_lease_one_gets_it,
];

/// Number of objects in a storm; `AT_ONCE` limits concurrent requests.
const OBJECTS: usize = 500;
const AT_ONCE: usize = 20;

async fn lease(client: Client, name: String) -> Value {
    create(&client, LEASES, named(&name)).await
}

async fn a_storm_of_writes_arrives_whole_and_in_order(client: Client) {
    let start = version(&read(&client, LEASES).await);
    let uri = format!("{LEASES}?watch=1&resourceVersion={start}");
    let mut during = Watch::open(&client, &uri).await;
    let lives = (0..OBJECTS).map(|number| {
        let client = client.clone();
        async move {
            let name = format!("storm-{number:03}");
            let uid = lease(client.clone(), name.clone()).await["metadata"]["uid"].clone();
            let label = json!({ "metadata": { "labels": { "a": "b" } } });
            let label = patch(&client, format!("{LEASES}/{name}"), MERGE, label).await;
            assert_eq!(label.code, 200);
            // Every fifth object is kept.
            if number % 5 != 0 {
                assert_eq!(remove(&client, LEASES, &name).await.code, 200);
            }
            (name, uid)
        }
    });
    let lives: BTreeMap<String, Value> = stream::iter(lives).buffer_unordered(AT_ONCE).collect().await;
    lease(client.clone(), "the-end".to_owned()).await;
    let stayed = read(&client, LEASES).await;
    let mut after = Watch::open(&client, &uri).await;
    for watch in [&mut during, &mut after] {
        let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut last = start;
        loop {
            let event = watch.event().await;
            let object = &event["object"];
            assert!(version(object) > last);
            last = version(object);
            let name = object["metadata"]["name"].as_str().unwrap();
            if name == "the-end" {
                break;
            }
            assert_eq!(object["metadata"]["uid"], lives[name]);
            let kind = event["type"].as_str().unwrap().to_owned();
            told.entry(name.to_owned()).or_default().push(kind);
        }
        assert_eq!(told.len(), OBJECTS);
        for (number, (name, events)) in told.iter().enumerate() {
            let whole: &[&str] = if number % 5 == 0 {
                &["ADDED", "MODIFIED"]
            } else {
                &["ADDED", "MODIFIED", "DELETED"]
            };
            assert_eq!(events, whole, "{name}");
        }
    }
    assert_eq!(names(&stayed).len(), OBJECTS / 5 + 1);
}

async fn increments_of_twenty_clients_are_all_counted(client: Client) {
    const EACH: usize = 3;
    let counter = json!({ "metadata": { "name": "counter" }, "spec": { "leaseTransitions": 0 } });
    create(&client, LEASES, counter).await;
    let uri: Arc<str> = format!("{LEASES}/counter").into();
    let clients = (0..AT_ONCE).map(|_| {
        let (client, uri) = (client.clone(), uri.clone());
        async move {
            let (mut done, mut conflicts) = (0, 0);
            while done < EACH {
                let mut counter = read(&client, &uri).await;
                let count = counter["spec"]["leaseTransitions"].as_i64().unwrap_or_default();
                counter["spec"]["leaseTransitions"] = json!(count + 1);
                match put(&client, &uri, counter).await.code {
                    200 => done += 1,
                    409 => conflicts += 1,
                    code => panic!("{code}"),
                }
            }
            conflicts
        }
    });
    let conflicts: usize = join_all(clients).await.into_iter().sum();
    let counter = read(&client, &*uri).await;
    assert_eq!(counter["spec"]["leaseTransitions"], AT_ONCE * EACH);
    assert!(conflicts > 0);
}

async fn of_many_who_create_one_object_one_does(client: Client) {
    let tries = (0..AT_ONCE).map(|number| {
        let client = client.clone();
        async move {
            let lease =
                json!({ "metadata": { "name": "one" }, "spec": { "holderIdentity": number.to_string() } });
            post(&client, LEASES, lease).await
        }
    });
    let answers = join_all(tries).await;
    let (created, refused): (Vec<&Answer>, Vec<&Answer>) =
        answers.iter().partition(|answer| answer.code == 201);
    assert_eq!((created.len(), refused.len()), (1, AT_ONCE - 1));
    assert!(
        refused
            .iter()
            .all(|answer| answer.body["reason"] == "AlreadyExists")
    );
    assert_eq!(read(&client, format!("{LEASES}/one")).await, created[0].body);
}

async fn pages_of_a_large_list_stay_whole_while_it_changes(client: Client) {
    const LARGE: usize = 120;
    let all = (0..LARGE).map(|number| lease(client.clone(), format!("page-{number:03}")));
    let _: Vec<Value> = stream::iter(all).buffer_unordered(AT_ONCE).collect().await;
    let uri = format!("{LEASES}?limit=17");
    let mut page = read(&client, &uri).await;
    let first = version(&page);
    let (mut seen, mut round) = (Vec::new(), 0);
    loop {
        seen.extend(names(&page).into_iter().map(str::to_owned));
        let Some(token) = page["metadata"]["continue"].as_str() else {
            break;
        };
        assert_eq!(page["metadata"]["remainingItemCount"], LARGE - seen.len());
        // Delete an object of a later page and one already shown; add one in between.
        for number in [LARGE - 1 - round, round] {
            let name = format!("page-{number:03}");
            assert_eq!(remove(&client, LEASES, &name).await.code, 200);
        }
        lease(client.clone(), format!("page-{:03}-new", LARGE / 2 + round)).await;
        round += 1;
        page = read(&client, format!("{uri}&continue={token}")).await;
        assert_eq!(version(&page), first);
    }
    let expected: Vec<String> = (0..LARGE).map(|number| format!("page-{number:03}")).collect();
    assert_eq!(seen, expected);
    let now = read(&client, LEASES).await;
    assert_eq!(names(&now).len(), LARGE - round);
}

async fn of_two_who_take_a_lease_one_gets_it(client: Client) {
    let free = json!({ "metadata": { "name": "free" }, "spec": {} });
    let free = create(&client, LEASES, free).await;
    let uri = format!("{LEASES}/free");
    let take = async |who: &str| {
        let mut lease = free.clone();
        lease["spec"] = json!({ "holderIdentity": who });
        put(&client, &uri, lease).await
    };
    let mut takers: [Answer; 2] = futures::join!(take("one"), take("two")).into();
    takers.sort_by_key(|taker| taker.code);
    assert_eq!([takers[0].code, takers[1].code], [200, 409]);
    assert_eq!(read(&client, &uri).await, takers[0].body);
}
