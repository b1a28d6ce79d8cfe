//! The settings of a controller as keys, flags and a schema.

mod property;
mod redact;

pub use self::property::config_schema;
pub(crate) use self::property::{Kind, Property, as_flags, defaults, kebab_case, properties};
pub use self::redact::effective;
pub(crate) use self::redact::redacted;
