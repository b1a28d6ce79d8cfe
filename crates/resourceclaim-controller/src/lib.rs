//! Creates the `ResourceClaims` of pods from templates, reserves allocated claims for pods that are on a node, and
//! takes claims back when their pods are done.

pub mod config;
pub mod contested;
pub mod decide;
pub mod error;
pub mod events;
pub mod explain;
pub mod gates;
pub mod metrics;
pub mod pod_group;
pub mod reconcile;
pub mod requests;
pub mod route;
pub mod state;
pub mod view;

use std::sync::Arc;

use controller_core::about::{About, about};
use controller_core::app::{
    App, BuiltIn, Explain, Explainer, Fields, Informers, Preflight, Prepared, RulesOfGates, Started,
};
use controller_core::cache::Store;
use controller_core::controller::{Pass, StoreOf};
use controller_core::meta::ObjectKey;
use controller_core::rival::undone_total;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::api::scheduling::v1beta1::PodGroup;
use prometheus::{IntCounter, Registry};

use crate::config::Config;
use crate::decide::{Gates, Groups, Known};
use crate::metrics::Creates;
use crate::pod_group::{AlphaPodGroup, GroupVersion};
use crate::view::{
    AlphaPodGroupWire, ClaimIndex, ClaimView, ClaimWire, ClaimantKind, ClaimantView, PodGroupWire, PodWire,
    TemplateView, TemplateWire, in_namespace_of,
};

/// Name of the binary, the Lease and the chart.
pub const NAME: &str = "resourceclaim-controller";

/// The controller; as an [`App`] also its binary.
#[derive(Debug)]
pub struct ResourceClaimController {
    concurrent_syncs: usize,
    /// The gates set by flags.
    asked: Gates,
    /// The gates in effect: those set by flags that the API server supported at startup.
    gates: Gates,
    creates: Creates,
    rival_writes: IntCounter,
}

#[derive(Clone, Debug, Default)]
pub struct Stores {
    /// The pods that use claims.
    pub pods: Store<ClaimantView>,
    pub claims: Store<ClaimView>,
    pub templates: Store<TemplateView>,
    /// The groups; empty if groups do not count.
    pub groups: Store<ClaimantView>,
}

impl ResourceClaimController {
    /// The controller with `gates` in effect. Fails if `registry` already has this controller's metrics.
    pub fn new(config: &Config, gates: Gates, registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            concurrent_syncs: config.concurrent_syncs as usize,
            asked: config.gates(),
            gates,
            creates: Creates::register(registry)?,
            rival_writes: undone_total(registry)?,
        })
    }
}

impl App for ResourceClaimController {
    type Config = Config;

    const ABOUT: About = about!();

    const EXPLAIN: Option<Explain<Self>> = Some(Explain {
        about: "Print the claims of a pod or the users of a claim, what would be done now, and why",
        object: "NAMESPACE/POD|NAMESPACE/CLAIM",
        help: "The pod or the ResourceClaim; both, if there are two of that name",
        settings: &["featureGates"],
        by: Explainer::One(|config: &Config, pass, _, key| explain::explain(pass, config.gates(), key)),
    });

    const PREFLIGHT: Option<Preflight<Self>> = Some(Preflight {
        built_in: BuiltIn {
            alias: None,
            writes: Some(Fields {
                path: "/apis/resource.k8s.io/v1/resourceclaims",
                subresource: "",
                fields: &[
                    "f:metadata",
                    "f:annotations",
                    "f:resource.kubernetes.io/pod-claim-name",
                ],
            }),
            events: Some("resource_claim"),
        },
        shares_work: |_| false,
        rules: include_str!("../../../charts/src/resourceclaim-controller/rules.yaml"),
        rules_of_gates: Some(RulesOfGates {
            rules: include_str!("../../../charts/src/resourceclaim-controller/rules-of-gates.yaml"),
            is_on: Config::is_on,
        }),
    });

    /// What the API server serves decides which stores are filled.
    fn start(config: &Config, pass: &Pass<Self>, registry: &Registry) -> Started<Self> {
        Ok(match gates::supported(config.gates(), pass)? {
            Prepared::Queries(queries) => Prepared::Queries(queries),
            Prepared::Ready(gates) => Prepared::Ready(Self::new(config, gates, registry)),
        })
    }

    fn watch(&self, informers: &mut impl Informers<Self>) {
        informers.fill::<Pod, PodWire>(|stores| &mut stores.pods);
        informers.fill::<ResourceClaim, ClaimWire>(|stores| &mut stores.claims);
        informers.fill::<ResourceClaimTemplate, TemplateWire>(|stores| &mut stores.templates);
        match self.gates.groups {
            Groups::On(GroupVersion::V1Beta1) => {
                informers.fill::<PodGroup, PodGroupWire>(|stores| &mut stores.groups);
            }
            Groups::On(GroupVersion::V1Alpha2) => {
                informers.fill::<AlphaPodGroup, AlphaPodGroupWire>(|stores| &mut stores.groups);
            }
            Groups::Off | Groups::Unserved => {}
        }
    }
}

impl Stores {
    pub(crate) const fn of(&self, kind: ClaimantKind) -> &Store<ClaimantView> {
        match kind {
            ClaimantKind::Pod => &self.pods,
            ClaimantKind::PodGroup(_) => &self.groups,
        }
    }

    pub(crate) fn store_of(kind: ClaimantKind) -> StoreOf<ResourceClaimController, ClaimantView> {
        match kind {
            ClaimantKind::Pod => |stores| &mut stores.pods,
            ClaimantKind::PodGroup(_) => |stores| &mut stores.groups,
        }
    }

    /// The pod of this name, or the group, if groups count.
    pub(crate) fn claimant(&self, kind: ClaimantKind, key: &ObjectKey) -> Option<Arc<ClaimantView>> {
        self.of(kind).get(key)
    }

    /// The group of the pod, if groups count.
    pub(crate) fn group_of(&self, pod: &ClaimantView) -> Option<Arc<ClaimantView>> {
        let group = in_namespace_of(&pod.key, pod.group.as_ref()?);
        self.groups.get(&group)
    }
}

impl Known for Stores {
    fn claim(&self, key: &ObjectKey) -> Option<Arc<ClaimView>> {
        self.claims.get(key)
    }

    fn made_for(&self, owner: &ClaimantView, entry: &str) -> Vec<Arc<ClaimView>> {
        let mut claims = self.claims.by_index(&ClaimIndex::entry(&owner.uid, entry));
        claims.retain(|claim| claim.is_made_for(owner, entry));
        claims
    }

    fn template(&self, key: &ObjectKey) -> Option<Arc<TemplateView>> {
        self.templates.get(key)
    }
}
