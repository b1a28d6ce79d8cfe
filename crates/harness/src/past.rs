//! Objects that a controller deletes at a time: their [`Past`], and the [`Ends`] that come of it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use testkit::embedded::{Resource, Server};
use testkit::history::State;

use crate::objects;
use crate::sim::START;

/// What the rules make of an object in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was never due.
    Lives,
    /// It is due for good.
    Goes,
    /// It was due, for so many milliseconds at most, when it was saved: a controller that was held up, or that did not
    /// see, finds it saved.
    MayGo(i64),
}

impl Fate {
    /// Of one that was overdue for so long, if it was due: for ever is [`i64::MAX`].
    pub const fn of(overdue: Option<i64>) -> Self {
        match overdue {
            None => Self::Lives,
            Some(i64::MAX) => Self::Goes,
            Some(overdue) => Self::MayGo(overdue),
        }
    }
}

/// By name what the rules make of each object, and whether it lives.
pub type Ends = BTreeMap<String, (Fate, bool)>;

/// What became of an object, whoever did it. Times are in milliseconds since the start.
#[derive(Clone, Debug)]
pub struct Past<T> {
    /// Others may have had it before.
    pub name: String,
    /// What the API server calls it by.
    pub uid: String,
    /// What the rules ask about it, each from a moment on.
    pub told: Vec<(i64, T)>,
    /// When somebody else than the controller deleted it.
    pub until: Option<i64>,
}

impl<T: Clone> Past<T> {
    /// Since when it is there.
    pub fn from(&self) -> i64 {
        self.told[0].0
    }

    /// What it was told last.
    pub fn last(&self) -> &T {
        &self.told[self.told.len() - 1].1
    }

    /// Until when that of this place held, if something else did later.
    pub fn told_until(&self, place: usize) -> Option<i64> {
        self.told.get(place + 1).map(|next| next.0)
    }
}

/// Of all objects that there were, in the order of their beginning.
#[derive(Debug)]
pub struct Pasts<T>(pub Vec<Past<T>>);

impl<T> Default for Pasts<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone> Pasts<T> {
    /// Makes an object; one of its name is gone.
    pub fn create(&mut self, server: &Server, object: Value, told: T) {
        let name = objects::name(&object);
        self.end(server, &name);
        let made = server.insert(object).unwrap();
        self.0.push(Past {
            name,
            uid: objects::uid(&made),
            told: vec![(millis(server.elapsed()), told)],
            until: None,
        });
    }

    /// Changes what the object of this name is told, if there is one; what it is told now.
    pub fn tell(&mut self, server: &Server, name: &str, change: impl FnOnce(&mut T)) -> Option<T> {
        let past = self
            .0
            .iter_mut()
            .find(|past| past.name == name && past.until.is_none())?;
        let mut told = past.last().clone();
        change(&mut told);
        past.told.push((millis(server.elapsed()), told.clone()));
        Some(told)
    }

    /// Deletes the object of this name, if there is one.
    pub fn delete(&mut self, server: &Server, resource: &'static Resource, name: &str) {
        objects::delete(server, resource, name);
        self.end(server, name);
    }

    fn end(&mut self, server: &Server, name: &str) {
        for past in self.0.iter_mut().filter(|past| past.name == name) {
            past.until.get_or_insert(millis(server.elapsed()));
        }
    }

    /// What `fate` makes of the last object of each name, where nobody deleted it.
    pub fn ends(
        &self,
        server: &Server,
        resource: &'static Resource,
        fate: impl Fn(&Past<T>) -> Fate,
    ) -> Ends {
        let lives = |past: &Past<T>| {
            let found = objects::find(server, resource, &past.name);
            objects::stays(
                found
                    .as_ref()
                    .filter(|found| found["metadata"]["uid"] == past.uid),
            )
        };
        let left = self.0.iter().filter(|past| past.until.is_none());
        left.map(|past| (past.name.clone(), (fate(past), lives(past))))
            .collect()
    }
}

/// The controller's wall clock, where it is right.
pub fn now(server: &Server) -> Timestamp {
    at(millis(server.elapsed()))
}

/// So many milliseconds after the start.
pub fn at(millis: i64) -> Timestamp {
    START.checked_add(SignedDuration::from_millis(millis)).unwrap()
}

/// In milliseconds.
pub fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap()
}

/// Whole seconds since the start.
pub fn second(server: &Server) -> i64 {
    millis(server.elapsed()) / 1000
}

/// Fails with the first object that should not be there, or should be.
pub(crate) fn settled(ends: &Ends) -> Result<(), String> {
    for (name, end) in ends {
        match end {
            (Fate::Goes, true) => return Err(format!("{name} is still there")),
            (Fate::Lives, false) => return Err(format!("{name} is gone")),
            _ => {}
        }
    }
    Ok(())
}

/// What is the same in the end without faults: what saved an object too late, or just in time, depends on what held the
/// controller up.
pub(crate) fn state(ends: Ends) -> State {
    let told = |end| match end {
        (Fate::MayGo(_), _) => "lives or is gone",
        (_, true) => "lives",
        (_, false) => "is gone",
    };
    ends.into_iter()
        .map(|(name, end)| (name, told(end).to_owned()))
        .collect()
}

/// Fails with the first object that stayed much longer than it should, or went much earlier.
pub(crate) fn prompt(ends: &Ends, within: i64) -> Result<(), String> {
    for (name, end) in ends {
        match *end {
            (Fate::MayGo(overdue), true) if overdue > within => {
                return Err(format!("{name} was due for {overdue} ms and lives"));
            }
            (Fate::MayGo(overdue), false) if overdue < -within => {
                return Err(format!("{name} went {} ms early", -overdue));
            }
            _ => {}
        }
    }
    Ok(())
}
