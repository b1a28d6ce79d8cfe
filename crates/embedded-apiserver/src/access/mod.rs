//! Who sends a request, and whether they may.
//!
//! Users are known by bearer tokens; a request without one is anonymous at the door for other processes and
//! an administrator's at the door for tests. Permissions are looked at once a test asks for it.

mod attributes;
mod rbac;
mod user;

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::failure::StatusError;
use crate::request::{RecordedRequest, RequestVerb};
use crate::resource::table::RESOURCE_CLAIMS;
use crate::store::Store;
pub(super) use attributes::Attributes;
pub use user::User;

/// Group and plural name of the reviews by which users ask what they may.
const SELF_REVIEWS: (&str, &str) = ("authorization.k8s.io", "selfsubjectaccessreviews");

/// The users of a server, and what they made use of.
#[derive(Debug, Default)]
pub(super) struct Access {
    users: BTreeMap<String, User>,
    is_enforced: bool,
    /// Whether a permission to write the status of a claim is one to allocate and reserve it, too.
    has_coarse_claim_status: bool,
    /// Permissions that led to an allowed request, by user name.
    exercised: BTreeMap<String, BTreeSet<String>>,
}

/// Who sends a request that needs further permissions for some of what it changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester<'a> {
    access: &'a Mutex<Access>,
    user: &'a User,
    /// What it does with the object, which the further permission is for, too.
    pub(super) verb: RequestVerb,
}

impl Access {
    /// Lets the holder of `token` in as `user`.
    pub(super) fn admit(&mut self, token: &str, user: User) {
        self.users.insert(token.to_owned(), user);
    }

    /// From now on permissions are looked at.
    pub(super) fn enforce(&mut self) {
        self.is_enforced = true;
    }

    /// Takes a permission to write the status of a claim for one to allocate and reserve it, too.
    pub(super) fn make_claim_status_coarse(&mut self) {
        self.has_coarse_claim_status = true;
    }

    /// What was granted to `user` and not used.
    pub(super) fn unused(&self, store: &Store, user: &User) -> Vec<String> {
        let exercised = self.exercised.get(&user.name);
        rbac::all_permissions(store, user)
            .into_iter()
            .filter(|permission| exercised.is_none_or(|permissions| !permissions.contains(permission)))
            .collect()
    }

    /// Who holds `token`.
    pub(super) fn authenticate(&self, token: &str) -> Option<User> {
        self.users.get(token).cloned()
    }
}

impl<'a> Requester<'a> {
    pub(super) fn new(access: &'a Mutex<Access>, user: &'a User, verb: RequestVerb) -> Self {
        Self { access, user, verb }
    }

    /// Refuses a write of what a claim is allocated and reserved for to those who have no permission to
    /// `resourceclaims/binding`, in the whole cluster.
    pub(super) fn may_bind_claims(&self, store: &Store) -> Result<(), StatusError> {
        if self.access.lock().has_coarse_claim_status {
            return Ok(());
        }
        let asked = Attributes::Resource {
            verb: self.verb.to_string(),
            group: RESOURCE_CLAIMS.group.to_owned(),
            resource: format!("{}/binding", RESOURCE_CLAIMS.plural),
            namespace: String::new(),
            name: String::new(),
        };
        authorize(self.access, store, self.user, &asked)
    }
}

/// Refuses what `user` has no permission to.
pub(super) fn authorize(
    access: &Mutex<Access>,
    store: &Store,
    user: &User,
    asked: &Attributes,
) -> Result<(), StatusError> {
    if !access.lock().is_enforced || user.may_all() {
        return Ok(());
    }
    rbac::judge(store, user, asked).map_err(|reason| asked.denied_to(user, &reason))?;
    let permissions = rbac::permissions_to(store, user, asked);
    let mut access = access.lock();
    let exercised = access.exercised.entry(user.name.clone()).or_default();
    exercised.extend(permissions);
    Ok(())
}

/// Whether the request asks what its user may.
pub(super) fn is_self_review(request: &RecordedRequest) -> bool {
    (&*request.group, &*request.resource) == SELF_REVIEWS && request.verb == RequestVerb::Create
}

/// The answer to who asks that.
pub(super) fn self_review(access: &Mutex<Access>, store: &Store, user: &User, review: &Value) -> Value {
    let spec = &review["spec"];
    let text = |field: &str| {
        spec["resourceAttributes"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (resource, subresource) = (text("resource"), text("subresource"));
    let asked = Attributes::Resource {
        verb: text("verb"),
        group: text("group"),
        resource: if subresource.is_empty() {
            resource
        } else {
            format!("{resource}/{subresource}")
        },
        namespace: text("namespace"),
        name: text("name"),
    };
    let is_open = !access.lock().is_enforced || user.may_all();
    let allowed = is_open || rbac::judge(store, user, &asked).is_ok();
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "metadata": {}, "spec": spec, "status": { "allowed": allowed },
    })
}
