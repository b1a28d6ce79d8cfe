//! A query or a write as a request.

use std::time::Duration;

use kube_core::Resource;

use crate::api::{Call, Verb};
use crate::cache::Wire;
use crate::config::Encoding;

/// A request as data.
#[derive(Debug)]
pub struct Request {
    /// Verb, resource and target, for messages and the classification of the answer.
    pub call: Call,
    /// The request itself, as [`kube_core::Request`] makes it.
    pub http: Result<http::Request<Vec<u8>>, kube_core::request::Error>,
    /// The deadline for the answer; `None`: that of all requests.
    pub answer_within: Option<Duration>,
    /// The `Accept` header where protobuf is wanted, if the answer can be read in it.
    pub accept: Option<String>,
}

impl Request {
    /// A request for `target`: an object of `resource`, or what a list selects.
    pub fn new(
        verb: Verb,
        resource: &'static str,
        target: &impl ToString,
        http: Result<http::Request<Vec<u8>>, kube_core::request::Error>,
    ) -> Self {
        let target = target.to_string();
        Self {
            call: Call {
                verb,
                resource,
                target,
            },
            http,
            answer_within: None,
            accept: None,
        }
    }

    /// Limits the time until the answer to `time`, in place of the usual limit.
    #[must_use]
    pub fn answered_within(self, time: Duration) -> Self {
        Self {
            answer_within: Some(time),
            ..self
        }
    }

    /// Accepts the answer in either encoding, as `W` reads objects.
    #[must_use]
    pub fn read_as<W: Wire>(self) -> Self {
        let accept = Encoding::Protobuf.accept::<W>(self.call.verb == Verb::List);
        Self {
            accept: Some(accept),
            ..self
        }
    }
}

/// Makes requests to the objects of `K`, in `namespace` if the kind has any.
pub fn requests_to<K: Resource<DynamicType = ()>>(namespace: Option<&str>) -> kube_core::Request {
    kube_core::Request::new(K::url_path(&(), namespace))
}
