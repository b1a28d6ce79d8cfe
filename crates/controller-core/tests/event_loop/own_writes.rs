//! What the cache shows after an accepted write and before its watch event, and what the loop does about a write with
//! unknown fate. Uses the dimmer: a lamp with a wanted brightness of 2 needs two writes.

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::AnswerClass;
use controller_core::cache::{self, Freshness};
use controller_core::controller::{
    Accepted, Completed, Controller, Effect, Loop, LoopEvent, Notification, Now, Polled, RequestOf,
};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use controller_testing::sim::{NOW, SimResource, Watch, observed};

use crate::dimmer::{Dimmer, Lamp};
use crate::rig::{MS, Permits, SECOND, failed};

const NO_ANSWER: AnswerClass = AnswerClass::retry(true);
const NOTHING: [u8; 0] = [];

struct World {
    lamps: SimResource<Dimmer, Lamp>,
    event_loop: Loop<Dimmer>,
    now: Now,
    again: Option<Duration>,
    in_flight: Vec<Effect<Dimmer>>,
}

pub(crate) fn lamp() -> ObjectKey {
    ObjectKey::namespaced("ns", "lamp")
}

fn started(lamps: &mut SimResource<Dimmer, Lamp>, now: Now) -> Loop<Dimmer> {
    let mut event_loop = Loop::new(Arc::new(Dimmer), [None], false);
    lamps.restart();
    lamps.deliver(&mut event_loop, now);
    event_loop.on_event(LoopEvent::Synced, now);
    event_loop.on_event(LoopEvent::Leading(true), now);
    event_loop
}

impl World {
    /// One lamp with brightness 0 and this wanted brightness.
    fn with_lamp(wanted: u8) -> Self {
        let now = NOW;
        let mut lamps = SimResource::new(|lamps| lamps);
        let key = lamp();
        let shines = 0;
        lamps.put(Lamp { key, wanted, shines }, Uid::from("first"));
        Self {
            event_loop: started(&mut lamps, now),
            lamps,
            now,
            again: None,
            in_flight: Vec::new(),
        }
    }

    /// Polls the loop; returns the brightnesses that it writes.
    fn turn(&mut self) -> Vec<u8> {
        let Polled { effects, again, .. } = self.event_loop.poll(self.now, &Permits::default());
        self.again = again;
        let written = effects.iter().filter_map(|effect| match &effect.ask {
            RequestOf::Write(dim) => Some(dim.shines),
            RequestOf::Query(_) => None,
        });
        let written = written.collect();
        self.in_flight.extend(effects);
        written
    }

    fn after(&mut self, time: Duration) -> Vec<u8> {
        self.now.uptime += time;
        self.now.wall = saturating_add(self.now.wall, time);
        self.turn()
    }

    /// Edits the lamp on the API server; returns its new version.
    fn edit(&mut self, edit: impl FnOnce(&mut Lamp)) -> Accepted {
        let held = self.lamps.objects()[&lamp()].clone();
        let mut view = held.view;
        edit(&mut view);
        let version = Some(self.lamps.put(view, held.uid.clone()));
        let uid = Some(held.uid);
        Accepted {
            uid,
            version,
            deleting: false,
        }
    }

    /// The API server carries out the write in flight.
    fn arrive(&mut self) -> Accepted {
        let RequestOf::Write(dim) = self.in_flight[0].ask.clone() else {
            panic!("a query is in flight");
        };
        self.edit(|lamp| lamp.shines = dim.shines)
    }

    /// Answers the query in flight with the current lamp.
    fn read(&mut self) {
        let RequestOf::Query(_) = self.in_flight[0].ask else {
            panic!("a write is in flight");
        };
        let found = observed(&self.lamps.objects()[&lamp()]);
        self.complete(Completed::Read(Ok(Some(found)), None));
    }

    fn accept(&mut self) {
        let accepted = self.arrive();
        self.complete(Completed::Wrote(Ok(accepted)));
    }

    fn complete(&mut self, completed: Completed<Option<cache::Versioned<Lamp>>>) {
        let effect = self.in_flight.remove(0);
        self.event_loop.completed(effect.id, completed, self.now);
    }

    /// The watch delivers the next change.
    fn show(&mut self) {
        assert!(self.lamps.deliver(&mut self.event_loop, self.now));
    }

    fn freshness(&self) -> Freshness {
        self.event_loop.stores().freshness(&lamp())
    }

    /// The brightness of the lamp in the cache.
    fn cached(&self) -> u8 {
        self.event_loop.stores().get(&lamp()).unwrap().shines
    }

    /// Nothing is in flight or remembered.
    #[track_caller]
    fn assert_settled(&mut self) {
        assert_eq!(self.after(60 * SECOND), NOTHING);
        assert_eq!(self.event_loop.held(), 0);
        assert_eq!(self.event_loop.stores().mutations(), 0);
        assert_eq!(self.freshness(), Freshness::Synced);
    }
}

#[test]
fn an_accepted_write_is_seen_before_the_watch_shows_it() {
    let mut world = World::with_lamp(2);
    assert_eq!(world.turn(), [1]);
    world.accept();
    assert_eq!((world.cached(), world.freshness()), (1, Freshness::Pending));
    // The second step builds on the result of the first.
    assert_eq!(world.turn(), [2]);
    world.accept();
    assert_eq!(world.turn(), NOTHING);
    world.show();
    world.show();
    assert_eq!(world.turn(), NOTHING);
    world.assert_settled();
}

#[test]
fn an_older_event_of_the_watch_does_not_undo_it_and_nothing_is_written_twice() {
    let mut world = World::with_lamp(1);
    world.turn();
    // Another writer came first, and the watch is late.
    world.edit(|lamp| lamp.wanted = 3);
    world.accept();
    assert_eq!(world.turn(), NOTHING);
    world.show();
    assert_eq!(world.cached(), 1, "the event is older than our write");
    assert_eq!(world.turn(), [2], "the change of the other writer counts");
    world.accept();
    world.show();
    assert_eq!(world.cached(), 2);
    assert_eq!(world.turn(), [3]);
    world.accept();
    world.show();
    world.show();
    world.assert_settled();
}

#[test]
fn an_answer_that_comes_after_the_watch_has_shown_the_write_changes_nothing() {
    let mut world = World::with_lamp(1);
    world.turn();
    let accepted = world.arrive();
    world.show();
    assert_eq!(world.turn(), NOTHING);
    world.complete(Completed::Wrote(Ok(accepted)));
    assert_eq!(world.freshness(), Freshness::Synced);
    assert_eq!(world.turn(), NOTHING);
    assert_eq!(world.event_loop.held(), 0, "no write is awaited");
    world.assert_settled();
}

#[test]
fn a_write_that_the_watch_does_not_show_within_30_s_is_overdue() {
    let mut world = World::with_lamp(1);
    world.turn();
    world.accept();
    assert_eq!(world.turn(), NOTHING);
    assert_eq!(world.after(29_999 * MS), NOTHING);
    assert_eq!((world.freshness(), world.again), (Freshness::Pending, Some(MS)));
    assert_eq!(world.after(MS), NOTHING);
    assert_eq!((world.cached(), world.freshness()), (1, Freshness::Unknown));
    // The dimmer received the event and reads the lamp.
    world.read();
    assert_eq!((world.cached(), world.freshness()), (1, Freshness::Pending));
    assert_eq!(world.turn(), NOTHING);
    world.show();
    world.assert_settled();
}

#[test]
fn a_write_that_the_watch_has_shown_is_not_overdue() {
    let mut world = World::with_lamp(1);
    world.turn();
    world.accept();
    world.turn();
    world.show();
    assert_eq!(world.after(30 * SECOND), NOTHING);
    world.assert_settled();
}

#[test]
fn writes_that_the_watch_has_shown_do_not_pile_up() {
    let mut world = World::with_lamp(0);
    assert_eq!(world.turn(), NOTHING);
    for round in 1..1_000 {
        world.edit(|lamp| lamp.wanted = u8::from(round % 2 == 1));
        world.show();
        assert_eq!(world.turn().len(), 1);
        world.accept();
        world.show();
        assert_eq!(world.turn(), NOTHING);
    }
    assert_eq!(world.event_loop.held(), 0);
    world.assert_settled();
}

#[test]
fn the_last_of_several_writes_decides_when_they_are_overdue() {
    let mut world = World::with_lamp(2);
    world.turn();
    world.accept();
    world.after(20 * SECOND);
    world.accept();
    assert_eq!(world.after(10 * SECOND), NOTHING);
    assert_eq!(world.freshness(), Freshness::Pending);
    world.after(20 * SECOND);
    assert_eq!(world.freshness(), Freshness::Unknown);
    world.read();
}

#[test]
fn after_a_lost_answer_nobody_knows_and_the_pass_is_retried() {
    for arrives in [true, false] {
        let mut world = World::with_lamp(1);
        world.turn();
        if arrives {
            world.arrive();
        }
        world.complete(Completed::Wrote(Err(failed(NO_ANSWER))));
        assert_eq!((world.cached(), world.freshness()), (0, Freshness::Unknown));
        assert_eq!(world.turn(), NOTHING);
        world.read();
        assert_eq!(world.turn(), NOTHING);
        if arrives {
            assert_eq!((world.cached(), world.freshness()), (1, Freshness::Pending));
        } else {
            assert_eq!(world.after(5 * MS), [1]);
            world.accept();
        }
        world.show();
        world.assert_settled();
    }
}

#[test]
fn an_answer_that_does_not_say_which_object_it_was_leaves_it_unknown() {
    let mut world = World::with_lamp(1);
    world.turn();
    world.arrive();
    world.complete(Completed::Wrote(Ok(Accepted::default())));
    assert_eq!(world.freshness(), Freshness::Unknown);
}

#[test]
fn a_refused_write_has_changed_nothing() {
    let mut world = World::with_lamp(1);
    world.turn();
    world.complete(Completed::Wrote(Err(failed(AnswerClass::Conflict))));
    assert_eq!((world.cached(), world.freshness()), (0, Freshness::Synced));
    assert_eq!(world.turn(), NOTHING);
    assert_eq!(world.after(5 * MS), [1]);
}

#[test]
fn a_write_to_a_lamp_that_was_replaced_says_nothing_of_the_new_one() {
    let mut world = World::with_lamp(1);
    world.turn();
    let accepted = world.arrive();
    let (key, wanted, shines) = (lamp(), 0, 0);
    world.lamps.put(Lamp { key, wanted, shines }, Uid::from("second"));
    for _ in 0..3 {
        world.show();
    }
    world.complete(Completed::Wrote(Ok(accepted)));
    assert_eq!(world.cached(), 0);
}

#[test]
fn a_crash_between_two_writes_is_resumed() {
    let mut world = World::with_lamp(2);
    world.turn();
    world.accept();
    world.event_loop = started(&mut world.lamps, world.now);
    assert_eq!(world.turn(), [2]);
}

#[test]
fn a_write_that_was_on_its_way_in_a_crash_is_made_again() {
    let mut world = World::with_lamp(1);
    world.turn();
    world.event_loop = started(&mut world.lamps, world.now);
    assert_eq!(world.turn(), [1]);
}

#[test]
fn a_lost_term_leaves_the_object_unknown_and_the_next_one_resumes() {
    let mut world = World::with_lamp(2);
    world.turn();
    world.event_loop.on_event(LoopEvent::Leading(false), world.now);
    world.complete(Completed::Wrote(Err(failed(NO_ANSWER))));
    assert_eq!(world.freshness(), Freshness::Unknown);
    assert_eq!(world.after(60 * SECOND), NOTHING);
    world.event_loop.on_event(LoopEvent::Leading(true), world.now);
    assert_eq!(world.turn(), NOTHING);
    world.read();
    assert_eq!(world.turn(), [1]);
}

#[test]
fn what_was_written_is_reported_by_its_event_and_its_description() {
    let mut world = World::with_lamp(1);
    world.turn();
    world.accept();
    let told = world.event_loop.take_notifications();
    let told: Vec<_> = told
        .iter()
        .map(|told| match told {
            Notification::Event(event) => event.clone(),
            Notification::Wrote(key, _, description) => {
                format!("{key}: {} {}", description.action, description.text)
            }
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["ns/lamp shines 1", "ns/lamp: dim brightness set to 1"]);
    assert_eq!(Dimmer.queues()[0].name, Some("dimmer"));
}

#[test]
fn a_read_of_the_last_term_that_comes_after_a_lost_write_of_this_one_changes_nothing() {
    let mut world = World::with_lamp(1);
    world.turn();
    world.complete(Completed::Wrote(Err(failed(NO_ANSWER))));
    world.turn();
    let found = observed(&world.lamps.objects()[&lamp()]);
    let old = world.in_flight.remove(0);
    for leading in [false, true] {
        world.event_loop.on_event(LoopEvent::Leading(leading), world.now);
    }
    assert_eq!(world.turn(), NOTHING, "the query is sent again");
    world.read();
    assert_eq!(world.turn(), [1]);
    world.arrive();
    world.complete(Completed::Wrote(Err(failed(NO_ANSWER))));
    world
        .event_loop
        .completed(old.id, Completed::Read(Ok(Some(found)), None), world.now);
    assert_eq!((world.cached(), world.freshness()), (0, Freshness::Unknown));
    world.turn();
    world.after(5 * MS);
    world.read();
    assert_eq!((world.cached(), world.freshness()), (1, Freshness::Pending));
}
