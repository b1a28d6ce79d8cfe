//! What `preflight` reports, as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

/// The findings, and what follows from them. Its JSON is documented in `docs/operations.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The controller's name.
    pub controller: &'static str,
    /// Whether the question was about a dry run.
    pub dry_run: bool,
    /// The gravest level of all findings.
    pub verdict: Level,
    /// The built-in loop.
    pub built_in_loop: State,
    /// Id of the distribution, such as `kubeadm`; none if it is unknown.
    pub distribution: Option<&'static str>,
    /// All of them, in the order of [`Check`].
    pub findings: Vec<Finding>,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What was checked.
    pub check: Check,
    /// What it means for the controller.
    pub level: Level,
    /// What was found, as a sentence.
    pub text: String,
    /// What it was concluded from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth a look, and not in the way.
    Warning,
    /// It matters, and could not be found out.
    Unknown,
    /// In the way.
    Blocks,
}

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Check {
    /// The API server's release.
    Version,
    /// This machine's clock.
    Clock,
    /// The permissions of the account.
    Permissions,
    /// The controller's own Lease.
    Lease,
    /// The distribution.
    Distribution,
    /// The built-in loop.
    BuiltInLoop,
}

/// Whether the built-in loop works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It does, in one process at least.
    On,
    /// It does in none.
    Off,
    /// The evidence is not enough.
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

impl Report {
    /// 0: nothing is in the way. 1: something that matters is unknown. 2: something blocks.
    pub const fn exit_code(&self) -> u8 {
        match self.verdict {
            Level::Ok | Level::Warning => 0,
            Level::Unknown => 1,
            Level::Blocks => 2,
        }
    }

    /// For people: a line a finding, its evidence and what to do below it, and a last line with the verdict.
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

/// On one line, whatever names and messages hold.
fn flat(text: &str) -> String {
    text.replace(char::is_control, " ")
}
