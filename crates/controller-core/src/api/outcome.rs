//! One classification of API answers for all controllers (CORE-5).
//!
//! Status codes and texts are those of kube-apiserver 1.36 (`apimachinery/pkg/api/errors`,
//! `apiserver/pkg/registry/rest/delete.go`, `apiserver/pkg/storage`).

use std::time::Duration;

use kube_core::Status;
use kube_core::response::StatusCause;

/// The wait for a 429 without `Retry-After`.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Longest wait that is honoured, whatever the server asks for: work that waits for hours is lost work.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(5);

/// The text of a 404 that is about the resource and not about the object: it says of no object that it is gone.
const NOT_SERVED: &str = "the server could not find the requested resource";

/// The kind of request, as RBAC names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a list of objects.
    List,
    /// Follow changes.
    Watch,
    /// Create an object.
    Create,
    /// Replace an object.
    Update,
    /// Change parts of an object.
    Patch,
    /// Delete an object.
    Delete,
}

/// The meaning of an answer that is not a plain success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerClass {
    /// Nothing is left to do: the delete found the object gone.
    Done,
    /// The object is gone, or another object has its name: drop the work instead of retrying.
    Gone,
    /// An object of that name exists already.
    AlreadyExists,
    /// The object has changed since it was read: read again, then decide again.
    Conflict,
    /// The object would be invalid.
    Invalid,
    /// The request is not allowed.
    Forbidden(Denial),
    /// The server has done nothing and asks to wait this long.
    Throttled(Duration),
    /// Retry with backoff; the request may have taken effect.
    Retry {
        /// True if the server may have carried out the write although no answer said so.
        fate_unknown: bool,
        /// The wait that the server asks for; zero if it does not ask.
        wait: Duration,
    },
}

/// The authority that refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The authorizer: the account lacks a permission, for every object of the kind.
    MissingPermission,
    /// The namespace is being deleted: this object only, and no event can be written either.
    NamespaceTerminating,
    /// Quota, admission webhook or policy: this object only.
    ThisObject,
}

impl AnswerClass {
    /// A retry with no wait asked for by the server.
    pub const fn retry(fate_unknown: bool) -> Self {
        let wait = Duration::ZERO;
        Self::Retry { fate_unknown, wait }
    }

    /// What `status`, the refusal of a request with `verb`, means.
    pub fn of(verb: Verb, status: &Status) -> Self {
        match status.code {
            404 if status.reason != "NotFound" || verb == Verb::List || status.message == NOT_SERVED => {
                Self::retry(false)
            }
            404 if verb == Verb::Delete => Self::Done,
            404 => Self::Gone,
            409 if status.reason == "AlreadyExists" => Self::AlreadyExists,
            409 if names_other_uid(status) => Self::Gone,
            409 => Self::Conflict,
            422 if has_cause_on(status, "metadata.uid") => Self::Gone,
            422 => Self::Invalid,
            403 => Self::Forbidden(denial(verb, status)),
            429 => Self::Throttled(retry_after(status).unwrap_or(DEFAULT_RETRY_AFTER)),
            // With or without `Retry-After`: a 504 also answers a write that is carried out a moment later.
            500.. => Self::Retry {
                fate_unknown: verb.writes(),
                wait: retry_after(status).unwrap_or_default(),
            },
            _ => Self::retry(false),
        }
    }
}

impl Verb {
    /// The verb as RBAC spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    /// True if a request with this verb may change an object.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::Delete)
    }
}

/// The wait that the server asks for, if any; capped at 5 min.
pub fn retry_after(status: &Status) -> Option<Duration> {
    let seconds = status.details.as_ref()?.retry_after_seconds;
    let asked = Duration::from_secs(u64::from(seconds));
    (seconds > 0).then_some(asked.min(LONGEST_RETRY_AFTER))
}

fn has_cause_on(status: &Status, field: &str) -> bool {
    causes(status).iter().any(|cause| cause.field == field)
}

/// A failed uid precondition is a Conflict that differs only in its text.
fn names_other_uid(status: &Status) -> bool {
    status.message.contains("UID in precondition:") || status.message.contains("the UID in the precondition")
}

fn denial(verb: Verb, status: &Status) -> Denial {
    if namespace_terminates(status) {
        Denial::NamespaceTerminating
    } else if causes(status).is_empty()
        && status
            .message
            .contains(&format!("cannot {} resource", verb.as_str()))
    {
        Denial::MissingPermission
    } else {
        Denial::ThisObject
    }
}

/// True if a 403 is due to the namespace, which is being deleted.
pub fn namespace_terminates(status: &Status) -> bool {
    causes(status)
        .iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
}

fn causes(status: &Status) -> &[StatusCause] {
    status.details.as_ref().map_or(&[], |details| &details.causes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The write had no effect.
    const REFUSED: AnswerClass = AnswerClass::retry(false);
    /// The write may have had an effect.
    const UNKNOWN: AnswerClass = AnswerClass::retry(true);

    fn answer(status: serde_json::Value) -> Status {
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn a_404_is_success_for_a_delete_and_gone_for_the_rest() {
        let not_found =
            answer(json!({"code": 404, "reason": "NotFound", "message": "nodes \"a\" not found"}));
        assert_eq!(AnswerClass::of(Verb::Delete, &not_found), AnswerClass::Done);
        assert_eq!(AnswerClass::of(Verb::Patch, &not_found), AnswerClass::Gone);
        assert_eq!(AnswerClass::of(Verb::Get, &not_found), AnswerClass::Gone);
    }

    #[test]
    fn a_404_that_is_not_about_the_object_is_retried() {
        let of_a_proxy = answer(
            json!({"code": 404, "reason": "Failed to parse error data", "message": "404 page not found"}),
        );
        let not_served = answer(json!({"code": 404, "reason": "NotFound",
            "message": "the server could not find the requested resource"}));
        for verb in [Verb::Get, Verb::Patch, Verb::Delete, Verb::List] {
            for answer in [&of_a_proxy, &not_served] {
                assert_eq!(AnswerClass::of(verb, answer), REFUSED, "{verb:?} {answer:?}");
            }
        }
        let of_a_gateway = answer(json!({"code": 404, "reason": "NotFound"}));
        assert_eq!(AnswerClass::of(Verb::List, &of_a_gateway), REFUSED);
    }

    #[test]
    fn the_two_kinds_of_409_are_distinguished_by_reason() {
        let exists = answer(json!({"code": 409, "reason": "AlreadyExists"}));
        let conflict = answer(json!({"code": 409, "reason": "Conflict",
            "message": "Operation cannot be fulfilled on nodes \"a\": the object has been modified; please apply your changes to the latest version and try again"}));
        assert_eq!(AnswerClass::of(Verb::Create, &exists), AnswerClass::AlreadyExists);
        assert_eq!(AnswerClass::of(Verb::Update, &conflict), AnswerClass::Conflict);
    }

    #[test]
    fn another_uid_means_gone_in_every_form_the_server_has_for_it() {
        let in_a_patch = answer(json!({"code": 422, "reason": "Invalid",
            "details": {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid", "message": "field is immutable"}]}}));
        let in_a_delete = answer(json!({"code": 409, "reason": "Conflict",
            "message": "Operation cannot be fulfilled on pods \"a\": the UID in the precondition (x) does not match the UID in record (y). The object might have been deleted and then recreated"}));
        let in_storage = answer(json!({"code": 409, "reason": "Conflict",
            "message": "Operation cannot be fulfilled on pods \"a\": StorageError: invalid object, Code: 4, Key: /registry/pods/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x, UID in object meta: y"}));
        assert_eq!(AnswerClass::of(Verb::Patch, &in_a_patch), AnswerClass::Gone);
        assert_eq!(AnswerClass::of(Verb::Delete, &in_a_delete), AnswerClass::Gone);
        assert_eq!(AnswerClass::of(Verb::Delete, &in_storage), AnswerClass::Gone);
    }

    #[test]
    fn a_422_about_something_else_is_invalid() {
        let invalid = answer(json!({"code": 422, "reason": "Invalid",
            "details": {"causes": [{"field": "metadata.annotations"}]}}));
        assert_eq!(AnswerClass::of(Verb::Patch, &invalid), AnswerClass::Invalid);
    }

    #[test]
    fn a_missing_permission_is_distinguished_from_a_refusal_of_one_object() {
        let authorizer = answer(
            json!({"code": 403, "reason": "Forbidden", "details": {"name": "a", "kind": "nodes"},
            "message": "nodes \"a\" is forbidden: User \"u\" cannot patch resource \"nodes\" in API group \"\" at the cluster scope"}),
        );
        let quota = answer(
            json!({"code": 403, "reason": "Forbidden", "message": "pods \"a\" is forbidden: exceeded quota: q"}),
        );
        let terminating = answer(json!({"code": 403, "reason": "Forbidden",
            "message": "events \"a\" is forbidden: unable to create new content in namespace x because it is being terminated",
            "details": {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}}));
        for (verb, answer, denial) in [
            (Verb::Patch, authorizer, Denial::MissingPermission),
            (Verb::Create, quota, Denial::ThisObject),
            (Verb::Create, terminating, Denial::NamespaceTerminating),
        ] {
            assert_eq!(AnswerClass::of(verb, &answer), AnswerClass::Forbidden(denial));
        }
    }

    #[test]
    fn throttling_waits_as_long_as_the_server_says() {
        let with_wait =
            answer(json!({"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 7}}));
        let without = answer(json!({"code": 429, "reason": "TooManyRequests"}));
        let for_a_day = answer(
            json!({"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 86_400}}),
        );
        for (answer, seconds) in [(with_wait, 7), (without, 1), (for_a_day, 300)] {
            let wait = Duration::from_secs(seconds);
            assert_eq!(
                AnswerClass::of(Verb::Patch, &answer),
                AnswerClass::Throttled(wait)
            );
        }
    }

    #[test]
    fn a_5xx_may_ask_to_wait_and_leaves_the_fate_of_a_write_open_all_the_same() {
        for code in [500, 503, 504] {
            for (asked, seconds) in [(3, 3), (86_400, 300), (0, 0)] {
                let failed = answer(json!({"code": code, "details": {"retryAfterSeconds": asked}}));
                let wait = Duration::from_secs(seconds);
                for (verb, fate_unknown) in [(Verb::Patch, true), (Verb::List, false)] {
                    assert_eq!(
                        AnswerClass::of(verb, &failed),
                        AnswerClass::Retry { fate_unknown, wait },
                        "{code}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_fate_of_a_write_is_unknown_after_a_5xx_and_known_after_a_4xx() {
        let internal = answer(json!({"code": 500, "reason": "InternalError"}));
        let unauthorized = answer(json!({"code": 401, "reason": "Unauthorized"}));
        assert_eq!(AnswerClass::of(Verb::Patch, &internal), UNKNOWN);
        assert_eq!(AnswerClass::of(Verb::Get, &internal), REFUSED);
        assert_eq!(AnswerClass::of(Verb::Patch, &unauthorized), REFUSED);
    }
}
