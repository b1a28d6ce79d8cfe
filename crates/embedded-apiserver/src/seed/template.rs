//! JSON templates, rendered thousands of times without parsing.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

/// A JSON text with blanks, written `«name»` inside its strings.
#[derive(Debug)]
pub(super) struct Template {
    /// Literal texts, each with the blank that follows; the last one has no blank.
    parts: Vec<(String, Option<String>)>,
}

impl Template {
    pub(super) fn parse(text: &str) -> Self {
        Self::new(&serde_json::from_str(text).unwrap_or_default())
    }

    pub(super) fn new(form: &Value) -> Self {
        let text = form.to_string();
        let mut parts = Vec::new();
        let mut rest = text.as_str();
        while let Some((literal, after)) = rest.split_once('«')
            && let Some((blank, after)) = after.split_once('»')
        {
            parts.push((literal.to_owned(), Some(blank.to_owned())));
            rest = after;
        }
        parts.push((rest.to_owned(), None));
        Self { parts }
    }

    /// The text with `values` in its blanks; a blank without a value becomes empty. Values must not need escapes in
    /// JSON.
    pub(super) fn fill(&self, values: &[(&str, String)]) -> Bytes {
        let value = |blank: &str| {
            let found = values.iter().find(|(name, _)| *name == blank);
            found.map_or("", |(_, value)| value.as_str())
        };
        let filled = self
            .parts
            .iter()
            .map(|(literal, blank)| (literal, blank.as_deref().map_or("", value)));
        let length = filled
            .clone()
            .map(|(literal, value)| literal.len() + value.len())
            .sum();
        let mut text = BytesMut::with_capacity(length);
        for (literal, value) in filled {
            text.put_slice(literal.as_bytes());
            text.put_slice(value.as_bytes());
        }
        text.freeze()
    }
}

/// The IPv4 address `number` in `network`.0.0.0/8.
pub(super) fn address(network: u8, number: usize) -> String {
    format!(
        "{network}.{}.{}.{}",
        number >> 16 & 255,
        number >> 8 & 255,
        number & 255
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blanks_are_filled_wherever_they_stand() {
        let template =
            Template::new(&json!({ "name": "pod-«n»", "uid": "«u»", "again": "«n»-«n»", "x": "«y»" }));
        let text = template.fill(&[("n", "7".to_owned()), ("u", "abc".to_owned())]);
        let object: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(
            object,
            json!({ "name": "pod-7", "uid": "abc", "again": "7-7", "x": "" })
        );
    }
}
