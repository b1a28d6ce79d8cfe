//! Which API server, with whose credentials (`--kubeconfig`, `--context`), as one [`kube::Client`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::limits::{Limits, limited};
use super::metrics::{RequestMetrics, host_label};
use crate::clock::Clock;

/// How long a connection may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--kubeconfig` names a file that cannot be read.
    #[error("cannot read kubeconfig {}", path.display())]
    Unreadable {
        /// As given.
        path: PathBuf,
        /// From the file system.
        source: std::io::Error,
    },
    /// The kubeconfig does not parse, or names something that it does not hold.
    #[error("cannot use kubeconfig {}", path.display())]
    Kubeconfig {
        /// As given or found.
        path: PathBuf,
        /// From the kubeconfig loader.
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
    /// The connection cannot be set up from a configuration that was read.
    #[error("cannot set up the connection to {url}")]
    Setup {
        /// The API server's URL.
        url: String,
        /// From the client.
        source: Box<kube::Error>,
    },
}

/// Settings of the client.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// `--kubeconfig`; none: in-cluster, else `$KUBECONFIG`, else `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`; none: the kubeconfig's current one.
    pub context: Option<String>,
    /// Client-side limits.
    pub limits: Limits,
    /// `name/version`; the part before the slash becomes the field manager of our writes.
    pub user_agent: String,
}

/// The client and what the caller may want to know of it.
pub struct Connection {
    /// Every request of it passes [`limited`].
    pub client: kube::Client,
    /// The API server's URL, for logs.
    pub url: String,
}

/// Makes a client; sends nothing yet, so an API server that is down is no error (CORE-12).
pub async fn connect(
    options: &ConnectOptions,
    clock: &Clock,
    metrics: &RequestMetrics,
) -> Result<Connection, Error> {
    let mut config = load(options).await?;
    let url = config.cluster_url.to_string();
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Watches are long and silent; the request layer bounds everything else.
    config.read_timeout = None;
    // The queue is the only retrier.
    config.default_retry = false;
    if let Ok(user_agent) = HeaderValue::from_str(&options.user_agent) {
        config.headers.push((USER_AGENT, user_agent));
    }
    let host = host_label(&config.cluster_url);
    let client = kube::Client::try_from(config).map_err(|source| Error::Setup {
        url: url.clone(),
        source: Box::new(source),
    })?;
    Ok(Connection {
        client: limited(client, options.limits, clock, metrics, host),
        url,
    })
}

async fn load(options: &ConnectOptions) -> Result<kube::Config, Error> {
    if let Some(path) = &options.kubeconfig {
        return from_file(path, options).await;
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
        Err(KubeconfigError::ReadConfig(source, path)) => Err(Error::Unreadable { path, source }),
        Err(source) => Err(Error::Kubeconfig {
            path: PathBuf::from("$KUBECONFIG"),
            source: Box::new(source),
        }),
    }
}

fn has_kubeconfig() -> bool {
    std::env::var_os("KUBECONFIG").is_some()
}

async fn from_file(path: &Path, options: &ConnectOptions) -> Result<kube::Config, Error> {
    match Kubeconfig::read_from(path) {
        Ok(kubeconfig) => from_kubeconfig(kubeconfig, path, options).await,
        Err(KubeconfigError::ReadConfig(source, path)) => Err(Error::Unreadable { path, source }),
        Err(source) => Err(Error::Kubeconfig {
            path: path.to_owned(),
            source: Box::new(source),
        }),
    }
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
    kube::Config::from_custom_kubeconfig(kubeconfig, &selection)
        .await
        .map_err(|source| Error::Kubeconfig {
            path: path.to_owned(),
            source: Box::new(source),
        })
}
