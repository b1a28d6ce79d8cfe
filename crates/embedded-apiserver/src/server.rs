//! From a request to its answer: faults, routing, and the verbs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use tokio::time::{sleep, timeout};

use super::access::{Attributes, User, authorize, is_self_review, self_review};
use super::call::Call;
use super::connections::{self, Since};
use super::discovery;
use super::encoding::{Accept, Encoding};
use super::failure::StatusError;
use super::fault_plan::{self, After, Before, FaultPlan, ReadFaults};
use super::list::{self, Page};
use super::options::{self, ListOptions, Parameters};
use super::protobuf;
use super::reply::{self, Body, refused, respond, streamed, whole};
use super::request::{RecordedRequest, RequestVerb};
use super::resource::table::NAMESPACES;
use super::resource::{Resource, Target};
use super::shared::{Observer, Shared};
use super::store::Store;
use super::view::View;
use super::watch::Watching;

/// Longest time that a request waits for a future version.
const VERSION_WAIT: Duration = Duration::from_secs(3);

impl Shared {
    /// Answers a request; an error means that the connection failed.
    pub(super) async fn handle(self: Arc<Self>, request: http::Request<Bytes>) -> io::Result<Response<Body>> {
        let (mut head, body) = request.into_parts();
        let speaks_protobuf = self.protobuf.load(Ordering::Relaxed);
        let body = if speaks_protobuf {
            protobuf::to_json(&mut head.headers, body)
        } else {
            body
        };
        let accept = Accept::of(&head.headers, speaks_protobuf);
        let refusals = accept.of_refusals();
        let query = Parameters::of(&head.uri);
        let mut request =
            RecordedRequest::new(&head.method, &head.uri, &head.headers, &body, query.flag("watch"));
        request.arrived = self.elapsed();
        let number = self.record(request.clone());
        self.reachable()?;
        let fault_plan = FaultPlan::of(self.faults.lock().take(&request));
        if !fault_plan.delay.is_zero() {
            sleep(fault_plan.delay).await;
            self.still_reachable()?;
        }
        let garbled = fault_plan.garbles();
        let mut response = match fault_plan.before {
            Before::Break => return Err(connections::reset()),
            Before::Late(late) => {
                self.observe(number, &request);
                self.late_effects.fetch_add(1, Ordering::Relaxed);
                #[allow(
                    clippy::disallowed_methods,
                    reason = "it ends by itself, and nobody waits for it"
                )]
                tokio::spawn(async move {
                    sleep(late).await;
                    if self.reachable().is_ok() {
                        let (accept, query) = (
                            Accept::of(&head.headers, speaks_protobuf),
                            Parameters::of(&head.uri),
                        );
                        let reads = fault_plan.read_faults;
                        // Nobody waits for the answer.
                        let _ = self.serve(&head, accept, request, query, body, reads).await;
                    }
                    self.late_effects.fetch_sub(1, Ordering::Relaxed);
                });
                return Err(connections::reset());
            }
            Before::Hang => return Err(self.cut().await),
            Before::TimeOut(after) => self.time_out(after, refusals).await,
            Before::Refuse(refusal) => refusal.into_response(refusals),
            Before::Nothing => {
                self.observe(number, &request);
                let served = self
                    .serve(&head, accept, request, query, body, fault_plan.read_faults)
                    .await;
                let response = served.unwrap_or_else(|failure| refused(&failure, refusals));
                match fault_plan.after {
                    After::Nothing => response,
                    After::Break => return Err(connections::reset()),
                    After::Hang => return Err(self.cut().await),
                    After::TimeOut(after) => self.time_out(after, refusals).await,
                    After::BreakOff => fault_plan::broken_off(response),
                    After::Garble => fault_plan::garbled(),
                }
            }
        };
        self.still_reachable()?;
        if let Ok(date) = HeaderValue::from_str(&self.clock.date()) {
            response.headers_mut().insert(header::DATE, date);
        }
        if let Some(request) = self.requests.lock().get_mut(number) {
            request.code = Some(response.status().as_u16());
            request.garbled = garbled;
        }
        Ok(response)
    }

    fn record(&self, request: RecordedRequest) -> usize {
        let mut requests = self.requests.lock();
        requests.push(request);
        requests.len() - 1
    }

    /// Records when the request is carried out, and calls the observers.
    fn observe(self: &Arc<Self>, number: usize, request: &RecordedRequest) {
        if let Some(request) = self.requests.lock().get_mut(number) {
            request.served = Some(self.elapsed());
        }
        let observer = self.observer.lock().clone();
        if let Some(Observer(tell)) = observer {
            tell(self, request);
        }
    }

    /// Completes when the connections open at the time of the call are cut.
    async fn cut(&self) -> io::Error {
        let opened = self.connections.get();
        self.connections
            .wait_for(|now| now.since(opened) == Since::Broken)
            .await;
        connections::reset()
    }

    async fn time_out(&self, after: Duration, refusals: Encoding) -> Response<Body> {
        sleep(after).await;
        fault_plan::timed_out(refusals)
    }

    fn reachable(&self) -> io::Result<()> {
        if self.connections.get().down {
            return Err(connections::refused());
        }
        Ok(())
    }

    /// [`reachable`](Self::reachable) for an accepted request, which may have taken effect: reset, not refused.
    fn still_reachable(&self) -> io::Result<()> {
        self.reachable().map_err(|_| connections::reset())
    }

    async fn serve(
        self: &Arc<Self>,
        head: &Parts,
        accept: Accept<'_>,
        request: RecordedRequest,
        query: Parameters,
        body: Bytes,
        read_faults: ReadFaults,
    ) -> Result<Response<Body>, StatusError> {
        let user = self.admit(head, &request, &query)?;
        if request.resource.is_empty() || request.version.is_empty() {
            let path = head.uri.path();
            return Ok(discovery::answer(path, &self.served.read(), accept.of_refusals()));
        }
        if is_self_review(&request) {
            let reviewed = self_review(&self.access, &self.store.lock(), &user, &request.body);
            return Ok(reply::document(StatusCode::CREATED, Encoding::Json, &reviewed));
        }
        let Some((resource, target)) = self.route(&head.method, &request)? else {
            return Ok(reply::no_such_page());
        };
        let view = View::accepted(resource, accept)?;
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let call = Call {
            user,
            resource,
            target,
            request,
            query,
            view,
            content_type: content_type.unwrap_or_default().to_owned(),
            body,
            read_faults,
        };
        if let Some(answer) = self.below(&call) {
            return answer;
        }
        match call.request.verb {
            RequestVerb::Get => self.get(call).await,
            RequestVerb::List => self.list(call).await,
            RequestVerb::Watch => self.watch(call).await,
            RequestVerb::Create | RequestVerb::Update | RequestVerb::Patch => self.write_object(&call),
            RequestVerb::Delete => self.delete(&call),
            RequestVerb::DeleteCollection => self.delete_collection(&call),
        }
    }

    /// The resource and the part of it that a request is about; `None` if its group is not served.
    fn route(
        &self,
        method: &Method,
        request: &RecordedRequest,
    ) -> Result<Option<(&'static Resource, Target)>, StatusError> {
        let served = self.served.read();
        if !discovery::has_group(&served, &request.group) || request.version.is_empty() {
            return Ok(None);
        }
        let resource = served
            .iter()
            .find(|resource| {
                resource.group == request.group
                    && resource.version == request.version
                    && resource.plural == request.resource
            })
            .ok_or_else(StatusError::no_such_resource)?;
        let has_namespace = !request.namespace.is_empty();
        let has_name = !request.name.is_empty();
        let is_misplaced = if resource.is_namespaced() {
            has_name && !has_namespace
        } else {
            has_namespace
        };
        if is_misplaced {
            return Err(StatusError::no_such_resource());
        }
        let target = resource
            .target(&request.subresource)
            .ok_or_else(|| StatusError::no_such_subresource(resource, &request.name))?;
        let is_allowed = match request.verb {
            verb if target != Target::Object => target.takes(verb),
            RequestVerb::Create => !has_name && has_namespace == resource.is_namespaced(),
            RequestVerb::Update | RequestVerb::Patch => has_name,
            RequestVerb::Get | RequestVerb::List | RequestVerb::Watch => *method == Method::GET,
            RequestVerb::Delete => true,
            RequestVerb::DeleteCollection => {
                has_namespace == resource.is_namespaced() && !resource.is(&NAMESPACES)
            }
        };
        if !is_allowed {
            return Err(match target {
                Target::Object => StatusError::method_not_allowed(),
                _ => StatusError::not_below(resource, request.verb),
            });
        }
        Ok(Some((resource, target)))
    }

    async fn get(&self, call: Call) -> Result<Response<Body>, StatusError> {
        let asked = options::version_of_get(&call.query)?;
        self.reach(asked.unwrap_or_default()).await?;
        let store = self.store.lock();
        let latest = self.latest(&store, &call, asked);
        let stored = store
            .get_at(call.resource, &call.key(), latest)
            .ok_or_else(|| StatusError::not_found(call.resource, &call.request.name))?;
        Ok(call.view.answer(StatusCode::OK, stored))
    }

    async fn list(&self, call: Call) -> Result<Response<Body>, StatusError> {
        let options = ListOptions::parse(call.resource, &call.query, false)?;
        self.reach(list::awaited_version(&options)).await?;
        let store = self.store.lock();
        let latest = self.latest(&store, &call, options.version);
        let page = Page::read(&store, call.resource, &call.prefix(), &options, call.view, latest)?;
        drop(store);
        Ok(page.into_answer(call.view))
    }

    async fn watch(self: &Arc<Self>, call: Call) -> Result<Response<Body>, StatusError> {
        let options = ListOptions::parse(call.resource, &call.query, true)?;
        if options.initial_events
            && let Err(failure) = self.reach(options.version.unwrap_or_default()).await
        {
            let encoding = call.view.encoding();
            let refused = whole(Watching::refused(&failure, encoding));
            return Ok(respond(StatusCode::OK, encoding.media_of_watch(), refused));
        }
        let latest = self.latest(&self.store.lock(), &call, options.version);
        let prefix = call.prefix();
        let media = call.view.encoding().media_of_watch();
        let watching = Watching::open(
            self.clone(),
            call.resource,
            prefix,
            options,
            call.view,
            call.read_faults,
            latest,
        );
        Ok(streamed(media, watching.into_stream()))
    }

    fn write_object(&self, call: &Call) -> Result<Response<Body>, StatusError> {
        call.check_size()?;
        let (written, created) = match call.request.verb {
            RequestVerb::Create => {
                let object = call.object()?;
                (call.writing(self, |write| write.create(object))?, true)
            }
            RequestVerb::Update => {
                let object = call.object()?;
                call.writing(self, |write| {
                    if write.update_creates() {
                        Ok((write.create_by_update(object)?, true))
                    } else {
                        Ok((write.update(object)?, false))
                    }
                })?
            }
            _ => {
                let patch = call.patch()?;
                call.writing(self, |write| write.patch(patch))?
            }
        };
        let code = if created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        Ok(call.view.answer(code, &written))
    }

    /// The latest version that a read sees, if it asks for at least the version `asked`.
    fn latest(&self, store: &Store, call: &Call, asked: Option<u64>) -> u64 {
        match (call.read_faults.stale, asked) {
            (Some((by, _)), Some(asked)) => self.past(store, call, by).max(asked),
            (Some((by, true)), None) => self.past(store, call, by),
            (Some((_, false)) | None, _) => store.version(),
        }
    }

    fn past(&self, store: &Store, call: &Call, by: Duration) -> u64 {
        let now = self.clock.instant();
        store.version_at(call.resource, now.checked_sub(by).unwrap_or(now))
    }

    /// Waits until the store has reached `version`.
    async fn reach(&self, version: u64) -> Result<(), StatusError> {
        if self.store.lock().version() >= version {
            return Ok(());
        }
        let reached = self.written.wait_for(|written| written >= version);
        if timeout(VERSION_WAIT, reached).await.is_ok() {
            return Ok(());
        }
        Err(StatusError::version_too_large(
            version,
            self.store.lock().version(),
        ))
    }

    /// The user who sends a request, if allowed.
    pub(super) fn admit(
        &self,
        head: &Parts,
        request: &RecordedRequest,
        query: &Parameters,
    ) -> Result<User, StatusError> {
        let user = self.authenticate(head)?;
        let asked = Attributes::of(&head.method, request, query);
        authorize(&self.access, &self.store.lock(), &user, &asked)?;
        Ok(user)
    }

    /// The holder of the token, else the default user of the transport.
    fn authenticate(&self, head: &Parts) -> Result<User, StatusError> {
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
                .ok_or_else(|| StatusError::new(401, "Unauthorized", "Unauthorized")),
        }
    }
}
