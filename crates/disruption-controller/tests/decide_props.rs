//! What holds whatever happens, in which order, and when.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{ContextMut, Controller, Now, Output, Priority, ResultOf};
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use controller_testing::sim::decoded;
use disruption_controller::config::Config;
use disruption_controller::decide::{
    Builtin, Cause, Decision, Demand, MOST_READS, Owned, OwnerRules, Scale, Scales, decide, demand, scale_of,
};
use disruption_controller::reconcile::StateChange;
use disruption_controller::scales::Sources;
use disruption_controller::state::{Basis, ExpectedBy, Key, State};
use disruption_controller::view::{PdbView, PdbWire, PodView, PodWire, WorkloadView};
use disruption_controller::{DisruptionController, Stores};
use jiff::{SignedDuration, Timestamp};
use prometheus::Registry;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

const PODS: usize = 8;
const BUDGETS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    PutPod(usize, Pod),
    /// The same name, another uid.
    ReplacePod(usize, Pod),
    DeletePod(usize),
    PutPdb(usize, Pdb),
    DeletePdb(usize),
    /// The API server approves an eviction.
    Evict(usize, usize),
    Scale(usize, i64),
    Pass(i64),
    /// Our loop computes a budget and writes its status.
    Compute(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Pod {
    app: Option<&'static str>,
    ready: bool,
    deleting: bool,
    /// 0 and 1 are `ReplicaSets`, 2 and 3 those of a Deployment, 4 is gone.
    owner: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
struct Pdb {
    selector: Selects,
    field: &'static str,
    amount: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Selects {
    Nothing,
    All,
    Web,
    WebOrDb,
    /// Web, by more values than an index has.
    WebOrMany,
    NotDb,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    Pods(i64),
    Percent(i64),
}

fn pod() -> impl Strategy<Value = Pod> {
    let app = prop_oneof![3 => Just(Some("web")), 1 => Just(Some("db")), 1 => Just(None)];
    let owner = prop_oneof![1 => Just(None), 8 => (0..4_usize).prop_map(Some), 1 => Just(Some(4))];
    let deleting = prop::bool::weighted(0.2);
    (app, prop::bool::weighted(0.7), deleting, owner).prop_map(|(app, ready, deleting, owner)| Pod {
        app,
        ready,
        deleting,
        owner,
    })
}

fn pdb() -> impl Strategy<Value = Pdb> {
    let selector = prop_oneof![
        1 => Just(Selects::Nothing), 2 => Just(Selects::All), 4 => Just(Selects::Web),
        2 => Just(Selects::WebOrDb), 2 => Just(Selects::WebOrMany), 2 => Just(Selects::NotDb),
    ];
    let amount = prop_oneof![
        (0..6_i64).prop_map(Amount::Pods),
        (0..=100_i64).prop_map(Amount::Percent),
    ];
    let field = prop_oneof![Just("minAvailable"), Just("maxUnavailable")];
    (selector, field, amount).prop_map(|(selector, field, amount)| Pdb {
        selector,
        field,
        amount,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..PODS, pod()).prop_map(|(name, pod)| Step::PutPod(name, pod)),
        1 => (0..PODS, pod()).prop_map(|(name, pod)| Step::ReplacePod(name, pod)),
        1 => (0..PODS).prop_map(Step::DeletePod),
        2 => (0..BUDGETS, pdb()).prop_map(|(name, pdb)| Step::PutPdb(name, pdb)),
        1 => (0..BUDGETS).prop_map(Step::DeletePdb),
        2 => (0..BUDGETS, 0..PODS).prop_map(|(pdb, pod)| Step::Evict(pdb, pod)),
        1 => (0..3_usize, -2..12_i64).prop_map(|(workload, replicas)| Step::Scale(workload, replicas)),
        1 => (0..90_i64).prop_map(Step::Pass),
        3 => (0..BUDGETS).prop_map(Step::Compute),
    ]
}

impl Selects {
    fn wire(self) -> Value {
        match self {
            Self::Nothing => Value::Null,
            Self::All => json!({}),
            Self::Web => json!({ "matchLabels": { "app": "web" } }),
            Self::WebOrDb => {
                json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["db", "web"] }] })
            }
            Self::WebOrMany => {
                let many = (0..20).map(|number| format!("zz-{number}"));
                let values: Vec<_> = many.chain(["web".to_owned()]).collect();
                json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": values }] })
            }
            Self::NotDb => {
                json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": ["db"] }] })
            }
        }
    }

    fn selects(self, app: Option<&str>) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Web | Self::WebOrMany => app == Some("web"),
            Self::WebOrDb => app.is_some(),
            Self::NotDb => app != Some("db"),
        }
    }
}

/// The objects as the API server has them, and the loop's memory beside it.
struct World {
    state: State,
    pods: BTreeMap<usize, (Pod, u64)>,
    /// When the pods were created, by uid.
    created: BTreeMap<u64, Timestamp>,
    pdbs: BTreeMap<usize, Held>,
    /// Of the two `ReplicaSets` and of the Deployment.
    replicas: [i64; 3],
    last: u64,
    now: Timestamp,
}

#[derive(Clone)]
struct Held {
    spec: Pdb,
    view: Arc<PdbView>,
    /// Entries: when they were approved, and whom the loop's store had under that name when it saw them.
    entries: BTreeMap<usize, (Timestamp, Option<u64>)>,
}

fn pod_key(name: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("p{name}"))
}

fn pdb_key(name: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("b{name}"))
}

impl World {
    fn new() -> Self {
        Self {
            state: State::default(),
            pods: BTreeMap::new(),
            created: BTreeMap::new(),
            pdbs: BTreeMap::new(),
            replicas: [3, 2, 4],
            last: 0,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn pod_view(&self, name: usize, pod: Pod, uid: u64) -> Arc<PodView> {
        let owner = pod.owner.map(|owner| {
            json!([{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("rs{owner}"),
                "uid": format!("rs{owner}"), "controller": true,
            }])
        });
        let mut object = json!({
            "metadata": { "namespace": "ns", "name": format!("p{name}"), "uid": uid.to_string(),
                "creationTimestamp": self.created[&uid].to_string(),
                "labels": pod.app.map(|app| json!({ "app": app })), "ownerReferences": owner },
            "status": { "conditions": [{ "type": "Ready", "status": if pod.ready { "True" } else { "False" } }] },
        });
        if pod.deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Arc::new(decoded::<PodWire>(&object))
    }

    fn pdb_view(&mut self, name: usize, spec: &Pdb) -> PdbView {
        let version = self.next();
        let amount = match spec.amount {
            Amount::Pods(pods) => json!(pods),
            Amount::Percent(percent) => json!(format!("{percent}%")),
        };
        decoded::<PdbWire>(&json!({
            "metadata": { "namespace": "ns", "name": format!("b{name}"), "uid": format!("b{name}"),
                "resourceVersion": version.to_string(), "generation": version },
            "spec": { "selector": spec.selector.wire(), spec.field: amount },
        }))
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::PutPod(name, pod) => {
                let known = self.pods.get(name).map(|(_, uid)| *uid);
                let uid = known.unwrap_or_else(|| self.next());
                self.put_pod(*name, *pod, uid);
            }
            Step::ReplacePod(name, pod) => {
                let uid = self.next();
                self.put_pod(*name, *pod, uid);
            }
            Step::DeletePod(name) => {
                self.pods.remove(name);
                self.state.pod_changed(&pod_key(*name), None, Duration::ZERO);
            }
            Step::PutPdb(name, spec) => {
                let mut view = self.pdb_view(*name, spec);
                let known = self.pdbs.get(name);
                let entries = known.map(|held| {
                    view.status = held.view.status.clone();
                    // Another selector, another index: whom the entries are about is looked up anew.
                    let anew = held.spec.selector != spec.selector;
                    let pods = &self.pods;
                    let entries = held.entries.iter().map(|(pod, (since, seen))| {
                        let now = pods.get(pod).map(|(_, uid)| *uid);
                        (*pod, (*since, if anew { now } else { *seen }))
                    });
                    entries.collect()
                });
                self.put_pdb(*name, spec.clone(), view, entries.unwrap_or_default());
            }
            Step::DeletePdb(name) => {
                self.pdbs.remove(name);
                self.state.pdb_changed(&pdb_key(*name), None, false);
            }
            Step::Evict(name, pod) => self.evict(*name, *pod),
            Step::Scale(workload, replicas) => {
                self.replicas[*workload] = *replicas;
                // The two ReplicaSets of the Deployment follow it.
                let sets: &[usize] = [&[0][..], &[1], &[2, 3]][*workload];
                for set in sets {
                    let uid = Uid::from(&*format!("rs{set}"));
                    self.state.scale_changed(Some(&"ns".into()), &uid);
                }
            }
            Step::Pass(seconds) => {
                self.now = self.now.checked_add(SignedDuration::from_secs(*seconds)).unwrap();
            }
            Step::Compute(name) => self.compute(*name),
        }
    }

    fn put_pod(&mut self, name: usize, pod: Pod, uid: u64) {
        self.pods.insert(name, (pod, uid));
        self.created.entry(uid).or_insert(self.now);
        for held in self.pdbs.values_mut() {
            if let Some((_, seen @ None)) = held.entries.get_mut(&name)
                && held.spec.selector.selects(pod.app)
            {
                *seen = Some(uid);
            }
        }
        let view = self.pod_view(name, pod, uid);
        self.state.pod_changed(&view.key, Some(&view), Duration::ZERO);
    }

    fn put_pdb(
        &mut self,
        name: usize,
        spec: Pdb,
        view: PdbView,
        entries: BTreeMap<usize, (Timestamp, Option<u64>)>,
    ) {
        let view = Arc::new(view);
        self.state.pdb_changed(&view.key, Some(&view), false);
        self.pdbs.insert(name, Held { spec, view, entries });
    }

    fn evict(&mut self, name: usize, pod: usize) {
        let version = self.next().to_string();
        let (seen, now) = (self.pods.get(&pod).map(|(_, uid)| *uid), self.now);
        let Some(held) = self.pdbs.get(&name).cloned() else {
            return;
        };
        let mut view = (*held.view).clone();
        view.version = version.into();
        view.status.disruptions_allowed = (view.status.disruptions_allowed - 1).max(0);
        let pod_name: Arc<str> = format!("p{pod}").into();
        let known = view.status.disrupted_pods.insert(pod_name, now);
        let mut entries = held.entries;
        if known != Some(now) {
            entries.insert(pod, (now, seen));
        }
        self.put_pdb(name, held.spec, view, entries);
    }

    fn compute(&mut self, name: usize) {
        let Some(decision) = self.decide(name) else { return };
        let by = ExpectedBy::of(demand(&self.pdbs[&name].view).ok(), &Scales::default());
        self.note(&StateChange::Basis(pdb_key(name), Basis::of(&decision, by)));
        let Some(write) = &decision.plan else {
            return;
        };
        let held = self.pdbs[&name].clone();
        let mut view = (*held.view).clone();
        view.version = self.next().to_string().into();
        view.status.observed_generation = write.condition.observed_generation;
        view.status.disruptions_allowed = write.allowed();
        view.status.current_healthy = write.current.into();
        if let Some(numbers) = write.numbers {
            view.status.desired_healthy = numbers.desired.into();
            view.status.expected_pods = numbers.expected.into();
        }
        let mut entries = held.entries;
        for dropped in &write.dropped {
            view.status.disrupted_pods.remove(dropped);
            entries.remove(&dropped[1..].parse().unwrap());
        }
        view.status.condition = Some(write.condition.clone());
        self.put_pdb(name, held.spec, view, entries);
    }

    fn note(&mut self, note: &StateChange) {
        let now = Now {
            wall: self.now,
            uptime: Duration::ZERO,
        };
        let (state, stores) = (&mut self.state, &Stores::default());
        let mut cx = ContextMut {
            state,
            stores,
            leading: true,
            now,
            out: Output::default(),
        };
        let key = Key::Budget(pdb_key(0));
        controller().on_result(&mut cx, &key, ResultOf::Remembered(note.clone()));
    }

    fn scale(&self, owner: &Arc<OwnerRef>) -> Scale {
        let held = |kind: Builtin, name: &str| {
            let (replicas, deployment) = match (kind, name) {
                (Builtin::ReplicaSet, "rs0") => (self.replicas[0], false),
                (Builtin::ReplicaSet, "rs1") => (self.replicas[1], false),
                (Builtin::ReplicaSet, "rs2" | "rs3") => (100, true),
                (Builtin::Deployment, "d") => (self.replicas[2], false),
                _ => return None,
            };
            let above = OwnerRef {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                name: "d".into(),
                uid: Uid::from("d"),
                controller: true,
            };
            Some(Arc::new(WorkloadView {
                key: ObjectKey::namespaced("ns", name),
                uid: Uid::from(name),
                replicas,
                controller: deployment.then(|| Arc::new(above)),
            }))
        };
        scale_of(owner, held, |_| Err(())).unwrap_or(Scale::Gone)
    }

    /// What our loop would do.
    fn decide_at(&self, name: usize, now: Timestamp) -> Option<Decision> {
        let key = pdb_key(name);
        let snapshot = self.state.snapshot(&key)?;
        let mut scales = Scales::default();
        if demand(&snapshot.pdb).is_ok_and(Demand::needs_scales) {
            for controller in snapshot.counts.controllers.keys() {
                scales.insert(Arc::clone(controller), self.scale(controller));
            }
        }
        Some(decide(
            &snapshot,
            &scales,
            |owners| self.state.smallest_pod(&key, owners),
            now,
        ))
    }

    fn decide(&self, name: usize) -> Option<Decision> {
        self.decide_at(name, self.now)
    }

    /// How urgent the budget is, and how urgent it must be: last only where the API server refuses the eviction of each
    /// of its pods anyway, first where it believes that more is allowed than is.
    fn priorities(&self, name: usize) -> (Priority, Priority) {
        let found = controller().priority(&self.state, &Stores::default(), &Key::Budget(pdb_key(name)));
        let selected_by = |pdb: &Held, pod: &Pod| pdb.spec.selector.selects(pod.app);
        let held = &self.pdbs[&name];
        let mut pods = self
            .pods
            .values()
            .filter(|(pod, _)| selected_by(held, pod))
            .peekable();
        let has_others =
            |(pod, _): &(Pod, u64)| self.pdbs.values().filter(|pdb| selected_by(pdb, pod)).count() > 1;
        let believed = held.view.status.disruptions_allowed;
        let least = match self.by_hand(name) {
            _ if pods.peek().is_some() && pods.all(has_others) => Priority::Low,
            numbers if numbers.map_or(0, |[allowed, ..]| allowed) < believed => Priority::High,
            _ => Priority::Normal,
        };
        (found, least)
    }

    /// What the objects say, counted by hand: allowed, current, desired, expected; nothing where a controller is gone.
    fn by_hand(&self, name: usize) -> Option<[i64; 4]> {
        let held = &self.pdbs[&name];
        let pods: Vec<_> = self
            .pods
            .iter()
            .filter(|(_, (pod, _))| held.spec.selector.selects(pod.app))
            .collect();
        let is_going = |name: &usize, uid: u64| {
            let entry = held.entries.get(name);
            entry.is_some_and(|(since, seen)| {
                self.now.duration_since(*since) < SignedDuration::from_mins(2)
                    && (seen.is_none_or(|seen| seen == uid) || self.created[&uid] <= *since)
            })
        };
        let healthy = pods
            .iter()
            .filter(|(name, (pod, uid))| pod.ready && !pod.deleting && !is_going(name, *uid));
        let current = i64::try_from(healthy.count()).unwrap();
        let by_scale = held.spec.field == "maxUnavailable" || matches!(held.spec.amount, Amount::Percent(_));
        let expected = if by_scale {
            if pods
                .iter()
                .any(|(_, (pod, _))| pod.owner == Some(4) && !pod.deleting)
            {
                return None;
            }
            let has = |wanted: &[usize]| {
                pods.iter()
                    .any(|(_, (pod, _))| pod.owner.is_some_and(|owner| wanted.contains(&owner)))
            };
            let wanted = [has(&[0]), has(&[1]), has(&[2, 3])];
            wanted
                .iter()
                .zip(self.replicas)
                .map(|(counts, replicas)| if *counts { replicas.max(0) } else { 0 })
                .sum()
        } else {
            i64::try_from(pods.len()).unwrap()
        };
        let rounded_up = |percent: i64| (expected * percent + 99) / 100;
        let desired = match (held.spec.field, held.spec.amount) {
            ("minAvailable", Amount::Pods(pods)) => pods,
            ("minAvailable", Amount::Percent(percent)) => rounded_up(percent),
            (_, Amount::Pods(pods)) => (expected - pods).max(0),
            (_, Amount::Percent(percent)) => (expected - rounded_up(percent)).max(0),
        };
        let allowed = if expected > 0 {
            (current - desired).max(0)
        } else {
            0
        };
        Some([allowed, current, desired, expected])
    }
}

fn controller() -> DisruptionController {
    DisruptionController::new(&Config::default(), &Registry::new()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1000 } else { 10_000 }))]

    /// The counts are right after every step, and what is allowed is neither more nor less than what the objects
    /// that were delivered allow.
    #[test]
    fn incremental_counts_equal_a_count_from_scratch(steps in vec(step(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            prop_assert_eq!(world.state.miscounted(), None);
            for name in world.pdbs.keys() {
                let decision = world.decide(*name).unwrap();
                let found = decision.result.ok().map(|numbers| {
                    [numbers.allowed, numbers.current, numbers.desired, numbers.expected].map(i64::from)
                });
                prop_assert_eq!(found, world.by_hand(*name), "b{} after {:?}", name, step);
            }
        }
    }

    /// A number that lets an eviction through which must not be is mended before all others; one that lets none through
    /// keeps nobody waiting.
    #[test]
    fn what_believes_in_too_much_goes_first_unless_it_cannot_matter(steps in vec(step(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            for name in world.pdbs.keys() {
                let (found, least) = world.priorities(*name);
                let is_low = [found, least].map(|priority| priority == Priority::Low);
                prop_assert!(found >= least && is_low[0] == is_low[1], "b{} is {:?} after {:?}", name, found, step);
            }
        }
    }

    /// What is too much is known before anything is read.
    #[test]
    fn controllers_are_counted_before_they_are_read(
        held in 0..4_usize,
        unread in MOST_READS - 3..MOST_READS + 4,
    ) {
        let mut world = World::new();
        world.take(&Step::PutPdb(0, Pdb { selector: Selects::All, field: "maxUnavailable", amount: Amount::Pods(1) }));
        let mut situation = world.state.snapshot(&pdb_key(0)).unwrap();
        let owner = |kind: &str, number| Arc::new(OwnerRef {
            api_version: if kind == "Widget" { "example.com/v1" } else { "apps/v1" }.into(),
            kind: kind.into(),
            name: format!("o{number}").into(),
            uid: Uid::from(&*format!("o{number}")),
            controller: true,
        });
        let sets = (0..held).map(|number| owner("ReplicaSet", number));
        let widgets = (held..held + unread).map(|number| owner("Widget", number));
        let owned = Owned { pods: 1, live: 1, ..Owned::default() };
        situation.counts.controllers = sets.chain(widgets).map(|owner| (owner, owned)).collect();
        let set = |_: Builtin, key: &ObjectKey| Some(Arc::new(WorkloadView {
            key: key.clone(),
            uid: Uid::from(&*key.name),
            replicas: 1,
            controller: None,
        }));
        let sources = Sources { rules: &OwnerRules::default(), held: &set, kinds: &BTreeMap::new(), answer: &|_| None };
        match sources.scales(&situation) {
            Err(queries) => prop_assert!(unread <= MOST_READS && !queries.is_empty()),
            Ok(scales) => {
                prop_assert!(unread > MOST_READS);
                let causes = scales.values().filter_map(|scale| match scale {
                    Scale::Unknown(failure) => Some(&failure.cause),
                    _ => None,
                });
                prop_assert_eq!(causes.collect::<Vec<_>>(), [&Cause::TooManyControllers]);
            }
        }
    }

    /// What was written is what would be written: the loop comes to rest.
    #[test]
    fn a_plan_that_was_carried_out_leaves_nothing_to_do(steps in vec(step(), 1..60)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        for name in world.pdbs.keys().copied().collect::<Vec<_>>() {
            world.compute(name);
            prop_assert_eq!(world.decide(name).unwrap().plan, None);
        }
    }

    /// The order in which the objects come to be known does not matter.
    #[test]
    fn the_order_of_events_does_not_change_the_outcome(
        (straight, shuffled) in objects().prop_flat_map(|steps| (Just(steps.clone()), Just(steps).prop_shuffle())),
        detours in vec((0..PODS, pod()), 0..10),
    ) {
        let mut one = World::new();
        let mut other = World::new();
        for step in &straight {
            one.take(step);
        }
        // Pods that were something else before.
        for (name, pod) in &detours {
            other.take(&Step::PutPod(*name, *pod));
        }
        for (name, _) in &detours {
            other.take(&Step::DeletePod(*name));
        }
        for step in &shuffled {
            other.take(step);
        }
        for name in one.pdbs.keys() {
            let outcome = |world: &World| {
                let Decision { result, look_again, .. } = world.decide(*name).unwrap();
                (result, look_again)
            };
            prop_assert_eq!(outcome(&one), outcome(&other));
        }
    }

    /// Nothing that was approved to go comes back before its time, and only time brings it back.
    #[test]
    fn time_alone_never_takes_away_what_is_allowed(steps in vec(step(), 1..60), seconds in 0..300_i64) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        for name in world.pdbs.keys() {
            let later = world.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
            let allowed = |now| world.decide_at(*name, now).unwrap().result.map(|numbers| numbers.allowed);
            prop_assert!(allowed(world.now) <= allowed(later));
        }
    }
}

/// Pods and budgets, each once.
fn objects() -> impl Strategy<Value = Vec<Step>> {
    (vec(pod(), 0..PODS), vec(pdb(), 1..BUDGETS)).prop_map(|(pods, pdbs)| {
        let pods = pods.into_iter().enumerate();
        let pdbs = pdbs.into_iter().enumerate();
        pods.map(|(name, pod)| Step::PutPod(name, pod))
            .chain(pdbs.map(|(name, pdb)| Step::PutPdb(name, pdb)))
            .collect()
    })
}
