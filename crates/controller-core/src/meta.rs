//! Object keys, UIDs and owner references: small, cheap to clone and to hash.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};
use uuid::Uuid;

/// Identifies an object: its namespace (none for a cluster-scoped kind) and its name.
///
/// Orders by namespace, then name. Prints as `namespace/name` or `name`, as client-go's cache keys do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace; `None` for a cluster-scoped object.
    pub namespace: Option<Arc<str>>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// `metadata.uid`: tells an object from a later one of the same name.
///
/// Holds any text and prints as that text. A UUID in lower case, which is what the API server makes, takes no memory
/// besides the value's own 24 bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(UidForm);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum UidForm {
    Uuid(Uuid),
    Text(Arc<str>),
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerRef {
    /// `apiVersion`, for example `apps/v1`.
    pub api_version: Arc<str>,
    /// `kind`.
    pub kind: Arc<str>,
    /// `name`; the owner is in the namespace of the object that holds the reference.
    pub name: Arc<str>,
    /// `uid`.
    pub uid: Uid,
    /// `controller: true`: this owner manages the object.
    pub controller: bool,
}

impl ObjectKey {
    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// The key of an object in `namespace`.
    pub fn namespaced(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// Parses `NAMESPACE/NAME`, as a person types it.
    pub fn parse_namespaced(text: &str) -> Result<Self, NotNamespaced> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self::namespaced(namespace, name))
            }
            _ => Err(NotNamespaced),
        }
    }
}

/// A text is not `NAMESPACE/NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected NAMESPACE/NAME")]
pub struct NotNamespaced;

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let canonical = |uuid: &Uuid| *text == *uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer());
        Self(match Uuid::try_parse(text).ok().filter(canonical) {
            Some(uuid) => UidForm::Uuid(uuid),
            None => UidForm::Text(text.into()),
        })
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_text(deserializer, |text| Self::from(text))
    }
}

/// Deserializes a string through `make`, without a copy of the text.
pub(crate) fn read_text<'de, D, T>(deserializer: D, make: impl FnOnce(&str) -> T) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    struct Text<F, T>(F, PhantomData<T>);

    impl<F: FnOnce(&str) -> T, T> Visitor<'_> for Text<F, T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            Ok((self.0)(text))
        }
    }

    deserializer.deserialize_str(Text(make, PhantomData))
}

impl Default for Uid {
    /// The empty text.
    fn default() -> Self {
        Self::from("")
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidForm::Uuid(uuid) => uuid.hyphenated().fmt(f),
            UidForm::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Uid").field(&self.to_string()).finish()
    }
}

/// Returns whether an object may have this name. Source: RFC 1123, as Kubernetes reads it for the names of most
/// objects.
pub fn is_dns_subdomain(name: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|label| {
            label.starts_with(alphanumeric)
                && label.ends_with(alphanumeric)
                && label.chars().all(|c| alphanumeric(c) || c == '-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_typed_as_namespace_and_name() {
        let parsed = ObjectKey::parse_namespaced("ns/name");
        assert_eq!(parsed, Ok(ObjectKey::namespaced("ns", "name")));
        for text in ["", "name", "/name", "ns/", "a/b/c"] {
            assert_eq!(ObjectKey::parse_namespaced(text), Err(NotNamespaced), "{text:?}");
        }
    }

    #[test]
    fn a_uid_prints_as_it_was_read_and_is_equal_to_no_other() {
        let texts = [
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            "6BA7B810-9DAD-11D1-80B4-00C04FD430C8",
            "6ba7b8109dad11d180b400c04fd430c8",
            "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}",
            "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c9",
            "uid-1",
            "",
        ];
        for (i, text) in texts.iter().enumerate() {
            let uid = Uid::from(*text);
            assert_eq!(uid.to_string(), *text);
            for (j, other) in texts.iter().enumerate() {
                assert_eq!(uid == Uid::from(*other), i == j, "{text:?} and {other:?}");
            }
        }
    }
}
