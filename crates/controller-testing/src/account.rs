//! The service account that a chart makes for its controller.

/// Namespace into which the charts are rendered, with the Lease and the service account.
pub const NAMESPACE: &str = "kube-system";

/// The user name of a controller's service account.
pub fn user(controller: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{}", account(controller))
}

/// The name of a controller's service account. Not the controller's own name: the API server grants that account the
/// permissions of the built-in loop.
pub fn account(controller: &str) -> String {
    format!("{controller}-standalone")
}
