//! The structs of Kubernetes as messages of protobuf.

use super::{KUBERNETES, Kind};

/// The fields of a message, in the order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) fields: Vec<Numbered>,
}

#[derive(Debug)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    /// Its name in JSON; none where its own fields stand in its place.
    pub(crate) name: Option<String>,
    pub(crate) kind: Kind,
    /// Written only where it is given, and then even when it is empty.
    pub(crate) is_pointer: bool,
}

impl Message {
    /// The message of a kind; none where it is not known, or known in JSON alone.
    pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Self> {
        let name = KUBERNETES.message_of.get(&*format!("{api_version} {kind}"))?;
        Self::named(name).filter(|of| !of.fields.is_empty())
    }

    /// A message by its own name, which is that of its Go type.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        KUBERNETES.messages.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ALPHA, CUSTOM_RESOURCE_DEFINITIONS, SERVED};

    #[test]
    fn every_kind_that_is_served_has_a_message_but_for_definitions() {
        let kinds = SERVED.iter().chain(ALPHA);
        let without: Vec<_> = kinds
            .filter(|of| Message::of_kind(&of.api_version(), of.kind).is_none())
            .map(|of| of.kind)
            .collect();
        assert_eq!(without, [CUSTOM_RESOURCE_DEFINITIONS.kind]);
    }
}
