//! Who sends a request, and whether they may.
//!
//! Users are known by bearer tokens; a request without one is anonymous at the door for other processes and
//! an administrator's at the door for tests. Rights are looked at once a test asks for it.

mod attributes;
mod rbac;
pub(super) mod review;
mod user;

use std::collections::{BTreeMap, BTreeSet};

use http::header;
use http::request::Parts;

use super::Server;
use super::failure::Failure;
use super::options::Parameters;
use super::request::Request;
use super::server::Shared;
use super::tokens::ServiceAccount;
use attributes::Attributes;
pub use user::User;

/// The users of a server, and what they made use of.
#[derive(Debug, Default)]
pub(super) struct Access {
    users: BTreeMap<String, User>,
    is_enforced: bool,
    /// Rights that led to an allowed request, by user name.
    exercised: BTreeMap<String, BTreeSet<String>>,
}

/// Whether a user may do something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Verdict {
    is_allowed: bool,
    /// By which binding, or what is wrong with the user's bindings; often empty.
    reason: String,
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

/// Users and their rights.
impl Server {
    /// Lets the holder of `token` in as `name`.
    pub fn add_user(&self, name: &str, groups: &[&str], token: &str) -> User {
        let user = User::new(name, groups);
        self.shared.access.lock().admit(token, user.clone());
        user
    }

    /// From now on requests are checked against the roles and bindings in the store. What every cluster
    /// grants from the start (discovery, health, reviews of oneself) is granted here too.
    pub fn enforce_rbac(&self) {
        self.shared.access.lock().is_enforced = true;
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
        self.authorize(&user, &Attributes::of(&head.method, request, query))?;
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
                .holder_of(token)
                .ok_or_else(|| Failure::new(401, "Unauthorized", "Unauthorized")),
        }
    }

    /// A user that the test let in, or the service account that the token was issued for.
    fn holder_of(&self, token: &str) -> Option<User> {
        let known = self.access.lock().authenticate(token);
        known.or_else(|| {
            let tokens = self.tokens.lock();
            tokens
                .resolve(token, self.clock.timestamp())
                .map(ServiceAccount::user)
        })
    }

    /// Refuses what `user` has no right to.
    fn authorize(&self, user: &User, asked: &Attributes) -> Result<(), Failure> {
        let verdict = self.judge(user, asked);
        if !verdict.is_allowed {
            return Err(asked.denied_to(user, &verdict.reason));
        }
        if self.access.lock().is_enforced {
            let rights = rbac::rights_to(&self.store.lock(), user, asked);
            let mut access = self.access.lock();
            let exercised = access.exercised.entry(user.name.clone()).or_default();
            exercised.extend(rights);
        }
        Ok(())
    }

    /// Whether `user` may do this; asking does not count as use.
    fn judge(&self, user: &User, asked: &Attributes) -> Verdict {
        if !self.access.lock().is_enforced || user.may_all() {
            return Verdict {
                is_allowed: true,
                reason: String::new(),
            };
        }
        rbac::judge(&self.store.lock(), user, asked)
    }
}
