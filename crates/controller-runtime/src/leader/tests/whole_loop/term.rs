//! How long a term lasts: renewals, lost answers, stolen, edited and deleted Leases.

use rstest::rstest;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_stolen_lease_ends_the_term_before_anything_else() {
    let (server, clock) = (Server::default(), clock());
    let (client, witness) = witnessed(&server);
    let replica = Replica::start(client, &clock, "a");
    let term = replica.leadership.lead().await;
    clock.sleep(Duration::from_millis(2001)).await;
    witness.watch(&replica);
    server.edit(&held_by("thief"));
    term.lost().await;
    clock.sleep(Duration::from_millis(1)).await;
    assert_eq!(
        witness.requests(),
        ["update leading", "get leading", "get", "list", "watch"]
    );
    assert!(!term.is_valid());
    assert_eq!(replica.leadership.holder().as_deref(), Some("thief"));
    // The thief never renews: 15 s after we saw the theft, the Lease is ours again, in another term.
    let again = replica.leadership.lead().await;
    assert_eq!(again.number(), 2);
    assert!(!term.is_valid());
    assert_eq!(server.spec()["leaseTransitions"], 4);
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_emptied_leads_again_in_another_term() {
    let (server, _clock, replica, term) = leading().await;
    server.edit(&json!({"holderIdentity": ""}));
    term.lost().await;
    assert_eq!(replica.leadership.lead().await.number(), 2);
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_ends_the_term_at_the_renew_deadline() {
    for end in [End::Refused(500), End::Page, End::RequestLost, End::AnswerLost] {
        let (server, clock, replica, down) = troubled("*", end, false);
        let start = clock.instant();
        let term = replica.leadership.lead().await;
        clock.sleep_until(start + Duration::from_millis(4001)).await;
        down.store(true, Ordering::Relaxed);
        term.lost().await;
        // The last renewal that was answered started at 4 s.
        assert_eq!(clock.instant() - start, secs(14), "{end:?}");
        clock.sleep(Duration::from_millis(1)).await;
        assert!(
            replica.metrics().contains("status{name=\"ttl-controller\"} 0"),
            "{end:?}"
        );
        assert!(replica.leadership.last_error().is_some() || end != End::Refused(500));
        assert_eq!(replica.leadership.missing_permission(), None);
        clock.sleep(secs(60)).await;
        assert!(replica.leadership.current().is_none(), "{end:?}");
        down.store(false, Ordering::Relaxed);
        let again = replica.leadership.lead().await;
        assert_eq!(again.number(), 2);
        // Nobody else held the Lease in between.
        assert_eq!(server.spec()["leaseTransitions"], 0);
        assert_eq!(server.spec()["acquireTime"], "2026-01-01T12:00:00.000000Z");
        assert_eq!(replica.leadership.last_error(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_does_not_wait_for_its_next_renewal_to_stand_by() {
    let (server, clock) = (Server::default(), clock());
    let updates = AtomicU32::new(0);
    let client = server.client_with("a", move |call| Fate {
        end: match call.verb {
            // Renewals start at 2 s, at 7 s (after half a renew deadline without an answer), 9 s and 11 s.
            "update" if updates.fetch_add(1, Ordering::Relaxed) == 0 => End::RequestLost,
            "update" => End::Refused(500),
            _ => End::Answered,
        },
        ..Fate::default()
    });
    let replica = Replica::start(client, &clock, "a");
    replica.leadership.lead().await.lost().await;
    clock.sleep(Duration::from_millis(1)).await;
    assert!(replica.metrics().contains("status{name=\"ttl-controller\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn one_lost_answer_does_not_cost_the_term() {
    let (_server, clock, replica, lost) = troubled("update", End::AnswerLost, false);
    let term = replica.leadership.lead().await;
    lost.store(true, Ordering::Relaxed);
    clock.sleep(secs(3)).await;
    lost.store(false, Ordering::Relaxed);
    clock.sleep(secs(60)).await;
    assert!(term.is_valid());
    assert_eq!(term.number(), 1);
}

#[tokio::test(start_paused = true)]
async fn slow_renewals_count_from_their_start() {
    let (server, clock) = (Server::default(), clock());
    let down = switch(false);
    let client = {
        let down = Arc::clone(&down);
        server.client_with("a", move |call| Fate {
            before: if call.verb == "update" { secs(3) } else { secs(0) },
            end: if down.load(Ordering::Relaxed) {
                End::Refused(503)
            } else {
                End::Answered
            },
            ..Fate::default()
        })
    };
    let replica = Replica::start(client, &clock, "a");
    let start = clock.instant();
    let term = replica.leadership.lead().await;
    // Renewals start at 2 s, 5 s, 8 s, …: each as soon as the one before is answered.
    clock.sleep_until(start + secs(6)).await;
    down.store(true, Ordering::Relaxed);
    term.lost().await;
    assert_eq!(clock.instant() - start, secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_slow_take_counts_from_its_start() {
    let (server, clock) = (Server::default(), clock());
    let client = server.client_with("a", |call| match call.verb {
        "create" => Fate {
            before: secs(3),
            ..Fate::default()
        },
        "update" => Fate {
            end: End::Refused(503),
            ..Fate::default()
        },
        _ => Fate::default(),
    });
    let replica = Replica::start(client, &clock, "a");
    let start = clock.instant();
    let term = replica.leadership.lead().await;
    assert_eq!(clock.instant() - start, secs(3));
    term.lost().await;
    assert_eq!(clock.instant() - start, secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_slow_look_counts_from_its_answer() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("dead"));
    let client = server.client_with("a", |call| Fate {
        before: if call.verb == "get" { secs(4) } else { secs(0) },
        ..Fate::default()
    });
    let replica = Replica::start(client, &clock, "a");
    // The holder may have renewed until just before the first answer, at 4 s.
    let waited = elapsed(&clock, replica.leadership.lead()).await;
    assert!((secs(19)..secs(24)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_aborted_when_the_lease_is_lost() {
    let (server, _clock, _replica, term) = leading().await;
    server.edit(&held_by("thief"));
    assert_eq!(term.run(pending::<()>()).await, Err(LeaseLost));
    assert_eq!(
        term.run(async { panic!("never started") }).await,
        Err::<(), _>(LeaseLost)
    );
}

#[tokio::test(start_paused = true)]
async fn an_edit_by_somebody_else_costs_one_look_and_not_the_term() {
    let (server, clock, replica, term) = leading().await;
    server.label("team", "x");
    clock.sleep(Duration::from_millis(4001)).await;
    assert_eq!(
        server.take_verbs(),
        ["get", "create", "update", "get", "update", "update"]
    );
    assert!(term.is_valid());
    assert_eq!(replica.metrics(), metrics(1, 1));
}

#[tokio::test(start_paused = true)]
async fn metadata_of_others_survives_a_renewal() {
    let (server, clock, _replica, _) = leading().await;
    server.label("team", "x");
    clock.sleep(secs(60)).await;
    assert_eq!(server.lease()["metadata"]["labels"], json!({"team": "x"}));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_again_by_its_leader() {
    let (server, clock, _a, term) = leading().await;
    let b = Replica::start(server.client("b"), &clock, "b");
    clock.sleep(secs(100)).await;
    server.delete();
    clock.sleep(Duration::from_millis(2001)).await;
    assert_eq!(server.spec()["holderIdentity"], "a");
    clock.sleep(secs(100)).await;
    assert!(term.is_valid());
    assert!(b.leadership.current().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_dead_leader_that_is_deleted_is_made_again_by_a_standby() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("dead"));
    let b = Replica::start(server.client("b"), &clock, "b");
    clock.sleep(secs(10)).await;
    server.delete();
    // The watch reported the deletion, so the lease duration counts from there.
    assert_eq!(elapsed(&clock, b.leadership.lead()).await, secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_restart_under_the_same_identity_leads_at_once() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("a"));
    let replica = Replica::start(server.client("a"), &clock, "a");
    assert_eq!(elapsed(&clock, replica.leadership.lead()).await, secs(0));
    assert_eq!(server.spec()["leaseTransitions"], 3);
    assert_eq!(server.spec()["acquireTime"], "2026-01-01T11:00:00.000000Z");
}

#[tokio::test(start_paused = true)]
async fn of_two_that_race_for_a_lease_one_leads() {
    let (server, clock) = (Server::default(), clock());
    // Both read before either writes.
    let slow = |call: &Call| Fate {
        before: if call.verb == "get" { secs(0) } else { secs(1) },
        ..Fate::default()
    };
    let a = Replica::start(server.client_with("a", slow), &clock, "a");
    let b = Replica::start(server.client_with("b", slow), &clock, "b");
    clock.sleep(Duration::from_millis(1001)).await;
    let leaders = [&a, &b].map(|replica| replica.leadership.current().is_some());
    assert!(leaders[0] != leaders[1], "{leaders:?}");
    // The loser read again at once.
    assert_eq!(a.leadership.holder(), b.leadership.holder());
    assert_eq!(a.leadership.last_error(), None);
    assert_eq!(b.leadership.last_error(), None);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_went_back_tells_the_leader_that_etcd_was_set_back() {
    let (server, clock, replica, term) = leading().await;
    clock.sleep(secs(11)).await;
    assert_eq!(replica.set_backs(), [0, 0]);
    server.set_back(3);
    clock.sleep(secs(60)).await;
    assert_eq!(replica.set_backs(), [1, 0]);
    assert!(term.is_valid());
}

/// What happens to a standby before it leads.
#[rstest]
#[case::it_saw_all(&[], 0)]
#[case::its_watch_broke(&["watch"], 1)]
#[case::a_read_failed(&["get"], 1)]
#[tokio::test(start_paused = true)]
async fn who_leads_and_has_looked_away_lists_again(#[case] failing: &'static [&str], #[case] told: u64) {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("them"));
    let failures = AtomicU32::new(0);
    let once = move |call: &Call| Fate {
        end: if failing.contains(&call.verb) && failures.fetch_add(1, Ordering::Relaxed) == 0 {
            End::Refused(503)
        } else {
            End::Answered
        },
        ..Fate::default()
    };
    let replica = Replica::start(server.client_with("a", once), &clock, "a");
    clock.sleep(secs(10)).await;
    assert_eq!(replica.set_backs(), [0, 0]);
    let term = replica.leadership.lead().await;
    clock.sleep(secs(60)).await;
    assert_eq!(replica.set_backs(), [0, told]);
    // Nor did it renew the Lease since its term was over.
    server.edit(&spec("thief", 15, "11:00:00", "12:00:05", 5));
    term.lost().await;
    replica.leadership.lead().await;
    clock.sleep(secs(60)).await;
    assert_eq!(replica.set_backs(), [0, told + 1]);
}

#[tokio::test(start_paused = true)]
async fn a_standby_sees_the_renewals_between_its_looks_and_that_they_are_lost() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("them"));
    let replica = Replica::start(server.client("a"), &clock, "a");
    clock.sleep(Duration::from_millis(100)).await;
    server.label("beat", "1");
    clock.sleep(Duration::from_millis(100)).await;
    assert!(!server.take_verbs()[1..].contains(&"get"));
    server.set_back(1);
    clock.sleep(secs(5)).await;
    assert_eq!(replica.set_backs(), [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_standby_follows_the_lease_while_a_read_is_not_answered() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("them"));
    let reads = AtomicU32::new(0);
    let client = server.client_with("a", move |call| Fate {
        end: match call.verb {
            "get" if reads.fetch_add(1, Ordering::Relaxed) > 0 => End::RequestLost,
            _ => End::Answered,
        },
        ..Fate::default()
    });
    let replica = Replica::start(client, &clock, "a");
    clock.sleep(secs(6)).await;
    server.edit(&held_by("others"));
    clock.sleep(Duration::from_millis(100)).await;
    assert_eq!(replica.leadership.holder().as_deref(), Some("others"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_older_than_what_the_watch_has_shown_is_no_set_back() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("them"));
    let slow = |call: &Call| Fate {
        after: secs(u64::from(call.verb == "get")),
        ..Fate::default()
    };
    let replica = Replica::start(server.client_with("a", slow), &clock, "a");
    for beat in 0..100 {
        clock.sleep(Duration::from_millis(100)).await;
        server.label("beat", &beat.to_string());
    }
    assert_eq!(replica.set_backs(), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_gone_may_be_older_than_the_state_of_etcd() {
    let (server, clock, a, _) = leading().await;
    let b = Replica::start(server.client("b"), &clock, "b");
    clock.sleep(secs(10)).await;
    server.delete();
    clock.sleep(secs(60)).await;
    for replica in [a, b] {
        assert_eq!(replica.set_backs(), [1, 0]);
    }
    assert_eq!(server.spec()["leaseTransitions"], 0);
}
