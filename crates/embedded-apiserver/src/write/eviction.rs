//! `/eviction`: deletes a pod if its disruption budget permits, by the rules of
//! `pkg/registry/core/pod/storage/eviction.go`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::checks::check_kind;
use crate::conditions;
use crate::failure::StatusError;
use crate::label_selector;
use crate::managed_fields::Part;
use crate::object::{at, items, text};
use crate::resource::table::POD_DISRUPTION_BUDGETS;
use crate::selector::LabelSelector;
use crate::write::deletion::DeleteOptions;
use crate::write::{Current, Write, served};

/// Limit for evictions not yet confirmed by the disruption controller.
const MAX_DISRUPTED_PODS: usize = 2000;
/// `Retry-After` while the budget is not up to date.
const BUDGET_WAIT: Duration = Duration::from_secs(10);

const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

impl Write<'_> {
    /// Evicts a pod. `eviction` is a `policy/v1` Eviction.
    pub(crate) fn evict(mut self, eviction: &Value) -> Result<(), StatusError> {
        self.check_eviction(eviction)?;
        let pod = self.current()?;
        let may_ignore_budget = is_over(&pod.object) || text(&pod.object["status"], "phase") == "Pending";
        // Nothing can change the pod between this check and its delete: the store is locked.
        if !may_ignore_budget {
            self.ask_budget(&pod)?;
        }
        let options = DeleteOptions::from_json(eviction["deleteOptions"].clone());
        self.delete_evicted(pod, options)
    }

    fn check_eviction(&mut self, eviction: &Value) -> Result<(), StatusError> {
        check_kind(eviction, "Eviction", "policy", &["v1", "v1beta1"])?;
        self.check_namespace(&eviction["metadata"])?;
        if text(&eviction["metadata"], "name") != self.name {
            return Err(StatusError::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        match items(eviction, "deleteOptions.dryRun") {
            [] => {}
            wanted if wanted == [json!("All")] => self.dry_run = true,
            [other, ..] => {
                let message = format!(
                    "Non-matching dry-run options in request and content: [All] and [{}]",
                    other.as_str().unwrap_or_default()
                );
                return Err(StatusError::new(500, "", message));
            }
        }
        Ok(())
    }

    /// Takes one disruption from the pod's budget, if the pod has a budget and counts towards it.
    fn ask_budget(&mut self, pod: &Current) -> Result<(), StatusError> {
        let mut budgets = self.budgets_of(&pod.object);
        let Some(budget) = budgets.pop() else {
            return Ok(());
        };
        if !budgets.is_empty() {
            return Err(StatusError::new(
                500,
                "",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        if !conditions::is_true(&pod.object, "Ready") {
            let always = text(&budget["spec"], "unhealthyPodEvictionPolicy") == "AlwaysAllow";
            let (healthy, desired) = (count(&budget, "currentHealthy"), count(&budget, "desiredHealthy"));
            if always || (healthy >= desired && desired > 0) {
                return Ok(());
            }
        }
        self.take_disruption(budget)
    }

    fn budgets_of(&self, pod: &Value) -> Vec<Value> {
        let labels: BTreeMap<String, String> =
            serde_json::from_value(pod["metadata"]["labels"].clone()).unwrap_or_default();
        let selects = |budget: &Value| {
            let selector = label_selector::to_text(&budget["spec"]["selector"])
                .and_then(|text| LabelSelector::parse(&text).ok());
            selector.is_some_and(|selector| selector.matches(&labels))
        };
        let prefix = format!("{}/", self.namespace);
        let all = self.store.all(&POD_DISRUPTION_BUDGETS, &prefix);
        let budgets = all.map(|(_, stored)| served(&POD_DISRUPTION_BUDGETS, stored));
        budgets.filter(selects).collect()
    }

    fn take_disruption(&mut self, mut budget: Value) -> Result<(), StatusError> {
        let name = text(&budget["metadata"], "name").to_owned();
        let generation = budget["metadata"]["generation"].as_i64().unwrap_or(0);
        if count(&budget, "observedGeneration") < generation {
            let why = format!("The disruption budget {name} is still being processed by the server.");
            return Err(violates_budget(&why).retry_in(BUDGET_WAIT));
        }
        let allowed = count(&budget, "disruptionsAllowed");
        if allowed < 0 {
            return Err(forbidden(&name, "pdb disruptions allowed is negative"));
        }
        let disrupted = at(&budget, "status.disruptedPods").and_then(Value::as_object);
        if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
            let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
            return Err(forbidden(&name, why));
        }
        if allowed == 0 {
            return Err(violates_budget(&why_none_is_allowed(&budget, &name)));
        }
        budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
        if allowed == 1 {
            let condition = json!({
                "type": "DisruptionAllowed",
                "status": "False",
                "observedGeneration": budget["status"]["observedGeneration"],
                "reason": "InsufficientPods",
                "message": "",
            });
            conditions::set(&mut budget, condition, self.writer.now);
        }
        if !budget["status"]["disruptedPods"].is_object() {
            budget["status"]["disruptedPods"] = json!({});
        }
        budget["status"]["disruptedPods"][self.name] = json!(self.writer.now);
        self.servers_own(&POD_DISRUPTION_BUDGETS, &name, Part::Status)
            .update(budget)?;
        Ok(())
    }

    /// Sets the pod's condition `DisruptionTarget`, also if the options are wrong, then deletes the pod.
    fn delete_evicted(
        mut self,
        pod: Current,
        mut options: Result<DeleteOptions, StatusError>,
    ) -> Result<(), StatusError> {
        if let Ok(options) = &options {
            self.check_preconditions(&pod, options)?;
        }
        if !self.dry_run {
            let mut pod = pod.object;
            let target = json!({
                "type": "DisruptionTarget",
                "lastProbeTime": null,
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            conditions::set(&mut pod, target, self.writer.now);
            let marked = self.put(&self.key(), pod);
            let named = options.as_mut().map(|options| &mut options.preconditions.version);
            if let Ok(Some(version)) = named.map(Option::as_mut) {
                *version = marked.version.to_string();
            }
        }
        let mut options = options?;
        options.dry_run |= self.dry_run;
        self.delete(&options)?;
        Ok(())
    }
}

/// True if a pod has ended or is being deleted.
fn is_over(pod: &Value) -> bool {
    matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed")
        || pod["metadata"].get("deletionTimestamp").is_some()
}

fn count(budget: &Value, field: &str) -> i64 {
    budget["status"][field].as_i64().unwrap_or(0)
}

fn why_none_is_allowed(budget: &Value, name: &str) -> String {
    let condition = conditions::find(budget, "DisruptionAllowed")
        .filter(|condition| text(condition, "status") == "False" && !text(condition, "message").is_empty());
    let (healthy, desired) = (count(budget, "currentHealthy"), count(budget, "desiredHealthy"));
    let refusal = format!("The disruption budget {name} does not allow evicting pods currently");
    match condition.map(|condition| (text(condition, "reason"), text(condition, "message"))) {
        Some(("SyncFailed", message)) => format!("{refusal} because it failed sync: {message}"),
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => format!("{refusal} ({reason}): {message}"),
        None => refusal,
    }
}

fn violates_budget(why: &str) -> StatusError {
    let details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": why }] });
    StatusError::new(429, "TooManyRequests", VIOLATION).with(details)
}

/// Upstream uses the singular of the resource here.
fn forbidden(name: &str, why: &str) -> StatusError {
    let message = format!("poddisruptionbudget.policy \"{name}\" is forbidden: {why}");
    let details = json!({ "name": name, "group": "policy", "kind": "poddisruptionbudget" });
    StatusError::new(403, "Forbidden", message).with(details)
}
