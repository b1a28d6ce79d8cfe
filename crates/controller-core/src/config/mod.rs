//! The settings that all controllers share, and the trait for a controller's own settings.
//!
//! A controller declares one struct, whose fields are the keys of the config file. From the same fields [`crate::args`]
//! builds the flags, the environment variables and the help, and [`config_schema`] the JSON Schema:
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
//! }
//! ```

mod duration;
mod log_filter;
mod property;
mod redact;
mod settings;

pub use self::duration::GoDuration;
pub use self::log_filter::BadLogFilter;
pub(crate) use self::log_filter::log_filter;
pub use self::property::config_schema;
pub(crate) use self::property::{Kind, Property, defaults, kebab_case, properties};
pub use self::redact::effective;
pub(crate) use self::redact::{as_flags, redacted};
pub use self::settings::{
    CommonConfig, ControllerConfig, Encoding, FieldError, LogFormat, MetricsAuthorization,
};
