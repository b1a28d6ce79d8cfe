//! Realistic objects in numbers.

mod node;
mod pod;
mod template;

pub(super) use node::node;
pub(super) use pod::Pods;
