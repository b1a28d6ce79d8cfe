//! The rules: which claims a pod or a `PodGroup` gets, for whom a claim is reserved, and when it is taken back.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-1 | `recorded` | `tests/decide_table/entries.rs::an_entry_names_its_claim` |
//! | RC-2 | `answer`, `made_for`, `wants_claims` | `tests/decide_table/entries.rs::an_entry_is_adopted_else_made` |
//! | RC-3 | `base_name`, `claim_name`, `Create` | `tests/decide_table/entries.rs::a_claim_is_named_after_its_pod_and_entry`, `tests/decide_props.rs::a_claim_that_is_made_again_has_another_name` |
//! | RC-5 | `statuses` | `tests/decide_table/entries.rs::all_claims_of_a_pod_are_recorded_at_once` |
//! | RC-6 | `EntryFailure` | `tests/decide_table/entries.rs::one_failing_entry_does_not_stop_the_others` |
//! | RC-7 | `Gates` | `tests/decide_table/entries.rs::a_template_that_asks_for_what_is_off_is_refused` |
//! | RC-8 | `reservation` | `tests/decide_table/reservations.rs::a_pod_on_a_node_gets_its_allocated_claims_reserved` |
//! | RC-9 | `standing` | `tests/decide_table/reservations.rs::a_reservation_goes_only_with_its_consumer` |
//! | RC-10 | `ClaimantView::is_done` | `tests/decide_table/reservations.rs::a_pod_is_done_when_nothing_of_it_runs_or_will` |
//! | RC-11 | `next_step`, `Quiet` | `tests/decide_table/giving_back.rs::a_claim_that_nobody_uses_is_given_back` |
//! | RC-12 | `next_step` | `tests/decide_table/giving_back.rs::a_claim_that_is_being_deleted_is_let_go` |
//! | RC-13 | `owner`, `next_step` | `tests/decide_table/giving_back.rs::the_claim_of_a_pod_that_is_done_is_deleted` |
//! | RC-14 | `Departed` | `tests/decide_table/departed.rs::deleted_pods_are_remembered_while_a_claim_refers_to_them` |
//! | RC-15 | `ClaimantView::claims`, `next_step` | `tests/decide_table/giving_back.rs::an_extended_resource_claim_is_given_back_like_any_other` |
//! | RC-17 | `group_of`, `binds_to`, `answer` | `tests/decide_table/groups.rs::a_pod_shares_the_claims_of_its_group`, `tests/decide_table/groups.rs::groups_count_where_the_feature_is_on` |
//!
//! A sync calls [`answer`] for each entry, creates what is missing, passes the names to [`statuses`], and calls
//! [`reservation`] for each claim. For a claim it calls [`standing`] for each consumer and [`owner`] for its pod, then
//! [`next_step`] until none is left. Whatever the cache leaves in doubt is judged again on a live read.

mod claim;
mod departed;
mod entries;
mod names;
mod quiet;
mod reserve;

use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::ObjectKey;

pub use self::claim::{
    Being, ClaimPlan, ConsumerLookup, Evidence, Next, Ownership, Standing, claimant_kind, next_step, owner,
    standing,
};
pub use self::departed::{ClaimantId, Departed};
pub use self::entries::{
    Create, EntryFailure, EntryVerdict, LiveClaim, Recorded, answer, is_for, made_after, needs_work,
    needs_work_on, recorded, statuses, wants_claims,
};
pub use self::names::{Names, base_name, claim_name};
pub use self::quiet::Quiet;
pub use self::reserve::{Reservation, Reserve, reservation};
use crate::pod_group::GroupVersion;
use crate::view::{
    ClaimSource, ClaimView, ClaimantKind, ClaimantView, Consumer, ConsumerKind, Entry, TemplateView,
};

/// A pass with this many requests leaves the other entries to the next one, so that other keys get their turn in
/// between.
pub const REQUESTS_A_PASS: usize = 128;

/// The field manager of the statuses. Source: `controller.go`, `fieldManager`.
pub const FIELD_MANAGER: &str = "ResourceClaimController";
/// The longest base of a claim's name, in bytes. Source: `controller.go`, `maxBaseLen`.
pub const MAX_BASE_LEN: usize = 57;
/// Most consumers of a claim. Source: `k8s.io/api/resource/v1`, `ResourceClaimReservedForMaxSize`.
pub const RESERVED_FOR_MAX_SIZE: usize = 256;
/// How long a claim that stays must be seen unchanged before it loses a finalizer that protects no allocation: the
/// scheduler adds the finalizer just before the allocation, and must not lose that write against ours.
pub const IDLE_FINALIZER_AGE: Duration = Duration::from_mins(5);
/// How long the watch may take to show what we wrote. Source: `controller.go`, `NewIntegerResourceVersionMutationCache`.
pub const PENDING_TTL: Duration = Duration::from_hours(1);
/// A pod with more entries causes a warning.
pub const MANY_ENTRIES: usize = 128;
/// Least number of deleted pods' uids that are remembered. Source: `controller.go`, `maxUIDCacheEntries`.
pub const MAX_UID_CACHE_ENTRIES: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gates {
    /// `DRAAdminAccess`.
    pub admin_access: bool,
    /// `DRAPrioritizedList`.
    pub prioritized_list: bool,
    /// `DRAWorkloadResourceClaims`, and whether the API server serves `PodGroups`.
    pub groups: Groups,
}

/// How `PodGroups` count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Groups {
    /// Not at all: the API server does not serve them.
    Unserved,
    /// `DRAWorkloadResourceClaims` is off: no claims are made for a pod of a group.
    #[default]
    Off,
    /// They have claims, which their pods share; the API server serves them in this version.
    On(GroupVersion),
}

impl Groups {
    /// True if groups have claims.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On(_))
    }
}

/// Lookup of claims and templates.
pub trait Known {
    /// The claim of this name.
    fn claim(&self, key: &ObjectKey) -> Option<Arc<ClaimView>>;

    /// The claims made for this entry of the pod or the group, ordered by key: see [`ClaimView::is_made_for`].
    fn made_for(&self, owner: &ClaimantView, entry: &str) -> Vec<Arc<ClaimView>>;

    /// The template of this name.
    fn template(&self, key: &ObjectKey) -> Option<Arc<TemplateView>>;
}

/// A pod or a `PodGroup` that wants claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant<'a> {
    pub view: &'a ClaimantView,
    /// The group of a pod.
    pub group: Group<'a>,
}

/// The `PodGroup` of a pod, as far as it concerns claims (RC-17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group<'a> {
    /// The pod has none, or groups do not count.
    None,
    Known(&'a ClaimantView),
    /// A group that does not exist (yet).
    Missing(&'a Arc<str>),
    /// A group that does not count, although the API server serves it.
    Off(&'a Arc<str>),
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            admin_access: true,
            prioritized_list: true,
            groups: Groups::default(),
        }
    }
}

/// The group of `pod`, if groups count; `found` is the group with the name in the pod, if it exists.
pub fn group_of<'a>(pod: &'a ClaimantView, found: Option<&'a ClaimantView>, gates: Gates) -> Group<'a> {
    match (&pod.group, gates.groups, found) {
        (None, ..) | (_, Groups::Unserved, _) => Group::None,
        (Some(name), Groups::Off, _) => Group::Off(name),
        (Some(_), Groups::On(_), Some(group)) => Group::Known(group),
        (Some(name), Groups::On(_), None) => Group::Missing(name),
    }
}

/// For whom the claim of `entry` is reserved: the group if it has the same entry, else the pod. `None` while the group
/// is missing.
pub fn binds_to(claimant: &Claimant<'_>, entry: &Entry) -> Option<Consumer> {
    let view = match claimant.group {
        Group::Missing(_) => return None,
        Group::Known(group) if shares(group, entry) => group,
        Group::Known(_) | Group::Off(_) | Group::None => claimant.view,
    };
    Some(Consumer {
        kind: match view.kind {
            ClaimantKind::Pod => ConsumerKind::Pod,
            ClaimantKind::PodGroup(_) => ConsumerKind::PodGroup,
        },
        name: Arc::clone(&view.key.name),
        uid: view.uid.clone(),
    })
}

/// True if the group has the same entry, by name and by source.
fn shares(group: &ClaimantView, entry: &Entry) -> bool {
    entry.source != ClaimSource::Unknown && group.entry(&entry.name) == Some(entry)
}
