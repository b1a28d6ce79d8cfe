//! The structs of Kubernetes as protobuf messages.

use super::{KUBERNETES, Kind};

/// A message: its fields, by number.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) fields: Vec<Numbered>,
}

#[derive(Debug)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    /// Name in JSON; `None` for an inlined struct.
    pub(crate) name: Option<String>,
    pub(crate) kind: Kind,
    /// Written only if set, then even if empty.
    pub(crate) is_pointer: bool,
}

impl Message {
    /// The message of a kind; `None` if the kind is unknown or has no protobuf form.
    pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Self> {
        let name = KUBERNETES.message_of.get(&*format!("{api_version} {kind}"))?;
        Self::named(name).filter(|of| !of.fields.is_empty())
    }

    /// The message of a Go type.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        KUBERNETES.messages.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CUSTOM_RESOURCE_DEFINITIONS, OFF_BY_DEFAULT, SERVED};

    #[test]
    fn every_kind_that_is_served_has_a_message_but_for_definitions() {
        let kinds = SERVED.iter().chain(OFF_BY_DEFAULT);
        let without: Vec<_> = kinds
            .filter(|of| Message::of_kind(&of.api_version(), of.kind).is_none())
            .map(|of| of.kind)
            .collect();
        assert_eq!(without, [CUSTOM_RESOURCE_DEFINITIONS.kind]);
    }
}
