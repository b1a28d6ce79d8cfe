//! Reads `kubernetes.txt` line by line:
//!
//! ```text
//! kind v1 Pod core.v1.Pod             the type of a kind; `sent` of one that is never stored
//!
//! core.v1.ContainerPort               a struct, and its fields below
//!  3 containerPort int32 !            its number in protobuf (0: not there), its name in JSON, its type,
//!  4 protocol string ="TCP"           `!` where it is always written; then its default
//! ```
//!
//! Types: scalars by name, structs by name, `[T]` a list, `<T>` a map, `any`; `*T` is written if set, even to zero. A
//! struct or map that is owned as a whole ends in `~`. A list names the identity of its items, `{}` for their values,
//! `{name}` for fields of them, and how a strategic merge patch merges it, `+` by value, `+name` by a field. The fields
//! of a field called `-` belong in JSON to the struct around it.

use super::message::Numbered;
use super::{Field, Identity, Kind, Merge, Presence, SCALARS, Types};

/// Name of an inlined struct, which is not a field in JSON.
const INLINE: &str = "-";

pub(super) fn types(text: &str) -> Types {
    let mut types = Types::default();
    let mut current = "";
    let mut inlined = Vec::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix(' ') {
            let mut words = declared.splitn(4, ' ');
            let (Some(number), Some(name), Some(declared)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            if name == INLINE {
                inlined.push((current, declared));
            } else if let Some(of) = types.structs.get_mut(current) {
                let field = field(declared, words.next().unwrap_or_default());
                of.fields.insert(name.to_owned(), field);
            }
            if let Some(of) = types.messages.get_mut(current) {
                of.fields.extend(numbered(number, name, declared));
            }
        } else if let Some((word @ ("kind" | "sent"), declared)) = line.split_once(' ') {
            let Some((name, declared)) = declared.rsplit_once(' ') else {
                continue;
            };
            if word == "kind" {
                types.roots.insert(name.to_owned(), kind(declared));
            }
            types.message_of.insert(name.to_owned(), declared.to_owned());
        } else if !line.is_empty() && !line.starts_with('#') {
            current = line;
            types.structs.entry(line.to_owned()).or_default();
            types.messages.entry(line.to_owned()).or_default();
        }
    }
    for (outer, part) in inlined {
        let part = types.structs.get(part).map(|part| part.fields.clone());
        if let Some(outer) = types.structs.get_mut(outer) {
            outer.fields.extend(part.unwrap_or_default());
        }
    }
    types
}

fn field(declared: &str, marks: &str) -> Field {
    let (mark, default) = match marks.split_once('=') {
        Some((mark, default)) => (mark, serde_json::from_str(default).ok()),
        None => (marks, None),
    };
    let (kind, is_pointer) = pointed_to(declared);
    Field {
        kind,
        presence: match (mark.trim() == "!", is_pointer) {
            (true, false) => Presence::Always,
            (true, true) => Presence::Null,
            (false, true) => Presence::Given,
            (false, false) => Presence::NotZero,
        },
        default,
    }
}

fn numbered(number: &str, name: &str, declared: &str) -> Option<Numbered> {
    let number = number.parse().ok().filter(|number| *number > 0)?;
    let (kind, is_pointer) = pointed_to(declared);
    Some(Numbered {
        number,
        name: Some(name.to_owned()).filter(|name| name != INLINE),
        kind,
        is_pointer,
    })
}

fn pointed_to(declared: &str) -> (Kind, bool) {
    let below = declared.strip_prefix('*');
    (kind(below.unwrap_or(declared)), below.is_some())
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
        let mut found: Vec<String> = types.message_of.values().cloned().collect();
        let fields = types.structs.values().flat_map(|of| of.fields.values());
        let numbered = types.messages.values().flat_map(|of| &of.fields);
        fields
            .map(|field| &field.kind)
            .chain(numbered.map(|field| &field.kind))
            .for_each(|kind| named(kind, &mut found));
        found.retain(|name| !types.structs.contains_key(name));
        assert_eq!(found, Vec::<String>::new());
        assert!(types.roots.len() > 20 && types.structs.len() > 200);
    }

    #[test]
    fn a_field_is_in_json_and_in_protobuf_as_it_is_declared() {
        let types = types("p.A\n 2 - p.B\n 1 a *int32\n 3 c [string] !\n\np.B\n 0 d *p.A !\n 4 b any =1\n");
        let of_a = &types.structs["p.A"].fields;
        let presence: Vec<_> = of_a
            .iter()
            .map(|(name, field)| (&**name, field.presence))
            .collect();
        assert_eq!(
            presence,
            [
                ("a", Presence::Given),
                ("b", Presence::NotZero),
                ("c", Presence::Always),
                ("d", Presence::Null)
            ]
        );
        assert_eq!(of_a["b"].default, Some(serde_json::json!(1)));
        let message = |name: &str| -> Vec<_> {
            let fields = types.messages[name].fields.iter();
            fields
                .map(|field| (field.number, field.name.clone(), field.is_pointer))
                .collect()
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(
            message("p.A"),
            [(2, None, false), (1, name("a"), true), (3, name("c"), false)]
        );
        assert_eq!(message("p.B"), [(4, name("b"), false)]);
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
