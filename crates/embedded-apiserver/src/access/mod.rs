//! Authentication and authorization of requests.
//!
//! Bearer tokens identify users. Without a token a request is anonymous on the transport for other processes, and an
//! administrator's on the transport for tests. Permissions are checked once a test enables that.

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

/// Group and plural of the reviews by which users query their own permissions.
const SELF_REVIEWS: (&str, &str) = ("authorization.k8s.io", "selfsubjectaccessreviews");

/// The users of a server, and the permissions that they have used.
#[derive(Debug, Default)]
pub(super) struct Access {
    users: BTreeMap<String, User>,
    is_enforced: bool,
    /// True if the permission to write a claim's status includes allocating and reserving the claim.
    has_coarse_claim_status: bool,
    /// Permissions that led to an allowed request, by user name.
    exercised: BTreeMap<String, BTreeSet<String>>,
}

/// The sender of a request some of whose changes need further permissions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester<'a> {
    access: &'a Mutex<Access>,
    user: &'a User,
    /// Verb of the request; the further permissions must grant it too.
    pub(super) verb: RequestVerb,
}

impl Access {
    /// Accepts `token` as that of `user`.
    pub(super) fn admit(&mut self, token: &str, user: User) {
        self.users.insert(token.to_owned(), user);
    }

    /// Checks permissions from now on.
    pub(super) fn enforce(&mut self) {
        self.is_enforced = true;
    }

    /// Makes the permission to write a claim's status include allocating and reserving the claim.
    pub(super) fn make_claim_status_coarse(&mut self) {
        self.has_coarse_claim_status = true;
    }

    /// The permissions granted to `user` and not used.
    pub(super) fn unused(&self, store: &Store, user: &User) -> Vec<String> {
        let exercised = self.exercised.get(&user.name);
        rbac::all_permissions(store, user)
            .into_iter()
            .filter(|permission| exercised.is_none_or(|permissions| !permissions.contains(permission)))
            .collect()
    }

    /// The user who holds `token`.
    pub(super) fn authenticate(&self, token: &str) -> Option<User> {
        self.users.get(token).cloned()
    }
}

impl<'a> Requester<'a> {
    pub(super) fn new(access: &'a Mutex<Access>, user: &'a User, verb: RequestVerb) -> Self {
        Self { access, user, verb }
    }

    /// Refuses a change of a claim's allocation or reservations unless the user has the cluster-wide permission to
    /// `resourceclaims/binding`.
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

/// Refuses what `user` has no permission for, and records the permissions used.
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

/// True if the user queries its own permissions.
pub(super) fn is_self_review(request: &RecordedRequest) -> bool {
    (&*request.group, &*request.resource) == SELF_REVIEWS && request.verb == RequestVerb::Create
}

/// Answers such a query.
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
