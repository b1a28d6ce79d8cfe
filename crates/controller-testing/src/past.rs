//! Objects that a controller deletes at a certain time: their [`Past`], and the resulting [`Ends`]. What a rival undid.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fault_history::{EndState, UNDECIDED};
use embedded_apiserver::{Resource, Server};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::objects;
use crate::sim::START;

/// The rules' final verdict on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalFate {
    /// Never due.
    Lives,
    /// Due for good.
    Goes,
    /// Was due, for at most this many milliseconds, when it was saved: a controller that was delayed, or that saw
    /// nothing, finds it saved.
    MayGo(i64),
}

impl FinalFate {
    /// The fate of an object that was overdue for this many milliseconds, if it was due: [`i64::MAX`] is for ever.
    pub const fn of(overdue: Option<i64>) -> Self {
        match overdue {
            None => Self::Lives,
            Some(i64::MAX) => Self::Goes,
            Some(overdue) => Self::MayGo(overdue),
        }
    }
}

/// For each object by name: its fate, and whether it lives.
pub type Ends = BTreeMap<String, (FinalFate, bool)>;

/// The history of an object. Times are in milliseconds since the start.
#[derive(Clone, Debug)]
pub struct Past<T> {
    /// Earlier objects may have had the same name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// The inputs of the rules, each with the time from which it holds.
    pub told: Vec<(i64, T)>,
    /// When somebody other than the controller deleted it.
    pub until: Option<i64>,
}

impl<T: Clone> Past<T> {
    /// When the object was created.
    pub fn from(&self) -> i64 {
        self.told[0].0
    }

    /// The latest input.
    pub fn last(&self) -> &T {
        &self.told[self.told.len() - 1].1
    }

    /// When the input at `place` was replaced, if it was.
    pub fn told_until(&self, place: usize) -> Option<i64> {
        self.told.get(place + 1).map(|next| next.0)
    }
}

/// The pasts of all objects, in the order of creation.
#[derive(Clone, Debug)]
pub struct Pasts<T>(pub Vec<Past<T>>);

impl<T> Default for Pasts<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone> Pasts<T> {
    /// Creates an object; an earlier object of its name is gone.
    pub fn create(&mut self, server: &Server, object: Value, told: T) {
        let made = server.insert(object).unwrap();
        let (name, uid) = (objects::name(&made), objects::uid(&made));
        self.begin(millis(server.elapsed()), name, uid, told);
    }

    /// An object was created at this time; an earlier object of its name is gone.
    pub fn begin(&mut self, at: i64, name: String, uid: String, told: T) {
        self.end(at, &name);
        self.0.push(Past {
            name,
            uid,
            told: vec![(at, told)],
            until: None,
        });
    }

    /// Changes the inputs for the object of this name, if it exists; returns the new ones.
    pub fn tell(&mut self, server: &Server, name: &str, change: impl FnOnce(&mut T)) -> Option<T> {
        self.tell_at(millis(server.elapsed()), name, change)
    }

    /// Changes them at this time.
    pub fn tell_at(&mut self, at: i64, name: &str, change: impl FnOnce(&mut T)) -> Option<T> {
        let past = self
            .0
            .iter_mut()
            .find(|past| past.name == name && past.until.is_none())?;
        let mut told = past.last().clone();
        change(&mut told);
        past.told.push((at, told.clone()));
        Some(told)
    }

    /// Deletes the object of this name, if it exists.
    pub fn delete(&mut self, server: &Server, resource: &'static Resource, name: &str) {
        objects::delete(server, resource, name);
        self.end(millis(server.elapsed()), name);
    }

    /// Somebody deleted the object of this name at this time, if it existed.
    pub fn end(&mut self, at: i64, name: &str) {
        for past in self.0.iter_mut().filter(|past| past.name == name) {
            past.until.get_or_insert(at);
        }
    }

    /// The verdict of `fate` on the last object of each name, unless somebody deleted it.
    pub fn ends(
        &self,
        server: &Server,
        resource: &'static Resource,
        fate: impl Fn(&Past<T>) -> FinalFate,
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

/// A rival undoes fewer writes of one object than this, within [`RIVAL_WINDOW`].
const MOST_UNDONE: usize = 14;
const RIVAL_WINDOW: Duration = Duration::from_secs(20);

/// When a rival undid what was written to which object.
#[derive(Clone, Debug, Default)]
pub struct UndoneWrites(BTreeMap<String, Vec<Duration>>);

impl UndoneWrites {
    /// The rival undoes a write now.
    pub fn add(&mut self, server: &Server, object: &str) {
        self.0
            .entry(object.to_owned())
            .or_default()
            .push(server.elapsed());
    }

    /// How many writes of the object were undone.
    pub fn count(&self, object: &str) -> usize {
        self.0.get(object).map_or(0, Vec::len)
    }

    /// Fails for an object that is written again and again: a rival has its peace after three writes, but for those of
    /// new leaders, and those that something else asks for.
    pub fn were_left(&self) -> Result<(), String> {
        for (object, undone) in &self.0 {
            let mut some = undone.windows(MOST_UNDONE);
            if let Some(some) = some.find(|some| some[MOST_UNDONE - 1] < some[0] + RIVAL_WINDOW) {
                return Err(format!("{object} is written against a rival: {some:?}"));
            }
        }
        Ok(())
    }
}

/// The controller's wall clock, if it is right.
pub fn now(server: &Server) -> Timestamp {
    at(millis(server.elapsed()))
}

/// The time `millis` milliseconds after the start.
pub fn at(millis: i64) -> Timestamp {
    START.checked_add(SignedDuration::from_millis(millis)).unwrap()
}

/// The duration in milliseconds.
pub fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap()
}

/// Whole seconds since the start.
pub fn second(server: &Server) -> i64 {
    millis(server.elapsed()) / 1000
}

/// Fails with the first object that exists but should not, or the reverse.
pub fn settled(ends: &Ends) -> Result<(), String> {
    for (name, end) in ends {
        match end {
            (FinalFate::Goes, true) => return Err(format!("{name} is still there")),
            (FinalFate::Lives, false) => return Err(format!("{name} is gone")),
            _ => {}
        }
    }
    Ok(())
}

/// What is the same in the end as without faults: whether an object was saved in time depends on what delayed the
/// controller.
pub(crate) fn state(ends: Ends) -> EndState {
    let told = |end| match end {
        (FinalFate::MayGo(_), _) => UNDECIDED,
        (_, true) => "lives",
        (_, false) => "is gone",
    };
    ends.into_iter()
        .map(|(name, end)| (name, told(end).to_owned()))
        .collect()
}

/// Fails with the first object that stayed much longer than it should, or went much earlier.
pub fn prompt(ends: &Ends, within: i64) -> Result<(), String> {
    for (name, end) in ends {
        match *end {
            (FinalFate::MayGo(overdue), true) if overdue > within => {
                return Err(format!("{name} was due for {overdue} ms and lives"));
            }
            (FinalFate::MayGo(overdue), false) if overdue < -within => {
                return Err(format!("{name} went {} ms early", -overdue));
            }
            _ => {}
        }
    }
    Ok(())
}
