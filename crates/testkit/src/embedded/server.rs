//! From a request to its answer: faults, routing, and the verbs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, Method, Response, StatusCode, header};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::access::{Access, review};
use super::body::Reading;
use super::call::Call;
use super::clock::Clock;
use super::connections::{self, Connections};
use super::definitions::Definitions;
use super::discovery::Visit;
use super::failure::Failure;
use super::faults::{self, Fault, Faults};
use super::list::{self, Page};
use super::managed_fields::{Part, Writer};
use super::namespaces;
use super::options::{self, ListOptions, Parameters};
use super::protobuf;
use super::reply::{self, Body, answer, refused, streamed};
use super::request::{Request, Verb};
use super::resource::table::NAMESPACES;
use super::resource::{Action, Resource, SERVED, Target};
use super::store::Store;
use super::tokens::Tokens;
use super::view::View;
use super::watch::Watching;
use super::write::{Origin, Write};
use super::write_options;

/// How long a request waits for a version that is yet to come.
const VERSION_WAIT: Duration = Duration::from_secs(3);

/// The state of a server.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) store: Mutex<Store>,
    pub(super) served: RwLock<Vec<&'static Resource>>,
    pub(super) requests: Mutex<Vec<Request>>,
    pub(super) faults: Mutex<Faults>,
    /// The version of the last write.
    pub(super) written: watch::Sender<u64>,
    pub(super) connections: watch::Sender<Connections>,
    pub(super) access: Mutex<Access>,
    pub(super) definitions: Mutex<Definitions>,
    /// Tokens of service accounts.
    pub(super) tokens: Mutex<Tokens>,
    /// Whether the first deleted namespace is to start their controller.
    pub(super) ends_namespaces: AtomicBool,
}

impl Shared {
    pub(super) fn new(clock: Clock) -> Self {
        let mut store = Store::new();
        namespaces::create_initial(&mut store, &clock.now(), clock.instant());
        Self {
            clock,
            written: watch::Sender::new(store.version()),
            store: Mutex::new(store),
            served: RwLock::new(SERVED.to_vec()),
            requests: Mutex::default(),
            faults: Mutex::default(),
            connections: watch::Sender::default(),
            access: Mutex::default(),
            definitions: Mutex::default(),
            tokens: Mutex::default(),
            ends_namespaces: AtomicBool::new(true),
        }
    }

    /// Changes the store and wakes those who wait for a change.
    pub(super) fn write<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.store.lock();
        let result = change(&mut store);
        self.definitions
            .lock()
            .settle(&mut store, &self.served, &self.clock);
        let version = store.version();
        self.written.send_if_modified(|written| {
            let is_news = *written != version;
            *written = version;
            is_news
        });
        result
    }

    /// Answers a request; an error stands for a connection that failed.
    pub(super) async fn handle(self: Arc<Self>, request: http::Request<Bytes>) -> io::Result<Response<Body>> {
        let (mut head, body) = request.into_parts();
        let body = protobuf::to_json(&mut head.headers, body);
        let query = Parameters::of(&head.uri);
        let request = Request::new(&head.method, &head.uri, &head.headers, &body, query.flag("watch"));
        let number = self.record(request.clone());
        let mut decided = None;
        let mut drops_answer = false;
        self.reachable()?;
        let faults = self.faults.lock().take(&request);
        for fault in faults {
            match fault {
                Fault::Delay(wait) => sleep(wait).await,
                Fault::DropBefore => return Err(connections::reset()),
                Fault::DropAfterEffect => drops_answer = true,
                Fault::Throttled { retry_after } => decided = Some(reply::throttled(retry_after)),
                Fault::Status {
                    code,
                    reason,
                    retry_after,
                } => decided = Some(refused(&faults::refusal(code, &reason, retry_after))),
            }
        }
        self.reachable()?;
        let mut response = match decided {
            Some(response) => response,
            None => self.serve(&head, request, query, body).await,
        };
        self.reachable()?;
        if drops_answer {
            return Err(connections::reset());
        }
        if let Ok(date) = HeaderValue::from_str(&self.clock.date()) {
            response.headers_mut().insert(header::DATE, date);
        }
        if let Some(request) = self.requests.lock().get_mut(number) {
            request.code = Some(response.status().as_u16());
        }
        Ok(response)
    }

    fn record(&self, request: Request) -> usize {
        let mut requests = self.requests.lock();
        requests.push(request);
        requests.len() - 1
    }

    fn reachable(&self) -> io::Result<()> {
        if self.connections.borrow().down {
            return Err(connections::refused());
        }
        Ok(())
    }

    async fn serve(
        self: &Arc<Self>,
        head: &http::request::Parts,
        request: Request,
        query: Parameters,
        body: Bytes,
    ) -> Response<Body> {
        let text = |name| {
            head.headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
                .unwrap_or_default()
        };
        let user = match self.admit(head, &request, &query) {
            Ok(user) => user,
            Err(failure) => return refused(&failure),
        };
        if request.resource.is_empty() || request.version.is_empty() {
            return Visit::of(head, &query).answer(&self.served.read());
        }
        if let Some(review) = review::asked_for(&request) {
            return self
                .review(review, &request, &user)
                .unwrap_or_else(|failure| refused(&failure));
        }
        let (resource, target) = match self.route(&head.method, &request) {
            Ok(Some(routed)) => routed,
            Ok(None) => return reply::no_such_page(),
            Err(failure) => return refused(&failure),
        };
        let view = match View::accepted(resource, text(header::ACCEPT), request.verb) {
            Ok(view) => view,
            Err(failure) => return refused(&failure),
        };
        let reading = Reading::of(query.get("fieldValidation"));
        let call = Call {
            resource,
            target,
            request,
            query,
            view,
            content_type: text(header::CONTENT_TYPE).to_owned(),
            body,
            reading,
        };
        if let Some(answer) = self.below(&call) {
            return answer.unwrap_or_else(|failure| refused(&failure));
        }
        let answer = match call.request.verb {
            Verb::Get => self.get(call).await,
            Verb::List => self.list(call).await,
            Verb::Watch => self.watch(call).await,
            Verb::Create | Verb::Update | Verb::Patch => self.write_object(&call),
            Verb::Delete => self.delete(&call),
            Verb::DeleteCollection => self.delete_collection(&call),
        };
        answer.unwrap_or_else(|failure| refused(&failure))
    }

    /// The resource that a request is about and which part of it; none where its group is not served.
    fn route(
        &self,
        method: &Method,
        request: &Request,
    ) -> Result<Option<(&'static Resource, Target)>, Failure> {
        let served = self.served.read();
        let mut of_group = served
            .iter()
            .filter(|resource| resource.group == request.group)
            .peekable();
        if of_group.peek().is_none() || request.version.is_empty() {
            return Ok(None);
        }
        let resource = of_group
            .find(|resource| resource.version == request.version && resource.plural == request.resource)
            .ok_or_else(Failure::no_such_resource)?;
        let has_namespace = !request.namespace.is_empty();
        let has_name = !request.name.is_empty();
        let is_misplaced = if resource.is_namespaced() {
            has_name && !has_namespace
        } else {
            has_namespace
        };
        if is_misplaced {
            return Err(Failure::no_such_resource());
        }
        let target = resource
            .target(&request.subresource)
            .ok_or_else(|| Failure::no_such_subresource(resource, &request.name))?;
        let is_allowed = match request.verb {
            verb if target != Target::Object => target.takes(verb),
            Verb::Create => !has_name && has_namespace == resource.is_namespaced(),
            Verb::Update | Verb::Patch => has_name,
            Verb::Get | Verb::List | Verb::Watch => *method == Method::GET,
            Verb::Delete => true,
            Verb::DeleteCollection => has_namespace == resource.is_namespaced() && !resource.is(&NAMESPACES),
        };
        if !is_allowed {
            return Err(match target {
                Target::Object => Failure::method_not_allowed(),
                _ => Failure::not_below(resource, request.verb),
            });
        }
        Ok(Some((resource, target)))
    }

    async fn get(&self, call: Call) -> Result<Response<Body>, Failure> {
        self.reach(options::version_of_get(&call.query)?.unwrap_or_default())
            .await?;
        let store = self.store.lock();
        let stored = store
            .get(call.resource, &call.key())
            .ok_or_else(|| Failure::not_found(call.resource, &call.request.name))?;
        call.view.fits(false)?;
        Ok(answer(StatusCode::OK, call.view.object(stored)))
    }

    async fn list(&self, call: Call) -> Result<Response<Body>, Failure> {
        let options = ListOptions::parse(call.resource, &call.query, false)?;
        self.reach(list::awaited_version(&options)).await?;
        call.view.fits(true)?;
        let page = Page::read(
            &self.store.lock(),
            call.resource,
            &call.prefix(),
            &options,
            call.view,
        )?;
        Ok(streamed(
            futures::stream::iter(page.into_frames(call.view)).map(Ok),
        ))
    }

    async fn watch(self: &Arc<Self>, call: Call) -> Result<Response<Body>, Failure> {
        let mut options = ListOptions::parse(call.resource, &call.query, true)?;
        if !call.request.name.is_empty() {
            options.fields.name_is(&call.request.name);
        }
        if options.initial_events
            && let Err(failure) = self.reach(options.version.unwrap_or_default()).await
        {
            return Ok(answer(StatusCode::OK, Watching::refused(&failure)));
        }
        let prefix = call.prefix();
        let watching = Watching::open(self.clone(), call.resource, prefix, options, call.view);
        Ok(streamed(watching.into_stream()))
    }

    fn write_object(&self, call: &Call) -> Result<Response<Body>, Failure> {
        write_options::check(&call.query, call.request.verb, call.is_apply())?;
        call.check_size()?;
        let (written, created) = match call.request.verb {
            Verb::Create => {
                let object = call.object()?;
                (self.writing(call, |write| write.create(object))?, true)
            }
            Verb::Update => {
                let object = call.object()?;
                self.writing(call, |write| {
                    if write.update_creates() {
                        Ok((write.create_by_update(object)?, true))
                    } else {
                        Ok((write.update(object)?, false))
                    }
                })?
            }
            _ => {
                let patch = call.patch()?;
                self.writing(call, |write| write.patch(patch))?
            }
        };
        let code = if created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        let answer = answer(code, call.view.object(&written));
        Ok(reply::warning(answer, &call.reading.take_warnings()))
    }

    pub(super) fn writing<T>(&self, call: &Call, write: impl FnOnce(Write<'_>) -> T) -> T {
        let now = self.clock.now();
        let at = self.clock.instant();
        self.write(|store| {
            write(Write {
                store,
                resource: call.resource,
                namespace: &call.request.namespace,
                name: &call.request.name,
                writer: Writer {
                    manager: call.manager(),
                    now: &now,
                },
                at,
                origin: Origin::Client,
                part: match call.target {
                    Target::Status => Part::Status,
                    Target::Action(Action::Finalize) => Part::Finalize,
                    _ if call.resource.has_status() => Part::WithoutStatus,
                    _ => Part::Whole,
                },
                dry_run: call.query.get("dryRun") == "All",
                reading: &call.reading,
            })
        })
    }

    /// Waits until the store has reached `version`.
    async fn reach(&self, version: u64) -> Result<(), Failure> {
        let mut written = self.written.subscribe();
        let reached = timeout(VERSION_WAIT, written.wait_for(|written| *written >= version)).await;
        if matches!(reached, Ok(Ok(_))) {
            return Ok(());
        }
        Err(Failure::version_too_large(version, self.store.lock().version()))
    }
}
