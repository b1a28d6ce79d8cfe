//! What a request gets instead of the answer of the model.

use controller_core::api::{AnswerClass, Call, CallFailed, Verb};
use controller_core::controller::{Completed, Query, RequestOf, Write};
use kube::core::Status;
use proptest::prelude::*;
use serde_json::json;

use super::model::{Model, ModelAnswerOf};

/// Why a request fails that the model would have carried out, or has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimFailure {
    /// Nobody takes the request.
    Unconnected,
    /// The connection breaks, or nobody can read the answer.
    Broken,
    /// The account lacks the permission.
    NotPermitted,
    /// There is no such object: never drawn, because then the model would say so.
    NotFound,
    /// A status with this code, from the API server, a webhook or a proxy, and the seconds that it asks to wait; 0 if it
    /// does not ask.
    Status(u16, u32),
}

impl SimFailure {
    /// For a request that is not carried out.
    pub(super) fn any() -> impl Strategy<Value = Self> {
        let code = prop::sample::select(vec![401, 403, 404, 409, 422, 429, 500, 503, 504]);
        prop_oneof![
            1 => Just(Self::Unconnected),
            1 => Just(Self::Broken),
            1 => Just(Self::NotPermitted),
            6 => (code, Self::wait()).prop_map(|(code, wait)| Self::Status(code, wait)),
        ]
    }

    /// For a request that may be carried out.
    pub(super) fn any_late() -> impl Strategy<Value = Self> {
        let code = prop::sample::select(vec![500, 503, 504]);
        prop_oneof![
            Just(Self::Broken),
            (code, Self::wait()).prop_map(|(code, wait)| Self::Status(code, wait)),
        ]
    }

    fn wait() -> impl Strategy<Value = u32> {
        prop::sample::select(vec![0, 3, 300])
    }

    fn status(self, verb: Verb) -> Option<Status> {
        let (code, wait, message) = match self {
            Self::Unconnected | Self::Broken => return None,
            Self::NotFound => (404, 0, "not found".to_owned()),
            Self::NotPermitted => (403, 0, format!("cannot {} resource", verb.as_str())),
            Self::Status(code, wait) => (code, wait, "failed by the test".to_owned()),
        };
        let details = json!({ "retryAfterSeconds": wait });
        let reason = if self == Self::NotFound { "NotFound" } else { "" };
        let status = json!({ "code": code, "reason": reason, "message": message, "details": details });
        Some(serde_json::from_value(status).unwrap())
    }

    fn of(self, call: Call) -> CallFailed {
        let status = self.status(call.verb);
        let lost = AnswerClass::retry(self == Self::Broken && call.verb.writes());
        CallFailed::Answered {
            outcome: status
                .as_ref()
                .map_or(lost, |status| AnswerClass::of(call.verb, status)),
            code: status.as_ref().map(|status| status.code),
            message: status.map_or_else(|| "no answer".to_owned(), |status| status.message),
            call,
        }
    }

    /// The answer to a request that fails.
    pub(super) fn answer<M: Model>(self, ask: &RequestOf<M::Controller>) -> Completed<ModelAnswerOf<M>> {
        match ask {
            RequestOf::Query(query) => Completed::Read(Err(self.of(query.request().call)), None),
            RequestOf::Write(write) => Completed::Wrote(Err(self.of(write.request().call))),
        }
    }
}
