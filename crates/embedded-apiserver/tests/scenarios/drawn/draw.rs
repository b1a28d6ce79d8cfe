//! Draws a sequence of requests.

use std::fmt;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::kinds::{KINDS, Kind};
use crate::http::{APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC};

const STEPS: usize = 14;
const NAMES: [&str; 2] = ["a", "b"];
/// Stands for the namespace in which a sequence runs: on the real server, several run side by side.
pub(super) const NAMESPACE: &str = "«namespace»";

/// A request; a text `«uid 3»` or `«version 3»` in it stands for what the server answered to step 3.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ask {
    pub(super) method: &'static str,
    pub(super) uri: String,
    pub(super) content_type: &'static str,
    pub(super) body: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Ask(Ask),
    /// Nothing: a step that was left out, so that the others keep their numbers.
    None,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask(ask) => write!(f, "{} {} {} {}", ask.method, ask.uri, ask.content_type, ask.body),
            Self::None => f.write_str("-"),
        }
    }
}

/// The steps of a seed: two objects of two kinds each.
pub(super) fn sequence(seed: u64) -> Vec<Step> {
    let mut rng = StdRng::seed_from_u64(seed);
    let kinds: Vec<&Kind> = KINDS.sample(&mut rng, 2).collect();
    let mut draw = Draw {
        rng,
        steps: Vec::new(),
        about: Vec::new(),
    };
    for _ in 0..STEPS {
        let kind = draw.one_of(&kinds);
        let name = draw.one_of(&NAMES);
        let ask = draw.ask(kind, name);
        draw.steps.push(Step::Ask(ask));
        draw.about.push((kind.plural, name));
    }
    draw.steps
}

struct Draw {
    rng: StdRng,
    steps: Vec<Step>,
    /// Kind and name of the object that each step is about.
    about: Vec<(&'static str, &'static str)>,
}

impl Draw {
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        *all.choose(&mut self.rng).unwrap()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_ratio(percent, 100)
    }

    /// A field of what some earlier step about this object was answered, mostly of the last.
    fn earlier(&mut self, field: &str, kind: &Kind, name: &str) -> Value {
        let about =
            |(number, about): (usize, &(&str, &str))| (*about == (kind.plural, name)).then_some(number);
        let steps: Vec<usize> = self.about.iter().enumerate().filter_map(about).collect();
        match steps.last() {
            None => json!(if field == "uid" { "nobody's" } else { "9999999" }),
            Some(last) => {
                let step = if self.chance(70) {
                    *last
                } else {
                    self.one_of(&steps)
                };
                json!(format!("«{field} {step}»"))
            }
        }
    }

    fn ask(&mut self, kind: &Kind, name: &'static str) -> Ask {
        let collection = kind.collection(NAMESPACE);
        let object = format!("{collection}/{name}");
        let ask = |method, uri: String, content_type, body| Ask {
            method,
            uri,
            content_type,
            body,
        };
        match self.rng.random_range(0..100) {
            0..24 => ask("POST", self.tried(collection), JSON, self.whole(kind, name)),
            // A dry run of an update that creates a Lease shows the version that was sent.
            24..36 if kind.name == "Lease" => ask("PUT", object, JSON, self.whole_of_a_version(kind, name)),
            24..36 => ask(
                "PUT",
                self.tried(object),
                JSON,
                self.whole_of_a_version(kind, name),
            ),
            // The real server replaces the selector of a budget.
            36..41 if kind.name != "PodDisruptionBudget" => {
                ask("PATCH", self.tried(object), STRATEGIC, self.change(kind, name))
            }
            36..55 => ask("PATCH", self.tried(object), MERGE, self.change(kind, name)),
            55..61 => ask("PATCH", self.tried(object), JSON_PATCH, self.operations(kind)),
            61..68 => {
                let mut body = self.whole(kind, name);
                body["apiVersion"] = json!(kind.api_version);
                body["kind"] = json!(kind.name);
                let manager = self.one_of(&["m1", "m2"]);
                let force = self.one_of(&["", "&force=true"]);
                ask(
                    "PATCH",
                    format!("{object}?fieldManager={manager}{force}"),
                    APPLY,
                    body,
                )
            }
            68..76 => match kind.status {
                Some(status) => {
                    let body = json!({"status": status(&mut self.rng)});
                    ask("PATCH", self.tried(format!("{object}/status")), MERGE, body)
                }
                None => ask("GET", object, JSON, Value::Null),
            },
            76..88 => ask(
                "DELETE",
                self.tried(object),
                JSON,
                self.delete_options(kind, name),
            ),
            88..91 => ask("GET", object, JSON, Value::Null),
            91..96 => {
                let query = self.one_of(&[
                    "",
                    "?labelSelector=l",
                    "?labelSelector=l%3Dx",
                    "?fieldSelector=metadata.name%3Da",
                    "?limit=1",
                    "?labelSelector=l%20notin%20(x)",
                ]);
                ask("GET", format!("{collection}{query}"), JSON, Value::Null)
            }
            96..98 => {
                let query = self.one_of(&["", "?labelSelector=l%3Dx"]);
                ask(
                    "DELETE",
                    format!("{collection}{query}"),
                    JSON,
                    json!({"gracePeriodSeconds": 0}),
                )
            }
            _ if kind.plural == "pods" => {
                let body = json!({
                    "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name},
                    "deleteOptions": self.delete_options(kind, name),
                });
                ask("POST", format!("{object}/eviction"), JSON, body)
            }
            _ => ask("GET", object, JSON, Value::Null),
        }
    }

    /// Now and then a dry run.
    fn tried(&mut self, uri: String) -> String {
        if self.chance(8) {
            format!("{uri}?dryRun=All")
        } else {
            uri
        }
    }

    fn metadata(&mut self, name: &str) -> Value {
        let mut metadata = json!({"name": name});
        if self.chance(40) {
            metadata["labels"] = self.labels();
        }
        if self.chance(15) {
            metadata["annotations"] = json!({"note": self.one_of(&["x", "y"])});
        }
        if self.chance(15) {
            metadata["finalizers"] = self.finalizers();
        }
        if self.chance(6) {
            metadata["ownerReferences"] = self.owners();
        }
        if self.chance(3) {
            metadata["generateName"] = json!("g-");
        }
        metadata
    }

    fn labels(&mut self) -> Value {
        let (key, value) = self.one_of(&[
            ("l", "x"),
            ("l", "x"),
            ("l", "y"),
            ("l", "y"),
            ("other", "x"),
            ("l", "not a value!"),
            ("-no-key-", "x"),
        ]);
        json!({key: value})
    }

    fn finalizers(&mut self) -> Value {
        let all = [
            json!(["example.com/f"]),
            json!(["example.com/f", "example.com/g"]),
            json!([]),
            json!(["no finalizer"]),
        ];
        all.choose(&mut self.rng).unwrap().clone()
    }

    fn owners(&mut self) -> Value {
        let owner = |uid: &str, controller: bool| json!({"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": uid, "controller": controller});
        let all = [
            json!([owner("u-1", false)]),
            json!([owner("u-1", true), owner("u-2", false)]),
            json!([owner("u-1", true), owner("u-2", true)]),
            json!([owner("", false)]),
        ];
        all.choose(&mut self.rng).unwrap().clone()
    }

    fn whole(&mut self, kind: &Kind, name: &str) -> Value {
        let mut object = (kind.body)(&mut self.rng);
        object["metadata"] = self.metadata(name);
        object
    }

    fn whole_of_a_version(&mut self, kind: &Kind, name: &str) -> Value {
        let mut object = self.whole(kind, name);
        if self.chance(75) {
            object["metadata"]["resourceVersion"] = self.earlier("version", kind, name);
        }
        if self.chance(20) {
            object["metadata"]["uid"] = self.earlier("uid", kind, name);
        }
        object
    }

    fn change(&mut self, kind: &Kind, name: &str) -> Value {
        match self.rng.random_range(0..10) {
            0..4 => (kind.body)(&mut self.rng),
            4 => json!({"metadata": {"labels": self.labels()}}),
            5 => json!({"metadata": {"labels": null}}),
            6 => json!({"metadata": {"finalizers": self.finalizers()}}),
            7 => json!({"metadata": {"finalizers": null}}),
            8 => {
                json!({"metadata": {"resourceVersion": self.earlier("version", kind, name), "annotations": {"note": "z"}}})
            }
            _ => json!({"metadata": {"uid": self.earlier("uid", kind, name), "annotations": {"note": "w"}}}),
        }
    }

    fn operations(&mut self, kind: &Kind) -> Value {
        let whole = (kind.body)(&mut self.rng);
        let (field, value) = whole.as_object().unwrap().iter().next().unwrap();
        let all = [
            json!([{"op": "add", "path": "/metadata/labels", "value": {"l": "x"}}]),
            json!([{"op": "remove", "path": "/metadata/labels"}]),
            json!([{"op": "test", "path": "/metadata/labels/l", "value": "x"}, {"op": "remove", "path": "/metadata/labels/l"}]),
            json!([{"op": "add", "path": "/metadata/finalizers", "value": []}]),
            json!([{"op": "replace", "path": format!("/{field}"), "value": value}]),
        ];
        all.choose(&mut self.rng).unwrap().clone()
    }

    fn delete_options(&mut self, kind: &Kind, name: &str) -> Value {
        let mut options = json!({});
        if self.chance(50) {
            options["gracePeriodSeconds"] = self.one_of(&[0, 0, 1, 30]).into();
        }
        if self.chance(25) {
            options["propagationPolicy"] = self
                .one_of(&["Background", "Foreground", "Orphan", "None"])
                .into();
        }
        if self.chance(20) {
            options["preconditions"]["uid"] = self.earlier("uid", kind, name);
        }
        if self.chance(20) {
            options["preconditions"]["resourceVersion"] = self.earlier("version", kind, name);
        }
        options
    }
}
