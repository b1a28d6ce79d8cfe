//! Policies as the config file has them: each problem with the index and the name of its policy, its field and value.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-13 | `PolicyList::compile` | `tests/policies/wrong.rs::a_wrong_policy_is_refused_with_its_index_name_field_and_value`, `tests/policies/wrong.rs::every_problem_of_a_file_is_reported` |

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use controller_core::config::GoDuration;
use controller_core::selector::{Selector, SelectorWire};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{FinishedKind, MOST_POLICIES, Policies, Policy};

/// Longest name of a policy, which is a label of metrics.
const LONGEST_NAME: usize = 63;
/// Most objects that `keepLastFailed` keeps of an owner or a namespace.
const MOST_KEPT: u64 = 1_000;
/// Longest value in a message, in characters.
const LONGEST_SHOWN: usize = 60;

/// The policies as they are in the file, unchecked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct PolicyList(pub Vec<Value>);

/// The fields of a policy, for the JSON Schema; `Fields` reads them one by one.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code, reason = "only its schema is used")]
struct PolicySchema {
    /// Unique; in metrics, events and log lines.
    #[schemars(length(min = 1, max = 63))]
    name: String,
    /// Kinds of objects. Default: Job.
    #[schemars(length(min = 1))]
    kinds: Option<Vec<FinishedKind>>,
    /// Label selector of namespaces. Default: all.
    namespace_selector: Option<SelectorSchema>,
    /// Label selector of objects. Default: all.
    selector: Option<SelectorSchema>,
    /// How long an object that succeeded stays, such as 24h, or never. Default: never.
    ttl_after_succeeded: Option<Ttl>,
    /// How long an object that failed stays. Default: never.
    ttl_after_failed: Option<Ttl>,
    /// How many of the last failed objects of an owner, or else of a namespace, stay longer.
    #[schemars(range(min = 1, max = 1000))]
    keep_last_failed: Option<u32>,
    /// Objects with a controller go, too.
    include_owned: Option<bool>,
    /// If it would delete more in an hour, it stops, and waits for a person.
    #[schemars(range(min = 1))]
    max_per_hour: Option<u32>,
}

/// A label selector. Refuses other keys: one that is misspelled would select too much.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[derive(Default)]
#[allow(dead_code, reason = "only its shape is checked")]
struct SelectorSchema {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<RequirementSchema>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only its shape is checked")]
struct RequirementSchema {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

/// A duration; `None` for `never`.
struct Ttl(Option<Duration>);

const NEVER: &str = "never";

impl<'de> Deserialize<'de> for Ttl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == NEVER {
            return Ok(Self(None));
        }
        let text: StrDeserializer<'_, D::Error> = StrDeserializer::new(&text);
        let duration = GoDuration::deserialize(text);
        duration
            .map(|duration| Self(Some(duration.get())))
            .map_err(|problem| D::Error::custom(format!("{problem}, or {NEVER}")))
    }
}

impl JsonSchema for Ttl {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Ttl".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": NEVER }, GoDuration::json_schema(generator)] })
    }
}

impl JsonSchema for PolicyList {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PolicyList".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Vec::<PolicySchema>::json_schema(generator);
        schema.insert("maxItems".to_owned(), MOST_POLICIES.into());
        schema
    }
}

impl PolicyList {
    /// The policies, or everything that is wrong with them.
    pub fn compile(&self, grace: Duration) -> Result<Policies, Vec<String>> {
        let mut problems = Vec::new();
        if self.0.len() > MOST_POLICIES {
            problems.push(format!("{} policies: at most {MOST_POLICIES}", self.0.len()));
        }
        let mut first_of: BTreeMap<String, usize> = BTreeMap::new();
        let mut list = Vec::new();
        for (index, policy) in self.0.iter().enumerate().take(MOST_POLICIES) {
            let Some(mut fields) = Fields::of(index, policy, &mut problems) else {
                continue;
            };
            let policy = fields.policy();
            if let Some(first) = first_of.get(&*policy.name).filter(|_| !policy.name.is_empty()) {
                fields.wrong("name", &policy.name, &format!("is the name of [{first}], too"));
            }
            first_of.entry(policy.name.to_string()).or_insert(index);
            list.push(policy);
        }
        if problems.is_empty() {
            Ok(Policies { list, grace })
        } else {
            Err(problems)
        }
    }
}

/// The fields of one policy that are not read yet.
struct Fields<'a> {
    /// Index and name, for messages.
    place: String,
    unread: Map<String, Value>,
    problems: &'a mut Vec<String>,
}

impl<'a> Fields<'a> {
    /// `None` for what is no policy.
    fn of(index: usize, policy: &Value, problems: &'a mut Vec<String>) -> Option<Self> {
        let name = match &policy["name"] {
            Value::String(name) => format!(" {}", shown(name)),
            _ => String::new(),
        };
        let mut fields = Self {
            place: format!("[{index}]{name}"),
            unread: Map::new(),
            problems,
        };
        let Value::Object(given) = policy else {
            let problem = format!(
                "invalid value {}: expected a policy, as lines of `key: value`",
                shown(policy)
            );
            fields.tell(&problem);
            return None;
        };
        fields.unread.clone_from(given);
        Some(fields)
    }

    fn policy(&mut self) -> Policy {
        let problems_before = self.problems.len();
        let name = self.name();
        let kinds = self.kinds();
        let namespaces = self.selector("namespaceSelector");
        let objects = self.selector("selector");
        let ttls = ["ttlAfterSucceeded", "ttlAfterFailed"];
        if !ttls.iter().any(|ttl| self.unread.contains_key(*ttl)) {
            self.tell("ttlAfterSucceeded, ttlAfterFailed: neither is set; set one, or never");
        }
        let [after_succeeded, after_failed] = ttls.map(|ttl| self.read::<Ttl>(ttl).and_then(|ttl| ttl.0));
        let kept = self.number("keepLastFailed", MOST_KEPT);
        if let Some(kept) = kept
            && after_failed.is_none()
            && self.problems.len() == problems_before
        {
            self.wrong(
                "keepLastFailed",
                &kept,
                "has no effect, as ttlAfterFailed is never",
            );
        }
        let include_owned = self.read("includeOwned").unwrap_or_default();
        let max_per_hour = self.number("maxPerHour", u32::MAX.into());
        self.refuse_the_rest();
        Policy {
            name: name.into(),
            kinds,
            namespaces,
            objects,
            after_succeeded,
            after_failed,
            keep_last_failed: kept.and_then(|kept| kept.try_into().ok()).unwrap_or_default(),
            include_owned,
            max_per_hour: max_per_hour.and_then(|most| most.try_into().ok()),
        }
    }

    fn name(&mut self) -> String {
        let wanted = "a name has 1 to 63 characters of a-z, 0-9 and -, and neither starts nor ends with -";
        match self.unread.remove("name") {
            Some(Value::String(name)) if is_name(&name) => return name,
            Some(name) => self.wrong("name", &name, wanted),
            None => self.tell("name: is missing"),
        }
        String::new()
    }

    fn kinds(&mut self) -> Vec<FinishedKind> {
        let Some(kinds) = self.read::<Vec<FinishedKind>>("kinds") else {
            return vec![FinishedKind::Job];
        };
        let given = kinds.iter().map(ToString::to_string).collect::<Vec<_>>();
        if kinds.is_empty() {
            self.wrong("kinds", &given, "is empty; name Job, Pod or both");
        }
        if kinds
            .iter()
            .enumerate()
            .any(|(at, kind)| kinds[..at].contains(kind))
        {
            self.wrong("kinds", &given, "names a kind twice");
        }
        kinds
    }

    fn number(&mut self, field: &str, most: u64) -> Option<u64> {
        let number = self.read::<Value>(field)?;
        let fits = number.as_u64().filter(|number| (1..=most).contains(number));
        if fits.is_none() {
            self.wrong(
                field,
                &number,
                &format!("expected a whole number from 1 to {most}"),
            );
        }
        fits
    }

    fn selector(&mut self, field: &'static str) -> Option<Selector> {
        let value = self.unread.get(field)?.clone();
        self.read::<SelectorSchema>(field)?;
        let selector = match serde_json::from_value::<SelectorWire>(value.clone()) {
            Ok(wire) => Selector::compile(Some(wire)),
            Err(error) => Selector::Invalid(error.to_string().into()),
        };
        if let Selector::Invalid(problem) = &selector {
            self.wrong(field, &value, problem);
        }
        Some(selector)
    }

    /// Takes a field; `None` if it is not there, or wrong.
    fn read<T: DeserializeOwned>(&mut self, field: &str) -> Option<T> {
        let value = self.unread.remove(field)?;
        if value.is_null() {
            // Nothing, or everything? The author must say.
            self.tell(&format!(
                "{field}: has no value; give one, or leave the field out"
            ));
            return None;
        }
        match serde_path_to_error::deserialize::<_, T>(value.clone()) {
            Ok(read) => Some(read),
            Err(error) => {
                let inner = match error.path().to_string() {
                    path if path == "." => String::new(),
                    path if path.starts_with('[') => path,
                    path => format!(".{path}"),
                };
                self.wrong(&format!("{field}{inner}"), &value, &error.inner().to_string());
                None
            }
        }
    }

    fn refuse_the_rest(&mut self) {
        let known = "name, kinds, namespaceSelector, selector, ttlAfterSucceeded, ttlAfterFailed, keepLastFailed, \
                     includeOwned, maxPerHour";
        for field in std::mem::take(&mut self.unread)
            .into_iter()
            .map(|(field, _)| field)
        {
            self.tell(&format!(
                "{}: unknown field, expected one of {known}",
                shown(&field)
            ));
        }
    }

    fn wrong(&mut self, field: &str, value: &impl Serialize, problem: &str) {
        self.tell(&format!("{field}: invalid value {}: {problem}", shown(value)));
    }

    fn tell(&mut self, problem: &str) {
        self.problems.push(format!("{}: {problem}", self.place));
    }
}

fn is_name(name: &str) -> bool {
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= LONGEST_NAME
        && name.starts_with(ends)
        && name.ends_with(ends)
        && name.chars().all(|c| ends(c) || c == '-')
}

/// `value` as JSON on one line, cut.
fn shown(value: &(impl Serialize + ?Sized)) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    let text = text.replace(char::is_control, "\u{fffd}");
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
