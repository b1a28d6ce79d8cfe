//! `ResourceClaims` and their templates: requests, allocations, reservations.

use serde_json::{Value, json};

use super::{Causes, in_order};
use crate::object::{items, text};
use crate::resource::table::NAMESPACES;
use crate::syntax::{label, subdomain};
use crate::write::{Write, served};

/// Label of namespaces whose claims may ask for access to devices in use.
const ADMIN_ACCESS: &str = "resource.kubernetes.io/admin-access";
/// Most consumers that a claim can be reserved for.
const RESERVED_FOR_LIMIT: usize = 256;

/// Checks the spec of a claim, at `field` of its object.
pub(super) fn check(spec: &Value, field: &str, causes: &mut Causes) {
    for (number, request) in items(spec, "devices.requests").iter().enumerate() {
        let at = format!("{field}.devices.requests[{number}]");
        causes.syntax(&format!("{at}.name"), text(request, "name"), label);
        match (request.get("exactly"), request.get("firstAvailable")) {
            (Some(exactly), None) => {
                let at = format!("{at}.exactly.deviceClassName");
                match text(exactly, "deviceClassName") {
                    "" => causes.required(&at, ""),
                    class => causes.syntax(&at, class, subdomain),
                }
            }
            (None, Some(_)) => {}
            (None, None) => {
                let why = "exactly one of `exactly` or `firstAvailable` is required";
                causes.required(&at, why);
            }
            (Some(_), Some(_)) => {
                let why =
                    "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                causes.invalid(&at, &Value::Null, why);
            }
        }
    }
}

impl Write<'_> {
    /// Checks if a new claim or template may ask for admin access in its namespace.
    pub(super) fn check_asked_access(&self, spec: &Value, causes: &mut Causes) {
        let requests = items(spec, "devices.requests");
        if let Some(number) = position_of_access(requests, |request| &request["exactly"]) {
            let field = format!("spec.devices.requests[{number}].adminAccess");
            self.check_admin_access(&field, causes);
        }
    }

    /// Checks a write of a claim's status: the user's permission and the change.
    pub(super) fn check_claim_status(&self, old: &Value, new: &Value, causes: &mut Causes) {
        let results = |claim| items(claim, "status.allocation.devices.results");
        let granted = |claim| position_of_access(results(claim), |result| result);
        if granted(old).is_none()
            && let Some(number) = granted(new)
        {
            let field = format!("status.allocation.devices.results[{number}].adminAccess");
            self.check_admin_access(&field, causes);
        }
        self.check_binding(&old["status"], &new["status"], causes);
        check_status(old, new, causes);
    }

    fn check_admin_access(&self, field: &str, causes: &mut Causes) {
        let namespace = self.store.get(&NAMESPACES, self.namespace);
        let is_labelled = namespace.is_some_and(|namespace| {
            served(&NAMESPACES, namespace)["metadata"]["labels"][ADMIN_ACCESS] == "true"
        });
        if !is_labelled {
            let why = format!(
                "admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing namespace"
            );
            causes.forbidden(field, &why);
        }
    }

    /// Allocating and reserving need a permission in addition to that for the status.
    fn check_binding(&self, old: &Value, new: &Value, causes: &mut Causes) {
        let is_bound_as_before = ["allocation", "reservedFor"]
            .iter()
            .all(|field| old[field] == new[field]);
        let Some(requester) = self.requester.filter(|_| !is_bound_as_before) else {
            return;
        };
        if let Err(denied) = requester.may_bind_claims(self.store) {
            let why = format!(
                "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
                 verb=\"{}\" permission: {}",
                requester.verb, denied.message
            );
            causes.forbidden("status.allocation", &why);
        }
    }
}

/// Removes the drivers' status of devices that are no longer allocated.
pub(crate) fn drop_deallocated_devices(old: &Value, new: &mut Value) {
    let still: Vec<_> = allocated_devices(new).collect();
    let gone: Vec<_> = allocated_devices(old)
        .filter(|device| !still.contains(device))
        .collect();
    let Some(status) = new["status"].as_object_mut() else {
        return;
    };
    if let Some(Value::Array(devices)) = status.get_mut("devices") {
        devices.retain(|device| !gone.contains(&device_of(device)));
        if devices.is_empty() {
            status.remove("devices");
        }
    }
}

fn check_status(old: &Value, new: &Value, causes: &mut Causes) {
    const RESERVED_FOR: &str = "status.reservedFor";
    let reserved = items(new, RESERVED_FOR);
    check_reserved_for(reserved, RESERVED_FOR, causes);
    check_devices(new, causes);
    let allocation = &new["status"]["allocation"];
    if !reserved.is_empty() {
        let before = items(old, RESERVED_FOR);
        if allocation.is_null() {
            causes.forbidden(RESERVED_FOR, "may not be specified when `allocated` is not set");
        } else if new["metadata"].get("deletionTimestamp").is_some()
            && reserved.iter().any(|entry| !before.contains(entry))
        {
            let why =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            causes.forbidden(RESERVED_FOR, why);
        }
    }
    check_duplicates(reserved, RESERVED_FOR, causes);
    match (old["status"].get("allocation"), allocation) {
        (_, Value::Null) => {}
        (Some(before), after) if before != after => {
            let why = "field cannot be modified once set";
            causes.invalid("status.allocation", &Value::Null, why);
        }
        (Some(_), _) => {}
        (None, _) => check_allocation(new, causes),
    }
}

fn check_reserved_for(reserved: &[Value], field: &str, causes: &mut Causes) {
    if reserved.len() > RESERVED_FOR_LIMIT {
        causes.too_many(field, reserved.len(), RESERVED_FOR_LIMIT);
        return;
    }
    for (number, consumer) in reserved.iter().enumerate() {
        for name in ["resource", "name", "uid"] {
            if text(consumer, name).is_empty() {
                causes.required(&format!("{field}[{number}].{name}"), "");
            }
        }
    }
}

fn check_duplicates(reserved: &[Value], field: &str, causes: &mut Causes) {
    let uids: Vec<&str> = reserved.iter().map(|consumer| text(consumer, "uid")).collect();
    for (number, uid) in uids.iter().enumerate() {
        if uids[..number].contains(uid) {
            let shown = in_order(&reserved[number], &["apiGroup", "resource", "name", "uid"]);
            causes.duplicate(&format!("{field}[{number}]"), shown);
        }
    }
}

fn check_allocation(claim: &Value, causes: &mut Causes) {
    const WHY: &str = "must be the name of a request in the claim or the name of a request and a subrequest \
                       separated by '/'";
    for (number, result) in items(claim, "status.allocation.devices.results")
        .iter()
        .enumerate()
    {
        let at = format!("status.allocation.devices.results[{number}]");
        let request = text(result, "request");
        if !asks_for(claim, request) {
            causes.invalid(&format!("{at}.request"), &json!(request), WHY);
        }
        check_device(result, &at, causes);
    }
}

/// True if the claim has the request `name`, or the request and subrequest of `request/subrequest`.
fn asks_for(claim: &Value, name: &str) -> bool {
    let (request, part) = match name.split_once('/') {
        Some((request, part)) => (request, Some(part)),
        None => (name, None),
    };
    items(claim, "spec.devices.requests")
        .iter()
        .filter(|asked| text(asked, "name") == request)
        .any(|asked| {
            part.is_none_or(|part| {
                items(asked, "firstAvailable")
                    .iter()
                    .any(|asked| text(asked, "name") == part)
            })
        })
}

fn check_devices(claim: &Value, causes: &mut Causes) {
    let allocated: Vec<_> = allocated_devices(claim).collect();
    for (number, device) in items(claim, "status.devices").iter().enumerate() {
        let at = format!("status.devices[{number}]");
        check_device(device, &at, causes);
        if !allocated.contains(&device_of(device)) {
            let shown =
                json!({ "Driver": device["driver"], "Pool": device["pool"], "Device": device["device"] });
            causes.invalid(&at, &shown, "must be an allocated device in the claim");
        }
    }
}

fn check_device(device: &Value, field: &str, causes: &mut Causes) {
    for (name, rule) in [
        ("driver", subdomain as fn(&str) -> Vec<String>),
        ("pool", |pool| pool.split('/').flat_map(subdomain).collect()),
        ("device", label),
    ] {
        let field = format!("{field}.{name}");
        match text(device, name) {
            // kube-apiserver reports an empty device name as invalid, not as missing.
            "" if name != "device" => causes.required(&field, ""),
            given => causes.syntax(&field, given, rule),
        }
    }
}

/// Identifies a device, or a share of one.
type Device<'a> = [&'a str; 4];

fn allocated_devices(claim: &Value) -> impl Iterator<Item = Device<'_>> {
    items(claim, "status.allocation.devices.results")
        .iter()
        .map(device_of)
}

fn device_of(entry: &Value) -> Device<'_> {
    ["driver", "pool", "device", "shareID"].map(|field| text(entry, field))
}

/// Index of the first entry with admin access.
fn position_of_access(entries: &[Value], part: impl Fn(&Value) -> &Value) -> Option<usize> {
    entries
        .iter()
        .position(|entry| part(entry)["adminAccess"] == true)
}
