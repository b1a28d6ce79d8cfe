//! What the controller reads of a pod and of a `PodGroup` (which claims they want, and whether they still do), of a
//! `ResourceClaim` (its owner and consumers) and of a `ResourceClaimTemplate`.
//!
//! | rule | code | test |
//! |---|---|---|
//! | RC-16 | `PodWire`, `ClaimantView` | `src/view/wire/tests.rs::pods_without_claims_are_not_kept`, `src/view/wire/tests.rs::equal_lists_of_entries_are_one` |

mod messages;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use controller_core::cache::View;
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use jiff::Timestamp;
use serde_json::value::RawValue;

pub use self::wire::{AlphaPodGroupWire, ClaimWire, PodGroupWire, PodWire, TemplateWire};
use crate::pod_group::GroupVersion;

/// Protects an allocated claim from deletion. Source: `k8s.io/api/resource/v1`, `Finalizer`.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The annotation of a claim that names its entry. Source: `PodResourceClaimAnnotation`.
pub const ENTRY_ANNOTATION: &str = "resource.kubernetes.io/pod-claim-name";
/// The annotation of a claim that the scheduler made for extended resources. Source:
/// `ExtendedResourceClaimAnnotation`.
pub const EXTENDED_ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";
/// The API group of `PodGroup`.
pub const SCHEDULING_GROUP: &str = "scheduling.k8s.io";

/// What the store keeps of a pod that uses claims, or of a `PodGroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimantView {
    pub kind: ClaimantKind,
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `spec.nodeName` of a pod, once it is bound to a node.
    pub node: Option<Arc<str>>,
    /// `spec.resourceClaims`, ordered by name; equal lists share one allocation.
    pub entries: Arc<Vec<Entry>>,
    /// `status.resourceClaimStatuses`, ordered by entry.
    pub statuses: Box<[ClaimStatus]>,
    /// `status.extendedResourceClaimStatus.resourceClaimName` of a pod.
    pub extended: Option<Arc<str>>,
    /// `spec.schedulingGroup.podGroupName` of a pod.
    pub group: Option<Arc<str>>,
    /// A pod whose phase is `Succeeded` or `Failed`.
    pub over: bool,
    /// The object has a deletionTimestamp.
    pub deleting: bool,
}

/// What claims are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimantKind {
    Pod,
    /// A `PodGroup`, in the version in which it is read and written.
    PodGroup(GroupVersion),
}

/// An entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub name: Arc<str>,
    pub source: ClaimSource,
}

/// Where the claim of an entry comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimSource {
    /// `resourceClaimName`: the user's own claim.
    Claim(Arc<str>),
    /// `resourceClaimTemplateName`: a claim is made for the entry.
    Template(Arc<str>),
    /// Neither: an API that we do not know.
    Unknown,
}

/// An entry of `status.resourceClaimStatuses`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimStatus {
    /// The name of the entry.
    pub entry: Arc<str>,
    /// `resourceClaimName`; `None` if no claim is needed.
    pub claim: Option<Arc<str>>,
}

/// What the store keeps of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimView {
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`, which writes name.
    pub version: Arc<str>,
    /// Its ownerReference with `controller: true`.
    pub owner: Option<Arc<OwnerRef>>,
    /// The annotation [`ENTRY_ANNOTATION`].
    pub entry: Option<Arc<str>>,
    /// `status.reservedFor`.
    pub reserved: Box<[Consumer]>,
    /// `metadata.deletionTimestamp`.
    pub deleting: Option<Timestamp>,
    /// It has the finalizer [`FINALIZER`].
    pub finalizer: bool,
    /// It has `status.allocation`.
    pub allocated: bool,
    /// One of its requests asks for admin access.
    pub admin_access: bool,
    pub origin: ClaimOrigin,
}

/// Who made a claim, by its annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClaimOrigin {
    User,
    /// We, from a template.
    Template,
    /// The scheduler, for extended resources.
    Extended,
}

/// An entry of `status.reservedFor`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Consumer {
    pub kind: ConsumerKind,
    pub name: Arc<str>,
    pub uid: Uid,
}

/// `apiGroup` and `resource` of an entry of `status.reservedFor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumerKind {
    Pod,
    PodGroup,
    /// An unknown kind.
    Other,
}

/// What the store keeps of a template.
#[derive(Clone, Debug)]
pub struct TemplateView {
    pub key: ObjectKey,
    /// `spec.metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.spec` as the API server sent it, so that a claim made from it keeps fields that we do not know.
    pub spec: Arc<RawValue>,
    /// A request asks for admin access.
    pub admin_access: bool,
    /// A request is a list of alternatives.
    pub prioritized_list: bool,
}

/// Index of claims, next to their key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimIndex {
    /// The uid of its controller, or of a consumer.
    Uid(Uid),
    /// Hash of its controller's uid and its entry, because there are many. Hits must be verified.
    Entry(u64),
}

/// Index of pods and groups, next to their key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimantIndex {
    /// A claim that its spec or its status names.
    Claim(ObjectKey),
    /// A template that its spec names.
    Template(ObjectKey),
    /// The `PodGroup` of a pod.
    Group(ObjectKey),
}

impl ClaimantKind {
    /// `apiVersion` and `kind`.
    pub const fn type_meta(self) -> (&'static str, &'static str) {
        match self {
            Self::Pod => ("v1", "Pod"),
            Self::PodGroup(version) => (version.api_version(), "PodGroup"),
        }
    }
}

impl ClaimantView {
    /// True if none of the pod's containers runs or ever will (RC-10); a group needs its claims as long as it exists.
    pub fn is_done(&self) -> bool {
        self.over || (self.kind == ClaimantKind::Pod && self.deleting && self.node.is_none())
    }

    /// The index of the entry with this name.
    pub fn position(&self, entry: &str) -> Option<usize> {
        let found = self.entries.binary_search_by(|held| (*held.name).cmp(entry));
        found.ok()
    }

    /// The entry of this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(self.position(name)?)
    }

    /// What the status says of the entry of this name.
    pub fn status(&self, entry: &str) -> Option<&ClaimStatus> {
        let found = self.statuses.binary_search_by(|held| (*held.entry).cmp(entry));
        self.statuses.get(found.ok()?)
    }

    /// True if a claim is made for one of its entries and not recorded.
    pub fn lacks_claims(&self) -> bool {
        let mut made =
            { self.entries.iter() }.filter(|entry| matches!(entry.source, ClaimSource::Template(_)));
        made.any(|entry| self.status(&entry.name).is_none())
    }

    /// The entries whose claim this is, may be or was: by its name or by its annotation.
    pub fn entries_of<'a>(&'a self, claim: &'a ClaimView) -> impl Iterator<Item = &'a Entry> {
        let name = &claim.key.name;
        let recorded = self.statuses.iter();
        let recorded = recorded.filter(move |status| status.claim.as_ref() == Some(name));
        let made = recorded.map(|status| &status.entry).chain(&claim.entry);
        let named = self.entries.iter();
        let named =
            named.filter(move |entry| matches!(&entry.source, ClaimSource::Claim(own) if own == name));
        made.filter_map(|entry| self.entry(entry)).chain(named)
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

/// Kind and name.
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
    /// True if the object with this uid controls the claim.
    pub fn is_controlled_by(&self, uid: &Uid) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.uid == *uid)
    }

    /// True if the claim was made for this entry of the pod or the group. Its owner reference may hold the uid of an
    /// object of another kind or namespace.
    pub fn is_made_for(&self, owner: &ClaimantView, entry: &str) -> bool {
        let is_of_kind = match owner.kind {
            ClaimantKind::Pod => self.owning_pod().is_some(),
            ClaimantKind::PodGroup(_) => self.owning_group().is_some(),
        };
        is_of_kind
            && self.is_controlled_by(&owner.uid)
            && self.entry.as_deref() == Some(entry)
            && self.key.namespace == owner.key.namespace
    }

    /// The pod that controls the claim.
    pub fn owning_pod(&self) -> Option<&OwnerRef> {
        let owner = self.owner.as_deref()?;
        (&*owner.kind == "Pod" && &*owner.api_version == "v1").then_some(owner)
    }

    /// The `PodGroup` that controls the claim, in any API version.
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

/// Compares raw JSON as text; the other fields follow from it.
impl PartialEq for TemplateView {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for TemplateView {}

/// The key for `name` in the namespace of `key`.
pub fn in_namespace_of(key: &ObjectKey, name: &Arc<str>) -> ObjectKey {
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
        let ours = |name| in_namespace_of(&self.key, name);
        let claims = self.claims();
        out.extend(claims.iter().map(|name| ClaimantIndex::Claim(ours(name))));
        out.extend(self.entries.iter().filter_map(|entry| match &entry.source {
            ClaimSource::Template(name) => Some(ClaimantIndex::Template(ours(name))),
            ClaimSource::Claim(_) | ClaimSource::Unknown => None,
        }));
        let groups = self.group.iter();
        out.extend(groups.map(|name| ClaimantIndex::Group(ours(name))));
    }
}

impl ClaimIndex {
    /// The index of claims made for this entry of the object with this uid.
    pub fn entry(owner: &Uid, entry: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (owner, entry).hash(&mut hasher);
        Self::Entry(hasher.finish())
    }
}

impl View for ClaimView {
    type Index = ClaimIndex;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn index(&self, out: &mut Vec<ClaimIndex>) {
        let owner = self.owner.iter().map(|owner| &owner.uid);
        let uids = owner.chain(self.reserved.iter().map(|consumer| &consumer.uid));
        out.extend(uids.cloned().map(ClaimIndex::Uid));
        let made = self.owner.iter().zip(&self.entry);
        out.extend(made.map(|(owner, entry)| ClaimIndex::entry(&owner.uid, entry)));
    }
}

impl View for TemplateView {
    type Index = std::convert::Infallible;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}
