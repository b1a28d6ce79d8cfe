//! The transport for other processes: HTTP/1.1 on loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::connections::Since;
use super::shared::Shared;
use super::transport::Transport;

/// Wait after the system refused a connection or a socket, for example because file descriptors ran out.
const RETRY: Duration = Duration::from_millis(50);

/// Limit for connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A listening server; dropping it closes the socket and cuts its connections.
///
/// While the server is down, it refuses connections; going down cuts the existing ones, including idle ones. A fault
/// that breaks a request cuts its connection.
///
/// Paused time does not work with sockets: tokio's clock runs ahead while bytes are in the kernel.
#[derive(Debug)]
pub struct Loopback {
    address: SocketAddr,
    serving: JoinHandle<()>,
    /// Keeps the port while nothing listens on it.
    _reserved: TcpSocket,
}

impl Loopback {
    pub(super) fn open(shared: Arc<Shared>, port: u16) -> io::Result<Self> {
        let reserved = bind((Ipv4Addr::LOCALHOST, port).into())?;
        let address = reserved.local_addr()?;
        let listener = bind(address)?.listen(BACKLOG)?;
        #[allow(clippy::disallowed_methods, reason = "ended by drop")]
        let serving = tokio::spawn(serve(listener, address, shared));
        Ok(Self {
            address,
            serving,
            _reserved: reserved,
        })
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig for this server, in JSON, which is also YAML. Its user is anonymous.
    pub fn kubeconfig(&self) -> Value {
        self.config("anonymous", &json!({}))
    }

    /// A kubeconfig for the holder of `token`.
    ///
    /// kube sends the token. kubectl and client-go send no token without TLS and stay anonymous.
    pub fn kubeconfig_for(&self, token: &str) -> Value {
        self.config("holder", &json!({ "token": token }))
    }

    /// Writes [`Self::kubeconfig`] to the file `path`.
    pub fn kubeconfig_file(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.kubeconfig().to_string())
    }

    fn config(&self, name: &str, user: &Value) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "embedded", "cluster": { "server": self.url() } }],
            "users": [{ "name": name, "user": user }],
            "contexts": [{ "name": "embedded", "context": { "cluster": "embedded", "user": name } }],
            "current-context": "embedded",
        })
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A socket whose address other sockets of this process can share.
fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Serves connections until the future is dropped; listens while the server is up.
async fn serve(mut listener: TcpListener, address: SocketAddr, shared: Arc<Shared>) {
    loop {
        accept(listener, &shared).await;
        listener = loop {
            shared.connections.wait_for(|now| !now.down).await;
            match bind(address).and_then(|socket| socket.listen(BACKLOG)) {
                Ok(listener) => break listener,
                Err(_) => sleep(RETRY).await,
            }
        };
    }
}

/// Accepts and serves connections until the server goes down, then cuts them.
async fn accept(listener: TcpListener, shared: &Arc<Shared>) {
    let opened = shared.connections.get();
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            () = shared.connections.wait_for(|now| now.down || now.since(opened) == Since::Broken) => return,
            Some(_) = serving.join_next() => {}
            stream = next(&listener) => {
                serving.spawn(connection(stream, shared.clone()));
            }
        }
    }
}

async fn next(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(_) => sleep(RETRY).await,
        }
    }
}

/// Serves one connection until either side ends it; an error shows at the client.
async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    // Send small watch events at once, without waiting for the acknowledgement of the previous one.
    if stream.set_nodelay(true).is_ok() {
        let service = TowerToHyperService::new(Transport::from_outside(shared));
        let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        serving.await.unwrap_or_default();
    }
}
