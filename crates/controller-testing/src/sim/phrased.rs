//! A request as it is phrased: the model's API server is held against the embedded one.

use std::fmt::Debug;

use bytes::Bytes;
use controller_core::api::{AnswerClass, CallFailed};
use controller_core::cache::{Versioned, View, Wire, protobuf};
use controller_core::controller::{Accepted, Completed, Controller, Now, Query, RequestOf, Write};
use controller_core::meta::{ObjectKey, Uid};
use embedded_apiserver::{Resource, Server};
use futures::FutureExt;
use http::header::{ACCEPT, HeaderValue};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::flying::{Flying, answer_of};
use super::model::{Model, START};
use super::resource::{SimObject, SimResource, observed};

/// The first query, the first write, and one in this many after them are sent to [`Model::server`], too.
const ONE_IN: usize = 8;

/// Lets a request arrive that has not, and has not failed. Where the request is sent to [`Model::server`], too, panics
/// unless both answer the same, and hold the same then. `arrived` counts queries and writes.
pub(super) fn arrive<M: Model>(
    model: &mut M,
    flying: &mut Flying<M>,
    now: Now,
    arrived: &mut Option<[usize; 2]>,
) {
    if flying.answer.is_some() || flying.fails_at.is_some() {
        return;
    }
    let ask = &flying.ask;
    let is_sent = arrived.as_mut().is_some_and(|arrived| {
        let count = &mut arrived[usize::from(matches!(ask, RequestOf::Write(_)))];
        *count += 1;
        *count % ONE_IN == 1
    });
    let server = is_sent.then(|| model.server(ask, now)).flatten();
    let compare = |model: &M| {
        let compared = server
            .as_ref()
            .map_or(Ok(()), |server| model.compare_with(ask, server));
        compared.unwrap_or_else(|why| panic!("{ask:?}: {why}"));
    };
    compare(model);
    let answer = answer_of(model, ask, now);
    if let Some(server) = &server {
        match (&answer, &send::<M::Controller>(server, ask)) {
            (Completed::Read(model, _), Completed::Read(server, _)) => assert_same(model, server, ask),
            (Completed::Wrote(model), Completed::Wrote(server)) => assert_same(model, server, ask),
            _ => unreachable!("a query is read, a write is written"),
        }
    }
    compare(model);
    flying.answer = Some(answer);
}

fn assert_same<T: PartialEq + Debug>(
    model: &Result<T, CallFailed>,
    server: &Result<T, CallFailed>,
    ask: &impl Debug,
) {
    let same = match (model, server) {
        (Ok(model), Ok(server)) => model == server,
        (Err(model), Err(server)) => model.outcome() == server.outcome(),
        _ => false,
    };
    assert!(
        same,
        "the model answers {model:?}, the embedded API server {server:?} to {ask:?}"
    );
}

/// Sends a request without a runtime: the server answers at once.
fn send<C: Controller>(server: &Server, ask: &RequestOf<C>) -> Completed<<C::Query as Query>::Answer> {
    let request = match ask {
        RequestOf::Query(query) => query.request(),
        RequestOf::Write(write) => write.request(),
    };
    let mut http = request.http.unwrap().map(Body::from);
    if let Some(accept) = request.accept {
        http.headers_mut()
            .insert(ACCEPT, HeaderValue::try_from(accept).unwrap());
    }
    let answered = async {
        let (head, body) = server.transport().oneshot(http).await.unwrap().into_parts();
        (head.status, body.collect().await.unwrap().to_bytes())
    };
    let (status, body) = answered.now_or_never().unwrap();
    let body: Result<Bytes, CallFailed> = if status.is_success() {
        Ok(body)
    } else {
        let refusal = if protobuf::is_enveloped(&body) {
            protobuf::read_status(&body).unwrap()
        } else {
            serde_json::from_slice(&body).unwrap()
        };
        let outcome = AnswerClass::of(request.call.verb, &refusal);
        Err(CallFailed::Answered {
            call: request.call,
            outcome,
            code: Some(status.as_u16()),
            message: refusal.message,
        })
    };
    match ask {
        RequestOf::Query(query) => Completed::Read(body.map(|body| query.read(&body).unwrap()), None),
        RequestOf::Write(_) => Completed::Wrote(body.map(|body| Accepted::read(&body).unwrap())),
    }
}

impl<C: Controller, V: View + Clone + Debug + PartialEq> SimResource<C, V> {
    /// The objects that `wanted` selects, as they are stored: `fields` with the identity of the object.
    pub fn stored(
        &self,
        wanted: impl Fn(&ObjectKey) -> bool,
        fields: impl Fn(&SimObject<V>) -> Value,
    ) -> impl Iterator<Item = Value> {
        let wanted = self.objects().iter().filter(move |(key, _)| wanted(key));
        wanted.map(move |(key, object)| stored(key, &object.uid, object.version, fields(object)))
    }

    /// An error unless `server` holds the same objects, as `compared` shows them, read as a `W`.
    pub fn compare_with<W: Wire<View = V>>(
        &self,
        server: &Server,
        resource: &'static Resource,
        compared: impl Fn(&V) -> Option<V>,
    ) -> Result<(), String> {
        let listed = server.list(resource);
        let read = |object: &Value| Versioned::read::<W>(object.to_string().as_bytes()).unwrap();
        let compared = |object: Versioned<V>| {
            let view = compared(&object.view)?;
            Some(Versioned { view, ..object })
        };
        let theirs: Vec<_> = listed.iter().filter_map(read).filter_map(compared).collect();
        let ours: Vec<_> = self
            .objects()
            .values()
            .map(observed)
            .filter_map(compared)
            .collect();
        if ours == theirs {
            return Ok(());
        }
        let of = resource.plural;
        Err(format!(
            "{of} of the model: {ours:?}, of the embedded API server: {theirs:?}"
        ))
    }
}

/// `fields`, with the identity of an object.
pub fn stored(key: &ObjectKey, uid: &Uid, version: u64, mut fields: Value) -> Value {
    let metadata = &mut fields["metadata"];
    metadata["name"] = json!(*key.name);
    if let Some(namespace) = &key.namespace {
        metadata["namespace"] = json!(**namespace);
    }
    metadata["uid"] = json!(uid.to_string());
    metadata["resourceVersion"] = json!(version.to_string());
    if metadata["creationTimestamp"].is_null() {
        metadata["creationTimestamp"] = json!(START);
    }
    fields
}

/// A server at `now` that holds `objects`; the last write was `version`.
pub fn server(now: Now, objects: Vec<Value>, version: u64) -> Server {
    let server = Server::new(move || now.wall);
    server.restore(objects, version).unwrap();
    server
}
