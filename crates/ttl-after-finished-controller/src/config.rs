//! This controller's flags, environment variables and configuration keys.

use std::time::Duration;

use controller_core::config::{CommonConfig, ControllerConfig, FieldError, GoDuration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::{FinishedKind, Policies, PolicyList};

/// Settings of the ttl-after-finished-controller.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// What every controller has.
    #[serde(flatten)]
    pub common: CommonConfig,
    /// Jobs processed at the same time.
    #[schemars(range(min = 1, max = 1000))]
    pub concurrent_syncs: u32,
    /// Delete by policies alone: leave Jobs with a ttl to the cluster's own loop, which keeps running next to this one.
    pub only_policies: bool,
    /// How long a policy must have applied to an object before it deletes the object: since the start, or since a change
    /// of the policies or of the object's or its namespace's labels.
    pub policy_grace_period: GoDuration,
    /// Clean-up policies for finished Jobs and pods; the first that selects an object counts. Only in the config file,
    /// which is read again when it changes.
    pub policies: PolicyList,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            common: CommonConfig::default(),
            concurrent_syncs: 5,
            only_policies: false,
            policy_grace_period: GoDuration::from_secs(3_600),
            policies: PolicyList::default(),
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

    fn validate(&self) -> Vec<FieldError> {
        let problems = self.policies.compile(Duration::ZERO).err().unwrap_or_default();
        let problems = problems.into_iter();
        problems
            .map(|problem| FieldError::new("policies", problem))
            .collect()
    }
}

impl Config {
    /// The policies; none if they are wrong, which `validate` has refused.
    pub fn compiled(&self) -> Policies {
        self.policies
            .compile(self.policy_grace_period.get())
            .unwrap_or_default()
    }

    /// True if policies may delete.
    pub fn has_policies(&self) -> bool {
        self.only_policies || !self.policies.0.is_empty()
    }

    /// Whether the permissions of this part of the config are needed.
    pub(crate) fn needs(&self, part: &str) -> bool {
        match part {
            "policies" => self.has_policies(),
            "pods" => self.compiled().name(FinishedKind::Pod),
            _ => false,
        }
    }
}
