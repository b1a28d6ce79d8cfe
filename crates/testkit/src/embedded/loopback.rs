//! The door for other processes: HTTP on loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::door::Door;

/// A server that listens; dropping it closes the socket.
///
/// Paused time does not go with sockets: tokio's clock runs ahead while bytes are in the kernel.
#[derive(Debug)]
pub struct Loopback {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Loopback {
    pub(super) async fn open(door: Door, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        #[allow(clippy::disallowed_methods, reason = "ended by drop")]
        let serving = tokio::spawn(accept(listener, door));
        Ok(Self { address, serving })
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig that leads here, as JSON, which is YAML too.
    pub fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "embedded", "cluster": { "server": self.url() } }],
            "users": [{ "name": "anyone", "user": {} }],
            "contexts": [{ "name": "embedded", "context": { "cluster": "embedded", "user": "anyone" } }],
            "current-context": "embedded",
        })
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Serves connections until it is dropped, which cuts them. A request whose connection is to fail ends
/// its connection.
async fn accept(listener: TcpListener, door: Door) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    let service = TowerToHyperService::new(door.clone());
                    connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
                }
            }
        }
    }
}
