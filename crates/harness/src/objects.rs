//! What tests do with objects as the API server has them, and read of them.

use jiff::Timestamp;
use serde_json::{Value, json};
use testkit::embedded::{PODS, Resource, Server};

/// The text in a field; empty where there is none.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The entries of a list; none where there is no list.
pub fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
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

/// Whether an object is there and nobody has deleted it: nothing ends what was deleted and waits for something.
pub fn stays(object: Option<&Value>) -> bool {
    object.is_some_and(|object| object["metadata"].get("deletionTimestamp").is_none())
}

/// Gives a pod in the namespace `default`, if it is there, a deletionTimestamp; nobody lets it end.
pub fn terminate(server: &Server, pod: &str) {
    let hold = |pod: &mut Value| pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let _ = server.edit(&PODS, "default", pod, hold);
    let _ = server.delete(&PODS, "default", pod);
}

/// Has an object in the namespace `default`, if it is there, gone at once, whoever holds it.
pub fn remove(server: &Server, resource: &'static Resource, name: &str) {
    let _ = server.edit(resource, "default", name, |object| {
        object["metadata"]["finalizers"] = Value::Null;
    });
    let _ = server.delete(resource, "default", name);
}
