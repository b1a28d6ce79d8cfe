//! Hides secrets in the effective config, for `/configz` and error messages.

use std::borrow::Cow;

use controller_core::config::ControllerConfig;
use serde_json::Value;

/// Every setting of `config` under its config-file key, as a JSON object without secrets.
///
/// No setting is secret itself; user and password in a URL are masked in every setting.
pub fn effective<C: ControllerConfig>(config: &C) -> Value {
    let mut value = serde_json::to_value(config).unwrap_or_default();
    if let Value::Object(settings) = &mut value {
        for setting in settings.values_mut() {
            if let Value::String(text) = setting {
                *text = redacted(text).into_owned();
            }
        }
    }
    value
}

/// `text` with `***` in place of each `user:password` of `scheme://user:password@host`.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    let Some((before, after)) = text.split_once("://") else {
        return text.into();
    };
    let end = after
        .find(|c: char| matches!(c, '/' | '?' | '#') || c.is_whitespace())
        .unwrap_or(after.len());
    let (authority, rest) = after.split_at(end);
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => authority.to_owned(),
    };
    format!("{before}://{authority}{}", redacted(rest)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_and_password_of_a_url_are_masked() {
        assert_eq!(redacted("https://me:secret@host:1/p"), "https://***@host:1/p");
        assert_eq!(
            redacted("http://a:b@c@d?x, then ftp://e@f"),
            "http://***@d?x, then ftp://***@f"
        );
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in ["", "info", "a@b", "://", "https://host/a@b", "C:\\x"] {
            assert_eq!(redacted(text), text);
        }
    }
}
