//! `/binding`: assigns a pod to a node, by the rules of `pkg/registry/core/pod/storage/storage.go`.

use serde_json::{Value, json};

use super::checks::check_kind;
use crate::conditions;
use crate::failure::{Cause, StatusError};
use crate::object::{items, set_at, text};
use crate::write::Write;

impl Write<'_> {
    /// Binds a pod. `binding` is a `v1` Binding.
    pub(crate) fn bind(mut self, binding: &Value) -> Result<(), StatusError> {
        let (metadata, target) = (&binding["metadata"], &binding["target"]);
        check_kind(binding, "Binding", "", &["v1"])?;
        self.check_namespace(metadata)?;
        if text(metadata, "name") != self.name {
            return Err(StatusError::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
        let kind = text(target, "kind");
        if !matches!(kind, "" | "Node") {
            let cause = Cause::unsupported("target.kind", kind, &["Node", "<empty>"]);
            return Err(StatusError::new(500, "", cause.to_string()));
        }
        let node = text(target, "name");
        if node.is_empty() {
            return Err(StatusError::new(500, "", "target.name: Required value"));
        }
        let current = self.current()?;
        self.check_binding_version(metadata, &current.object["metadata"])?;
        let mut pod = current.object;
        self.check_unbound(&pod)?;
        set_at(&mut pod, "spec.nodeName", json!(node));
        for map in ["annotations", "labels"] {
            for (key, value) in metadata[map].as_object().into_iter().flatten() {
                if !pod["metadata"][map].is_object() {
                    pod["metadata"][map] = json!({});
                }
                pod["metadata"][map][key] = value.clone();
            }
        }
        let scheduled = json!({ "type": "PodScheduled", "status": "True" });
        conditions::set(&mut pod, scheduled, self.writer.now);
        self.validate(None, &pod, self.name)?;
        // A binding changes neither the generation nor the managed fields.
        self.put(&self.key(), pod);
        Ok(())
    }

    fn check_binding_version(&self, wanted: &Value, found: &Value) -> Result<(), StatusError> {
        for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (wanted, found) = (text(wanted, field), text(found, field));
            if !wanted.is_empty() && wanted != found {
                let what = format!("{called} in precondition: {wanted}, {called} in object meta: {found}");
                return Err(StatusError::precondition(self.resource, &self.key(), &what));
            }
        }
        Ok(())
    }

    fn check_unbound(&self, pod: &Value) -> Result<(), StatusError> {
        let name = self.name;
        let node = text(&pod["spec"], "nodeName");
        let why = if pod["metadata"].get("deletionTimestamp").is_some() {
            format!("pod {name} is being deleted, cannot be assigned to a host")
        } else if !node.is_empty() {
            format!("pod {name} is already assigned to node \"{node}\"")
        } else if !items(pod, "spec.schedulingGates").is_empty() {
            format!("pod {name} has non-empty .spec.schedulingGates")
        } else {
            return Ok(());
        };
        Err(StatusError::conflict(self.resource, "pods/binding", name, &why))
    }
}
