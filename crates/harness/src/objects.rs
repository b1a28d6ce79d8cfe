//! What tests do with objects as the API server has them, and read of them. They are in the namespace `default`, or in none.

use jiff::Timestamp;
use serde_json::{Value, json};
use testkit::embedded::{PODS, Resource, Server};

/// The text in a field; empty where there is none.
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

/// The entries of a list; none where there is no list.
pub fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The condition of this type; null where there is none.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let mut conditions = each(&object["status"]["conditions"]);
    conditions
        .find(|condition| condition["type"] == kind)
        .unwrap_or(&Value::Null)
}

/// As the API server writes times.
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

/// Whether somebody has deleted the object.
pub fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whether an object is there and nobody has deleted it: nothing ends what was deleted and waits for something.
pub fn stays(object: Option<&Value>) -> bool {
    object.is_some_and(|object| !is_deleting(object))
}

/// An object, if it is there.
pub fn find(server: &Server, resource: &'static Resource, name: &str) -> Option<Value> {
    server.get(resource, "default", name)
}

/// Changes an object, if it is there.
pub fn edit(server: &Server, resource: &'static Resource, name: &str, edit: impl FnOnce(&mut Value)) {
    let _ = server.edit(resource, "default", name, edit);
}

/// Deletes an object, if it is there.
pub fn delete(server: &Server, resource: &'static Resource, name: &str) {
    let _ = server.delete(resource, "default", name);
}

/// Gives a pod, if it is there, a deletionTimestamp; nobody lets it end.
pub fn terminate(server: &Server, pod: &str) {
    let hold = |pod: &mut Value| pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    edit(server, &PODS, pod, hold);
    delete(server, &PODS, pod);
}

/// Has an object, if it is there, gone at once, whoever holds it.
pub fn remove(server: &Server, resource: &'static Resource, name: &str) {
    edit(server, resource, name, |object| {
        object["metadata"]["finalizers"] = Value::Null;
    });
    delete(server, resource, name);
}
