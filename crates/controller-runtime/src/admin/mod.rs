//! The admin server (CORE-8): `/metrics`, `/livez`, `/readyz`, `/healthz`, `/configz`, `/flagz`, `/statusz`, `/version`.
//!
//! Permissions to read, with an authorizer that asks the API server ([`Authorizer`]) and without:
//!
//! | | with | without |
//! |---|---|---|
//! | `/livez`, `/readyz`, `/healthz`, `/version` | everybody | everybody |
//! | `/metrics` | callers allowed to `get` it | everybody |
//! | `/configz`, `/flagz`, `/statusz` | callers allowed to `get` it | callers on this host or in this pod |
//! | reasons in `/livez`, `/readyz`, `/healthz` | callers allowed to `get` e.g. `/readyz/*` | the same as `/configz` |
//!
//! "On this host or in this pod" means from 127.0.0.1 or `::1`. `kubectl port-forward` comes from there too, allowed by
//! the API server. Other addresses of 127.0.0.0/8 do not count: a service mesh forwards other callers' requests from
//! one of them.
//!
//! The server must answer a kubelet under any load, and clients cannot hold it up: a connection carries one request and
//! is cut after five seconds, whatever it is doing (TLS, headers, reading the answer). If 64 connections are open, a
//! new one replaces the oldest: a probe sends its request at once, and the oldest has had its time.

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
use controller_core::error::Chain;
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
use crate::metrics::Build;
use crate::readiness::{Liveness, Readiness};
use crate::tls_files;
pub use crate::tls_files::TlsPaths;

/// Most bytes of a request's headers; the least that hyper accepts.
const READ_BUFFER: usize = 8 * 1024;
/// Most connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// Pause after `accept` failed, most likely for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Time for the answers in progress when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Why the admin server cannot start. The messages name the file or the address.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use, not on this machine, or needs a privilege that the process lacks.
    #[error("bind the admin server to {addr}")]
    Bind {
        /// The requested address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The certificate and its key cannot be used.
    #[error(transparent)]
    Tls(#[from] tls_files::Error),
    /// No certificate could be made.
    #[error("make a self-signed certificate for the admin server")]
    SelfSigned(#[source] BoxError),
}

/// The certificate for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// The one in these files, read again when they change.
    Files(TlsPaths),
    /// Self-signed, generated at startup: encrypts, but does not authenticate the server.
    SelfSigned,
}

/// Limits on clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminLimits {
    /// Longest time for a connection, from accept to the last byte of the answer. 5 s by default.
    pub request: Duration,
    /// Most open connections. 64 by default.
    pub connections: usize,
    /// The TLS files are checked when a connection arrives, at most this often. 5 s by default.
    pub tls_check: Duration,
}

/// The data behind the endpoints.
#[derive(Clone, Debug)]
pub struct AdminState {
    /// For `/metrics`.
    pub registry: Registry,
    /// For `/readyz`.
    pub readiness: Readiness,
    /// For `/livez` and `/healthz`.
    pub liveness: Liveness,
    /// For `/flagz` and `/statusz`: name of the component.
    pub component: &'static str,
    /// For `/configz` and `/flagz`: the effective configuration, secrets masked ([`crate::config::effective`]).
    pub config: Value,
    /// For `/version` and `/statusz`.
    pub build: Build,
    /// Decides who may read what; `None`: the column "without" of the [table](self).
    pub authorizer: Option<Authorizer>,
    /// For `/version`: the minor versions of Kubernetes that the controller works with, such as `1.37`.
    pub kubernetes_versions: &'static [&'static str],
}

/// A server that is bound to its address but does not serve yet.
#[derive(Debug)]
pub struct AdminServer {
    listener: TcpListener,
    local_addr: SocketAddr,
    tls: Option<Tls>,
    clock: Clock,
    limits: AdminLimits,
}

impl Default for AdminLimits {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(5),
            connections: 64,
            tls_check: Duration::from_secs(5),
        }
    }
}

impl AdminServer {
    /// Binds to `addr` (port 0: any free one) and loads the certificate, if one is configured.
    pub async fn bind(
        addr: SocketAddr,
        certificate: Option<Certificate>,
        clock: Clock,
        limits: AdminLimits,
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

    /// The bound address, with the actual port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves until `stop` completes, then lets answers in progress finish, for a second at most.
    ///
    /// Nothing that a client does ends the server.
    pub async fn serve(self, state: AdminState, stop: impl Future<Output = ()>) {
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
                    // Connections that have ended but are not reaped do not count.
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
                // Caused by the client.
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

/// Binds `[::]` to every address, IPv4 included, whatever the system's default; without IPv6, binds `0.0.0.0`.
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
        // Probes and scrapes are further apart than a connection lasts.
        .keep_alive(false)
        // The connection as a whole has a limit.
        .header_read_timeout(None)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
