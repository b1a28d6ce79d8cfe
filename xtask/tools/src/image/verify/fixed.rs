//! Checks of an image without running it.

use std::io::Read;

use anyhow::{Context, Result, bail, ensure};
use oci_spec::image::Arch;
use serde_json::Value;

use crate::image::read::{Image, Variant};
use crate::image::{FOLDER, USER, auditable};

/// Maximum size of an image on a node, in bytes.
const LIMIT: u64 = 15 << 20;

/// Checked properties of an image that is not running.
pub(super) struct Fixed {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) revision: String,
    arch: Arch,
    pub(super) entrypoint: Vec<String>,
    env: Vec<String>,
    /// Size of the binary, in bytes.
    size: u64,
    /// Number of packages in the SBOM.
    parts: usize,
}

impl std::fmt::Display for Fixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kib = self.size >> 10;
        write!(
            f,
            "{} {} linux/{}: {}.{} MiB, {} packages in its SBOM",
            self.name,
            self.version,
            self.arch,
            kib >> 10,
            (kib & 1023) * 10 / 1024,
            self.parts
        )
    }
}

impl Fixed {
    pub(super) fn check(image: &Image, variant: &Variant) -> Result<Self> {
        let config = variant
            .config
            .config()
            .as_ref()
            .context("no configuration to run with")?;
        let label = |name: &str| -> Result<String> {
            let labels = config.labels().as_ref();
            let value = labels.and_then(|labels| labels.get(&format!("org.opencontainers.image.{name}")));
            Ok(value.with_context(|| format!("no label {name}"))?.clone())
        };
        let (name, version) = (label("title")?, label("version")?);
        for label_name in ["description", "licenses", "created"] {
            label(label_name)?;
        }
        ensure!(
            image.reference == version,
            "the layout calls it {}, its label {version}",
            image.reference
        );
        ensure!(
            config.user().as_deref() == Some(USER),
            "it runs as {:?}",
            config.user()
        );
        let entrypoint = config.entrypoint().clone().unwrap_or_default();
        ensure!(
            entrypoint == [format!("/{FOLDER}/{name}")],
            "it runs {entrypoint:?}"
        );
        let binary = only_the_binary(variant, &format!("{FOLDER}/{name}"))?;
        let size = u64::try_from(binary.len())?;
        ensure!(size < LIMIT, "{name} takes {size} bytes; it may take {LIMIT}");
        let parts = variant.sbom["packages"]
            .as_array()
            .context("an SBOM without packages")?;
        ensure!(
            parts
                .iter()
                .any(|part| part["name"] == *name && part["versionInfo"] == *version),
            "the SBOM is of something else"
        );
        let audited = auditable::read(&binary)?;
        let audited = audited["packages"].as_array().context("a binary of no crates")?;
        let linked = parts.iter().filter(|part| is_crate(part));
        ensure!(
            audited
                .iter()
                .map(|part| [&part["name"], &part["version"]])
                .eq(linked.map(|part| [&part["name"], &part["versionInfo"]])),
            "the binary says that it is made of other crates than its SBOM"
        );
        Ok(Self {
            name,
            version,
            revision: label("revision")?,
            arch: variant.arch.clone(),
            entrypoint,
            env: config.env().clone().unwrap_or_default(),
            size,
            parts: parts.len(),
        })
    }

    /// Environment of the entry point.
    pub(super) fn environment(&self) -> Vec<(&str, &str)> {
        self.env
            .iter()
            .filter_map(|variable| variable.split_once('='))
            .collect()
    }
}

/// True for crates among the packages of the SBOM, not for the toolchain's libraries.
fn is_crate(package: &Value) -> bool {
    let id = package["SPDXID"].as_str();
    id.is_some_and(|id| id.starts_with("SPDXRef-crate-"))
}

/// The binary; fails if there is another file or the binary is for another platform.
fn only_the_binary(variant: &Variant, path: &str) -> Result<Vec<u8>> {
    let mut files = Vec::new();
    for entry in tar::Archive::new(variant.layer.as_slice()).entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_dir() {
            continue;
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).context("read a file")?;
        files.push((entry.path()?.display().to_string(), content));
    }
    let files_found = files.len();
    let (Some((found, content)), 1) = (files.pop(), files_found) else {
        bail!("it holds {files_found} files instead of its binary alone");
    };
    ensure!(found == path, "it holds {found}, not {path}");
    // The ELF header: its magic number, and e_machine.
    let machine = match variant.arch {
        Arch::Amd64 => 0x3e,
        Arch::ARM64 => 0xb7,
        _ => bail!("nothing is shipped for {}", variant.arch),
    };
    ensure!(
        content.starts_with(b"\x7fELF") && content.get(18..20) == Some(&[machine, 0][..]),
        "{found} is no program for {}",
        variant.arch
    );
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Platform;
    use crate::image::layout::tests::image;

    #[test]
    fn a_text_is_no_program_for_a_platform() {
        let image = Image::read(&image(&[Platform::Amd64]).bytes).unwrap();
        let error = Fixed::check(&image, &image.variants[0])
            .err()
            .unwrap()
            .to_string();
        assert_eq!(error, "usr/local/bin/ttl-controller is no program for amd64");
    }
}
