//! The admin server (CORE-8): `/metrics`, `/livez`, `/readyz`, `/healthz`, `/configz`, `/flagz`, `/statusz`, `/version`.
//!
//! Who may read what, where the API server is asked ([`Authorizer`]) and where it is not:
//!
//! | | asked | not asked |
//! |---|---|---|
//! | `/livez`, `/readyz`, `/healthz`, `/version` | everybody | everybody |
//! | `/metrics` | who may `get` it | everybody |
//! | `/configz`, `/flagz`, `/statusz` | who may `get` it | who is on this host or in this pod |
//! | the reasons in `/livez`, `/readyz`, `/healthz` | who may `get` `/readyz/*`, for example | the same |
//!
//! On this host or in this pod is who comes from 127.0.0.1 or `::1`. So does `kubectl port-forward`, which the API server has
//! allowed. Other addresses of 127.0.0.0/8 do not count: a service mesh comes from one of them with the requests of others.
//!
//! It must answer a kubelet under any load and cannot be held up: a connection carries one request and is cut
//! after five seconds, whatever it does meanwhile (TLS, headers, reading the answer). Where 64 are open, the oldest makes
//! room for a new one: a probe asks at once, and who holds connections open has had its time.

mod authorization;
mod routes;
mod tls;
mod zpages;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus::Registry;
use rustix::net::sockopt::set_ipv6_v6only;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tower::{BoxError, ServiceExt};

pub use self::authorization::Authorizer;
use self::tls::Tls;
use crate::clock::Clock;
use crate::error::Chain;
use crate::metrics::Build;
use crate::readiness::{Liveness, Readiness};
use crate::tls_files;
pub use crate::tls_files::TlsPaths;

/// A request has no more headers than this, in bytes; the least that hyper takes.
const READ_BUFFER: usize = 8 * 1024;
/// Connections that wait to be accepted, at most.
const BACKLOG: u32 = 1024;
/// How long to wait after `accept` failed, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// How long the answers that are under way may take when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Why the admin server cannot start. The messages name the file or the address.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use, not of this machine, or needs a right that the process lacks.
    #[error("bind the admin server to {addr}")]
    Bind {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The certificate and its key cannot be used.
    #[error(transparent)]
    Tls(#[from] tls_files::Error),
    /// No certificate could be made.
    #[error("make a self-signed certificate for the admin server")]
    SelfSigned(#[source] BoxError),
}

/// With which certificate the server speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// The one in these files, read again when they change.
    Files(TlsPaths),
    /// One of its own, made at the start. It hides what is said; whom it is said to, nobody can check.
    SelfSigned,
}

/// How much the clients may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a connection may last, from being accepted to the last byte of the answer. 5 s by default.
    pub request: Duration,
    /// How many connections may be open. 64 by default.
    pub connections: usize,
    /// The TLS files are looked at when a connection comes, at most this often. 5 s by default.
    pub tls_check: Duration,
}

/// What the endpoints show.
#[derive(Clone, Debug)]
pub struct State {
    /// `/metrics`.
    pub registry: Registry,
    /// `/readyz`.
    pub readiness: Readiness,
    /// `/livez` and `/healthz`.
    pub liveness: Liveness,
    /// `/flagz` and `/statusz`: whose they are.
    pub component: &'static str,
    /// `/configz` and `/flagz`: the effective configuration, secrets masked ([`crate::config::effective`]).
    pub config: Value,
    /// `/version` and `/statusz`.
    pub build: Build,
    /// Who says who may read what, if anybody does.
    pub authorizer: Option<Authorizer>,
    /// `/version`: the minor versions of Kubernetes that the controller works with, such as `1.37`.
    pub kubernetes_versions: &'static [&'static str],
}

/// A server that is bound to its address and serves nobody yet.
#[derive(Debug)]
pub struct AdminServer {
    listener: TcpListener,
    local_addr: SocketAddr,
    tls: Option<Tls>,
    clock: Clock,
    limits: Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(5),
            connections: 64,
            tls_check: Duration::from_secs(5),
        }
    }
}

impl AdminServer {
    /// Takes `addr` (port 0: any free one) and loads the certificate, if there is to be one.
    pub async fn bind(
        addr: SocketAddr,
        certificate: Option<Certificate>,
        clock: Clock,
        limits: Limits,
    ) -> Result<Self, Error> {
        let tls = match certificate {
            Some(Certificate::Files(paths)) => Some(Tls::load(paths, clock.clone(), limits.tls_check).await?),
            Some(Certificate::SelfSigned) => Some(Tls::self_signed().map_err(Error::SelfSigned)?),
            None => None,
        };
        let bind_error = |source| Error::Bind { addr, source };
        let listener = listen(addr).map_err(bind_error)?;
        let local_addr = listener.local_addr().map_err(bind_error)?;
        Ok(Self {
            listener,
            local_addr,
            tls,
            clock,
            limits,
        })
    }

    /// The address that it is bound to, with the port that was taken.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves until `stop` completes, then lets the answers that are under way finish, for a second at most.
    ///
    /// Nothing that a client does ends it.
    pub async fn serve(self, state: State, stop: impl Future<Output = ()>) {
        let Self {
            listener,
            tls,
            clock,
            limits,
            ..
        } = self;
        let router = routes::router(state, clock.clone());
        let tls = tls.map(Arc::new);
        let mut connections = JoinSet::new();
        let mut by_age = VecDeque::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                Some(_ended) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    // The ended ones that are not reaped yet do not count.
                    while connections.try_join_next().is_some() {}
                    by_age.retain(|connection: &AbortHandle| !connection.is_finished());
                    while by_age.len() >= limits.connections
                        && let Some(oldest) = by_age.pop_front()
                    {
                        tracing::debug!(%peer, "cut the oldest connection: there are too many");
                        oldest.abort();
                    }
                    let connection = answer(stream, peer.ip().to_canonical(), tls.clone(), router.clone());
                    let clock = clock.clone();
                    by_age.push_back(connections.spawn(async move {
                        match clock.timeout(limits.request, connection).await {
                            Ok(Ok(())) => {}
                            Ok(Err(error)) => {
                                tracing::debug!(%peer, "a connection failed: {}", Chain(&*error));
                            }
                            Err(_) => tracing::debug!(%peer, "cut a connection: it took too long"),
                        }
                    }));
                }
                // The client's own doing.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                    ) => {}
                Err(error) => {
                    tracing::warn!("the admin server could not accept a connection: {error}");
                    clock.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        let answered = async { while connections.join_next().await.is_some() {} };
        if clock.timeout(STOP_GRACE, answered).await.is_err() {
            tracing::debug!("stopped the admin server with connections open");
        }
    }
}

/// `[::]` is every address, also of IPv4, whatever the system's default for that is; without IPv6 it is `0.0.0.0`.
fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    match bind(addr) {
        Err(error) if addr.ip() == Ipv6Addr::UNSPECIFIED => {
            bind((Ipv4Addr::UNSPECIFIED, addr.port()).into()).map_err(|_| error)
        }
        bound => bound,
    }
}

fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if addr.ip() == Ipv6Addr::UNSPECIFIED {
        set_ipv6_v6only(&socket, false)?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

async fn answer(
    stream: TcpStream,
    peer: IpAddr,
    tls: Option<Arc<Tls>>,
    router: Router,
) -> Result<(), BoxError> {
    match tls {
        Some(tls) => http(tls.accept(stream).await?, peer, router).await?,
        None => http(stream, peer, router).await?,
    }
    Ok(())
}

async fn http<S>(stream: S, peer: IpAddr, router: Router) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.clone().oneshot(request)
    });
    http1::Builder::new()
        // Probes and scrapes come further apart than a connection lasts.
        .keep_alive(false)
        // The whole connection has a limit.
        .header_read_timeout(None)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
