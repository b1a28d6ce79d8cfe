//! The queue for the client-side limit, for any sequence: the rate is never exceeded, no permit is lost, and no pass is
//! overtaken by a later one that has written no more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass as Answer, Denial};
use controller_core::controller::{Action, Outcome};
use parking_lot::Mutex;
use proptest::prelude::*;

use crate::rig::{MS, NOTHING, Permits, Rig, SECOND, Setup};
use crate::scripted::{Scripted, Seen, Text, writes};

const KEYS: [Text; 7] = ["k0", "k1", "k2", "k3", "k4", "k5", "k6"];
/// Four permits a second, a burst of three.
const INTERVAL: Duration = Duration::from_millis(250);
const QPS: f64 = 4.0;
const BURST: u32 = 3;

#[derive(Clone, Debug)]
enum Op {
    /// A key wants this many writes, one after the other.
    Arrive(usize, usize),
    /// A key no longer wants anything.
    Cancel(usize),
    /// One of the writes in flight is accepted.
    Accept(usize),
    Refuse(usize),
    Pass(u64),
    /// A term ends and another begins.
    NewTerm,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..KEYS.len();
    let op = prop_oneof![
        6 => (key(), 1..4_usize).prop_map(|(key, writes)| Op::Arrive(key, writes)),
        2 => key().prop_map(Op::Cancel),
        6 => (0..8_usize).prop_map(Op::Accept),
        1 => (0..8_usize).prop_map(Op::Refuse),
        6 => (1..600_u64).prop_map(Op::Pass),
        1 => Just(Op::NewTerm),
    ];
    prop::collection::vec(op, 0..80)
}

/// What happens in the loop, in order.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// `reconcile` was called for a pass, which wants to write.
    Wants(Text),
    /// `reconcile` was called for a pass for the last time.
    Ends(Text),
    /// Number of results so far.
    Result(usize),
}

#[derive(Default)]
struct Shared {
    /// The writes that each key wants, the next one first.
    wishes: BTreeMap<Text, Vec<Text>>,
    events: Vec<Event>,
}

struct World {
    rig: Rig,
    shared: Arc<Mutex<Shared>>,
    /// True if each key writes to an object of its own, so that no pass waits for an object.
    own_objects: bool,
    in_flight: Vec<(Text, Text)>,
    sent_at: Vec<Duration>,
    /// Waiting passes in order of arrival; `true` if the pass has written.
    line: Vec<(Text, bool)>,
    /// Passes whose object is busy, as a write of the last term has not ended. They join the queue when that write
    /// ends.
    blocked: Vec<(Text, bool)>,
    writers: Vec<Text>,
    result: usize,
    writes: usize,
}

fn next(shared: &Mutex<Shared>, seen: &Seen<'_>) -> Action<Scripted> {
    let mut shared = shared.lock();
    let wish = shared
        .wishes
        .get(seen.key)
        .and_then(|writes| writes.first().copied());
    let is_refused = |write: &Text| matches!(seen.outcome(write), Some(Outcome::Failed(_)));
    shared.events.push(Event::Result(seen.state.len()));
    shared.events.push(match wish {
        Some(write) if !is_refused(&write) => Event::Wants(seen.key),
        _ => Event::Ends(seen.key),
    });
    wish.map_or(Action::Done(vec![]), |write| writes([write]))
}

impl World {
    fn new(own_objects: bool) -> Self {
        let shared = Arc::<Mutex<Shared>>::default();
        let known = Arc::clone(&shared);
        let setup = Setup::workers(KEYS.len()).limit(Permits::new(QPS, BURST));
        Self {
            rig: setup.rig(move |seen| next(&known, seen)),
            shared,
            own_objects,
            in_flight: Vec::new(),
            sent_at: Vec::new(),
            line: Vec::new(),
            blocked: Vec::new(),
            writers: Vec::new(),
            result: 0,
            writes: 0,
        }
    }

    fn take(&mut self, op: &Op) {
        match *op {
            Op::Arrive(key, writes) => self.arrive(KEYS[key], writes),
            Op::Cancel(key) => drop(self.shared.lock().wishes.remove(KEYS[key])),
            Op::Accept(which) => self.end(which, true),
            Op::Refuse(which) => self.end(which, false),
            Op::Pass(time) => return self.pass(Duration::from_millis(time)),
            Op::NewTerm => {
                self.rig.lead(false);
                self.line.clear();
                self.blocked.clear();
                self.writers.clear();
                self.rig.lead(true);
                self.rig.enqueue_all(KEYS);
            }
        }
        self.turn();
    }

    fn arrive(&mut self, key: Text, writes: usize) {
        let object = if self.own_objects { key } else { &key[..1] };
        let writes = (0..writes).map(|_| {
            self.writes += 1;
            &*format!("{object}={}", self.writes).leak()
        });
        let writes: Vec<Text> = writes.collect();
        self.shared.lock().wishes.entry(key).or_default().extend(writes);
        self.rig.enqueue(key);
    }

    fn end(&mut self, which: usize, is_accepted: bool) {
        if self.in_flight.is_empty() {
            return;
        }
        let (key, write) = self.in_flight.remove(which % self.in_flight.len());
        let line = &mut self.line;
        self.blocked.retain(|pass| {
            let is_free = pass.0 == key;
            line.extend(is_free.then_some(*pass));
            !is_free
        });
        if is_accepted {
            if let Some(wishes) = self.shared.lock().wishes.get_mut(key) {
                wishes.retain(|wish| *wish != write);
            }
            self.rig.accept(write);
        } else {
            self.rig.fail(write, Answer::Forbidden(Denial::ThisObject));
        }
    }

    /// Advances time and polls the loop whenever it asks for it.
    fn pass(&mut self, time: Duration) {
        let end = self.rig.now.uptime + time;
        loop {
            let left = end.saturating_sub(self.rig.now.uptime);
            let step = self.rig.again.map_or(left, |again| again.min(left));
            let sent = self.rig.after(step);
            self.note(sent.len());
            if self.rig.now.uptime == end {
                return;
            }
        }
    }

    fn turn(&mut self) {
        let sent = self.rig.turn();
        self.note(sent.len());
    }

    /// Follows the loop's effects and checks the properties of the queue.
    fn note(&mut self, sent: usize) {
        self.sent_at
            .extend(std::iter::repeat_n(self.rig.now.uptime, sent));
        let result = self.rig.result().to_vec();
        let mut events = std::mem::take(&mut self.shared.lock().events);
        events.push(Event::Result(result.len()));
        let mut asked = "";
        for event in events {
            match event {
                Event::Wants(key) => {
                    asked = key;
                    let pass = (key, self.writers.contains(&key));
                    if self.in_flight.iter().any(|(writer, _)| *writer == key) {
                        self.line.retain(|waiting| *waiting != pass);
                        self.blocked.push(pass);
                    } else if !self.line.contains(&pass) {
                        self.line.push(pass);
                    }
                }
                Event::Ends(key) => {
                    self.line.retain(|(waiting, _)| *waiting != key);
                    self.writers.retain(|writer| *writer != key);
                }
                Event::Result(count) => {
                    for text in &result[self.result..count] {
                        if let Some(write) = text.strip_prefix("writes ") {
                            self.was_sent(asked, write);
                        }
                    }
                    self.result = count;
                }
            }
        }
        assert_eq!(
            self.rig.limit.taken.get(),
            self.sent_at.len(),
            "as many permits as requests"
        );
    }

    fn was_sent(&mut self, key: Text, write: &str) {
        let place = self.line.iter().position(|(waiting, _)| *waiting == key).unwrap();
        let (_, has_written) = self.line.remove(place);
        let shared = self.shared.lock();
        let wants = |key: Text| shared.wishes.get(key).is_some_and(|writes| !writes.is_empty());
        if self.own_objects {
            // Passes that have sent several writes wait in a separate rank.
            let ahead = |(at, (other, began)): (usize, &(Text, bool))| {
                wants(other) && !began && !has_written && at < place
            };
            assert!(
                !self.line.iter().enumerate().any(ahead),
                "{key} overtook one of {:?}",
                self.line
            );
        }
        let write = shared.wishes[key].iter().find(|wish| **wish == write).unwrap();
        self.in_flight.push((key, write));
        self.writers.push(key);
    }

    /// In no period are there more requests than tokens in the bucket.
    fn assert_rate(&self) {
        for (first, from) in self.sent_at.iter().enumerate() {
            // Starts at the first request that the burst does not cover.
            for (beyond, until) in (1..).zip(self.sent_at[first..].iter().skip(BURST as usize)) {
                let took = until.saturating_sub(*from);
                assert!(
                    took >= INTERVAL * beyond,
                    "{beyond} more than the burst in {took:?}"
                );
            }
        }
    }

    /// Once no key wants anything, all permits are back in the bucket after the time to fill it.
    fn assert_full(&mut self) {
        self.shared.lock().wishes.clear();
        self.turn();
        while !self.in_flight.is_empty() {
            self.end(0, true);
            self.turn();
        }
        self.pass(INTERVAL * BURST);
        for key in &KEYS[..=BURST as usize] {
            self.arrive(key, 1);
        }
        let before = self.sent_at.len();
        self.turn();
        let burst = if self.own_objects { BURST as usize } else { 1 };
        assert_eq!(self.sent_at.len() - before, burst);
    }
}

fn run(own_objects: bool, ops: &[Op]) {
    let mut world = World::new(own_objects);
    for op in ops {
        world.take(op);
    }
    world.assert_full();
    world.assert_rate();
}

/// Everything that each key wants, side by side.
fn at_once(wishes: &[(Text, &[Text])], permits: Permits) -> Rig {
    let known: BTreeMap<_, _> = wishes.iter().map(|(key, all)| (*key, all.to_vec())).collect();
    let mut rig = Setup::workers(9).limit(permits).rig(move |seen| {
        let open = known[seen.key].iter().copied();
        let open: Vec<_> = open.filter(|write| !seen.is_accepted(write)).collect();
        if open.is_empty() {
            Action::Done(vec![])
        } else {
            writes(open)
        }
    });
    rig.enqueue_all(wishes.iter().map(|(key, _)| *key));
    rig
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn the_rate_is_kept_no_permit_is_lost_and_nobody_is_overtaken(ops in ops()) {
        run(true, &ops);
    }

    #[test]
    fn the_rate_is_kept_and_no_permit_is_lost_where_all_write_to_one_object(ops in ops()) {
        run(false, &ops);
    }

    /// Passes that write several objects side by side, few permits, and answers in any order.
    #[test]
    fn nothing_is_left_of_passes_that_share_objects(
        wishes in prop::collection::vec(prop::sample::subsequence(vec!["w", "x", "y", "z"], 1..=4), 2..6),
        steps in prop::collection::vec(prop_oneof![(0..8_usize).prop_map(Ok), (1..1_500_u64).prop_map(Err)], 0..60),
    ) {
        const KEYS: [Text; 5] = ["k0", "k1", "k2", "k3", "k4"];
        let writes = |key: usize, objects: &[Text]| -> Vec<Text> {
            objects.iter().map(|object| &*format!("{object}={key}").leak()).collect()
        };
        let writes: Vec<_> = wishes.iter().enumerate().map(|(key, objects)| writes(key, objects)).collect();
        let wishes: Vec<_> = KEYS.into_iter().zip(writes.iter().map(Vec::as_slice)).collect();
        let mut rig = at_once(&wishes, Permits::new(1.0, 2));
        rig.turn();
        let end = (0..100).flat_map(|_| [Ok(0), Err(1_000)]);
        for step in steps.into_iter().chain(end) {
            match step {
                Ok(which) => {
                    let writes = rig.waited();
                    if !writes.is_empty() {
                        rig.accepted(writes[which % writes.len()].0);
                    }
                }
                Err(millis) => drop(rig.after(Duration::from_millis(millis))),
            }
        }
        prop_assert_eq!(rig.event_loop.held(), 0);
    }
}

#[test]
fn an_object_that_is_kept_for_a_pass_without_a_permit_is_not_lost_when_another_becomes_free() {
    let mut rig = at_once(
        &[("a", &["x=1", "y=1"]), ("b", &["x=2", "y=2"])],
        Permits::new(1.0, 2),
    );
    assert_eq!(rig.turn(), ["a writes x=1", "a writes y=1"]);
    assert_eq!(rig.accepted("y=1"), NOTHING);
    assert_eq!(rig.accepted("x=1"), NOTHING);
    assert_eq!(rig.after(SECOND), ["b writes x=2"]);
    assert_eq!(rig.after(SECOND), ["b writes y=2"]);
    rig.accept("x=2");
    assert_eq!(rig.accepted("y=2"), NOTHING);
    assert_eq!(rig.event_loop.held(), 0);
}

#[test]
fn every_pass_that_waits_is_served_in_the_end() {
    let mut world = World::new(true);
    for key in 0..KEYS.len() {
        world.take(&Op::Arrive(key, 3));
    }
    for _ in 0..KEYS.len() * 3 {
        world.take(&Op::Accept(0));
        world.pass(INTERVAL + MS);
    }
    assert_eq!(world.rig.event_loop.held(), 0);
    assert_eq!(world.sent_at.len(), KEYS.len() * 3);
    world.assert_rate();
}
