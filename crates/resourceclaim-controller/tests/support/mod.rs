//! Pods, claims and templates as the informers would have them.
#![allow(dead_code, reason = "each test uses some of it")]

use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use jiff::Timestamp;
use resourceclaim_controller::decide::{
    Being, Claimant, Create, EntryVerdict, Gates, Group, Groups, Known, LiveClaim, Reservation, Reserve,
    answer, needs_work, reservation,
};
use resourceclaim_controller::pod_group::GroupVersion;
use resourceclaim_controller::view::{
    ClaimOrigin, ClaimSource, ClaimStatus, ClaimView, ClaimantKind, ClaimantView, Consumer, ConsumerKind,
    Entry, TemplateView,
};
use serde_json::value::RawValue;
use std::sync::Arc;

/// What [`claim_name`] says for the pod `pod` of the uid `pod` and its entry `gpu`.
pub(crate) const GPU: [&str; 3] = ["pod-gpu-wbbp8", "pod-gpu-msh9z", "pod-gpu-bq97p"];

/// What the caches show.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) claims: Vec<ClaimView>,
    pub(crate) templates: Vec<TemplateView>,
    pub(crate) gates: Gates,
}

impl Known for World {
    fn claim(&self, key: &ObjectKey) -> Option<Arc<ClaimView>> {
        let found = self.claims.iter().find(|claim| claim.key == *key);
        found.cloned().map(Arc::new)
    }

    fn made_for(&self, owner: &ClaimantView, entry: &str) -> Vec<Arc<ClaimView>> {
        let claims = self.claims.iter();
        let claims = claims.filter(|claim| claim.is_made_for(owner, entry));
        claims.cloned().map(Arc::new).collect()
    }

    fn template(&self, key: &ObjectKey) -> Option<Arc<TemplateView>> {
        let found = self.templates.iter().find(|template| template.key == *key);
        found.cloned().map(Arc::new)
    }
}

impl World {
    /// With the template `ns/t`.
    pub(crate) fn of(claims: impl IntoIterator<Item = ClaimView>) -> Self {
        Self {
            claims: claims.into_iter().collect(),
            templates: vec![template("t")],
            gates: Gates::default(),
        }
    }

    pub(crate) fn without_template(self) -> Self {
        Self {
            templates: Vec::new(),
            ..self
        }
    }

    pub(crate) fn with_groups(mut self) -> Self {
        self.gates.groups = Groups::On(GroupVersion::V1Beta1);
        self
    }

    /// What becomes of the first entry of `pod`.
    pub(crate) fn answer(&self, pod: &ClaimantView) -> EntryVerdict {
        self.answer_in(pod, Group::None)
    }

    pub(crate) fn answer_in(&self, pod: &ClaimantView, group: Group<'_>) -> EntryVerdict {
        answer(
            &Claimant { view: pod, group },
            &pod.entries[0],
            self,
            self.gates,
            LiveClaim::Unasked,
        )
    }

    /// What becomes of the first entry of `pod` when a live read of the recorded claim has found this.
    pub(crate) fn answer_seeing(&self, pod: &ClaimantView, found: Option<&ClaimView>) -> EntryVerdict {
        answer(
            &alone(pod),
            &pod.entries[0],
            self,
            self.gates,
            LiveClaim::Found(found),
        )
    }

    pub(crate) fn pod_needs_work(&self, pod: &ClaimantView) -> bool {
        let claimant = alone(pod);
        needs_work(&claimant, self, self.gates)
    }
}

/// What must be reserved for the first entry of `pod`, which is in no group.
pub(crate) fn reservation_of(pod: &ClaimantView, claim: &ClaimView) -> Reservation {
    reservation(&alone(pod), &pod.entries[0], claim)
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ns", name)
}

pub(crate) fn templated(name: &str, template: &str) -> Entry {
    Entry {
        name: name.into(),
        source: ClaimSource::Template(template.into()),
    }
}

pub(crate) fn users(name: &str, claim: &str) -> Entry {
    Entry {
        name: name.into(),
        source: ClaimSource::Claim(claim.into()),
    }
}

pub(crate) fn unknown(name: &str) -> Entry {
    Entry {
        name: name.into(),
        source: ClaimSource::Unknown,
    }
}

pub(crate) fn status(entry: &str, claim: Option<&str>) -> ClaimStatus {
    ClaimStatus {
        entry: entry.into(),
        claim: claim.map(Arc::from),
    }
}

/// The pod `ns/pod` of the uid `pod`, with the entry `gpu` from the template `t`.
pub(crate) fn pod() -> ClaimantView {
    pod_with([templated("gpu", "t")])
}

pub(crate) fn pod_with(entries: impl IntoIterator<Item = Entry>) -> ClaimantView {
    let mut entries: Vec<_> = entries.into_iter().collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    ClaimantView {
        kind: ClaimantKind::Pod,
        key: key("pod"),
        uid: "pod".into(),
        node: None,
        entries: Arc::new(entries),
        statuses: Box::default(),
        extended: None,
        group: None,
        over: false,
        deleting: false,
    }
}

pub(crate) fn recording(pod: ClaimantView, statuses: impl IntoIterator<Item = ClaimStatus>) -> ClaimantView {
    let mut statuses: Box<[_]> = statuses.into_iter().collect();
    statuses.sort();
    ClaimantView { statuses, ..pod }
}

/// The pod `ns/pod` with this claim recorded for its entry.
pub(crate) fn pod_recording(claim: &str) -> ClaimantView {
    recording(pod(), [status("gpu", Some(claim))])
}

pub(crate) fn on_node(pod: ClaimantView) -> ClaimantView {
    ClaimantView {
        node: Some("node".into()),
        ..pod
    }
}

pub(crate) fn over(pod: ClaimantView) -> ClaimantView {
    ClaimantView { over: true, ..pod }
}

pub(crate) fn deleting(pod: ClaimantView) -> ClaimantView {
    ClaimantView {
        deleting: true,
        ..pod
    }
}

pub(crate) fn in_group(pod: ClaimantView, group: &str) -> ClaimantView {
    ClaimantView {
        group: Some(group.into()),
        ..pod
    }
}

/// The group `ns/group` of the uid `group`.
pub(crate) fn group_with(entries: impl IntoIterator<Item = Entry>) -> ClaimantView {
    ClaimantView {
        kind: ClaimantKind::PodGroup(GroupVersion::V1Beta1),
        key: key("group"),
        uid: "group".into(),
        ..pod_with(entries)
    }
}

/// The group, or the pod without one.
pub(crate) const fn alone(view: &ClaimantView) -> Claimant<'_> {
    Claimant {
        view,
        group: Group::None,
    }
}

pub(crate) fn template(name: &str) -> TemplateView {
    TemplateView {
        key: key(name),
        labels: [].into(),
        annotations: [].into(),
        spec: RawValue::from_string("{}".to_owned()).unwrap().into(),
        admin_access: false,
        prioritized_list: false,
    }
}

/// A claim of the user.
pub(crate) fn claim(name: &str) -> ClaimView {
    ClaimView {
        key: key(name),
        uid: format!("uid-of-{name}").as_str().into(),
        version: "7".into(),
        owner: None,
        entry: None,
        reserved: Box::default(),
        deleting: None,
        finalizer: false,
        allocated: false,
        admin_access: false,
        origin: ClaimOrigin::User,
    }
}

/// One that was made for the entry of this name of the pod `pod`.
pub(crate) fn made(name: &str, entry: &str) -> ClaimView {
    owned_by(claim(name), "v1", "Pod", "pod", entry)
}

/// One that was made for the entry of this name of the group `group`.
pub(crate) fn made_for_group(name: &str, entry: &str) -> ClaimView {
    owned_by(
        claim(name),
        "scheduling.k8s.io/v1beta1",
        "PodGroup",
        "group",
        entry,
    )
}

pub(crate) fn owned_by(
    claim: ClaimView,
    api_version: &str,
    kind: &str,
    owner: &str,
    entry: &str,
) -> ClaimView {
    ClaimView {
        owner: Some(Arc::new(owner_ref(api_version, kind, owner, owner))),
        entry: Some(entry.into()),
        origin: ClaimOrigin::Template,
        ..claim
    }
}

/// The reference to what controls something.
pub(crate) fn owner_ref(api_version: &str, kind: &str, name: &str, uid: impl Into<Uid>) -> OwnerRef {
    OwnerRef {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: uid.into(),
        controller: true,
    }
}

/// As the scheduler allocates it.
pub(crate) fn allocated(claim: ClaimView) -> ClaimView {
    ClaimView {
        allocated: true,
        finalizer: true,
        ..claim
    }
}

pub(crate) fn reserved<'a>(claim: ClaimView, consumers: impl IntoIterator<Item = &'a Consumer>) -> ClaimView {
    ClaimView {
        reserved: consumers.into_iter().cloned().collect(),
        ..claim
    }
}

pub(crate) fn terminating(claim: ClaimView) -> ClaimView {
    ClaimView {
        deleting: Some("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap()),
        ..claim
    }
}

/// The pod of this name and uid.
pub(crate) fn a_pod(name: &str) -> Consumer {
    Consumer {
        kind: ConsumerKind::Pod,
        name: name.into(),
        uid: name.into(),
    }
}

pub(crate) fn a_group(name: &str) -> Consumer {
    Consumer {
        kind: ConsumerKind::PodGroup,
        ..a_pod(name)
    }
}

pub(crate) fn something_else(name: &str) -> Consumer {
    Consumer {
        kind: ConsumerKind::Other,
        ..a_pod(name)
    }
}

pub(crate) fn create_of(answer: EntryVerdict) -> Create {
    match answer {
        EntryVerdict::Create(create) => create,
        other => panic!("{other:?}"),
    }
}

/// The name of the claim that will be made.
pub(crate) fn creates(answer: EntryVerdict) -> String {
    create_of(answer).claim().to_string()
}

pub(crate) fn reserve_for(consumer: Consumer, claim: &str) -> Reservation {
    Reservation::Write(Reserve {
        claim: key(claim),
        uid: format!("uid-of-{claim}").as_str().into(),
        version: "7".into(),
        consumer,
    })
}

pub(crate) fn being(uid: &str, done: bool) -> Being {
    Being {
        uid: uid.into(),
        done,
    }
}
