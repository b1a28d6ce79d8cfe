//! Authorizes readers of more than the probes (`--metrics-authorization=kubernetes`): the API server names the user of
//! a bearer token (`TokenReview`) and says what the user may do (`SubjectAccessReview`), as with controller-runtime's
//! `filters.WithAuthenticationAndAuthorization`.
//!
//! Anybody can send tokens. So decisions are remembered for a bounded time and in bounded number, and only a few
//! unknown tokens a second are reviewed, counted by source address: a flood from elsewhere keeps no scraper out, not
//! even one whose token has just been rotated.

mod refusal;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use controller_core::api::{CallFailed, Verb};
use controller_core::config::Encoding;
use controller_core::controller::{self, Request};
use controller_core::log_throttle::LogThrottle;
use controller_core::workqueue::TokenBucket;
use derive_where::derive_where;
use kube::api::PostParams;
use parking_lot::Mutex;
use ring::digest::{self, SHA256, SHA256_OUTPUT_LEN};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

pub(super) use self::refusal::Refusal;
use crate::clock::Clock;
use crate::sender::{Caller, Sender};

/// Time after which an allowed request is reviewed again. Source: controller-runtime, `CacheTTL` of its authenticator.
const ALLOWED_FOR: Duration = Duration::from_mins(1);
/// Time after which a refused request is reviewed again. Source: controller-runtime, `DenyCacheTTL` of its authorizer.
const REFUSED_FOR: Duration = Duration::from_secs(30);
/// Most decisions remembered.
const MOST_DECISIONS: usize = 128;
/// Reviews of unknown tokens from one address: a second, and at once.
const REVIEWS: (f64, u32) = (1.0, 10);
/// Most addresses told apart.
const MOST_PEERS: usize = 32;
/// After this time without requests, the reviews of an address are full again, so the address may be forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// Two reviews fit into the time of a connection.
const REVIEW_WITHIN: Duration = Duration::from_secs(2);
/// Least time between two log lines that say that the API server cannot be asked.
const NAMED_EVERY: Duration = Duration::from_mins(1);

/// Asks the API server who may read what. Cheap to clone: clones share the decisions.
#[derive(Clone)]
pub struct Authorizer(Arc<Shared>);

struct Shared {
    sender: Sender,
    clock: Clock,
    origin: Instant,
    decisions: Mutex<Decisions>,
}

/// Recent decisions. A value: the caller passes the time.
#[derive(Default)]
struct Decisions {
    by_request: BTreeMap<Key, Decision>,
    by_peer: BTreeMap<IpAddr, Peer>,
    named: LogThrottle<()>,
}

/// An address that sent unknown tokens.
struct Peer {
    reviews: TokenBucket,
    last: Duration,
    /// True if one of its tokens was allowed.
    is_known: bool,
}

/// Hash of a token, a verb and a path. The token itself is not kept.
type Key = [u8; SHA256_OUTPUT_LEN];

struct Decision {
    verdict: Verdict,
    until: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    /// The token belongs to nobody.
    Unauthenticated,
    /// The token's user lacks the permission.
    Forbidden(Arc<str>),
}

/// What is known about a request.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    Decided(Verdict),
    /// The API server must be asked.
    Nothing,
    /// The API server must not be asked: too many unknown tokens come from this address.
    TooMany,
}

impl Authorizer {
    /// Sends the reviews through `client`.
    pub fn new(client: kube::Client, caller: Caller) -> Self {
        let clock = caller.clock().clone();
        Self(Arc::new(Shared {
            origin: clock.instant(),
            clock,
            sender: Sender::new(client, caller, Encoding::Json),
            decisions: Mutex::default(),
        }))
    }

    /// Checks that the holder of `token`, connected from `peer`, may read `path`; `verb` is the HTTP method in lower
    /// case.
    pub(super) async fn authorize(
        &self,
        peer: IpAddr,
        token: Option<&str>,
        verb: &str,
        path: &str,
    ) -> Result<(), Refusal> {
        let token = token.ok_or(Refusal::Unauthenticated)?;
        let request = key(token, verb, path);
        let known = self.0.decisions.lock().lookup(peer, &request, self.now());
        let verdict = match known {
            Known::Decided(verdict) => verdict,
            Known::TooMany => return Err(Refusal::TooMany),
            Known::Nothing => {
                let reviewed = self.review(token, verb, path).await;
                let mut decisions = self.0.decisions.lock();
                match reviewed {
                    Ok(verdict) => {
                        decisions.remember(peer, request, verdict.clone(), self.now());
                        verdict
                    }
                    Err(failed) => {
                        if decisions.named.is_due(&(), NAMED_EVERY, self.now()) {
                            tracing::warn!("cannot ask who may read {path}: {failed}");
                        }
                        return Err(Refusal::Unanswered);
                    }
                }
            }
        };
        match verdict {
            Verdict::Allowed => Ok(()),
            Verdict::Unauthenticated => Err(Refusal::Unauthenticated),
            Verdict::Forbidden(user) => Err(Refusal::Forbidden(user)),
        }
    }

    async fn review(&self, token: &str, verb: &str, path: &str) -> Result<Verdict, CallFailed> {
        let token = TokenReview {
            token: token.to_owned(),
        };
        let Some(user) = self.0.sender.ask(&token, None).await.0? else {
            return Ok(Verdict::Unauthenticated);
        };
        let access = SubjectAccessReview {
            verb: verb.to_owned(),
            path: path.to_owned(),
            user,
        };
        let is_allowed = self.0.sender.ask(&access, None).await.0?;
        Ok(if is_allowed {
            Verdict::Allowed
        } else {
            Verdict::Forbidden(access.user.username.into())
        })
    }

    fn now(&self) -> Duration {
        self.0.clock.instant() - self.0.origin
    }
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").finish_non_exhaustive()
    }
}

/// The bearer token in the headers of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn key(token: &str, verb: &str, path: &str) -> Key {
    // No header holds a newline, so no two requests have the same text.
    let text = format!("{token}\n{verb}\n{path}");
    let mut key = Key::default();
    key.copy_from_slice(digest::digest(&SHA256, text.as_bytes()).as_ref());
    key
}

// === impl Decisions ===

impl Decisions {
    fn lookup(&mut self, peer: IpAddr, request: &Key, now: Duration) -> Known {
        match self.by_request.get(request) {
            Some(Decision { verdict, until }) if now < *until => return Known::Decided(verdict.clone()),
            Some(Decision {
                verdict: Verdict::Allowed,
                ..
            }) => return Known::Nothing,
            _ => {}
        }
        let Some(peer) = self.peer(peer, now) else {
            return Known::TooMany;
        };
        peer.last = now;
        if peer.reviews.take(now).is_zero() {
            return Known::Nothing;
        }
        peer.reviews.give_back();
        Known::TooMany
    }

    /// The record of an address. A new address replaces the one that was quiet for longest, if for long enough;
    /// addresses with an allowed token are replaced last.
    fn peer(&mut self, addr: IpAddr, now: Duration) -> Option<&mut Peer> {
        if self.by_peer.len() >= MOST_PEERS && !self.by_peer.contains_key(&addr) {
            let order = |peer: &Peer| (peer.is_known, peer.last);
            let (&quiet, peer) = self.by_peer.iter().min_by_key(|(_, peer)| order(peer))?;
            if now < peer.last.saturating_add(FORGOTTEN_AFTER) {
                return None;
            }
            self.by_peer.remove(&quiet);
        }
        let (qps, burst) = REVIEWS;
        Some(self.by_peer.entry(addr).or_insert_with(|| Peer {
            reviews: TokenBucket::new(qps, burst),
            last: now,
            is_known: false,
        }))
    }

    /// Remembers `verdict`. If there is no room, replaces the decision that expires first; allowed ones are replaced
    /// last.
    fn remember(&mut self, peer: IpAddr, request: Key, verdict: Verdict, now: Duration) {
        if let Some(peer) = self.by_peer.get_mut(&peer)
            && verdict == Verdict::Allowed
        {
            peer.is_known = true;
        }
        self.by_request.remove(&request);
        if self.by_request.len() >= MOST_DECISIONS {
            let order = |decision: &Decision| (decision.verdict == Verdict::Allowed, decision.until);
            let first = self.by_request.iter().min_by_key(|(_, decision)| order(decision));
            if let Some(first) = first.map(|(request, _)| *request) {
                self.by_request.remove(&first);
            }
        }
        let lasts = match verdict {
            Verdict::Allowed => ALLOWED_FOR,
            Verdict::Unauthenticated | Verdict::Forbidden(_) => REFUSED_FOR,
        };
        let until = now.saturating_add(lasts);
        self.by_request.insert(request, Decision { verdict, until });
    }
}

// === the reviews ===

/// Query: whose token is this?
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive_where(Debug)]
struct TokenReview {
    #[derive_where(skip(Debug))]
    token: String,
}

/// Query: may this user do this?
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct SubjectAccessReview {
    user: User,
    verb: String,
    path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(default)]
struct User {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// The answer to either review.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Reviewed {
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    authenticated: bool,
    user: User,
    allowed: bool,
    denied: bool,
}

impl controller::Query for TokenReview {
    type Answer = Option<User>;

    fn request(&self) -> Request {
        let spec = json!({"token": self.token});
        review("tokenreviews.authentication.k8s.io", "TokenReview", &spec)
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<Option<User>> {
        let Reviewed { status } = serde_json::from_slice(body)?;
        Ok(status.authenticated.then_some(status.user))
    }
}

impl controller::Query for SubjectAccessReview {
    type Answer = bool;

    fn request(&self) -> Request {
        let Self { user, verb, path } = self;
        let spec = json!({
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        });
        review(
            "subjectaccessreviews.authorization.k8s.io",
            "SubjectAccessReview",
            &spec,
        )
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<bool> {
        let Reviewed { status } = serde_json::from_slice(body)?;
        Ok(status.allowed && !status.denied)
    }
}

fn review(resource: &'static str, kind: &str, spec: &Value) -> Request {
    let (plural, group) = resource.split_once('.').unwrap_or_default();
    let review = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec});
    let reviews = kube::core::Request::new(format!("/apis/{group}/v1/{plural}"));
    let http = reviews.create(&PostParams::default(), review.to_string().into_bytes());
    Request::new(Verb::Create, resource, &"", http).answered_within(REVIEW_WITHIN)
}

#[cfg(test)]
mod tests;
