//! This controller's flags, environment variables and configuration keys.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-7 | `Config::gates` | `src/config.rs::gates_are_as_upstream_has_them_unless_they_are_set` |

use controller_core::config::{CommonConfig, ControllerConfig, FieldError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decide::{Gates, Groups};
use crate::pod_group::GroupVersion;

/// The gates. Source: `pkg/features/kube_features.go`.
const ADMIN_ACCESS: &str = "DRAAdminAccess";
const PRIORITIZED_LIST: &str = "DRAPrioritizedList";
const WORKLOAD_CLAIMS: &str = "DRAWorkloadResourceClaims";

/// Settings of the resourceclaim-controller.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// What every controller has.
    #[serde(flatten)]
    pub common: CommonConfig,
    /// Pods and `ResourceClaims` processed at the same time.
    #[schemars(range(min = 1, max = 1000))]
    pub concurrent_syncs: u32,
    /// Feature gates, as name=true or name=false, separated by commas: `DRAAdminAccess` (true; from Kubernetes 1.36 on
    /// it cannot be switched off), `DRAPrioritizedList` (true), `DRAWorkloadResourceClaims` (false).
    #[schemars(extend("format" = "name=bool"))]
    pub feature_gates: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            common: CommonConfig::default(),
            concurrent_syncs: 50,
            feature_gates: None,
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
        let problem = self.parse_gates().err();
        Vec::from_iter(problem.map(|problem| FieldError::new("featureGates", problem)))
    }
}

impl Config {
    /// The gates as they are asked for; what the API server says of them is not known here.
    pub fn gates(&self) -> Gates {
        self.parse_gates().unwrap_or_default()
    }

    /// Whether the gate of this name is on, if permissions depend on it.
    pub(crate) fn is_on(&self, gate: &str) -> bool {
        gate == WORKLOAD_CLAIMS && self.gates().groups.is_on()
    }

    /// The last mention of a gate counts. An error says what is wrong.
    fn parse_gates(&self) -> Result<Gates, String> {
        let mut gates = Gates::default();
        let mentions = self.feature_gates.iter().flat_map(|gates| gates.split(','));
        for mention in mentions.map(str::trim).filter(|mention| !mention.is_empty()) {
            let (name, on) = match mention.split_once('=') {
                Some((name, "true")) => (name, true),
                Some((name, "false")) => (name, false),
                _ => return Err(refusal(mention)),
            };
            match name {
                ADMIN_ACCESS => gates.admin_access = on,
                PRIORITIZED_LIST => gates.prioritized_list = on,
                WORKLOAD_CLAIMS => {
                    gates.groups = if on {
                        Groups::On(GroupVersion::NEWEST_FIRST[0])
                    } else {
                        Groups::Off
                    }
                }
                _ => return Err(refusal(mention)),
            }
        }
        Ok(gates)
    }
}

fn refusal(mention: &str) -> String {
    format!(
        "invalid value {mention:?}: expected =true or =false of {ADMIN_ACCESS}, {PRIORITIZED_LIST} or {WORKLOAD_CLAIMS}"
    )
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use controller_core::app::App;
    use controller_runtime::args::parse;
    use rstest::rstest;

    use super::*;
    use crate::ResourceClaimController;

    fn with_gates(gates: &str) -> Config {
        Config {
            feature_gates: Some(gates.to_owned()),
            ..Config::default()
        }
    }

    #[rstest]
    #[case::none("", [true, true, false])]
    #[case::one("DRAPrioritizedList=false", [true, false, false])]
    #[case::all("DRAAdminAccess=false,DRAPrioritizedList=false, DRAWorkloadResourceClaims=true,", [false, false, true])]
    #[case::the_last_counts("DRAAdminAccess=false,DRAAdminAccess=true", [true, true, false])]
    fn gates_are_as_upstream_has_them_unless_they_are_set(#[case] text: &str, #[case] expected: [bool; 3]) {
        assert_eq!(with_gates(text).validate(), []);
        let gates = with_gates(text).gates();
        assert_eq!(
            [gates.admin_access, gates.prioritized_list, gates.groups.is_on()],
            expected
        );
    }

    #[rstest]
    #[case::another("AllAlpha=true")]
    #[case::neither_on_nor_off("DRAAdminAccess=yes")]
    #[case::without_a_value("DRAAdminAccess")]
    fn other_gates_are_refused(#[case] text: &str) {
        let problem = format!(
            "invalid value {text:?}: expected =true or =false of DRAAdminAccess, DRAPrioritizedList or \
             DRAWorkloadResourceClaims"
        );
        assert_eq!(
            with_gates(text).validate(),
            [FieldError::new("featureGates", problem)]
        );
    }

    #[test]
    fn no_workers_are_refused() {
        let flags = ["resourceclaim-controller", "--concurrent-syncs=0"].map(OsString::from);
        let refused = parse::<Config>(ResourceClaimController::ABOUT, vec![], flags, &|_| None).unwrap_err();
        assert_eq!(
            refused.text,
            "--concurrent-syncs: invalid value 0: expected a whole number from 1 to 1000\n"
        );
    }
}
