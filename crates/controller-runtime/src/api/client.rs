//! Chooses the API server and the credentials (`--kubeconfig`, `--context`) and makes one [`Http`] of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use hyper_util::client::proxy::matcher::Matcher;
use kube::client::RustlsTlsError;
use kube::config::{Cluster, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::credentials::{client_certificate_files, note_inline_expiry, reloading};
use super::http::Http;
use super::limits::{Limits, Permits, limited};
use super::metrics::{RequestMetrics, host_label};
use super::transport;
use crate::clock::Clock;
use crate::config::redacted;
use crate::tls_files::{self, pem_fault};

/// Longest time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--kubeconfig` names a file that cannot be read.
    #[error("cannot read kubeconfig {}", path.display())]
    Unreadable {
        /// The path as given.
        path: PathBuf,
        /// The file system's error.
        source: std::io::Error,
    },
    /// The kubeconfig does not parse, or names an entry that it does not hold.
    #[error("cannot use kubeconfig {}", path.display())]
    Kubeconfig {
        /// The path as given or found.
        path: PathBuf,
        /// The kubeconfig loader's error.
        source: Box<KubeconfigError>,
    },
    /// Neither a service account nor a kubeconfig.
    #[error(
        "no API server configured: not in a cluster, and neither --kubeconfig, $KUBECONFIG nor ~/.kube/config names one"
    )]
    NotConfigured,
    /// In a cluster, but the service account's files are not usable.
    #[error("cannot use the pod's service account")]
    InCluster(#[source] Box<InClusterError>),
    /// The files of the kubeconfig's client certificate are not usable, or no connection can be set up with them.
    #[error("cannot set up the connection with the client certificate of the kubeconfig")]
    ClientCertificate(#[source] tls_files::Error),
    /// The client certificate or its key, inline in the kubeconfig or from its `exec` plugin, is not PEM.
    #[error("cannot take the client certificate and its key from the kubeconfig: {why}")]
    NotPem {
        /// The defect, quoting none of the content.
        why: &'static str,
    },
    /// The kubeconfig or the environment sets a proxy for the API server.
    #[error(
        "cannot reach the API server through the proxy {proxy}: name the API server in $NO_PROXY, or take proxy-url out \
         of the kubeconfig"
    )]
    Proxy {
        /// The proxy's URL, without user and password.
        proxy: String,
    },
    /// The configuration was read, but no connection can be set up from it.
    #[error("cannot set up the connection to {url}")]
    Setup {
        /// The API server's URL.
        url: String,
        /// The client's error.
        source: Box<kube::Error>,
    },
}

/// Settings of the client.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// `--kubeconfig`; `None`: in-cluster, else `$KUBECONFIG`, else `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`; `None`: the kubeconfig's current context.
    pub context: Option<String>,
    /// `--kube-api-qps` and `--kube-api-burst`.
    pub limits: Limits,
    /// `name/version`; the part before the slash becomes the field manager of our writes.
    pub user_agent: String,
}

/// A client with what its user needs to know about it.
pub struct Connection {
    /// Sends every request through [`limited`].
    pub http: Http,
    /// The API server's URL, for logs.
    pub url: String,
    /// The permits of the client's limits.
    pub permits: Permits,
}

/// Makes a client. Sends nothing yet, so an API server that is down is no error (CORE-12).
pub async fn connect(
    options: &ConnectOptions,
    clock: &Clock,
    metrics: &RequestMetrics,
) -> Result<Connection, Error> {
    let mut config = load(options).await?;
    let url = redacted(&config.cluster_url.to_string()).into_owned();
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    if let Ok(user_agent) = HeaderValue::from_str(&options.user_agent) {
        config.headers.push((USER_AGENT, user_agent));
    }
    let host = host_label(&config.cluster_url);
    note_inline_expiry(&config.auth_info, metrics);
    let http = match client_certificate_files(&config.auth_info) {
        Some(paths) => reloading(config, paths, clock, metrics.clone())
            .await
            .map_err(Error::ClientCertificate)?,
        None => transport::http(&config).map_err(|error| setup_error(&url, error))?,
    };
    let permits = Permits::new(options.limits, clock);
    Ok(Connection {
        http: limited(http, permits.clone(), clock, metrics, host),
        permits,
        url,
    })
}

fn setup_error(url: &str, error: kube::Error) -> Error {
    match error {
        // kube's own message quotes the key.
        kube::Error::RustlsTls(RustlsTlsError::InvalidIdentityPem(fault)) => Error::NotPem {
            why: pem_fault(&fault),
        },
        error => Error::Setup {
            url: url.to_owned(),
            source: Box::new(error),
        },
    }
}

async fn load(options: &ConnectOptions) -> Result<kube::Config, Error> {
    if let Some(path) = &options.kubeconfig {
        let kubeconfig = Kubeconfig::read_from(path).map_err(|error| unusable(path, error))?;
        return from_kubeconfig(kubeconfig, path, options).await;
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        match kube::Config::incluster() {
            Ok(config) if options.context.is_none() => return Ok(config),
            Err(error) if !has_kubeconfig() => return Err(Error::InCluster(Box::new(error))),
            _ => {}
        }
    }
    match Kubeconfig::read() {
        Ok(kubeconfig) => from_kubeconfig(kubeconfig, Path::new("$KUBECONFIG"), options).await,
        Err(KubeconfigError::FindPath) => Err(Error::NotConfigured),
        Err(KubeconfigError::ReadConfig(source, _))
            if source.kind() == std::io::ErrorKind::NotFound && std::env::var_os("KUBECONFIG").is_none() =>
        {
            Err(Error::NotConfigured)
        }
        Err(error) => Err(unusable(Path::new("$KUBECONFIG"), error)),
    }
}

fn unusable(path: &Path, error: KubeconfigError) -> Error {
    match error {
        KubeconfigError::ReadConfig(source, path) => Error::Unreadable { path, source },
        error => Error::Kubeconfig {
            path: path.to_owned(),
            source: Box::new(error),
        },
    }
}

fn has_kubeconfig() -> bool {
    std::env::var_os("KUBECONFIG").is_some()
}

async fn from_kubeconfig(
    kubeconfig: Kubeconfig,
    path: &Path,
    options: &ConnectOptions,
) -> Result<kube::Config, Error> {
    let selection = KubeConfigOptions {
        context: options.context.clone(),
        ..KubeConfigOptions::default()
    };
    let cluster = cluster(&kubeconfig, options.context.as_deref());
    let authority = cluster.and_then(authority_file);
    let names_proxy = cluster.is_some_and(|cluster| cluster.proxy_url.is_some());
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &selection)
        .await
        .map_err(|error| unusable(path, error))?;
    config.root_cert_file = authority;
    // kube also takes a proxy from the environment, but ignores $NO_PROXY.
    let is_excepted = || Matcher::from_env().intercept(&config.cluster_url).is_none();
    if let Some(proxy) = &config.proxy_url
        && (names_proxy || !is_excepted())
    {
        let proxy = redacted(&proxy.to_string()).into_owned();
        return Err(Error::Proxy { proxy });
    }
    config.proxy_url = None;
    Ok(config)
}

fn cluster<'a>(kubeconfig: &'a Kubeconfig, context: Option<&str>) -> Option<&'a Cluster> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == context)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == *name)?;
    cluster.cluster.as_ref()
}

/// The file of the CA bundle; `None` if the bundle is inline. kube rereads the bundle only if `root_cert_file` is set,
/// and sets it only in a cluster.
fn authority_file(cluster: &Cluster) -> Option<PathBuf> {
    match &cluster.certificate_authority_data {
        Some(_) => None,
        None => cluster.certificate_authority.as_ref().map(PathBuf::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn authority_of(context: &str, dir: &Path) -> Option<PathBuf> {
        let kubeconfig = "
            clusters:
            - {name: first, cluster: {server: 'https://a', certificate-authority: DIR/first.crt}}
            - {name: second, cluster: {server: 'https://b', certificate-authority: DIR/second.crt}}
            - {name: inline, cluster: {server: 'https://c', certificate-authority: DIR/first.crt, certificate-authority-data: Cg==}}
            - {name: none, cluster: {server: 'https://d'}}
            contexts:
            - {name: to-first, context: {cluster: first}}
            - {name: to-second, context: {cluster: second}}
            - {name: to-inline, context: {cluster: inline}}
            - {name: to-none, context: {cluster: none}}
            current-context: to-first
            ";
        let path = dir.join("kubeconfig");
        std::fs::write(&path, kubeconfig.replace("DIR", dir.to_str().unwrap())).unwrap();
        let options = ConnectOptions {
            kubeconfig: Some(path),
            context: (!context.is_empty()).then(|| context.to_owned()),
            limits: Limits { qps: 0.0, burst: 0 },
            user_agent: "test/1".to_owned(),
        };
        load(&options).await.unwrap().root_cert_file
    }

    #[tokio::test]
    async fn kube_is_told_the_file_of_the_ca_bundle_unless_its_data_are_inline() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first.crt"), dir.path().join("second.crt"));
        for file in [&first, &second] {
            std::fs::write(file, "").unwrap();
        }
        assert_eq!(authority_of("", dir.path()).await, Some(first));
        assert_eq!(authority_of("to-second", dir.path()).await, Some(second));
        assert_eq!(authority_of("to-inline", dir.path()).await, None);
        assert_eq!(authority_of("to-none", dir.path()).await, None);
    }

    #[tokio::test]
    async fn a_proxy_of_the_kubeconfig_is_refused_without_its_password() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        let kubeconfig = "
            clusters:
            - {name: c, cluster: {server: 'https://a', proxy-url: 'http://me:secret@proxy.example.com:3128'}}
            contexts:
            - {name: c, context: {cluster: c}}
            current-context: c
            ";
        std::fs::write(&path, kubeconfig).unwrap();
        let options = ConnectOptions {
            kubeconfig: Some(path),
            context: None,
            limits: Limits { qps: 0.0, burst: 0 },
            user_agent: "test/1".to_owned(),
        };
        assert_eq!(
            load(&options).await.unwrap_err().to_string(),
            "cannot reach the API server through the proxy http://***@proxy.example.com:3128/: name the API server in \
             $NO_PROXY, or take proxy-url out of the kubeconfig"
        );
    }
}
