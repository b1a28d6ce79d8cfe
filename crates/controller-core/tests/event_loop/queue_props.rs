//! Any sequence of requeues, passes and waits follows client-go's contract (CORE-1, CORE-2), modelled in the simplest
//! way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use controller_core::controller::{Action, Requeue};
use controller_core::time::saturating_add;
use controller_testing::sim::START;
use proptest::prelude::*;

use crate::rig::{Rig, SECOND, Setup};
use crate::scripted::{Text, writes};

const KEYS: [Text; 4] = ["a", "b", "c", "d"];
const WORKERS: usize = 2;

#[derive(Clone, Debug)]
enum Op {
    Now(Text),
    Reset(Text),
    Within(Text, u64),
    At(Text, u64),
    Never(Text),
    /// Ends the pass at this index.
    End(usize),
    /// Advances time by this many seconds.
    Pass(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || prop::sample::select(&KEYS[..]);
    let op = prop_oneof![
        3 => key().prop_map(Op::Now),
        1 => key().prop_map(Op::Reset),
        2 => (key(), 1..8_u64).prop_map(|(key, wait)| Op::Within(key, wait)),
        2 => (key(), 0..30_u64).prop_map(|(key, at)| Op::At(key, at)),
        1 => key().prop_map(Op::Never),
        4 => (0..WORKERS).prop_map(Op::End),
        3 => (1..4_u64).prop_map(Op::Pass),
    ];
    prop::collection::vec(op, 0..120)
}

#[derive(Default)]
struct Model {
    /// Seconds since the start.
    now: u64,
    ready: VecDeque<Text>,
    dirty: BTreeSet<Text>,
    passes: Vec<Text>,
    /// Passes that began in this second and therefore hold workers.
    busy: BTreeSet<Text>,
    delays: BTreeMap<Text, u64>,
    times: BTreeMap<Text, u64>,
    /// Times set during the pass of their key.
    after: BTreeMap<Text, u64>,
}

impl Model {
    fn add(&mut self, key: Text) {
        if self.dirty.insert(key) && !self.passes.contains(&key) {
            self.ready.push_back(key);
        }
    }

    /// Adds the delays that are due, then the times that are due, earliest first.
    fn add_due(&mut self) {
        let now = self.now;
        let mut due = Vec::new();
        for times in [&mut self.delays, &mut self.times] {
            let mut these: Vec<_> = times.iter().map(|(key, at)| (*at, *key)).collect();
            these.retain(|(at, _)| *at <= now);
            these.sort_unstable();
            times.retain(|_, at| *at > now);
            due.extend(these);
        }
        for (_, key) in due {
            self.add(key);
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Now(key) => {
                self.add_due();
                self.add(key);
            }
            Op::Reset(key) => {
                self.delays.remove(key);
                self.add_due();
                self.add(key);
            }
            Op::Within(key, wait) => {
                let at = self.now + wait;
                let known = self.delays.entry(key).or_insert(at);
                *known = at.min(*known);
            }
            Op::At(key, at) if self.passes.contains(&key) => {
                self.times.remove(key);
                self.after.insert(key, at);
            }
            Op::At(key, at) => {
                self.times.insert(key, at);
            }
            Op::Never(key) => {
                for times in [&mut self.delays, &mut self.times, &mut self.after] {
                    times.remove(key);
                }
            }
            Op::End(place) => {
                let key = self.passes.remove(place);
                self.busy.remove(key);
                self.times.extend(self.after.remove_entry(key));
                if self.dirty.contains(key) {
                    self.ready.push_back(key);
                }
            }
            Op::Pass(_) => {
                self.now += 1;
                self.busy.clear();
            }
        }
    }

    fn turn(&mut self) -> Vec<String> {
        let mut begun = Vec::new();
        self.add_due();
        while self.busy.len() < WORKERS
            && let Some(key) = self.ready.pop_front()
        {
            self.dirty.remove(key);
            self.busy.insert(key);
            self.passes.push(key);
            begun.push(format!("{key} writes {key}"));
        }
        begun
    }
}

/// A pass lasts until its write is accepted.
fn rig() -> Rig {
    Setup::workers(WORKERS).rig(|seen| {
        if seen.is_accepted(seen.key) {
            Action::Done(vec![])
        } else {
            writes([seen.key])
        }
    })
}

fn apply(rig: &mut Rig, model: &mut Model, op: &Op) {
    match *op {
        Op::Now(key) => rig.enqueue(key),
        Op::Reset(key) => rig.requeue_at(key, Requeue::Reset),
        Op::Within(key, wait) => rig.requeue_at(key, Requeue::After(Duration::from_secs(wait))),
        Op::At(key, at) => {
            rig.requeue_at(key, Requeue::At(saturating_add(START, Duration::from_secs(at))));
        }
        Op::Never(key) => rig.requeue_at(key, Requeue::Cancel),
        Op::End(place) => match model.passes.get(place) {
            Some(key) => rig.accept(key),
            None => return,
        },
        Op::Pass(seconds) => {
            for _ in 0..seconds {
                let begun = rig.after(SECOND);
                model.apply(op);
                assert_eq!(begun, model.turn());
            }
            return;
        }
    }
    model.apply(op);
    assert_eq!(rig.turn(), model.turn());
}

proptest! {
    #[test]
    fn any_sequence_of_calls_does_what_the_contract_says(ops in ops()) {
        let (mut rig, mut model) = (rig(), Model::default());
        for op in &ops {
            apply(&mut rig, &mut model, op);
            prop_assert_eq!(rig.event_loop.waiting_keys(), Vec::from(model.ready.clone()));
        }
    }
}
