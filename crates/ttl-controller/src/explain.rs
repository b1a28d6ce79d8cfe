//! `ttl-controller explain [NODE]`: what the controller would do now, and why, without doing it.

use std::fmt;

use crate::decide::{Plan, Step, first_step, plan};
use crate::view::NodeView;

/// The answer, ready to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    nodes: usize,
    step: Step,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    node: String,
    present: String,
    plan: Plan,
}

/// There is no node of that name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no node {node:?} among the {nodes} nodes of the cluster")]
pub struct NoSuchNode {
    node: String,
    nodes: usize,
}

/// Explains `only` one node, or all.
pub fn explain(nodes: &[NodeView], only: Option<&str>) -> Result<Explanation, NoSuchNode> {
    let step = first_step(nodes.iter().map(|node| &node.annotation), Step::default());
    let rows: Vec<Row> = nodes
        .iter()
        .filter(|node| only.is_none_or(|name| name == &*node.key.name))
        .map(|node| Row {
            node: node.key.to_string(),
            present: node.annotation.to_string(),
            plan: plan(node, step.desired_ttl_seconds()),
        })
        .collect();
    match only {
        Some(node) if rows.is_empty() => Err(NoSuchNode {
            node: node.to_owned(),
            nodes: nodes.len(),
        }),
        _ => Ok(Explanation {
            nodes: nodes.len(),
            step,
            rows,
        }),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let boundary = self.step.boundary();
        let most = match boundary.size_max {
            max if max == i32::MAX as usize => "or more".to_owned(),
            max => format!("to {max}"),
        };
        writeln!(
            f,
            "{} nodes: step {} ({} {most} nodes), so every node should carry {} s",
            self.nodes,
            self.step.number(),
            boundary.size_min,
            boundary.ttl_seconds,
        )?;
        let width = self
            .rows
            .iter()
            .map(|row| row.node.len())
            .max()
            .unwrap_or(0)
            .max("NODE".len());
        writeln!(f, "{:width$}  {:>8}  {:>6}  WOULD", "NODE", "PRESENT", "WANTED")?;
        for row in &self.rows {
            let would = match &row.plan {
                Plan::Nothing => "leave it",
                Plan::Annotate { .. } => "write it",
                Plan::Remove { .. } => "take it off",
            };
            let wanted = boundary.ttl_seconds;
            writeln!(f, "{:width$}  {:>8}  {wanted:>6}  {would}", row.node, row.present)?;
        }
        Ok(())
    }
}
