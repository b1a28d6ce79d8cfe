//! Realistic objects in large numbers, from the templates `node.json` and `pod.json`.

mod node;
mod pod;
mod template;

pub(super) use node::Nodes;
pub(super) use pod::Pods;
