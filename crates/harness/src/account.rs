//! The service account that a chart makes for its controller.

/// Where the charts are rendered into: the Lease and the service account live there.
pub const NAMESPACE: &str = "kube-system";

/// The user name of a controller's service account.
pub fn user(controller: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{}", account(controller))
}

/// The name of a controller's service account. Not that of the controller: to it the API server gives the permissions
/// of the built-in loop.
pub fn account(controller: &str) -> String {
    format!("{controller}-standalone")
}
