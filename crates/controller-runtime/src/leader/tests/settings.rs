//! Settings for the tests.

use std::time::Duration;

use crate::leader::ElectionConfig;

/// client-go's defaults.
pub(super) fn defaults(identity: &str) -> ElectionConfig {
    ElectionConfig {
        namespace: "kube-system".to_owned(),
        name: "ttl-controller".to_owned(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}
