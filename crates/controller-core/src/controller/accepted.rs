//! The answer to a write that was accepted.

use kube_core::TypeMeta;
use serde::de::Error;

use crate::cache::read_meta;
use crate::meta::Uid;

/// What the answer to an accepted write says about the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The object's uid, if the answer has one.
    pub uid: Option<Uid>,
    /// The object's resourceVersion, if it is a number.
    pub version: Option<u64>,
    /// True if the object has a `deletionTimestamp`.
    pub deleting: bool,
}

impl Accepted {
    /// Reads the body of an answer. The body may also be a `Status`: then it says nothing about the object.
    ///
    /// # Errors
    ///
    /// If the body is neither an object of the API nor a `Status`: then a proxy has written it, and nobody knows whether
    /// the write was carried out.
    pub fn read(body: &[u8]) -> serde_json::Result<Self> {
        let json = String::from_utf8_lossy(body);
        let meta = read_meta(&json)?;
        if meta.uid.is_none() && serde_json::from_str::<TypeMeta>(&json)?.kind != "Status" {
            return Err(Error::custom("the answer is neither an object nor a Status"));
        }
        Ok(Self {
            uid: meta.uid,
            version: meta.resource_version.and_then(|version| version.parse().ok()),
            deleting: meta.is_deleting,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_of_the_object_or_nothing_or_is_none() {
        let about = |uid: Option<&str>, version, deleting| Accepted {
            uid: uid.map(Uid::from),
            version,
            deleting,
        };
        for (body, expected) in [
            (
                &br#"{"metadata":{"uid":"u","resourceVersion":"7"}}"#[..],
                Some(about(Some("u"), Some(7), false)),
            ),
            (
                br#"{"metadata":{"uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z"}}"#,
                Some(about(Some("u"), None, true)),
            ),
            (
                br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#,
                Some(about(None, None, false)),
            ),
            (
                b"{\"metadata\":{\"uid\":\"u\"},\"a\":\"\xff\"}",
                Some(about(Some("u"), None, false)),
            ),
            (br#"{"message":"Sign in to continue"}"#, None),
            (br#"{"kind":"Page","metadata":{"title":"Sign in"}}"#, None),
            (b"<html></html>", None),
            (b"", None),
        ] {
            assert_eq!(Accepted::read(body).ok(), expected);
        }
    }
}
