//! A client certificate whose files are replaced while the process runs (CORE-13).
//!
//! Credentials that the process takes up without a restart, and the code that does so:
//!
//! | credential | taken | by |
//! |---|---|---|
//! | token of a service account, `tokenFile` | within 1 min | kube |
//! | token of an `exec` plugin | when it expires | kube |
//! | CA bundle of a service account, `certificate-authority` | within 1 min, by new connections | kube |
//! | `client-certificate` with `client-key` | within 10 s | this module |
//!
//! Everything else is read once, at the start: the kubeconfig itself with its inline data, and a certificate from an
//! `exec` plugin.
//!
//! kube reads a client certificate once. The API server checks the certificate at every request, not only when the
//! connection is made: on an old connection, requests fail as soon as the old certificate expires. So a new pair makes
//! a new [`Http`] with its own connections. The old one closes its connections once they are idle. A watch is checked
//! when it begins, so it goes on over the old connection; kube ends the watch within five minutes, and the next watch
//! uses the new connection.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use kube::config::AuthInfo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::expiry::not_after;
use super::http::Http;
use super::metrics::RequestMetrics;
use super::transport;
use crate::clock::Clock;
use crate::tls_files::{self, Pem, Reloading, TlsPaths};

/// The files are checked when a request is made, at most this often.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The files of the client certificate; `None` if there is no such certificate, or if inline data take precedence.
pub(super) fn client_certificate_files(auth: &AuthInfo) -> Option<TlsPaths> {
    if auth.client_certificate_data.is_some() || auth.client_key_data.is_some() {
        return None;
    }
    Some(TlsPaths {
        cert: PathBuf::from(auth.client_certificate.as_deref()?),
        key: PathBuf::from(auth.client_key.as_deref()?),
    })
}

/// Sends to the API server of `config`, with the client certificate that `paths` hold at the time of each request.
pub(super) async fn reloading(
    config: kube::Config,
    paths: TlsPaths,
    clock: &Clock,
    metrics: RequestMetrics,
) -> Result<Http, tls_files::Error> {
    let ways = Reloading::load(
        "the client",
        paths,
        clock.clone(),
        LOOK_EVERY,
        move |pem, pair| {
            let way = transport::http(&with_identity(config.clone(), pem))?;
            note_expiry(pair.cert.first(), &metrics);
            Ok(way)
        },
    );
    let ways = Arc::new(ways.await?);
    Ok(Http::by(move |request| {
        let ways = Arc::clone(&ways);
        async move { ways.current().await.send(request).await }.boxed()
    }))
}

/// Records when the client certificate inline in the kubeconfig expires, if there is one.
pub(super) fn note_inline_expiry(auth: &AuthInfo, metrics: &RequestMetrics) {
    let pem = auth.client_certificate_data.as_ref();
    let pem = pem.and_then(|data| STANDARD.decode(data).ok());
    let certificate = pem.and_then(|pem| CertificateDer::from_pem_slice(&pem).ok());
    note_expiry(certificate.as_ref(), metrics);
}

fn note_expiry(certificate: Option<&CertificateDer<'_>>, metrics: &RequestMetrics) {
    if let Some(at) = certificate.and_then(|certificate| not_after(certificate)) {
        metrics.certificate_expires(at);
    }
}

/// Puts the pair inline, so that kube uses the very bytes that were checked, not what the files hold a moment later.
fn with_identity(mut config: kube::Config, pem: &Pem) -> kube::Config {
    config.auth_info.client_certificate_data = Some(STANDARD.encode(&pem.cert));
    config.auth_info.client_key_data = Some(STANDARD.encode(&pem.key).into());
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_files() -> AuthInfo {
        AuthInfo {
            client_certificate: Some("/tls.crt".to_owned()),
            client_key: Some("/tls.key".to_owned()),
            ..AuthInfo::default()
        }
    }

    #[test]
    fn only_a_pair_of_files_without_inline_data_is_read_again() {
        let files = TlsPaths {
            cert: PathBuf::from("/tls.crt"),
            key: PathBuf::from("/tls.key"),
        };
        assert_eq!(client_certificate_files(&in_files()), Some(files));
        assert_eq!(client_certificate_files(&AuthInfo::default()), None);

        let cert_inline = AuthInfo {
            client_certificate_data: Some("Y2VydA==".to_owned()),
            ..in_files()
        };
        assert_eq!(client_certificate_files(&cert_inline), None);
        let key_inline = AuthInfo {
            client_key_data: Some("a2V5".to_owned().into()),
            ..in_files()
        };
        assert_eq!(client_certificate_files(&key_inline), None);
        let no_key = AuthInfo {
            client_key: None,
            ..in_files()
        };
        assert_eq!(client_certificate_files(&no_key), None);
    }
    #[test]
    fn kube_takes_the_bytes_that_were_looked_at_whatever_the_files_hold_by_then() {
        let mut config = kube::Config::new(http::Uri::from_static("https://127.0.0.1"));
        config.auth_info = in_files();
        let pem = Pem {
            cert: b"cert".to_vec(),
            key: b"key".to_vec(),
        };
        let auth = with_identity(config, &pem).auth_info;
        assert_eq!(auth.client_certificate_data.as_deref(), Some("Y2VydA=="));
        assert!(auth.client_key_data.is_some());
    }
}
