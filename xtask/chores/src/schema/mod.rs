//! `cargo xtask schema`: writes what objects of the served kinds look like, for the embedded API server.
//!
//! Two sources, both of the release of Kubernetes that the control plane of the tests is built from: the
//! OpenAPI documents say which fields there are and how they merge, the Go types which of them are written
//! although they are empty. The form of the file is told in its reader, `embedded/schema/parse.rs`.

mod go_types;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use testkit::embedded::{ALPHA, SERVED};

use self::go_types::{GoTypes, Presence};
use xtask::command::root;

/// The file that is written.
const TARGET: &str = "crates/testkit/src/embedded/schema/kubernetes.txt";
const KUBERNETES: &str = "kubernetes";
/// The modules with the Go types, and what the names of their types start with in OpenAPI.
const MODULES: [(&str, &str); 3] = [
    ("api", "io.k8s.api."),
    ("apimachinery", "io.k8s.apimachinery."),
    ("apiextensions-apiserver", "io.k8s.apiextensions-apiserver."),
];
/// Needed whatever is served: custom resources have it too.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory of the k8s.io modules, with their versions in their names; asked of Go by default
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let modules = Modules::find(args.source.as_deref())?;
    let definitions = Definitions::read(&modules)?;
    let mut text = format!(
        "# Kubernetes {}. Written by `cargo xtask schema`.\n",
        modules.version()?
    );
    let mut wanted = BTreeSet::from([OBJECT_META.to_owned()]);
    for resource in SERVED.iter().chain(ALPHA) {
        let api_version = resource.api_version();
        // Custom resources among them bring their own.
        if let Some(name) = definitions.of_kind(resource.group, resource.version, resource.kind) {
            writeln!(text, "kind {api_version} {} {}", resource.kind, short(name))?;
            wanted.insert(name.to_owned());
        }
    }
    for name in definitions.reachable(wanted) {
        definitions.write(&name, &mut text)?;
    }
    fs::write(root().join(TARGET), text).with_context(|| format!("write {TARGET}"))?;
    println!("wrote {TARGET}");
    Ok(())
}

/// Where the sources of the modules are.
struct Modules(BTreeMap<&'static str, PathBuf>);

impl Modules {
    fn find(source: Option<&Path>) -> Result<Self> {
        MODULES
            .iter()
            .map(|(name, _)| *name)
            .chain([KUBERNETES])
            .map(|name| {
                Ok((
                    name,
                    source.map_or_else(|| ask_go(name), |dir| newest(dir, name))?,
                ))
            })
            .collect::<Result<_>>()
            .map(Self)
    }

    fn dir(&self, name: &str) -> Result<&Path> {
        self.0.get(name).map(PathBuf::as_path).context("no such module")
    }

    /// `v1.37.2`.
    fn version(&self) -> Result<String> {
        let dir = self.dir(KUBERNETES)?.to_string_lossy();
        let (_, version) = dir.rsplit_once('@').context("the module has no version")?;
        Ok(version.to_owned())
    }
}

fn ask_go(module: &str) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}"])
        .arg(format!("k8s.io/{module}"))
        .current_dir(root().join("crates/testkit/control-plane"))
        .output()
        .context("start `go list`; without Go, --source names the modules")?;
    let dir = String::from_utf8(output.stdout)?.trim().to_owned();
    if !output.status.success() || dir.is_empty() {
        bail!("Go does not have k8s.io/{module}: `go mod download` in crates/testkit/control-plane");
    }
    Ok(dir.into())
}

fn newest(dir: &Path, module: &str) -> Result<PathBuf> {
    let prefix = format!("{module}@");
    let mut found = Vec::new();
    for entry in dir
        .read_dir()
        .with_context(|| format!("list {}", dir.display()))?
    {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            found.push(entry.path());
        }
    }
    found.sort();
    found
        .pop()
        .with_context(|| format!("no {module} in {}", dir.display()))
}

/// `core.v1.Pod` of `io.k8s.api.core.v1.Pod`.
fn short(name: &str) -> &str {
    MODULES
        .iter()
        .find_map(|(_, prefix)| name.strip_prefix(prefix))
        .unwrap_or(name)
        .trim_start_matches("pkg.apis.")
}

/// The definitions of OpenAPI and the Go types behind them.
struct Definitions {
    schemas: BTreeMap<String, Value>,
    types: GoTypes,
}

impl Definitions {
    fn read(modules: &Modules) -> Result<Self> {
        let mut schemas = BTreeMap::new();
        let documents = modules.dir(KUBERNETES)?.join("api/openapi-spec/v3");
        for entry in documents
            .read_dir()
            .with_context(|| format!("list {}", documents.display()))?
        {
            let text = fs::read_to_string(entry?.path())?;
            let document: Value = serde_json::from_str(&text)?;
            if let Some(found) = document["components"]["schemas"].as_object() {
                schemas.extend(found.clone());
            }
        }
        let mut types = GoTypes::default();
        for (module, prefix) in MODULES {
            let dir = modules.dir(module)?;
            let packages: BTreeSet<&str> = schemas
                .keys()
                .filter_map(|name| Some(name.strip_prefix(prefix)?.rsplit_once('.')?.0))
                .collect();
            for package in packages {
                let mut path = dir.to_owned();
                path.extend(package.split('.'));
                types.read(&format!("{prefix}{package}"), &path)?;
            }
        }
        Ok(Self { schemas, types })
    }

    fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&str> {
        let wanted = serde_json::json!({ "group": group, "kind": kind, "version": version });
        self.schemas
            .iter()
            .find(|(_, schema)| {
                schema["x-kubernetes-group-version-kind"]
                    .as_array()
                    .is_some_and(|kinds| kinds.contains(&wanted))
            })
            .map(|(name, _)| name.as_str())
    }

    /// The structs among `wanted` and all that they lead to.
    fn reachable(&self, wanted: BTreeSet<String>) -> BTreeSet<String> {
        let mut open: Vec<String> = wanted.into_iter().collect();
        let mut found = BTreeSet::new();
        while let Some(name) = open.pop() {
            let Some(schema) = self.schemas.get(&name).filter(|schema| is_struct(schema)) else {
                continue;
            };
            if found.insert(name) {
                for property in schema["properties"]
                    .as_object()
                    .into_iter()
                    .flat_map(|all| all.values())
                {
                    open.extend(referred(property));
                }
            }
        }
        found
    }

    fn write(&self, name: &str, text: &mut String) -> Result<()> {
        let schema = self.schemas.get(name).context("no such definition")?;
        writeln!(text, "\n{}", short(name))?;
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            write!(text, " {field} {}", self.kind(property))?;
            match self.types.presence(name, field) {
                Presence::Always => text.push_str(" !"),
                Presence::Null => text.push_str(" !null"),
                Presence::Kept if scalar(property).is_some() || self.names_scalar(property) => {
                    text.push_str(" ?");
                }
                Presence::Kept | Presence::WhenSet => {}
            }
            let default = &property["default"];
            let says_nothing = ["", "0", "false", "\"\"", "{}", "null"].contains(&&*default.to_string());
            if !says_nothing {
                write!(text, " ={default}")?;
            }
            text.push('\n');
        }
        Ok(())
    }

    fn names_scalar(&self, property: &Value) -> bool {
        reference(property)
            .and_then(|name| self.schemas.get(name))
            .is_some_and(|schema| !is_struct(schema))
    }

    /// The type of a value, in the form of the file.
    fn kind(&self, property: &Value) -> String {
        if let Some(name) = reference(property) {
            return self.named(name, property);
        }
        match property["type"].as_str() {
            Some("array") => {
                let item = self.kind(&property["items"]);
                let keys = match property["x-kubernetes-list-type"].as_str() {
                    Some("set") => "{}".to_owned(),
                    Some("map") => {
                        format!("{{{}}}", texts(&property["x-kubernetes-list-map-keys"]).join(","))
                    }
                    _ => String::new(),
                };
                let merges = property["x-kubernetes-patch-strategy"]
                    .as_str()
                    .is_some_and(|strategy| strategy.split(',').any(|part| part == "merge"));
                let key = property["x-kubernetes-patch-merge-key"]
                    .as_str()
                    .unwrap_or_default();
                let merge = if merges { format!("+{key}") } else { String::new() };
                format!("[{item}]{keys}{merge}")
            }
            Some("object") if property.get("additionalProperties").is_some() => {
                let value = self.kind(&property["additionalProperties"]);
                format!("<{value}>{}", atomic(property))
            }
            _ => scalar(property).unwrap_or("any").to_owned(),
        }
    }

    fn named(&self, name: &str, property: &Value) -> String {
        match short(name) {
            "api.resource.Quantity" | "pkg.api.resource.Quantity" => return "quantity".to_owned(),
            "util.intstr.IntOrString" | "pkg.util.intstr.IntOrString" => return "int-or-string".to_owned(),
            "meta.v1.Time" => return "time".to_owned(),
            "meta.v1.MicroTime" => return "micro-time".to_owned(),
            _ => {}
        }
        let Some(schema) = self.schemas.get(name).filter(|schema| is_struct(schema)) else {
            return "any".to_owned();
        };
        let is_atomic = !atomic(property).is_empty() || !atomic(schema).is_empty();
        format!("{}{}", short(name), if is_atomic { "~" } else { "" })
    }
}

fn is_struct(schema: &Value) -> bool {
    schema["properties"].is_object()
}

fn atomic(schema: &Value) -> &'static str {
    if schema["x-kubernetes-map-type"] == "atomic" {
        "~"
    } else {
        ""
    }
}

fn scalar(property: &Value) -> Option<&'static str> {
    match (property["type"].as_str()?, property["format"].as_str()) {
        ("string", Some("byte")) => Some("bytes"),
        ("string", _) => Some("string"),
        ("boolean", _) => Some("bool"),
        ("integer", Some("int32")) => Some("int32"),
        ("integer", _) => Some("int64"),
        ("number", _) => Some("float64"),
        _ => None,
    }
}

fn reference(property: &Value) -> Option<&str> {
    let direct = property["$ref"].as_str();
    let wrapped = property["allOf"][0]["$ref"].as_str();
    direct.or(wrapped)?.rsplit('/').next()
}

/// The definitions that a property names, at any depth.
fn referred(property: &Value) -> Vec<String> {
    let own = reference(property).map(str::to_owned);
    ["items", "additionalProperties"]
        .iter()
        .filter_map(|below| property.get(*below))
        .flat_map(referred)
        .chain(own)
        .collect()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_written_with_how_they_merge() {
        let definitions = Definitions {
            schemas: BTreeMap::new(),
            types: GoTypes::default(),
        };
        let ports = serde_json::json!({
            "type": "array",
            "items": { "type": "integer", "format": "int32" },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
            "x-kubernetes-patch-merge-key": "containerPort",
            "x-kubernetes-patch-strategy": "merge",
        });
        assert_eq!(
            definitions.kind(&ports),
            "[int32]{containerPort,protocol}+containerPort"
        );
        let map = serde_json::json!({
            "type": "object",
            "additionalProperties": { "type": "string" },
            "x-kubernetes-map-type": "atomic",
        });
        assert_eq!(definitions.kind(&map), "<string>~");
    }
}
