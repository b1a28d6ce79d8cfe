//! Nodes as kubelets of a managed cluster report them.

use bytes::Bytes;

use super::template::{Template, address};
use crate::object::uid;

/// Renders ready nodes, about 5 KB of JSON each.
#[derive(Debug)]
pub(crate) struct Nodes(Template);

impl Nodes {
    pub(crate) fn new() -> Self {
        Self(Template::parse(include_str!("node.json")))
    }

    /// The stored form of the node `node-<number>`.
    pub(crate) fn node(&self, number: usize, identity: u64, version: u64, now: &str) -> Bytes {
        self.0.fill(&[
            ("name", format!("node-{number}")),
            ("uid", uid(identity)),
            ("version", version.to_string()),
            ("now", now.to_owned()),
            ("address", address(10, number)),
            ("zone", ["a", "b", "c"][number % 3].to_owned()),
            ("number", format!("{number:012x}")),
        ])
    }
}
