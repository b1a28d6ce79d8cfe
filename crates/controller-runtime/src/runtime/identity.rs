//! The identity of this process, for the Lease and for events.

use std::path::Path;

use rand::RngExt;

/// File in which a pod finds its namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The host's name; in a pod, the pod's name.
pub(super) fn host_name() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// `configured`, else a unique identity, which is new after each restart.
pub(super) fn lease_identity(configured: Option<&str>, host_name: &str) -> String {
    configured.map_or_else(
        || format!("{host_name}_{:016x}", rand::rng().random::<u64>()),
        str::to_owned,
    )
}

/// `configured`, else the pod's namespace, if it has one.
pub(super) fn lease_namespace(configured: Option<String>) -> Option<String> {
    namespace(configured, Path::new(POD_NAMESPACE))
}

fn namespace(configured: Option<String>, pod_namespace: &Path) -> Option<String> {
    configured
        .or_else(|| std::fs::read_to_string(pod_namespace).ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_beats_the_pod() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("namespace");
        assert_eq!(namespace(None, &file), None);
        std::fs::write(&file, "controllers\n").unwrap();
        assert_eq!(namespace(None, &file).as_deref(), Some("controllers"));
        assert_eq!(namespace(Some("mine".to_owned()), &file).as_deref(), Some("mine"));
    }

    #[test]
    fn two_identities_of_one_host_differ() {
        let (one, other) = (lease_identity(None, "host"), lease_identity(None, "host"));
        assert!(one.starts_with("host_"));
        assert_ne!(one, other);
    }

    #[test]
    fn an_identity_that_is_given_is_taken_as_it_is() {
        assert_eq!(lease_identity(Some("uid-of-the-pod"), "host"), "uid-of-the-pod");
    }
}
