//! This controller's own metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::controller::Driver;
use controller_core::metrics::register;
use jiff::SignedDuration;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::ResourceClaimController;
use crate::view::Origin;

/// A claim that is being deleted for longer is stuck.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// `resourceclaim_controller_creates_total{status,admin_access}`.
#[derive(Clone, Debug)]
pub struct Creates(IntCounterVec);

/// Counted at scrape time, so that it cannot drift.
struct AtScrape {
    driver: Arc<Driver<ResourceClaimController>>,
    by_state: IntGaugeVec,
    stuck: IntGauge,
}

impl Creates {
    /// Makes the counter and registers it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let creates = Opts::new(
            "resourceclaim_controller_creates_total",
            "Number of ResourceClaims creation requests, categorized by creation status and admin access.",
        );
        let creates = IntCounterVec::new(creates, &["status", "admin_access"]);
        register(registry, creates).map(Self)
    }

    /// A create was answered. One that meets the claim made before is neither.
    pub fn count(&self, success: bool, admin_access: bool) {
        let status = if success { "success" } else { "failure" };
        self.0.with_label_values(&[status, truth(admin_access)]).inc();
    }
}

/// Registers the gauges that show the claims.
pub fn register_claims(
    driver: &Arc<Driver<ResourceClaimController>>,
    registry: &Registry,
) -> prometheus::Result<()> {
    let by_state = IntGaugeVec::new(
        Opts::new(
            "resourceclaim_controller_resource_claims",
            "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be \
             'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty \
             (manually created by a user).",
        ),
        &["allocated", "admin_access", "source"],
    )?;
    let stuck = IntGauge::new(
        "resourceclaim_controller_claims_stuck_deleting",
        "Number of ResourceClaims that have been being deleted for more than 5 minutes.",
    )?;
    registry.register(Box::new(AtScrape {
        driver: Arc::clone(driver),
        by_state,
        stuck,
    }))
}

impl Collector for AtScrape {
    fn desc(&self) -> Vec<&Desc> {
        let mut descriptions = self.by_state.desc();
        descriptions.extend(self.stuck.desc());
        descriptions
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (now, mut stuck) = (self.driver.now().wall, 0);
        let claims = self.driver.scrape(|_, stores| stores.claims.clone());
        let mut by_state = BTreeMap::<_, i64>::new();
        for claim in claims.snapshot() {
            let state = (claim.allocated, claim.admin_access, claim.origin);
            *by_state.entry(state).or_default() += 1;
            if claim
                .deleting
                .is_some_and(|since| now.duration_since(since) > STUCK_AFTER)
            {
                stuck += 1;
            }
        }
        // A state that no claim is in any more must not stand there with its last number.
        self.by_state.reset();
        for ((allocated, admin_access, origin), count) in by_state {
            let source = match origin {
                Origin::User => "",
                Origin::Template => "resource_claim_template",
                Origin::Extended => "extended_resource",
            };
            let labels = [truth(allocated), truth(admin_access), source];
            self.by_state.with_label_values(&labels).set(count);
        }
        self.stuck.set(stuck);
        let mut families = self.by_state.collect();
        families.extend(self.stuck.collect());
        families
    }
}

const fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
