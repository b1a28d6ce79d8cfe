//! The parts of a binary as an [SPDX 2.3](https://spdx.github.io/spdx-spec/v2.3/) document: linked crates, Rust's
//! library and the C library.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::binary::Binary;
use super::layout::sha256;
use super::{About, Platform};
use xtask::command::{self, cargo};

const DOCUMENT: &str = "SPDXRef-DOCUMENT";

/// A crate in the tree; [`Part::id`] is its id in the document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) version: String,
    license: String,
    /// Empty if unknown.
    repository: String,
    /// From this workspace, not from a registry.
    pub(super) ours: bool,
}

/// The crates of a controller; each has the ids of its dependencies.
pub(super) fn parts(controller: &str, platform: Platform) -> Result<BTreeMap<Part, Vec<String>>> {
    parse(&tree(controller, platform)?)
}

/// The SPDX document of `built`, which consists of `parts` and has the bytes `binary`.
pub(super) fn of(
    about: &About,
    built: &Binary,
    parts: &BTreeMap<Part, Vec<String>>,
    binary: &[u8],
) -> Result<Value> {
    let rust = rust_release()?;
    let libc = built.libc()?;
    let platform = built.platform.arch();
    let name = format!(
        "{}-{}-linux-{platform}",
        about.package.name, about.package.version
    );
    let mut packages: Vec<Value> = parts.keys().map(Part::package).collect();
    packages.push(linked("rust-std", "rust", &rust, "MIT OR Apache-2.0"));
    packages.push(linked("glibc", "glibc", &libc, "LGPL-2.1-or-later"));
    let root = parts
        .keys()
        .find(|part| part.name == about.package.name)
        .context("the tree is of another crate")?
        .id();
    let mut relationships = vec![relationship(DOCUMENT, "DESCRIBES", &root)];
    for (part, needs) in parts {
        relationships.extend(needs.iter().map(|id| relationship(&part.id(), "DEPENDS_ON", id)));
    }
    for library in ["SPDXRef-rust-std", "SPDXRef-glibc"] {
        relationships.push(relationship(&root, "STATIC_LINK", library));
    }
    Ok(json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": DOCUMENT,
        // Unique to the bytes of this binary.
        "documentNamespace": format!("https://spdx.org/spdxdocs/{name}-{}", sha256(binary)),
        "name": name,
        "creationInfo": {
            "created": about.created.to_string(),
            "creators": ["Tool: cargo-xtask-image"],
        },
        "packages": packages,
        "relationships": relationships,
    }))
}

/// The tree of crates in the binary, one a line: depth and three fields.
///
/// From `cargo tree`, as `cargo metadata` reports the features of the whole workspace, where tests enable more.
fn tree(controller: &str, platform: Platform) -> Result<String> {
    let mut tree = cargo([
        "tree",
        "--locked",
        "--package",
        controller,
        "--target",
        platform.triple(),
    ]);
    tree.args([
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "depth",
        "--charset",
        "ascii",
    ]);
    command::output(tree.args(["--format", "|{p}|{l}|{r}"]))
}

/// Each crate with the ids of its dependencies.
pub(super) fn parse(tree: &str) -> Result<BTreeMap<Part, Vec<String>>> {
    let mut parts = BTreeMap::<Part, Vec<String>>::new();
    // From the root to the crate of the previous line.
    let mut above: Vec<Part> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let (depth, part) = parse_line(line).with_context(|| format!("cargo tree said {line:?}"))?;
        above.truncate(depth);
        if let Some(dependents) = above.last().and_then(|dependent| parts.get_mut(dependent))
            && !dependents.contains(&part.id())
        {
            dependents.push(part.id());
        }
        parts.entry(part.clone()).or_default();
        above.push(part);
    }
    Ok(parts)
}

/// `2|rustls v0.23.1|Apache-2.0|https://…`; followed by `(*)` if its dependencies were shown before. Crates of the
/// workspace have a path after the version.
fn parse_line(line: &str) -> Option<(usize, Part)> {
    let line = line.strip_suffix(" (*)").unwrap_or(line);
    let mut fields = line.split('|');
    let depth = fields.next()?.parse().ok()?;
    let mut package = fields.next()?.split(' ');
    Some((
        depth,
        Part {
            name: package.next()?.to_owned(),
            version: package.next()?.strip_prefix('v')?.to_owned(),
            license: fields.next()?.replace('/', " OR "),
            repository: fields.next()?.to_owned(),
            ours: package.next().is_some(),
        },
    ))
}

impl Part {
    /// Id in the document.
    pub(super) fn id(&self) -> String {
        // SPDX allows only letters, digits, `.` and `-`.
        let id = format!("SPDXRef-crate-{}-{}", self.name, self.version);
        id.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-")
    }

    fn package(&self) -> Value {
        let Self { name, version, .. } = self;
        let mut package = package(&self.id(), name, version, &self.license);
        if !self.ours {
            package["downloadLocation"] =
                format!("https://static.crates.io/crates/{name}/{name}-{version}.crate").into();
            // Build metadata (`1.2.3+4`) is part of the version.
            let url = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
            package["externalRefs"] = reference(&url);
        }
        if !self.repository.is_empty() {
            package["sourceInfo"] = self.repository.clone().into();
        }
        package
    }
}

/// Fields that SPDX requires of any package; callers with a download location add it.
fn package(id: &str, name: &str, version: &str, license: &str) -> Value {
    json!({
        "SPDXID": id,
        "name": name,
        "versionInfo": version,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": license,
        "copyrightText": "NOASSERTION",
        "filesAnalyzed": false,
        "downloadLocation": "NOASSERTION",
    })
}

/// A library of the toolchain; scanners know it as part of `product`.
fn linked(name: &str, product: &str, version: &str, license: &str) -> Value {
    let mut package = package(&format!("SPDXRef-{name}"), name, version, license);
    package["externalRefs"] = reference(&format!("pkg:generic/{product}@{version}"));
    package
}

/// Reference by which scanners look up advisories.
fn reference(package_url: &str) -> Value {
    json!([{
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": package_url,
    }])
}

fn relationship(from: &str, kind: &str, to: &str) -> Value {
    json!({"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to})
}

/// `rustc 1.95.0 (59807616e 2026-04-14)` → `1.95.0`.
fn rust_release() -> Result<String> {
    let mut ask = std::process::Command::new("rustc");
    let version = command::output(ask.arg("--version").current_dir(command::root()))?;
    let release = version.split(' ').nth(1);
    Ok(release
        .with_context(|| format!("rustc says {version:?}"))?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_read_with_its_edges() {
        let tree = "0|ours v0.1.0 (/src/ours)|Apache-2.0|\n\
                    1|kube v5.0.0|Apache-2.0|https://example.com/kube\n\
                    2|http v1.5.0|MIT/Apache-2.0|\n\
                    1|http v1.5.0|MIT/Apache-2.0| (*)\n";
        let parts = parse(tree).unwrap();
        let edges: Vec<_> = parts
            .iter()
            .map(|(part, needs)| (part.name.as_str(), part.ours, needs.join(" ")))
            .collect();
        assert_eq!(
            edges,
            [
                ("http", false, String::new()),
                ("kube", false, "SPDXRef-crate-http-1.5.0".to_owned()),
                (
                    "ours",
                    true,
                    "SPDXRef-crate-kube-5.0.0 SPDXRef-crate-http-1.5.0".to_owned()
                ),
            ]
        );
        assert_eq!(parts.keys().next().unwrap().license, "MIT OR Apache-2.0");
        assert!(parse("no tree").is_err());
    }

    #[test]
    fn what_only_tests_and_macros_need_is_not_in_the_binary() {
        let parts = parts("ttl-controller", Platform::Amd64).unwrap();
        let has = |name: &str| parts.keys().any(|part| part.name == name);
        assert!(has("ttl-controller") && has("rustls") && has("tokio"));
        assert!(!has("proptest") && !has("serde_derive") && !has("cc"));
    }

    #[test]
    fn a_crate_is_named_as_scanners_look_it_up() {
        let part = Part {
            name: "linux_raw-sys".to_owned(),
            version: "0.1.0+1.9".to_owned(),
            license: "MIT".to_owned(),
            repository: String::new(),
            ours: false,
        };
        assert_eq!(part.id(), "SPDXRef-crate-linux-raw-sys-0.1.0-1.9");
        let package = part.package();
        let url = &package["externalRefs"][0]["referenceLocator"];
        assert_eq!(url, "pkg:cargo/linux_raw-sys@0.1.0%2B1.9");
    }
}
