//! The syntax of names, labels and annotations (apimachinery `util/validation`). Each function returns all errors, in
//! the words of kube-apiserver; none if the text is valid.

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

/// RFC 1123 subdomain: names of most objects.
pub(super) fn subdomain(text: &str) -> Vec<String> {
    let shape = text.split('.').all(is_label);
    faults(text, SUBDOMAIN_LENGTH, "characters", shape, SUBDOMAIN)
}

/// RFC 1123 label: names of namespaces and containers.
pub(super) fn label(text: &str) -> Vec<String> {
    faults(text, LABEL_LENGTH, "characters", is_label(text), LABEL)
}

/// A segment of a path: names of RBAC objects.
pub(super) fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    let found = text.chars().filter(|c| matches!(c, '/' | '%'));
    found.map(|found| format!("may not contain '{found}'")).collect()
}

/// Key of a label, annotation or taint: a name with an optional subdomain in front.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let (mut found, name) = match text.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some(("", name)) => (vec!["prefix part must be non-empty".to_owned()], name),
        Some((prefix, name)) => {
            let shape = prefix.split('.').all(is_label);
            let of_prefix = faults(prefix, SUBDOMAIN_LENGTH, "bytes", shape, SUBDOMAIN).into_iter();
            (
                of_prefix.map(|fault| format!("prefix part {fault}")).collect(),
                name,
            )
        }
        None => (Vec::new(), text),
    };
    if name.is_empty() {
        found.push("name part must be non-empty".to_owned());
    }
    let of_name = faults(name, LABEL_LENGTH, "bytes", is_word(name), QUALIFIED).into_iter();
    found.extend(of_name.map(|fault| format!("name part {fault}")));
    found
}

pub(crate) fn label_value(text: &str) -> Vec<String> {
    faults(
        text,
        LABEL_LENGTH,
        "bytes",
        text.is_empty() || is_word(text),
        LABEL_VALUE,
    )
}

/// The errors of a text with a limit for its length and a shape described by `rule`. Go's messages count some texts in
/// bytes and others in characters.
fn faults(text: &str, length: usize, unit: &str, has_shape: bool, rule: &str) -> Vec<String> {
    let too_long = (text.len() > length).then(|| format!("must be no more than {length} {unit}"));
    let misshapen = (!has_shape).then(|| rule.to_owned());
    too_long.into_iter().chain(misshapen).collect()
}

fn is_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    ends_with(text, is_inner) && text.chars().all(|c| is_inner(c) || c == '-')
}

fn is_word(text: &str) -> bool {
    let is_outer = |c: char| c.is_ascii_alphanumeric();
    ends_with(text, is_outer) && text.chars().all(|c| is_outer(c) || matches!(c, '-' | '_' | '.'))
}

/// True if `text` starts and ends with such a character.
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
            assert!(subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a b", &"a".repeat(254)] {
            assert!(!subdomain(bad).is_empty(), "{bad}");
        }
        assert!(!label("a.b").is_empty() && !label(&long_label).is_empty());
        assert!(
            path_segment("system:x").is_empty()
                && !path_segment("a/b").is_empty()
                && !path_segment("..").is_empty()
        );
    }

    #[test]
    fn keys_and_values_of_labels() {
        for good in ["a", "A.b_c-D", "example.com/Name", "x/1"] {
            assert!(qualified_name(good).is_empty(), "{good}");
        }
        for bad in ["", "a b", "/a", "a/", "A/b", "a/b/c", "-a", &"a".repeat(64)] {
            assert!(!qualified_name(bad).is_empty(), "{bad}");
        }
        for good in ["", "a", "A_b.c"] {
            assert!(label_value(good).is_empty(), "{good}");
        }
        assert!(!label_value("a b").is_empty() && !label_value(&"a".repeat(64)).is_empty());
    }
}
