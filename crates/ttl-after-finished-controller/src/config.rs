//! This controller's flags, environment variables and configuration keys.

use controller_core::config::{CommonConfig, ControllerConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
}

impl Default for Config {
    fn default() -> Self {
        Self {
            common: CommonConfig::default(),
            concurrent_syncs: 5,
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
}
