//! The settings that all controllers share, and the trait for a controller's own settings.
//!
//! A controller declares one struct, whose fields are the keys of the config file. From the same fields the runtime
//! builds the flags, the environment variables, the help and the JSON Schema:
//!
//! ```
//! use controller_core::config::{CommonConfig, ControllerConfig};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! /// Settings of the example controller.
//! #[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
//! #[serde(rename_all = "camelCase", default)]
//! struct ExampleConfig {
//!     #[serde(flatten)]
//!     common: CommonConfig,
//!     /// Take the annotation away instead of setting it.
//!     remove: bool,
//! }
//!
//! impl ControllerConfig for ExampleConfig {
//!     fn common(&self) -> &CommonConfig {
//!         &self.common
//!     }
//!
//!     fn common_mut(&mut self) -> &mut CommonConfig {
//!         &mut self.common
//!     }
//! }
//! ```

mod duration;
mod log_filter;
mod settings;

pub use self::duration::GoDuration;
pub use self::log_filter::{BadLogFilter, log_filter};
pub use self::settings::{
    CommonConfig, ControllerConfig, Encoding, FieldError, LogFormat, MetricsAuthorization,
};
