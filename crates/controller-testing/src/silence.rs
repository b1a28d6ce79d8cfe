//! Webhooks that accept every connection and never answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controller_runtime::clock::Clock;
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{ApiResource, PostParams};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::kinds::{api, resource};
use crate::replica::soon;

/// How long the API server waits for such a webhook. A request to a webhook that never answers takes as long.
pub const HELD: SignedDuration = SignedDuration::from_secs(10);
/// Interval of the trials that show that the API server knows the webhook.
const TRY_EVERY: Duration = Duration::from_millis(100);

/// A listener that holds its connections without answering, until it is dropped.
pub struct Silence {
    port: u16,
    accepted: Arc<AtomicUsize>,
    _holding: JoinSet<()>,
}

impl Silence {
    pub async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let mut holding = JoinSet::new();
        holding.spawn(async move {
            let mut held = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                held.push(connection);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            port,
            accepted,
            _holding: holding,
        }
    }

    /// The URL of a webhook at this listener.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}/", self.port)
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Waits until there have been `more` further connections.
    pub async fn until_asked(&self, more: usize) {
        let wanted = self.connections() + more;
        let asked = async || (self.connections() >= wanted).then_some(());
        soon("the webhook is asked", asked).await;
    }
}

impl Cluster {
    /// Makes the API server call such a webhook for each `operation` (`CREATE`, `DELETE`) on a kind in a namespace,
    /// which fails after ten seconds. Waits until that is in force.
    pub async fn hang(&self, namespace: &str, kind: &str, operation: &str) -> Silence {
        let silence = Silence::listen().await;
        let rule = |kind: &str, operation: &str| {
            let ApiResource {
                group,
                version,
                plural,
                ..
            } = resource(kind);
            json!({"apiGroups": [group], "apiVersions": [version], "resources": [plural], "operations": [operation]})
        };
        let configuration = json!({
            "metadata": {"name": namespace},
            "webhooks": [{
                "name": "hangs.example.com", "clientConfig": {"url": silence.url()}, "timeoutSeconds": HELD.as_secs(),
                "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                // Nobody else creates ConfigMaps here, so one shows that the API server knows the webhook.
                "rules": [rule(kind, operation), rule("ConfigMap", "CREATE")],
            }],
        });
        let configurations: Api<ValidatingWebhookConfiguration> = Api::all(self.control_plane.client());
        let configuration = serde_json::from_value(configuration).unwrap();
        let params = PostParams::default();
        configurations.create(&params, &configuration).await.unwrap();
        tokio::select! {
            () = silence.until_asked(1) => {}
            () = self.try_until_it_hangs(namespace) => {}
        }
        silence
    }

    /// Never ends: the webhook hangs once it is asked.
    async fn try_until_it_hangs(&self, namespace: &str) {
        let config_maps = api(&self.control_plane.client(), namespace, "ConfigMap");
        let trial = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let config_map = serde_json::from_value(json!({"metadata": {"name": "trial"}})).unwrap();
        loop {
            // An error says nothing of the webhook: the namespace of a new API server may not exist yet.
            let _ = config_maps.create(&trial, &config_map).await;
            Clock::system().sleep(TRY_EVERY).await;
        }
    }
}
