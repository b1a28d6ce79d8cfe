//! Answers to reads past the watch: objects and pages, in either encoding.

use std::fmt;

use super::encoding::ListPage;
use super::event::Versioned;
use super::guard::{Lenient, Presence};
use super::protobuf;
use super::view::Wire;
use crate::config::Encoding;
use crate::error::Chain;

/// A page of a list that was read past the watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<V> {
    /// The objects of the page, without those that are not kept or cannot be decoded.
    pub items: Vec<Versioned<V>>,
    /// Continues the list, if there is more of it.
    pub token: Option<String>,
}

impl<V> Page<V> {
    /// Reads the body of an answer, in either encoding; each object as an informer of `W` does.
    pub fn read<W: Wire<View = V>>(body: &[u8]) -> serde_json::Result<Self> {
        let page: ListPage<W> = encoding_of(body).page(body).map_err(unreadable)?;
        let observed = page.items.into_iter().map(Lenient::observed);
        let kept = observed.filter_map(|presence| match presence {
            Ok(Presence::Kept(observed)) => Some(observed),
            Ok(Presence::NotKept(_)) | Err(_) => None,
        });
        Ok(Self {
            items: kept.collect(),
            token: page.token,
        })
    }

    /// What continues the list, read without decoding the objects; `None` also where that would take long, as in JSON.
    pub fn token_of(body: &[u8]) -> Option<String> {
        let list = protobuf::is_enveloped(body).then(|| protobuf::read_list(body).ok())??;
        list.token
    }
}

impl<V> Versioned<V> {
    /// Reads the body of an answer, in either encoding, as an informer of `W` does; `None` if the object is not kept.
    pub fn read<W: Wire<View = V>>(body: &[u8]) -> serde_json::Result<Option<Self>> {
        match lenient::<W>(body)?.observed() {
            Ok(Presence::Kept(observed)) => Ok(Some(observed)),
            Ok(Presence::NotKept(_)) => Ok(None),
            Err(skipped) => Err(unreadable(skipped.error)),
        }
    }

    /// Like [`read`](Self::read), but also reads an object that is not kept.
    pub fn read_any<W: Wire<View = V>>(body: &[u8]) -> serde_json::Result<Self> {
        lenient::<W>(body)?
            .decoded()
            .map_err(|error| unreadable(Chain(&error)))
    }
}

fn lenient<W: Wire>(body: &[u8]) -> serde_json::Result<Lenient<W>> {
    match encoding_of(body) {
        Encoding::Json => serde_json::from_slice(body),
        Encoding::Protobuf => protobuf::unwrapped(body)
            .map(Lenient::read_protobuf)
            .map_err(unreadable),
    }
}

fn encoding_of(body: &[u8]) -> Encoding {
    if protobuf::is_enveloped(body) {
        Encoding::Protobuf
    } else {
        Encoding::Json
    }
}

fn unreadable(why: impl fmt::Display) -> serde_json::Error {
    serde::de::Error::custom(why)
}
