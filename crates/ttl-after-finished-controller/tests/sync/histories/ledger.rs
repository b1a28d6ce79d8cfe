//! What has happened to each Job, whoever deleted it when: the steps of a history, written down as they are taken.

use harness::history::Fate;
use testkit::embedded::Server;

/// What comes later than this, in milliseconds since the start, no history lives to see.
const NEVER: i64 = 600_000;

/// Every Job that there was, in the order of their creation.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(pub(super) Vec<Life>);

/// One Job from its creation on; others may have had its name before.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) name: String,
    /// What it was told, each from a moment on, in milliseconds since the start.
    states: Vec<(u64, Told)>,
    /// Somebody deleted it, or put another in its place.
    pub(super) ended: bool,
}

/// What decides about a Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// In seconds.
    pub(super) ttl: Option<i32>,
    /// In seconds since the start.
    pub(super) finished: Option<i64>,
}

impl Told {
    /// In milliseconds since the start.
    fn expiry(self) -> Option<i64> {
        Some((self.finished? + i64::from(self.ttl?)) * 1000)
    }
}

impl Life {
    pub(super) fn fate(&self) -> Fate {
        let ends = self.states.iter().skip(1).map(|(from, _)| Some(*from));
        let overdue = self
            .states
            .iter()
            .zip(ends.chain([None]))
            .map(|((from, told), end)| {
                let since = told.expiry().filter(|expiry| *expiry < NEVER)?;
                let since = since.max(i64::try_from(*from).unwrap());
                let overdue = end.map_or(i64::MAX, |end| i64::try_from(end).unwrap() - since);
                Some(overdue).filter(|overdue| *overdue >= 0)
            });
        match overdue.flatten().max() {
            None => Fate::Lives,
            Some(i64::MAX) => Fate::Goes,
            Some(overdue) => Fate::MayGo(overdue),
        }
    }
}

impl Ledger {
    /// The last Job of each name that nobody deleted.
    pub(super) fn standing(&self) -> impl Iterator<Item = &Life> {
        self.0.iter().filter(|life| !life.ended)
    }

    /// A Job is created, unfinished.
    pub(super) fn created(&mut self, server: &Server, name: &str, ttl: Option<i32>) {
        self.0.push(Life {
            name: name.to_owned(),
            states: vec![(now(server), Told { ttl, finished: None })],
            ended: false,
        });
    }

    /// The Job of this name, if there is one, is told something else.
    pub(super) fn told(&mut self, server: &Server, name: &str, change: impl FnOnce(&mut Told)) {
        if let Some(life) = self.last(name) {
            let (_, mut told) = *life.states.last().unwrap();
            change(&mut told);
            life.states.push((now(server), told));
        }
    }

    /// The Job of this name, if there is one, is deleted by somebody.
    pub(super) fn ended(&mut self, name: &str) {
        if let Some(life) = self.last(name) {
            life.ended = true;
        }
    }

    fn last(&mut self, name: &str) -> Option<&mut Life> {
        self.0.iter_mut().find(|life| life.name == name && !life.ended)
    }
}

fn now(server: &Server) -> u64 {
    u64::try_from(server.elapsed().as_millis()).unwrap()
}
