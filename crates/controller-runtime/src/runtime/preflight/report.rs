//! The report of `preflight`, as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

/// The findings, and what follows from them. `docs/operations.md` documents the JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreflightReport {
    /// The controller's name.
    pub controller: &'static str,
    /// True if the report is about a dry run.
    pub dry_run: bool,
    /// The worst level of all findings.
    pub verdict: Level,
    /// State of the built-in loop.
    pub built_in_loop: CheckState,
    /// Id of the distribution, such as `kubeadm`; `None` if unknown.
    pub distribution: Option<&'static str>,
    /// All findings, in the order of [`Check`].
    pub findings: Vec<Finding>,
}

/// The finding of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// What the finding means for the controller.
    pub level: Level,
    /// The finding, as a sentence.
    pub text: String,
    /// Observations behind the finding.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// What to do about the finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
}

/// Severity of a finding, in increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Nothing to do.
    Ok,
    /// Worth a look, but does not block.
    Warning,
    /// Matters, but could not be found out.
    Unknown,
    /// Must be fixed first.
    Blocks,
}

/// A check of `preflight`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Check {
    /// The API server's release is supported.
    Version,
    /// This machine's clock agrees with the API server's.
    Clock,
    /// The account has the permissions of the chart.
    Permissions,
    /// The state of the controller's own Lease.
    Lease,
    /// The distribution that set up the cluster.
    Distribution,
    /// The state of the built-in loop.
    BuiltInLoop,
}

/// State of the built-in loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CheckState {
    /// The loop runs in at least one process.
    On,
    /// The loop runs in no process.
    Off,
    /// The evidence does not suffice.
    Unknown,
}

impl Finding {
    /// A finding without evidence.
    pub(super) fn new(check: Check, level: Level, text: impl Into<String>) -> Self {
        Self {
            check,
            level,
            text: text.into(),
            evidence: Vec::new(),
            todo: None,
        }
    }
}

impl PreflightReport {
    /// 0: nothing blocks. 1: something that matters is unknown. 2: something blocks.
    pub const fn exit_code(&self) -> u8 {
        match self.verdict {
            Level::Ok | Level::Warning => 0,
            Level::Unknown => 1,
            Level::Blocks => 2,
        }
    }

    /// The report as text: a line per finding with its evidence and advice below, and a last line with the verdict.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            // Writing to a string cannot fail.
            let _ = line(&mut text, finding);
        }
        let (name, dry_run) = (self.controller, self.dry_run);
        let what = if dry_run {
            "begin its dry run"
        } else {
            "be switched on"
        };
        let _ = match self.verdict {
            Level::Ok | Level::Warning => writeln!(text, "{name} may {what}"),
            Level::Unknown => writeln!(text, "cannot tell whether {name} may {what}"),
            Level::Blocks => writeln!(text, "{name} must not {what} yet"),
        };
        text
    }
}

fn line(text: &mut String, finding: &Finding) -> std::fmt::Result {
    let check = match finding.check {
        Check::Version => "version",
        Check::Clock => "clock",
        Check::Permissions => "permissions",
        Check::Lease => "lease",
        Check::Distribution => "distribution",
        Check::BuiltInLoop => "built-in loop",
    };
    let level = match finding.level {
        Level::Ok => "ok",
        Level::Warning => "warning",
        Level::Unknown => "unknown",
        Level::Blocks => "blocks",
    };
    writeln!(text, "{level:<8} {check}: {}", flat(&finding.text))?;
    for evidence in &finding.evidence {
        writeln!(text, "         seen: {}", flat(evidence))?;
    }
    if let Some(todo) = &finding.todo {
        writeln!(text, "         to do: {}", flat(todo))?;
    }
    Ok(())
}

/// Makes `text` one line, whatever names and messages it holds.
fn flat(text: &str) -> String {
    text.replace(char::is_control, " ")
}
