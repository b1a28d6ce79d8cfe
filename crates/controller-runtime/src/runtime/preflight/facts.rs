//! The facts that `preflight` collects, as values.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use jiff::{SignedDuration, Timestamp};

use controller_core::app::BuiltIn;

/// The API server's answer, else why there is none: `may not list nodes`.
pub type Read<T> = Result<T, String>;

/// All facts that the decision needs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The controller's name, also the built-in loop's name in `--controllers`.
    pub controller: &'static str,
    /// The built-in loop, by what it leaves behind.
    pub built_in: BuiltIn,
    /// True if the controller leaves a part of the work to the built-in loop.
    pub shares_work: bool,
    /// True if the controller will write nothing.
    pub dry_run: bool,
    /// The release of the API server.
    pub version: Read<Version>,
    /// The minor versions of Kubernetes 1 that the controller is tested with.
    pub supported: RangeInclusive<u32>,
    /// Lower bound of how far this machine's clock is ahead of the API server's; negative if it is behind. `None` if
    /// the API server sends no time.
    pub ahead: Option<SignedDuration>,
    /// The API server's time; if it sends none, this machine's.
    pub now: Timestamp,
    /// Each permission that the controller needs, and whether the account has it.
    pub permissions: Vec<(String, Read<bool>)>,
    /// The nodes of the control plane.
    pub control_plane: Read<Vec<Node>>,
    /// Some node, if the account sees any.
    pub some_node: Option<Node>,
    /// The kube-controller-managers that the account sees.
    pub managers: Read<Vec<Manager>>,
    /// The Lease of kube-controller-manager.
    pub manager_lease: Read<Option<Lease>>,
    /// Writes of kube-controller-manager that only the built-in loop makes.
    pub traces: Read<Vec<Trace>>,
    /// The controller's own Lease, in its namespace and, if readable, in all others.
    pub leases: Read<Vec<Lease>>,
    /// The namespace of the controller's Lease.
    pub lease_namespace: String,
    /// An error if the Leases of other namespaces are unknown.
    pub elsewhere: Read<()>,
}

/// A release of Kubernetes.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// Such as `v1.36.3+k3s1`.
    pub release: String,
    /// The minor version; `None` if the major version is not 1.
    pub minor: Option<u32>,
}

/// The parts of a node that show its role and distribution.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.providerID`; may be empty.
    pub provider_id: String,
}

/// A kube-controller-manager process.
#[derive(Clone, Debug, Default)]
pub struct Manager {
    /// Name for the report: `pod kube-system/kube-controller-manager-a`.
    pub name: String,
    /// The node that it runs on.
    pub node: String,
    /// Its flag `--controllers`.
    pub controllers: Controllers,
    /// Whether its `/healthz` names the loop; `None` if that was not read, or the process does not lead.
    pub runs: Option<bool>,
}

/// The flag `--controllers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Controllers {
    /// The flags are not visible.
    #[default]
    Unseen,
    /// The flag is absent, which means `*`.
    Unset,
    /// The value of the flag.
    Set(String),
}

/// A Lease of leader election.
#[derive(Clone, Debug, Default)]
pub struct Lease {
    /// `metadata.namespace`.
    pub namespace: String,
    /// The holder; empty if nobody holds the Lease.
    pub holder: String,
    /// Start of the holder's term.
    pub acquired: Option<Timestamp>,
    /// End of the holder's term unless it is renewed.
    pub ends: Option<Timestamp>,
}

/// A sign that the built-in loop was at work.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What was seen, for the report.
    pub what: String,
    /// Earliest time at which the loop did it.
    pub at: Timestamp,
}

impl Lease {
    /// Returns whether somebody holds the Lease at `now`.
    pub fn is_held(&self, now: Timestamp) -> bool {
        !self.holder.is_empty() && self.ends.is_some_and(|end| end > now)
    }

    /// The host of the holder: kube-controller-manager's identity is `<host>_<uuid>`.
    pub fn host(&self) -> &str {
        self.holder
            .rsplit_once('_')
            .map_or(&*self.holder, |(host, _)| host)
    }
}

impl Controllers {
    /// Reads the flag from a command line, whose words may be in one string for a shell. A repeated flag appends.
    pub fn of_command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let words = arguments.into_iter().flat_map(str::split_whitespace);
        let bare = |word: &'a str| word.trim_matches(['"', '\'']);
        let mut words = words.map(bare);
        let (mut has_flags, mut values) = (false, Vec::new());
        while let Some(word) = words.next() {
            has_flags |= word.starts_with("--");
            match word.strip_prefix("--controllers") {
                Some("") => values.extend(words.next()),
                Some(value) => values.extend(value.strip_prefix('=').map(bare)),
                None => {}
            }
        }
        match (has_flags, &*values) {
            (false, _) => Self::Unseen,
            (true, []) => Self::Unset,
            (true, values) => Self::Set(values.join(",")),
        }
    }

    /// Reads the flag that k3s passes, from the arguments of k3s itself. `controllers=` replaces k3s' own value;
    /// `controllers+=` and `controllers-=` keep it, and it begins with `*`. Source: k3s, `pkg/daemons/config`,
    /// `GetArgs`.
    pub fn of_k3s(arguments: &[String]) -> Self {
        let values = arguments.iter().filter_map(|argument| {
            let argument = argument
                .strip_prefix("--kube-controller-manager-arg=")
                .unwrap_or(argument);
            argument
                .strip_prefix("--")
                .unwrap_or(argument)
                .strip_prefix("controllers")
        });
        let mut list = Vec::new();
        for value in values {
            let Some((sign, value)) = value.split_once('=') else {
                continue;
            };
            if list.is_empty() && !sign.is_empty() {
                list.push("*");
            }
            list.push(value);
        }
        if list.is_empty() {
            Self::Unset
        } else {
            Self::Set(list.join(","))
        }
    }

    /// Returns whether the flag switches on the loop of this name, which is on by default; `None` if the flag is
    /// unseen. Source: `k8s.io/controller-manager/app`, `IsControllerEnabled`.
    pub fn enables(&self, name: &str, alias: Option<&str>) -> Option<bool> {
        let list = match self {
            Self::Unseen => return None,
            Self::Unset => "*",
            Self::Set(list) => list,
        };
        let mut words = list.split(',').map(str::trim);
        let is_it = |word: &str| word == name || Some(word) == alias;
        let named = words.clone().find_map(|word| match word.strip_prefix('-') {
            Some(word) => is_it(word).then_some(false),
            None => is_it(word).then_some(true),
        });
        Some(named.unwrap_or_else(|| words.any(|word| word == "*")))
    }
}
