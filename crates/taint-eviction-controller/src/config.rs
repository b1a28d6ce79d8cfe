//! This controller's flags, environment variables and configuration keys.

use std::str::FromStr;

use controller_core::config::{CommonConfig, ControllerConfig, FieldError, GoDuration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NAME;
use crate::decide::{BrakeLimit, BrakeRules, Rules, TaintSelector, ThroughBudgets};

/// The one feature gate. Source: `pkg/features/kube_features.go`.
const COMPARISON_OPERATORS: &str = "TaintTolerationComparisonOperators";

/// Settings of the taint-eviction-controller.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// What every controller has.
    #[serde(flatten)]
    pub common: CommonConfig,
    /// Has no effect, and setting it logs a warning: judging a pod sends no request, so one loop judges all nodes.
    /// Accepted for command lines that set it for every controller.
    #[schemars(range(min = 1, max = 1000))]
    pub concurrent_syncs: Option<u32>,
    /// Pods evicted at the same time.
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent_evictions: u32,
    /// Evictions started per second, at most; 0 is no limit.
    #[schemars(extend("minimum" = 0))]
    pub eviction_qps: f64,
    /// Grace before evicting pods whose toleration expired while no leader was watching (failover, outage); never
    /// longer than their tolerationSeconds.
    pub catch_up_grace: GoDuration,
    /// Feature gates, as name=true or name=false, separated by commas. `TaintTolerationComparisonOperators` (false):
    /// tolerations with the operators Lt and Gt are expected. They count in any case; where they are not expected, the
    /// first one is logged as a warning.
    #[schemars(extend("format" = "name=bool"))]
    pub feature_gates: Option<String>,
    /// A toleration that is added or lengthened after the taint counts, by a webhook for example. Off: the first one that
    /// ends does.
    pub toleration_extensions: bool,
    /// Taints, as key or key=value, whose pods go by the Eviction API while a PodDisruptionBudget refuses, separated by
    /// commas. After a colon the longest wait after the deadline, such as 1h: then the pod is deleted. Without it, or
    /// with `forever`, the pod waits as long as the budget refuses.
    #[schemars(extend("format" = "key[=value][:max-wait],…"))]
    pub evict_through_budgets: Option<String>,
    /// Brake: evict nothing while more pods than this, or this percentage of all bound pods, are due or were evicted
    /// within the window. Unset: no limit.
    #[schemars(extend("format" = "N|P%"))]
    pub eviction_brake_pods: Option<String>,
    /// Brake: the same for pods of more nodes than this, or this percentage of the nodes that have pods.
    #[schemars(extend("format" = "N|P%"))]
    pub eviction_brake_nodes: Option<String>,
    /// How long an evicted pod counts for the brake.
    pub eviction_brake_window: GoDuration,
    /// Taints that the brake does not hold back and does not count, as key or key=value, separated by commas.
    #[schemars(extend("format" = "key[=value],…"))]
    pub eviction_brake_exempt_taints: Option<String>,
    /// Let the pods go after the brake has held them back for this long. Unset: only the brake's own rule or a person
    /// lets them go.
    pub eviction_brake_release_after: Option<GoDuration>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            common: CommonConfig::default(),
            concurrent_syncs: None,
            max_concurrent_evictions: 64,
            eviction_qps: 0.0,
            catch_up_grace: GoDuration::from_secs(30),
            feature_gates: None,
            toleration_extensions: false,
            evict_through_budgets: None,
            eviction_brake_pods: None,
            eviction_brake_nodes: None,
            eviction_brake_window: GoDuration::from_secs(600),
            eviction_brake_exempt_taints: None,
            eviction_brake_release_after: None,
        }
    }
}

impl ControllerConfig for Config {
    fn common(&self) -> &CommonConfig {
        &self.common
    }

    fn common_mut(&mut self) -> &mut CommonConfig {
        &mut self.common
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        errors.extend(FieldError::of_rate("evictionQps", self.eviction_qps));
        if let Err(problem) = self.comparison_operators() {
            errors.push(FieldError::new("featureGates", problem));
        }
        errors.extend(self.brake_limits().err());
        errors.extend(self.exempt_taints().err());
        errors.extend(self.through_budgets().err());
        if self.eviction_brake_window.get().is_zero() {
            errors.push(FieldError::new("evictionBrakeWindow", "must be more than 0s"));
        }
        errors
    }
}

impl Config {
    /// What to warn of at the start.
    pub fn warning(&self) -> Option<&'static str> {
        self.concurrent_syncs
            .map(|_| "--concurrent-syncs (concurrentSyncs) has no effect: one loop judges all nodes")
    }

    /// What the rules need to know of the flags.
    pub fn rules(&self) -> Rules {
        Rules {
            comparison_operators: self.comparison_operators().unwrap_or(false),
            catch_up_grace: self.catch_up_grace.get(),
            toleration_extensions: self.toleration_extensions,
        }
    }

    /// The brake, unless it has no limit. The settings are valid.
    pub fn brake(&self) -> Option<BrakeRules> {
        let [pods, nodes] = self.brake_limits().ok()?;
        if pods.is_none() && nodes.is_none() {
            return None;
        }
        Some(BrakeRules {
            pods,
            nodes,
            window: self.eviction_brake_window.get(),
            exempt: self.exempt_taints().unwrap_or_default(),
            release_after: self.eviction_brake_release_after.map(GoDuration::get),
            lease: (self.common.leader_elect).then(|| self.common.lease(NAME)),
        })
    }

    fn brake_limits(&self) -> Result<[Option<BrakeLimit>; 2], FieldError> {
        let limit =
            |field, text: &Option<String>| text.as_deref().map(|text| parsed(field, text)).transpose();
        Ok([
            limit("evictionBrakePods", &self.eviction_brake_pods)?,
            limit("evictionBrakeNodes", &self.eviction_brake_nodes)?,
        ])
    }

    fn exempt_taints(&self) -> Result<Vec<TaintSelector>, FieldError> {
        listed(
            "evictionBrakeExemptTaints",
            self.eviction_brake_exempt_taints.as_deref(),
        )
    }

    /// The taints whose pods wait for their budgets.
    pub fn through_budgets(&self) -> Result<Vec<ThroughBudgets>, FieldError> {
        listed("evictThroughBudgets", self.evict_through_budgets.as_deref())
    }

    /// Whether the gate is on; the last mention counts. An error says what is wrong with the gates.
    fn comparison_operators(&self) -> Result<bool, String> {
        let mut on = false;
        let gates = self.feature_gates.iter().flat_map(|gates| gates.split(','));
        for gate in gates.map(str::trim).filter(|gate| !gate.is_empty()) {
            on = match gate.split_once('=') {
                Some((COMPARISON_OPERATORS, "true")) => true,
                Some((COMPARISON_OPERATORS, "false")) => false,
                _ => {
                    return Err(format!(
                        "invalid value {gate:?}: expected {COMPARISON_OPERATORS}=true or {COMPARISON_OPERATORS}=false"
                    ));
                }
            };
        }
        Ok(on)
    }
}

fn listed<T: FromStr<Err = &'static str>>(
    field: &'static str,
    list: Option<&str>,
) -> Result<Vec<T>, FieldError> {
    let all = list.into_iter().flat_map(|list| list.split(','));
    let all = all.map(str::trim).filter(|text| !text.is_empty());
    all.map(|text| parsed(field, text)).collect()
}

fn parsed<T: FromStr<Err = &'static str>>(field: &'static str, text: &str) -> Result<T, FieldError> {
    text.parse()
        .map_err(|expected| FieldError::new(field, format!("invalid value {text:?}: {expected}")))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use controller_core::app::App;
    use controller_runtime::args::parse;
    use rstest::rstest;

    use super::*;
    use crate::TaintEvictionController;

    fn with_gates(gates: &str) -> Config {
        Config {
            feature_gates: Some(gates.to_owned()),
            ..Config::default()
        }
    }

    #[rstest]
    #[case::none("", false)]
    #[case::on("TaintTolerationComparisonOperators=true", true)]
    #[case::the_last_counts(
        "TaintTolerationComparisonOperators=true, TaintTolerationComparisonOperators=false",
        false
    )]
    fn the_gate_is_off_unless_it_is_switched_on(#[case] gates: &str, #[case] expected: bool) {
        assert_eq!(with_gates(gates).validate(), []);
        assert_eq!(with_gates(gates).rules().comparison_operators, expected);
    }

    #[test]
    fn without_a_limit_there_is_no_brake() {
        assert_eq!(Config::default().brake(), None);
        let limited = Config {
            eviction_brake_nodes: Some("10%".to_owned()),
            eviction_brake_exempt_taints: Some("a=b, c".to_owned()),
            ..Config::default()
        };
        let brake = limited.brake().unwrap();
        assert_eq!((brake.pods, brake.nodes), (None, Some(BrakeLimit::Percent(10))));
        assert_eq!(brake.exempt, ["a=b", "c"].map(|taint| taint.parse().unwrap()));
        assert_eq!(
            brake.lease.unwrap().to_string(),
            "kube-system/taint-eviction-controller"
        );
    }

    #[test]
    fn other_gates_are_refused() {
        let errors = with_gates("AllAlpha=true").validate();
        assert_eq!(
            errors,
            [FieldError::new(
                "featureGates",
                "invalid value \"AllAlpha=true\": expected TaintTolerationComparisonOperators=true or \
                 TaintTolerationComparisonOperators=false"
            )]
        );
    }

    /// Whatever its value, and wherever it is set.
    #[rstest]
    #[case::no_flag(&[], false)]
    #[case::what_was_the_default(&["--concurrent-syncs=8"], true)]
    #[case::another_number(&["--concurrent-syncs", "64"], true)]
    #[case::a_flag_that_has_an_effect(&["--max-concurrent-evictions=8"], false)]
    fn concurrent_syncs_are_warned_of(#[case] flags: &[&str], #[case] warned: bool) {
        let args = ["taint-eviction-controller"].iter().chain(flags);
        let args = args.map(OsString::from);
        let parsed = parse::<Config>(TaintEvictionController::ABOUT, vec![], args, &|_| None).unwrap();
        assert_eq!(parsed.config.warning().is_some(), warned);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let flags = [
            "taint-eviction-controller",
            "--concurrent-syncs=0",
            "--max-concurrent-evictions=1001",
            "--eviction-qps=-1",
            "--eviction-brake-pods=-5",
            "--eviction-brake-window=0",
            "--eviction-brake-exempt-taints=a,b c",
            "--evict-through-budgets=a,b:soon",
        ];
        let flags = flags.map(OsString::from);
        let refused = parse::<Config>(TaintEvictionController::ABOUT, vec![], flags, &|_| None).unwrap_err();
        let problems: Vec<_> = refused.text.lines().collect();
        assert_eq!(
            problems,
            [
                "--concurrent-syncs: invalid value 0: expected a whole number from 1 to 1000",
                "--max-concurrent-evictions: invalid value 1001: expected a whole number from 1 to 1000",
                "--eviction-qps: invalid value -1: must be 0 (no limit) or more",
                "--eviction-brake-pods: invalid value \"-5\": expected a whole number, or a percentage from 1% to 100%",
                "--eviction-brake-exempt-taints: invalid value \"b c\": expected the key of a taint, or key=value",
                "--evict-through-budgets: invalid value \"b:soon\": expected a longest wait such as 1h, or forever, \
                 after the colon",
                "--eviction-brake-window: must be more than 0s",
            ]
        );
    }
}
