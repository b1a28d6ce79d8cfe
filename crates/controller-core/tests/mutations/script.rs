//! A language for the rules: one step a line. An object is a word; a patch appends a letter.

use std::sync::Arc;

use controller_core::cache::{
    Change, DecodeError, Delta, Removed, Skipped, SourceEvent, Store, Versioned, View, WriteEffect,
};
use controller_core::meta::{ObjectKey, Uid};

#[derive(Debug, PartialEq)]
pub(crate) struct Word {
    pub(crate) key: ObjectKey,
    pub(crate) text: String,
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

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::cluster(name)
}

pub(crate) fn word(name: &str, text: &str) -> Word {
    Word {
        key: key(name),
        text: text.to_owned(),
    }
}

pub(crate) fn observed(name: &str, uid: &str, version: &str, text: &str) -> Versioned<Word> {
    Versioned {
        view: word(name, text),
        uid: Uid::from(uid),
        version: Some(version.into()),
    }
}

pub(crate) fn adds(letter: String) -> WriteEffect<Word> {
    WriteEffect::Patch(Arc::new(move |word: &Word| Word {
        key: word.key.clone(),
        text: format!("{}{letter}", word.text),
    }))
}

/// The number of the request whose answer has this version.
pub(crate) fn id_of(version: &str) -> u64 {
    version.parse().ok().filter(|id| *id != 0).unwrap_or(999)
}

/// The changes as text: `+a=x`, `~a=x>y`, `-a=x`, separated by spaces.
pub(crate) fn told<'a>(deltas: impl IntoIterator<Item = &'a Delta<Word>>) -> String {
    let changes = deltas.into_iter().flat_map(Delta::changes);
    let lines = changes.map(|change| match change {
        Change::Added(new) => format!("+{}={}", new.key, new.text),
        Change::Updated { old, new } => format!("~{}={}>{}", new.key, old.text, new.text),
        Change::Deleted(last) => format!("-{}={}", last.key, last.text),
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// A store, and steps for the object `a` in it.
pub(crate) struct Cache {
    pub(crate) store: Store<Word>,
    /// The step at which a read was sent whose answer has not come.
    asked: Option<u64>,
}

impl Cache {
    pub(crate) fn empty() -> Self {
        Self {
            store: Store::default(),
            asked: None,
        }
    }

    /// `a` is `text`, at version 5, and one of our requests for it is in flight.
    pub(crate) fn writing(text: &str) -> Self {
        Self::empty().plays(&format!("shows U 5 {text}\n begin"))
    }

    /// Plays a script with one step a line: the step, after `→` the changes for handlers, after `|` the content and
    /// freshness of the store; `forgotten` says that it remembers no write. A `#` begins a remark.
    ///
    /// | step | what happens |
    /// |---|---|
    /// | `begin` | we send a request |
    /// | `accepted U 8 E` | after our request, the object of uid `U` has version 8 (`-`: no version in the answer) |
    /// | `writes U 8 E` | `begin` and `accepted` |
    /// | `refused`, `unknown` | the request is refused; its fate is unknown |
    /// | `shows U 8 x`, `ends U 9`, `skips U` | watch: the object is `x`, is deleted, cannot be decoded |
    /// | `list`, `listed U 8 x`, `listed at 7` | a list begins, ends with one object, ends empty at version 7 |
    /// | `reads U 8 x`, `reads nothing` | a read of ours found this |
    /// | `asks`, `answers U 8 x`, `answers nothing` | a read is sent, and finds this; `→ overtaken` if it does not count |
    /// | `overdue 8` | the watch should have shown version 8 by now; `→ yes` if the store waited for it |
    ///
    /// `E` is the content of the answer: the object `=x`, a patch `+p`, `gone`, or `nothing`.
    #[track_caller]
    pub(crate) fn plays(mut self, script: &str) -> Self {
        for line in script.lines().map(str::trim) {
            let (line, _) = line.split_once('#').unwrap_or((line, ""));
            let (line, then) = line.split_once('|').unwrap_or((line, ""));
            let (step, expected) = line.split_once('→').unzip();
            let words: Vec<_> = step.unwrap_or(line).split_whitespace().collect();
            let told = self.step(&words);
            if let Some(expected) = expected {
                assert_eq!(told, expected.trim(), "told of: {line}");
            }
            for then in then.split(',').map(str::trim).filter(|then| !then.is_empty()) {
                match then {
                    "forgotten" => assert_eq!(self.store.mutations(), 0, "remembered after: {line}"),
                    now => assert_eq!(self.now(), now, "held after: {line}"),
                }
            }
        }
        self
    }

    pub(crate) fn step(&mut self, words: &[&str]) -> String {
        let uid = |uid: &str| Uid::from(uid);
        let store = &mut self.store;
        let a = key("a");
        match *words {
            [] => String::new(),
            ["begin"] => {
                store.begin_write(&a);
                String::new()
            }
            ["accepted", of, version, effect] => {
                let effect = match effect.split_at(1) {
                    ("=", text) => WriteEffect::Object(word("a", text)),
                    ("+", letter) => adds(letter.to_owned()),
                    _ if effect == "gone" => WriteEffect::Deleted,
                    _ => WriteEffect::Nothing,
                };
                told(&store.accepted(&a, &uid(of), version.parse().ok(), id_of(version), effect))
            }
            ["writes", of, version, effect] => {
                store.begin_write(&a);
                self.step(&["accepted", of, version, effect])
            }
            ["refused"] => {
                store.refused(&a);
                String::new()
            }
            ["unknown"] => {
                store.unknown(&a);
                String::new()
            }
            ["asks"] => {
                self.asked = Some(store.step());
                String::new()
            }
            ["answers", ref found @ ..] => {
                let uid = found.get(1).map(|_| uid(found[0]));
                match self.asked.take() {
                    Some(asked) if store.has_overtaken(&a, asked, uid.as_ref()) => "overtaken".to_owned(),
                    _ => self.step(&[&["reads"], found].concat()),
                }
            }
            ["reads", "nothing"] => told(&store.read(&a, None)),
            ["reads", of, version, text] => {
                told(&store.read(&a, Some((word("a", text), uid(of), version.parse().unwrap()))))
            }
            ["overdue", version] if store.overdue(&a, id_of(version)) => "yes".to_owned(),
            ["overdue", _] => "no".to_owned(),
            _ => self.watched(words),
        }
    }

    /// Applies an event of the watch or a list.
    pub(crate) fn watched(&mut self, words: &[&str]) -> String {
        let a = key("a");
        match *words {
            ["shows", of, version, text] => {
                self.apply(SourceEvent::Applied(observed("a", of, version, text)))
            }
            ["ends", of] => self.step(&["ends", of, "99"]),
            ["ends", of, version] => self.apply(SourceEvent::Deleted(Removed {
                key: a,
                uid: Uid::from(of),
                view: None,
                version: Some(version.into()),
            })),
            ["skips", of] => self.apply(SourceEvent::Skipped(Skipped {
                key: Some(a),
                uid: Some(Uid::from(of)),
                version: Some("99".into()),
                error: DecodeError::Unnamed,
            })),
            ["list"] => self.apply(SourceEvent::Init),
            ["listed"] => self.apply(SourceEvent::InitDone { version: None }),
            ["listed", "at", version] => self.apply(SourceEvent::InitDone {
                version: Some(version.into()),
            }),
            ["listed", of, version, text] => {
                let item = SourceEvent::InitItem(observed("a", of, version, text));
                assert_eq!(self.apply(item), "");
                self.step(&["listed"])
            }
            _ => panic!("no step: {words:?}"),
        }
    }

    pub(crate) fn apply(&mut self, event: SourceEvent<Word>) -> String {
        told(&self.store.apply(event).deltas)
    }

    /// Content and freshness of the store, for example `xp Pending`.
    pub(crate) fn now(&self) -> String {
        let held = self.store.get(&key("a"));
        let text = held.map_or_else(|| "-".to_owned(), |held| held.text.clone());
        format!("{text} {:?}", self.store.freshness(&key("a")))
    }
}
