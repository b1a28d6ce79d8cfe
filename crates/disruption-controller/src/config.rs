//! This controller's flags, environment variables and configuration keys.

use controller_core::config::{CommonConfig, ControllerConfig, FieldError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the disruption-controller.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// What every controller has.
    #[serde(flatten)]
    pub common: CommonConfig,
    /// `PodDisruptionBudgets` that are computed at the same time, each by one worker.
    pub concurrent_syncs: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            common: CommonConfig::default(),
            concurrent_syncs: 16,
        }
    }
}

impl ControllerConfig for Config {
    fn common(&self) -> &CommonConfig {
        &self.common
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !(1..=1000).contains(&self.concurrent_syncs) {
            let problem = format!("{} is out of range: 1 to 1000", self.concurrent_syncs);
            errors.push(FieldError::new("concurrentSyncs", problem));
        }
        errors
    }
}
