//! `ttl-controller explain [NODE]`: what the controller would do now, and why, without doing it.

use controller_core::controller::{Explained, Pass};
use controller_core::runtime::Failure;

use crate::TtlController;
use crate::decide::{Step, first_step, plan};
use crate::requests::{Listing, Question, listing};
use crate::view::NodeView;

/// Explains `only` one node, or all, once they are listed.
pub fn explain(pass: &Pass<TtlController>, only: Option<&str>) -> Result<Explained<Question>, Failure> {
    match listing(pass) {
        Listing::Asks(question) => Ok(Explained::Ask(vec![question])),
        Listing::Failed(failed) => Err(failed.clone().into()),
        Listing::Complete(nodes) => Ok(Explained::Text(explanation(&nodes, only)?)),
    }
}

fn explanation(nodes: &[&NodeView], only: Option<&str>) -> Result<String, String> {
    let step = first_step(nodes.iter().map(|node| &node.annotation), Step::default());
    let count = nodes.len();
    let is_wanted = |node: &&&NodeView| only.is_none_or(|name| *name == *node.key.name);
    let shown: Vec<_> = nodes.iter().filter(is_wanted).collect();
    if let (Some(node), true) = (only, shown.is_empty()) {
        return Err(format!("no node {node:?} among the {count} nodes of the cluster"));
    }
    let boundary = step.boundary();
    let most = match boundary.size_max {
        max if max == i32::MAX as usize => "or more".to_owned(),
        max => format!("to {max}"),
    };
    let wanted = boundary.ttl_seconds;
    let head = format!(
        "{count} nodes: step {} ({} {most} nodes), so every node should carry {wanted} s\n",
        step.number(),
        boundary.size_min,
    );
    let names = shown.iter().map(|node| node.key.name.len());
    let width = names.max().unwrap_or(0).max("NODE".len());
    let titles = format!("{:width$}  {:>8}  {:>6}  WOULD\n", "NODE", "PRESENT", "WANTED");
    let rows = shown.iter().map(|node| {
        let would = plan(node, Some(wanted)).map_or("leave it", |_| "write it");
        let present = node.annotation.to_string();
        format!("{:width$}  {present:>8}  {wanted:>6}  {would}\n", node.key.name)
    });
    Ok([head, titles].into_iter().chain(rows).collect())
}
