//! The fields of Go structs as their source declares them: what Go writes although it is empty.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// When Go writes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Even when it is empty.
    Always,
    /// Always, as `null` when its pointer is not set.
    Null,
    /// When its pointer is set, be it to an empty value.
    Kept,
    /// When it is not empty.
    WhenSet,
}

/// The fields of Go structs, by package and type.
#[derive(Default)]
pub(super) struct GoTypes(BTreeMap<String, GoStruct>);

#[derive(Default)]
struct GoStruct {
    /// By their names in JSON.
    fields: BTreeMap<String, GoField>,
    /// Types whose fields are part of this one.
    embedded: Vec<String>,
}

struct GoField {
    go_type: String,
    omit_empty: bool,
    omit_zero: bool,
}

impl GoTypes {
    /// Reads the files of a package that declare its types.
    pub(super) fn read(&mut self, package: &str, dir: &Path) -> Result<()> {
        for entry in dir
            .read_dir()
            .with_context(|| format!("list {}", dir.display()))?
        {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_generated = name.starts_with("zz_") || name.starts_with("generated");
            if name.ends_with(".go") && !name.ends_with("_test.go") && !is_generated {
                self.read_types(package, &fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }

    fn read_types(&mut self, package: &str, text: &str) {
        let mut current: Option<String> = None;
        for line in text.lines() {
            if let Some(name) = line
                .strip_prefix("type ")
                .and_then(|rest| rest.strip_suffix(" struct {"))
            {
                let name = format!("{package}.{name}");
                self.0.entry(name.clone()).or_default();
                current = Some(name);
            } else if line == "}" {
                current = None;
            } else if let Some(name) = &current {
                self.0.entry(name.clone()).or_default().read_field(package, line);
            }
        }
    }

    pub(super) fn presence(&self, of: &str, field: &str) -> Presence {
        let Some(found) = self.field(of, field) else {
            return Presence::WhenSet;
        };
        let is_reference = ["*", "[]", "map["]
            .iter()
            .any(|prefix| found.go_type.starts_with(prefix));
        let omits_empty_struct = found.omit_zero || !self.is_struct(of, &found.go_type);
        if !found.omit_empty && !found.omit_zero {
            if found.go_type.starts_with('*') {
                Presence::Null
            } else {
                Presence::Always
            }
        } else if is_reference {
            if found.go_type.starts_with('*') {
                Presence::Kept
            } else {
                Presence::WhenSet
            }
        } else if omits_empty_struct {
            Presence::WhenSet
        } else {
            Presence::Always
        }
    }

    fn field(&self, of: &str, field: &str) -> Option<&GoField> {
        let found = self.0.get(of)?;
        found
            .fields
            .get(field)
            .or_else(|| found.embedded.iter().find_map(|part| self.field(part, field)))
    }

    /// Whether `omitempty` has no effect on a type, as seen from the package of `of`.
    fn is_struct(&self, of: &str, go_type: &str) -> bool {
        // Packages have local names; their structs have names of their own.
        if let Some((_, name)) = go_type.split_once('.') {
            return self.0.keys().any(|known| known.rsplit('.').next() == Some(name));
        }
        let package = of.rsplit_once('.').map_or(of, |(package, _)| package);
        self.0.contains_key(&format!("{package}.{go_type}"))
    }
}

impl GoStruct {
    /// `\tName Type `json:"name,omitempty" …``, or `\tType `json:",inline"`` for an embedded one.
    fn read_field(&mut self, package: &str, line: &str) {
        let Some((declared, tag)) = line.trim().split_once("`json:\"") else {
            return;
        };
        let tag = tag.split('"').next().unwrap_or_default();
        let mut options = tag.split(',');
        let name = options.next().unwrap_or_default();
        let options: Vec<&str> = options.collect();
        // The type is the last word, and the only one where it is embedded.
        let Some(go_type) = declared.split_whitespace().last() else {
            return;
        };
        if options.contains(&"inline") {
            self.embedded.push(format!("{package}.{go_type}"));
        } else {
            let field = GoField {
                go_type: go_type.to_owned(),
                omit_empty: options.contains(&"omitempty"),
                omit_zero: options.contains(&"omitzero"),
            };
            self.fields.insert(name.to_owned(), field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_written_as_its_go_type_says() {
        let mut types = GoTypes::default();
        types.read_types(
            "p",
            "type Time struct {\n}\ntype ObjectMeta struct {\n}\ntype Inner struct {\n\tPort int32 `json:\"Port\" protobuf:\"…\"`\n}\n\
             type Outer struct {\n\tInner `json:\",inline\"`\n\tA string `json:\"a,omitempty\"`\n\
             \tB *bool `json:\"b,omitempty\"`\n\tC Inner `json:\"c,omitempty\"`\n\
             \tD metav1.Time `json:\"d,omitempty\"`\n\tE metav1.Time `json:\"e,omitempty,omitzero\"`\n\
             \tF []string `json:\"f\"`\n\tI *Inner `json:\"i\"`\n\tG types.UID `json:\"g,omitempty\"`\n\
             \tmetav1.ObjectMeta `json:\"h,omitempty\"`\n}\n",
        );
        let presence = |field: &str| types.presence("p.Outer", field);
        assert_eq!(
            ["Port", "a", "b", "c", "d", "e", "f", "g", "h", "i"].map(presence),
            [
                Presence::Always,
                Presence::WhenSet,
                Presence::Kept,
                Presence::Always,
                Presence::Always,
                Presence::WhenSet,
                Presence::Always,
                Presence::WhenSet,
                Presence::Always,
                Presence::Null,
            ]
        );
    }
}
