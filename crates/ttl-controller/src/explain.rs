//! `ttl-controller explain [NODE]`: what the controller would do now, and why. Writes nothing.

use controller_core::app::{Explanation, Prepared};
use controller_core::controller::Pass;

use crate::TtlController;
use crate::decide::{Step, first_step, plan};
use crate::requests::listing;
use crate::view::NodeView;

/// Explains the node `only`, or all nodes, once they are listed.
pub fn explain(pass: &Pass<TtlController>, only: Option<&str>) -> Explanation<TtlController> {
    Ok(match listing(pass)? {
        Prepared::Queries(queries) => Prepared::Queries(queries),
        Prepared::Ready(nodes) => Prepared::Ready(explanation(nodes, only)?),
    })
}

fn explanation(mut nodes: Vec<&NodeView>, only: Option<&str>) -> Result<String, String> {
    let step = first_step(nodes.iter().map(|node| &node.annotation), Step::default());
    let count = nodes.len();
    nodes.retain(|node| only.is_none_or(|name| *name == *node.key.name));
    if let (Some(node), true) = (only, nodes.is_empty()) {
        return Err(format!("no node {node:?} among the {count} nodes of the cluster"));
    }
    let (least, most, wanted) = (step.nodes().start(), *step.nodes().end(), step.ttl_seconds());
    let most = match most {
        max if max == i32::MAX as usize => "or more".to_owned(),
        max => format!("to {max}"),
    };
    let head = format!(
        "{count} nodes: step {} ({least} {most} nodes), so every node should carry {wanted} s\n",
        step.number(),
    );
    let names = nodes.iter().map(|node| node.key.name.len());
    let width = names.fold("NODE".len(), usize::max);
    let titles = format!("{:width$}  {:>8}  {:>6}  WOULD\n", "NODE", "PRESENT", "WANTED");
    let rows = nodes.iter().map(|node| {
        let would = plan(node, Some(wanted)).map_or("leave it", |_| "write it");
        let present = node.annotation.to_string();
        format!("{:width$}  {present:>8}  {wanted:>6}  {would}\n", node.key.name)
    });
    Ok([head, titles].into_iter().chain(rows).collect())
}
