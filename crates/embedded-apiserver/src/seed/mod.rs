//! Realistic objects in numbers: `node.json` and `pod.json`, with blanks that are different in each.

mod node;
mod pod;
mod template;

pub(super) use node::Nodes;
pub(super) use pod::Pods;
