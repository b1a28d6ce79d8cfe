//! What `preflight` has found out, as values.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use jiff::{SignedDuration, Timestamp};

use super::BuiltIn;

/// What the API server answered; else why there is no answer: `may not list nodes`.
pub type Read<T> = Result<T, String>;

/// Everything that the decision needs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The controller's name, which the built-in loop has in `--controllers`.
    pub controller: &'static str,
    /// What the built-in loop leaves behind.
    pub built_in: BuiltIn,
    /// Whether the controller is to write nothing.
    pub dry_run: bool,
    /// The release of the API server.
    pub version: Read<Version>,
    /// The minor versions of Kubernetes 1 that the controller is tested with.
    pub supported: RangeInclusive<u32>,
    /// How far this machine's clock is ahead of the API server's, at least; negative if it is behind. None if the API
    /// server does not say its time.
    pub ahead: Option<SignedDuration>,
    /// The API server's time; if it does not say it, this machine's.
    pub now: Timestamp,
    /// Each permission that the controller needs, and whether the account has it.
    pub permissions: Vec<(String, Read<bool>)>,
    /// The nodes of the control plane.
    pub control_plane: Read<Vec<Node>>,
    /// Any node.
    pub some_node: Option<Node>,
    /// Each kube-controller-manager that is seen.
    pub managers: Read<Vec<Manager>>,
    /// The Lease of kube-controller-manager.
    pub manager_lease: Read<Option<Lease>>,
    /// What kube-controller-manager wrote that only the built-in loop writes.
    pub traces: Read<Vec<Trace>>,
    /// The controller's own Lease, in its namespace and, if those may be read, in all others.
    pub leases: Read<Vec<Lease>>,
    /// The namespace in which the controller elects.
    pub lease_namespace: String,
    /// Why the Leases of other namespaces are unknown.
    pub elsewhere: Read<()>,
}

/// A release of Kubernetes.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// Such as `v1.36.3+k3s1`.
    pub release: String,
    /// The minor version; none if the major one is not 1.
    pub minor: Option<u32>,
}

/// What tells a node's role and distribution.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// `spec.providerID`; empty if it has none.
    pub provider_id: String,
}

/// A kube-controller-manager.
#[derive(Clone, Debug, Default)]
pub struct Manager {
    /// For people: `pod kube-system/kube-controller-manager-a`.
    pub name: String,
    /// The node that it is on.
    pub node: String,
    /// Its flag `--controllers`.
    pub controllers: Controllers,
    /// Whether its `/healthz` names the loop; none if that was not read, or the process does not lead.
    pub runs: Option<bool>,
}

/// The flag `--controllers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Controllers {
    /// The flags are not seen.
    #[default]
    Unseen,
    /// The flag is absent, which means `*`.
    Unset,
    /// Its value.
    Set(String),
}

/// A Lease.
#[derive(Clone, Debug, Default)]
pub struct Lease {
    /// Its namespace.
    pub namespace: String,
    /// Who holds it; empty for nobody.
    pub holder: String,
    /// Since when.
    pub acquired: Option<Timestamp>,
    /// When the holder's term ends if it is not renewed.
    pub ends: Option<Timestamp>,
}

/// A sign that the built-in loop was at work.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What is seen, for people.
    pub what: String,
    /// When the loop did it, at the earliest.
    pub at: Timestamp,
}

impl Lease {
    /// Whether somebody holds it at this moment.
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
    /// The flags among the words of a command line, which may have been one string for a shell. A repeated flag appends.
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

    /// The flag that k3s gives, by the arguments of k3s itself. `controllers=` replaces k3s' own value, `controllers+=` and
    /// `controllers-=` keep it, which begins with `*`. Source: k3s, `pkg/daemons/config`, `GetArgs`.
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

    /// Whether it switches on the loop of this name, which is on by default; none if it is not seen. Source:
    /// `k8s.io/controller-manager/app`, `IsControllerEnabled`.
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
