//! The syntax of names, labels and annotations (apimachinery `util/validation`). Each question is answered
//! with what is wrong, in the API server's words.

const LABEL_LENGTH: usize = 63;
const SUBDOMAIN_LENGTH: usize = 253;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
     must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
     for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// RFC 1123 subdomain: the names of most objects.
pub(super) fn subdomain(text: &str) -> Result<(), String> {
    at_most(text, SUBDOMAIN_LENGTH, "characters")?;
    let is_valid = text.split('.').all(is_label);
    is_valid.then_some(()).ok_or_else(|| SUBDOMAIN.to_owned())
}

/// RFC 1123 label: the names of namespaces and containers.
pub(super) fn label(text: &str) -> Result<(), String> {
    at_most(text, LABEL_LENGTH, "characters")?;
    is_label(text).then_some(()).ok_or_else(|| LABEL.to_owned())
}

/// One part of a path: the names of RBAC objects.
pub(super) fn path_segment(text: &str) -> Result<(), String> {
    if matches!(text, "." | "..") {
        return Err(format!("may not be '{text}'"));
    }
    match text.chars().find(|c| matches!(c, '/' | '%')) {
        Some(found) => Err(format!("may not contain '{found}'")),
        None => Ok(()),
    }
}

/// The key of a label, annotation or taint: a name, with a subdomain in front if need be.
pub(super) fn qualified_name(text: &str) -> Result<(), String> {
    let name = match text.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return Err(format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            ));
        }
        Some(("", _)) => return Err("prefix part must be non-empty".to_owned()),
        Some((prefix, name)) => {
            subdomain(prefix).map_err(|error| format!("prefix part {error}"))?;
            name
        }
        None => text,
    };
    if name.is_empty() {
        return Err("name part must be non-empty".to_owned());
    }
    at_most(name, LABEL_LENGTH, "bytes").map_err(|error| format!("name part {error}"))?;
    is_word(name)
        .then_some(())
        .ok_or_else(|| format!("name part {QUALIFIED}"))
}

/// The value of a label.
pub(super) fn label_value(text: &str) -> Result<(), String> {
    at_most(text, LABEL_LENGTH, "bytes")?;
    (text.is_empty() || is_word(text))
        .then_some(())
        .ok_or_else(|| LABEL_VALUE.to_owned())
}

fn at_most(text: &str, length: usize, of: &str) -> Result<(), String> {
    if text.len() > length {
        return Err(format!("must be no more than {length} {of}"));
    }
    Ok(())
}

fn is_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    ends_with(text, is_inner) && text.chars().all(|c| is_inner(c) || c == '-')
}

fn is_word(text: &str) -> bool {
    let is_outer = |c: char| c.is_ascii_alphanumeric();
    ends_with(text, is_outer) && text.chars().all(|c| is_outer(c) || matches!(c, '-' | '_' | '.'))
}

/// Whether text starts and ends with such a character.
fn ends_with(text: &str, is_outer: impl Fn(char) -> bool) -> bool {
    text.starts_with(&is_outer) && text.chars().next_back().is_some_and(is_outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_rfc_1123() {
        let long_label = "a".repeat(64);
        for good in ["a", "a-b.c", "0", "1.2.3"] {
            assert_eq!(subdomain(good), Ok(()), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a b", &"a".repeat(254)] {
            assert!(subdomain(bad).is_err(), "{bad}");
        }
        assert!(label("a.b").is_err() && label(&long_label).is_err());
        assert!(
            path_segment("system:x").is_ok() && path_segment("a/b").is_err() && path_segment("..").is_err()
        );
    }

    #[test]
    fn keys_and_values_of_labels() {
        for good in ["a", "A.b_c-D", "example.com/Name", "x/1"] {
            assert_eq!(qualified_name(good), Ok(()), "{good}");
        }
        for bad in ["", "a b", "/a", "a/", "A/b", "a/b/c", "-a", &"a".repeat(64)] {
            assert!(qualified_name(bad).is_err(), "{bad}");
        }
        for good in ["", "a", "A_b.c"] {
            assert_eq!(label_value(good), Ok(()), "{good}");
        }
        assert!(label_value("a b").is_err() && label_value(&"a".repeat(64)).is_err());
    }
}
