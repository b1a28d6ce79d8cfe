//! One process, to which nothing bad happens: after each step, its schedule is what the ledger says, by hand.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{Loop, LoopEvent, Notification, Now};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use controller_testing::past::{at, millis};
use controller_testing::sim::{Model, NOW, Unlimited, Watch};
use proptest::collection::vec;
use proptest::prelude::*;
use taint_eviction_controller::TaintEvictionController;
use taint_eviction_controller::events::Event;
use taint_eviction_controller::state::Key;

use super::acts::{Act, any_action};
use super::world::Cluster;
use crate::ledger::{Eyes, GRACE};

#[derive(Clone, Debug)]
pub(super) enum Step {
    Act(Act),
    /// The act is first shown by a list.
    Listed(Act),
    Pass(Duration),
    /// The watch of nodes is broken for this long.
    Blind(Duration),
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let seconds = |most: u64| (0..most).prop_map(Duration::from_secs);
    let millis = (1..5_000_u64).prop_map(Duration::from_millis);
    let steps = prop_oneof![
        8 => any_action().prop_map(Step::Act),
        2 => any_action().prop_map(Step::Listed),
        2 => millis.prop_map(Step::Pass),
        2 => seconds(60).prop_map(Step::Pass),
        1 => seconds(90).prop_map(Step::Blind),
    ];
    vec(steps, 1..60)
}

/// A process whose clock is ahead by this much, which leads.
struct Single {
    cluster: Cluster,
    event_loop: Loop<TaintEvictionController>,
    /// By the API server's clock.
    now: Now,
    ahead: Duration,
    /// Since when it sees nodes again.
    sees_since: Option<i64>,
    /// The pods that it must evict.
    held: BTreeMap<ObjectKey, Uid>,
}

/// Takes `steps`, and judges each.
pub(super) fn run(ahead: Duration, steps: &[Step]) {
    let mut cluster = Cluster::new();
    cluster.shows_all = true;
    let event_loop = Loop::new(Arc::new(cluster.controller()), iter::repeat_with(|| None), false);
    let mut single = Single {
        cluster,
        event_loop,
        now: NOW,
        ahead,
        sees_since: None,
        held: BTreeMap::new(),
    };
    let now = single.process_now();
    for (name, watch) in single.cluster.watches() {
        watch.restart();
        watch.deliver(&mut single.event_loop, now);
        single.event_loop.on_event(LoopEvent::Watching(name, true), now);
    }
    single.event_loop.on_event(LoopEvent::Synced, now);
    single.event_loop.on_event(LoopEvent::Leading(true), now);
    for step in steps {
        match step {
            Step::Act(act) | Step::Listed(act) => {
                single.pass(Duration::from_millis(1));
                single.cluster.act(act, single.now);
            }
            Step::Pass(time) => single.pass(*time),
            Step::Blind(time) => single.blind(*time),
        }
        if let Step::Listed(_) = step {
            let now = single.process_now();
            for (_, watch) in single.cluster.watches() {
                watch.begin_list(&mut single.event_loop, now);
            }
        }
        single.turn();
        single.judge();
    }
}

impl Single {
    fn process_now(&self) -> Now {
        Now {
            wall: saturating_add(self.now.wall, self.ahead),
            ..self.now
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now.uptime += time;
        self.now.wall = saturating_add(self.now.wall, time);
    }

    fn blind(&mut self, time: Duration) {
        let now = self.process_now();
        self.cluster.nodes.begin_list(&mut self.event_loop, now);
        self.event_loop.on_event(LoopEvent::Watching("nodes", false), now);
        self.pass(time);
        let now = self.process_now();
        self.poll();
        self.cluster.nodes.deliver(&mut self.event_loop, now);
        self.event_loop.on_event(LoopEvent::Watching("nodes", true), now);
        self.sees_since = Some(millis(self.now.uptime));
    }

    /// Does what is due, and answers it; returns whether there was anything.
    fn poll(&mut self) -> (bool, Vec<Notification<TaintEvictionController>>) {
        let now = self.process_now();
        let polled = self.event_loop.poll(now, &Unlimited);
        let goes_on = !polled.effects.is_empty() || polled.again == Some(Duration::ZERO);
        for effect in polled.effects {
            let completed = self.cluster.arrive(&effect.ask, self.now);
            self.event_loop.completed(effect.id, completed, now);
        }
        (goes_on, polled.told)
    }

    /// Shows everything, and answers everything.
    fn turn(&mut self) {
        let mut kept = Vec::new();
        loop {
            let now = self.process_now();
            let watches = self.cluster.watches();
            let shown = watches
                .into_iter()
                .filter_map(|(_, watch)| watch.deliver(&mut self.event_loop, now).then_some(()));
            let shown = shown.count() > 0;
            let (goes_on, told) = self.poll();
            kept.extend(told.into_iter().filter_map(|told| match told {
                Notification::Event(Event::Kept(pod, _)) => Some(pod.uid.clone()),
                _ => None,
            }));
            if !shown && !goes_on {
                break;
            }
        }
        let pods = self.cluster.pods.objects();
        let there = pods.iter().filter(|(_, pod)| !pod.view.deleting);
        let there: BTreeMap<_, _> = there.map(|(key, pod)| (key.clone(), pod.uid.clone())).collect();
        let is_held = |key: &ObjectKey| self.event_loop.state().holds(key);
        let saved = { self.held.iter() }.filter(|(key, uid)| there.get(*key) == Some(uid) && !is_held(key));
        let saved: Vec<_> = saved.map(|(_, uid)| uid.clone()).collect();
        assert_eq!(kept, saved, "others are kept, with an event");
        self.held = there.into_iter().filter(|(key, _)| is_held(key)).collect();
    }

    /// Fails unless each pod that is there is scheduled for the time at which it must go.
    fn judge(&self) {
        assert_eq!(self.cluster.wrong, None);
        if !self.ahead.is_zero() {
            return;
        }
        let (ledger, now) = (&self.cluster.ledger, millis(self.now.uptime));
        for past in { ledger.pods.0.iter() }.filter(|past| past.until.is_none() && self.cluster.stays(past)) {
            let due = ledger.earliest(past, now + 1, Eyes::SOUND);
            let key = ObjectKey::namespaced("ns", &*past.name);
            assert_eq!(
                self.held.contains_key(&key),
                due.is_some(),
                "{past:?}, due at {due:?}"
            );
            let scheduled = self.event_loop.scheduled_at(&Key::Evict(key));
            // Which of two taints of a failed node a pod met that was bound later, the controller guesses by their times.
            let both = ledger.stays.iter().filter(|stay| {
                let is_there = stay.from <= past.from() && stay.lasts_to(past.from());
                stay.node == past.last().node && stay.tells_of_failure() && is_there
            });
            if both.count() > 1 {
                continue;
            }
            // What ended unseen has a grace.
            let graced = due.map(|due| self.sees_since.map_or(due, |since| due.max(since + GRACE)));
            assert!(
                graced.is_none_or(|due| due > now),
                "{past:?} lives at {now}, due at {due:?}"
            );
            assert!(
                scheduled >= due.map(at) && scheduled <= graced.map(at),
                "{past:?} goes at {scheduled:?}, due at {due:?}"
            );
        }
    }
}
