//! Which changes wake what.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use controller_core::controller::{Controller, Loop, LoopEvent};
use controller_core::meta::{ObjectKey, Uid};
use controller_testing::sim::{NOW, NoPermits, START, SimResource, Watch};
use prometheus::Registry;
use ttl_after_finished_controller::config::Config;
use ttl_after_finished_controller::state::Key;
use ttl_after_finished_controller::view::{Finish, JobView};
use ttl_after_finished_controller::{Stores, TtlAfterFinishedController};

/// A controller and the API server's Jobs.
struct World {
    jobs: SimResource<TtlAfterFinishedController, JobView>,
    event_loop: Loop<TtlAfterFinishedController>,
}

impl World {
    fn leading() -> Self {
        let mut jobs = SimResource::new(|stores: &mut Stores| &mut stores.jobs);
        let controller = TtlAfterFinishedController::new(&Config::default(), &Registry::new()).unwrap();
        jobs.restart();
        let event_loop = Loop::new(Arc::new(controller), [None], false);
        let mut world = Self { jobs, event_loop };
        world.jobs.deliver(&mut world.event_loop, NOW);
        world.event_loop.on_event(LoopEvent::Synced, NOW);
        world.event_loop.on_event(LoopEvent::Leading(true), NOW);
        world
    }

    /// The watch tells of a finished Job with this ttl.
    fn tell(&mut self, ttl_seconds: i32) {
        let uid = Uid::from("uid");
        let job = JobView {
            key: key(),
            uid: uid.clone(),
            version: "1".into(),
            ttl_seconds: Some(ttl_seconds),
            finish: Some(Finish::At(START)),
            deleting: false,
        };
        self.jobs.put(job, uid);
        self.jobs.deliver(&mut self.event_loop, NOW);
    }

    /// What is woken is judged: a Job that waits needs no request.
    fn judge(&mut self) {
        self.event_loop.poll(NOW, &NoPermits);
    }

    /// Whether the Job must be judged, and how many Jobs wait for their expiry.
    fn enqueued(&self) -> (bool, usize) {
        (
            self.event_loop.is_queued(&Key::job(key()), NOW),
            self.event_loop.scheduled(0),
        )
    }
}

fn key() -> ObjectKey {
    ObjectKey::namespaced("ns", "job")
}

#[test]
fn a_new_job_is_judged() {
    let mut world = World::leading();
    world.tell(1);
    assert_eq!(world.enqueued(), (true, 0));
    world.judge();
    assert_eq!(world.enqueued(), (false, 1));
}

#[test]
fn a_changed_job_is_judged() {
    let mut world = World::leading();
    world.tell(1);
    world.judge();
    world.tell(2);
    assert_eq!(world.enqueued(), (true, 0));
}

#[test]
fn a_job_that_is_gone_or_has_no_ttl_any_more_is_forgotten() {
    let mut world = World::leading();
    world.tell(1);
    world.judge();
    world.jobs.delete(&key());
    world.jobs.deliver(&mut world.event_loop, NOW);
    assert_eq!(world.enqueued(), (false, 0));
    assert_eq!(world.event_loop.held(), 0);
}

#[test]
fn a_standby_waits_for_no_job() {
    let mut world = World::leading();
    world.tell(1);
    world.judge();
    world.event_loop.on_event(LoopEvent::Leading(false), NOW);
    assert_eq!(world.enqueued(), (false, 0));
    world.tell(2);
    assert_eq!(world.enqueued(), (false, 0));
    world.event_loop.on_event(LoopEvent::Leading(true), NOW);
    assert_eq!(world.enqueued(), (true, 0));
}

#[test]
fn the_namespaces_of_jobs_take_turns() {
    let controller = TtlAfterFinishedController::new(&Config::default(), &Registry::new()).unwrap();
    let job = Key::job(ObjectKey::namespaced("team", "job"));
    assert_eq!(controller.namespace_of(&job), Some("team"));
}
