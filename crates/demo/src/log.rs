//! Turns a controller's log lines into events for a viewer.

use serde_json::{Map, Value};

use crate::event::{Action, Event};

/// One line of a controller's JSON log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    /// Address of the admin server.
    Admin(String),
    Show(Event),
    /// Nothing for a viewer.
    Chatter,
}

/// Fields about the origin of a line, not about what happened.
const ABOUT_THE_LINE: [&str; 7] = [
    "timestamp",
    "level",
    "target",
    "message",
    "controller",
    "key",
    "attempt",
];

/// Reads one line of the log of `controller`.
///
/// Every write is a line with `action` (what was done) and a message with the reason (CORE-10). Its object is in a
/// separate field (`pod`, `claim`), else in `key`; a warning with a `key` concerns that object. Other lines of the
/// controller's own modules are decisions; from the shared crate only warnings matter.
pub(crate) fn read(controller: &'static str, line: &str) -> Line {
    let said = |text: &str| {
        Line::Show(Event::Said {
            controller,
            text: printable(text),
        })
    };
    let Ok(fields) = serde_json::from_str::<Map<String, Value>>(line) else {
        return said(line);
    };
    let field = |name| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (key, level, message) = (field("key"), field("level"), field("message"));
    let did = |action, object: &str, reason: &str| {
        Line::Show(Event::Did {
            controller,
            action,
            object: printable(object),
            reason: printable(reason),
        })
    };
    let is_warning = matches!(level, "WARN" | "ERROR");
    let of_the_controller = field("target").split("::").next() == Some(&controller.replace('-', "_"));
    if fields.contains_key("address") {
        Line::Admin(field("address").to_owned())
    } else if fields.contains_key("action") {
        did(Action::Wrote, written(&fields).unwrap_or(key), message)
    } else if is_warning && !key.is_empty() {
        // Without the name, equal failures have equal texts, which a display shows once.
        did(Action::FailedOn, key, &message.replace(key, "…"))
    } else if is_warning {
        said(&format!("{level}: {message}{}", details(&fields)))
    } else if of_the_controller {
        said(&format!("{message}{}", details(&fields)))
    } else {
        Line::Chatter
    }
}

/// The object of a write, which may differ from the key of the sync.
fn written(fields: &Map<String, Value>) -> Option<&str> {
    let mut own = fields
        .iter()
        .filter(|(name, _)| *name != "action" && !ABOUT_THE_LINE.contains(&name.as_str()));
    own.find_map(|(_, value)| value.as_str())
}

/// ` (nodes=120, step=1)`, or empty.
fn details(fields: &Map<String, Value>) -> String {
    let details: Vec<_> = fields
        .iter()
        .filter(|(name, _)| !ABOUT_THE_LINE.contains(&name.as_str()))
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        })
        .collect();
    if details.is_empty() {
        String::new()
    } else {
        format!(" ({})", details.join(", "))
    }
}

/// Replaces control characters: a log line must not move the cursor.
fn printable(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "ttl-controller";

    fn said(text: &str) -> Line {
        Line::Show(Event::Said {
            controller: NAME,
            text: text.to_owned(),
        })
    }

    #[test]
    fn a_write_is_reported_with_its_reason() {
        let line = r#"{"timestamp":"2026-01-01T00:00:00.000000Z","level":"INFO","target":"ttl_controller::apply",
            "message":"TTL set to 15 s, was 0","action":"annotate","attempt":0,"controller":"ttl-controller",
            "key":"demo-node-7","node":"demo-node-7"}"#;
        assert_eq!(
            read(NAME, line),
            Line::Show(Event::Did {
                controller: NAME,
                action: Action::Wrote,
                object: "demo-node-7".to_owned(),
                reason: "TTL set to 15 s, was 0".to_owned(),
            })
        );
    }

    #[test]
    fn a_write_is_reported_for_the_object_that_was_written() {
        let line = |object: &str| {
            format!(
                r#"{{"level":"INFO","target":"resourceclaim_controller::apply","message":"m","action":"create-claim",
                "attempt":0,"controller":"resourceclaim-controller","key":"pod:default/p"{object}}}"#
            )
        };
        let wrote = |object: &str| {
            Line::Show(Event::Did {
                controller: NAME,
                action: Action::Wrote,
                object: object.to_owned(),
                reason: "m".to_owned(),
            })
        };
        assert_eq!(
            read(NAME, &line(r#","claim":"default/p-gpu-1""#)),
            wrote("default/p-gpu-1")
        );
        assert_eq!(read(NAME, &line("")), wrote("pod:default/p"));
    }

    #[test]
    fn failures_on_different_objects_have_the_same_text() {
        let line = r#"{"level":"WARN","target":"controller_runtime::driver","key":"demo-node-7","reason":"Refused",
            "message":"sync failed: patch nodes demo-node-7: no"}"#;
        assert_eq!(
            read(NAME, line),
            Line::Show(Event::Did {
                controller: NAME,
                action: Action::FailedOn,
                object: "demo-node-7".to_owned(),
                reason: "sync failed: patch nodes …: no".to_owned(),
            })
        );
    }

    #[test]
    fn decisions_and_warnings_are_logged_and_the_rest_is_not() {
        let line = |level: &str, target: &str| {
            format!(
                r#"{{"level":"{level}","target":"{target}","message":"step chosen","nodes":120,"step":1}}"#
            )
        };
        assert_eq!(
            read(NAME, &line("INFO", "ttl_controller::controller")),
            said("step chosen (nodes=120, step=1)")
        );
        assert_eq!(
            read(NAME, &line("WARN", "controller_runtime::driver")),
            said("WARN: step chosen (nodes=120, step=1)")
        );
        assert_eq!(
            read(NAME, &line("INFO", "controller_runtime::driver")),
            Line::Chatter
        );
    }

    #[test]
    fn the_address_of_the_admin_server_is_found() {
        let line = r#"{"level":"INFO","message":"admin server listens","address":"127.0.0.1:4711"}"#;
        assert_eq!(read(NAME, line), Line::Admin("127.0.0.1:4711".to_owned()));
    }

    #[test]
    fn what_is_not_json_is_reported_without_its_control_characters() {
        assert_eq!(
            read(NAME, "thread panicked\u{1b}[2J"),
            said("thread panicked [2J")
        );
    }
}
