//! The end of the namespace, which is made again.

use std::time::Duration;

use controller_testing::fault_history::{At, Draw};
use controller_testing::history::Scripted;
use controller_testing::objects::{delete, edit, name, remove};
use embedded_apiserver::{NAMESPACES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource, Server};
use serde_json::json;

use super::groups;
use super::steps::looking;
use super::suite::Claims;

pub(super) fn ends(draw: &mut Draw, length: Duration) -> [At<Scripted<Claims>>; 3] {
    let end = draw.time(Duration::from_secs(1)..length);
    let lasts = draw.time(Duration::from_secs(1)..Duration::from_secs(20));
    [
        At {
            time: end,
            what: looking("the namespace ends, its claims first", end_namespace),
        },
        At {
            time: end + lasts / 2,
            what: looking("the namespace ends, its pods, too", end_pods),
        },
        At {
            time: end + lasts,
            what: looking("the namespace is made again", make_namespace),
        },
    ]
}

/// As the namespace controller: deletes one resource after the other.
fn end_namespace(server: &Server) {
    set_phase(server, "Terminating");
    delete_all(server, &RESOURCE_CLAIMS);
}

/// No grace is left to pods.
fn end_pods(server: &Server) {
    for pod in server.list(&PODS) {
        remove(server, &PODS, &name(&pod));
    }
    groups::remove_all(server);
    delete_all(server, &RESOURCE_CLAIM_TEMPLATES);
}

fn delete_all(server: &Server, resource: &'static Resource) {
    for object in server.list(resource) {
        delete(server, resource, &name(&object));
    }
}

/// A namespace of the same name comes; what finalizers held until then is gone.
fn make_namespace(server: &Server) {
    end_pods(server);
    for claim in server.list(&RESOURCE_CLAIMS) {
        remove(server, &RESOURCE_CLAIMS, &name(&claim));
    }
    set_phase(server, "Active");
}

pub(super) fn set_phase(server: &Server, phase: &str) {
    edit(server, &NAMESPACES, "default", |namespace| {
        namespace["status"]["phase"] = json!(phase);
    });
}
