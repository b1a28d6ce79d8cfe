//! JSON and protobuf give the same view of an object.

use std::fmt::Debug;

use controller_core::cache::{Versioned, Wire};
use embedded_apiserver::to_protobuf;
use serde_json::{Value, json};

/// Number of objects made from one.
const OBJECTS: u64 = 2_000;

/// Fails if JSON and protobuf of an object differ in the view of `W`. The objects are variants of `rich`, which has
/// every field that is read: fields are left out, or get other values of their type.
pub fn assert_the_same_views<W: Wire<View: Debug>>(rich: &Value) {
    assert_the_same::<W>(rich);
    for seed in 0..OBJECTS {
        let mut object = rich.clone();
        vary(&mut object, &mut fastrand::Rng::with_seed(seed));
        for of_type in ["apiVersion", "kind"] {
            object[of_type] = rich[of_type].clone();
        }
        object["metadata"]["name"] = json!("n");
        assert_the_same::<W>(&object);
    }
}

fn assert_the_same<W: Wire<View: Debug>>(object: &Value) {
    let protobuf = to_protobuf(object).unwrap();
    let read = |body: &[u8]| Versioned::read::<W>(body).map_err(|error| error.to_string());
    assert_eq!(read(&protobuf), read(object.to_string().as_bytes()), "{object:#}");
}

/// Leaves out one field in eight, and replaces one value in eight by another of its type.
fn vary(value: &mut Value, random: &mut fastrand::Rng) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, _| random.u8(..8) > 0);
            for field in fields.values_mut() {
                vary(field, random);
            }
        }
        Value::Array(items) => {
            items.retain(|_| random.u8(..8) > 0);
            for item in items {
                vary(item, random);
            }
        }
        _ if random.u8(..8) > 0 => {}
        Value::String(text) if text.ends_with('Z') => {
            let times = [
                "1970-01-01T00:00:00Z",
                "2026-02-03T04:05:06Z",
                "9999-12-30T22:00:00Z",
            ];
            times[random.usize(..times.len())].clone_into(text);
        }
        Value::String(text) => ["", "True", "a", "ünï"][random.usize(..4)].clone_into(text),
        Value::Number(number) => *number = [0, 1, -1, i32::MAX][random.usize(..4)].into(),
        Value::Bool(is) => *is = !*is,
        Value::Null => {}
    }
}
