//! The rules one by one. An object is a word, a patch adds a letter to it; its uid is `U` unless something else is said.

use std::sync::Arc;

use controller_core::informer::{
    Change, DecodeError, Delta, Effect, Freshness, Observed, Removed, Skipped, SourceEvent, Store, View,
    Writer,
};
use controller_core::meta::{ObjectKey, Uid};

#[derive(Debug, PartialEq)]
struct Word {
    key: ObjectKey,
    text: String,
}

impl View for Word {
    type Index = usize;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn index(&self, out: &mut Vec<usize>) {
        out.push(self.text.len());
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::cluster(name)
}

fn word(name: &str, text: &str) -> Word {
    Word {
        key: key(name),
        text: text.to_owned(),
    }
}

fn observed(name: &str, uid: &str, version: u64, text: &str) -> Observed<Word> {
    Observed {
        view: word(name, text),
        uid: Uid::from(uid),
        version: Some(version.to_string().into()),
    }
}

fn object(text: &str) -> Effect<Word> {
    Effect::Object(word("a", text))
}

fn adds(letter: char) -> Effect<Word> {
    Effect::Patch(Arc::new(move |word: &Word| Word {
        key: word.key.clone(),
        text: format!("{}{letter}", word.text),
    }))
}

/// `+a=x`, `~a=x>y`, `-a=x`, one after the other.
fn told<'a>(deltas: impl IntoIterator<Item = &'a Delta<Word>>) -> String {
    let changes = deltas.into_iter().flat_map(Delta::changes);
    let lines = changes.map(|change| match change {
        Change::Added(new) => format!("+{}={}", new.key, new.text),
        Change::Updated { old, new } => format!("~{}={}>{}", new.key, old.text, new.text),
        Change::Deleted(last) => format!("-{}={}", last.key, last.text),
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// A store and what may happen to it; each returns what handlers are told.
struct Cache {
    writer: Writer<Word>,
    store: Store<Word>,
}

impl Cache {
    fn empty() -> Self {
        let writer = Writer::new();
        let store = writer.store();
        Self { writer, store }
    }

    /// `a` is `text`, at version 5, and one of our requests about it is in flight.
    fn writing(text: &str) -> Self {
        let mut cache = Self::empty();
        cache.shows("U", 5, text);
        cache.store.begin_write(&key("a"));
        cache
    }

    fn apply(&mut self, event: SourceEvent<Word>) -> String {
        told(&self.writer.apply(event))
    }

    fn shows(&mut self, uid: &str, version: u64, text: &str) -> String {
        self.apply(SourceEvent::Applied(observed("a", uid, version, text)))
    }

    fn shows_deleted(&mut self, uid: &str) -> String {
        self.shows_deleted_at(99, uid)
    }

    fn shows_deleted_at(&mut self, version: u64, uid: &str) -> String {
        self.apply(SourceEvent::Deleted(Removed {
            key: key("a"),
            uid: Uid::from(uid),
            view: None,
            version: Some(version.to_string().into()),
        }))
    }

    fn skips(&mut self, uid: &str) -> String {
        self.apply(SourceEvent::Skipped(Skipped {
            key: Some(key("a")),
            uid: Some(Uid::from(uid)),
            version: Some("99".into()),
            error: DecodeError::Unnamed,
        }))
    }

    fn list_begins(&mut self) {
        assert_eq!(self.apply(SourceEvent::Init), "");
    }

    fn list_ends(&mut self, items: &[(&str, u64, &str)]) -> String {
        for (uid, version, text) in items {
            let item = SourceEvent::InitItem(observed("a", uid, *version, text));
            assert_eq!(self.apply(item), "");
        }
        self.apply(SourceEvent::InitDone { version: None })
    }

    fn begin_write(&self) {
        self.store.begin_write(&key("a"));
    }

    fn accepted(&self, uid: &str, version: u64, effect: Effect<Word>) -> String {
        self.answered(uid, Some(version), effect)
    }

    fn answered(&self, uid: &str, version: Option<u64>, effect: Effect<Word>) -> String {
        told(&self.store.accepted(&key("a"), &Uid::from(uid), version, effect))
    }

    /// A whole request.
    fn writes(&self, uid: &str, version: u64, effect: Effect<Word>) -> String {
        self.begin_write();
        self.accepted(uid, version, effect)
    }

    fn unknown(&self) {
        self.store.unknown(&key("a"));
    }

    fn reads(&self, found: Option<(&str, u64, &str)>) -> String {
        let found = found.map(|(uid, version, text)| (word("a", text), Uid::from(uid), version));
        told(&self.store.read(&key("a"), found))
    }

    fn overdue(&self, version: u64) -> bool {
        self.store.overdue(&key("a"), version)
    }

    /// What the store holds, and how sure it is: for example `xp Pending`.
    fn now(&self) -> String {
        let held = self.store.get(&key("a"));
        let text = held.map_or_else(|| "-".to_owned(), |held| held.text.clone());
        format!("{text} {:?}", self.store.freshness(&key("a")))
    }
}

#[test]
fn a_patch_is_on_top_of_what_the_watch_shows_until_it_shows_the_patch() {
    let mut cache = Cache::writing("x");
    assert_eq!(cache.now(), "x Synced", "a request in flight shows nothing");
    assert_eq!(cache.accepted("U", 8, adds('p')), "~a=x>xp");
    assert_eq!(cache.now(), "xp Pending");
    assert_eq!(
        cache.shows("U", 6, "xz"),
        "~a=xp>xzp",
        "somebody else's change, before ours"
    );
    assert_eq!(cache.shows("U", 7, "xz"), "", "nothing that the view shows");
    assert_eq!(cache.now(), "xzp Pending");
    assert_eq!(cache.shows("U", 8, "xzp"), "");
    assert_eq!(cache.now(), "xzp Synced");
    assert_eq!(cache.shows("U", 9, "y"), "~a=xzp>y", "what is newer counts");
    assert_eq!(cache.store.mutations(), 0);
}

#[test]
fn a_patch_that_the_watch_shows_together_with_a_later_change_ends() {
    let mut cache = Cache::writing("x");
    cache.accepted("U", 8, adds('p'));
    assert_eq!(cache.shows("U", 9, "y"), "~a=xp>y");
    assert_eq!(cache.now(), "y Synced");
}

#[test]
fn nothing_is_kept_if_the_watch_is_faster_than_the_answer() {
    for version in [8, 9] {
        let mut cache = Cache::writing("x");
        assert_eq!(cache.shows("U", version, "xp"), "~a=x>xp");
        assert_eq!(cache.accepted("U", 8, adds('p')), "");
        assert_eq!(cache.now(), "xp Synced");
        assert_eq!(cache.store.mutations(), 0);
    }
}

#[test]
fn a_version_that_is_shown_with_an_equal_view_counts() {
    let mut cache = Cache::writing("x");
    assert_eq!(cache.shows("U", 8, "x"), "");
    assert_eq!(cache.accepted("U", 8, object("x")), "");
    assert_eq!(cache.now(), "x Synced", "by watch");
    cache.list_begins();
    assert_eq!(cache.list_ends(&[("U", 12, "x")]), "");
    assert_eq!(cache.writes("U", 11, adds('p')), "");
    assert_eq!(cache.now(), "x Synced", "by list");
    assert_eq!(
        cache.writes("U", 13, object("x")),
        "",
        "an equal view is not told"
    );
    assert_eq!(cache.now(), "x Pending");
}

#[test]
fn a_version_that_is_no_number_ends_no_write_and_is_shown() {
    let mut cache = Cache::writing("x");
    cache.accepted("U", 8, adds('p'));
    let odd = Observed {
        version: Some("8a".into()),
        ..observed("a", "U", 0, "y")
    };
    assert_eq!(cache.apply(SourceEvent::Applied(odd)), "~a=xp>yp");
    assert_eq!(cache.now(), "yp Pending");
}

#[test]
fn a_whole_object_hides_what_is_older() {
    let mut cache = Cache::writing("x");
    assert_eq!(cache.accepted("U", 8, object("n")), "~a=x>n");
    assert_eq!(cache.shows("U", 7, "y"), "");
    assert_eq!(cache.now(), "n Pending");
    assert_eq!(cache.shows("U", 8, "n"), "");
    assert_eq!(cache.now(), "n Synced");
}

#[test]
fn an_object_that_we_created_is_held_before_the_watch_shows_it() {
    let mut cache = Cache::empty();
    assert_eq!(cache.writes("U", 8, object("n")), "+a=n");
    assert_eq!(cache.now(), "n Pending");
    assert_eq!(cache.store.len(), 1);
    assert_eq!(cache.store.by_index(&1).len(), 1, "indexes follow");
    assert_eq!(cache.writes("U", 9, adds('p')), "~a=n>np");
    assert_eq!(
        (cache.store.by_index(&1).len(), cache.store.by_index(&2).len()),
        (0, 1)
    );
    assert_eq!(cache.shows("U", 8, "n"), "");
    assert_eq!(cache.now(), "np Pending");
    assert_eq!(cache.shows("U", 9, "np"), "");
    assert_eq!(cache.now(), "np Synced");
}

#[test]
fn a_patch_of_an_object_that_the_watch_has_not_shown_is_on_top_once_it_does() {
    let mut cache = Cache::empty();
    assert_eq!(cache.writes("U", 8, adds('p')), "");
    assert_eq!(cache.now(), "- Pending");
    assert_eq!(cache.shows("U", 7, "x"), "+a=xp");
}

#[test]
fn a_deleted_object_is_gone_at_once_and_stays_gone() {
    let mut cache = Cache::writing("x");
    assert_eq!(cache.accepted("U", 8, Effect::Deleted), "-a=x");
    assert_eq!(cache.now(), "- Pending");
    assert_eq!(cache.shows("U", 7, "y"), "");
    assert_eq!(
        cache.shows("U", 8, "y"),
        "",
        "the answer may have the version before"
    );
    assert_eq!(cache.now(), "- Pending");
    assert_eq!(cache.shows_deleted("U"), "", "a deletion is told once");
    assert_eq!(cache.now(), "- Synced");
    assert_eq!(cache.store.mutations(), 0);
}

#[test]
fn an_object_whose_version_the_answer_to_its_deletion_repeats_is_gone() {
    let cache = Cache::writing("x");
    assert_eq!(
        cache.accepted("U", 5, Effect::Deleted),
        "-a=x",
        "shown at 5 already"
    );
    assert_eq!(cache.now(), "- Pending");
}

#[test]
fn an_object_that_changes_after_its_deletion_was_accepted_is_there() {
    let mut cache = Cache::writing("x");
    cache.accepted("U", 8, Effect::Deleted);
    assert_eq!(cache.shows("U", 9, "y"), "+a=y", "by watch");
    assert_eq!(cache.now(), "y Synced");
    cache.writes("U", 10, Effect::Deleted);
    assert_eq!(cache.writes("U", 11, adds('p')), "+a=yp", "by another answer");
    assert_eq!(cache.shows("U", 12, "z"), "~a=yp>z");
    cache.begin_write();
    assert_eq!(cache.accepted("U", 11, Effect::Deleted), "", "by a faster watch");
    assert_eq!(cache.now(), "z Synced");
}

#[test]
fn a_deletion_without_a_version_ends_with_the_object_only() {
    let deleted = || {
        let cache = Cache::writing("x");
        assert_eq!(cache.answered("U", None, Effect::Deleted), "-a=x");
        cache
    };
    let mut cache = deleted();
    assert_eq!(cache.shows("U", 99, "y"), "");
    assert_eq!(cache.writes("U", 99, adds('p')), "");
    assert_eq!(cache.now(), "- Pending");
    cache.shows_deleted("U");
    assert_eq!(cache.now(), "- Synced");
    let mut cache = deleted();
    assert_eq!(cache.shows("V", 3, "v"), "+a=v");
    assert_eq!(cache.now(), "v Synced");
    let mut cache = deleted();
    cache.list_begins();
    assert_eq!(
        cache.list_ends(&[("U", 99, "y")]),
        "+a=y",
        "a later list knows best"
    );
    assert_eq!(cache.now(), "y Synced");
}

#[test]
fn a_late_answer_does_not_bring_back_what_is_shown_to_be_gone() {
    for effect in [object("n"), adds('p'), Effect::Deleted] {
        let mut cache = Cache::writing("x");
        assert_eq!(cache.shows_deleted("U"), "-a=x");
        assert_eq!(cache.accepted("U", 98, effect), "");
        assert_eq!(cache.now(), "- Synced");
        assert_eq!(cache.store.mutations(), 0);
    }
    for effect in [object("n"), adds('p'), Effect::Deleted] {
        let mut cache = Cache::writing("x");
        assert_eq!(cache.shows("V", 12, "v"), "-a=x +a=v", "its name is another's");
        cache.shows_deleted("V");
        assert_eq!(cache.accepted("U", 11, effect), "");
        assert_eq!(cache.now(), "- Synced");
    }
    for effect in [object("n"), adds('p'), Effect::Deleted] {
        let mut cache = Cache::writing("x");
        cache.list_begins();
        assert_eq!(cache.list_ends(&[]), "-a=x", "no list has it");
        assert_eq!(cache.accepted("U", 11, effect), "");
        assert_eq!(cache.now(), "- Synced");
    }
    let mut cache = Cache::empty();
    cache.begin_write();
    cache.shows("U", 8, "n");
    cache.shows_deleted("U");
    assert_eq!(cache.accepted("U", 8, object("n")), "", "what we created");
    assert_eq!(cache.now(), "- Synced");
    let mut cache = Cache::empty();
    cache.begin_write();
    assert_eq!(cache.shows_deleted("U"), "", "created, and not kept");
    assert_eq!(cache.accepted("U", 8, object("n")), "");
    assert_eq!(cache.now(), "- Synced");
    let cache = Cache::empty();
    cache.begin_write();
    cache.begin_write();
    cache.accepted("U", 9, Effect::Deleted);
    assert_eq!(cache.accepted("U", 8, object("n")), "", "what we deleted");
    assert_eq!(cache.now(), "- Pending");
}

#[test]
fn an_object_that_is_kept_again_is_not_gone() {
    let mut cache = Cache::writing("x");
    cache.shows_deleted("U");
    cache.shows("U", 7, "x");
    assert_eq!(cache.accepted("U", 8, adds('p')), "~a=x>xp");
}

#[test]
fn another_object_under_the_name_ends_our_writes_to_the_one_before() {
    let mut cache = Cache::writing("x");
    cache.accepted("U", 8, adds('p'));
    assert_eq!(cache.shows("V", 3, "v"), "-a=xp +a=v");
    assert_eq!(cache.now(), "v Synced");
    assert_eq!(
        cache.writes("U", 8, adds('p')),
        "",
        "and so does an answer about that one"
    );
    assert_eq!(cache.now(), "v Synced");
}

#[test]
fn a_deletion_ends_our_writes_also_that_of_an_unknown_object() {
    for uid in ["U", "V"] {
        let mut cache = Cache::writing("x");
        cache.accepted("U", 8, adds('p'));
        assert_eq!(cache.shows_deleted(uid), "-a=xp");
        assert_eq!(cache.now(), "- Synced");
    }
}

#[test]
fn what_we_created_stays_while_the_watch_shows_the_end_of_what_we_deleted() {
    let mut cache = Cache::writing("x");
    assert_eq!(cache.accepted("U", 8, Effect::Deleted), "-a=x");
    assert_eq!(cache.writes("V", 9, object("v")), "+a=v");
    assert_eq!(cache.shows("U", 6, "y"), "");
    assert_eq!(cache.writes("U", 7, adds('p')), "", "an answer that was late");
    assert_eq!(cache.shows_deleted_at(8, "U"), "");
    assert_eq!(cache.now(), "v Pending");
    assert_eq!(cache.shows("V", 9, "v"), "");
    assert_eq!(cache.now(), "v Synced");
    assert_eq!(cache.store.mutations(), 0);
}

#[test]
fn the_same_when_the_watch_is_two_objects_late() {
    let mut cache = Cache::writing("x");
    cache.accepted("U", 8, Effect::Deleted);
    cache.writes("V", 9, object("v"));
    assert_eq!(cache.writes("V", 10, Effect::Deleted), "-a=v");
    assert_eq!(cache.writes("W", 11, object("w")), "+a=w");
    for (uid, version, end) in [("U", 6, 8), ("V", 9, 10)] {
        assert_eq!(cache.shows(uid, version, "y"), "");
        assert_eq!(cache.shows_deleted_at(end, uid), "");
        assert_eq!(cache.now(), "w Pending");
    }
    cache.shows("W", 11, "w");
    assert_eq!(cache.store.mutations(), 0);
}

#[test]
fn what_we_created_gives_way_to_another_object_until_the_watch_shows_it() {
    let mut cache = Cache::empty();
    cache.writes("U", 8, object("n"));
    cache.writes("U", 9, adds('p'));
    assert_eq!(cache.shows("V", 4, "v"), "-a=np +a=v", "before ours, or after it");
    assert_eq!(cache.now(), "v Pending");
    assert_eq!(cache.shows("V", 5, "w"), "~a=v>w");
    assert_eq!(cache.writes("U", 10, adds('q')), "");
    assert_eq!(cache.shows_deleted_at(6, "V"), "-a=w");
    assert_eq!(cache.now(), "- Pending");
    assert_eq!(cache.shows("U", 8, "n"), "+a=npq", "it was before");
    assert_eq!(cache.shows("U", 10, "npq"), "");
    assert_eq!(cache.now(), "npq Synced");
    assert_eq!(cache.store.mutations(), 0);
    let given_way = || {
        let mut cache = Cache::empty();
        cache.writes("U", 8, object("n"));
        cache.shows("V", 7, "v");
        cache
    };
    let mut cache = given_way();
    assert_eq!(cache.writes("V", 14, adds('p')), "~a=v>vp", "it is after");
    assert_eq!(cache.shows("U", 8, "n"), "", "so ours is gone");
    assert_eq!(cache.shows("V", 14, "vp"), "");
    assert_eq!(cache.store.mutations(), 0);
    let cache = given_way();
    assert_eq!(cache.reads(Some(("V", 7, "v"))), "");
    assert_eq!(cache.now(), "v Synced", "it is after");
    let cache = given_way();
    assert_eq!(cache.reads(None), "");
    assert_eq!(cache.now(), "v Pending");
    assert!(cache.overdue(8));
    assert_eq!(cache.reads(None), "");
    assert_eq!(cache.now(), "v Synced", "it came and went between two lists");
    let mut cache = given_way();
    assert_eq!(cache.shows_deleted("U"), "-a=v");
    assert_eq!(cache.now(), "- Synced");
    let mut cache = given_way();
    cache.begin_write();
    assert_eq!(cache.shows("U", 8, "n"), "-a=v +a=n");
    assert_eq!(cache.shows_deleted("U"), "-a=n");
    assert_eq!(cache.accepted("V", 14, adds('p')), "", "a late answer");
    assert_eq!(cache.store.mutations(), 0);
    let mut cache = Cache::empty();
    cache.writes("U", 8, object("n"));
    cache.begin_write();
    cache.unknown();
    cache.shows("V", 5, "v");
    cache.shows_deleted_at(6, "V");
    cache.shows("U", 8, "n");
    assert_eq!(cache.now(), "n Unknown", "as before");
}

#[test]
fn writes_count_in_the_order_of_their_versions() {
    let mut cache = Cache::writing("x");
    cache.begin_write();
    assert_eq!(cache.accepted("U", 9, adds('q')), "~a=x>xq");
    assert_eq!(
        cache.accepted("U", 7, adds('p')),
        "~a=xq>xpq",
        "its answer was late"
    );
    assert_eq!(
        cache.shows("U", 8, "xpz"),
        "~a=xpq>xpzq",
        "the first is shown, and no more added"
    );
    assert_eq!(cache.shows("U", 9, "xpzq"), "");
    assert_eq!(cache.now(), "xpzq Synced");
    assert_eq!(cache.writes("U", 12, object("n")), "~a=xpzq>n");
    assert_eq!(cache.writes("U", 11, adds('p')), "", "the object has it");
    assert_eq!(cache.writes("U", 11, object("o")), "", "older than the object");
    assert_eq!(cache.writes("U", 13, adds('p')), "~a=n>np");
    assert_eq!(cache.writes("U", 14, object("o")), "~a=np>o");
    assert_eq!(cache.shows("U", 14, "o"), "");
    assert_eq!(cache.store.mutations(), 0);
}

#[test]
fn an_answer_without_a_version_is_an_unknown_fate() {
    for effect in [object("n"), adds('p')] {
        let mut cache = Cache::writing("x");
        assert_eq!(cache.answered("U", None, effect), "");
        assert_eq!(cache.now(), "x Unknown");
        assert_eq!(cache.shows("U", 99, "y"), "~a=x>y");
        assert_eq!(cache.now(), "y Unknown");
    }
}

#[test]
fn a_write_whose_answer_shows_nothing_changes_nothing() {
    let cache = Cache::writing("x");
    assert_eq!(cache.answered("U", None, Effect::Nothing), "");
    assert_eq!(cache.now(), "x Synced");
    cache.begin_write();
    cache.unknown();
    assert_eq!(cache.writes("U", 9, Effect::Nothing), "");
    assert_eq!(cache.now(), "x Unknown");
}

#[test]
fn a_request_in_flight_is_known_until_it_ends() {
    let cache = Cache::writing("x");
    cache.begin_write();
    let in_flight = || (cache.store.is_writing(&key("a")), cache.store.mutations());
    assert_eq!(in_flight(), (true, 1));
    cache.store.refused(&key("a"));
    assert_eq!(in_flight(), (true, 1));
    cache.store.refused(&key("a"));
    assert_eq!(in_flight(), (false, 0));
    assert_eq!(cache.now(), "x Synced");
    cache.store.refused(&key("a"));
    assert_eq!(in_flight(), (false, 0), "once more does no harm");
}

#[test]
fn a_write_without_an_answer_is_unknown_until_something_tells() {
    let lost = || {
        let cache = Cache::writing("x");
        cache.unknown();
        assert_eq!(cache.now(), "x Unknown");
        cache
    };
    let mut cache = lost();
    cache.shows("U", 99, "y");
    assert_eq!(
        cache.now(),
        "y Unknown",
        "the watch does not tell whose change it is"
    );
    cache.list_begins();
    cache.list_ends(&[("U", 99, "y")]);
    assert_eq!(cache.now(), "y Unknown", "nor does a list");
    cache.begin_write();
    cache.store.refused(&key("a"));
    assert_eq!(cache.now(), "y Unknown", "nor a refusal");
    cache.reads(Some(("U", 99, "y")));
    assert_eq!(cache.now(), "y Synced", "a read does");
    assert_eq!(cache.store.mutations(), 0);
    let cache = lost();
    cache.reads(None);
    assert_eq!(cache.now(), "x Synced", "of nothing, too");
    let cache = lost();
    cache.writes("U", 8, adds('p'));
    assert_eq!(cache.now(), "xp Pending", "an accepted write");
    let mut cache = lost();
    cache.shows_deleted("U");
    assert_eq!(cache.now(), "- Synced", "its deletion");
    assert_eq!(cache.store.mutations(), 0);
    let mut cache = lost();
    cache.shows("V", 3, "v");
    assert_eq!(cache.now(), "v Synced", "another object");
    let mut cache = lost();
    cache.list_begins();
    cache.list_ends(&[]);
    assert_eq!(cache.now(), "- Synced", "a list without it");
}

#[test]
fn a_write_without_an_answer_to_an_object_that_is_gone_does_not_matter() {
    let mut cache = Cache::writing("x");
    cache.shows_deleted("U");
    cache.unknown();
    assert_eq!(cache.now(), "- Synced");
    assert_eq!(cache.store.mutations(), 0);
}

#[test]
fn a_create_without_an_answer_is_unknown_until_an_object_or_a_later_list_is_shown() {
    let lost = || {
        let cache = Cache::empty();
        cache.begin_write();
        cache.unknown();
        assert_eq!(cache.now(), "- Unknown");
        cache
    };
    let mut cache = lost();
    assert_eq!(cache.shows("U", 8, "n"), "+a=n");
    assert_eq!(cache.now(), "n Synced");
    let mut cache = lost();
    cache.list_begins();
    cache.list_ends(&[]);
    assert_eq!(cache.now(), "- Synced");
    let mut cache = Cache::empty();
    cache.list_begins();
    cache.begin_write();
    cache.unknown();
    cache.list_ends(&[]);
    assert_eq!(cache.now(), "- Unknown", "the list began before");
    assert_eq!(cache.reads(Some(("U", 8, "n"))), "+a=n");
    assert_eq!(cache.now(), "n Pending");
}

#[test]
fn a_read_is_held_where_it_is_newer_than_the_watch() {
    let mut cache = Cache::empty();
    cache.shows("U", 5, "x");
    assert_eq!(cache.reads(Some(("U", 4, "w"))), "");
    assert_eq!(cache.reads(Some(("U", 5, "x"))), "");
    assert_eq!(cache.now(), "x Synced");
    assert_eq!(cache.reads(Some(("U", 7, "y"))), "~a=x>y");
    assert_eq!(cache.now(), "y Pending");
    assert_eq!(cache.shows("U", 6, "z"), "");
    assert_eq!(
        cache.reads(Some(("V", 9, "v"))),
        "",
        "of two objects the watch decides"
    );
    assert_eq!(cache.shows("U", 7, "y"), "");
    assert_eq!(cache.now(), "y Synced");
}

#[test]
fn a_read_of_what_the_store_does_not_hold_counts_if_the_watch_has_not_come_so_far() {
    let mut cache = Cache::empty();
    assert_eq!(cache.reads(Some(("U", 7, "y"))), "+a=y");
    assert_eq!(cache.now(), "y Pending");
    cache.shows("U", 7, "y");
    cache.shows_deleted("U");
    assert_eq!(cache.reads(Some(("U", 98, "y"))), "", "it has gone since");
    assert_eq!(cache.now(), "- Synced");
    assert_eq!(cache.store.mutations(), 0);
    assert_eq!(
        cache.reads(Some(("V", 100, "v"))),
        "+a=v",
        "the watch has to show it yet"
    );
}

#[test]
fn an_answer_is_too_old_if_a_list_that_came_so_far_leaves_the_object_out() {
    for version in [7, 8] {
        let mut cache = Cache::empty();
        cache.list_begins();
        cache.apply(SourceEvent::InitDone {
            version: Some("7".into()),
        });
        let is_newer = version > 7;
        let told = if is_newer { "+a=y" } else { "" };
        assert_eq!(cache.reads(Some(("U", version, "y"))), told, "a read");
        assert_eq!(cache.store.mutations(), usize::from(is_newer));
        let mut cache = Cache::empty();
        cache.begin_write();
        cache.list_begins();
        cache.apply(SourceEvent::InitDone {
            version: Some("7".into()),
        });
        assert_eq!(cache.accepted("U", version, object("y")), told, "a create");
    }
}

#[test]
fn what_is_answered_during_a_list_that_came_so_far_and_leaves_it_out_is_gone() {
    for (version, now) in [(7, "- Synced"), (8, "y Pending")] {
        let mut cache = Cache::empty();
        cache.list_begins();
        assert_eq!(cache.reads(Some(("U", version, "y"))), "+a=y");
        cache.apply(SourceEvent::InitDone {
            version: Some("7".into()),
        });
        assert_eq!(cache.now(), now);
    }
}

#[test]
fn what_the_watch_has_passed_without_showing_it_is_gone() {
    for end in ["shows another", "shows the end of another"] {
        let mut cache = Cache::empty();
        cache.writes("U", 8, object("n"));
        cache.writes("U", 11, adds('p'));
        if end == "shows another" {
            assert_eq!(cache.shows("V", 9, "v"), "-a=np +a=v");
        } else {
            assert_eq!(cache.shows_deleted_at(9, "V"), "-a=np");
        }
        assert_eq!(cache.store.mutations(), 0, "{end}");
    }
}

/// etcd was restored from a backup.
#[test]
fn a_list_that_comes_less_far_than_the_last_one_counts() {
    let mut cache = Cache::empty();
    cache.shows("U", 90, "x");
    cache.shows_deleted("U");
    cache.list_begins();
    cache.apply(SourceEvent::InitDone {
        version: Some("7".into()),
    });
    assert_eq!(cache.reads(Some(("V", 8, "v"))), "+a=v");
}

#[test]
fn a_read_that_finds_nothing_hides_what_the_watch_has_not_shown() {
    let created = || {
        let cache = Cache::empty();
        cache.writes("U", 8, object("n"));
        assert_eq!(cache.reads(None), "-a=n");
        assert_eq!(cache.now(), "- Pending");
        cache
    };
    let mut cache = created();
    assert_eq!(cache.shows("U", 8, "n"), "", "the watch was late");
    assert_eq!(cache.shows_deleted("U"), "");
    assert_eq!(cache.store.mutations(), 0);
    let cache = created();
    assert!(cache.overdue(8));
    assert_eq!(cache.reads(None), "");
    assert_eq!(cache.store.mutations(), 0, "it came and went between two lists");
    let cache = Cache::writing("x");
    cache.accepted("U", 8, adds('p'));
    assert_eq!(cache.reads(None), "", "the watch will show the deletion");
    assert_eq!(cache.now(), "xp Pending");
    let mut cache = Cache::writing("x");
    cache.accepted("U", 8, Effect::Deleted);
    cache.writes("V", 9, object("v"));
    assert_eq!(cache.reads(None), "-a=v");
    assert_eq!(cache.shows("U", 7, "y"), "", "what we deleted stays gone");
    cache.shows_deleted_at(8, "U");
    assert_eq!(cache.now(), "- Pending");
    cache.shows_deleted("V");
    assert_eq!(cache.store.mutations(), 0);
}

#[test]
fn a_read_shows_that_an_object_survived_its_deletion() {
    for version in [None, Some(8)] {
        let cache = Cache::writing("x");
        cache.answered("U", version, Effect::Deleted);
        assert_eq!(cache.reads(Some(("U", 8, "y"))), "+a=y");
        assert_eq!(cache.now(), "y Pending");
    }
}

#[test]
fn an_overdue_write_is_unknown_and_stays_in_view() {
    let mut cache = Cache::writing("x");
    cache.accepted("U", 8, adds('p'));
    assert!(!cache.overdue(7), "not the last write");
    assert!(cache.overdue(8));
    assert_eq!(cache.now(), "xp Unknown");
    assert!(!cache.overdue(8), "it is already");
    assert_eq!(cache.shows("U", 7, "y"), "~a=xp>yp");
    assert_eq!(cache.now(), "yp Unknown");
    assert_eq!(cache.reads(Some(("U", 8, "yp"))), "");
    assert_eq!(
        cache.now(),
        "yp Pending",
        "a read tells, the watch has still to show it"
    );
    for found in [None, Some(("V", 9, "v"))] {
        assert!(cache.overdue(8));
        assert_eq!(cache.reads(found), "");
        assert_eq!(cache.now(), "yp Pending", "nor can another read tell more");
    }
    assert!(cache.overdue(8));
    assert_eq!(cache.shows("U", 8, "yp"), "");
    assert_eq!(cache.now(), "yp Synced", "so does the watch");
    assert!(!cache.overdue(8));
    cache.writes("U", 9, adds('p'));
    assert!(cache.overdue(9));
    cache.writes("U", 10, adds('q'));
    assert_eq!(cache.now(), "yppq Pending", "so does another write");
    cache.begin_write();
    cache.answered("U", None, Effect::Deleted);
    assert!(cache.overdue(0), "a deletion without a version");
    assert_eq!(cache.now(), "- Unknown");
}

#[test]
fn a_list_that_began_after_the_answer_ends_the_write() {
    let lists = |items: &[(&str, u64, &str)]| {
        let mut cache = Cache::writing("x");
        cache.accepted("U", 8, adds('p'));
        cache.list_begins();
        let told = cache.list_ends(items);
        assert_eq!(cache.store.mutations(), 0);
        (told, cache.now())
    };
    assert_eq!(lists(&[("U", 8, "xp")]), (String::new(), "xp Synced".to_owned()));
    assert_eq!(
        lists(&[("U", 7, "y")]),
        ("~a=xp>y".to_owned(), "y Synced".to_owned())
    );
    assert_eq!(
        lists(&[("V", 3, "v")]),
        ("-a=xp +a=v".to_owned(), "v Synced".to_owned())
    );
    assert_eq!(lists(&[]), ("-a=xp".to_owned(), "- Synced".to_owned()));
    let mut cache = Cache::empty();
    cache.writes("U", 8, object("n"));
    cache.list_begins();
    assert_eq!(cache.list_ends(&[]), "-a=n", "created, and gone");
    assert_eq!(cache.store.mutations(), 0);
}

#[test]
fn a_list_that_began_before_the_answer_does_what_the_watch_does() {
    let lists = |items: &[(&str, u64, &str)]| {
        let mut cache = Cache::writing("x");
        cache.list_begins();
        cache.accepted("U", 8, adds('p'));
        let told = cache.list_ends(items);
        (told, cache.now())
    };
    assert_eq!(
        lists(&[("U", 7, "y")]),
        ("~a=xp>yp".to_owned(), "yp Pending".to_owned())
    );
    assert_eq!(lists(&[("U", 8, "xp")]), (String::new(), "xp Synced".to_owned()));
    assert_eq!(
        lists(&[("V", 3, "v")]),
        ("-a=xp +a=v".to_owned(), "v Synced".to_owned())
    );
    assert_eq!(
        lists(&[]),
        ("-a=xp".to_owned(), "- Synced".to_owned()),
        "it was shown"
    );
}

#[test]
fn a_list_that_began_before_the_answer_need_not_have_what_we_created() {
    let mut cache = Cache::empty();
    cache.begin_write();
    cache.list_begins();
    cache.accepted("U", 8, object("n"));
    assert_eq!(cache.list_ends(&[]), "");
    assert_eq!(cache.now(), "n Pending");
    cache.list_begins();
    cache.list_begins();
    assert_eq!(cache.list_ends(&[]), "-a=n", "the second list began later");
}

#[test]
fn a_list_tells_the_differences_to_what_was_held_deletions_first() {
    let mut cache = Cache::empty();
    for name in ["c", "b"] {
        cache.apply(SourceEvent::Applied(observed(name, name, 5, "x")));
    }
    for name in ["d", "b"] {
        cache.store.begin_write(&key(name));
    }
    let created = Effect::Object(word("d", "n"));
    told(&cache.store.accepted(&key("d"), &Uid::from("d"), Some(8), created));
    told(
        &cache
            .store
            .accepted(&key("b"), &Uid::from("b"), Some(9), adds('p')),
    );
    cache.apply(SourceEvent::Init);
    cache.apply(SourceEvent::InitItem(observed("a", "a", 10, "x")));
    cache.apply(SourceEvent::InitItem(observed("b", "b", 9, "xpz")));
    let done = cache.apply(SourceEvent::InitDone { version: None });
    assert_eq!(done, "-c=x -d=n +a=x ~b=xp>xpz");
}

#[test]
fn an_object_that_cannot_be_decoded_leaves_our_writes_alone() {
    let mut cache = Cache::writing("x");
    cache.accepted("U", 8, adds('p'));
    assert_eq!(cache.skips("U"), "");
    cache.list_begins();
    cache.skips("U");
    assert_eq!(cache.list_ends(&[]), "");
    assert_eq!(cache.now(), "xp Pending");
    assert_eq!(cache.skips("V"), "-a=xp", "another object");
    assert_eq!(cache.now(), "- Synced");
    let mut cache = Cache::writing("x");
    cache.accepted("U", 8, Effect::Deleted);
    cache.writes("V", 9, object("v"));
    for uid in ["U", "V"] {
        assert_eq!(cache.skips(uid), "");
        assert_eq!(cache.now(), "v Pending");
    }
}

#[test]
fn the_freshness_of_an_object_that_nobody_wrote_is_synced() {
    let cache = Cache::empty();
    assert_eq!(cache.store.freshness(&key("a")), Freshness::Synced);
    assert!(!cache.store.is_writing(&key("a")));
    assert!(!cache.overdue(0));
}

#[test]
fn a_writer_fills_a_store_without_a_server() {
    let mut cache = Cache::empty();
    assert!(!cache.store.is_synced());
    cache.list_begins();
    assert_eq!(cache.list_ends(&[("U", 5, "x")]), "+a=x");
    cache.writer.set_synced();
    assert!(cache.store.is_synced());
}
