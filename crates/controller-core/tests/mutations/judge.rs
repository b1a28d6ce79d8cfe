//! What must hold after each step, and in the end.

use controller_core::cache::Freshness;

use crate::NAMES;
use crate::things::{key, thing};
use crate::world::{Form, Step, World};

impl World {
    pub(crate) fn check(&self) {
        let held: Vec<_> = self
            .store
            .snapshot()
            .iter()
            .map(|thing| (**thing).clone())
            .collect();
        let replica: Vec<_> = self.replica.values().cloned().collect();
        assert_eq!(held, replica, "what was told is not what is held");
        for thing in &held {
            let found = self.store.by_index(&thing.fields.ours);
            assert!(
                found.iter().any(|found| **found == *thing),
                "{thing:?} is not indexed"
            );
            assert!(!self.gone.contains(&thing.uid), "{thing:?} came back");
            let floor = self.floor.get(&thing.uid).copied().unwrap_or_default();
            let fields = thing.fields.each();
            assert!(
                fields.iter().zip(floor).all(|(field, floor)| *field >= floor),
                "{thing:?} is older than {floor:?}"
            );
        }
        for (name, known) in &self.known {
            let held = self.held(name);
            let freshness = self.store.freshness(&key(name));
            if let Some(shown) = known
                .shown
                .as_ref()
                .filter(|shown| !self.gone.contains(&shown.uid))
            {
                let held = held.as_ref().map(|held| held.uid);
                assert_eq!(held, Some(shown.uid), "{name} was shown");
            }
            if let Some(created) = known.created.filter(|created| !self.gone.contains(created)) {
                let held = held.as_ref().map(|held| held.uid);
                assert_eq!(held, Some(created), "{name} was created");
            }
            if freshness == Freshness::Synced {
                assert_eq!(held, known.shown, "{name} is synced");
                for (uid, fields) in &self.lost {
                    if let Some(held) = held.as_ref().filter(|held| held.uid == *uid) {
                        let held = held.fields.each();
                        let has_all = held.iter().zip(fields).all(|(held, lost)| held >= lost);
                        assert!(has_all, "{name} is synced without {fields:?}");
                    }
                }
            }
            let writing = self.requests.iter().any(|request| request.name == *name);
            assert_eq!(self.store.is_writing(&key(name)), writing);
        }
    }

    /// Ends everything in progress.
    pub(crate) fn finish(&mut self) {
        self.step(&Step::ListIsTaken);
        self.step(&Step::ListEnds);
        while !self.requests.is_empty() {
            self.step(&Step::Take(0));
            self.step(&Step::Answer(0, Form::Whole));
        }
        while !self.readings.is_empty() {
            self.step(&Step::TakeRead(0));
            self.step(&Step::AnswerRead(0));
        }
        while self.watched < self.server.log.len() {
            self.step(&Step::Watch);
        }
        // Unknown objects are read; changes that the watch never shows are declared overdue.
        for name in NAMES {
            for step in [Step::Read(name), Step::Overdue(name), Step::Read(name)] {
                let is_unknown = self.store.freshness(&key(name)) == Freshness::Unknown;
                if is_unknown || matches!(step, Step::Overdue(_)) {
                    self.step(&step);
                }
                self.step(&Step::TakeRead(0));
                self.step(&Step::AnswerRead(0));
            }
        }
        self.check_end();
        assert_eq!(self.store.mutations(), 0, "something is remembered");
    }

    pub(crate) fn check_end(&self) {
        for name in NAMES {
            let object = self.server.objects.get(name).filter(|object| object.kept);
            assert_eq!(
                self.held(name),
                object.map(|object| thing(name, object)),
                "{name} in the end"
            );
        }
    }
}
