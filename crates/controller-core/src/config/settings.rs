//! The settings that all controllers share, and the trait for a controller's own settings.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::duration::GoDuration;
use super::log_filter::{BadLogFilter, log_filter};
use crate::meta::{ObjectKey, is_dns_subdomain};

/// Default namespace of the Lease, as in kube-controller-manager.
const DEFAULT_NAMESPACE: &str = "kube-system";

/// All settings of one controller.
///
/// Every field, including flattened ones, is a scalar (a boolean, a number, a string or an enum of strings) or a list. Its
/// doc comment is the help text of its flag. A list has no flag and no environment variable, only its place in the file.
/// `Serialize` must write every field, as the defaults come from the serialized `Default`.
pub trait ControllerConfig: Serialize + DeserializeOwned + JsonSchema + Default {
    /// The settings that all controllers share.
    fn common(&self) -> &CommonConfig;

    /// The same, for defaults that only the process knows.
    fn common_mut(&mut self) -> &mut CommonConfig;

    /// True if the process must write nothing, not even its Lease.
    fn is_dry_run(&self) -> bool {
        self.common().dry_run
    }

    /// Errors in the controller's own settings other than wrong types and integers outside the range in the schema.
    /// The caller also calls [`CommonConfig::validate`].
    fn validate(&self) -> Vec<FieldError> {
        Vec::new()
    }
}

/// A setting whose value has the right type but is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The key in the config file, such as `kubeApiQps`.
    pub field: &'static str,
    /// The key of the other setting if `field` conflicts with one.
    pub against: Option<&'static str>,
    /// The value and the requirement. Names both keys if two settings conflict, as the user may have set either.
    pub problem: String,
}

/// The settings that all controllers share.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CommonConfig {
    /// Path to a kubeconfig file. Default: the service account of the pod, else $KUBECONFIG, else ~/.kube/config.
    #[schemars(extend("x-heading" = API_SERVER, "format" = "path"))]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: the current context.
    #[schemars(extend("x-heading" = API_SERVER))]
    pub context: Option<String>,
    /// Average limit for reads and writes sent to the API server, per second; 0 is no limit. Watches, Leases and events
    /// do not count.
    #[schemars(extend("x-heading" = API_SERVER, "minimum" = 0))]
    pub kube_api_qps: f64,
    /// Reads and writes that may be sent to the API server at once; 0 is no limit.
    #[schemars(extend("x-heading" = API_SERVER))]
    pub kube_api_burst: u32,
    /// Encoding requested for objects of built-in kinds. An answer in the other encoding is read as well.
    #[schemars(extend("x-heading" = API_SERVER))]
    pub kube_api_content_type: Encoding,
    /// Average limit for events sent to the API server, per second, next to the limit for reads and writes; 0 is no
    /// limit.
    #[schemars(extend("x-heading" = API_SERVER, "minimum" = 0))]
    pub event_qps: f64,
    /// Events that may be sent to the API server at once; 0 is no limit.
    #[schemars(extend("x-heading" = API_SERVER))]
    pub event_burst: u32,
    /// Work only while holding the Lease.
    #[schemars(extend("x-heading" = LEADER_ELECTION))]
    pub leader_elect: bool,
    /// Namespace of the Lease. Default: the namespace of the pod, else kube-system.
    #[schemars(extend("x-heading" = LEADER_ELECTION))]
    pub leader_elect_resource_namespace: Option<String>,
    /// Name of the Lease. Default: the name of the controller. Two releases in one namespace need two names.
    #[schemars(extend("x-heading" = LEADER_ELECTION))]
    pub leader_elect_resource_name: Option<String>,
    /// Holder identity in the Lease; must be unique. Default: random per start. Set it to the pod UID so that a
    /// restarted container reclaims its Lease at once.
    #[schemars(extend("x-heading" = LEADER_ELECTION))]
    pub leader_elect_identity: Option<String>,
    /// How long a standby waits after the last renewal that it saw before it takes the Lease.
    #[schemars(extend("x-heading" = LEADER_ELECTION))]
    pub leader_elect_lease_duration: GoDuration,
    /// How long the leader tries to renew the Lease before it stops leading.
    #[schemars(extend("x-heading" = LEADER_ELECTION))]
    pub leader_elect_renew_deadline: GoDuration,
    /// Wait between two attempts to take or renew the Lease.
    #[schemars(extend("x-heading" = LEADER_ELECTION))]
    pub leader_elect_retry_period: GoDuration,
    /// Address of the admin server (/metrics, /livez, /readyz). Port 0 takes a free port, which is logged. `[::]` is
    /// every address of IPv6 and IPv4, or of IPv4 alone where there is no IPv6.
    #[schemars(extend("x-heading" = ADMIN_SERVER, "format" = "ip:port"))]
    pub http_bind_address: SocketAddr,
    /// Who may read /metrics. `none`: no authorization. `kubernetes`: require a bearer token allowed to `get` the path
    /// (`TokenReview`, `SubjectAccessReview`); enables TLS. The same protects /configz, /flagz, /statusz and the reasons in
    /// /readyz (`get` of `/readyz/*`); with `none` these are served to localhost only, such as kubectl port-forward.
    #[schemars(extend("x-heading" = ADMIN_SERVER))]
    pub metrics_authorization: MetricsAuthorization,
    /// Certificate chain (PEM) of the admin server; read again when it changes. Default, where TLS is needed:
    /// self-signed, generated at startup.
    #[schemars(extend("x-heading" = ADMIN_SERVER, "format" = "path"))]
    pub tls_cert_file: Option<PathBuf>,
    /// Private key (PEM) of the certificate.
    #[schemars(extend("x-heading" = ADMIN_SERVER, "format" = "path"))]
    pub tls_private_key_file: Option<PathBuf>,
    /// Format of log lines. Default: text on a terminal, else json.
    #[schemars(extend("x-heading" = LOGGING))]
    pub log_format: Option<LogFormat>,
    /// Log filter: a level (error, warn, info, debug, trace) or a list of target=level.
    #[schemars(extend("x-heading" = LOGGING, "format" = "filter"))]
    pub log_level: String,
    /// Decide and report; write nothing.
    pub dry_run: bool,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// An encoding of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Encoding {
    /// Kubernetes' protobuf.
    #[default]
    #[serde(rename = "application/vnd.kubernetes.protobuf")]
    Protobuf,
    /// JSON.
    #[serde(rename = "application/json")]
    Json,
}

/// Who may read metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricsAuthorization {
    /// Everybody.
    #[default]
    None,
    /// Whom the API server allows it.
    Kubernetes,
}

const API_SERVER: &str = "API server";
const LEADER_ELECTION: &str = "Leader election";
const ADMIN_SERVER: &str = "Admin server";
const LOGGING: &str = "Logging";

/// Lowest rate per second: a lower one would stop all work for so long that it must be a mistake.
const LOWEST_RATE: f64 = 0.001;

/// Factor by which client-go may exceed the retry period between two tries.
/// Source: client-go `tools/leaderelection`, `JitterFactor`.
const JITTER_FACTOR: f64 = 1.2;

impl Default for CommonConfig {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            kube_api_qps: 50.0,
            kube_api_burst: 100,
            kube_api_content_type: Encoding::default(),
            event_qps: 50.0,
            event_burst: 100,
            leader_elect: true,
            leader_elect_resource_namespace: None,
            leader_elect_resource_name: None,
            leader_elect_identity: None,
            leader_elect_lease_duration: GoDuration::from_secs(15),
            leader_elect_renew_deadline: GoDuration::from_secs(10),
            leader_elect_retry_period: GoDuration::from_secs(2),
            http_bind_address: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 8080)),
            metrics_authorization: MetricsAuthorization::default(),
            tls_cert_file: None,
            tls_private_key_file: None,
            log_format: None,
            log_level: "info".to_owned(),
            dry_run: false,
        }
    }
}

impl FieldError {
    /// `field` alone is wrong.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            against: None,
            problem: problem.into(),
        }
    }

    /// The error if `rate`, per second, is invalid; 0 is no limit.
    pub fn of_rate(field: &'static str, rate: f64) -> Option<Self> {
        let problem = match rate {
            0.0 | LOWEST_RATE..=f64::MAX => return None,
            0.0..LOWEST_RATE => format!("0 (no limit) or at least {LOWEST_RATE}, which is one in 17 minutes"),
            _ => "0 (no limit) or more".to_owned(),
        };
        Some(Self::new(
            field,
            format!("invalid value {rate}: must be {problem}"),
        ))
    }

    /// `field` and `against` conflict.
    pub fn between(field: &'static str, against: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            against: Some(against),
            problem: problem.into(),
        }
    }
}

/// For a controller without settings of its own.
impl ControllerConfig for CommonConfig {
    fn common(&self) -> &Self {
        self
    }

    fn common_mut(&mut self) -> &mut Self {
        self
    }
}

impl CommonConfig {
    /// Namespace and name of the Lease of `controller`.
    pub fn lease(&self, controller: &str) -> ObjectKey {
        let namespace = self.leader_elect_resource_namespace.as_deref();
        let name = self.leader_elect_resource_name.as_deref();
        ObjectKey::namespaced(namespace.unwrap_or(DEFAULT_NAMESPACE), name.unwrap_or(controller))
    }

    /// Errors other than wrong types; empty for a valid config.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        errors.extend(FieldError::of_rate("kubeApiQps", self.kube_api_qps));
        errors.extend(FieldError::of_rate("eventQps", self.event_qps));
        let namespace = self.leader_elect_resource_namespace.as_deref();
        if let Some(namespace) = namespace.filter(|name| !is_dns_label(name)) {
            let problem = format!(
                "invalid value {namespace:?}: a namespace has at most 63 characters of a-z, 0-9 and -, and \
                 neither starts nor ends with -"
            );
            errors.push(FieldError::new("leaderElectResourceNamespace", problem));
        }
        let name = self.leader_elect_resource_name.as_deref();
        if let Some(name) = name.filter(|name| !is_dns_subdomain(name)) {
            let problem = format!(
                "invalid value {name:?}: a Lease's name has at most 253 characters of a-z, 0-9, - and ., and each \
                 part between dots neither starts nor ends with -"
            );
            errors.push(FieldError::new("leaderElectResourceName", problem));
        }
        errors.extend(self.lease_times());
        let (cert, key) = ("tlsCertFile", "tlsPrivateKeyFile");
        match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(_), None) => errors.push(FieldError::new(cert, format!("is set without {key}"))),
            (None, Some(_)) => errors.push(FieldError::new(key, format!("is set without {cert}"))),
            _ => {}
        }
        if let Err(BadLogFilter { filter, directive }) = log_filter(&self.log_level) {
            let problem = format!(
                "invalid value {filter:?}: {directive:?} is not a level, expected error, warn, info, debug, trace or \
                 a list of target=level"
            );
            errors.push(FieldError::new("logLevel", problem));
        }
        errors
    }

    /// Checks the requirements of client-go's election and of the Lease object, which counts whole seconds in 32 bits.
    fn lease_times(&self) -> Vec<FieldError> {
        let (lease_key, lease) = ("leaderElectLeaseDuration", self.leader_elect_lease_duration);
        let (renew_key, renew) = ("leaderElectRenewDeadline", self.leader_elect_renew_deadline);
        let (retry_key, retry) = ("leaderElectRetryPeriod", self.leader_elect_retry_period);
        let alone = [
            (
                lease < GoDuration::from_secs(1),
                lease_key,
                lease,
                "a Lease lasts at least 1s",
            ),
            (
                lease > GoDuration::from_secs(i32::MAX.unsigned_abs()),
                lease_key,
                lease,
                "a Lease lasts at most 2147483647s",
            ),
            (renew.get().is_zero(), renew_key, renew, "must be longer than 0"),
            (retry.get().is_zero(), retry_key, retry, "must be longer than 0"),
        ];
        let wrong = alone.into_iter().filter(|(is_wrong, ..)| *is_wrong);
        let errors = wrong.map(|(_, key, value, problem)| {
            FieldError::new(key, format!("invalid value {value}: {problem}"))
        });
        let mut errors: Vec<_> = errors.collect();
        if !errors.is_empty() {
            return errors;
        }
        if lease <= renew {
            let problem = format!("{lease_key} ({lease}) must be longer than {renew_key} ({renew})");
            errors.push(FieldError::between(lease_key, renew_key, problem));
        }
        if renew.get().as_secs_f64() <= JITTER_FACTOR * retry.get().as_secs_f64() {
            let problem = format!(
                "{renew_key} ({renew}) must be longer than {JITTER_FACTOR} times {retry_key} ({retry})"
            );
            errors.push(FieldError::between(renew_key, retry_key, problem));
        }
        errors
    }
}

/// Source: RFC 1123, as Kubernetes applies it to names of namespaces.
fn is_dns_label(name: &str) -> bool {
    name.len() <= 63 && !name.contains('.') && is_dns_subdomain(name)
}
