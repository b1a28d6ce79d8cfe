//! The rules one by one, each as a [script](Cache::plays).

use controller_core::cache::{Freshness, Removed, SourceEvent, WriteEffect};
use controller_core::meta::Uid;

use crate::script::{Cache, adds, key, observed, word};

#[test]
fn a_patch_is_on_top_of_what_the_watch_shows_until_it_shows_the_patch() {
    Cache::writing("x").plays(
        "                  | x Synced      # a request in flight shows nothing
        accepted U 8 +p → ~a=x>xp | xp Pending
        shows U 6 xz → ~a=xp>xzp  # somebody else's change, before ours
        shows U 7 xz → | xzp Pending  # nothing that the view shows
        shows U 8 xzp → | xzp Synced
        shows U 9 y → ~a=xzp>y | forgotten  # what is newer counts",
    );
}

#[test]
fn a_patch_that_the_watch_shows_together_with_a_later_change_ends() {
    Cache::writing("x").plays(
        "accepted U 8 +p
        shows U 9 y → ~a=xp>y | y Synced",
    );
}

#[test]
fn nothing_is_kept_if_the_watch_is_faster_than_the_answer() {
    for version in [8, 9] {
        Cache::writing("x").plays(&format!(
            "shows U {version} xp → ~a=x>xp
            accepted U 8 +p → | xp Synced, forgotten"
        ));
    }
}

#[test]
fn a_version_that_is_shown_with_an_equal_view_counts() {
    Cache::writing("x").plays(
        "shows U 8 x →
        accepted U 8 =x → | x Synced  # by watch
        list →
        listed U 12 x →
        writes U 11 +p → | x Synced  # by list
        writes U 13 =x → | x Pending  # an equal view is not told",
    );
}

#[test]
fn a_version_that_is_no_number_ends_no_write_and_is_shown() {
    Cache::writing("x").plays(
        "accepted U 8 +p
        shows U 8a y → ~a=xp>yp | yp Pending",
    );
}

#[test]
fn a_whole_object_hides_what_is_older() {
    Cache::writing("x").plays(
        "accepted U 8 =n → ~a=x>n
        shows U 7 y → | n Pending
        shows U 8 n → | n Synced",
    );
}

#[test]
fn an_object_that_we_created_is_held_before_the_watch_shows_it() {
    let cache = Cache::empty().plays("writes U 8 =n → +a=n | n Pending");
    let indexed = |cache: &Cache| [1, 2].map(|length| cache.store.by_index(&length).len());
    // Indexes follow.
    assert_eq!((cache.store.len(), indexed(&cache)), (1, [1, 0]));
    let cache = cache.plays("writes U 9 +p → ~a=n>np");
    assert_eq!(indexed(&cache), [0, 1]);
    cache.plays(
        "shows U 8 n → | np Pending
        shows U 9 np → | np Synced",
    );
}

#[test]
fn a_patch_of_an_object_that_the_watch_has_not_shown_is_on_top_once_it_does() {
    Cache::empty().plays(
        "writes U 8 +p → | - Pending
        shows U 7 x → +a=xp",
    );
}

#[test]
fn a_deleted_object_is_gone_at_once_and_stays_gone() {
    Cache::writing("x").plays(
        "accepted U 8 gone → -a=x | - Pending
        shows U 7 y →
        shows U 8 y → | - Pending  # the answer may have the version before
        ends U → | - Synced, forgotten  # a deletion is told once",
    );
}

#[test]
fn an_object_whose_version_the_answer_to_its_deletion_repeats_is_gone() {
    // The watch has already shown version 5.
    Cache::writing("x").plays("accepted U 5 gone → -a=x | - Pending");
}

#[test]
fn an_object_that_changes_after_its_deletion_was_accepted_is_there() {
    Cache::writing("x").plays(
        "accepted U 8 gone
        shows U 9 y → +a=y | y Synced  # by watch
        writes U 10 gone
        writes U 11 +p → +a=yp  # by another answer
        shows U 12 z → ~a=yp>z
        writes U 11 gone → | z Synced  # by a faster watch",
    );
}

#[test]
fn a_deletion_without_a_version_ends_with_the_object_only() {
    let deleted = || Cache::writing("x").plays("accepted U - gone → -a=x");
    deleted().plays(
        "shows U 99 y →
        writes U 99 +p → | - Pending
        ends U | - Synced",
    );
    deleted().plays("shows V 3 v → +a=v | v Synced");
    deleted().plays(
        "list →
        listed U 99 y → +a=y | y Synced  # a later list knows best",
    );
}

#[test]
fn a_late_answer_does_not_bring_back_what_is_shown_to_be_gone() {
    for effect in ["=n", "+p", "gone"] {
        Cache::writing("x").plays(&format!(
            "ends U → -a=x
            accepted U 98 {effect} → | - Synced, forgotten"
        ));
        Cache::writing("x").plays(&format!(
            "shows V 12 v → -a=x +a=v  # its name is another's
            ends V
            accepted U 11 {effect} → | - Synced"
        ));
        Cache::writing("x").plays(&format!(
            "list →
            listed → -a=x  # no list has it
            accepted U 11 {effect} → | - Synced"
        ));
    }
    Cache::empty().plays(
        "begin
        shows U 8 n
        ends U
        accepted U 8 =n → | - Synced  # what we created",
    );
    Cache::empty().plays(
        "begin
        ends U →  # created, and not kept
        accepted U 8 =n → | - Synced",
    );
    Cache::empty().plays(
        "begin
        begin
        accepted U 9 gone
        accepted U 8 =n → | - Pending  # what we deleted",
    );
}

#[test]
fn an_object_that_is_kept_again_is_not_gone() {
    Cache::writing("x").plays(
        "ends U
        shows U 7 x
        accepted U 8 +p → ~a=x>xp",
    );
}

#[test]
fn another_object_under_the_name_ends_our_writes_to_the_one_before() {
    Cache::writing("x").plays(
        "accepted U 8 +p
        shows V 3 v → -a=xp +a=v | v Synced
        writes U 8 +p → | v Synced  # and so does an answer about that one",
    );
}

#[test]
fn a_deletion_ends_our_writes_also_that_of_an_unknown_object() {
    for uid in ["U", "V"] {
        Cache::writing("x").plays(&format!(
            "accepted U 8 +p
            ends {uid} → -a=xp | - Synced"
        ));
    }
}

#[test]
fn what_we_created_stays_while_the_watch_shows_the_end_of_what_we_deleted() {
    Cache::writing("x").plays(
        "accepted U 8 gone → -a=x
        writes V 9 =v → +a=v
        shows U 6 y →
        writes U 7 +p →  # an answer that was late
        ends U 8 → | v Pending
        shows V 9 v → | v Synced, forgotten",
    );
}

#[test]
fn the_same_when_the_watch_is_two_objects_late() {
    Cache::writing("x").plays(
        "accepted U 8 gone
        writes V 9 =v
        writes V 10 gone → -a=v
        writes W 11 =w → +a=w
        shows U 6 y →
        ends U 8 → | w Pending
        shows V 9 y →
        ends V 10 → | w Pending
        shows W 11 w | forgotten",
    );
}

#[test]
fn what_we_created_gives_way_to_another_object_until_the_watch_shows_it() {
    Cache::empty().plays(
        "writes U 8 =n
        writes U 9 +p
        shows V 4 v → -a=np +a=v | v Pending  # before ours, or after it
        shows V 5 w → ~a=v>w
        writes U 10 +q →
        ends V 6 → -a=w | - Pending
        shows U 8 n → +a=npq  # it was before
        shows U 10 npq → | npq Synced, forgotten",
    );
    let given_way = || {
        Cache::empty().plays(
            "writes U 8 =n
            shows V 7 v",
        )
    };
    given_way().plays(
        "writes V 14 +p → ~a=v>vp  # it is after
        shows U 8 n →  # so ours is gone
        shows V 14 vp → | forgotten",
    );
    given_way().plays("reads V 7 v → | v Synced  # it is after");
    given_way().plays(
        "reads nothing → | v Pending
        overdue 8 → yes
        reads nothing → | v Synced  # it came and went between two lists",
    );
    given_way().plays("ends U → -a=v | - Synced");
    given_way().plays(
        "begin
        shows U 8 n → -a=v +a=n
        ends U → -a=n
        accepted V 14 +p → | forgotten  # a late answer",
    );
    Cache::empty().plays(
        "writes U 8 =n
        begin
        unknown
        shows V 5 v
        ends V 6
        shows U 8 n | n Unknown  # as before",
    );
}

#[test]
fn writes_count_in_the_order_of_their_versions() {
    Cache::writing("x").plays(
        "begin
        accepted U 9 +q → ~a=x>xq
        accepted U 7 +p → ~a=xq>xpq  # its answer was late
        shows U 8 xpz → ~a=xpq>xpzq  # the first is shown, and no more added
        shows U 9 xpzq → | xpzq Synced
        writes U 12 =n → ~a=xpzq>n
        writes U 11 +p →  # the object has it
        writes U 11 =o →  # older than the object
        writes U 13 +p → ~a=n>np
        writes U 14 =o → ~a=np>o
        shows U 14 o → | forgotten",
    );
}

#[test]
fn an_answer_without_a_version_is_an_unknown_fate() {
    for effect in ["=n", "+p"] {
        Cache::writing("x").plays(&format!(
            "accepted U - {effect} → | x Unknown
            shows U 99 y → ~a=x>y | y Unknown"
        ));
    }
}

#[test]
fn a_write_whose_answer_shows_nothing_changes_nothing() {
    Cache::writing("x").plays(
        "accepted U - nothing → | x Synced
        begin
        unknown
        writes U 9 nothing → | x Unknown",
    );
}

#[test]
fn a_request_in_flight_is_known_until_it_ends() {
    let mut cache = Cache::writing("x").plays("begin");
    for (in_flight, remembered) in [(true, 1), (true, 1), (false, 0), (false, 0)] {
        assert_eq!(cache.store.is_writing(&key("a")), in_flight);
        assert_eq!(cache.store.mutations(), remembered);
        // More ends than requests do no harm.
        cache = cache.plays("refused | x Synced");
    }
}

#[test]
fn a_write_without_an_answer_is_unknown_until_something_tells() {
    let lost = || Cache::writing("x").plays("unknown | x Unknown");
    lost().plays(
        "shows U 99 y | y Unknown  # the watch does not tell whose change it is
        list
        listed U 99 y | y Unknown  # nor does a list
        begin
        refused | y Unknown  # nor a refusal
        reads U 99 y | y Synced, forgotten  # a read does",
    );
    lost().plays("reads nothing | x Synced  # of nothing, too");
    lost().plays("writes U 8 +p | xp Pending  # an accepted write");
    lost().plays("ends U | - Synced, forgotten  # its deletion");
    lost().plays("shows V 3 v | v Synced  # another object");
    lost().plays("list \n listed | - Synced  # a list without it");
}

#[test]
fn a_write_without_an_answer_to_an_object_that_is_gone_does_not_matter() {
    Cache::writing("x").plays("ends U \n unknown | - Synced, forgotten");
}

#[test]
fn a_create_without_an_answer_is_unknown_until_an_object_or_a_later_list_is_shown() {
    let lost = || Cache::empty().plays("begin \n unknown | - Unknown");
    lost().plays("shows U 8 n → +a=n | n Synced");
    lost().plays("list \n listed | - Synced");
    Cache::empty().plays(
        "list
        begin
        unknown
        listed | - Unknown  # the list began before
        reads U 8 n → +a=n | n Pending",
    );
}

#[test]
fn a_read_is_held_where_it_is_newer_than_the_watch() {
    Cache::empty().plays(
        "shows U 5 x
        reads U 4 w →
        reads U 5 x → | x Synced
        reads U 7 y → ~a=x>y | y Pending
        shows U 6 z →
        reads V 9 v →  # of two objects the watch decides
        shows U 7 y → | y Synced",
    );
}

#[test]
fn a_read_of_what_the_store_does_not_hold_counts_if_the_watch_has_not_come_so_far() {
    Cache::empty().plays(
        "reads U 7 y → +a=y | y Pending
        shows U 7 y
        ends U
        reads U 98 y → | - Synced, forgotten  # it has gone since
        reads V 100 v → +a=v  # the watch has to show it yet",
    );
}

#[test]
fn an_answer_is_too_old_if_a_list_that_came_so_far_leaves_the_object_out() {
    for (version, told, then) in [(7, "", "- Synced, forgotten"), (8, "+a=y", "y Pending")] {
        Cache::empty().plays(&format!(
            "list
            listed at 7
            reads U {version} y → {told} | {then}"
        ));
        // A create.
        Cache::empty().plays(&format!(
            "begin
            list
            listed at 7
            accepted U {version} =y → {told}"
        ));
    }
}

#[test]
fn what_is_answered_during_a_list_that_came_so_far_and_leaves_it_out_is_gone() {
    for (version, now) in [(7, "- Synced"), (8, "y Pending")] {
        Cache::empty().plays(&format!(
            "list
            reads U {version} y → +a=y
            listed at 7 | {now}"
        ));
    }
}

#[test]
fn what_the_watch_has_passed_without_showing_it_is_gone() {
    for passes in ["shows V 9 v → -a=np +a=v", "ends V 9 → -a=np"] {
        Cache::empty().plays(&format!(
            "writes U 8 =n
            writes U 11 +p
            {passes} | forgotten"
        ));
    }
}

/// etcd was restored from a backup.
#[test]
fn a_list_that_comes_less_far_than_the_last_one_counts() {
    Cache::empty().plays(
        "shows U 90 x
        ends U
        list
        listed at 7
        reads V 8 v → +a=v",
    );
}

#[test]
fn a_read_that_finds_nothing_hides_what_the_watch_has_not_shown() {
    let created = || {
        Cache::empty().plays(
            "writes U 8 =n
            reads nothing → -a=n | - Pending",
        )
    };
    created().plays(
        "shows U 8 n →  # the watch was late
        ends U → | forgotten",
    );
    created().plays(
        "overdue 8 → yes
        reads nothing → | forgotten  # it came and went between two lists",
    );
    Cache::writing("x").plays(
        "accepted U 8 +p
        reads nothing → | xp Pending  # the watch will show the deletion",
    );
    Cache::writing("x").plays(
        "accepted U 8 gone
        writes V 9 =v
        reads nothing → -a=v
        shows U 7 y →  # what we deleted stays gone
        ends U 8 | - Pending
        ends V | forgotten",
    );
}

#[test]
fn of_two_reads_that_find_different_objects_the_one_that_was_answered_first_counts() {
    for (first, then, now) in [
        ("U 7 y", "nothing", "y Pending"),
        ("U 7 y", "V 6 v", "y Pending"),
        ("U 7 y", "U 8 z", "z Pending"),
        ("U 8 z", "U 7 y", "z Pending"),
    ] {
        let told = if first[..1] == then[..1] {
            ""
        } else {
            "→ overtaken"
        };
        Cache::empty().plays(&format!(
            "asks
            reads {first}
            answers {then} {told} | {now}"
        ));
    }
    // It is gone; a read that was sent before does not bring it back.
    Cache::empty().plays(
        "writes U 8 =n
        asks
        reads nothing → -a=n
        answers U 8 n → overtaken | - Pending
        asks
        answers nothing →  # the two say the same",
    );
}

#[test]
fn a_read_that_was_sent_before_a_write_ended_does_not_count() {
    Cache::writing("x").plays(
        "asks
        accepted U 8 +p
        answers U 7 y → overtaken | xp Pending",
    );
}

#[test]
fn a_read_shows_that_an_object_survived_its_deletion() {
    for version in ["-", "8"] {
        Cache::writing("x").plays(&format!(
            "accepted U {version} gone
            reads U 8 y → +a=y | y Pending"
        ));
    }
}

#[test]
fn an_overdue_write_is_unknown_and_stays_in_view() {
    Cache::writing("x").plays(
        "accepted U 8 +p
        overdue 7 → no  # not the last write
        overdue 8 → yes | xp Unknown
        overdue 8 → no  # it is already
        shows U 7 y → ~a=xp>yp | yp Unknown
        reads U 8 yp → | yp Pending  # a read tells, the watch has still to show it
        overdue 8 → yes
        reads nothing → | yp Pending  # nor can another read tell more
        overdue 8 → yes
        reads V 9 v → | yp Pending
        overdue 8 → yes
        shows U 8 yp → | yp Synced  # so does the watch
        overdue 8 → no
        writes U 9 +p
        overdue 9 → yes
        writes U 10 +q | yppq Pending  # so does another write
        writes U - gone
        overdue 0 → yes | - Unknown  # a deletion without a version",
    );
}

#[test]
fn a_list_that_began_after_the_answer_ends_the_write() {
    for listed in [
        "listed U 8 xp → | xp Synced",
        "listed U 7 y → ~a=xp>y | y Synced",
        "listed V 3 v → -a=xp +a=v | v Synced",
        "listed → -a=xp | - Synced",
    ] {
        let script = format!("accepted U 8 +p \n list \n {listed}, forgotten");
        Cache::writing("x").plays(&script);
    }
    Cache::empty().plays(
        "writes U 8 =n
        list →
        listed → -a=n | forgotten  # created, and gone",
    );
}

#[test]
fn a_list_that_began_before_the_answer_does_what_the_watch_does() {
    for listed in [
        "listed U 7 y → ~a=xp>yp | yp Pending",
        "listed U 8 xp → | xp Synced",
        "listed V 3 v → -a=xp +a=v | v Synced",
        "listed → -a=xp | - Synced  # it was shown",
    ] {
        Cache::writing("x").plays(&format!("list \n accepted U 8 +p \n {listed}"));
    }
}

#[test]
fn a_list_that_began_before_the_answer_need_not_have_what_we_created() {
    Cache::empty().plays(
        "begin
        list
        accepted U 8 =n
        listed → | n Pending
        list
        list
        listed → -a=n  # the second list began later",
    );
}

#[test]
fn a_list_tells_the_differences_to_what_was_held_deletions_first() {
    let mut cache = Cache::empty();
    for name in ["c", "b"] {
        cache.apply(SourceEvent::Applied(observed(name, name, "5", "x")));
    }
    let created = WriteEffect::Object(word("d", "n"));
    for (name, version, effect) in [("d", 8, created), ("b", 9, adds("p".to_owned()))] {
        cache.store.begin_write(&key(name));
        cache
            .store
            .accepted(&key(name), &Uid::from(name), Some(version), version, effect);
    }
    cache.apply(SourceEvent::Init);
    cache.apply(SourceEvent::InitItem(observed("a", "a", "10", "x")));
    cache.apply(SourceEvent::InitItem(observed("b", "b", "9", "xpz")));
    let done = cache.apply(SourceEvent::InitDone { version: None });
    assert_eq!(done, "-c=x -d=n +a=x ~b=xp>xpz");
}

#[test]
fn an_object_that_cannot_be_decoded_leaves_our_writes_alone() {
    Cache::writing("x").plays(
        "accepted U 8 +p
        skips U →
        list
        skips U
        listed → | xp Pending
        skips V → -a=xp | - Synced  # another object",
    );
    Cache::writing("x").plays(
        "accepted U 8 gone
        writes V 9 =v
        skips U → | v Pending
        skips V → | v Pending",
    );
}

#[test]
fn the_freshness_of_an_object_that_nobody_wrote_is_synced() {
    let cache = Cache::empty().plays("overdue 0 → no");
    assert_eq!(cache.store.freshness(&key("a")), Freshness::Synced);
    assert!(!cache.store.is_writing(&key("a")));
}

#[test]
fn a_store_is_filled_without_a_server() {
    Cache::empty().plays("list → \n listed U 5 x → +a=x");
}

#[test]
fn what_is_not_held_costs_nothing_when_it_goes() {
    let mut cache = Cache::empty();
    let before = cache.store.step();
    for _ in 0..100 {
        assert_eq!(
            cache.apply(SourceEvent::Deleted(Removed {
                key: key("other"),
                uid: Uid::from("other"),
                view: None,
                version: Some("9".into()),
            })),
            ""
        );
    }
    assert_eq!(cache.store.step(), before, "nothing was looked up to be changed");
}
