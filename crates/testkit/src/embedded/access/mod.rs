//! Who sends a request, and whether they may.
//!
//! Users are known by bearer tokens; a request without one is anonymous at the door for other processes and
//! an administrator's at the door for tests. Rights are looked at once a test asks for it.

mod attributes;
mod rbac;
mod user;

use std::collections::{BTreeMap, BTreeSet};

use http::header;
use http::request::Parts;
use parking_lot::Mutex;

use super::Server;
use super::failure::Failure;
use super::options::Parameters;
use super::request::{Request, Verb};
use super::resource::table::RESOURCE_CLAIMS;
use super::server::Shared;
use super::store::Store;
use attributes::Attributes;
pub use user::User;

/// The users of a server, and what they made use of.
#[derive(Debug, Default)]
pub(super) struct Access {
    users: BTreeMap<String, User>,
    is_enforced: bool,
    /// Whether a right to write the status of a claim is one to allocate and reserve it, too.
    has_coarse_claim_status: bool,
    /// Rights that led to an allowed request, by user name.
    exercised: BTreeMap<String, BTreeSet<String>>,
}

/// Who sends a request that needs further rights for some of what it changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester<'a> {
    access: &'a Mutex<Access>,
    user: &'a User,
    /// What it does with the object, which the further right is for, too.
    pub(super) verb: Verb,
}

impl Access {
    /// Lets the holder of `token` in as `user`.
    pub(super) fn admit(&mut self, token: &str, user: User) {
        self.users.insert(token.to_owned(), user);
    }

    /// Who holds `token`.
    pub(super) fn authenticate(&self, token: &str) -> Option<User> {
        self.users.get(token).cloned()
    }
}

impl<'a> Requester<'a> {
    pub(super) fn new(access: &'a Mutex<Access>, user: &'a User, verb: Verb) -> Self {
        Self { access, user, verb }
    }

    /// Refuses a write of what a claim is allocated and reserved for to those who have no right to
    /// `resourceclaims/binding`, in the whole cluster.
    pub(super) fn may_bind_claims(&self, store: &Store) -> Result<(), Failure> {
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

/// Refuses what `user` has no right to.
fn authorize(access: &Mutex<Access>, store: &Store, user: &User, asked: &Attributes) -> Result<(), Failure> {
    if !access.lock().is_enforced || user.may_all() {
        return Ok(());
    }
    rbac::judge(store, user, asked).map_err(|reason| asked.denied_to(user, &reason))?;
    let rights = rbac::rights_to(store, user, asked);
    let mut access = access.lock();
    let exercised = access.exercised.entry(user.name.clone()).or_default();
    exercised.extend(rights);
    Ok(())
}

/// Users and their rights.
impl Server {
    /// Lets the holder of `token` in as `name`.
    pub fn add_user(&self, name: &str, groups: &[&str], token: &str) -> User {
        let user = User::new(name, groups);
        self.shared.access.lock().admit(token, user.clone());
        user
    }

    /// From now on requests are checked against the roles and bindings in the store. What every cluster
    /// grants from the start (discovery, health) is granted here too.
    pub fn enforce_rbac(&self) {
        self.shared.access.lock().is_enforced = true;
    }

    /// Lets those who may write `/status` of a claim allocate and reserve it, as servers before 1.36 do and those
    /// without the feature gate `DRAResourceClaimGranularStatusAuthorization`.
    #[must_use]
    pub fn without_granular_claim_status(self) -> Self {
        self.shared.access.lock().has_coarse_claim_status = true;
        self
    }

    /// A client that is `user` without having to prove it.
    pub fn client_for(&self, user: &User) -> kube::Client {
        kube::Client::new(self.door().as_user(user.clone()), "default")
    }

    /// The rights that roles grant to `user` and that none of its requests needed since they were first
    /// enforced, one line each and in order, e.g. `patch nodes/status`,
    /// `update leases.coordination.k8s.io "my-lease" in kube-system`, `get /metrics`.
    pub fn unused_rights(&self, user: &User) -> Vec<String> {
        let granted = rbac::all_rights(&self.shared.store.lock(), user);
        let access = self.shared.access.lock();
        let exercised = access.exercised.get(&user.name);
        granted
            .into_iter()
            .filter(|right| exercised.is_none_or(|rights| !rights.contains(right)))
            .collect()
    }
}

impl Shared {
    /// Who sends a request, if they may.
    pub(super) fn admit(&self, head: &Parts, request: &Request, query: &Parameters) -> Result<User, Failure> {
        let user = self.authenticate(head)?;
        let asked = Attributes::of(&head.method, request, query);
        authorize(&self.access, &self.store.lock(), &user, &asked)?;
        Ok(user)
    }

    /// The holder of the token, else whom the door takes everybody for.
    fn authenticate(&self, head: &Parts) -> Result<User, Failure> {
        let token = head
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.split_once(' '))
            .filter(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
            .map(|(_, token)| token);
        match token {
            None => Ok(head.extensions.get().cloned().unwrap_or_else(User::anonymous)),
            Some(token) => self
                .access
                .lock()
                .authenticate(token)
                .ok_or_else(|| Failure::new(401, "Unauthorized", "Unauthorized")),
        }
    }
}
