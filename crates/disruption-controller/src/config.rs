//! This controller's flags, environment variables and configuration keys.

use std::collections::BTreeSet;

use controller_core::config::{CommonConfig, ControllerConfig, FieldError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decide::{GroupKind, OwnerRules};

/// The settings that count for `explain` and `blockers`, too.
pub(crate) const OWNERS: &[&str] = &["ownerChain", "scaleLessOwners"];

/// Settings of the disruption-controller.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// What every controller has.
    #[serde(flatten)]
    pub common: CommonConfig,
    /// `PodDisruptionBudgets` processed at the same time.
    #[schemars(range(min = 1, max = 1000))]
    pub concurrent_syncs: u32,
    /// Write nothing, take no Lease and send no events: only count what blocks drains, next to the cluster's own
    /// disruption controller.
    pub observe: bool,
    /// Where the controller of a pod has no scale, take that of the first owner above it that has one, in at most 5 steps.
    /// Takes the permission to get each kind on the way.
    pub owner_chain: bool,
    /// Kinds without a scale, as Kind.group, separated by commas: their pods that exist are expected.
    #[schemars(extend("format" = "Kind.group,…"))]
    pub scale_less_owners: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            common: CommonConfig::default(),
            concurrent_syncs: 16,
            observe: false,
            owner_chain: false,
            scale_less_owners: None,
        }
    }
}

impl ControllerConfig for Config {
    fn common(&self) -> &CommonConfig {
        &self.common
    }

    fn common_mut(&mut self) -> &mut CommonConfig {
        &mut self.common
    }

    fn is_dry_run(&self) -> bool {
        self.common.dry_run || self.observe
    }

    fn validate(&self) -> Vec<FieldError> {
        self.scale_less().err().into_iter().collect()
    }
}

impl Config {
    /// What counts for pods whose controller has no scale. The settings are valid.
    pub fn owner_rules(&self) -> OwnerRules {
        OwnerRules {
            chain: self.owner_chain,
            scale_less: self.scale_less().unwrap_or_default(),
        }
    }

    fn scale_less(&self) -> Result<BTreeSet<GroupKind>, FieldError> {
        let kinds = self.scale_less_owners.iter().flat_map(|kinds| kinds.split(','));
        let kinds = kinds.map(str::trim).filter(|kind| !kind.is_empty());
        let parsed = kinds.map(|kind| {
            kind.parse().map_err(|problem| {
                FieldError::new("scaleLessOwners", format!("invalid value {kind:?}: {problem}"))
            })
        });
        parsed.collect()
    }
}
