//! Pods whose controller has no scale: an owner further up may have one, or the pods that exist count.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-19 | `scale_under` | `tests/decide_table/owner_chains.rs::the_first_owner_with_a_scale_counts` |
//! | DIS-20 | `scale_under` | `tests/decide_table/owner_chains.rs::the_pods_of_a_named_kind_are_counted` |

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use controller_core::meta::OwnerRef;

use crate::decide::failure::{Cause, SyncFailure};
use crate::decide::scale::{Builtin, Scale};

/// Most steps from the controller of a pod upwards.
pub const MOST_STEPS: usize = 5;

/// What counts for pods whose controller has no scale.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerRules {
    /// The first owner with a scale, from the controller upwards.
    pub chain: bool,
    /// The pods of these kinds, as many as exist.
    pub scale_less: BTreeSet<GroupKind>,
}

/// A kind of any version, such as `VirtualMachineInstance.kubevirt.io`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    kind: String,
    /// Empty for the core group.
    group: String,
}

/// The result of a read of the controller of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Above {
    Controller(Arc<OwnerRef>),
    /// Nothing controls the owner.
    Nothing,
    /// No such owner.
    NotFound,
    Failed(SyncFailure),
}

impl OwnerRules {
    fn counts_pods_of(&self, owner: &OwnerRef) -> Option<&GroupKind> {
        self.scale_less.iter().find(|kind| kind.is_of(owner))
    }
}

/// The scale of `owner`, the controller of a pod, under these rules. `scale` finds that of one object, `above` its
/// controller; an error of either is the query to send first.
pub fn scale_under<Q>(
    owner: &Arc<OwnerRef>,
    rules: &OwnerRules,
    scale: impl Fn(&OwnerRef) -> Result<Scale, Q>,
    above: impl Fn(&OwnerRef) -> Result<Above, Q>,
) -> Result<Scale, Q> {
    let mut passed: Vec<Arc<OwnerRef>> = Vec::new();
    let mut here = Arc::clone(owner);
    let mut first_cause = None;
    loop {
        if let Some(kind) = rules.counts_pods_of(&here) {
            return Ok(Scale::Pods(kind.clone()));
        }
        let found = scale(&here)?;
        let Scale::Unknown(SyncFailure {
            cause: Cause::NoScale(resource),
            ..
        }) = &found
        else {
            return Ok(found.above(&passed));
        };
        if !rules.chain {
            return Ok(found);
        }
        let first = first_cause.get_or_insert_with(|| resource.clone());
        let ends = |why: String| {
            let cause = Cause::NoScaleAbove(first.clone(), why);
            Ok(Scale::Unknown(SyncFailure::permanent(cause)))
        };
        if passed.len() == MOST_STEPS {
            return ends(format!("{resource} has none either, after {MOST_STEPS} steps"));
        }
        let next = match above(&here)? {
            Above::Controller(next) => next,
            Above::Nothing if passed.is_empty() => return Ok(found),
            Above::Nothing => return ends(format!("{resource} has none either, and no controller")),
            Above::NotFound => return Ok(Scale::Gone),
            Above::Failed(failure) => return Ok(Scale::Unknown(failure)),
        };
        passed.push(here);
        if passed.iter().any(|below| below.uid == next.uid) {
            return ends(format!("{} {} controls itself", next.kind, next.name));
        }
        here = next;
    }
}

impl GroupKind {
    fn is_of(&self, owner: &OwnerRef) -> bool {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        (self.kind.as_str(), self.group.as_str()) == (&*owner.kind, group)
    }
}

impl FromStr for GroupKind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase())
            && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_group = |group: &str| {
            group.split('.').all(|label| {
                let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                !label.is_empty() && label.bytes().all(inner)
            })
        };
        if !is_kind || text.contains('.') && !is_group(group) {
            return Err("expected Kind.group, such as VirtualMachineInstance.kubevirt.io");
        }
        let (kind, group) = (kind.to_owned(), group.to_owned());
        if Builtin::named(&group, &kind).is_some() {
            return Err("this kind has a scale");
        }
        Ok(Self { kind, group })
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => f.write_str(&self.kind),
            group => write!(f, "{}.{group}", self.kind),
        }
    }
}
