//! This controller's own metrics.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::controller::Inspector;
use controller_core::metrics::{Samples, at_scrape, by_label_at_scrape, register};
use jiff::{SignedDuration, Timestamp};
use prometheus::{IntCounterVec, Opts, Registry};

use crate::ResourceClaimController;
use crate::decide::wants_claims;
use crate::view::{ClaimOrigin, ClaimView, ClaimantKind, ClaimantView};

/// A claim that is being deleted for longer counts as stuck.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Counters with the names and labels of Kubernetes 1.37, and those of 1.36, which go with the next minor version.
#[derive(Clone, Debug)]
pub struct Creates {
    /// `dynamic_resource_allocation_resourceclaim_creates_total{status,admin_access,owner_api_group,owner_api_kind}`.
    by_owner: IntCounterVec,
    /// `resourceclaim_controller_creates_total{status,admin_access}`.
    former: IntCounterVec,
}

impl Creates {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let by_owner = Opts::new(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "Number of ResourceClaims creation requests, categorized by creation status, admin access, and owning API \
             group and kind (either Pod or scheduling.k8s.io/PodGroup)",
        );
        let labels = ["status", "admin_access", "owner_api_group", "owner_api_kind"];
        let former = Opts::new(
            "resourceclaim_controller_creates_total",
            "Number of ResourceClaims creation requests, categorized by creation status and admin access. The name of \
             Kubernetes 1.36; use dynamic_resource_allocation_resourceclaim_creates_total.",
        );
        Ok(Self {
            by_owner: register(registry, IntCounterVec::new(by_owner, &labels))?,
            former: register(registry, IntCounterVec::new(former, &labels[..2]))?,
        })
    }

    /// Counts an answered create for `owner`. One that meets the claim made before is neither success nor failure.
    pub fn count(&self, success: bool, admin_access: bool, owner: ClaimantKind) {
        let status = if success { "success" } else { "failure" };
        let (api_version, kind) = owner.type_meta();
        let (group, _) = api_version.split_once('/').unwrap_or_default();
        let labels = [status, truth(admin_access), group, kind];
        self.by_owner.with_label_values(&labels).inc();
        self.former.with_label_values(&labels[..2]).inc();
    }
}

/// Registers the gauges of claims.
pub fn register_claims(
    inspector: &Inspector<ResourceClaimController>,
    registry: &Registry,
) -> prometheus::Result<()> {
    // The second is the name of Kubernetes 1.36, and goes with the next minor version.
    let by_state = [
        "dynamic_resource_allocation_resource_claims",
        "resourceclaim_controller_resource_claims",
    ]
    .map(|name| {
        Opts::new(
            name,
            "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be \
             'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty \
             (manually created by a user).",
        )
    });
    let labels: &[_] = &["allocated", "admin_access", "source"];
    let counted = inspector.clone();
    let gauges = by_state.map(|gauge| (gauge, labels)).to_vec();
    by_label_at_scrape(registry, gauges, move || {
        let by_state: BTreeMap<_, i64> = counted.scrape(|_, stores| {
            let mut by_state = BTreeMap::new();
            for claim in stores.claims.iter() {
                let source = match claim.origin {
                    ClaimOrigin::User => "",
                    ClaimOrigin::Template => "resource_claim_template",
                    ClaimOrigin::Extended => "extended_resource",
                };
                let state = [truth(claim.allocated), truth(claim.admin_access), source];
                *by_state.entry(state).or_default() += 1;
            }
            by_state
        });
        let samples = by_state.into_iter();
        let samples: Samples = samples
            .map(|(state, claims)| (state.map(Cow::Borrowed).to_vec(), claims))
            .collect();
        vec![samples.clone(), samples]
    })?;
    let stuck = (
        "resourceclaim_controller_claims_stuck_deleting",
        "Number of ResourceClaims that have been being deleted for more than 5 minutes.",
    );
    let waiting = (
        "resourceclaim_controller_pods_waiting",
        "Number of pods that wait for a ResourceClaim to be made from a template.",
    );
    let inspector = inspector.clone();
    at_scrape(registry, [stuck, waiting], move || {
        let now = inspector.now().wall;
        let is_late = |since: Timestamp| now.duration_since(since) > STUCK_AFTER;
        let is_stuck = |claim: &&Arc<ClaimView>| claim.deleting.is_some_and(is_late);
        let waits = |pod: &&Arc<ClaimantView>| wants_claims(pod) && pod.lacks_claims();
        let count = |count| i64::try_from(count).unwrap_or(i64::MAX);
        Some(inspector.scrape(|_, stores| {
            let stuck = stores.claims.iter().filter(is_stuck);
            let waiting = stores.pods.iter().filter(waits);
            [count(stuck.count()), count(waiting.count())]
        }))
    })
}

const fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
