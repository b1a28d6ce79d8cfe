//! Writes objects straight into etcd, past the API server: ten times as fast, and in any state.
//!
//! etcd's JSON gateway takes the objects as JSON, which the API server reads as well as protobuf.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use super::{ControlPlane, Error};

/// Objects per transaction: etcd takes 128 and 1.5 MiB.
pub(super) const AT_ONCE: usize = 50;

/// Why a request to etcd failed.
type Cause = Box<dyn std::error::Error + Send + Sync>;

impl ControlPlane {
    /// Writes `objects` as they are; each needs apiVersion, kind, name, uid and all that admission and defaults would
    /// have added. `resource` is its folder in the registry: `pods`, `jobs`, `minions` for nodes.
    ///
    /// The API server's watches report the objects like any write; many share a resourceVersion. The last object has
    /// its own: an API server that has reached that version has all objects, and its lists are complete.
    pub async fn store(&self, resource: &str, objects: &[Value]) -> Result<(), Error> {
        let mut etcd = Etcd::connect(&self.etcd_socket()).await?;
        let (to_be_last, others) = objects.split_at(objects.len().min(1));
        Self::put(&mut etcd, resource, others, AT_ONCE).await?;
        Self::put(&mut etcd, resource, to_be_last, AT_ONCE).await
    }

    /// [`store`](Self::store) with a separate resourceVersion for each object, as the API server writes: a watch that
    /// breaks among objects that share one resumes after all of them.
    pub async fn store_each(&self, resource: &str, objects: &[Value]) -> Result<(), Error> {
        let mut etcd = Etcd::connect(&self.etcd_socket()).await?;
        Self::put(&mut etcd, resource, objects, 1).await
    }

    async fn put(etcd: &mut Etcd, resource: &str, objects: &[Value], at_once: usize) -> Result<(), Error> {
        for some in objects.chunks(at_once) {
            let puts: Vec<Value> = some
                .iter()
                .map(|object| {
                    let key = encoded(key(resource, object));
                    json!({"requestPut": {"key": key, "value": encoded(object.to_string())}})
                })
                .collect();
            etcd.ask("txn", &json!({ "success": puts })).await?;
        }
        Ok(())
    }

    /// Removes all objects of `resource` at once, ignoring finalizers.
    pub async fn erase(&self, resource: &str) -> Result<(), Error> {
        let mut etcd = Etcd::connect(&self.etcd_socket()).await?;
        etcd.ask("deleterange", &below(&format!("/registry/{resource}")))
            .await?;
        Ok(())
    }
}

/// The key of an object in the API server's registry.
fn key(resource: &str, object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("/registry/{resource}/{namespace}/{name}"),
        None => format!("/registry/{resource}/{name}"),
    }
}

/// The range of the keys below a folder.
pub(super) fn below(folder: &str) -> Value {
    // The first key after those with this prefix: `0` follows `/`.
    json!({"key": encoded(format!("{folder}/")), "range_end": encoded(format!("{folder}0"))})
}

fn encoded(text: String) -> String {
    STANDARD.encode(text)
}

/// A connection, closed on drop.
pub(super) struct Etcd {
    sender: SendRequest<Full<Bytes>>,
    connection: JoinHandle<()>,
}

impl Etcd {
    pub(super) async fn connect(socket: &Path) -> Result<Self, Error> {
        let connect = async {
            let stream = TokioIo::new(UnixStream::connect(socket).await?);
            let (sender, connection) = http1::handshake(stream).await?;
            #[allow(clippy::disallowed_methods, reason = "ended by drop")]
            let connection = tokio::spawn(async { connection.await.unwrap_or_default() });
            Ok::<_, Cause>(Self { sender, connection })
        };
        connect.await.map_err(|source| Error::Etcd {
            doing: "connect to",
            source,
        })
    }

    /// Sends a request of `/v3/kv/`; returns the answer.
    pub(super) async fn ask(&mut self, what: &str, body: &Value) -> Result<Value, Error> {
        let ask = async {
            let request = http::Request::post(format!("/v3/kv/{what}"))
                .header(header::HOST, "etcd")
                .body(Full::from(body.to_string()))?;
            // The connection may still be busy with the end of the previous answer.
            self.sender.ready().await?;
            let answer = self.sender.send_request(request).await?;
            let code = answer.status();
            let text = answer.into_body().collect().await?.to_bytes();
            if code.is_success() {
                return Ok(serde_json::from_slice(&text)?);
            }
            Err(Cause::from(format!("{code}: {}", String::from_utf8_lossy(&text))))
        };
        ask.await.map_err(|source| Error::Etcd { doing: "ask", source })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_namespace_where_there_is_one() {
        let pod = json!({"metadata": {"namespace": "a", "name": "b"}});
        assert_eq!(key("pods", &pod), "/registry/pods/a/b");
        let node = json!({"metadata": {"name": "b"}});
        assert_eq!(key("minions", &node), "/registry/minions/b");
    }
}
