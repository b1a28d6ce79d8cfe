//! Events of a demo, for the tests of the displays.

use std::time::Duration;

use crate::counts::Counts;
use crate::event::{Action, Event, Moment, Writes};
use crate::metrics::Reading;

pub(super) const TTL: &str = "ttl-controller";

/// With 0.4 s between them.
pub(super) fn moments(events: Vec<Event>) -> impl Iterator<Item = Moment> {
    (0_u32..).zip(events).map(|(number, event)| {
        let at = Duration::from_millis(400) * number;
        Moment { at, event }
    })
}

pub(super) fn cluster(kubeconfig: &str, context: Option<&str>) -> Event {
    Event::Cluster {
        url: "http://127.0.0.1:4711/".to_owned(),
        kubeconfig: kubeconfig.into(),
        context: context.map(str::to_owned),
    }
}

/// The scene of the ttl-controller, the first of `of` scenes.
pub(super) fn ttl_scene(of: usize, steps: usize) -> Event {
    Event::Scene {
        number: 1,
        of,
        controller: TTL,
        shows: "It writes TTLs.",
        kubectl: "get nodes -w",
        counted: "nodes by TTL",
        steps,
    }
}

pub(super) fn step(number: usize, title: &'static str, says: &'static str) -> Event {
    Event::Step { number, title, says }
}

pub(super) fn as_expected<const N: usize>(counts: [(usize, &str); N], writes: u64, millis: u64) -> Event {
    Event::AsExpected {
        counts: counts.into_iter().collect(),
        writes: Writes(writes),
        took: Duration::from_millis(millis),
    }
}

pub(super) fn counts<const N: usize>(counts: [(usize, &str); N]) -> Event {
    Event::Counts(Counts::from_iter(counts))
}

pub(super) fn started() -> Event {
    Event::Started {
        controller: TTL,
        pid: 42,
        admin: "127.0.0.1:4712".to_owned(),
    }
}

pub(super) fn said(text: &str) -> Event {
    Event::Said {
        controller: TTL,
        text: text.to_owned(),
    }
}

pub(super) fn wrote(controller: &'static str, object: &str, reason: &str) -> Event {
    Event::Did {
        controller,
        action: Action::Wrote,
        object: object.to_owned(),
        reason: reason.to_owned(),
    }
}

pub(super) fn reading(controller: &'static str, writes: u64) -> Event {
    let reading = Reading {
        writes,
        ..Reading::default()
    };
    Event::Metrics { controller, reading }
}
