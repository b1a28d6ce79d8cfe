//! Reads `kubernetes.txt`, by lines:
//!
//! ```text
//! kind v1 Pod core.v1.Pod             the type of a kind
//!
//! core.v1.ContainerPort               a struct, and its fields below
//!  containerPort int32 !              its name in JSON, its type, `!` where it is always written (`!null` as
//!  hostPort int32                     null), `?` where it is written if it was given, be it zero; then
//!  protocol string ="TCP"             its default
//! ```
//!
//! Types: scalars by name, structs by name, `[T]` a list, `<T>` a map, `any`. A struct or map that is owned as
//! a whole ends in `~`; a list says what tells its items apart, `{}` their values, `{name}` fields of them,
//! and how a strategic merge patch merges it, `+` by value, `+name` by a field.

use super::{Field, Identity, Kind, Merge, Presence, SCALARS, Types};

pub(super) fn types(text: &str) -> Types {
    let mut types = Types::default();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix(' ') {
            let mut words = declared.splitn(3, ' ');
            let (Some(name), Some(declared)) = (words.next(), words.next()) else {
                continue;
            };
            let field = field(declared, words.next().unwrap_or_default());
            if let Some(of) = types.structs.get_mut(&current) {
                of.fields.insert(name.to_owned(), field);
            }
        } else if let Some(declared) = line.strip_prefix("kind ") {
            if let Some((name, declared)) = declared.rsplit_once(' ') {
                types.roots.insert(name.to_owned(), kind(declared));
            }
        } else if !line.is_empty() && !line.starts_with('#') {
            line.clone_into(&mut current);
            types.structs.entry(current.clone()).or_default();
        }
    }
    types
}

fn field(declared: &str, marks: &str) -> Field {
    let (mark, default) = match marks.split_once('=') {
        Some((mark, default)) => (mark, serde_json::from_str(default).ok()),
        None => (marks, None),
    };
    Field {
        kind: kind(declared),
        presence: match mark.trim() {
            "!" => Presence::Always,
            "!null" => Presence::Null,
            "?" => Presence::Given,
            _ => Presence::NotZero,
        },
        default,
    }
}

fn kind(text: &str) -> Kind {
    if let Some((items, marks)) = text.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')) {
        let (identity, merge) = match marks.split_once('+') {
            Some((identity, "")) => (identity, Merge::Values),
            Some((identity, key)) => (identity, Merge::Key(key.to_owned())),
            None => (marks, Merge::Replace),
        };
        return Kind::List {
            items: Box::new(kind(items)),
            told_apart_by: match identity.trim_matches(['{', '}']) {
                "" if identity.is_empty() => Identity::None,
                "" => Identity::Value,
                keys => Identity::Keys(keys.split(',').map(str::to_owned).collect()),
            },
            merge,
        };
    }
    let (named, atomic) = text
        .strip_suffix('~')
        .map_or((text, false), |named| (named, true));
    if let Some(values) = named.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        return Kind::Map {
            values: Box::new(kind(values)),
            atomic,
        };
    }
    match SCALARS.iter().find(|(_, name, ..)| *name == named) {
        Some((scalar, ..)) => Kind::Scalar(*scalar),
        None if named == "any" => Kind::Any,
        None => Kind::Struct {
            name: named.to_owned(),
            atomic,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scalar;
    use super::*;

    fn named(kind: &Kind, found: &mut Vec<String>) {
        match kind {
            Kind::Struct { name, .. } => found.push(name.clone()),
            Kind::Map { values: below, .. } | Kind::List { items: below, .. } => named(below, found),
            Kind::Any | Kind::Scalar(_) => {}
        }
    }

    #[test]
    fn every_type_that_is_named_is_there() {
        let types = types(include_str!("kubernetes.txt"));
        let mut found = Vec::new();
        types.roots.values().for_each(|kind| named(kind, &mut found));
        let fields = types.structs.values().flat_map(|of| of.fields.values());
        fields.for_each(|field| named(&field.kind, &mut found));
        found.retain(|name| !types.structs.contains_key(name));
        assert_eq!(found, Vec::<String>::new());
        assert!(types.roots.len() > 20 && types.structs.len() > 200);
    }

    #[test]
    fn types_say_how_they_merge() {
        let int = Kind::Scalar(Scalar::Int32);
        assert_eq!(
            kind("[int32]{a,b}+a"),
            Kind::List {
                items: Box::new(int.clone()),
                told_apart_by: Identity::Keys(vec!["a".to_owned(), "b".to_owned()]),
                merge: Merge::Key("a".to_owned()),
            }
        );
        assert_eq!(
            kind("[string]{}+"),
            Kind::List {
                items: Box::new(Kind::Scalar(Scalar::Text)),
                told_apart_by: Identity::Value,
                merge: Merge::Values,
            }
        );
        assert_eq!(
            kind("<[int32]>~"),
            Kind::Map {
                values: Box::new(Kind::List {
                    items: Box::new(int),
                    told_apart_by: Identity::None,
                    merge: Merge::Replace,
                }),
                atomic: true,
            }
        );
    }
}
