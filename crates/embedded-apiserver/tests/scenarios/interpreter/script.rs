//! What a transcript says.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::check::Check;
use super::value::Expr;
use crate::twin::Setting;

#[derive(Debug)]
pub(super) struct Transcript {
    pub(super) setting: Setting,
    pub(super) lets: Vec<Step>,
    pub(super) scenarios: Vec<Script>,
}

#[derive(Debug)]
pub(super) struct Script {
    pub(super) name: String,
    /// The first minor version of Kubernetes that passes.
    pub(super) since: u32,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) act: Act,
}

#[derive(Debug)]
pub(super) enum Act {
    Let(String, Expr),
    Ask(Request, Option<Answer>),
    Watch {
        request: Request,
        since: Option<Expr>,
        name: String,
    },
    Tells {
        watch: String,
        kind: Expr,
        checks: Vec<Check>,
    },
    IsSilent(String),
    Ends(String),
    CatchUp(Expr),
    Check(Expr, Vec<Check>),
    ForEach {
        names: Vec<String>,
        rows: Rows,
        steps: Vec<Step>,
    },
    Do(Expr, Arc<Procedure>),
}

/// Steps that scenarios of a file share.
#[derive(Debug)]
pub(super) struct Procedure {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) parameters: Vec<String>,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) user: Expr,
    pub(super) method: Expr,
    pub(super) path: Expr,
    pub(super) headers: BTreeMap<String, Expr>,
    pub(super) body: Option<Expr>,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) line: usize,
    pub(super) text: String,
    /// Repeat the request until the answer is as expected.
    pub(super) until: bool,
    pub(super) codes: Vec<Expr>,
    pub(super) headers: BTreeMap<String, Expr>,
    pub(super) checks: Vec<Check>,
    /// The request is answered with the same in protobuf.
    pub(super) in_protobuf: bool,
}

#[derive(Debug)]
pub(super) enum Rows {
    Table(Vec<Vec<Expr>>),
    List(Expr),
}
