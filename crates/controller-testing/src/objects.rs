//! Helpers for objects as the API server has them, in the namespace `default` or in none.

use embedded_apiserver::{PODS, Resource, Server};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The text of a field; empty if it is absent.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The name of an object.
pub fn name(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

/// The uid of an object.
pub fn uid(object: &Value) -> String {
    text(&object["metadata"]["uid"])
}

/// The entries of a list; none if it is absent.
pub fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The condition of this type; null if it is absent.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let mut conditions = each(&object["status"]["conditions"]);
    conditions
        .find(|condition| condition["type"] == kind)
        .unwrap_or(&Value::Null)
}

/// Formats a time as the API server does.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A reference to `object` as its controller.
pub fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": true,
    })
}

/// The reference to the controller of `object`, if it has one.
pub fn owner_of(object: &Value) -> Option<&Value> {
    let mut owners = each(&object["metadata"]["ownerReferences"]);
    owners.find(|owner| owner["controller"] == true)
}

/// Object, type, reason and note of an event.
pub fn event_line(event: &Value) -> String {
    let parts = [
        &event["regarding"]["name"],
        &event["type"],
        &event["reason"],
        &event["note"],
    ];
    parts.map(text).join(" ")
}

/// True if the object has been deleted and waits for something.
pub fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// True if the object exists and has not been deleted: nothing ends an object that was deleted and waits for something.
pub fn stays(object: Option<&Value>) -> bool {
    object.is_some_and(|object| !is_deleting(object))
}

/// An object, if it exists.
pub fn find(server: &Server, resource: &'static Resource, name: &str) -> Option<Value> {
    server.get(resource, "default", name)
}

/// Changes an object, if it exists.
pub fn edit(server: &Server, resource: &'static Resource, name: &str, edit: impl FnOnce(&mut Value)) {
    let _ = server.edit(resource, "default", name, edit);
}

/// Deletes an object, if it exists.
pub fn delete(server: &Server, resource: &'static Resource, name: &str) {
    let _ = server.delete(resource, "default", name);
}

/// Gives a pod, if it exists, a deletionTimestamp, and holds it with a finalizer.
pub fn terminate(server: &Server, pod: &str) {
    let hold = |pod: &mut Value| pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    edit(server, &PODS, pod, hold);
    delete(server, &PODS, pod);
}

/// Removes an object, if it exists, at once, whatever finalizers it has.
pub fn remove(server: &Server, resource: &'static Resource, name: &str) {
    edit(server, resource, name, |object| {
        object["metadata"]["finalizers"] = Value::Null;
    });
    delete(server, resource, name);
}
