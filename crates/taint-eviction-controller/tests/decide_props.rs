//! What holds for all histories: random changes of a node's taints and a pod's tolerations, random blindness, a
//! random offset of our clock, with a judgement after each step.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{Now, Output};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use taint_eviction_controller::decide::{
    Judgement, JudgementTime, KeepReason, Rules, Sight, TaintMemory, Tolerated, Verdict, bound, judge,
    used_tolerations,
};
use taint_eviction_controller::state::State;
use taint_eviction_controller::view::{Operator, PodView, Taint, Toleration};

const RULES: Rules = Rules {
    comparison_operators: false,
    catch_up_grace: Duration::from_secs(30),
    toleration_extensions: false,
};
const KEYS: [&str; 4] = [
    "a",
    "b",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

#[derive(Clone, Debug)]
enum Change {
    Taints(Vec<Taint>),
    Tolerations(Vec<Toleration>),
    Sight(bool),
}

fn taint() -> impl Strategy<Value = Taint> {
    let time_added = prop_oneof![Just(None), (-100..200_i64).prop_map(|seconds| Some(at(seconds)))];
    (0..KEYS.len(), prop::bool::ANY, time_added).prop_map(|(key, value, time_added)| Taint {
        key: KEYS[key].into(),
        value: if value { "v" } else { "" }.into(),
        time_added,
    })
}

/// Unique by key, as the API server wants it.
fn taints() -> impl Strategy<Value = Vec<Taint>> {
    vec(taint(), 0..4).prop_map(|mut taints| {
        taints.sort_by(|a, b| a.key.cmp(&b.key));
        taints.dedup_by(|a, b| a.key == b.key);
        taints
    })
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let seconds = prop_oneof![
        2 => Just(None),
        4 => (0..120_i64).prop_map(Some),
        1 => any::<i64>().prop_map(Some),
    ];
    let operator =
        prop_oneof![3 => Just(Operator::Exists), 1 => Just(Operator::Equal), 1 => Just(Operator::Gt)];
    (0..=KEYS.len(), operator, seconds).prop_map(|(key, operator, seconds)| Toleration {
        key: KEYS.get(key).copied().unwrap_or_default().into(),
        operator,
        value: "v".into(),
        seconds,
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => taints().prop_map(Change::Taints),
        2 => vec(toleration(), 0..4).prop_map(Change::Tolerations),
        1 => prop::bool::ANY.prop_map(Change::Sight),
    ]
}

/// Changes, and how many seconds each comes after the one before.
fn history() -> impl Strategy<Value = Vec<(i64, Change)>> {
    vec((0..60_i64, change()), 1..20)
}

fn pod(tolerations: Vec<Toleration>, uid: &str) -> PodView {
    PodView {
        key: ObjectKey::namespaced("ns", "p"),
        uid: Uid::from(uid),
        node: "n".into(),
        tolerations: Arc::new(tolerations),
        bound: Some(at(-30)),
        generation: 1,
        deleting: false,
    }
}

/// One pod on one node, through a history.
struct World {
    state: TaintMemory,
    remembered: Vec<Tolerated>,
    pod: PodView,
    sight: Sight,
    seconds: i64,
}

impl World {
    fn new() -> Self {
        Self {
            state: TaintMemory::default(),
            remembered: Vec::new(),
            pod: pod(Vec::new(), "uid"),
            sight: Sight::none().regained(Timestamp::MIN),
            seconds: 0,
        }
    }

    fn apply(&mut self, wait: i64, change: Change) {
        self.seconds += wait;
        let now = at(self.seconds);
        match change {
            Change::Taints(taints) => self.state.observe(&"n".into(), &taints, now),
            Change::Tolerations(tolerations) => self.pod.tolerations = Arc::new(tolerations),
            Change::Sight(true) => self.sight = self.sight.regained(now),
            Change::Sight(false) => self.sight = self.sight.lost(now, &RULES),
        }
    }

    fn now(&self) -> JudgementTime {
        JudgementTime {
            ours: at(self.seconds),
            ahead: SignedDuration::ZERO,
            sight: self.sight,
        }
    }

    fn judgement(&self, now: &JudgementTime) -> Judgement {
        let taints = self.state.of("n");
        judge(
            &self.pod,
            bound(&self.pod, now.ours),
            &taints,
            &self.remembered,
            now,
            &RULES,
        )
    }

    fn judge(&mut self) -> Verdict {
        let Judgement { verdict, remembered } = self.judgement(&self.now());
        self.remembered = remembered;
        verdict
    }

    /// Whether each taint has a toleration, and none of those that are used ends.
    fn tolerates_for_ever(&self) -> bool {
        let used = used_tolerations(&self.pod.tolerations, &self.state.of("n"));
        used.iter()
            .all(|used| used.is_some_and(|used| used.seconds.is_none()))
    }
}

proptest! {
    #[test]
    fn the_first_toleration_that_matches_is_used(tolerations in vec(toleration(), 0..8), taints in vec(taint(), 0..8)) {
        let mut state = TaintMemory::default();
        state.observe(&"n".into(), &taints, at(0));
        let seen = state.of("n");
        let first = |taint: &Taint| tolerations.iter().find(|toleration| toleration.tolerates(taint));
        let expected: Vec<_> = taints.iter().map(first).collect();
        prop_assert_eq!(used_tolerations(&tolerations, &seen), expected);
    }

    #[test]
    fn a_pod_that_tolerates_for_ever_is_never_to_be_evicted(history in history()) {
        let mut world = World::new();
        for (wait, change) in history {
            world.apply(wait, change);
            let kept = matches!(world.judge(), Verdict::Keep(_));
            prop_assert_eq!(kept, world.tolerates_for_ever());
        }
    }

    #[test]
    fn a_taints_deadline_never_moves_later_while_it_stays(history in history()) {
        let mut world = World::new();
        for (wait, change) in history {
            let before = world.remembered.clone();
            world.apply(wait, change);
            world.judge();
            // The pod was bound at -30.
            let deadline = |kept: &Tolerated| {
                let start = kept.since.by_our_clock(SignedDuration::ZERO).max(at(-30));
                saturating_add(start, Duration::from_secs(kept.seconds.unsigned_abs()))
            };
            for kept in &world.remembered {
                let since = |kept: &Tolerated| kept.since.by_our_clock(SignedDuration::ZERO);
                // What the other taint of a failed node had replaced by the time of the binding, the pod has not met.
                let was_met = |earlier: &&Tolerated| since(kept) <= since(earlier) || at(-30) < since(kept);
                let earlier = before.iter().filter(|earlier| earlier.stay == kept.stay).filter(was_met);
                for earlier in earlier {
                    prop_assert!(deadline(kept) <= deadline(earlier), "{earlier:?} became {kept:?}");
                }
            }
        }
    }

    #[test]
    fn removing_the_taints_saves_the_pod_whatever_was_before(history in history()) {
        let mut world = World::new();
        for (wait, change) in history {
            world.apply(wait, change);
            world.judge();
        }
        world.apply(0, Change::Taints(Vec::new()));
        prop_assert_eq!(world.judge(), Verdict::Keep(KeepReason::Untainted));
    }

    #[test]
    fn judging_again_changes_nothing(history in history()) {
        let mut world = World::new();
        for (wait, change) in history {
            world.apply(wait, change);
            let verdict = world.judge();
            let remembered = world.remembered.clone();
            prop_assert_eq!(world.judge(), verdict);
            prop_assert_eq!(&world.remembered, &remembered);
        }
    }

    #[test]
    fn nothing_acts_before_its_deadline_nor_by_a_clock_that_is_known_to_be_fast(
        history in history(),
        ahead in 0..7200_i64,
    ) {
        let mut world = World::new();
        for (wait, change) in history {
            world.apply(wait, change);
            let fast = JudgementTime { ahead: SignedDuration::from_secs(ahead), ..world.now() };
            for now in [world.now(), fast] {
                if let Verdict::Evict(pending) = world.judgement(&now).verdict {
                    prop_assert!(pending.at.is_none_or(|at| at >= pending.deadline));
                }
            }
            let deadline = |verdict| match verdict {
                Verdict::Evict(pending) => Some(pending.deadline),
                Verdict::Keep(_) => None,
            };
            let (plain, shifted) = (world.judgement(&world.now()).verdict, world.judgement(&fast).verdict);
            prop_assert!(deadline(plain) <= deadline(shifted));
            world.judge();
        }
    }

    #[test]
    fn what_is_due_stays_due(history in history(), later in 0..100_000_i64) {
        let mut world = World::new();
        for (wait, change) in history {
            world.apply(wait, change);
            world.judge();
        }
        let now = world.now();
        if let Verdict::Evict(pending) = world.judgement(&now).verdict
            && pending.is_due(now.ours)
        {
            let later = JudgementTime { ours: at(world.seconds + later), ..now };
            let due = matches!(world.judgement(&later).verdict, Verdict::Evict(later_on) if later_on.is_due(later.ours));
            prop_assert!(due);
        }
    }

    #[test]
    fn a_pod_of_the_same_name_inherits_nothing(history in history(), tolerations in vec(toleration(), 0..4)) {
        let mut world = World::new();
        let mut state = State::default();
        let settle = |state: &mut State, world: &World, pod: &PodView| {
            let now = world.now();
            let remembered = state.remembered(pod);
            let judgement = judge(pod, bound(pod, now.ours), &world.state.of("n"), remembered, &now, &RULES);
            let mut out = Output::default();
            let now = Now {
                wall: now.ours,
                uptime: Duration::ZERO,
            };
            state.judged(&Arc::new(pod.clone()), judgement, now, &mut out);
            out.into_events()
        };
        for (wait, change) in history {
            world.apply(wait, change);
            settle(&mut state, &world, &world.pod);
        }
        let other = pod(tolerations, "other");
        settle(&mut state, &world, &other);
        let now = world.now();
        let alone = judge(&other, bound(&other, now.ours), &world.state.of("n"), &[], &now, &RULES);
        prop_assert_eq!(state.holds(&other.key), matches!(alone.verdict, Verdict::Evict(_)));
        if let Verdict::Evict(_) = alone.verdict {
            prop_assert_eq!(state.remembered(&other), alone.remembered);
        }
        prop_assert!(state.remembered(&world.pod).is_empty());
        // And the old one is not kept with an event when the new one stays.
        world.apply(0, Change::Taints(Vec::new()));
        prop_assert_eq!(settle(&mut state, &world, &pod(Vec::new(), "third")), []);
    }
}
