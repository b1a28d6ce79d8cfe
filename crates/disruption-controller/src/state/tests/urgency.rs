use super::*;

/// Three ready pods of a budget that wants two, computed and written.
fn three_of_two() -> Bench {
    let bench = Bench::default();
    bench.put_pdb(&pdb("web", 1, &web(), 0));
    for name in ["a", "b", "c"] {
        bench.put(&pod(name, &json!({ "app": "web" }), true));
    }
    assert_eq!(bench.compute_and_write(2).allowed, 1);
    bench
}

#[rstest]
#[case::another_pod("d", true, false)]
#[case::one_pod_less("a", false, true)]
fn a_value_below_the_last_written_one_is_urgent(
    #[case] name: &str,
    #[case] ready: bool,
    #[case] urgent: bool,
) {
    let bench = three_of_two();
    let change = bench.put(&pod(name, &json!({ "app": "web" }), ready));
    assert_eq!(change.enqueued[0].urgent, urgent);
}

#[rstest]
#[case::refused(Answered::Conflict, false)]
#[case::of_unknown_fate(Answered::retry(true), true)]
fn a_value_below_the_one_on_its_way_is_urgent(#[case] end: Answered, #[case] urgent_after: bool) {
    let bench = three_of_two();
    for name in ["d", "e"] {
        assert!(!bench.put(&pod(name, &json!({ "app": "web" }), true)).enqueued[0].urgent);
    }
    let decision = bench.compute(ExpectedBy::Selected);
    assert_eq!(write(&decision).allowed(), 3);
    bench.change(|budget| budget.sent(write(&decision)));
    assert!(bench.put(&pod("a", &json!({ "app": "web" }), false)).enqueued[0].urgent);
    bench.change(|budget| budget.ended(&failed(end)));
    assert_eq!(
        bench.put(&pod("b", &json!({ "app": "web" }), false)).enqueued[0].urgent,
        urgent_after
    );
    // A newer version tells what the API server believes.
    bench.put_pdb(&pdb("web", 3, &web(), 1));
    assert!(!bench.put(&pod("f", &json!({ "app": "web" }), true)).enqueued[0].urgent);
}

#[test]
fn a_budget_that_was_never_computed_is_urgent() {
    let bench = Bench::default();
    bench.put_pdb(&pdb("web", 1, &web(), 0));
    assert!(bench.put(&pod("a", &json!({ "app": "web" }), true)).enqueued[0].urgent);
}

#[test]
fn our_own_write_wakes_nothing_and_an_eviction_does() {
    let bench = three_of_two();
    assert_eq!(&*bench.snapshot().pdb.version, "2");
    let evicted = |version: Arc<str>| {
        let mut evicted = (*bench.snapshot().pdb).clone();
        evicted.version = version;
        evicted.status.disruptions_allowed = 0;
        Arc::new(evicted)
    };
    assert_eq!(bench.put_pdb(&evicted("3".into())).enqueued.len(), 1);
    // The result of a write is no news only while the write is in flight: a write whose answer was lost may come late.
    let decision = bench.compute(ExpectedBy::Selected);
    bench.change(|budget| budget.sent(write(&decision)));
    let made = write(&decision).applied_to(&bench.snapshot().pdb, Some(4));
    bench.change(|budget| budget.ended(&failed(Answered::retry(true))));
    assert_eq!(bench.put_pdb(&Arc::new(made)).enqueued.len(), 1);
}

#[test]
fn a_budget_is_behind_its_pods_until_their_change_is_written() {
    let bench = three_of_two();
    let change = |second| {
        let pod = pod("d", &json!({ "app": "web" }), second % 2 == 0);
        let now = Duration::from_secs(second);
        bench.0.borrow_mut().pod_changed(&pod.key, Some(&pod), now);
    };
    let end = |outcome: &Outcome| {
        let decision = bench.compute(ExpectedBy::Selected);
        bench.change(|budget| budget.sent(write(&decision)));
        change(20);
        change(21);
        bench.change(|budget| budget.ended(outcome))
    };
    change(10);
    assert_eq!(end(&failed(Answered::Conflict)), None);
    assert_eq!(end(&accepted()), Some(Duration::from_secs(10)));
    assert_eq!(end(&accepted()), Some(Duration::from_secs(20)));
}

#[test]
fn overlaps_are_reported_when_they_begin() {
    let bench = Bench::default();
    bench.put(&pod("p", &json!({ "app": "web" }), true));
    assert_eq!(bench.put_pdb(&pdb("one", 1, &web(), 0)).overlapping, None);
    let overlap = bench.put_pdb(&pdb("two", 1, &json!({}), 0)).overlapping.unwrap();
    assert_eq!(overlap.1, ["one".into(), "two".into()]);
    assert_eq!(
        bench
            .put(&pod("q", &json!({ "app": "web" }), true))
            .overlapping
            .unwrap()
            .1
            .len(),
        2
    );
    assert!(
        bench
            .put(&pod("q", &json!({ "app": "web" }), false))
            .overlapping
            .is_none()
    );
}

#[test]
fn an_entry_that_is_approved_again_is_about_the_pod_that_is_there_then() {
    let bench = Bench::default();
    let with_entry = |version: u64, since: &str| {
        decoded::<PdbWire>(&json!({
            "metadata": { "namespace": "ns", "name": "web", "uid": "web", "resourceVersion": version.to_string() },
            "spec": { "selector": web(), "minAvailable": 2 },
            "status": { "disruptedPods": { "p": since } },
        }))
    };
    let fate = || bench.snapshot().entries[0].fate.clone();
    let at_second = |text: &str| text.parse::<Timestamp>().unwrap().as_second();
    let here = |uid: &str| Fate::Here {
        uid: Uid::from(uid),
        healthy: true,
    };
    let of_uid = |uid: &str| {
        Arc::new(PodView {
            uid: Uid::from(uid),
            created: at_second("2026-01-01T00:00:20Z"),
            ..(*pod("p", &json!({ "app": "web" }), true)).clone()
        })
    };
    // The entry came before the pod, and may be about it.
    bench.put_pdb(&with_entry(1, "2026-01-01T00:00:00Z"));
    assert_eq!(fate(), Fate::Gone);
    bench.put(&of_uid("first"));
    assert_eq!(fate(), here("first"));
    bench.put(&of_uid("second"));
    assert_eq!(fate(), Fate::Replaced);
    bench.put_pdb(&with_entry(2, "2026-01-01T00:00:30Z"));
    assert_eq!(fate(), here("second"));
}

#[rstest]
#[case::counted_by_scale(ExpectedBy::Scales, true)]
#[case::counted_without(ExpectedBy::Selected, false)]
fn what_was_computed_before_a_controller_came_does_not_hold_any_more(
    #[case] by: ExpectedBy,
    #[case] urgent: bool,
) {
    let bench = three_of_two();
    bench.compute(by);
    assert!(!bench.put(&pod("d", &json!({ "app": "web" }), true)).enqueued[0].urgent);
    let controller = OwnerRef {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "web".into(),
        uid: Uid::from("web"),
        controller: true,
    };
    let owned = PodView {
        controller: Some(Arc::new(controller)),
        ..(*pod("e", &json!({ "app": "web" }), true)).clone()
    };
    assert_eq!(bench.put(&Arc::new(owned)).enqueued[0].urgent, urgent);
    bench.compute(by);
    assert!(!bench.put(&pod("f", &json!({ "app": "web" }), true)).enqueued[0].urgent);
}

#[test]
fn a_pod_that_comes_or_goes_is_urgent_where_the_pods_that_exist_are_expected() {
    let bench = three_of_two();
    let pod = |ready| pod("d", &json!({ "app": "web" }), ready);
    bench.compute(ExpectedBy::ScalesAndPods);
    assert!(bench.put(&pod(false)).enqueued[0].urgent);
    bench.compute(ExpectedBy::ScalesAndPods);
    assert!(!bench.put(&pod(true)).enqueued[0].urgent);
    let key = pod(true).key.clone();
    let gone = bench.0.borrow_mut().pod_changed(&key, None, Duration::ZERO);
    assert!(gone.enqueued[0].urgent);
}

#[test]
fn a_kind_is_remembered_while_its_version_has_a_scale() {
    let mut state = State::default();
    let kinds = |scales| {
        let (name, plural) = ("Widget".to_owned(), "widgets".to_owned());
        let kind = Kind {
            name,
            plural,
            namespaced: true,
            scales,
        };
        Arc::new(vec![kind])
    };
    let version = "example.com/v1".into();
    for (said, remembered) in [
        (Some(kinds(false)), false),
        (Some(kinds(true)), true),
        (None, false),
    ] {
        state.discovered(&version, said.as_ref());
        assert_eq!(state.kinds.contains_key(&version), remembered);
    }
}

fn priority(bench: &Bench, name: &str) -> Priority {
    let key = ObjectKey::namespaced("ns", name);
    bench.0.borrow().budget(&key).unwrap().priority()
}

#[test]
fn a_budget_goes_first_while_less_is_allowed_than_is_believed() {
    let bench = three_of_two();
    assert_eq!(priority(&bench, "web"), Priority::Normal);
    drop(bench.put(&pod("a", &json!({ "app": "web" }), false)));
    assert_eq!(priority(&bench, "web"), Priority::High);
}

#[test]
fn a_budget_goes_last_while_each_of_its_pods_has_another_and_is_woken_when_one_has_not() {
    let bench = three_of_two();
    for name in ["other", "third"] {
        drop(bench.put_pdb(&pdb(name, 1, &web(), 1)));
    }
    for name in ["web", "other", "third"] {
        assert_eq!(priority(&bench, name), Priority::Low, "{name}");
    }
    // One pod of its own is enough.
    drop(bench.put_pdb(&pdb("third", 2, &json!({}), 1)));
    drop(bench.put(&pod("own", &json!({}), true)));
    assert_eq!(priority(&bench, "third"), Priority::High);
    drop(bench.put(&pod("a", &json!({ "app": "web" }), false)));
    assert_eq!(priority(&bench, "web"), Priority::Low);
    let enqueued = bench.remove_pdb("third");
    assert_eq!(enqueued, Changed::default(), "two are left");
    let enqueued = bench.remove_pdb("other").enqueued;
    let expected = Woken {
        pdb: web_key(),
        urgent: true,
    };
    assert_eq!(enqueued, [expected]);
    assert_eq!(priority(&bench, "web"), Priority::High);
}

#[test]
fn a_budget_without_pods_is_one_of_many() {
    let bench = Bench::default();
    drop(bench.put_pdb(&pdb("web", 1, &web(), 0)));
    bench.compute(ExpectedBy::Selected);
    assert_eq!(priority(&bench, "web"), Priority::Normal);
}
