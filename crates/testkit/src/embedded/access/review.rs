//! Reviews: questions about oneself, answered and never stored.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{Attributes, User};
use crate::embedded::failure::Failure;
use crate::embedded::object::text;
use crate::embedded::reply::{self, Body};
use crate::embedded::request::{Request, Verb};
use crate::embedded::resource::Resource;
use crate::embedded::server::Shared;

static SELF_SUBJECT_REVIEWS: Resource = Resource::cluster(
    "authentication.k8s.io",
    "v1",
    "SelfSubjectReview",
    "selfsubjectreviews",
);

static SELF_SUBJECT_ACCESS_REVIEWS: Resource = Resource::cluster(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
);

/// All that can be asked for.
pub(in crate::embedded) static REVIEWS: &[&Resource] = &[&SELF_SUBJECT_REVIEWS, &SELF_SUBJECT_ACCESS_REVIEWS];

/// The review that a request is about.
pub(in crate::embedded) fn asked_for(request: &Request) -> Option<&'static Resource> {
    REVIEWS.iter().copied().find(|review| {
        (review.group, review.version, review.plural)
            == (
                request.group.as_str(),
                request.version.as_str(),
                request.resource.as_str(),
            )
    })
}

impl Shared {
    /// Answers a review of `user` by itself.
    pub(in crate::embedded) fn review(
        &self,
        review: &'static Resource,
        request: &Request,
        user: &User,
    ) -> Result<Response<Body>, Failure> {
        if !request.name.is_empty() || !request.namespace.is_empty() {
            return Err(Failure::no_such_resource());
        }
        if request.verb != Verb::Create {
            return Err(Failure::method_not_allowed());
        }
        if !request.body.is_object() {
            return Err(Failure::unsupported_body());
        }
        let mut document = if review.group == SELF_SUBJECT_REVIEWS.group {
            let metadata = json!({ "creationTimestamp": self.clock.now() });
            json!({ "metadata": metadata, "status": { "userInfo": info(user) } })
        } else {
            let spec = &request.body["spec"];
            json!({ "metadata": {}, "spec": spec, "status": self.rights(spec, user)? })
        };
        document["kind"] = json!(review.kind);
        document["apiVersion"] = json!(review.api_version());
        Ok(reply::answer(StatusCode::CREATED, document.to_string().into()))
    }

    fn rights(&self, spec: &Value, user: &User) -> Result<Value, Failure> {
        let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        let asked = match (resource.is_object(), path.is_object()) {
            (true, false) => {
                let (plural, part) = (text(resource, "resource"), text(resource, "subresource"));
                Attributes::Resource {
                    verb: text(resource, "verb").to_owned(),
                    group: text(resource, "group").to_owned(),
                    resource: if part.is_empty() {
                        plural.to_owned()
                    } else {
                        format!("{plural}/{part}")
                    },
                    namespace: text(resource, "namespace").to_owned(),
                    name: text(resource, "name").to_owned(),
                }
            }
            (false, true) => Attributes::Path {
                verb: text(path, "verb").to_owned(),
                path: text(path, "path").to_owned(),
            },
            _ => return Err(one_of_both(resource)),
        };
        let verdict = self.judge(user, &asked);
        let mut status = json!({ "allowed": verdict.is_allowed });
        if !verdict.reason.is_empty() {
            status["reason"] = json!(verdict.reason);
        }
        Ok(status)
    }
}

fn info(user: &User) -> Value {
    let mut info = json!({ "username": user.name, "groups": user.groups });
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    info
}

fn one_of_both(resource: &Value) -> Failure {
    let (field, body) = if resource.is_object() {
        (
            "spec.nonResourceAttributes",
            "Invalid value: \"nonResourceAttributes\": cannot be specified in combination with resourceAttributes",
        )
    } else {
        (
            "spec.resourceAttributes",
            "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )
    };
    Failure::invalid(&SELF_SUBJECT_ACCESS_REVIEWS, "", "FieldValueInvalid", field, body)
}
