//! One budget, its pods and their controllers, as the informers would have them; no API server.

pub(crate) mod by_hand;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use controller_testing::sim;
use disruption_controller::decide::{
    Above, Builtin, Decision, Demand, OwnerRules, Reading, Scale, Scales, Situation, StatusPatch, decide,
    demand, scale_of, scale_under,
};
use disruption_controller::state::State;
use disruption_controller::view::{PdbView, PdbWire, PodView, PodWire, WorkloadView};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The time of every case, unless it says otherwise.
pub(crate) fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// This number of seconds from [`now`].
pub(crate) fn at(seconds: i64) -> Timestamp {
    now().checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

/// The budget `ns/foobar`, for pods with the label `foo: bar`, with more of its spec.
pub(crate) fn pdb(spec: &Value) -> PdbView {
    let mut object = json!({
        "metadata": { "namespace": "ns", "name": "foobar", "uid": "pdb", "resourceVersion": "18", "generation": 1 },
        "spec": { "selector": { "matchLabels": { "foo": "bar" } } },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    decoded(&object)
}

pub(crate) fn decoded(pdb: &Value) -> PdbView {
    sim::decoded::<PdbWire>(pdb)
}

/// A ready pod with the label `foo: bar`, with more of its metadata.
pub(crate) fn pod(name: &str, metadata: &Value) -> PodView {
    let mut object = json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "labels": { "foo": "bar" } },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    for (field, value) in metadata.as_object().unwrap() {
        object["metadata"][field] = value.clone();
    }
    sim::decoded::<PodWire>(&object)
}

pub(crate) fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Arc<OwnerRef> {
    Arc::new(OwnerRef {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: Uid::from(uid),
        controller: true,
    })
}

pub(crate) fn workload(
    name: &str,
    uid: &str,
    replicas: i64,
    controller: Option<&Arc<OwnerRef>>,
) -> Arc<WorkloadView> {
    Arc::new(WorkloadView {
        key: ObjectKey::namespaced("ns", name),
        uid: Uid::from(uid),
        replicas,
        controller: controller.cloned(),
    })
}

/// What the loop decides about a budget; `None` if it does not know it.
pub(crate) fn decide_in(
    state: &State,
    key: &ObjectKey,
    scale: impl Fn(&Arc<OwnerRef>) -> Scale,
    now: Timestamp,
) -> Option<Decision> {
    let snapshot = state.snapshot(key)?;
    let mut scales = Scales::default();
    if demand(&snapshot.pdb).is_ok_and(Demand::needs_scales) {
        for controller in snapshot.counts.controllers.keys() {
            scales.insert(Arc::clone(controller), scale(controller));
        }
    }
    let smallest_pod = |owners: &[&OwnerRef]| state.smallest_pod(key, owners);
    Some(decide(&snapshot, &scales, smallest_pod, now))
}

/// What the informers have, and what reads would say.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) state: RefCell<State>,
    pub(crate) pdb: Option<Arc<PdbView>>,
    pub(crate) workloads: HashMap<(u8, String), Arc<WorkloadView>>,
    pub(crate) readings: BTreeMap<String, Reading>,
    pub(crate) rules: OwnerRules,
    pub(crate) above: BTreeMap<String, Above>,
}

impl World {
    pub(crate) fn of(pdb: PdbView) -> Self {
        let mut world = Self::default();
        world.put_pdb(pdb);
        world
    }

    pub(crate) fn put_pdb(&mut self, pdb: PdbView) {
        let pdb = Arc::new(pdb);
        self.state.borrow_mut().pdb_changed(&pdb.key, Some(&pdb), false);
        self.pdb = Some(pdb);
    }

    pub(crate) fn put(&self, pod: PodView) {
        let pod = Arc::new(pod);
        self.state
            .borrow_mut()
            .pod_changed(&pod.key, Some(&pod), Duration::ZERO);
    }

    /// A ready pod of `controller`.
    pub(crate) fn add(&self, name: &str, controller: Option<&Arc<OwnerRef>>) {
        self.put(PodView {
            controller: controller.cloned(),
            ..pod(name, &json!({}))
        });
    }

    pub(crate) fn add_unready(&self, name: &str, controller: Option<&Arc<OwnerRef>>) {
        self.put(PodView {
            controller: controller.cloned(),
            ready: false,
            ..pod(name, &json!({}))
        });
    }

    pub(crate) fn hold(&mut self, kind: Builtin, workload: &Arc<WorkloadView>) {
        self.workloads
            .insert((kind as u8, workload.key.name.to_string()), Arc::clone(workload));
    }

    pub(crate) fn snapshot(&self) -> Situation {
        let key = &self.pdb.as_ref().unwrap().key;
        self.state.borrow().snapshot(key).unwrap()
    }

    pub(crate) fn scale(&self, owner: &Arc<OwnerRef>) -> Result<Scale, Arc<OwnerRef>> {
        let held = |kind: Builtin, name: &str| self.workloads.get(&(kind as u8, name.to_owned())).cloned();
        let unread = |owner: &OwnerRef| Arc::new(owner.clone());
        let read = |owner: &OwnerRef| {
            let reading = self.readings.get(&*owner.name).cloned();
            reading.ok_or_else(|| unread(owner))
        };
        let scale = |owner: &OwnerRef| scale_of(owner, held, read);
        let above = |owner: &OwnerRef| {
            let above = self.above.get(&*owner.name).cloned();
            above.ok_or_else(|| unread(owner))
        };
        scale_under(owner, &self.rules, scale, above)
    }

    pub(crate) fn decide_at(&self, now: Timestamp) -> Decision {
        // What nobody reads is not there.
        let scale = |controller: &Arc<OwnerRef>| self.scale(controller).unwrap_or(Scale::Gone);
        let key = &self.pdb.as_ref().unwrap().key;
        decide_in(&self.state.borrow(), key, scale, now).unwrap()
    }

    pub(crate) fn decide(&self) -> Decision {
        self.decide_at(now())
    }

    /// Allowed, current, desired, expected.
    pub(crate) fn numbers(&self) -> [i32; 4] {
        let numbers = self.decide().result.unwrap();
        [
            numbers.allowed,
            numbers.current,
            numbers.desired,
            numbers.expected,
        ]
    }

    pub(crate) fn failure(&self) -> String {
        self.decide().result.unwrap_err().to_string()
    }

    /// Does to the budget what the API server does with a plan.
    pub(crate) fn apply(&mut self, plan: Option<&StatusPatch>) {
        let Some(write) = plan else { return };
        let mut pdb = (*self.snapshot().pdb).clone();
        let version: u64 = pdb.version.parse().unwrap();
        pdb.version = (version + 1).to_string().into();
        let status = &mut pdb.status;
        status.observed_generation = write.condition.observed_generation;
        status.disruptions_allowed = write.allowed();
        status.current_healthy = write.current.into();
        if let Some(numbers) = write.numbers {
            status.desired_healthy = numbers.desired.into();
            status.expected_pods = numbers.expected.into();
        }
        for name in &write.dropped {
            status.disrupted_pods.remove(name);
        }
        status.condition = Some(write.condition.clone());
        self.put_pdb(pdb);
    }
}
