//! How a Lease is released, and how missing permissions are reported.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_shutdown_releases_the_lease() {
    let (server, clock, replica, term) = leading().await;
    clock.sleep(secs(1)).await;
    server.take_calls();
    assert_eq!(replica.stop().await, secs(0));
    assert!(!term.is_valid());
    let calls = server.take_calls();
    assert_eq!(
        calls.iter().map(|call| call.verb).collect::<Vec<_>>(),
        ["get", "update"]
    );
    assert_eq!(calls[1].body["spec"], spec("", 1, "12:00:01", "12:00:01", 0));
}

#[tokio::test(start_paused = true)]
async fn the_term_is_over_before_the_release_is_sent() {
    let (server, clock) = (Server::default(), clock());
    let (client, witness) = witnessed(&server);
    let replica = Replica::start(client, &clock, "a");
    replica.leadership.lead().await;
    clock.sleep(secs(1)).await;
    witness.watch(&replica);
    replica.stop().await;
    assert_eq!(witness.requests(), ["get", "update"]);
    assert_eq!(server.spec()["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_shuts_down_leaves_the_lease_alone() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("them"));
    let replica = Replica::start(server.client("a"), &clock, "a");
    clock.sleep(secs(1)).await;
    server.take_calls();
    assert_eq!(replica.stop().await, secs(0));
    assert_eq!(server.take_calls(), []);
    assert_eq!(server.spec(), held_by("them"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_during_a_renewal_releases_the_lease() {
    for end in [End::RequestLost, End::AnswerLost] {
        let (server, clock, replica, lost) = troubled("update", end, false);
        replica.leadership.lead().await;
        lost.store(true, Ordering::Relaxed);
        clock.sleep(Duration::from_millis(2001)).await;
        lost.store(false, Ordering::Relaxed);
        assert_eq!(replica.stop().await, secs(0));
        assert_eq!(server.spec()["holderIdentity"], "", "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_during_a_look_releases_the_lease() {
    let (server, clock, replica, lost) = troubled("get", End::RequestLost, false);
    replica.leadership.lead().await;
    lost.store(true, Ordering::Relaxed);
    server.label("team", "x");
    clock.sleep(Duration::from_millis(2001)).await;
    assert_eq!(server.take_verbs(), ["get", "create", "update", "get"]);
    lost.store(false, Ordering::Relaxed);
    assert_eq!(replica.stop().await, secs(0));
    assert_eq!(server.spec()["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_while_the_lease_is_being_created_or_taken_releases_it() {
    for (verb, there) in [("create", None), ("update", Some(json!({"holderIdentity": ""})))] {
        let (server, clock, lost) = (Server::default(), clock(), switch(true));
        if let Some(there) = there {
            server.edit(&there);
        }
        let client = server.client_with("a", ending(verb, End::AnswerLost, &lost));
        let replica = Replica::start(client, &clock, "a");
        clock.sleep(secs(1)).await;
        assert_eq!(server.spec()["holderIdentity"], "a", "{verb}");
        lost.store(false, Ordering::Relaxed);
        replica.stop().await;
        assert_eq!(server.spec()["holderIdentity"], "", "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_meets_an_edit_is_tried_again() {
    let (server, clock) = (Server::default(), clock());
    let interfere = switch(false);
    let client = {
        let (server, interfere) = (server.clone(), Arc::clone(&interfere));
        server.clone().client_with("a", move |call| {
            if call.verb == "update" && interfere.swap(false, Ordering::Relaxed) {
                server.label("team", "x");
            }
            Fate::default()
        })
    };
    let replica = Replica::start(client, &clock, "a");
    replica.leadership.lead().await;
    interfere.store(true, Ordering::Relaxed);
    server.take_calls();
    assert_eq!(replica.stop().await, secs(0));
    assert_eq!(server.take_verbs(), ["get", "update", "get", "update"]);
    assert_eq!(server.spec()["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_took_is_not_released() {
    let (server, _clock, replica, _) = leading().await;
    server.edit(&held_by("thief"));
    replica.stop().await;
    assert_eq!(server.spec(), held_by("thief"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_five_seconds_for_a_server_that_is_down() {
    for end in [End::RequestLost, End::Refused(500)] {
        let (_server, _clock, replica, down) = troubled("*", end, false);
        replica.leadership.lead().await;
        down.store(true, Ordering::Relaxed);
        assert_eq!(replica.stop().await, secs(5), "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_does_not_wait_for_the_release() {
    let (_server, _clock, replica, down) = troubled("*", End::RequestLost, false);
    replica.leadership.lead().await;
    down.store(true, Ordering::Relaxed);
    replica.trigger.advance();
    assert_eq!(replica.stop().await, secs(0));
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_named_until_it_is_granted() {
    for (verb, on_server) in [("get", None), ("create", None), ("update", Some("dead"))] {
        let (server, clock, forbidden) = (Server::default(), clock(), switch(true));
        if let Some(holder) = on_server {
            server.edit(&held_by(holder));
        }
        let client = server.client_with("a", ending(verb, End::Forbidden, &forbidden));
        let replica = Replica::start(client, &clock, "a");
        clock.sleep(secs(60)).await;
        let expected = format!(
            "{verb} lease kube-system/ttl-controller: no right to {verb} leases.coordination.k8s.io \
             in namespace kube-system: leases is forbidden: User \"a\" cannot {verb} resource \"leases\": \
             Forbidden"
        );
        assert_eq!(replica.leadership.missing_permission(), Some(expected.clone()));
        assert_eq!(replica.leadership.last_error(), Some(expected));
        assert!(replica.leadership.current().is_none());
        forbidden.store(false, Ordering::Relaxed);
        replica.leadership.lead().await;
        assert_eq!(replica.leadership.missing_permission(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_goes_away_is_not_a_missing_permission() {
    let (_server, clock, replica, _) = troubled("create", End::Terminating, true);
    clock.sleep(secs(60)).await;
    assert_eq!(replica.leadership.missing_permission(), None);
    assert_eq!(
        replica.leadership.last_error().as_deref(),
        Some(
            "create lease kube-system/ttl-controller: unable to create new content in namespace \
             kube-system because it is being terminated: Forbidden"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_costs_two_requests_a_look_at_most() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&json!({"holderIdentity": ""}));
    let client = server.client_with("a", ending("update", End::Forbidden, &switch(true)));
    let _replica = Replica::start(client, &clock, "a");
    clock.sleep(secs(60)).await;
    let verbs = server.take_verbs();
    let requests = verbs
        .iter()
        .filter(|verb| ["get", "update"].contains(verb))
        .count();
    assert!(requests <= 62, "{requests} in 60 s: {verbs:?}");
}
