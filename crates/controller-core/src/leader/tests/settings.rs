//! Which settings are valid.

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

fn complaints(config: &ElectionConfig) -> Vec<String> {
    let errors = config.validate().err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn the_defaults_are_valid() {
    assert_eq!(defaults("a").validate(), Ok(()));
}

#[test]
fn durations_under_a_second_are_valid() {
    let config = ElectionConfig {
        lease_duration: Duration::from_millis(1500),
        renew_deadline: Duration::from_secs(1),
        retry_period: Duration::from_millis(200),
        ..defaults("a")
    };
    assert_eq!(config.validate(), Ok(()));
}

#[test]
fn a_lease_must_outlast_the_renew_deadline() {
    let config = ElectionConfig {
        lease_duration: Duration::from_secs(10),
        ..defaults("a")
    };
    assert_eq!(
        complaints(&config),
        ["lease_duration is 10s: it must be greater than renew_deadline (10s)"]
    );
}

#[test]
fn a_jittered_retry_must_fit_into_the_renew_deadline() {
    let mut config = ElectionConfig {
        retry_period: Duration::from_secs(10),
        renew_deadline: Duration::from_secs(12),
        ..defaults("a")
    };
    assert_eq!(
        complaints(&config),
        ["renew_deadline is 12s: it must be greater than 1.2 times retry_period (12s)"]
    );
    config.renew_deadline += Duration::from_millis(1);
    assert_eq!(config.validate(), Ok(()));
}

#[test]
fn everything_that_is_wrong_is_named_at_once() {
    let config = ElectionConfig {
        namespace: String::new(),
        name: String::new(),
        identity: String::new(),
        lease_duration: Duration::MAX,
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::ZERO,
    };
    assert_eq!(
        complaints(&config),
        [
            "namespace must not be empty",
            "name must not be empty",
            "identity must not be empty",
            "lease_duration is 18446744073709551615.999999999s: it must be from 1ms to 2147483647s",
            "retry_period is 0ns: it must be from 1ms to 2147483647s",
        ]
    );
}
