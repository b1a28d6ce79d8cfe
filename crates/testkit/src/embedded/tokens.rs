//! Tokens of service accounts: issued by `/token`, known until they expire.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::access::User;
use super::call::Call;
use super::clock::rfc3339;
use super::failure::Failure;
use super::object::{items, text};
use super::server::Shared;
use super::subresources::check_kind;
use super::write::served;

const KIND: &str = "TokenRequest";
const GROUP: &str = "authentication.k8s.io";
/// The audience of tokens that ask for none: the issuer of the control plane for tests.
const AUDIENCE: &str = "https://kubernetes.default.svc";
const DEFAULT_SECONDS: i64 = 60 * 60;
const MIN_SECONDS: i64 = 10 * 60;
const MAX_SECONDS: i64 = 1 << 32;

/// The tokens that were issued.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    issued: BTreeMap<String, ServiceAccount>,
}

/// Whom a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceAccount {
    namespace: String,
    name: String,
    uid: String,
    expires: Timestamp,
}

impl Tokens {
    /// Whom an issued token stands for that has not expired.
    pub(super) fn resolve(&self, token: &str, now: Timestamp) -> Option<&ServiceAccount> {
        self.issued.get(token).filter(|account| now < account.expires)
    }

    /// A token that no other request got, the same on every run.
    fn issue(&mut self, account: ServiceAccount) -> String {
        let token = format!(
            "testkit-{}.{}.{}",
            self.issued.len(),
            account.namespace,
            account.name
        );
        self.issued.insert(token.clone(), account);
        token
    }
}

impl ServiceAccount {
    /// The user that it is.
    pub(super) fn user(&self) -> User {
        User::service_account(&self.namespace, &self.name, &self.uid)
    }
}

impl Shared {
    /// Answers a `TokenRequest` with its token.
    pub(super) fn issue_token(&self, call: &Call, request: &Value) -> Result<Value, Failure> {
        let (namespace, name) = (&call.request.namespace, &call.request.name);
        check_kind(request, KIND, GROUP, &["v1"])?;
        let asked_namespace = text(&request["metadata"], "namespace");
        if !asked_namespace.is_empty() && asked_namespace != namespace {
            return Err(Failure::other_namespace());
        }
        let asked_name = text(&request["metadata"], "name");
        if !asked_name.is_empty() && asked_name != name {
            let body =
                format!("Invalid value: \"{asked_name}\": must match the service account name if specified");
            return Err(invalid(name, "metadata.name", &body));
        }
        let account = {
            let store = self.store.lock();
            let stored = store
                .get(call.resource, &call.key())
                .ok_or_else(|| Failure::not_found(call.resource, name))?;
            served(call.resource, stored)
        };
        let (uid, found) = (
            text(&request["metadata"], "uid"),
            text(&account["metadata"], "uid"),
        );
        if !uid.is_empty() && uid != found {
            return Err(other_account(name, uid, found));
        }
        let seconds = match &request["spec"]["expirationSeconds"] {
            Value::Null => DEFAULT_SECONDS,
            seconds => seconds.as_i64().unwrap_or_default(),
        };
        if !(MIN_SECONDS..=MAX_SECONDS).contains(&seconds) {
            let limit = if seconds < MIN_SECONDS {
                "may not specify a duration less than 10 minutes"
            } else {
                "may not specify a duration larger than 2^32 seconds"
            };
            let body = format!("Invalid value: {seconds}: {limit}");
            return Err(invalid("", "spec.expirationSeconds", &body));
        }
        let audiences = match items(request, "spec.audiences") {
            [] => json!([AUDIENCE]),
            audiences => json!(audiences),
        };
        let now = self.clock.timestamp();
        let expires = now
            .checked_add(SignedDuration::from_secs(seconds))
            .unwrap_or(Timestamp::MAX);
        let token = self.tokens.lock().issue(ServiceAccount {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: found.to_owned(),
            expires,
        });
        Ok(json!({
            "kind": KIND,
            "apiVersion": format!("{GROUP}/v1"),
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": found,
                "creationTimestamp": rfc3339(now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": request["spec"]["boundObjectRef"],
            },
            "status": { "token": token, "expirationTimestamp": rfc3339(expires) },
        }))
    }
}

fn other_account(name: &str, wanted: &str, found: &str) -> Failure {
    let mut failure = Failure::new(
        409,
        "Conflict",
        format!(
            "Operation cannot be fulfilled on {KIND}.{GROUP} \"{name}\": the UID in the token request ({wanted}) \
             does not match the UID of the service account ({found})"
        ),
    );
    failure.details = Some(json!({ "name": name, "group": GROUP, "kind": KIND }));
    failure
}

fn invalid(name: &str, field: &str, body: &str) -> Failure {
    let qualified = format!("{KIND}.{GROUP}");
    Failure::invalid_as(&qualified, GROUP, KIND, name, "FieldValueInvalid", field, body)
}
