//! What is read of a pod and of a `PodGroup` (which claims they want, and whether they still do), of a
//! `ResourceClaim` (whose it is, for whom it is reserved) and of a `ResourceClaimTemplate`.
//!
//! | rule | code | test |
//! |---|---|---|
//! | RC-16 | `PodWire`, `ClaimantView` | `src/view/wire/tests.rs::pods_without_claims_are_not_kept`, `src/view/wire/tests.rs::equal_lists_of_entries_are_one` |

mod messages;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use controller_core::informer::View;
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use jiff::Timestamp;
use serde_json::value::RawValue;

pub use self::wire::{ClaimWire, PodGroupWire, PodWire, TemplateWire};

/// What protects an allocated claim from being deleted. Source: `k8s.io/api/resource/v1`, `Finalizer`.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The annotation of a claim that names its entry. Source: `PodResourceClaimAnnotation`.
pub const ENTRY_ANNOTATION: &str = "resource.kubernetes.io/pod-claim-name";
/// The annotation of a claim that the scheduler made for extended resources. Source:
/// `ExtendedResourceClaimAnnotation`.
pub const EXTENDED_ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";
/// The group of `PodGroup`.
pub const SCHEDULING_GROUP: &str = "scheduling.k8s.io";

/// What the store keeps of a pod that uses claims, or of a `PodGroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimantView {
    /// Which of the two.
    pub kind: ClaimantKind,
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `spec.nodeName` of a pod, when it is bound to a node.
    pub node: Option<Arc<str>>,
    /// `spec.resourceClaims`; equal lists are one.
    pub entries: Arc<Vec<Entry>>,
    /// `status.resourceClaimStatuses`.
    pub statuses: Box<[ClaimStatus]>,
    /// `status.extendedResourceClaimStatus.resourceClaimName` of a pod.
    pub extended: Option<Arc<str>>,
    /// `spec.schedulingGroup.podGroupName` of a pod.
    pub group: Option<Arc<str>>,
    /// Whether it is a pod whose phase is `Succeeded` or `Failed`.
    pub over: bool,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
}

/// What claims are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimantKind {
    /// A pod.
    Pod,
    /// A `PodGroup`.
    PodGroup,
}

/// An entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// `name`.
    pub name: Arc<str>,
    /// Where the claim comes from.
    pub source: ClaimSource,
}

/// Where the claim of an entry comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimSource {
    /// `resourceClaimName`: the user's own claim.
    Claim(Arc<str>),
    /// `resourceClaimTemplateName`: one that is made for the entry.
    Template(Arc<str>),
    /// Neither: an API that we do not know.
    Unknown,
}

/// An entry of `status.resourceClaimStatuses`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimStatus {
    /// The name of the entry.
    pub entry: Arc<str>,
    /// `resourceClaimName`; none where no claim is needed.
    pub claim: Option<Arc<str>>,
}

/// What the store keeps of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimView {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`: what a write insists on.
    pub version: Arc<str>,
    /// Its ownerReference with `controller: true`.
    pub owner: Option<Arc<OwnerRef>>,
    /// Its annotation [`ENTRY_ANNOTATION`].
    pub entry: Option<Arc<str>>,
    /// `status.reservedFor`.
    pub reserved: Box<[Consumer]>,
    /// `metadata.deletionTimestamp`.
    pub deleting: Option<Timestamp>,
    /// Whether it has the finalizer [`FINALIZER`].
    pub finalizer: bool,
    /// Whether it has `status.allocation`.
    pub allocated: bool,
    /// Whether a request of it asks for admin access.
    pub admin_access: bool,
    /// Who made it, by its annotations.
    pub origin: Origin,
}

/// Who made a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// A user.
    User,
    /// We, from a template.
    Template,
    /// The scheduler, for extended resources.
    Extended,
}

/// An entry of `status.reservedFor`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Consumer {
    /// What it is.
    pub kind: ConsumerKind,
    /// `name`.
    pub name: Arc<str>,
    /// `uid`.
    pub uid: Uid,
}

/// `apiGroup` and `resource` of an entry of `status.reservedFor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumerKind {
    /// A pod.
    Pod,
    /// A `PodGroup`.
    PodGroup,
    /// Something that we know nothing of.
    Other,
}

/// What the store keeps of a template.
#[derive(Clone, Debug)]
pub struct TemplateView {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `spec.metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.spec` as the API server has it: a claim made of it lacks no field that we do not know.
    pub spec: Arc<RawValue>,
    /// Whether a request asks for admin access.
    pub admin_access: bool,
    /// Whether a request is a list of alternatives.
    pub prioritized_list: bool,
}

/// What pods and groups are found by, beside their key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimantIndex {
    /// A claim that it names, or that its status names.
    Claim(ObjectKey),
    /// A template that it names.
    Template(ObjectKey),
    /// The `PodGroup` of a pod.
    Group(ObjectKey),
}

impl ClaimantKind {
    /// `apiVersion` and `kind`.
    pub const fn type_meta(self) -> (&'static str, &'static str) {
        match self {
            Self::Pod => ("v1", "Pod"),
            Self::PodGroup => ("scheduling.k8s.io/v1alpha2", "PodGroup"),
        }
    }
}

impl ClaimantView {
    /// Whether none of the containers of the pod runs or ever will (RC-10); a group needs its claims as long as it is
    /// there.
    pub fn is_done(&self) -> bool {
        self.over || (self.kind == ClaimantKind::Pod && self.deleting && self.node.is_none())
    }

    /// The claims that its spec or its status name, each once.
    pub fn claims(&self) -> Vec<Arc<str>> {
        let own = self.entries.iter().filter_map(|entry| match &entry.source {
            ClaimSource::Claim(name) => Some(name),
            ClaimSource::Template(_) | ClaimSource::Unknown => None,
        });
        let made = self.statuses.iter().filter_map(|status| status.claim.as_ref());
        let names = own.chain(made).chain(&self.extended);
        let mut names: Vec<_> = names.map(Arc::clone).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Consumer {
    /// The pod that controls a claim, as if the claim were reserved for it.
    pub fn pod(owner: &OwnerRef) -> Self {
        Self {
            kind: ConsumerKind::Pod,
            name: Arc::clone(&owner.name),
            uid: owner.uid.clone(),
        }
    }
}

/// Its kind and name.
impl fmt::Display for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ConsumerKind::Pod => "pod",
            ConsumerKind::PodGroup => "PodGroup",
            ConsumerKind::Other => "something unknown,",
        };
        write!(f, "{kind} {}", self.name)
    }
}

impl ClaimView {
    /// Whether the object of this uid controls it.
    pub fn is_controlled_by(&self, uid: &Uid) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.uid == *uid)
    }

    /// Whether an object of this kind controls it.
    pub fn is_made_for(&self, kind: ClaimantKind) -> bool {
        match kind {
            ClaimantKind::Pod => self.owning_pod().is_some(),
            ClaimantKind::PodGroup => self.owning_group().is_some(),
        }
    }

    /// The pod that controls it.
    pub fn owning_pod(&self) -> Option<&OwnerRef> {
        let owner = self.owner.as_deref()?;
        (&*owner.kind == "Pod" && &*owner.api_version == "v1").then_some(owner)
    }

    /// The `PodGroup` that controls it, whatever the version of its API.
    pub fn owning_group(&self) -> Option<&OwnerRef> {
        let owner = self.owner.as_deref()?;
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        (&*owner.kind == "PodGroup" && group == Some(SCHEDULING_GROUP)).then_some(owner)
    }
}

impl TemplateView {
    fn parts(
        &self,
    ) -> (
        &ObjectKey,
        &BTreeMap<String, String>,
        &BTreeMap<String, String>,
        &str,
    ) {
        (&self.key, &self.labels, &self.annotations, self.spec.get())
    }
}

/// Raw JSON is equal when its text is; the rest follows from it.
impl PartialEq for TemplateView {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for TemplateView {}

/// The object of this name beside `key`.
pub fn beside(key: &ObjectKey, name: &Arc<str>) -> ObjectKey {
    ObjectKey {
        namespace: key.namespace.clone(),
        name: Arc::clone(name),
    }
}

impl View for ClaimantView {
    type Index = ClaimantIndex;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn index(&self, out: &mut Vec<ClaimantIndex>) {
        let beside = |name| beside(&self.key, name);
        let claims = self.claims();
        out.extend(claims.iter().map(|name| ClaimantIndex::Claim(beside(name))));
        out.extend(self.entries.iter().filter_map(|entry| match &entry.source {
            ClaimSource::Template(name) => Some(ClaimantIndex::Template(beside(name))),
            ClaimSource::Claim(_) | ClaimSource::Unknown => None,
        }));
        let groups = self.group.iter();
        out.extend(groups.map(|name| ClaimantIndex::Group(beside(name))));
    }
}

impl View for ClaimView {
    /// The uids of its controller and of those that it is reserved for.
    type Index = Uid;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn index(&self, out: &mut Vec<Uid>) {
        out.extend(self.owner.iter().map(|owner| owner.uid.clone()));
        out.extend(self.reserved.iter().map(|consumer| consumer.uid.clone()));
    }
}

impl View for TemplateView {
    type Index = std::convert::Infallible;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}
